// SPDX-License-Identifier: Apache-2.0
#include "spec/model.h"

const char *ds_format_name(ds_format f) {
  switch (f) {
  case DS_FMT_BF16:
    return "bf16";
  case DS_FMT_FP16:
    return "fp16";
  case DS_FMT_FP8:
    return "fp8";
  case DS_FMT_INT8:
    return "int8";
  case DS_FMT_INT8_WO:
    return "int8-wo";
  case DS_FMT_INT4:
    return "int4";
  case DS_FMT_MXFP4:
    return "mxfp4";
  case DS_FMT_NVFP4:
    return "nvfp4";
  case DS_FMT_FP8_BLOCK:
    return "fp8-block";
  case DS_FMT_FP8_STATIC:
    return "fp8-static";
  case DS_FMT_MXFP4_A8:
    return "mxfp4-a8";
  case DS_FMT_N:
    break;
  }
  return "?";
}

double ds_format_weight_bytes(ds_format f) {
  switch (f) {
  case DS_FMT_BF16:
  case DS_FMT_FP16:
    return 2;
  case DS_FMT_FP8:
  case DS_FMT_INT8:
  case DS_FMT_INT8_WO:
  case DS_FMT_FP8_STATIC:
    return 1;
  case DS_FMT_FP8_BLOCK:
    return 1 + 4.0 / 16384; /* a 32-bit scale per 128 x 128 */
  case DS_FMT_INT4:
    return 0.5 + 2.0 / 128; /* a 16-bit scale per 128 weights (GPTQ, AWQ) */
  case DS_FMT_MXFP4:
  case DS_FMT_MXFP4_A8:
    return 0.5 + 1.0 / 32; /* an 8-bit scale per 32 (OCP microscaling) */
  case DS_FMT_NVFP4:
    return 0.5 + 1.0 / 16; /* an fp8 scale per 16 */
  case DS_FMT_N:
    break;
  }
  return 2;
}

double ds_format_kv_bytes(ds_format f) { return f == DS_FMT_FP8 || f == DS_FMT_INT8 ? 1 : 2; }

int64_t ds_model_attention_layers(const ds_model *m) { return m->layers - m->state_layers; }

int64_t ds_model_full_layers(const ds_model *m) {
  if (m->index_top_k > 0) return 0;
  return m->window > 0 ? m->full_layers : ds_model_attention_layers(m);
}

int64_t ds_model_moe_layers(const ds_model *m) {
  if (m->experts <= 0) return 0;
  return (m->layers - m->dense_layers) / (m->moe_every > 1 ? m->moe_every : 1);
}

int64_t ds_model_reach(const ds_model *m) { return m->index_top_k > 0 ? m->index_top_k : m->window; }

double ds_model_kv_width(const ds_model *m) {
  if (m->kv_lora > 0) return (double)(m->kv_lora + m->qk_rope);
  return 2.0 * (double)m->kv_heads * (double)m->head_dim;
}

/* Weights of one attention layer, its biases and inner norms included. */
static double attention_params(const ds_model *m) {
  double h = (double)m->hidden, heads = (double)m->heads;
  if (m->kv_lora > 0) {
    double q = (double)m->q_lora, kv = (double)m->kv_lora, v = (double)m->v_head_dim;
    double qk = (double)(m->qk_nope + m->qk_rope);
    double query = q > 0 ? h * q + q * heads * qk + q : h * heads * qk;
    double all = query + h * (kv + (double)m->qk_rope) + kv +
                 kv * heads * ((double)m->qk_nope + v) + heads * v * h;
    double ih = (double)m->index_heads, id = (double)m->index_head_dim;
    /* queries of the indexer from the compressed query, one key for all its heads with its norm, a weight per head */
    if (m->index_top_k > 0) all += q * ih * id + h * id + 2 * id + h * ih;
    return all;
  }
  double row = heads * (double)m->head_dim, kv_row = (double)m->kv_heads * (double)m->head_dim;
  double all = h * (row + 2 * kv_row) + row * h;
  if (m->qkv_bias || m->linear_bias) all += row + 2 * kv_row;
  if (m->linear_bias) all += h;
  if (m->qk_norm) all += m->qk_norm_whole ? row + kv_row : 2 * (double)m->head_dim;
  if (m->attention_sinks) all += heads;
  return all;
}

static double mlp_params(const ds_model *m) {
  double h = (double)m->hidden, f = (double)m->ffn, n = (double)m->mlp_matrices;
  return n * h * f + (m->linear_bias ? (n - 1) * f + h : 0);
}

static double expert_params(const ds_model *m) {
  double h = (double)m->hidden, f = (double)m->expert_ffn;
  return 3 * h * f + (m->linear_bias ? 2 * f + h : 0);
}

/* Of the language model itself. */
static double params_with(const ds_model *m, double experts_counted) {
  double h = (double)m->hidden, norm = h * (m->norm_bias ? 2 : 1);
  double norms = m->norms_per_layer > 0 ? (double)m->norms_per_layer : 2;
  double moe = (double)ds_model_moe_layers(m), layers = (double)m->layers;
  double attention = (double)ds_model_attention_layers(m), states = (double)m->state_layers;
  double embeddings = (double)m->vocab * h * (m->tied_embeddings ? 1 : 2) +
                      (double)m->learned_positions * h;
  double all = attention * attention_params(m) + states * (double)m->state_params + layers * norms * norm +
               embeddings + norm; /* and the last norm */
  if (m->ffn > 0) all += (layers - moe) * mlp_params(m);
  if (moe > 0)
    all += moe * (experts_counted * expert_params(m) +
                  3 * h * (double)m->shared_ffn * (double)m->shared_experts + h * (double)m->experts +
                  (m->router_bias ? (double)m->experts : 0));
  return all + (double)m->extra_params;
}

double ds_model_encoder_params(const ds_model *m) { return (double)m->encoder_params + ds_vision_params(&m->vision); }

double ds_model_params(const ds_model *m) {
  return params_with(m, (double)m->experts) + ds_model_encoder_params(m);
}

double ds_model_active_params(const ds_model *m) { return params_with(m, (double)m->top_k); }

double ds_model_kv_bytes_per_token(const ds_model *m, double kv_bytes) {
  return (double)ds_model_attention_layers(m) * ds_model_kv_width(m) * kv_bytes;
}
