// SPDX-License-Identifier: Apache-2.0
/* The operators of one iteration, bound to a run: every constant that does not change between
 * iterations is worked out once. Internal to the cost layer.
 *
 * Times are seconds on one device of the replica; with tensor parallelism all devices do the same
 * at the same time. Bound once, then read only: safe to share between threads. */
#ifndef DS_COST_OPERATORS_H
#define DS_COST_OPERATORS_H

#include "cost/price.h"
#include "spec/arith.h"

/* One kind of matrix product: M x K times K x N. See gemm.c. */
typedef struct ds_gemm {
  double peak_per_s;               /* datasheet, for bounds */
  double flops_per_s, bytes_per_s; /* reached */
  double t0_s, p, wh, kh, units;
  double weight_bytes, act_bytes;
  bool quantise;
  bool ideal; /* speed of light: no padding, perfect overlap */
} ds_gemm;

/* Seconds, and whether arithmetic rather than memory sets them. */
typedef struct ds_kernel_time {
  double s;
  bool compute;
} ds_kernel_time;

/* Attention over cached tokens, one query row per sequence; per layer:
 * t0 + pnorm(ctx mem_per_ctx + n mem_per_seq, n work_per_seq). */
typedef struct ds_attn_decode {
  double t0_s, mem_per_ctx_s, mem_per_seq_s, work_per_seq_s;
  int64_t p;
} ds_attn_decode;

/* Causal attention of prefill chunks; per layer a fixed time, arithmetic, memory and a cost per
 * tile. */
typedef struct ds_attn_prefill {
  double t0_s, per_pair_s, per_token_s, per_kv_s, per_tile_s;
  bool ideal;
} ds_attn_prefill;

typedef struct ds_allreduce {
  double ranks; /* 1: free */
  double one_shot_s, one_shot_per_byte_s, two_shot_s, two_shot_per_byte_s;
} ds_allreduce;

typedef struct ds_elementwise {
  double t0_s, per_byte_s;
} ds_elementwise;

/* A model on a device, as its kernels see it. Other layer kinds (mixture of experts, latent
 * attention, sliding windows) bring their own widths and operators beside these, and a count of
 * layers of each kind. */
typedef struct ds_operators {
  double layers, hidden, heads, kv_heads, head_dim; /* heads per device */
  double mlp_in, mlp_out, mlp_act; /* columns of the first product, rows of the second, values that
                                      the activation touches */
  double vocab;                    /* rows of the output layer per device */
  double kv_bytes;                 /* per element */
  double flops_16_per_s, memory_bytes_per_s; /* datasheet, for bounds */
  ds_gemm body, head;
  ds_attn_decode decode;
  ds_attn_prefill prefill;
  ds_allreduce reduce;
  ds_elementwise element;
  double per_iteration_s, per_request_s;
} ds_operators;

/* run as ds_run_validate accepts it, not of the linear tier. */
void ds_operators_bind(const ds_run *run, ds_operators *out);

ds_gemm ds_gemm_bind(const ds_hw *hw, ds_format weights, bool ideal);
ds_kernel_time ds_gemm_time(const ds_gemm *g, double m, double n, double k);

void ds_attention_bind(const ds_hw *hw, bool ideal, ds_operators *o);
/* Per layer, with its fixed time; n >= 1. */
double ds_attn_decode_s(const ds_attn_decode *d, double n, double ctx);
/* The same with several query rows in some sequences: `drafts` more than n in all. */
double ds_attn_verify_s(const ds_operators *o, double n, double drafts, double ctx);
/* Per layer, with its fixed time; only for shapes with prefill tokens. */
ds_kernel_time ds_attn_prefill_time(const ds_attn_prefill *f, const ds_shape *s);

ds_allreduce ds_allreduce_bind(const ds_hw *hw, int64_t ranks);
double ds_allreduce_s(const ds_allreduce *a, double bytes);

/* Everything that depends on the token count alone: matrix products, elementwise kernels and
 * all-reduces of all layers. Adds to ops (may be NULL) and to part. */
void ds_stack_cost(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]);
/* The output layer and sampling for so many sampled rows. */
void ds_head_cost(const ds_operators *o, double rows, ds_ops *ops, double part_s[DS_PART_N]);

#endif
