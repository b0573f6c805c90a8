// SPDX-License-Identifier: Apache-2.0
/* Fair between tenants by a virtual token counter: each tenant has a counter of the service that it got, and the queued tenant
 * with the lowest one is served next (its oldest request; ties: the tenant that asked first).
 *
 * Admission costs a tenant input_weight for each prompt token, each decode step output_weight for each token that it gets from it.
 * A tenant that comes back after having had nothing queued is lifted to the lowest counter among the queued ones, or, when
 * nobody is queued, to that of the tenant whose last request left the queue most recently, so that idling saves nothing up. If the chosen request does
 * not fit, admission stops. Iteration-level batching of whole prompts; KV for prompt and output cap is set aside at
 * admission. Up to 256 tenants are told apart; those that come after share the last one's counter.
 * Source: Sheng et al., Fairness in Serving Large Language Models (OSDI 2024), Algorithm 2; Ying1123/VTC-artifact
 * slora/server/router/vtc_req_queue.py @14c19b700659 (weights 1 and 2). */
#include "sched/whole_prompts.h"

#define TENANTS 256

typedef struct config {
  int64_t max_num_seqs, input_weight, output_weight;
} config;

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 256, NULL,
     "most requests running at once", "requests"},
    {"input_weight", DS_PARAM_INT, offsetof(config, input_weight), 0, 1 << 20, 1, 1, NULL, "cost of a prompt token", "points a token"},
    {"output_weight", DS_PARAM_INT, offsetof(config, output_weight), 0, 1 << 20, 2, 2, NULL,
     "cost of a token from a decode step", "points a token"},
};

typedef struct tenant {
  uint32_t name;
  int64_t counter;
  int64_t queued, decoding, entering, leaving; /* requests; entering and leaving: since the last plan */
  bool lift;                                   /* came back since the last plan */
} tenant;

typedef struct state {
  tenant tenant[TENANTS];
  uint32_t n;    /* in order of appearance */
  uint32_t last; /* whose last queued request was admitted most recently */
} state;

/* Of those seen; s->n for a new one while there is room, then the last. */
static uint32_t number(const state *s, const ds_req_view *r) {
  uint32_t i = 0;
  while (i < s->n && s->tenant[i].name != r->tenant) i++;
  return i < TENANTS ? i : TENANTS - 1;
}

static void on_arrival(void *st, const ds_req_view *r) {
  state *s = st;
  uint32_t i = number(s, r);
  if (i == s->n) s->tenant[s->n++].name = r->tenant;
  if (s->tenant[i].queued++ == 0) s->tenant[i].lift = true;
}

static void on_finish(void *st, const ds_req_view *r) {
  state *s = st;
  s->tenant[number(s, r)].leaving++;
}

static void on_abort(void *st, uint32_t slot, const ds_req_view *r) {
  state *s = st;
  tenant *t = &s->tenant[number(s, r)];
  (void)slot;
  if (r->phase != DS_PHASE_WAITING) t->leaving++;
  else if (--t->queued == 0) t->lift = false;
}

/* Everybody's tokens since the last plan; whoever finished did so in the last of those iterations. */
static void charge(state *s, const config *c, uint64_t steps) {
  for (uint32_t i = 0; i < s->n; i++) {
    tenant *t = &s->tenant[i];
    t->counter += c->output_weight * t->decoding * (int64_t)steps;
    t->decoding += t->entering - t->leaving;
    t->entering = t->leaving = 0;
  }
}

static void lift(state *s) {
  int64_t least = INT64_MAX;
  for (uint32_t i = 0; i < s->n; i++) {
    const tenant *t = &s->tenant[i];
    if (t->queued > 0 && !t->lift && t->counter < least) least = t->counter;
  }
  if (least == INT64_MAX) least = s->tenant[s->last].counter;
  for (uint32_t i = 0; i < s->n; i++) {
    tenant *t = &s->tenant[i];
    if (t->lift && t->counter < least) t->counter = least;
    t->lift = false;
  }
}

/* The first queued request of a tenant that this plan has not taken yet. */
static uint32_t first_of(const state *s, const ds_sched_view *v, const ds_plan *out, uint32_t who) {
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    bool taken = false;
    for (uint32_t i = 0; i < out->n_grants; i++) taken = taken || out->grants[i].slot == slot;
    if (!taken && number(s, &v->req[slot]) == who) return slot;
  }
  return DS_SLOT_NONE;
}

static uint32_t choose(const state *s, const ds_sched_view *v, const ds_plan *out) {
  uint32_t best = DS_SLOT_NONE;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->tenant[i].queued == 0) continue;
    uint32_t slot = first_of(s, v, out, i);
    if (best == DS_SLOT_NONE) {
      best = slot;
      continue;
    }
    int64_t mine = s->tenant[i].counter, its = s->tenant[number(s, &v->req[best])].counter;
    if (mine != its ? mine < its : v->req[slot].index < v->req[best].index) best = slot;
  }
  return best;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  state *s = st;
  const config *c = v->config;
  int64_t seats = c->max_num_seqs - v->n_running, blocks = v->free_blocks;
  charge(s, c, v->steps);
  lift(s);
  out->decode_all = true;
  for (int64_t left = v->n_queue; left > 0; left--, seats--) {
    if (seats < 1) {
      out->blocked = DS_BLOCKED_SEQS;
      break;
    }
    uint32_t slot = choose(s, v, out);
    int64_t tokens = ds_whole_tokens(&v->req[slot]), need = ds_div_up(tokens, v->block_tokens);
    if (need > blocks) {
      out->blocked = DS_BLOCKED_KV;
      break;
    }
    uint32_t who = number(s, &v->req[slot]);
    tenant *t = &s->tenant[who];
    t->counter += c->input_weight * v->req[slot].prompt_tokens;
    t->entering++;
    if (--t->queued == 0) s->last = who;
    blocks -= need;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .tokens = v->req[slot].prompt_tokens, .reserve_tokens = tokens};
  }
  /* Without a free seat nobody enters. With one, whose turn it is changes with every token. */
  out->hold = out->n_grants == 0 && out->blocked != DS_BLOCKED_KV;
  return DS_OK;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg;
  return ds_whole_accepts("vtc-fair", pool, total_blocks, prompt, max_tokens > output ? max_tokens : output, err);
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }

extern const ds_sched_ops ds_sched_vtc_fair;
const ds_sched_ops ds_sched_vtc_fair = {
    .name = "vtc-fair",
    .summary = "fair between tenants: the one with the lowest virtual token counter goes next",
    .reference = "Sheng et al., Fairness in Serving Large Language Models (OSDI 2024); VTC-artifact vtc_req_queue.py",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .reserves = true,
    .on_arrival = on_arrival,
    .accepts = accepts,
    .plan = plan,
    .on_finish = on_finish,
    .on_abort = on_abort,
    .max_seqs = max_seqs,
};
