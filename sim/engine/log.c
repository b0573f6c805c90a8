// SPDX-License-Identifier: Apache-2.0
/* The log of iterations, for --steps: a flat buffer of 64-bit words that the caller drains. */
#include "engine/replica.h"

#include <string.h>

enum { W_REPLICA, W_START, W_END, W_PREFILL, W_DECODE, W_N_PREFILL, W_N_DECODE, W_N_PREEMPTED, W_FREE, W_HEADER };

ds_status ds_log_step(ds_sim *s, const ds_replica *r, const ds_plan *plan) {
  size_t most = W_HEADER + 2u * plan->n_grants + r->v.n_running + r->n_made_way + plan->n_preempt;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->log, &s->cap_log, s->n_log + most, sizeof *s->log));
  uint64_t *w = s->log + s->n_log, *list = w + W_HEADER;
  uint64_t n_prefill = 0, n_decode = 0;
  for (uint32_t i = 0; i < r->cur.n_grants; i++) {
    if (r->grant_decodes[i]) continue;
    *list++ = s->view[r->plan.grants[i].slot].index;
    *list++ = r->plan.grants[i].tokens;
    n_prefill++;
  }
  /* Decoding rows in running order; a resumed row is among them. */
  for (uint32_t slot = r->v.running_head; slot != DS_SLOT_NONE; slot = s->view[slot].next) {
    const ds_req_view *v = &s->view[slot];
    bool resumed = false;
    for (uint32_t i = 0; i < r->cur.n_grants && v->phase == DS_PHASE_PREFILL; i++) {
      resumed = resumed || (r->plan.grants[i].slot == slot && r->grant_decodes[i]);
    }
    if (v->phase != DS_PHASE_DECODE && !resumed) continue;
    *list++ = v->index;
    n_decode++;
  }
  for (uint32_t i = 0; i < r->n_made_way + plan->n_preempt; i++) *list++ = s->view[plan->preempt[i]].index;
  w[W_REPLICA] = r->index;
  w[W_START] = (uint64_t)r->cur.start_ns;
  w[W_END] = (uint64_t)r->end_ns;
  w[W_PREFILL] = (uint64_t)r->cur.prefill_tokens;
  w[W_DECODE] = r->cur.rows;
  w[W_N_PREFILL] = n_prefill;
  w[W_N_DECODE] = n_decode;
  w[W_N_PREEMPTED] = r->n_made_way + plan->n_preempt;
  w[W_FREE] = s->unlimited ? UINT64_MAX : (uint64_t)r->kv.free_blocks;
  s->n_log += (size_t)(list - w);
  return DS_OK;
}

bool ds_sim_next_step(ds_sim *s, ds_step *out) {
  if (s->log_head == s->n_log) {
    s->log_head = s->n_log = 0;
    return false;
  }
  const uint64_t *w = s->log + s->log_head;
  out->replica = (uint32_t)w[W_REPLICA];
  out->start_ns = (int64_t)w[W_START];
  out->end_ns = (int64_t)w[W_END];
  out->prefill_tokens = w[W_PREFILL];
  out->decode_seqs = w[W_DECODE];
  out->n_prefill = (uint32_t)w[W_N_PREFILL];
  out->n_decode = (uint32_t)w[W_N_DECODE];
  out->n_preempted = (uint32_t)w[W_N_PREEMPTED];
  out->free_blocks = w[W_FREE] == UINT64_MAX ? -1 : (int64_t)w[W_FREE];
  out->lists = w + W_HEADER;
  s->log_head += W_HEADER + 2u * out->n_prefill + out->n_decode + out->n_preempted;
  return true;
}
