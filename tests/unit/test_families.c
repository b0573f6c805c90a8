// SPDX-License-Identifier: GPL-3.0-or-later
/* Model families: a config.json in Hugging Face's form gives the same model as the card of the same
 * name, and every card has the published number of parameters. */
#include "cards.h"

#include <math.h>

static void read_config(const char *text, ds_model *m) {
  ds_doc doc;
  ds_diag d = {0};
  bool ok = ds_doc_parse(text, strlen(text), "hub/my-model/config.json", &doc, &d) &&
            ds_is_config_json(doc.root) && ds_config_json_model(&doc, m, &d);
  cr_assert(ok, "%s (%s) in %.60s", d.text, d.expected, text);
  ds_doc_free(&doc);
}

static const struct {
  const char *card, *text;
} CONFIGS[] = {
    {"mixtral-8x7b",
     "{'architectures': ['MixtralForCausalLM'], 'hidden_size': 4096, 'intermediate_size': 14336,"
     "'max_position_embeddings': 32768, 'model_type': 'mixtral', 'num_attention_heads': 32,"
     "'num_experts_per_tok': 2, 'num_hidden_layers': 32, 'num_key_value_heads': 8,"
     "'num_local_experts': 8, 'sliding_window': null, 'tie_word_embeddings': false,"
     "'torch_dtype': 'bfloat16', 'vocab_size': 32000}"},
    {"qwen3-30b-a3b",
     "{'architectures': ['Qwen3MoeForCausalLM'], 'attention_bias': false, 'decoder_sparse_step': 1,"
     "'head_dim': 128, 'hidden_size': 2048, 'intermediate_size': 6144, 'max_position_embeddings': "
     "40960, 'mlp_only_layers': [], 'moe_intermediate_size': 768, 'num_attention_heads': 32,"
     "'num_experts': 128, 'num_experts_per_tok': 8, 'num_hidden_layers': 48,"
     "'num_key_value_heads': 4, 'sliding_window': null, 'tie_word_embeddings': false,"
     "'torch_dtype': 'bfloat16', 'use_sliding_window': false, 'vocab_size': 151936}"},
    {"deepseek-v3",
     "{'architectures': ['DeepseekV3ForCausalLM'], 'attention_bias': false, 'first_k_dense_replace':"
     "3, 'hidden_size': 7168, 'intermediate_size': 18432, 'kv_lora_rank': 512,"
     "'max_position_embeddings': 163840, 'moe_intermediate_size': 2048, 'moe_layer_freq': 1,"
     "'n_group': 8, 'n_routed_experts': 256, 'n_shared_experts': 1, 'num_attention_heads': 128,"
     "'num_experts_per_tok': 8, 'num_hidden_layers': 61, 'num_key_value_heads': 128,"
     "'q_lora_rank': 1536, 'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64,"
     "'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [128, 128]},"
     "'tie_word_embeddings': false, 'torch_dtype': 'bfloat16', 'v_head_dim': 128,"
     "'vocab_size': 129280}"},
    {"deepseek-v3.2",
     "{'architectures': ['DeepseekV32ForCausalLM'], 'first_k_dense_replace': 3, 'hidden_size': 7168,"
     "'index_head_dim': 128, 'index_n_heads': 64, 'index_topk': 2048, 'intermediate_size': 18432,"
     "'kv_lora_rank': 512, 'max_position_embeddings': 163840, 'moe_intermediate_size': 2048,"
     "'n_routed_experts': 256, 'n_shared_experts': 1, 'num_attention_heads': 128,"
     "'num_experts_per_tok': 8, 'num_hidden_layers': 61, 'num_key_value_heads': 128,"
     "'q_lora_rank': 1536, 'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64,"
     "'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [128, 128]},"
     "'tie_word_embeddings': false, 'v_head_dim': 128, 'vocab_size': 129280}"},
    {"deepseek-v2-lite",
     "{'architectures': ['DeepseekV2ForCausalLM'], 'first_k_dense_replace': 1, 'hidden_size': 2048,"
     "'intermediate_size': 10944, 'kv_lora_rank': 512, 'max_position_embeddings': 163840,"
     "'moe_intermediate_size': 1408, 'moe_layer_freq': 1, 'n_routed_experts': 64,"
     "'n_shared_experts': 2, 'num_attention_heads': 16, 'num_experts_per_tok': 6,"
     "'num_hidden_layers': 27, 'num_key_value_heads': 16, 'q_lora_rank': null,"
     "'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64, 'v_head_dim': 128, 'vocab_size': 102400,"
     "'torch_dtype': 'bfloat16'}"},
    {"kimi-k2",
     "{'architectures': ['DeepseekV3ForCausalLM'], 'model_type': 'kimi_k2', 'first_k_dense_replace':"
     "1, 'hidden_size': 7168, 'intermediate_size': 18432, 'kv_lora_rank': 512,"
     "'max_position_embeddings': 131072, 'moe_intermediate_size': 2048, 'n_routed_experts': 384,"
     "'n_shared_experts': 1, 'num_attention_heads': 64, 'num_experts_per_tok': 8,"
     "'num_hidden_layers': 61, 'num_key_value_heads': 64, 'q_lora_rank': 1536,"
     "'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64, 'v_head_dim': 128, 'vocab_size': 163840,"
     "'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [128, 128]}}"},
    {"gpt-oss-120b",
     "{'architectures': ['GptOssForCausalLM'], 'attention_bias': true, 'head_dim': 64,"
     "'hidden_size': 2880, 'intermediate_size': 2880, 'max_position_embeddings': 131072,"
     "'num_attention_heads': 64, 'num_experts_per_tok': 4, 'num_hidden_layers': 36,"
     "'num_key_value_heads': 8, 'num_local_experts': 128, 'quantization_config': {'quant_method':"
     "'mxfp4', 'modules_to_not_convert': []}, 'sliding_window': 128, 'tie_word_embeddings': false,"
     "'vocab_size': 201088}"},
    {"llama-4-maverick",
     "{'architectures': ['Llama4ForConditionalGeneration'], 'model_type': 'llama4', 'text_config':"
     "{'attention_bias': false, 'attention_chunk_size': 8192, 'head_dim': 128, 'hidden_size': 5120,"
     "'interleave_moe_layer_step': 2, 'intermediate_size': 8192, 'intermediate_size_mlp': 16384,"
     "'max_position_embeddings': 1048576, 'num_attention_heads': 40, 'num_experts_per_tok': 1,"
     "'num_hidden_layers': 48, 'num_key_value_heads': 8, 'num_local_experts': 128,"
     "'vocab_size': 202048}, 'vision_config': {'hidden_size': 1408}, 'torch_dtype': 'bfloat16'}"},
    {"llama-4-scout",
     "{'architectures': ['Llama4ForConditionalGeneration'], 'text_config':"
     "{'attention_chunk_size': 8192, 'head_dim': 128, 'hidden_size': 5120,"
     "'interleave_moe_layer_step': 1, 'intermediate_size': 8192, 'intermediate_size_mlp': 16384,"
     "'max_position_embeddings': 10485760, 'num_attention_heads': 40, 'num_experts_per_tok': 1,"
     "'num_hidden_layers': 48, 'num_key_value_heads': 8, 'num_local_experts': 16,"
     "'vocab_size': 202048}, "
     "'vision_config': {'hidden_size': 1408, 'image_size': 336, 'intermediate_size': 5632, "
     "'model_type': 'llama4_vision_model', 'num_attention_heads': 16, 'num_hidden_layers': 34, "
     "'patch_size': 14, 'pixel_shuffle_ratio': 0.5, 'projector_input_dim': 4096, "
     "'projector_output_dim': 4096, 'vision_output_dim': 4096}}"},
    {"mistral-7b-v0.1",
     "{'architectures': ['MistralForCausalLM'], 'hidden_size': 4096, 'intermediate_size': 14336,"
     "'max_position_embeddings': 32768, 'num_attention_heads': 32, 'num_hidden_layers': 32,"
     "'num_key_value_heads': 8, 'sliding_window': 4096, 'vocab_size': 32000}"},
    {"gemma-2-27b",
     "{'architectures': ['Gemma2ForCausalLM'], 'head_dim': 128, 'hidden_size': 4608,"
     "'intermediate_size': 36864, 'max_position_embeddings': 8192, 'num_attention_heads': 32,"
     "'num_hidden_layers': 46, 'num_key_value_heads': 16, 'sliding_window': 4096,"
     "'vocab_size': 256000}"},
    {"gemma-3-1b",
     "{'architectures': ['Gemma3ForCausalLM'], 'head_dim': 256, 'hidden_size': 1152,"
     "'intermediate_size': 6912, 'max_position_embeddings': 32768, 'num_attention_heads': 4,"
     "'num_hidden_layers': 26, 'num_key_value_heads': 1, 'sliding_window': 512,"
     "'sliding_window_pattern': 6, 'vocab_size': 262144}"},
    {"phi-3-mini",
     "{'architectures': ['Phi3ForCausalLM'], 'hidden_size': 3072, 'intermediate_size': 8192,"
     "'max_position_embeddings': 4096, 'num_attention_heads': 32, 'num_hidden_layers': 32,"
     "'num_key_value_heads': 32, 'sliding_window': 2047, 'vocab_size': 32064}"},
    {"opt-13b",
     "{'architectures': ['OPTForCausalLM'], 'ffn_dim': 20480, 'hidden_size': 5120,"
     "'max_position_embeddings': 2048, 'num_attention_heads': 40, 'num_hidden_layers': 40,"
     "'torch_dtype': 'float16', 'vocab_size': 50272, 'word_embed_proj_dim': 5120}"},
    {"falcon-180b",
     "{'architectures': ['FalconForCausalLM'], 'alibi': false, 'bias': false, 'hidden_size': 14848,"
     "'new_decoder_architecture': true, 'num_attention_heads': 232, 'num_hidden_layers': 80,"
     "'num_kv_heads': 8, 'max_position_embeddings': 2048, 'parallel_attn': true,"
     "'tie_word_embeddings': false, 'vocab_size': 65024}"},
    {"command-a",
     "{'architectures': ['Cohere2ForCausalLM'], 'head_dim': 128, 'hidden_size': 12288,"
     "'intermediate_size': 36864, 'max_position_embeddings': 131072, 'num_attention_heads': 96,"
     "'num_hidden_layers': 64, 'num_key_value_heads': 8, 'sliding_window': 4096,"
     "'sliding_window_pattern': 4, 'vocab_size': 256000}"},
    {"glm-4.5",
     "{'architectures': ['Glm4MoeForCausalLM'], 'attention_bias': true, 'first_k_dense_replace': 3,"
     "'head_dim': 128, 'hidden_size': 5120, 'intermediate_size': 12288, 'max_position_embeddings':"
     "131072, 'moe_intermediate_size': 1536, 'n_routed_experts': 160, 'n_shared_experts': 1,"
     "'num_attention_heads': 96, 'num_experts_per_tok': 8, 'num_hidden_layers': 92,"
     "'num_key_value_heads': 8, 'use_qk_norm': true, 'vocab_size': 151552}"},
    {"minimax-m2",
     "{'architectures': ['MiniMaxM2ForCausalLM'], 'head_dim': 128, 'hidden_size': 3072,"
     "'intermediate_size': 1536, 'max_position_embeddings': 196608, 'num_attention_heads': 48,"
     "'num_experts_per_tok': 8, 'num_hidden_layers': 62, 'num_key_value_heads': 8,"
     "'num_local_experts': 256, 'quantization_config': {'quant_method': 'fp8', 'weight_block_size':"
     "[128, 128]}, 'use_qk_norm': true, 'vocab_size': 200064}"},
    {"qwen3-next-80b-a3b",
     "{'architectures': ['Qwen3NextForCausalLM'], 'full_attention_interval': 4, 'head_dim': 256,"
     "'hidden_size': 2048, 'intermediate_size': 5120, 'linear_conv_kernel_dim': 4,"
     "'linear_key_head_dim': 128, 'linear_num_key_heads': 16, 'linear_num_value_heads': 32,"
     "'linear_value_head_dim': 128, 'max_position_embeddings': 262144, 'moe_intermediate_size':"
     "512, 'num_attention_heads': 16, 'num_experts': 512, 'num_experts_per_tok': 10,"
     "'num_hidden_layers': 48, 'num_key_value_heads': 2, 'shared_expert_intermediate_size': 512,"
     "'vocab_size': 151936}"},
    {"gemma-3-27b",
     "{'architectures': ['Gemma3ForConditionalGeneration'], 'model_type': 'gemma3', "
     "'mm_tokens_per_image': 256, 'text_config': {'head_dim': 128, 'hidden_size': 5376, "
     "'intermediate_size': 21504, 'max_position_embeddings': 131072, 'num_attention_heads': 32, "
     "'num_hidden_layers': 62, 'num_key_value_heads': 16, 'sliding_window': 1024, "
     "'sliding_window_pattern': 6, 'vocab_size': 262208}, 'vision_config': {'hidden_size': 1152, "
     "'image_size': 896, 'intermediate_size': 4304, 'model_type': 'siglip_vision_model', "
     "'num_attention_heads': 16, 'num_hidden_layers': 27, 'patch_size': 14, 'vision_use_head': "
     "false}}"},
    {"qwen2.5-vl-7b",
     "{'architectures': ['Qwen2_5_VLForConditionalGeneration'], 'hidden_size': 3584, "
     "'image_token_id': 151655, 'intermediate_size': 18944, 'max_position_embeddings': 128000, "
     "'max_window_layers': 28, 'model_type': 'qwen2_5_vl', 'num_attention_heads': 28, "
     "'num_hidden_layers': 28, 'num_key_value_heads': 4, 'sliding_window': 32768, "
     "'tie_word_embeddings': false, 'torch_dtype': 'bfloat16', 'use_sliding_window': false, "
     "'vision_config': {'depth': 32, 'hidden_act': 'silu', 'hidden_size': 1280, "
     "'intermediate_size': 3420, 'num_heads': 16, 'in_chans': 3, 'out_hidden_size': 3584, "
     "'patch_size': 14, 'spatial_merge_size': 2, 'spatial_patch_size': 14, 'window_size': 112, "
     "'fullatt_block_indexes': [7, 15, 23, 31], 'tokens_per_second': 2, 'temporal_patch_size': 2},"
     " 'vocab_size': 152064}"},
    {"qwen2.5-vl-72b",
     "{'architectures': ['Qwen2_5_VLForConditionalGeneration'], 'hidden_size': 8192, "
     "'intermediate_size': 29568, 'max_position_embeddings': 128000, 'model_type': 'qwen2_5_vl', "
     "'num_attention_heads': 64, 'num_hidden_layers': 80, 'num_key_value_heads': 8, "
     "'tie_word_embeddings': false, 'use_sliding_window': false, 'vision_config': {'depth': 32, "
     "'hidden_size': 1280, 'intermediate_size': 3456, 'num_heads': 16, 'out_hidden_size': 8192, "
     "'patch_size': 14, 'spatial_merge_size': 2, 'window_size': 112, 'fullatt_block_indexes': [7, "
     "15, 23, 31], 'temporal_patch_size': 2}, 'vocab_size': 152064}"},
    {"qwen3-vl-8b",
     "{'architectures': ['Qwen3VLForConditionalGeneration'], 'model_type': 'qwen3_vl', "
     "'text_config': {'attention_bias': false, 'head_dim': 128, 'hidden_size': 4096, "
     "'intermediate_size': 12288, 'max_position_embeddings': 262144, 'model_type': "
     "'qwen3_vl_text', 'num_attention_heads': 32, 'num_hidden_layers': 36, 'num_key_value_heads': "
     "8, 'vocab_size': 151936}, 'tie_word_embeddings': false, 'vision_config': "
     "{'deepstack_visual_indexes': [8, 16, 24], 'depth': 27, 'hidden_size': 1152, 'in_channels': "
     "3, 'intermediate_size': 4304, 'num_heads': 16, 'num_position_embeddings': 2304, "
     "'out_hidden_size': 4096, 'patch_size': 16, 'spatial_merge_size': 2, 'temporal_patch_size': "
     "2}}"},
    {"qwen3-vl-235b-a22b",
     "{'architectures': ['Qwen3VLMoeForConditionalGeneration'], 'model_type': 'qwen3_vl_moe', "
     "'text_config': {'attention_bias': false, 'decoder_sparse_step': 1, 'head_dim': 128, "
     "'hidden_size': 4096, 'intermediate_size': 12288, 'max_position_embeddings': 262144, "
     "'moe_intermediate_size': 1536, 'num_attention_heads': 64, 'num_experts': 128, "
     "'num_experts_per_tok': 8, 'num_hidden_layers': 94, 'num_key_value_heads': 4, 'vocab_size': "
     "151936}, 'tie_word_embeddings': false, 'vision_config': {'deepstack_visual_indexes': [8, 16,"
     " 24], 'depth': 27, 'hidden_size': 1152, 'intermediate_size': 4304, 'num_heads': 16, "
     "'num_position_embeddings': 2304, 'out_hidden_size': 4096, 'patch_size': 16, "
     "'spatial_merge_size': 2, 'temporal_patch_size': 2}}"},
    {"mistral-small-3.1-24b",
     "{'architectures': ['Mistral3ForConditionalGeneration'], 'model_type': 'mistral3', "
     "'multimodal_projector_bias': false, 'spatial_merge_size': 2, 'text_config': {'head_dim': "
     "128, 'hidden_size': 5120, 'intermediate_size': 32768, 'max_position_embeddings': 131072, "
     "'num_attention_heads': 32, 'num_hidden_layers': 40, 'num_key_value_heads': 8, "
     "'sliding_window': null, 'vocab_size': 131072}, 'vision_config': {'head_dim': 64, "
     "'hidden_size': 1024, 'image_size': 1540, 'intermediate_size': 4096, 'model_type': 'pixtral',"
     " 'num_attention_heads': 16, 'num_channels': 3, 'num_hidden_layers': 24, 'patch_size': 14}}"},
    {"internvl3-8b",
     "{'architectures': ['InternVLChatModel'], 'downsample_ratio': 0.5, 'llm_config': "
     "{'architectures': ['Qwen2ForCausalLM'], 'hidden_size': 3584, 'intermediate_size': 18944, "
     "'max_position_embeddings': 32768, 'model_type': 'qwen2', 'num_attention_heads': 28, "
     "'num_hidden_layers': 28, 'num_key_value_heads': 4, 'sliding_window': null, "
     "'tie_word_embeddings': false, 'use_sliding_window': false, 'vocab_size': 151674}, "
     "'max_dynamic_patch': 12, 'model_type': 'internvl_chat', 'use_thumbnail': true, "
     "'vision_config': {'hidden_size': 1024, 'image_size': 448, 'intermediate_size': 4096, "
     "'num_attention_heads': 16, 'num_hidden_layers': 24, 'patch_size': 14}}"},
    {"qwen3.5-397b-a17b",
     "{'architectures': ['Qwen3_5MoeForConditionalGeneration'], 'model_type': 'qwen3_5_moe',"
     "'text_config': {'full_attention_interval': 4, 'head_dim': 256, 'hidden_size': 4096,"
     "'linear_conv_kernel_dim': 4, 'linear_key_head_dim': 128, 'linear_num_key_heads': 16,"
     "'linear_num_value_heads': 64, 'linear_value_head_dim': 128, 'max_position_embeddings': 262144,"
     "'moe_intermediate_size': 1024, 'num_attention_heads': 32, 'num_experts': 512,"
     "'num_experts_per_tok': 10, 'num_hidden_layers': 60, 'num_key_value_heads': 2,"
     "'shared_expert_intermediate_size': 1024, 'vocab_size': 248320}, 'vision_config': {}}"},
    {"mistral-small-24b",
     "{'architectures': ['Mistral3ForConditionalGeneration'], 'text_config': {'head_dim': 128,"
     "'hidden_size': 5120, 'intermediate_size': 32768, 'max_position_embeddings': 32768,"
     "'num_attention_heads': 32, 'num_hidden_layers': 40, 'num_key_value_heads': 8,"
     "'sliding_window': null, 'vocab_size': 131072}}"},
    {"phi-3.5-moe",
     "{'architectures': ['PhiMoEForCausalLM'], 'attention_bias': true, 'hidden_size': 4096,"
     "'intermediate_size': 6400, 'max_position_embeddings': 131072, 'num_attention_heads': 32,"
     "'num_experts_per_tok': 2, 'num_hidden_layers': 32, 'num_key_value_heads': 8,"
     "'num_local_experts': 16, 'sliding_window': 131072, 'vocab_size': 32064}"},
};

Test(families, a_config_json_gives_the_card) {
  for (size_t i = 0; i < DS_ARRAY_LEN(CONFIGS); i++) {
    char text[2048];
    ds_model got, want;
    snprintf(text, sizeof text, "%s", CONFIGS[i].text);
    for (char *c = text; *c; c++)
      if (*c == '\'') *c = '"';
    read_config(text, &got);
    card_read(DS_CARD_MODEL, CONFIGS[i].card, &want);
#define SAME(member)                                                                               \
  cr_assert_eq(got.member, want.member, "%s: %s is %lld, card %lld", CONFIGS[i].card, #member,     \
               (long long)got.member, (long long)want.member)
    SAME(layers); SAME(hidden); SAME(heads); SAME(kv_heads); SAME(head_dim); SAME(ffn);
    SAME(mlp_matrices); SAME(vocab); SAME(max_positions); SAME(tied_embeddings); SAME(linear_bias);
    SAME(norm_bias); SAME(parallel_block); SAME(attention_sinks); SAME(router_bias);
    SAME(learned_positions); SAME(norms_per_layer); SAME(experts); SAME(top_k); SAME(expert_ffn);
    SAME(shared_experts); SAME(shared_ffn); SAME(dense_layers); SAME(q_lora); SAME(kv_lora);
    SAME(qk_nope); SAME(qk_rope); SAME(v_head_dim); SAME(window); SAME(full_layers); SAME(chunked);
    SAME(index_top_k); SAME(index_heads); SAME(index_head_dim); SAME(state_layers);
    SAME(state_params); SAME(state_bytes); SAME(extra_params); SAME(weights); SAME(expert_weights);
    cr_assert_eq(ds_model_moe_layers(&got), ds_model_moe_layers(&want), "%s", CONFIGS[i].card);
    cr_assert_leq(fabs(ds_model_params(&got) / ds_model_params(&want) - 1), 1e-5, "%s",
                  CONFIGS[i].card);
  }
}

Test(families, every_card_has_its_published_parameters) {
  char **names;
  size_t n;
  cr_assert(ds_card_names(DS_CARD_MODEL, ".", &names, &n));
  cr_assert_geq(n, 60);
  for (size_t i = 0; i < n; i++) {
    ds_model m;
    card_read(DS_CARD_MODEL, names[i], &m);
    cr_assert_gt(m.published_params, 0, "%s does not say how many were published", names[i]);
    cr_assert_leq(fabs(ds_model_params(&m) / m.published_params - 1), 0.005, "%s: %.0f of %.0f",
                  names[i], ds_model_params(&m), m.published_params);
  }
  ds_card_names_free(names, n);
}

/* Totals, parameters per token and KV bytes per token, as papers and model cards give them. */
Test(families, published_figures) {
  static const struct {
    const char *model;
    double total_1e9, active_1e9, kv_bytes;
  } cases[] = {{"mixtral-8x7b", 46.703, 12.879, 131072},
               {"mixtral-8x22b", 140.630, 39.151, 229376},
               {"qwen3-30b-a3b", 30.532, 3.345, 98304},
               {"qwen3-235b-a22b", 235.094, 22.144, 192512},
               {"deepseek-v3", 671.026, 37.55, 70272},
               {"gpt-oss-20b", 20.915, 3.61 + 0.579, 49152}, /* its card leaves out the embedding */
               {"gpt-oss-120b", 116.829, 5.13 + 0.579, 73728},
               {"falcon-180b", 179.52, 179.52, 163840},
               {"gpt-3-175b", 174.6, 174.6, 4718592},
               {"opt-13b", 12.853, 12.853, 819200},
               {"opt-66b", 65.72, 65.72, 2359296},
               {"bloom-176b", 176.247, 176.247, 4014080},
               {"llama-4-scout", 108.642, 17.17, 196608},
               {"llama-4-maverick", 401.584, 17.18, 196608},
               {"qwen3-next-80b-a3b", 80, 3.87, 24576},
               {"kimi-k2", 1026.4, 32.9, 70272}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_model m;
    card_read(DS_CARD_MODEL, cases[i].model, &m);
    cr_assert_leq(fabs(ds_model_params(&m) / 1e9 / cases[i].total_1e9 - 1), 0.005, "%s",
                  cases[i].model);
    cr_assert_leq(fabs(ds_model_active_params(&m) / 1e9 / cases[i].active_1e9 - 1), 0.005,
                  "%s: %.3f active", cases[i].model, ds_model_active_params(&m) / 1e9);
    cr_assert_eq(ds_model_kv_bytes_per_token(&m, 2), cases[i].kv_bytes, "%s", cases[i].model);
  }
}

/* Multimodal files without a card of their own: language model and encoder are the checkpoint's parameters, to the last one. */
Test(families, multimodal_files_have_their_published_parameters) {
  static const struct {
    const char *text;
    double params, vision;
  } cases[] = {
      {"{'architectures': ['Qwen2VLForConditionalGeneration'], 'hidden_size': 3584, 'intermediate_size': 18944, 'max_position_embeddings': "
       "32768, 'model_type': 'qwen2_vl', 'num_attention_heads': 28, 'num_hidden_layers': 28, 'num_key_value_heads': 4, 'tie_word_embeddings':"
       " false, 'use_sliding_window': false, 'vision_config': {'depth': 32, 'embed_dim': 1280, 'mlp_ratio': 4, 'num_heads': 16, "
       "'hidden_size': 3584, 'patch_size': 14, 'spatial_merge_size': 2, 'temporal_patch_size': 2}, 'vocab_size': 152064}",
       8291375616, 675759104},
      {"{'architectures': ['Glm4vMoeForConditionalGeneration'], 'model_type': 'glm4v_moe', 'text_config': {'attention_bias': true, "
       "'first_k_dense_replace': 1, 'head_dim': 128, 'hidden_size': 4096, 'intermediate_size': 10944, 'max_position_embeddings': 65536, "
       "'moe_intermediate_size': 1408, 'n_routed_experts': 128, 'n_shared_experts': 1, 'num_attention_heads': 96, 'num_experts_per_tok': 8, "
       "'num_hidden_layers': 46, 'num_key_value_heads': 8, 'use_qk_norm': false, 'vocab_size': 151552}, 'vision_config': {'depth': 24, "
       "'hidden_size': 1536, 'image_size': 336, 'intermediate_size': 10944, 'num_heads': 12, 'out_hidden_size': 4096, 'patch_size': 14, "
       "'spatial_merge_size': 2, 'temporal_patch_size': 2}}",
       107710933120, 858681856}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_doc doc;
    ds_diag d = {0};
    ds_model m;
    cr_assert(ds_doc_parse(cases[i].text, strlen(cases[i].text), "m/config.json", &doc, &d), "%s", d.text);
    cr_assert(ds_config_json_model(&doc, &m, &d), "%s", d.text);
    cr_assert_float_eq(ds_vision_params(&m.vision), cases[i].vision, 0.5, "%zu: %.0f", i, ds_vision_params(&m.vision));
    cr_assert_leq(fabs(ds_model_params(&m) / cases[i].params - 1), 0.0001, "%zu: %.0f", i, ds_model_params(&m));
    ds_doc_free(&doc);
  }
}

/* Any number of a config.json may be 0, and some of them are divided by: it is read all the same,
 * or refused with the place and a reason. */
Test(families, a_zero_anywhere_is_read_or_refused) {
  size_t tried = 0;
  for (size_t i = 0; i < DS_ARRAY_LEN(CONFIGS); i++) {
    for (const char *at = strchr(CONFIGS[i].text, ':'); at != NULL; at = strchr(at + 1, ':')) {
      size_t skip = 1 + strspn(at + 1, " "), digits = strspn(at + skip, "0123456789");
      if (digits == 0) continue;
      char text[4000];
      snprintf(text, sizeof text, "%.*s0%s", (int)(at + skip - CONFIGS[i].text), CONFIGS[i].text,
               at + skip + digits);
      ds_doc doc;
      ds_diag d = {0};
      ds_model m;
      tried++;
      cr_assert(ds_doc_parse(text, strlen(text), "m/config.json", &doc, &d), "%s", d.text);
      if (!ds_config_json_model(&doc, &m, &d)) cr_assert(d.text[0] != 0 && d.line > 0, "%s", text);
      else cr_assert(isfinite(ds_model_params(&m)) && m.full_layers <= m.layers, "%s", text);
      ds_doc_free(&doc);
    }
  }
  cr_assert_gt(tried, 100);
}

Test(families, every_zeroth_layer_is_no_interval) {
  ds_doc doc;
  ds_diag d = {0};
  ds_model m;
  const char *text = NULL;
  for (size_t i = 0; i < DS_ARRAY_LEN(CONFIGS); i++)
    if (strcmp(CONFIGS[i].card, "qwen3-next-80b-a3b") == 0) text = CONFIGS[i].text;
  char zero[4000];
  const char *at = strstr(text, "_interval': 4");
  snprintf(zero, sizeof zero, "%.*s_interval': 0%s", (int)(at - text), text, at + strlen("_interval': 4"));
  cr_assert(ds_doc_parse(zero, strlen(zero), "m/config.json", &doc, &d));
  cr_assert_not(ds_config_json_model(&doc, &m, &d));
  cr_assert(strstr(d.text, "full_attention_interval") != NULL, "%s", d.text);
  ds_doc_free(&doc);
}
