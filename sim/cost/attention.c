// SPDX-License-Identifier: Apache-2.0
/* Attention with one key/value head per group of query heads (MHA and GQA).
 *
 * Decode reads the whole cache of every sequence once and is bound by memory; beside it each pair
 * of sequence and KV head is a work item that occupies a unit for c seconds, which matters for many
 * short contexts. Both overlap with an exponent of 1, 2 or 4, so that the hot loop needs only
 * square roots. t = t0 + ((bytes / (bandwidth em))^p + (c n kv_heads / units)^p)^(1/p) Prefill is
 * bound by arithmetic; its terms add. t = t0 + flops / (peak ec) + bytes / (bandwidth em) + ct
 * heads tiles / units Queries and results are 16 bit, the cache has the run's width; the flops are
 * those of the causal half only. Forms and constants: fitted on the kernel tables of
 * ai-dynamo/aiconfigurator @095f58a51c (context of a chunk is not covered there: the same terms are
 * used with the cached tokens added). */
#include "cost/operators.h"

void ds_attention_bind(const ds_hw *hw, bool ideal, ds_operators *o) {
  bool narrow = o->kv_bytes < 2;
  const ds_eff_decode *d = narrow ? &hw->decode_kv8 : &hw->decode_kv16;
  const ds_eff_prefill *f = &hw->prefill_16;
  double row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim;

  double decode_bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : d->em);
  o->decode = (ds_attn_decode){.mem_per_ctx_s = 2.0 * kv_row * o->kv_bytes / decode_bytes_per_s,
                               .mem_per_seq_s = 4.0 * row / decode_bytes_per_s,
                               .p = 1};
  double flops_per_s = hw->peak_flops_per_s[DS_MATH_16] * (ideal ? 1.0 : f->ec);
  double prefill_bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : f->em);
  o->prefill = (ds_attn_prefill){.per_pair_s = 4.0 * row / flops_per_s,
                                 .per_token_s = (4.0 * row + 4.0 * kv_row) / prefill_bytes_per_s,
                                 .per_kv_s = 4.0 * kv_row * o->kv_bytes / prefill_bytes_per_s,
                                 .ideal = ideal};
  if (ideal) {
    o->prefill.per_kv_s *= 0.5; /* keys and values once each; real kernels read them again */
    return;
  }
  o->decode.t0_s = d->t0_s;
  o->decode.work_per_seq_s = d->c_s * o->kv_heads / hw->units;
  o->decode.p = d->p == 1 ? 1 : d->p == 2 ? 2 : 4;
  o->prefill.t0_s = f->t0_s;
  o->prefill.per_tile_s = f->ct_s * o->heads / hw->units;
}

double ds_attn_decode_s(const ds_attn_decode *d, double n, double ctx) {
  /* One layer's worth of what ds_decode_s works out for all: the exponents are spelled out there.
   */
  const ds_decode_price one = {.base_s = d->t0_s,
                               .layers = 1,
                               .mem_per_ctx_s = d->mem_per_ctx_s,
                               .mem_fixed_s = n * d->mem_per_seq_s,
                               .work_s = n * d->work_per_seq_s,
                               .p = d->p};
  return ds_decode_s(&one, ctx);
}

double ds_attn_verify_s(const ds_operators *o, double n, double drafts, double ctx) {
  /* The cache is read once whatever the number of rows; their arithmetic then counts, at the rate of prefill. */
  const ds_attn_decode *d = &o->decode;
  const ds_decode_price one = {.base_s = 0,
                               .layers = 1,
                               .mem_per_ctx_s = d->mem_per_ctx_s,
                               .mem_fixed_s = (n + drafts) * d->mem_per_seq_s,
                               .work_s = n * d->work_per_seq_s,
                               .p = d->p};
  double memory_s = ds_decode_s(&one, ctx), compute_s = o->prefill.per_pair_s * ctx * ((n + drafts) / n);
  return d->t0_s + (memory_s > compute_s ? memory_s : compute_s);
}

ds_kernel_time ds_attn_prefill_time(const ds_attn_prefill *f, const ds_shape *s) {
  double compute_s = s->prefill_pairs * f->per_pair_s;
  double memory_s = (double)s->prefill_tokens * f->per_token_s + s->prefill_kv_tokens * f->per_kv_s;
  ds_kernel_time t = {.compute = compute_s > memory_s};
  if (f->ideal)
    t.s = t.compute ? compute_s : memory_s;
  else
    t.s = f->t0_s + compute_s + memory_s + (double)s->prefill_tiles * f->per_tile_s;
  return t;
}
