// SPDX-License-Identifier: Apache-2.0
/* Iterations priced from totals, with three tiers: roofline (fitted efficiencies), speed of light
 * (the same operators at their datasheet peaks, with no fixed times, communication or engine) and
 * linear (coefficients of the user's own). The operators and their sources are in gemm.c,
 * attention.c, collective.c and operators.c; the numbers come from cards.
 *
 * Whatever depends on one count alone (tokens, sampled rows, sequences) is worked out once per
 * distinct count; what is left in the hot path is attention: a sum or square roots. */
#include "cost/pricer.h"

/* Table lengths that keep a pricer within a few megabytes; larger counts are priced each time. */
#define STACK_MEMO_MAX 131072
#define SEQS_MEMO_MAX  16384

static int64_t memo_length(int64_t largest, int64_t most) {
  if (largest < 1) largest = 1;
  return (largest > most ? most : largest) + 1;
}

ds_status ds_pricer_new(const ds_run *run, int64_t max_tokens, int64_t max_seqs, const ds_alloc *a,
                        ds_pricer **out, ds_error *err) {
  *out = NULL;
  if (run->cost_tier != DS_COST_LINEAR) DS_TRY(ds_run_validate(run, err));
  ds_pricer *p = ds_alloc_zeroed(a, 1, sizeof *p);
  if (p == NULL) return ds_error_begin(err, DS_E_NOMEM, "out of memory for the cost model");
  p->alloc = *a;
  p->tier = run->cost_tier;
  p->linear = run->linear;
  if (p->tier != DS_COST_LINEAR) {
    ds_operators_bind(run, &p->op);
    p->flow = ds_flow_bind(run);
  }
  p->n_stack = memo_length(max_tokens, STACK_MEMO_MAX);
  p->n_head = memo_length(max_seqs, SEQS_MEMO_MAX);
  p->n_decode = p->n_head;
  p->stack = ds_alloc_zeroed(a, (size_t)p->n_stack, sizeof *p->stack);
  p->head = ds_alloc_zeroed(a, (size_t)p->n_head, sizeof *p->head);
  p->decode = ds_alloc_zeroed(a, (size_t)p->n_decode, sizeof *p->decode);
  if (p->stack == NULL || p->head == NULL || p->decode == NULL) {
    ds_pricer_free(p);
    return ds_error_begin(err, DS_E_NOMEM, "out of memory for the cost model");
  }
  ds_run drafter;
  if (p->tier != DS_COST_LINEAR && ds_drafter_run(run, &drafter)) {
    ds_status st = ds_pricer_new(&drafter, 1, max_seqs, a, &p->drafter, err);
    if (st != DS_OK) {
      ds_pricer_free(p);
      return st;
    }
  }
  *out = p;
  return DS_OK;
}

void ds_pricer_free(ds_pricer *p) {
  if (p == NULL) return;
  ds_alloc a = p->alloc;
  ds_pricer_free(p->drafter);
  ds_alloc_free(&a, p->stack, (size_t)p->n_stack, sizeof *p->stack);
  ds_alloc_free(&a, p->head, (size_t)p->n_head, sizeof *p->head);
  ds_alloc_free(&a, p->decode, (size_t)p->n_decode, sizeof *p->decode);
  ds_alloc_free(&a, p, 1, sizeof *p);
}

/* Whole nanoseconds by cause that sum to total_ns: floors, then one more for the largest remainders
 * (the first of equals). part_s sums to total_ns but for rounding. */
static void split_ns(const double part_s[DS_PART_N], int64_t total_ns, int64_t ns[DS_PART_N]) {
  double rest[DS_PART_N];
  int64_t left = total_ns;
  for (int i = 0; i < DS_PART_N; i++) {
    double x = part_s[i] * 1e9;
    ns[i] = (int64_t)x;
    rest[i] = x - (double)ns[i];
    left -= ns[i];
  }
  for (; left > 0; left--) {
    int best = 0;
    for (int i = 1; i < DS_PART_N; i++)
      if (rest[i] > rest[best]) best = i;
    ns[best]++;
    rest[best] -= 1;
  }
  for (; left < 0; left++) { /* the total was rounded down past the floors */
    int best = 0;
    for (int i = 1; i < DS_PART_N; i++)
      if (ns[i] > ns[best]) best = i;
    ns[best]--;
  }
}

static double sum_parts(const double part_s[DS_PART_N]) {
  return ((part_s[DS_PART_MEMORY] + part_s[DS_PART_COMPUTE]) + part_s[DS_PART_COMM]) +
         part_s[DS_PART_HOST];
}

static void linear_parts(const ds_linear *l, double prefill_tokens, double decode_seqs,
                         double part_s[DS_PART_N]) {
  part_s[DS_PART_MEMORY] = l->decode_sequence_s * decode_seqs;
  part_s[DS_PART_COMPUTE] = l->prefill_token_s * prefill_tokens;
  part_s[DS_PART_COMM] = 0;
  part_s[DS_PART_HOST] = l->step_s + l->scheduling_s;
}

static const ds_part_cost *stack_of(ds_pricer *p, int64_t tokens) {
  bool kept = tokens < p->n_stack;
  ds_part_cost *c = kept ? &p->stack[tokens] : &p->spare_stack;
  if (DS_LIKELY(c->ready)) return c;
  *c = (ds_part_cost){.ready = kept};
  ds_stack_cost(&p->op, (double)tokens, NULL, c->part_s);
  return c;
}

static const ds_part_cost *head_of(ds_pricer *p, int64_t rows) {
  bool kept = rows < p->n_head;
  ds_part_cost *c = kept ? &p->head[rows] : &p->spare_head;
  if (DS_LIKELY(c->ready)) return c;
  *c = (ds_part_cost){.ready = kept};
  ds_head_cost(&p->op, (double)rows, NULL, c->part_s);
  return c;
}

/* An iteration on a pipeline of stages. The requests in flight fill it in as many batches as there are stages, at most
 * one request each; every batch takes its share of the tokens. While there are fewer than stages, a token's time is
 * the sum over the stages; else each stage is always busy, and the slowest sets the pace: a round of all batches takes
 * stages x slowest. The stage with the output layer has the fewest layers. */
typedef struct passage {
  double batches;        /* shares */
  double layers, heads;  /* how often the stack of layers, and the output layer, are paid in a round */
  double hops;
} passage;

static DS_APART passage passage_of_stages(const ds_operators *o, int64_t requests, double tokens, double rows) {
  passage g = {1, 1, 1, 0};
  g.hops = o->stages;
  g.batches = (double)requests < o->stages ? (double)(requests < 1 ? 1 : requests) : o->stages;
  if (g.batches < o->stages) return g;
  g.layers = o->longest * o->stages / o->layers;
  g.heads = 0;
  double stack_s[DS_PART_N] = {0}, head_s[DS_PART_N] = {0};
  ds_stack_cost(o, tokens / g.batches, NULL, stack_s);
  ds_head_cost(o, rows / g.batches, NULL, head_s);
  if (sum_parts(head_s) >= sum_parts(stack_s) * (o->longest - o->last) / o->layers) {
    g.layers = o->last * o->stages / o->layers;
    g.heads = o->stages;
  }
  return g;
}

static DS_ALWAYS_INLINE passage passage_of(const ds_operators *o, int64_t requests, double tokens, double rows) {
  return DS_LIKELY(o->stages <= 1) ? (passage){1, 1, 1, 0} : passage_of_stages(o, requests, tokens, rows);
}

/* Everything of an iteration but attention and the engine's own time. */
static void passage_parts(ds_pricer *p, const passage *g, double tokens, double rows, ds_ops *ops,
                          double part_s[DS_PART_N]) {
  const ds_operators *o = &p->op;
  double stack_s[DS_PART_N] = {0}, head_s[DS_PART_N] = {0};
  ds_ops stack = {0}, head = {0};
  ds_stack_cost(o, tokens / g->batches, &stack, stack_s);
  ds_head_cost(o, rows / g->batches, &head, head_s);
  for (int i = 0; i < DS_PART_N; i++) part_s[i] += g->layers * stack_s[i] + g->heads * head_s[i];
  double hops = g->hops * (o->hop_s + tokens / g->batches * o->hop_per_token_s);
  part_s[DS_PART_COMM] += hops;
  if (ops == NULL) return;
  ops->gemm_attn += g->layers * stack.gemm_attn;
  ops->gemm_mlp += g->layers * stack.gemm_mlp;
  ops->moe += g->layers * stack.moe;
  ops->elt += g->layers * stack.elt;
  ops->ar += g->layers * stack.ar + hops;
  ops->a2a += g->layers * stack.a2a;
  ops->lmhead += g->heads * head.lmhead;
}

/* Layers that are not plain attention over everything. */
static bool special(const ds_operators *o) {
  return o->near_layers > 0 || o->decode.comp_per_ctx_s > 0;
}

/* Rows of the captured graph that n rows are replayed with; n itself where nothing is captured. */
static double doubled(double from, double n) {
  while (from < n) from *= 2;
  return from;
}

static double captured(const ds_operators *o, double n) {
  if (n > o->capture_max || n <= 2) return n;
  if (n <= 4) return 4;
  double padded = ds_ceil(n / o->capture_step) * o->capture_step;
  if (o->capture_double > 0) {
    if (n <= o->capture_step) padded = doubled(1, n);
    else if (n > o->capture_double) padded = doubled(o->capture_double, n);
  }
  return padded > o->capture_max ? o->capture_max : padded;
}

/* What launching an iteration takes that no graph replays. */
static double launch_s(const ds_operators *o, bool prompts, double tokens) {
  double eager = prompts || tokens > o->capture_max ? o->eager_s : 0;
  return prompts && tokens > o->prompt_captured && o->prompt_launch_s > eager ? o->prompt_launch_s : eager;
}

/* The host's time, beside what the device takes: all of it, or what does not hide; and what launching
 * kernels one by one takes longer than running them. */
static double host_s(const ds_operators *o, double requests, double device_s, double launch_s) {
  double host = o->per_iteration_s + o->per_request_s * requests;
  double late = launch_s > device_s ? launch_s - device_s : 0;
  if (!o->async_host) return host + late;
  double hidden = device_s + late;
  return late + (host > hidden ? host - hidden : 0);
}

static void fill_decode(ds_pricer *p, int64_t n, ds_decode_price *d) {
  double part_s[DS_PART_N] = {0}, seqs = (double)n;
  *d = (ds_decode_price){.p = 1, .attention_part = DS_PART_MEMORY};
  if (p->tier == DS_COST_LINEAR) {
    linear_parts(&p->linear, 0, seqs, part_s);
    d->base_s = sum_parts(part_s);
    split_ns(part_s, ds_ns_of_s(d->base_s), d->fixed_ns); /* nothing varies: the whole iteration */
    return;
  }
  if (DS_UNLIKELY(p->flow.used)) {
    ds_flow_decode(&p->flow, seqs, d, part_s);
    d->base_s = sum_parts(part_s);
    split_ns(part_s, (int64_t)(d->base_s * 1e9), d->fixed_ns);
    return;
  }
  const ds_operators *o = &p->op;
  passage g = passage_of(o, n, seqs, seqs);
  double share = seqs / g.batches, attention = o->full_layers + o->near_layers;
  if (g.hops > 0) {
    passage_parts(p, &g, seqs, seqs, NULL, part_s);
  } else {
    double rows = captured(o, seqs);
    ds_stack_cost(o, rows, NULL, part_s);
    ds_head_cost(o, rows, NULL, part_s);
  }
  part_s[DS_PART_MEMORY] += g.layers * attention * (o->decode.t0_s + share * o->decode.per_seq_s);
  if (o->state_layers > 0) {
    const ds_shape states = {.decode_seqs = n};
    ds_states_cost(o, &states, g.batches, g.layers, NULL, part_s);
  }
  part_s[DS_PART_HOST] += host_s(o, seqs, sum_parts(part_s), launch_s(o, false, seqs));
  d->base_s = sum_parts(part_s);
  d->layers = g.layers * o->full_layers;
  d->mem_per_ctx_s = o->decode.mem_per_ctx_s / g.batches;
  d->mem_fixed_s = share * o->decode.mem_per_seq_s;
  d->work_s = share * o->decode.work_per_seq_s;
  d->p = o->decode.p;
  d->general = special(o);
  if (d->general) {
    d->near_layers = g.layers * o->near_layers;
    d->comp_per_ctx_s = o->decode.comp_per_ctx_s / g.batches;
    d->per_ctx_s = g.layers * o->near_layers * o->index_per_ctx_s / g.batches;
    if (d->comp_per_ctx_s > d->mem_per_ctx_s) d->attention_part = DS_PART_COMPUTE;
  }
  /* Rounded down, so that no iteration is shorter than its constant part. */
  split_ns(part_s, (int64_t)(d->base_s * 1e9), d->fixed_ns);
}

const ds_decode_price *ds_price_decode(ds_pricer *p, int64_t n) {
  DS_ASSERT(n >= 1);
  if (DS_LIKELY(n < p->n_decode)) {
    ds_decode_price *d = &p->decode[n];
    if (DS_UNLIKELY(!d->ready)) {
      fill_decode(p, n, d);
      d->ready = true;
    }
    return d;
  }
  fill_decode(p, n, &p->spare_decode);
  return &p->spare_decode;
}

/* Nobody prefills: the very price that ds_price_decode gives, so that a run does not depend on
 * which was asked. */
static void decode_only(ds_pricer *p, const ds_shape *s, ds_mixed_price *out) {
  *out = (ds_mixed_price){0};
  if (s->decode_seqs < 1) return;
  const ds_decode_price *d = ds_price_decode(p, s->decode_seqs);
  out->total_ns = d->general ? ds_decode_general_ns(d, s->decode_ctx, s->decode_near)
                             : ds_decode_ns(d, s->decode_ctx);
  int64_t rest = out->total_ns;
  for (int i = 0; i < DS_PART_N; i++) {
    out->part_ns[i] = d->fixed_ns[i];
    rest -= d->fixed_ns[i];
  }
  out->part_ns[d->attention_part] += rest;
}

/* Passes of the drafter, one after the other, over the rows that draft. */
static void add_drafting(ds_pricer *p, const ds_shape *s, double part_s[DS_PART_N]) {
  if (p->drafter == NULL || s->draft_rows < 1) return;
  const ds_decode_price *d = ds_price_decode(p->drafter, s->draft_rows);
  double passes = (double)s->draft_passes, share = 1;
  if (s->draft_rows < s->decode_seqs) share = (double)s->draft_rows / (double)s->decode_seqs;
  double ctx = s->decode_ctx * share, near = s->decode_near * share;
  double left = d->general ? ds_decode_general_s(d, ctx, near) : ds_decode_s(d, ctx);
  for (int i = 0; i < DS_PART_N; i++) {
    double fixed = (double)d->fixed_ns[i] * 1e-9;
    part_s[i] += passes * fixed;
    left -= fixed;
  }
  part_s[d->attention_part] += passes * left;
}

static void mixed_parts(ds_pricer *p, const ds_shape *s, double part_s[DS_PART_N]) {
  if (p->tier == DS_COST_LINEAR) {
    linear_parts(&p->linear, (double)s->prefill_tokens, (double)s->decode_seqs, part_s);
    part_s[DS_PART_COMPUTE] += p->linear.draft_token_s * (double)s->draft_tokens;
  } else if (DS_UNLIKELY(p->flow.used)) {
    for (int i = 0; i < DS_PART_N; i++) part_s[i] = 0;
    ds_flow_mixed(&p->flow, s, NULL, part_s);
  } else {
    const ds_operators *o = &p->op;
    int64_t requests = s->decode_seqs + s->prefill_chunks;
    int64_t decoded = s->decode_seqs + s->draft_tokens;
    double tokens = (double)(decoded + s->prefill_tokens), rows = (double)(decoded + s->finished_chunks);
    passage g = passage_of(o, requests, tokens, rows);
    if (DS_UNLIKELY(g.hops > 0)) {
      for (int i = 0; i < DS_PART_N; i++) part_s[i] = 0;
      passage_parts(p, &g, tokens, rows, NULL, part_s);
    } else {
      const ds_part_cost *stack = stack_of(p, decoded + s->prefill_tokens);
      const ds_part_cost *head = head_of(p, decoded + s->finished_chunks);
      for (int i = 0; i < DS_PART_N; i++) part_s[i] = stack->part_s[i] + head->part_s[i];
    }
    ds_attention_cost(o, s, g.batches, g.layers, NULL, part_s);
    if (s->draft_passes > 0) add_drafting(p, s, part_s);
    part_s[DS_PART_HOST] += host_s(o, (double)requests, sum_parts(part_s), launch_s(o, s->prefill_tokens > 0, tokens));
  }
}

void ds_price_mixed(ds_pricer *p, const ds_shape *s, ds_mixed_price *out) {
  if (s->prefill_tokens < 1 && s->draft_tokens < 1) {
    decode_only(p, s, out);
    return;
  }
  double part_s[DS_PART_N];
  mixed_parts(p, s, part_s);
  out->total_ns = ds_ns_of_s(sum_parts(part_s));
  split_ns(part_s, out->total_ns, out->part_ns);
}

int64_t ds_price_mixed_ns(ds_pricer *p, const ds_shape *s) {
  double part_s[DS_PART_N];
  mixed_parts(p, s, part_s);
  return ds_ns_of_s(sum_parts(part_s));
}

void ds_price_verify(ds_pricer *p, const ds_shape *s, ds_mixed_price *out) {
  ds_shape rows = {.decode_seqs = s->decode_seqs,
                   .decode_ctx = s->decode_ctx,
                   .decode_near = s->decode_near,
                   .draft_tokens = s->draft_tokens,
                   .draft_passes = s->draft_passes,
                   .draft_rows = s->draft_rows};
  ds_price_mixed(p, &rows, out);
}

void ds_price_ops(ds_pricer *p, const ds_shape *s, ds_ops *out) {
  *out = (ds_ops){0};
  double n = (double)s->decode_seqs;
  if (p->tier == DS_COST_LINEAR) { /* no operators: its three terms where they come closest */
    out->engine = p->linear.step_s + p->linear.scheduling_s;
    out->attn_dec = p->linear.decode_sequence_s * n;
    out->gemm_mlp = p->linear.prefill_token_s * (double)s->prefill_tokens;
    return;
  }
  if (p->flow.used) {
    double unused[DS_PART_N] = {0};
    ds_flow_mixed(&p->flow, s, out, unused);
    return;
  }
  const ds_operators *o = &p->op;
  double drafts = (double)s->draft_tokens; /* the drafter's own passes are not among the operators */
  double part_s[DS_PART_N] = {0}, tokens = n + drafts + (double)s->prefill_tokens,
         rows = n + drafts + (double)s->finished_chunks;
  int64_t requests = s->decode_seqs + s->prefill_chunks;
  passage g = passage_of(o, requests, tokens, rows);
  bool decode = s->prefill_tokens == 0 && s->draft_tokens == 0;
  double launched = decode && g.hops == 0 ? captured(o, n) : tokens;
  passage_parts(p, &g, launched, decode && g.hops == 0 ? launched : rows, out, part_s);
  if (decode) { /* what grows with the context comes on top, as in ds_price_decode */
    const ds_shape start = {.decode_seqs = s->decode_seqs};
    double device_s[DS_PART_N] = {0};
    for (int i = 0; i < DS_PART_N; i++) device_s[i] = part_s[i];
    device_s[DS_PART_MEMORY] += g.layers * (o->full_layers + o->near_layers) *
                                (o->decode.t0_s + n / g.batches * o->decode.per_seq_s);
    ds_states_cost(o, &start, g.batches, g.layers, NULL, device_s);
    out->engine = host_s(o, (double)requests, sum_parts(device_s), launch_s(o, false, n));
    ds_attention_cost(o, s, g.batches, g.layers, out, part_s);
    return;
  }
  ds_attention_cost(o, s, g.batches, g.layers, out, part_s);
  out->engine = host_s(o, (double)requests, sum_parts(part_s), launch_s(o, s->prefill_tokens > 0, tokens));
}

double ds_ops_total(const ds_ops *o) {
  return o->gemm_attn + o->gemm_mlp + o->moe + o->attn_dec + o->attn_pre + o->elt + o->ar + o->a2a +
         o->lmhead + o->engine;
}
