// SPDX-License-Identifier: Apache-2.0
/* In which arithmetic a part multiplies weights of a given format, and what that asks of the
 * activations.
 *
 * A part without the format's own arithmetic keeps the weights as they are and multiplies in 16 bit
 * (weight-only kernels): fp8 on an A100 is W8A16, nvfp4 on a Hopper W4A16. */
#ifndef DS_SPEC_ARITH_H
#define DS_SPEC_ARITH_H

#include "spec/hardware.h"
#include "spec/model.h"
#include "spec/run.h"

typedef struct ds_arith {
  double peak_per_s;   /* FLOP/s or integer operations per second, dense */
  double weight_bytes; /* per weight, scales included */
  double act_bytes;    /* per activation element that the GEMM reads */
  bool quantise; /* activations are quantised on the fly, in a pass of their own before the GEMM */
  ds_gemm_group group; /* whose efficiencies apply */
} ds_arith;

/* hw with a positive 16-bit peak. */
ds_arith ds_arith_of(const ds_hw *hw, ds_format weights);

/* The same for a mixture's experts, which have kernels and efficiencies of their own. */
typedef struct ds_expert_arith {
  double peak_per_s, weight_bytes;
  ds_moe_group group;
} ds_expert_arith;
ds_expert_arith ds_expert_arith_of(const ds_hw *hw, ds_format weights);

/* Whether an engine's prefill attention multiplies in fp8 on an fp8 cache: it says so, and the part has such products
 * and a figure for such attention. */
bool ds_attention_8bit_of(const ds_hw *hw, const ds_engine_card *engine);

/* On a part with measured efficiencies: the first group that this run uses and that is an estimate all the same, by its
 * name in the card; NULL: none. */
const char *ds_estimated_group(const ds_run *run);

/* Lower-case name as in a hardware card: moe_bf16 moe_fp8 ... */
const char *ds_moe_group_name(ds_moe_group g);

/* Lower-case name as in a hardware card: gemm_bf16 gemm_fp8 gemm_nvfp4 gemm_int4 gemm_int8_wo. */
const char *ds_gemm_group_name(ds_gemm_group g);

#endif
