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
 * t0 + n per_seq + pnorm(ctx mem_per_ctx + n mem_per_seq, ctx comp_per_ctx, n work_per_seq). */
typedef struct ds_attn_decode {
  double t0_s, per_seq_s, mem_per_ctx_s, comp_per_ctx_s, mem_per_seq_s, work_per_seq_s;
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
  double switch_s, switch_per_byte_s; /* 0: no switch that reduces */
} ds_allreduce;

typedef struct ds_elementwise {
  double t0_s, per_byte_s;
} ds_elementwise;

/* Experts of one layer on one device. See experts.c. */
typedef struct ds_moe {
  double layers; /* with experts; 0: none, and nothing else is set */
  double experts, top_k, local, ranks;
  double width; /* of an expert on this device */
  double hidden;
  double shared; /* width of the shared experts on this device, and of one for the activation */
  double shared_one;
  double peak_per_s, flops_per_s, bytes_per_s, act_bytes_per_s;
  double weight_bytes, t0_s, mh, skew, rho;
  double excess; /* of the busiest rank's work over the mean; its products and its activations */
  bool ideal;
} ds_moe;

/* Tokens to the devices of their experts and back. See exchange.c. */
typedef struct ds_exchange {
  double ranks; /* 1 or less: free */
  double low_s, low_per_token_s, normal_s, normal_per_token_s;
} ds_exchange;

/* The encoder of images on one device. See encode.c. */
typedef struct ds_encoder {
  double layers, full_layers; /* layers 0: none, and nothing else is set */
  double hidden, pixels;      /* pixels: values of a patch */
  double heads, row, head_dim, mlp_in, mlp_out;
  double projector[DS_PROJECTOR_MAX], projectors, ranks;
  int64_t n_projector;
  ds_gemm body;
  ds_attn_prefill attention;
  ds_elementwise element;
  ds_allreduce reduce;
  double shares;       /* ranks that have it whole and share out the images; 1: they split it */
  ds_allreduce gather; /* between these */
  double launch_s; /* of all its kernels */
} ds_encoder;

/* A model on a device, as its kernels see it: widths, operators, and a count of layers of each
 * kind. */
typedef struct ds_operators {
  double layers, hidden, heads, kv_heads, head_dim; /* heads per device */
  double kv_readers; /* heads that each read their keys and values from memory when decoding; 0: the KV heads */
  double full_layers, near_layers, state_layers; /* attention over everything, over the nearest or
                                                    chosen tokens, and none */
  double dense_layers;                           /* with a plain feed-forward layer */
  double group;        /* attention groups whose tokens meet in the experts */
  double dense_group;  /* and in plain feed-forward layers */
  double norms;        /* per layer */
  double qk_norms, qk_reduces; /* layers that normalise queries and keys; of them those over all heads of several ranks */
  double attn_reduces, mlp_reduces; /* all-reduces: layers that have one */
  double q_lora, kv_lora, qk_nope, qk_rope, v_dim; /* latent attention; kv_lora 0: none */
  double state_width, state_bytes, state_flops_per_token; /* of a layer without attention */
  double index_per_ctx_s, index_per_pair_s;      /* choosing what sparse attention reads */
  double index_bytes, index_flops;               /* the same per token, for bounds */
  double mlp_in, mlp_out, mlp_act; /* columns of the first product, rows of the second, values that
                                      the activation touches */
  double vocab;                    /* rows of the output layer per device */
  double kv_bytes;                 /* per element */
  double flops_16_per_s, memory_bytes_per_s; /* datasheet, for bounds */
  double attention_peak_per_s;               /* and the fastest arithmetic that attention uses */
  ds_gemm body, head;
  ds_attn_decode decode;
  ds_attn_prefill prefill;
  ds_allreduce reduce; /* between the ranks of one attention group */
  ds_allreduce reduce_all; /* between all ranks of the replica's stage */
  ds_allreduce reduce_mlp; /* between those that share a feed-forward layer */
  ds_moe moe;
  ds_gemm router;
  ds_exchange exchange;
  ds_elementwise element;
  double sample_bytes; /* of one row, on each device: logits are gathered before */
  double per_iteration_s, per_request_s;
  double capture_max, capture_step, capture_double; /* of graphs; 0: no padding */
  double eager_s;                   /* to launch an iteration outside graphs */
  double prompt_launch_s, prompt_captured; /* to launch one with prompts, when it has more tokens than are captured */
  bool async_host;
  double flow_devices;           /* that share out all layers, each in its own memory; 0: none do */
  double stages, longest, last; /* of a pipeline, and layers of the longest and the last */
  double hop_s, hop_per_token_s; /* from stage to stage */
  ds_encoder encoder;
  bool overlap;                  /* two halves of a batch take turns */
} ds_operators;

/* run as ds_run_validate accepts it, not of the linear tier. */
void ds_operators_bind(const ds_run *run, ds_operators *out);

ds_gemm ds_gemm_bind(const ds_hw *hw, ds_format weights, bool ideal);
/* Activations come narrow from the kernel before. */
void ds_gemm_fuse(ds_gemm *g, const ds_hw *hw);
ds_kernel_time ds_gemm_time(const ds_gemm *g, double m, double n, double k);

void ds_attention_bind(const ds_hw *hw, bool eight_bit, bool ideal, ds_operators *o);
/* Latent attention (MLA) in its place. See latent.c. */
void ds_latent_bind(const ds_hw *hw, ds_format kv, bool ideal, ds_operators *o);
/* Per layer, with its fixed time; n >= 1. */
double ds_attn_decode_s(const ds_attn_decode *d, double n, double ctx);
/* The same with several query rows in some sequences: `drafts` more than n in all. */
double ds_attn_verify_s(const ds_operators *o, double n, double drafts, double ctx);
/* Per layer, with its fixed time; only for shapes with prefill tokens. */
ds_kernel_time ds_attn_prefill_time(const ds_attn_prefill *f, double tokens, double pairs,
                                    double kv_tokens, double tiles);
/* Attention of a batch over all layers, and layers without it: the shape in so many equal batches, paid `rounds` times.
 * Adds to ops (may be NULL) and to part. */
void ds_attention_cost(const ds_operators *o, const ds_shape *s, double batches, double rounds,
                       ds_ops *ops, double part_s[DS_PART_N]);
void ds_states_cost(const ds_operators *o, const ds_shape *s, double batches, double rounds,
                    ds_ops *ops, double part_s[DS_PART_N]);

/* Every rank gets every token before the experts, instead of those of its own. */
bool ds_experts_gather(const ds_run *run);

ds_allreduce ds_allreduce_bind(const ds_hw *hw, int64_t ranks);
double ds_allreduce_s(const ds_allreduce *a, double bytes);

ds_moe ds_moe_bind(const ds_run *run, bool ideal);
/* Experts that a batch of so many tokens per attention group touches on this device. */
double ds_moe_touched(const ds_moe *m, double tokens);
ds_kernel_time ds_moe_time(const ds_moe *m, double tokens);
ds_exchange ds_exchange_bind(const ds_run *run, bool ideal);
double ds_exchange_s(const ds_exchange *x, double tokens);

/* hw as the engine's own kernels reach it. */
ds_encoder ds_encoder_bind(const ds_run *run, const ds_hw *hw, bool ideal);

/* Everything that depends on the token count alone: matrix products, elementwise kernels and
 * all-reduces of all layers. Adds to ops (may be NULL) and to part. */
void ds_stack_cost(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]);
/* The output layer and sampling for so many sampled rows. */
void ds_head_cost(const ds_operators *o, double rows, ds_ops *ops, double part_s[DS_PART_N]);

#endif
