// SPDX-License-Identifier: Apache-2.0
/* A large language model, as far as serving cost sees it: dimensions and number formats. */
#ifndef DS_SPEC_MODEL_H
#define DS_SPEC_MODEL_H

#include "spec/vision.h"

/* How a tensor is stored and in which arithmetic it is multiplied (cost-model page, section 3.1). */
typedef enum ds_format {
  DS_FMT_BF16,
  DS_FMT_FP16,
  DS_FMT_FP8,     /* per-tensor scales, activations quantised on the fly */
  DS_FMT_INT8,    /* W8A8 */
  DS_FMT_INT8_WO, /* weight only */
  DS_FMT_INT4,    /* weight only, groups of 128 (AWQ, GPTQ) */
  DS_FMT_MXFP4,   /* weight only */
  DS_FMT_NVFP4,
  DS_FMT_FP8_BLOCK,  /* scales per 128 x 128 weights and per 128 activations, quantised on the fly */
  DS_FMT_FP8_STATIC, /* per-tensor scales fixed in advance, quantised by the kernel before */
  DS_FMT_MXFP4_A8,   /* MXFP4 weights, 8-bit activations */
  DS_FMT_N
} ds_format;

/* Lower-case name as in a scenario: bf16 fp16 fp8 int8 int8-wo int4 mxfp4 nvfp4 fp8-block fp8-static
 * mxfp4-a8. */
const char *ds_format_name(ds_format f);
/* Bytes of one weight with its scales; bytes of one KV element (bf16 2, fp8 and int8 1). */
double ds_format_weight_bytes(ds_format f);
double ds_format_kv_bytes(ds_format f);

typedef struct ds_model {
  char name[DS_NAME_MAX];
  int64_t layers, hidden, heads, kv_heads, head_dim;
  int64_t ffn;           /* inner width of the MLP */
  int64_t mlp_matrices;  /* 3 gated (SwiGLU), 2 plain */
  int64_t vocab;
  int64_t max_positions; /* longest context the model was made for, tokens; 0 unknown */
  bool tied_embeddings, qkv_bias, qk_norm;
  bool qk_norm_whole;    /* with qk_norm: over all heads at once, so that ranks must agree; else head by head */
  /* What further layers hold; all 0 or false where a model has none of it. */
  bool linear_bias;      /* every other projection has a bias too */
  bool norm_bias;        /* LayerNorm: a gain and a bias */
  bool parallel_block;   /* attention and feed-forward side by side on one input, and one all-reduce for both */
  bool attention_sinks;  /* one more value per head */
  bool router_bias;
  int64_t learned_positions; /* rows of a table of positions */
  int64_t norms_per_layer;   /* 0: two */
  /* Mixture of experts. */
  int64_t experts, top_k, expert_ffn; /* experts 0: dense; expert_ffn: width of one, always gated */
  int64_t shared_experts, shared_ffn;
  int64_t dense_layers;  /* of them so many come first, whatever follows */
  int64_t moe_every;     /* and of the rest every so-manieth has experts; 0 or 1: each */
  /* Latent attention (MLA); kv_lora 0: none. head_dim is then qk_nope + qk_rope. */
  int64_t q_lora, kv_lora, qk_nope, qk_rope, v_head_dim;
  /* Attention over the nearest tokens only; window 0: none. */
  int64_t window;        /* tokens */
  int64_t full_layers;   /* layers that see everything, of those with attention; the others see the window */
  bool chunked;          /* the window starts anew every `window` tokens instead of sliding */
  /* Sparse attention: each query reads index_top_k tokens, chosen by an indexer over all of them; 0: none. */
  int64_t index_top_k, index_heads, index_head_dim;
  /* Layers without attention: linear attention or a state space; 0: none. */
  int64_t state_layers;
  int64_t state_params;  /* weights of one such layer's mixer */
  int64_t state_bytes;   /* what one sequence keeps in one such layer */
  int64_t encoder_params; /* an encoder of which nothing else is known (of sound, say), held beside the model */
  ds_vision vision;      /* encoder of images; its layers 0: none */
  int64_t extra_params;  /* anything else that the checkpoint holds, replicated on no layer */
  ds_format weights;     /* format of the published checkpoint */
  ds_format expert_weights; /* the same of its experts */
  double published_params; /* as published, for the card's own test; 0 unknown */
} ds_model;

/* Parameters in all, embeddings, norms and encoders included; those of the encoders. */
double ds_model_params(const ds_model *m);
double ds_model_encoder_params(const ds_model *m);
/* Of which so many take part in each token: top_k experts of each layer, shared ones and all else but encoders. */
double ds_model_active_params(const ds_model *m);
/* Layers by kind. Those with attention, and of them those that read every cached token; those with experts. */
int64_t ds_model_attention_layers(const ds_model *m);
int64_t ds_model_full_layers(const ds_model *m);
int64_t ds_model_moe_layers(const ds_model *m);
/* Tokens that a layer with a bounded reach reads at most: the window, or the indexer's choice; 0: no such layer. */
int64_t ds_model_reach(const ds_model *m);
/* Numbers that one attention layer keeps of a token: keys and values of every head, or the latent vector (and an
 * indexer's key). */
double ds_model_kv_width(const ds_model *m);
/* KV bytes of one token over all layers and heads, before any split, at `kv_bytes` per element. */
double ds_model_kv_bytes_per_token(const ds_model *m, double kv_bytes);

#endif
