// SPDX-License-Identifier: Apache-2.0
/* Clients that give up.
 *
 * The server hears of it at a deadline, and drops the request before its next plan: out of the queue, of the running
 * set or of host memory, its KV free again. An iteration that is under way when that happens is run to its end with the
 * request in it, and an answer that ends in it, at the latest at the deadline, is still good. A policy whose batches run
 * to their end drops only who waits. Source: vllm-project/vllm v1/core/sched/scheduler.py (finish_requests);
 * triton-inference-server/core (queue timeouts concern waiting requests only).
 *
 * In an open loop nothing follows from it, so each replica looks to its own deadlines when it gets there. In a closed
 * one the client's next step does (another attempt, the next request of its seat or session), and it is due at the
 * deadline wherever the replica then is: so that is an event of the whole simulation. */
#include "engine/lists.h"

#include "base/rng.h"

ds_status ds_deadline_set(ds_sim *s, ds_replica *r, uint32_t slot, int64_t sent_ns) {
  const ds_patience *p = &s->run.patience;
  int64_t at = sent_ns + p->timeout_ns + p->notice_ns;
  ds_heap_item x = {(uint64_t)at, (uint32_t)s->view[slot].index, slot};
  s->slot[slot].deadline_ns = at;
  if (at < r->deadline_ns) r->deadline_ns = at;
  if (s->opt.closed_loop) DS_TRY(ds_heap_push(&s->give_up, x, &s->alloc));
  return ds_heap_push(&r->deadline, x, &s->alloc);
}

/* Its request is still in flight (as this attempt). */
static bool holds(const ds_sim *s, const ds_heap_item *x) {
  return s->slot[x->id].deadline_ns == (int64_t)x->key && (uint32_t)s->view[x->id].index == x->order;
}

void ds_deadline_refresh(ds_sim *s, ds_replica *r) {
  while (r->deadline.n > 0 && !holds(s, &r->deadline.item[0])) ds_heap_pop(&r->deadline);
  r->deadline_ns = r->deadline.n > 0 ? (int64_t)r->deadline.item[0].key : DS_TIME_NEVER;
}

/* ---- the client ---- */

/* Pause before the k-th further attempt, from 0. */
static int64_t pause_ns(const ds_sim *s, uint64_t index, uint32_t k) {
  const ds_patience *p = &s->run.patience;
  double most = p->backoff_max_ns > 0 ? (double)p->backoff_max_ns : 1e18, ns = (double)p->backoff_ns;
  for (uint32_t i = 0; i < k && ns < most; i++) ns *= p->backoff_factor;
  if (ns > most) ns = most;
  if (p->jitter > 0) {
    ds_rng g = ds_rng_stream(s->run.seed, DS_PURPOSE_BACKOFF, index);
    g.counter[0] = k;
    ns -= ns * p->jitter * ds_rng_unit(&g);
  }
  return (int64_t)(ns + 0.5);
}

static void store_failure(ds_sim *s, const ds_req_view *v, const ds_slot *q, uint32_t retries, int64_t t_ns, ds_failure why) {
  bool waited = v->phase == DS_PHASE_WAITING && !v->admitted_before;
  int64_t wait_ns = (waited ? t_ns : q->scheduled_ns) - v->arrival_ns;
  s->ttft_ns[v->index] = why == DS_FAILED_TURNED_AWAY ? DS_TTFT_TURNED_AWAY : 0;
  s->e2e_ns[v->index] = t_ns - q->arrival_ns;
  s->queue_ns[v->index] = wait_ns > 0 ? wait_ns : 0;
  s->outputs[v->index] = 0;
  if (why == DS_FAILED_TURNED_AWAY) s->result.turned_away++;
  else s->result.timed_out++;
  if (t_ns > s->result.last_finish_ns) s->result.last_finish_ns = t_ns;
  if (!s->opt.records) return;
  s->records[v->index] = (ds_record){.index = v->index,
                                     .arrival_ns = q->arrival_ns,
                                     .finish_ns = t_ns,
                                     .failed = why,
                                     .retries = retries,
                                     .input_tokens = v->prompt_tokens,
                                     .output_tokens = q->output,
                                     .replica = q->replica};
}

/* This attempt ends without an answer at t_ns: the client gives up, or is turned away and hears of it a round trip later. */
ds_status ds_attempt_failed(ds_sim *s, uint32_t slot, int64_t t_ns, ds_failure why) {
  const ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  ds_held *h = s->opt.closed_loop ? &s->held[v->index] : NULL;
  q->gone = true;
  s->result.vain_attempts++;
  if (h != NULL && h->retries < s->run.patience.retries) {
    s->result.retries++;
    int64_t heard_ns = t_ns + (why == DS_FAILED_TURNED_AWAY ? s->run.patience.notice_ns : 0);
    return ds_closed_again(s, v->index, heard_ns + pause_ns(s, v->index, h->retries++));
  }
  store_failure(s, v, q, h != NULL ? h->retries : 0, t_ns, why);
  return h != NULL ? ds_closed_finished(s, v->index, t_ns) : DS_OK;
}

int64_t ds_give_up_next_ns(ds_sim *s) {
  while (s->give_up.n > 0 && !holds(s, &s->give_up.item[0])) ds_heap_pop(&s->give_up);
  return s->give_up.n > 0 ? (int64_t)s->give_up.item[0].key : DS_TIME_NEVER;
}

ds_status ds_give_up_first(ds_sim *s) {
  uint32_t slot = s->give_up.item[0].id;
  int64_t t_ns = (int64_t)s->give_up.item[0].key;
  ds_heap_pop(&s->give_up);
  return s->slot[slot].gone ? DS_OK : ds_attempt_failed(s, slot, t_ns, DS_FAILED_TIMEOUT);
}

/* ---- the server ---- */

static ds_status drop(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  bool waits = v->phase == DS_PHASE_WAITING, runs = v->phase == DS_PHASE_PREFILL || v->phase == DS_PHASE_DECODE;
  if (s->slot[slot].in_inbox || (!waits && !runs && v->phase != DS_PHASE_SWAPPED)) return DS_OK; /* later */
  if (runs && s->sched->runs_to_end) return DS_OK;
  s->result.partial_output_tokens += ds_emitted_now(r, v);
  if (s->sched->on_abort != NULL) s->sched->on_abort(r->policy, slot, v);
  else if (!waits && s->sched->on_finish != NULL) s->sched->on_finish(r->policy, v);
  if (waits) {
    ds_queue_remove(s, r, slot);
    ds_kv_reclaim(&r->kv, s->slot[slot].kv_run, 0); /* nobody comes back for it */
  } else if (runs) {
    if (v->phase == DS_PHASE_DECODE) DS_TRY(ds_decode_leave(s, r, slot));
    else ds_prefilling_remove(r, slot);
    ds_running_remove(s, r, slot);
    DS_TRY(ds_cache_give_back(s, r, slot, false));
  } else {
    ds_swapped_remove(s, r, slot);
    r->v.host_free_blocks += v->blocks;
  }
  v->phase = DS_PHASE_DONE;
  ds_slot_free(s, r, slot);
  return DS_OK;
}

/* Everybody whose client is gone by t_ns leaves; the replica is between iterations. */
ds_status ds_drop_due(ds_sim *s, ds_replica *r, int64_t t_ns) {
  if (r->v.n_running > 0) r->end_ns = r->v.now_ns; /* a lease that ended here does not say so */
  while (r->deadline_ns <= t_ns) {
    uint32_t slot = r->deadline.item[0].id;
    int64_t at = r->deadline_ns;
    ds_heap_pop(&r->deadline);
    if (!s->slot[slot].gone) DS_TRY(ds_attempt_failed(s, slot, at, DS_FAILED_TIMEOUT));
    DS_TRY(drop(s, r, slot));
    ds_deadline_refresh(s, r);
  }
  if (r->v.n_running == 0 && r->v.n_held > 0 && s->overlap) { /* rows kept by mistake, with nobody to decode beside */
    DS_TRY(ds_kv_give(&r->kv, r->held_blocks, &s->alloc));
    r->held_blocks = r->held_ctx = r->ctx_sum = 0;
    r->v.n_held = 0;
  }
  r->plan_due = true;
  return DS_OK;
}

bool ds_finishes_late(const ds_sim *s, const ds_slot *q, int64_t finish_ns) {
  return q->gone || finish_ns > q->deadline_ns - s->run.patience.notice_ns;
}

ds_status ds_finish_late(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_slot *q = &s->slot[slot];
  s->result.partial_output_tokens += q->output;
  if (!q->gone) DS_TRY(ds_attempt_failed(s, slot, q->deadline_ns, DS_FAILED_TIMEOUT));
  ds_slot_free(s, r, slot);
  return DS_OK;
}
