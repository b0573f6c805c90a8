// SPDX-License-Identifier: Apache-2.0
/* Asynchronous scheduling: the next iteration is planned while one runs.
 *
 * The host's time is hidden behind the device's (an iteration takes the longer of the two) unless the replica was idle
 * before. The end of an answer that comes as a surprise, before its cap, is seen one iteration late: the row decodes
 * once more for nothing and keeps its KV so long. A row that nobody decodes beside is dropped at once. Arrivals are
 * still seen by the plan that follows them, as without it. Source: vllm-project/vllm v1/core/sched/async_scheduler.py;
 * sglang's overlap scheduler, which leaves the second of two batches of prompts alone. */
#include "engine/replica.h"

void ds_overlap_begin(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  ds_current *c = &r->cur;
  bool follows = r->v.iteration > 0 && r->v.last_end_ns == c->start_ns;
  r->totals.wasted_decode_slots += r->v.n_held;
  if (!follows || plan->no_overlap) return;
  int64_t rows = (int64_t)c->rows + c->chunks;
  int64_t host = s->host_step_ns + rows * s->host_request_ns;
  int64_t device = c->dt_ns - host, takes = device > host ? device : host, hidden = c->dt_ns - takes;
  if (c->rows > 0) {
    if (hidden > c->fixed_ns[DS_PART_HOST]) hidden = c->fixed_ns[DS_PART_HOST];
    c->fixed_ns[DS_PART_HOST] -= hidden;
    c->price = NULL;
    c->alone_ns -= hidden;
  }
  if (hidden < 0) return;
  c->dt_ns -= hidden;
}

/* The rows that were kept by mistake have run their iteration. */
ds_status ds_overlap_drop(ds_sim *s, ds_replica *r) {
  if (r->v.n_held == 0) return DS_OK;
  DS_TRY(ds_kv_give(&r->kv, r->held_blocks, &s->alloc));
  r->ctx_sum -= r->held_ctx + (int64_t)r->v.n_held; /* each has gained one more */
  r->held_blocks = r->held_ctx = 0;
  r->v.n_held = 0;
  return DS_OK;
}
