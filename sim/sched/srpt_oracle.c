// SPDX-License-Identifier: Apache-2.0
/* Shortest remaining processing time, by an oracle: those with the fewest output tokens to go run. When seats or KV are
 * short, a waiting request takes the place of the running one that has most to go, if that has strictly more; the one that
 * leaves is computed anew when it comes back. Iteration-level batching of whole prompts; KV for exactly what a request will
 * need is set aside at admission.
 * It knows the true output lengths, which no engine does: a bound on what predicting them could bring. */
#include "sched/whole_prompts.h"

typedef struct config {
  int64_t max_num_seqs;
} config;

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 256, NULL,
     "most requests running at once", "requests"},
};

static int64_t rank(const void *cfg, const ds_req_view *r) {
  (void)cfg;
  return (int64_t)r->true_output - r->emitted; /* a waiting request's counters stand still */
}

static int64_t to_go(const ds_sched_view *v, uint32_t slot) {
  return (int64_t)v->req[slot].true_output - ds_view_emitted(v, slot);
}

static bool leaves(const ds_plan *p, uint32_t slot) {
  uint32_t i = 0;
  while (i < p->n_preempt && p->preempt[i] != slot) i++;
  return i < p->n_preempt;
}

/* The running request with most to go (ties: the one that arrived last) that is not leaving yet. */
static uint32_t longest(const ds_sched_view *v, const ds_plan *out) {
  uint32_t worst = DS_SLOT_NONE;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    if (leaves(out, slot)) continue;
    if (worst == DS_SLOT_NONE || to_go(v, slot) > to_go(v, worst) ||
        (to_go(v, slot) == to_go(v, worst) && v->req[slot].index > v->req[worst].index)) {
      worst = slot;
    }
  }
  return worst;
}

static ds_status plan(void *state, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  int64_t seats = c->max_num_seqs - v->n_running, blocks = v->free_blocks;
  (void)state;
  out->decode_all = true;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next, seats--) {
    int64_t tokens = ds_whole_tokens(&v->req[slot]), need = ds_div_up(tokens, v->block_tokens);
    int64_t could = blocks;   /* if everybody with more to go left */
    uint32_t before = out->n_preempt;
    int64_t seats_before = seats;
    while (seats < 1 || need > could) {
      uint32_t worst = longest(v, out);
      if (worst == DS_SLOT_NONE || to_go(v, worst) <= to_go(v, slot)) break;
      out->preempt[out->n_preempt++] = worst;
      could += ds_view_blocks(v, worst);
      seats++;
    }
    if (seats < 1 || need > could) { /* in vain: they stay */
      out->n_preempt = before;
      out->blocked = seats_before < 1 ? DS_BLOCKED_SEQS : DS_BLOCKED_KV;
      break;
    }
    blocks = could - need;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .tokens = ds_view_known(v, slot), .reserve_tokens = tokens};
  }
  out->hold = out->n_grants == 0;
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }

extern const ds_sched_ops ds_sched_srpt_oracle;
const ds_sched_ops ds_sched_srpt_oracle = {
    .name = "srpt-oracle",
    .summary = "for teaching: shortest remaining time first, with preemption, true output lengths known",
    .reference = "Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline (1968)",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .oracle = true,
    .rank = rank,
    .plan = plan,
    .max_seqs = max_seqs,
};
