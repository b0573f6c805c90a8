// SPDX-License-Identifier: Apache-2.0
/* Attention with one key/value head per group of query heads (MHA and GQA).
 *
 * Decode reads the whole cache of every sequence once and is bound by memory; beside it each pair
 * of sequence and KV head (of query head, where an engine's kernel reads for each) is a work item that occupies a unit for c seconds, which matters for many
 * short contexts. Both overlap with an exponent of 1, 2 or 4, so that the hot loop needs only
 * square roots. t = t0 + ((bytes / (bandwidth em))^p + (c n kv_heads / units)^p)^(1/p) Prefill is
 * bound by arithmetic; its terms add. t = t0 + flops / (peak ec) + bytes / (bandwidth em) + ct
 * heads tiles / units Queries and results are 16 bit, the cache has the run's width; the flops are
 * those of the causal half only. Forms and constants: fitted on the kernel tables of
 * ai-dynamo/aiconfigurator @095f58a51c (context of a chunk is not covered there: the same terms are
 * used with the cached tokens added). */
#include "cost/operators.h"

void ds_attention_bind(const ds_hw *hw, bool eight_bit, bool ideal, ds_operators *o) {
  bool narrow = o->kv_bytes < 2;
  const ds_eff_decode *d = narrow ? &hw->decode_kv8 : &hw->decode_kv16;
  double peak = hw->peak_flops_per_s[DS_MATH_16], peak_8 = hw->peak_flops_per_s[DS_MATH_8];
  if (peak_8 < hw->int8_ops_per_s) peak_8 = hw->int8_ops_per_s;
  eight_bit = eight_bit && narrow && peak_8 > 0;
  if (eight_bit) peak = peak_8;
  const ds_eff_prefill *f = eight_bit ? &hw->prefill_8 : &hw->prefill_16;
  double row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim;

  double readers = o->kv_readers > 0 ? o->kv_readers : o->kv_heads;
  double decode_bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : d->em);
  o->decode = (ds_attn_decode){.mem_per_ctx_s = 2.0 * readers * o->head_dim * o->kv_bytes / decode_bytes_per_s,
                               .mem_per_seq_s = 4.0 * row / decode_bytes_per_s,
                               .p = 1};
  double flops_per_s = peak * (ideal ? 1.0 : f->ec);
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
  o->decode.work_per_seq_s = d->c_s * readers / hw->units;
  o->decode.p = d->p == 1 ? 1 : d->p == 2 ? 2 : 4;
  o->prefill.t0_s = f->t0_s;
  o->prefill.per_tile_s = f->ct_s * o->heads / hw->units;
}

double ds_attention_pairs(double s, double c, double reach, bool chunked) {
  double all = s * c + s * (s + 1.0) * 0.5;
  if (reach <= 0 || reach >= s + c) return all;
  if (chunked) { /* whole stretches and the rest, up to the last token and up to the first */
    double end = s + c, whole = ds_floor(end / reach), before = ds_floor(c / reach);
    double rest = end - whole * reach, head = c - before * reach;
    return (whole - before) * (reach * (reach + 1.0) * 0.5) + rest * (rest + 1.0) * 0.5 -
           head * (head + 1.0) * 0.5;
  }
  if (c >= reach) return s * reach;
  return reach * (reach + 1.0) * 0.5 - c * (c + 1.0) * 0.5 + (s + c - reach) * reach;
}

double ds_attention_kv(double s, double c, double reach, bool chunked) {
  if (reach <= 0) return s + c;
  if (chunked) return s + (c - ds_floor(c / reach) * reach);
  return c < reach ? s + c : s + reach;
}

/* One layer's worth of what ds_decode_s works out for all: the exponents are spelled out there. */
static DS_ALWAYS_INLINE double decode_s(const ds_attn_decode *d, double n, double ctx) {
  const ds_decode_price one = {.base_s = d->t0_s + n * d->per_seq_s,
                               .layers = 1,
                               .mem_per_ctx_s = d->mem_per_ctx_s,
                               .comp_per_ctx_s = d->comp_per_ctx_s,
                               .mem_fixed_s = n * d->mem_per_seq_s,
                               .work_s = n * d->work_per_seq_s,
                               .general = d->comp_per_ctx_s > 0,
                               .p = d->p};
  return DS_UNLIKELY(one.general) ? ds_decode_general_s(&one, ctx, 0) : ds_decode_s(&one, ctx);
}
double ds_attn_decode_s(const ds_attn_decode *d, double n, double ctx) { return decode_s(d, n, ctx); }

double ds_attn_verify_s(const ds_operators *o, double n, double drafts, double ctx) {
  /* The cache is read once whatever the number of rows; their arithmetic then counts, at the rate of prefill. */
  double rows = (n + drafts) / n;
  ds_attn_decode d = o->decode;
  d.mem_per_seq_s *= rows;
  d.per_seq_s *= rows;
  d.comp_per_ctx_s *= rows;
  double memory_s = ds_attn_decode_s(&d, n, ctx) - d.t0_s;
  if (o->kv_lora > 0) return d.t0_s + memory_s; /* which has its arithmetic already */
  double compute_s = o->prefill.per_pair_s * ctx * rows;
  return d.t0_s + (memory_s > compute_s ? memory_s : compute_s);
}

static DS_ALWAYS_INLINE ds_kernel_time prefill_time(const ds_attn_prefill *f, double tokens, double pairs,
                                                    double kv_tokens, double tiles) {
  double compute_s = pairs * f->per_pair_s;
  double memory_s = tokens * f->per_token_s + kv_tokens * f->per_kv_s;
  ds_kernel_time t = {.compute = compute_s > memory_s};
  if (f->ideal)
    t.s = t.compute ? compute_s : memory_s;
  else
    t.s = f->t0_s + compute_s + memory_s + tiles * f->per_tile_s;
  return t;
}

ds_kernel_time ds_attn_prefill_time(const ds_attn_prefill *f, double tokens, double pairs,
                                    double kv_tokens, double tiles) {
  return prefill_time(f, tokens, pairs, kv_tokens, tiles);
}

/* One layer's pnorm of memory, arithmetic and work. */
static double overlap(const ds_decode_price *d, double sum) {
  double m = sum * d->mem_per_ctx_s + d->mem_fixed_s, c = sum * d->comp_per_ctx_s, w = d->work_s;
  if (d->p == 0) {
    if (c > m) m = c;
    return m > w ? m : w;
  }
  if (d->p == 1) return m + c + w;
  if (d->p == 2) return ds_sqrt(m * m + c * c + w * w);
  double m2 = m * m, c2 = c * c, w2 = w * w;
  return ds_sqrt(ds_sqrt(m2 * m2 + c2 * c2 + w2 * w2));
}

double ds_decode_general_s(const ds_decode_price *d, double ctx, double near) {
  double s = d->base_s + ctx * d->per_ctx_s;
  if (d->layers > 0) s += d->layers * overlap(d, ctx);
  return d->near_layers > 0 ? s + d->near_layers * overlap(d, near) : s;
}

/* One batch of so many: nearly always there is one, and a division is slow. */
static inline double share(double x, double batches) { return batches == 1 ? x : x / batches; }

/* Layers of one kind: `sum` is of the contexts that they read, and so pairs and kv. */
static DS_ALWAYS_INLINE void layers_cost(const ds_operators *o, double layers, const ds_shape *s, double batches,
                        double sum, double pairs, double kv, ds_ops *ops,
                        double part_s[DS_PART_N]) {
  if (!(layers > 0)) return;
  if (s->decode_seqs > 0) {
    double n = share((double)s->decode_seqs, batches);
    double t = s->draft_tokens > 0
                   ? ds_attn_verify_s(o, n, share((double)s->draft_tokens, batches), share(sum, batches))
                   : decode_s(&o->decode, n, share(sum, batches));
    t *= layers;
    bool compute = o->decode.comp_per_ctx_s > o->decode.mem_per_ctx_s;
    part_s[compute ? DS_PART_COMPUTE : DS_PART_MEMORY] += t;
    if (ops != NULL) ops->attn_dec += t;
  }
  if (s->prefill_tokens > 0) {
    ds_kernel_time k =
        prefill_time(&o->prefill, share((double)s->prefill_tokens, batches), share(pairs, batches),
                             share(kv, batches), share((double)s->prefill_tiles, batches));
    part_s[k.compute ? DS_PART_COMPUTE : DS_PART_MEMORY] += layers * k.s;
    if (ops != NULL) ops->attn_pre += layers * k.s;
  }
}

/* Layers without attention: each sequence's state is read and written, and updated by each token.
 */
void ds_states_cost(const ds_operators *o, const ds_shape *s, double batches, double rounds,
                    ds_ops *ops, double part_s[DS_PART_N]) {
  if (!(o->state_layers > 0)) return;
  double rows = (double)(s->decode_seqs + s->prefill_chunks) / batches;
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens) / batches;
  double t = rounds * o->state_layers * (o->element.t0_s + 2.0 * rows * o->state_bytes * o->element.per_byte_s +
                                tokens * o->state_flops_per_token / o->flops_16_per_s);
  part_s[DS_PART_MEMORY] += t;
  if (ops != NULL) ops->attn_dec += t;
}

void ds_attention_cost(const ds_operators *o, const ds_shape *s, double batches, double rounds,
                       ds_ops *ops, double part_s[DS_PART_N]) {
  layers_cost(o, rounds * o->full_layers, s, batches, s->decode_ctx, s->prefill_pairs, s->prefill_kv_tokens,
              ops, part_s);
  if (o->near_layers > 0) {
    layers_cost(o, rounds * o->near_layers, s, batches, s->decode_near, s->prefill_near_pairs,
                s->prefill_near_kv, ops, part_s);
  }
  if (o->state_layers > 0) ds_states_cost(o, s, batches, rounds, ops, part_s);
  if (o->kv_lora > 0 && s->prefill_tokens > 0 && !o->prefill.ideal) { /* expand keys and values */
    double n = rounds * (o->full_layers + o->near_layers);
    ds_kernel_time k = ds_gemm_time(&o->body, (double)s->prefill_tokens / batches,
                                    o->heads * (o->qk_nope + o->v_dim), o->kv_lora);
    part_s[k.compute ? DS_PART_COMPUTE : DS_PART_MEMORY] += n * k.s;
    if (ops != NULL) ops->gemm_attn += n * k.s;
  }
  if (o->index_per_ctx_s > 0 && o->near_layers > 0) {
    double t = rounds * o->near_layers * (s->decode_ctx * o->index_per_ctx_s +
                                 s->prefill_kv_tokens * o->index_per_ctx_s +
                                 s->prefill_pairs * o->index_per_pair_s) / batches;
    part_s[DS_PART_MEMORY] += t;
    if (ops != NULL) ops->attn_dec += t;
  }
}
