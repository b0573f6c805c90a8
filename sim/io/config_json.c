// SPDX-License-Identifier: GPL-3.0-or-later
/* A Hugging Face config.json in place of a model card. Each family says what its file does not:
 * which projections have biases, how many norms a layer has, whether a window counts. What the cost
 * model does not price is refused by its name, never read as something else. */
#include <string.h>

#include "io/card.h"
#include "io/config_vision.h"

enum {
  QKV_BIAS = 1,
  QK_NORM = 2,
  WINDOW = 4,         /* a sliding_window counts without use_sliding_window */
  PLAIN_MLP = 8,      /* two matrices */
  LINEAR_BIAS = 16,   /* on all projections */
  NORM_BIAS = 32,     /* LayerNorm */
  PARALLEL = 64,      /* attention and feed-forward side by side */
  ONE_NORM = 128,
  FOUR_NORMS = 256,
  TIED = 512,         /* unless the file says otherwise */
  SINKS = 1024,
  ROUTER_BIAS = 2048,
  EXPERTS = 4096,
  LATENT = 8192,
  NESTED = 16384,     /* of several parts; the language model's own values are in text_config, where there is one */
  LEARNED = 32768,    /* positions, two more than the longest context */
  STATES = 65536,     /* some layers are gated delta networks */
  INNER = 262144,      /* the language model is of another family, which its own part names */
  WHOLE_NORM = 524288, /* QK_NORM over all heads at once */
  QUARTER_MLP = 131072 /* inner width four times the hidden one, unless given */
};

typedef struct family {
  const char *model_type, *architecture;
  unsigned traits;
  int64_t full_every; /* of layers with a window so-manieth sees everything; 0: none, or the file says */
} family;

static const family families[] = {
    {"llama", "LlamaForCausalLM", 0, 0},
    {"mistral", "MistralForCausalLM", WINDOW, 0},
    {"qwen2", "Qwen2ForCausalLM", QKV_BIAS, 0},
    {"qwen3", "Qwen3ForCausalLM", QK_NORM, 0},
    {"phi3", "Phi3ForCausalLM", WINDOW, 0},
    {"olmo2", "Olmo2ForCausalLM", QK_NORM | WHOLE_NORM, 0},
    {"gemma2", "Gemma2ForCausalLM", WINDOW | FOUR_NORMS | TIED, 2},
    {"gemma3_text", "Gemma3ForCausalLM", WINDOW | FOUR_NORMS | TIED | QK_NORM, 6},
    {"gemma3", "Gemma3ForConditionalGeneration", WINDOW | FOUR_NORMS | TIED | QK_NORM | NESTED, 6},
    {"cohere", "CohereForCausalLM", ONE_NORM | PARALLEL | TIED, 0},
    {"cohere2", "Cohere2ForCausalLM", ONE_NORM | PARALLEL | TIED | WINDOW, 4},
    {"starcoder2", "Starcoder2ForCausalLM", WINDOW | PLAIN_MLP | LINEAR_BIAS | NORM_BIAS, 0},
    {"opt", "OPTForCausalLM", PLAIN_MLP | LINEAR_BIAS | NORM_BIAS | TIED | LEARNED, 0},
    {"bloom", "BloomForCausalLM", PLAIN_MLP | LINEAR_BIAS | NORM_BIAS | TIED | QUARTER_MLP, 0},
    {"gptj", "GPTJForCausalLM", PLAIN_MLP | NORM_BIAS | ONE_NORM | PARALLEL | QUARTER_MLP, 0},
    {"falcon", "FalconForCausalLM", PLAIN_MLP | NORM_BIAS | PARALLEL | TIED | QUARTER_MLP, 0},
    {"mixtral", "MixtralForCausalLM", EXPERTS | WINDOW, 0},
    {"phimoe", "PhiMoEForCausalLM", EXPERTS | QKV_BIAS | NORM_BIAS, 0},
    {"qwen2_moe", "Qwen2MoeForCausalLM", EXPERTS | QKV_BIAS, 0},
    {"qwen3_moe", "Qwen3MoeForCausalLM", EXPERTS | QK_NORM, 0},
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", QKV_BIAS | NESTED, 0},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", QKV_BIAS | NESTED, 0},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", QK_NORM | NESTED, 0},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", EXPERTS | QK_NORM | NESTED, 0},
    {"internvl_chat", "InternVLChatModel", NESTED | INNER, 0},
    {"internvl", "InternVLForConditionalGeneration", NESTED | INNER, 0},
    {"glm4v_moe", "Glm4vMoeForConditionalGeneration", EXPERTS | ROUTER_BIAS | QKV_BIAS | NESTED, 0},
    {"qwen3_next", "Qwen3NextForCausalLM", EXPERTS | QK_NORM | STATES, 4},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", EXPERTS | QK_NORM | STATES | NESTED, 4},
    {"mistral3", "Mistral3ForConditionalGeneration", WINDOW | NESTED, 0},
    {"glm4_moe", "Glm4MoeForCausalLM", EXPERTS | ROUTER_BIAS | QKV_BIAS, 0},
    {"minimax_m2", "MiniMaxM2ForCausalLM", EXPERTS | ROUTER_BIAS | QK_NORM | WHOLE_NORM, 0},
    {"gpt_oss", "GptOssForCausalLM", EXPERTS | LINEAR_BIAS | SINKS | ROUTER_BIAS | WINDOW, 2},
    {"llama4", "Llama4ForConditionalGeneration", EXPERTS | NESTED, 4},
    {"llama4_text", "Llama4ForCausalLM", EXPERTS, 4},
    {"deepseek_v2", "DeepseekV2ForCausalLM", EXPERTS | LATENT, 0},
    {"deepseek_v3", "DeepseekV3ForCausalLM", EXPERTS | LATENT | ROUTER_BIAS, 0},
    {"kimi_k2", "DeepseekV3ForCausalLM", EXPERTS | LATENT | ROUTER_BIAS, 0},
    {"deepseek_v32", "DeepseekV32ForCausalLM", EXPERTS | LATENT | ROUTER_BIAS, 0},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

bool ds_is_config_json(const ds_node *root) {
  return root->kind == DS_NODE_MAP && !ds_node_get(root, "model") &&
         (ds_node_get(root, "architectures") || ds_node_get(root, "model_type"));
}

/* A key's node, NULL where it is absent or null. `keys`: names that families give it, with | between. */
static const ds_node *given(const ds_node *root, const char *keys) {
  char key[64];
  for (const char *s = keys; *s;) {
    size_t n = strcspn(s, "|");
    snprintf(key, sizeof key, "%.*s", (int)n, s);
    const ds_node *found = ds_node_get(root, key);
    if (found && !ds_node_is_null(found)) return found;
    s += n + (s[n] == '|');
  }
  return NULL;
}

static bool find_family(const ds_node *root, const family **out, ds_diag *d) {
  const ds_node *list = ds_node_get(root, "architectures"), *type = given(root, "model_type");
  const ds_node *name = list && list->kind == DS_NODE_LIST && list->n > 0 ? list->first : type;
  if (!name || name->kind != DS_NODE_SCALAR) {
    ds_complain(d, root, "config.json names neither an architecture nor a model_type");
    ds_diag_expected(d, "\"architectures\": [\"LlamaForCausalLM\"] or the like");
    return false;
  }
  const char *known[N_FAMILIES];
  for (size_t i = 0; i < N_FAMILIES; ++i) {
    known[i] = families[i].architecture;
    if (strcmp(name->text, families[i].architecture) != 0 &&
        strcmp(name->text, families[i].model_type) != 0)
      continue;
    *out = &families[i];
    return true;
  }
  ds_complain(d, name, "this version does not price the architecture '%.80s'", name->text);
  ds_diag_expected(d, "a family that it knows, such as LlamaForCausalLM, Qwen3MoeForCausalLM, "
                      "DeepseekV3ForCausalLM or GptOssForCausalLM; or a model card");
  const char *near = ds_nearest(name->text, known, N_FAMILIES);
  if (near) ds_diag_hint(d, "did you mean %s?", near);
  return false;
}

static bool refuse(const ds_node *n, const char *what, ds_diag *d) {
  ds_complain_key(d, n, "this version does not price %s in this family ('%.60s')", what, n->key);
  ds_diag_expected(d, "a config.json of the family's published form, or a model card");
  return false;
}

/* A count, or its default (0: required; negative: may be absent, and is then 0). */
static bool count(const ds_node *root, const char *keys, int64_t preset, int64_t *out, ds_diag *d) {
  const ds_node *n = given(root, keys);
  *out = preset < 0 ? 0 : preset;
  if (n) return ds_want_integer(n, n->key, preset < 0 ? 0 : 1, 2147483647, out, d);
  if (preset != 0) return true;
  ds_complain(d, root, "config.json has no %.*s", (int)strcspn(keys, "|"), keys);
  ds_diag_expected(d, "the config.json of a model, with its %.*s", (int)strcspn(keys, "|"), keys);
  return false;
}

static bool flag(const ds_node *root, const char *key, bool preset, bool *out, ds_diag *d) {
  const ds_node *n = given(root, key);
  *out = preset;
  return !n || ds_want_bool(n, key, out, d);
}

static bool word_is(const ds_node *n, const char *word) {
  return n && n->kind == DS_NODE_SCALAR && strcmp(n->text, word) == 0;
}

/* What this family does not have must not be there. */
static bool check_shape(const ds_node *root, const family *f, ds_diag *d) {
  static const char *const experts[] = {"num_local_experts", "n_routed_experts", "num_experts",
                                        "moe_intermediate_size"};
  static const char *const nested[] = {"text_config", "vision_config", "audio_config",
                                       "llm_config"};
  const ds_node *n;
  for (size_t i = 0; !(f->traits & EXPERTS) && i < sizeof experts / sizeof experts[0]; ++i)
    if ((n = given(root, experts[i])) && n->kind == DS_NODE_SCALAR && strcmp(n->text, "0") != 0 &&
        strcmp(n->text, "1") != 0)
      return refuse(n, "mixtures of experts", d);
  for (size_t i = 0; !(f->traits & NESTED) && i < sizeof nested / sizeof nested[0]; ++i)
    if ((n = given(root, nested[i]))) return refuse(n, "models of several parts", d);
  if (!(f->traits & LATENT) && (n = given(root, "kv_lora_rank")))
    return refuse(n, "latent attention (MLA)", d);
  if ((n = given(root, "layer_types")) && n->kind == DS_NODE_LIST)
    for (const ds_node *c = n->first; c; c = c->next) {
      if (c->kind != DS_NODE_SCALAR || strcmp(c->text, "full_attention") == 0) continue;
      bool window = strcmp(c->text, "sliding_attention") == 0 ||
                    strcmp(c->text, "chunked_attention") == 0;
      if (window && given(root, "sliding_window|attention_chunk_size")) continue;
      if (window) return refuse(n, "sliding windows without sliding_window", d);
      if (strcmp(c->text, "linear_attention") == 0 && (f->traits & STATES)) continue;
      return refuse(n, "layers of this type", d);
    }
  return true;
}

static int64_t of_type(const ds_node *root, const char *type) {
  const ds_node *n = given(root, "layer_types");
  int64_t found = 0;
  for (const ds_node *c = n && n->kind == DS_NODE_LIST ? n->first : NULL; c; c = c->next)
    found += word_is(c, type);
  return found;
}

static bool read_window(const ds_node *root, const family *f, ds_model *m, ds_diag *d) {
  const ds_node *window = given(root, "sliding_window|attention_chunk_size"),
                *use = given(root, "use_sliding_window");
  bool used = (f->traits & WINDOW) != 0 || given(root, "attention_chunk_size") ||
              of_type(root, "sliding_attention") > 0;
  if (use && !ds_want_bool(use, "use_sliding_window", &used, d)) return false;
  if (!window || !used) return true;
  if (!ds_want_integer(window, window->key, 0, 2147483647, &m->window, d)) return false;
  m->chunked = given(root, "attention_chunk_size") != NULL;
  if (m->window == 0 || (!m->chunked && m->max_positions > 0 && m->window >= m->max_positions)) {
    m->window = 0;
    return true;
  }
  int64_t every = f->full_every, first = 0;
  if (!count(root, "sliding_window_pattern", every > 0 ? every : -1, &every, d) ||
      !count(root, "max_window_layers", -1, &first, d))
    return false;
  m->full_layers = every > 0 ? m->layers / every : 0;
  if (use && first > 0) m->full_layers = first < m->layers ? first : m->layers;
  if (given(root, "layer_types")) m->full_layers = of_type(root, "full_attention");
  return true;
}

static bool read_experts(const ds_node *root, const family *f, ds_model *m, ds_diag *d) {
  int64_t leading = 0, every = 1, shared_all = 0;
  if (!(f->traits & EXPERTS)) return true;
  if (!count(root, "num_local_experts|n_routed_experts|num_experts", 0, &m->experts, d) ||
      !count(root, "num_experts_per_tok", 0, &m->top_k, d) ||
      !count(root, "moe_intermediate_size|intermediate_size", 0, &m->expert_ffn, d) ||
      !count(root, "n_shared_experts|num_shared_experts", -1, &m->shared_experts, d) ||
      !count(root, "shared_expert_intermediate_size", -1, &shared_all, d) ||
      !count(root, "first_k_dense_replace", -1, &leading, d) ||
      !count(root, "interleave_moe_layer_step|moe_layer_freq|decoder_sparse_step", 1, &every, d))
    return false;
  m->dense_layers = leading;
  m->moe_every = every;
  if (shared_all > 0) {
    m->shared_experts = 1;
    m->shared_ffn = shared_all;
  } else if (m->shared_experts > 0) {
    m->shared_ffn = m->expert_ffn;
  }
  if (strncmp(f->model_type, "llama4", 6) == 0) { /* one shared expert, and dense layers of their own width */
    m->expert_ffn = m->ffn;
    m->shared_experts = 1;
    m->shared_ffn = m->ffn;
    if (!count(root, "intermediate_size_mlp", m->ffn, &m->ffn, d)) return false;
  }
  if (ds_model_moe_layers(m) == m->layers) m->ffn = 0;
  return true;
}

static bool read_latent(const ds_node *root, const family *f, ds_model *m, ds_diag *d) {
  if (!(f->traits & LATENT)) return true;
  if (!count(root, "q_lora_rank", -1, &m->q_lora, d) ||
      !count(root, "kv_lora_rank", 0, &m->kv_lora, d) ||
      !count(root, "qk_nope_head_dim", 0, &m->qk_nope, d) ||
      !count(root, "qk_rope_head_dim", 0, &m->qk_rope, d) ||
      !count(root, "v_head_dim", 0, &m->v_head_dim, d) ||
      !count(root, "index_topk", -1, &m->index_top_k, d) ||
      !count(root, "index_n_heads", -1, &m->index_heads, d) ||
      !count(root, "index_head_dim", -1, &m->index_head_dim, d))
    return false;
  m->head_dim = m->qk_nope + m->qk_rope;
  m->kv_heads = m->heads;
  return true;
}

/* Gated delta networks: a state of key width x value width per value head, kept in 32 bit, and the
 * last inputs of a short convolution. Attention layers gate their output, shared experts too. */
static bool read_states(const ds_node *root, const family *f, ds_model *m, ds_diag *d) {
  int64_t kh, vh, kd, vd, conv, every;
  if (!(f->traits & STATES)) return true;
  if (!count(root, "linear_num_key_heads", 0, &kh, d) ||
      !count(root, "linear_num_value_heads", 0, &vh, d) ||
      !count(root, "linear_key_head_dim", 0, &kd, d) ||
      !count(root, "linear_value_head_dim", 0, &vd, d) ||
      !count(root, "linear_conv_kernel_dim", 4, &conv, d) ||
      !count(root, "full_attention_interval", f->full_every, &every, d))
    return false;
  int64_t attention = every > 0 ? m->layers / every : 0, mixed = 2 * kh * kd + vh * vd, h = m->hidden;
  if (given(root, "layer_types")) attention = of_type(root, "full_attention");
  m->state_layers = m->layers - attention;
  m->state_params = h * (mixed + vh * vd) + h * 2 * vh + mixed * conv + vh * vd * h + 2 * vh + vd;
  m->state_bytes = vh * kd * vd * 4 + mixed * (conv - 1) * 2;
  m->extra_params = attention * h * m->heads * m->head_dim + m->layers * h;
  return true;
}

/* The checkpoint's own format: what an engine would serve when told nothing. */
static bool read_format(const ds_node *root, ds_model *m, ds_diag *d) {
  const ds_node *text = given(root, "text_config");
  const ds_node *type = given(root, "torch_dtype|dtype"), *quant = given(root, "quantization_config");
  if (!type && text) type = given(text, "torch_dtype|dtype");
  ds_format *out = &m->weights;
  *out = word_is(type, "float16") ? DS_FMT_FP16
                                  : DS_FMT_BF16; /* float32 checkpoints are served in 16 bit */
  m->expert_weights = *out;
  if (!quant) return true;
  const ds_node *method = ds_node_get(quant, "quant_method"), *bits = ds_node_get(quant, "bits");
  if (word_is(method, "fp8"))
    *out = ds_node_get(quant, "weight_block_size") ? DS_FMT_FP8_BLOCK : DS_FMT_FP8;
  else if ((word_is(method, "awq") || word_is(method, "gptq")) && word_is(bits, "4"))
    *out = DS_FMT_INT4;
  else if (word_is(method, "gptq") && word_is(bits, "8"))
    *out = DS_FMT_INT8_WO;
  else if (word_is(method, "mxfp4") && m->experts > 0) { /* of the experts alone */
    m->expert_weights = DS_FMT_MXFP4;
    return true;
  } else if (word_is(method, "mxfp4"))
    *out = DS_FMT_MXFP4;
  else {
    ds_complain_key(d, quant, "this version does not know the quantization_config of this model");
    ds_diag_expected(d, "quant_method fp8, awq or gptq with 4 bits, gptq with 8 bits, or mxfp4");
    ds_diag_hint(d, "without quantization_config the scenario's `weights` says the format");
    return false;
  }
  m->expert_weights = *out;
  return true;
}

/* The name: the file's, or its folder's for a file called config.json. */
static void name_of(const char *file, char *out, size_t cap) {
  const char *end = file + strlen(file), *slash = strrchr(file, '/');
  if (slash && strcmp(slash, "/config.json") == 0) end = slash;
  const char *start = end;
  while (start > file && start[-1] != '/') --start;
  if (end - start > 5 && strncmp(end - 5, ".json", 5) == 0) end -= 5;
  snprintf(out, cap, "%.*s", end - start < 60 ? (int)(end - start) : 60, start);
  if (out[0] == '\0' || out[0] == '.') snprintf(out, cap, "model");
}

static bool read_dimensions(const ds_node *root, const family *f, ds_model *m, ds_diag *d) {
  bool new_falcon = false, multi_query = false;
  if (!count(root, "num_hidden_layers|n_layer", 0, &m->layers, d) ||
      !count(root, "hidden_size|n_embd|n_embed", 0, &m->hidden, d) ||
      !count(root, "num_attention_heads|n_head", 0, &m->heads, d) ||
      !flag(root, "new_decoder_architecture", false, &new_falcon, d) ||
      !flag(root, "multi_query", false, &multi_query, d) ||
      !count(root, "num_key_value_heads|num_kv_heads", multi_query && !new_falcon ? 1 : m->heads,
             &m->kv_heads, d) ||
      !count(root, "intermediate_size|ffn_dim|n_inner|ffn_hidden_size",
             (f->traits & QUARTER_MLP)                       ? 4 * m->hidden
             : given(root, "moe_intermediate_size") ? -1
                                                    : 0,
             &m->ffn, d) ||
      !count(root, "vocab_size", 0, &m->vocab, d))
    return false;
  if (!given(root, "head_dim") && !(f->traits & LATENT) && m->hidden % m->heads != 0) {
    ds_complain(d, root, "hidden_size (%lld) is no multiple of num_attention_heads (%lld)",
                (long long)m->hidden, (long long)m->heads);
    ds_diag_expected(d, "a head_dim, or a hidden_size that the heads divide");
    return false;
  }
  int64_t head = m->hidden / m->heads;
  if (!count(root, "head_dim", head > 0 ? head : 1, &m->head_dim, d) ||
      !count(root, "max_position_embeddings|n_positions|seq_length", -1, &m->max_positions, d))
    return false;
  if ((f->traits & PARALLEL) && strcmp(f->model_type, "falcon") == 0 && !new_falcon)
    m->norms_per_layer = 1;
  return true;
}

/* Images that do not become tokens, but are attended to from some layers (Llama 3.2 Vision). */
static bool cross_attends(const ds_node *root, ds_diag *d) {
  const ds_node *type = given(root, "model_type");
  if (!word_is(type, "mllama")) return false;
  ds_complain(d, type, "this version does not price cross-attention to images ('%s')", type->text);
  ds_diag_expected(d, "a family whose images are tokens of the prompt, such as Qwen2.5-VL, Gemma 3, Llama 4 or InternVL");
  return true;
}

bool ds_config_json_model(const ds_doc *doc, ds_model *out, ds_diag *d) {
  const ds_node *root = doc->root, *text = NULL;
  const family *f = NULL;
  memset(out, 0, sizeof *out);
  name_of(doc->file, out->name, sizeof out->name);
  if (cross_attends(root, d) || !find_family(root, &f, d)) return false;
  if ((f->traits & NESTED) && (text = given(root, "text_config|llm_config")) &&
      !ds_want_map(text, text->key, d))
    return false;
  const ds_node *at = text ? text : root;
  const char *outer = f->model_type;
  family inner;
  if (f->traits & INNER) {
    const family *of = NULL;
    if (!find_family(at, &of, d)) return false;
    inner = *of;
    inner.traits |= NESTED;
    f = &inner;
  }
  if (!check_shape(root, f, d) || !read_dimensions(at, f, out, d) ||
      !read_experts(at, f, out, d) || !read_latent(at, f, out, d) || !read_window(at, f, out, d) ||
      !read_states(at, f, out, d) || !read_format(root, out, d) ||
      !flag(given(at, "tie_word_embeddings") ? at : root, "tie_word_embeddings",
            (f->traits & TIED) != 0, &out->tied_embeddings, d) ||
      !flag(at, "attention_bias|use_qkv_bias", (f->traits & QKV_BIAS) != 0, &out->qkv_bias, d) ||
      !flag(at, "use_qk_norm", (f->traits & QK_NORM) != 0, &out->qk_norm, d))
    return false;
  if (f->traits & LEARNED) out->learned_positions = out->max_positions + 2;
  if (f->traits & ONE_NORM) out->norms_per_layer = 1;
  if (f->traits & FOUR_NORMS) out->norms_per_layer = 4;
  out->qk_norm_whole = out->qk_norm && (f->traits & WHOLE_NORM) != 0;
  out->linear_bias = (f->traits & LINEAR_BIAS) != 0;
  out->norm_bias = (f->traits & NORM_BIAS) != 0;
  out->parallel_block = (f->traits & PARALLEL) != 0;
  out->attention_sinks = (f->traits & SINKS) != 0;
  out->router_bias = (f->traits & ROUTER_BIAS) != 0;
  out->mlp_matrices = f->traits & PLAIN_MLP ? 2 : 3;
  return ds_config_json_vision(root, outer, out, d);
}
