// SPDX-License-Identifier: Apache-2.0
#include "spec/arith.h"

const char *ds_gemm_group_name(ds_gemm_group g) {
  switch (g) {
  case DS_GEMM_BF16:
    return "gemm_bf16";
  case DS_GEMM_FP8:
    return "gemm_fp8";
  case DS_GEMM_NVFP4:
    return "gemm_nvfp4";
  case DS_GEMM_INT4:
    return "gemm_int4";
  case DS_GEMM_INT8_WO:
    return "gemm_int8_wo";
  case DS_GEMM_GROUPS:
    break;
  }
  return "?";
}

ds_arith ds_arith_of(const ds_hw *hw, ds_format weights) {
  double wb = ds_format_weight_bytes(weights);
  double fp8 = hw->peak_flops_per_s[DS_MATH_8], fp4 = hw->peak_flops_per_s[DS_MATH_4],
         int8 = hw->int8_ops_per_s;
  ds_arith wide = {hw->peak_flops_per_s[DS_MATH_16], wb, 2, false, DS_GEMM_BF16};
  switch (weights) {
  case DS_FMT_BF16:
  case DS_FMT_FP16:
  case DS_FMT_N:
    return wide;
  case DS_FMT_FP8:
    if (fp8 > 0) return (ds_arith){fp8, wb, 1, true, DS_GEMM_FP8};
    wide.group = DS_GEMM_INT8_WO;
    return wide;
  case DS_FMT_FP8_BLOCK: /* scales per 128 activations ride along */
    if (fp8 > 0) return (ds_arith){fp8, wb, 1 + 4.0 / 128, true, DS_GEMM_FP8};
    wide.group = DS_GEMM_INT8_WO;
    return wide;
  case DS_FMT_FP8_STATIC:
    if (fp8 > 0) return (ds_arith){fp8, wb, 1, false, DS_GEMM_FP8};
    wide.group = DS_GEMM_INT8_WO;
    return wide;
  case DS_FMT_MXFP4_A8:
    if (fp8 > 0) return (ds_arith){fp8, wb, 1 + 1.0 / 32, true, DS_GEMM_FP8};
    wide.group = DS_GEMM_INT4;
    return wide;
  case DS_FMT_INT8:
    if (int8 > 0) return (ds_arith){int8, wb, 1, true, DS_GEMM_FP8};
    wide.group = DS_GEMM_INT8_WO;
    return wide;
  case DS_FMT_INT8_WO:
    wide.group = DS_GEMM_INT8_WO;
    return wide;
  case DS_FMT_NVFP4:
    if (fp4 > 0) return (ds_arith){fp4, wb, wb, true, DS_GEMM_NVFP4};
    wide.group = DS_GEMM_INT4;
    return wide;
  case DS_FMT_INT4:
  case DS_FMT_MXFP4:
    wide.group = DS_GEMM_INT4;
    return wide;
  }
  return wide;
}

const char *ds_moe_group_name(ds_moe_group g) {
  switch (g) {
  case DS_MOE_BF16:
    return "moe_bf16";
  case DS_MOE_FP8:
    return "moe_fp8";
  case DS_MOE_FP8_BLOCK:
    return "moe_fp8_block";
  case DS_MOE_NVFP4:
    return "moe_nvfp4";
  case DS_MOE_MXFP4:
    return "moe_mxfp4_a16";
  case DS_MOE_MXFP4_A8:
    return "moe_mxfp4_a8";
  case DS_MOE_INT4:
    return "moe_int4";
  case DS_MOE_GROUPS:
    break;
  }
  return "?";
}

ds_expert_arith ds_expert_arith_of(const ds_hw *hw, ds_format weights) {
  double wb = ds_format_weight_bytes(weights), wide = hw->peak_flops_per_s[DS_MATH_16];
  double fp8 = hw->peak_flops_per_s[DS_MATH_8], fp4 = hw->peak_flops_per_s[DS_MATH_4],
         int8 = hw->int8_ops_per_s;
  switch (weights) {
  case DS_FMT_BF16:
  case DS_FMT_FP16:
  case DS_FMT_N:
    break;
  case DS_FMT_FP8:
  case DS_FMT_FP8_STATIC:
    if (fp8 > 0) return (ds_expert_arith){fp8, wb, DS_MOE_FP8};
    break;
  case DS_FMT_FP8_BLOCK:
    if (fp8 > 0) return (ds_expert_arith){fp8, wb, hw->moe[DS_MOE_FP8_BLOCK].em > 0 ? DS_MOE_FP8_BLOCK : DS_MOE_FP8};
    break;
  case DS_FMT_INT8:
    if (int8 > 0) return (ds_expert_arith){int8, wb, DS_MOE_FP8};
    break;
  case DS_FMT_INT8_WO: /* the kernels of 16-bit experts, with half the bytes */
    break;
  case DS_FMT_NVFP4:
    if (fp4 > 0) return (ds_expert_arith){fp4, wb, DS_MOE_NVFP4};
    return (ds_expert_arith){wide, wb, DS_MOE_INT4};
  case DS_FMT_INT4:
    return (ds_expert_arith){wide, wb, DS_MOE_INT4};
  case DS_FMT_MXFP4:
    return (ds_expert_arith){wide, wb, DS_MOE_MXFP4};
  case DS_FMT_MXFP4_A8:
    if (fp8 > 0) return (ds_expert_arith){fp8, wb, DS_MOE_MXFP4_A8};
    return (ds_expert_arith){wide, wb, DS_MOE_MXFP4};
  }
  return (ds_expert_arith){wide, wb, DS_MOE_BF16};
}

const char *ds_estimated_group(const ds_run *run) {
  const ds_hw *hw = &run->pool.hw;
  ds_gemm_group g = ds_arith_of(hw, run->weights).group;
  bool narrow = ds_format_kv_bytes(run->kv_cache) < 2;
  if (hw->gemm_estimated[g]) return ds_gemm_group_name(g);
  if (run->model.experts > 0) {
    ds_moe_group m = ds_expert_arith_of(hw, run->expert_weights).group;
    if (hw->moe_estimated[m]) return ds_moe_group_name(m);
  }
  if (run->model.kv_lora > 0) {
    if (hw->latent_estimated[narrow]) return narrow ? "mla_decode_kv8" : "mla_decode_kv16";
  } else if (narrow && hw->decode_kv8_estimated) {
    return "attn_decode_kv8";
  }
  return run->model.experts > 0 && run->pool.data_parallel > 1 && hw->exchange_estimated ? "dispatch_low" : NULL;
}

bool ds_attention_8bit_of(const ds_hw *hw, const ds_engine_card *engine) {
  return engine->attention_8bit && hw->peak_flops_per_s[DS_MATH_8] > 0 && hw->prefill_8.em > 0;
}
