// SPDX-License-Identifier: Apache-2.0
/* What an iteration asks of a device, whatever its kernels reach: arithmetic and bytes, and the
 * time that no schedule of them could beat. */
#include "cost/pricer.h"

/* Matrix products per device. */
typedef struct products {
  double body_macs_per_token, head_macs_per_row; /* multiply-adds = weights touched */
  double body_width, head_width; /* values read, and values written, per token or row */
  double body_written, head_written;
  double expert_macs_per_token; /* of the chosen experts */
  double expert_weights;        /* of one expert */
} products;

static products products_of(const ds_operators *o) {
  double h = o->hidden, n = o->full_layers + o->near_layers, met = o->dense_group;
  products g = {.head_macs_per_row = h * o->vocab, .head_width = h, .head_written = o->vocab};
  if (o->kv_lora > 0) {
    double latent = o->kv_lora + o->qk_rope, query = o->heads * (o->qk_nope + o->qk_rope);
    double from = o->q_lora > 0 ? o->q_lora : h, values = o->heads * o->v_dim;
    double absorb = o->heads * o->kv_lora * (o->qk_nope + o->v_dim);
    g.body_macs_per_token = n * (h * (o->q_lora + latent) + from * query + absorb + values * h);
    g.body_width = n * (h + from + values);
    g.body_written = n * (o->q_lora + latent + query + h);
  } else {
    double row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim;
    g.body_macs_per_token = n * (h * (row + 2.0 * kv_row) + row * h);
    g.body_width = n * (h + row);
    g.body_written = n * (row + 2.0 * kv_row + h);
  }
  g.body_macs_per_token += o->state_layers * o->state_width * h;
  g.body_width += o->state_layers * h;
  g.body_written += o->state_layers * h;
  g.body_macs_per_token += o->dense_layers * (h * o->mlp_in + o->mlp_out * h);
  g.body_width += o->dense_layers * met * (h + o->mlp_out);
  g.body_written += o->dense_layers * met * (o->mlp_in + h);
  const ds_moe *m = &o->moe;
  if (m->layers > 0) {
    g.body_macs_per_token += m->layers * (3.0 * h * m->shared + h * m->experts);
    g.expert_weights = 3.0 * h * m->width;
    g.expert_macs_per_token = m->layers * met * m->top_k / m->ranks * g.expert_weights;
    g.body_width += m->layers * (h + m->shared);
    g.body_written += m->layers * (2.0 * m->shared + h);
  }
  return g;
}

/* Weights that are the same for every token, but the tokens that meet in the dense layers of a
 * mixture are more than those of one attention group. */
static double body_flops(const ds_operators *o, const products *g, double tokens) {
  double dense = o->dense_layers * (o->hidden * o->mlp_in + o->mlp_out * o->hidden);
  return 2.0 * tokens * (g->body_macs_per_token + dense * (o->dense_group - 1.0));
}

static double attention_flops(const ds_operators *o, const ds_shape *s) {
  double all = o->full_layers * s->decode_ctx + o->near_layers * s->decode_near;
  if (s->draft_tokens > 0) all *= 1.0 + (double)s->draft_tokens / (double)s->decode_seqs;
  double pairs = o->full_layers * s->prefill_pairs + o->near_layers * s->prefill_near_pairs;
  double per_pair = 4.0 * o->heads * o->head_dim, per_ctx = per_pair;
  if (o->kv_lora > 0) {
    per_ctx = 2.0 * o->heads * (2.0 * o->kv_lora + o->qk_rope);
    per_pair = 2.0 * o->heads * (o->qk_nope + o->qk_rope + o->v_dim);
  }
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens);
  return per_ctx * all + per_pair * pairs + o->state_layers * tokens * o->state_flops_per_token +
         o->near_layers * o->index_flops * (s->decode_ctx + s->prefill_pairs);
}

/* Every cached token once: read, or written when it is new. */
static double kv_bytes(const ds_operators *o, const ds_shape *s) {
  double width = o->kv_lora > 0 ? o->kv_lora + o->qk_rope : 2.0 * o->kv_heads * o->head_dim;
  double all = o->full_layers * (s->decode_ctx + s->prefill_kv_tokens) +
               o->near_layers * (s->decode_near + s->prefill_near_kv);
  return width * o->kv_bytes * all +
         o->near_layers * o->index_bytes * (s->decode_ctx + s->prefill_kv_tokens) +
         o->state_layers * 2.0 * o->state_bytes * (double)(s->decode_seqs + s->prefill_chunks);
}

static double expert_bytes(const ds_operators *o, const products *g, double touched) {
  return o->moe.layers * touched * g->expert_weights * o->moe.weight_bytes;
}

void ds_price_work(const ds_pricer *p, const ds_shape *s, uint64_t iterations, double *flops, double *bytes) {
  *flops = *bytes = 0;
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens),
         rows = (double)(s->decode_seqs + s->draft_tokens + s->finished_chunks);
  if (p->tier == DS_COST_LINEAR || !(tokens > 0)) return;
  const ds_operators *o = &p->op;
  const products g = products_of(o);
  double times = (double)iterations;
  if (rows < times) rows = times; /* as ds_head_cost */
  *flops = body_flops(o, &g, tokens) + 2.0 * tokens * g.expert_macs_per_token +
           2.0 * rows * g.head_macs_per_row + attention_flops(o, s);
  *bytes = times * (g.body_macs_per_token * o->body.weight_bytes +
                    g.head_macs_per_row * o->head.weight_bytes) + kv_bytes(o, s) +
           tokens * (g.body_width * o->body.act_bytes + g.body_written * 2.0) +
           rows * (g.head_width * o->head.act_bytes + g.head_written * 2.0);
  if (o->moe.layers > 0)
    *bytes += times * expert_bytes(o, &g, ds_moe_touched(&o->moe, tokens / times * o->group));
}

void ds_price_drafting(const ds_pricer *p, const ds_shape *s, uint64_t passes, double *flops, double *bytes) {
  double more_flops, more_bytes;
  if (p->drafter == NULL || passes == 0) return;
  ds_price_work(p->drafter, s, passes, &more_flops, &more_bytes);
  *flops += more_flops;
  *bytes += more_bytes;
}

double ds_price_floor_s(const ds_pricer *p, const ds_shape *s) {
  double tokens = (double)(s->decode_seqs + s->draft_tokens + s->prefill_tokens),
         rows = (double)(s->decode_seqs + s->draft_tokens + s->finished_chunks);
  if (p->tier == DS_COST_LINEAR || !(tokens > 0)) return 0;
  const ds_operators *o = &p->op;
  const products g = products_of(o);
  /* Arithmetic and memory overlap perfectly over the whole iteration, and activations never leave
   * the chip. */
  double compute_s = body_flops(o, &g, tokens) / o->body.peak_per_s +
                     2.0 * rows * g.head_macs_per_row / o->head.peak_per_s +
                     attention_flops(o, s) / o->attention_peak_per_s;
  double bytes = g.body_macs_per_token * o->body.weight_bytes + kv_bytes(o, s);
  if (o->moe.layers > 0) {
    compute_s += 2.0 * tokens * g.expert_macs_per_token / o->moe.peak_per_s;
    double fewest = o->moe.top_k / o->moe.ranks, pairs = tokens * o->group * fewest;
    bytes += expert_bytes(o, &g, pairs < fewest ? pairs : fewest);
  }
  if (rows > 0) bytes += g.head_macs_per_row * o->head.weight_bytes;
  double memory_s = bytes / o->memory_bytes_per_s;
  double floor_s = compute_s > memory_s ? compute_s : memory_s;
  return floor_s / (o->flow_devices > 0 ? o->flow_devices : o->stages);
}
