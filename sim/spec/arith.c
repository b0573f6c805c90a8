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
