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
    return 1;
  case DS_FMT_INT4:
    return 0.5 + 2.0 / 128; /* a 16-bit scale per 128 weights (GPTQ, AWQ) */
  case DS_FMT_MXFP4:
    return 0.5 + 1.0 / 32; /* an 8-bit scale per 32 (OCP microscaling) */
  case DS_FMT_NVFP4:
    return 0.5 + 1.0 / 16; /* an fp8 scale per 16 */
  case DS_FMT_N:
    break;
  }
  return 2;
}

double ds_format_kv_bytes(ds_format f) { return f == DS_FMT_FP8 || f == DS_FMT_INT8 ? 1 : 2; }

double ds_model_params(const ds_model *m) {
  double h = (double)m->hidden, q = (double)m->heads * (double)m->head_dim;
  double kv = (double)m->kv_heads * (double)m->head_dim;
  double layer = h * (q + 2 * kv) + q * h;               /* attention */
  layer += (double)m->mlp_matrices * h * (double)m->ffn; /* feed-forward */
  layer += 2 * h;                                        /* two norms */
  if (m->qkv_bias) layer += q + 2 * kv;
  if (m->qk_norm) layer += 2 * (double)m->head_dim;
  double embeddings = (double)m->vocab * h * (m->tied_embeddings ? 1 : 2);
  return (double)m->layers * layer + embeddings + h; /* and the last norm */
}

double ds_model_kv_bytes_per_token(const ds_model *m, double kv_bytes) {
  return 2.0 * (double)m->layers * (double)m->kv_heads * (double)m->head_dim * kv_bytes;
}
