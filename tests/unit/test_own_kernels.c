// SPDX-License-Identifier: GPL-3.0-or-later
/* What an engine card changes in the price of kernels: its library's own efficiencies, products that start as fast as
 * 16-bit ones, and a sampler that pays for its vocabulary. */
#include "cards.h"

#include <math.h>

#include "cost/operators.h"
#include "spec/arith.h"

static double decode_s(const ds_run *run) {
  ds_pricer *p = pricer_of(run, 64, 64);
  double s = ds_decode_s(ds_price_decode(p, 16), 16 * 1000.0);
  ds_pricer_free(p);
  return s;
}

Test(own_kernels, a_library_replaces_its_groups_for_its_engine_alone) {
  ds_run r = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1);
  memset(r.pool.hw.library, 0, sizeof r.pool.hw.library);
  double pooled = decode_s(&r);
  ds_run own = r, replaced = r, other = r;
  ds_eff_decode slow = r.pool.hw.decode_kv16;
  slow.em *= 0.5;
  own.pool.hw.library[DS_LIBRARY_VLLM].decode_kv16 = slow;
  other.pool.hw.library[DS_LIBRARY_TRTLLM].decode_kv16 = slow;
  replaced.pool.hw.decode_kv16 = slow;
  cr_assert_eq(decode_s(&own), decode_s(&replaced));
  cr_assert_eq(decode_s(&other), pooled);
  cr_assert_gt(decode_s(&own), pooled);
  own.cost_tier = DS_COST_SPEED_OF_LIGHT;
  r.cost_tier = DS_COST_SPEED_OF_LIGHT;
  cr_assert_eq(decode_s(&own), decode_s(&r), "no efficiency bounds it");
}

/* TensorRT-LLM on Hopper: query heads that share keys go through tensor cores, those that do not through another kernel
 * (h200-sxm.yaml has both). Llama 3.1 8B shares, Llama 2 7B does not; one query head a device has nobody to share with. */
Test(own_kernels, heads_that_do_not_share_keys_have_a_kernel_of_their_own) {
  static const struct { const char *model; int64_t tp; bool shares; } cases[] = {
      {"llama-3.1-8b", 1, true}, {"llama-2-7b", 1, false}, {"llama-3.1-8b", 32, false}};
  for (int i = 0; i < 3; i++) {
    ds_run r = run_of(cases[i].model, "h200-sxm", "trtllm-2025", DS_FMT_FP8, DS_FMT_FP8, cases[i].tp), pooled = r;
    const ds_eff_library *l = &r.pool.hw.library[DS_LIBRARY_TRTLLM];
    cr_assert(l->decode_kv8.em > 0 && l->decode_kv8_mha.em > 0 && l->decode_kv8_mha.em < l->decode_kv8.em);
    pooled.pool.hw.decode_kv8 = cases[i].shares ? l->decode_kv8 : l->decode_kv8_mha;
    pooled.pool.hw.library[DS_LIBRARY_TRTLLM].decode_kv8.em = 0;
    pooled.pool.hw.library[DS_LIBRARY_TRTLLM].decode_kv8_mha.em = 0;
    cr_assert_eq(decode_s(&r), decode_s(&pooled), "%s on %d", cases[i].model, (int)cases[i].tp);
  }
}

/* Norms of queries and keys: two kernels a layer that read and write their rows; over all heads one more all-reduce of 8 bytes a
 * token, where there are several ranks. */
Test(own_kernels, norms_of_queries_and_keys) {
  for (int64_t tp = 1; tp <= 4; tp *= 4) {
    ds_run r = run_of("minimax-m2", "h200-sxm", "vllm-2025", DS_FMT_FP8_BLOCK, DS_FMT_BF16, tp), heads = r, none = r;
    cr_assert(r.model.qk_norm && r.model.qk_norm_whole);
    heads.model.qk_norm_whole = false;
    none.model.qk_norm = none.model.qk_norm_whole = false;
    double rate = r.pool.hw.memory_bytes_per_s * r.pool.hw.elementwise_em;
    double kernels = 62 * 2 * (r.pool.engine.small_kernel_s + 16.0 * (48 + 8) / (double)tp * 128 * 2 / rate);
    cr_assert_float_eq(decode_s(&heads) - decode_s(&none), kernels, 1e-9);
    ds_allreduce a = ds_allreduce_bind(&r.pool.hw, tp);
    cr_assert_float_eq(decode_s(&r) - decode_s(&heads), 62 * ds_allreduce_s(&a, 16 * 8.0), 1e-9);
  }
}

/* Experts with block scales have their own group where the card has one, else that of plain fp8. */
Test(own_kernels, block_scaled_experts_have_kernels_of_their_own) {
  ds_run r = run_of("deepseek-r1", "b200-sxm", "sglang-2025", DS_FMT_FP8_BLOCK, DS_FMT_BF16, 8);
  ds_hw *hw = &r.pool.hw;
  cr_assert_gt(hw->moe[DS_MOE_FP8_BLOCK].em, 0);
  cr_assert_eq(ds_expert_arith_of(hw, DS_FMT_FP8_BLOCK).group, DS_MOE_FP8_BLOCK);
  cr_assert_eq(ds_expert_arith_of(hw, DS_FMT_FP8).group, DS_MOE_FP8);
  ds_run plain = r, same = r;
  plain.pool.hw.moe[DS_MOE_FP8_BLOCK].em = 0;
  same.pool.hw.moe[DS_MOE_FP8_BLOCK] = hw->moe[DS_MOE_FP8];
  cr_assert_eq(ds_expert_arith_of(&plain.pool.hw, DS_FMT_FP8_BLOCK).group, DS_MOE_FP8);
  cr_assert_eq(decode_s(&plain), decode_s(&same));
  cr_assert_neq(decode_s(&plain), decode_s(&r));
}

/* An engine that multiplies in fp8 on an fp8 cache does so where the part has such products, and not on an A100. */
Test(own_kernels, an_engine_says_that_attention_is_in_8_bit) {
  ds_run h = run_of("llama-3.1-8b", "h100-sxm", "trtllm-2025", DS_FMT_FP8, DS_FMT_FP8, 1);
  ds_run a = run_of("llama-3.1-8b", "a100-80-sxm", "trtllm-2025", DS_FMT_BF16, DS_FMT_FP8, 1);
  ds_run v = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_FP8, DS_FMT_FP8, 1);
  cr_assert(ds_attention_8bit_of(&h.pool.hw, &h.pool.engine));
  cr_assert_not(ds_attention_8bit_of(&a.pool.hw, &a.pool.engine));
  cr_assert_not(ds_attention_8bit_of(&v.pool.hw, &v.pool.engine));
}

/* One more launch, and the passes over the activations: M K (2 + 1) bytes. */
Test(own_kernels, fixed_scales_save_the_kernel_that_finds_them) {
  ds_run r = run_of("llama-3.1-8b", "h200-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 1);
  const ds_hw *hw = &r.pool.hw;
  ds_gemm found = ds_gemm_bind(hw, DS_FMT_FP8, false), fixed = ds_gemm_bind(hw, DS_FMT_FP8_STATIC, false);
  cr_assert_gt(hw->gemm[DS_GEMM_FP8].t0_s, hw->gemm[DS_GEMM_BF16].t0_s);
  double saved = ds_gemm_time(&found, 64, 4096, 4096).s - ds_gemm_time(&fixed, 64, 4096, 4096).s;
  double launch = hw->gemm[DS_GEMM_FP8].t0_s - hw->gemm[DS_GEMM_BF16].t0_s;
  double passes = 64.0 * 4096 * 3 / (hw->memory_bytes_per_s * hw->gemm[DS_GEMM_FP8].em);
  cr_assert_float_eq(saved, launch + passes, 1e-12);
  /* NVFP4 is written by the kernel before on engines that say so, and only there. */
  ds_run four = run_of("llama-3.1-8b", "b200-sxm", "generic", DS_FMT_NVFP4, DS_FMT_BF16, 1), fused = four;
  fused.pool.engine.fused_nvfp4 = true;
  cr_assert_lt(decode_s(&fused), decode_s(&four));
  r.pool.engine.fused_nvfp4 = false;
  double plain = decode_s(&r);
  r.pool.engine.fused_nvfp4 = true;
  cr_assert_eq(decode_s(&r), plain, "fp8 with scales of its own is no NVFP4");
}

/* 64 heads over 8 that hold keys and values: a kernel with a block per query head reads each of these eight times, and so
 * takes what eight times as many KV heads would; prompts are another kernel's. */
Test(own_kernels, a_kernel_per_query_head_reads_the_cache_for_each) {
  ds_run shared = run_of("llama-3.1-70b", "mi300x", "generic", DS_FMT_BF16, DS_FMT_BF16, 2), apart = shared;
  apart.pool.engine.kv_per_query_head = true;
  ds_operators one, each;
  ds_operators_bind(&shared, &one);
  ds_operators_bind(&apart, &each);
  cr_assert_float_eq(each.decode.mem_per_ctx_s / one.decode.mem_per_ctx_s, 8, 1e-12);
  cr_assert_float_eq(each.decode.work_per_seq_s / one.decode.work_per_seq_s, 8, 1e-12);
  cr_assert_eq(each.decode.t0_s, one.decode.t0_s);
  cr_assert_eq(each.prefill.per_kv_s, one.prefill.per_kv_s);
  apart.cost_tier = shared.cost_tier = DS_COST_SPEED_OF_LIGHT;
  cr_assert_eq(decode_s(&apart), decode_s(&shared), "no bound reads anything twice");
}

/* An engine without an all-reduce of its own takes the vendor's: a + b (n - 1) and more for two tensors a layer. */
Test(own_kernels, the_vendors_collectives_where_an_engine_has_none) {
  ds_run own = run_of("llama-3.1-70b", "mi300x", "generic", DS_FMT_BF16, DS_FMT_BF16, 8), vendors = own;
  vendors.pool.engine.vendor_collectives = true;
  ds_operators a, b;
  ds_operators_bind(&own, &a);
  ds_operators_bind(&vendors, &b);
  cr_assert_float_eq(b.reduce.one_shot_s, 14e-6 + 7 * 4.3e-6, 1e-12);
  cr_assert_float_eq(a.reduce.one_shot_s, own.pool.hw.allreduce.a1_s + 7 * own.pool.hw.allreduce.b_s, 1e-12);
  cr_assert_gt(decode_s(&vendors), decode_s(&own));
  ds_run h = run_of("llama-3.1-70b", "b200-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 8), same = h;
  same.pool.engine.vendor_collectives = true;
  cr_assert_eq(decode_s(&same), decode_s(&h), "a card that does not know them keeps its own");
}

Test(own_kernels, the_sampler_pays_for_the_vocabulary_on_every_device) {
  for (int64_t tp = 1; tp <= 2; tp++) {
    ds_run r = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, tp);
    double without = decode_s(&r);
    r.pool.engine.sampler_bytes = 100;
    double bytes = 16.0 * 128256 * 100, rate = r.pool.hw.memory_bytes_per_s * r.pool.hw.elementwise_em;
    cr_assert_float_eq(decode_s(&r) - without, bytes / rate, 1e-12);
  }
}
