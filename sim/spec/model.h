// SPDX-License-Identifier: Apache-2.0
/* A large language model, as far as serving cost sees it: dimensions and number formats. */
#ifndef DS_SPEC_MODEL_H
#define DS_SPEC_MODEL_H

#include "base/types.h"

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
  DS_FMT_N
} ds_format;

/* Lower-case name as in a scenario: bf16 fp16 fp8 int8 int8-wo int4 mxfp4 nvfp4. */
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
  ds_format weights;     /* format of the published checkpoint */
  double published_params; /* as published, for the card's own test; 0 unknown */
} ds_model;

/* Parameters in all, embeddings and norms included. */
double ds_model_params(const ds_model *m);
/* KV bytes of one token over all layers and heads, before any split, at `kv_bytes` per element. */
double ds_model_kv_bytes_per_token(const ds_model *m, double kv_bytes);

#endif
