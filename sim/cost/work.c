// SPDX-License-Identifier: Apache-2.0
/* What an iteration asks of a device, whatever its kernels reach: arithmetic and bytes, and the
 * time that no schedule of them could beat. */
#include "cost/pricer.h"

/* Matrix products per device. */
typedef struct products {
  double body_macs_per_token, head_macs_per_row; /* multiply-adds = weights touched */
  double body_width, head_width; /* values read, and values written, per token or row */
  double body_written, head_written;
} products;

static products products_of(const ds_operators *o) {
  double h = o->hidden, row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim,
         n = o->layers;
  return (products){.body_macs_per_token =
                        n * (h * (row + 2.0 * kv_row) + row * h + h * o->mlp_in + o->mlp_out * h),
                    .head_macs_per_row = h * o->vocab,
                    .body_width = n * (h + row + h + o->mlp_out),
                    .head_width = h,
                    .body_written = n * (row + 2.0 * kv_row + h + o->mlp_in + h),
                    .head_written = o->vocab};
}

static double attention_flops(const ds_operators *o, const ds_shape *s) {
  double ctx = s->decode_ctx;
  if (s->draft_tokens > 0) ctx *= 1.0 + (double)s->draft_tokens / (double)s->decode_seqs;
  return o->layers * 4.0 * o->heads * o->head_dim * (ctx + s->prefill_pairs);
}

/* Every cached token once: read, or written when it is new. */
static double kv_bytes(const ds_operators *o, const ds_shape *s) {
  return o->layers * 2.0 * o->kv_heads * o->head_dim * o->kv_bytes *
         (s->decode_ctx + s->prefill_kv_tokens);
}

void ds_price_work(const ds_pricer *p, const ds_shape *s, double *flops, double *bytes) {
  *flops = *bytes = 0;
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens),
         rows = (double)(s->decode_seqs + s->draft_tokens + s->finished_chunks);
  if (p->tier == DS_COST_LINEAR || !(tokens > 0)) return;
  const ds_operators *o = &p->op;
  const products g = products_of(o);
  if (rows < 1) rows = 1; /* as ds_head_cost */
  *flops =
      2.0 * (tokens * g.body_macs_per_token + rows * g.head_macs_per_row) + attention_flops(o, s);
  *bytes = g.body_macs_per_token * o->body.weight_bytes +
           g.head_macs_per_row * o->head.weight_bytes + kv_bytes(o, s) +
           tokens * (g.body_width * o->body.act_bytes + g.body_written * 2.0) +
           rows * (g.head_width * o->head.act_bytes + g.head_written * 2.0);
}

double ds_price_floor_s(const ds_pricer *p, const ds_shape *s) {
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens),
         rows = (double)(s->decode_seqs + s->draft_tokens + s->finished_chunks);
  if (p->tier == DS_COST_LINEAR || !(tokens > 0)) return 0;
  const ds_operators *o = &p->op;
  const products g = products_of(o);
  /* Arithmetic and memory overlap perfectly over the whole iteration, and activations never leave
   * the chip. */
  double compute_s = 2.0 * tokens * g.body_macs_per_token / o->body.peak_per_s +
                     2.0 * rows * g.head_macs_per_row / o->head.peak_per_s +
                     attention_flops(o, s) / o->flops_16_per_s;
  double bytes = g.body_macs_per_token * o->body.weight_bytes + kv_bytes(o, s);
  if (rows > 0) bytes += g.head_macs_per_row * o->head.weight_bytes;
  double memory_s = bytes / o->memory_bytes_per_s;
  return compute_s > memory_s ? compute_s : memory_s;
}
