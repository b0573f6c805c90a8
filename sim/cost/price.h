// SPDX-License-Identifier: Apache-2.0
/* How long one engine iteration takes on one replica, and why.
 *
 * A batch is described by totals only (ds_shape), so that pricing never walks it. Two ways in:
 *   ds_price_decode  everyone decodes one token: constants per batch size, then one inline formula per iteration;
 *   ds_price_mixed   anything with prefill tokens in it.
 * Source: the equations cite the papers and files in price.c; every number comes from a card.
 * Threads: a ds_pricer belongs to one run (it memoises). Nothing allocates after init. */
#ifndef DS_COST_PRICE_H
#define DS_COST_PRICE_H

#include "base/alloc.h"
#include "base/num.h"
#include "spec/run.h"

/* Causes that an iteration's time is put to. */
typedef enum ds_part { DS_PART_MEMORY, DS_PART_COMPUTE, DS_PART_COMM, DS_PART_HOST, DS_PART_N } ds_part;

/* Totals over the batch. Tokens, never bytes. */
typedef struct ds_shape {
  int64_t decode_seqs;   /* rows that take one token */
  double decode_ctx;     /* sum over those rows of the KV tokens read, the new one included; exact integer */
  double decode_near;    /* the same of min(context, reach), where the model has layers of bounded reach */
  int64_t prefill_tokens;
  int64_t prefill_chunks;   /* requests with prefill tokens in this iteration */
  int64_t finished_chunks;  /* of those, how many complete their prompt (and sample a token) */
  double prefill_pairs;     /* sum of query x key pairs, causal: s c + s (s + 1) / 2 for s new after c cached */
  double prefill_kv_tokens; /* sum of s + c */
  int64_t prefill_tiles;    /* sum of ceil(s / 128) */
  int64_t draft_tokens;     /* speculation: drafts that the decode rows verify beside their one token */
  int64_t draft_passes;     /* of the drafter before it, each over draft_rows rows */
  int64_t draft_rows;
  double prefill_near_pairs, prefill_near_kv; /* pairs and s + c within reach, as decode_near */
} ds_shape;

/* Decode rows and nothing else yet. Field by field, which is three times as fast as clearing the whole. */
static inline void ds_shape_of_rows(ds_shape *s, int64_t rows, double ctx, double near) {
  s->decode_seqs = rows;
  s->decode_ctx = ctx;
  s->decode_near = near;
  s->prefill_tokens = s->prefill_chunks = s->finished_chunks = s->prefill_tiles = 0;
  s->prefill_pairs = s->prefill_kv_tokens = s->prefill_near_pairs = s->prefill_near_kv = 0;
  s->draft_tokens = s->draft_passes = s->draft_rows = 0;
}

/* Pairs of s new tokens after c cached ones when each reads the nearest `reach` at most (chunked: those of its own
 * stretch of that length); 0: all of them. */
double ds_attention_pairs(double s, double c, double reach, bool chunked);
/* And the cached and new tokens that are read at all. */
double ds_attention_kv(double s, double c, double reach, bool chunked);
/* Tokens that a row with ctx >= 1 of them reads. */
static inline int64_t ds_attention_near(int64_t ctx, int64_t reach, bool chunked) {
  if (chunked) return (ctx - 1) % reach + 1;
  return ctx < reach ? ctx : reach;
}

/* Seconds by operator, as in the reference tables. */
typedef struct ds_ops {
  double gemm_attn, gemm_mlp, moe, attn_dec, attn_pre, elt, ar, a2a, lmhead, engine;
} ds_ops;

/* Constants of a decode iteration of n sequences: time = base + layers * pnorm(ctx * mem_per_ctx + mem_fixed, work). */
typedef struct ds_decode_price {
  double base_s, layers, mem_per_ctx_s, mem_fixed_s, work_s;
  /* Beyond that, where `general` is set: arithmetic that grows with the context, layers of bounded reach (their sum
   * of contexts is `near`), and a price per token of the whole context. */
  double comp_per_ctx_s, near_layers, per_ctx_s;
  bool general;
  int64_t p;                 /* overlap exponent: 1, 2 or 4; in general also 0: the larger counts */
  int64_t fixed_ns[DS_PART_N]; /* the constant part of the iteration by cause, whole nanoseconds */
  ds_part attention_part;    /* cause that gets the rest, which varies with context */
  bool ready;
} ds_decode_price;

/* Seconds of one decode iteration; the hot path of the whole simulator. Monotone in ctx. p is d->p: a constant where the
 * caller knows it. */
static DS_ALWAYS_INLINE double ds_decode_with_s(const ds_decode_price *d, double ctx, int64_t p) {
  double m = ctx * d->mem_per_ctx_s + d->mem_fixed_s, w = d->work_s;
  double a;
  if (p == 1) {
    a = m + w;
  } else if (p == 2) {
    a = ds_sqrt(m * m + w * w);
  } else {
    double m2 = m * m, w2 = w * w;
    a = ds_sqrt(ds_sqrt(m2 * m2 + w2 * w2));
  }
  return d->base_s + d->layers * a;
}
/* The same in general; near is not used when the model has no layers of bounded reach. Monotone in both. */
double ds_decode_general_s(const ds_decode_price *d, double ctx, double near);
static inline int64_t ds_decode_general_ns(const ds_decode_price *d, double ctx, double near) {
  return ds_ns_of_s(ds_decode_general_s(d, ctx, near));
}
/* Only where d->general is not set. */
static inline double ds_decode_s(const ds_decode_price *d, double ctx) { return ds_decode_with_s(d, ctx, d->p); }
static inline int64_t ds_decode_ns(const ds_decode_price *d, double ctx) { return ds_ns_of_s(ds_decode_s(d, ctx)); }

/* What a mixed iteration costs. parts sum to total_ns exactly (largest remainder). */
typedef struct ds_mixed_price {
  int64_t total_ns;
  int64_t part_ns[DS_PART_N];
} ds_mixed_price;

typedef struct ds_pricer ds_pricer;

/* Bind a run's model, formats, hardware, engine and parallelism. max_tokens and max_seqs bound what will be asked
 * (memo tables are that long; larger shapes are priced without memo). Errors: DS_E_NOMEM, DS_E_INPUT. */
ds_status ds_pricer_new(const ds_run *run, int64_t max_tokens, int64_t max_seqs, const ds_alloc *a, ds_pricer **out, ds_error *err);
void ds_pricer_free(ds_pricer *p);

/* Never NULL for 1 <= n; valid until the next call that asks for an n above max_seqs. */
const ds_decode_price *ds_price_decode(ds_pricer *p, int64_t n);
void ds_price_mixed(ds_pricer *p, const ds_shape *s, ds_mixed_price *out);
/* Its total alone, for prefill_tokens >= 1. */
int64_t ds_price_mixed_ns(ds_pricer *p, const ds_shape *s);

/* The decode rows of a shape with drafts in it, without its prefill tokens: drafting and verifying. */
void ds_price_verify(ds_pricer *p, const ds_shape *s, ds_mixed_price *out);

/* The same iteration by operator, not memoised: for explanations, and for tests against the reference. Any tier. */
void ds_price_ops(ds_pricer *p, const ds_shape *s, ds_ops *out);
double ds_ops_total(const ds_ops *o);

/* FLOPs and bytes moved to and from device memory by one replica's GPU in so many iterations (>= 1) of which s holds the
 * sums; weights are read in each, and of experts those that the mean iteration touches. For energy. */
void ds_price_work(const ds_pricer *p, const ds_shape *s, uint64_t iterations, double *flops, double *bytes);
/* Adds those of the drafter's passes; s: the sums over them of rows and contexts. Nothing where drafts cost nothing. */
void ds_price_drafting(const ds_pricer *p, const ds_shape *s, uint64_t passes, double *flops, double *bytes);

/* The least time that physics allows for the shape: every efficiency 1, no fixed times, no communication. */
double ds_price_floor_s(const ds_pricer *p, const ds_shape *s);

#endif
