// SPDX-License-Identifier: Apache-2.0
/* A replica in time: arrivals enter its queue, it plans, it runs iterations. */
#include "engine/lists.h"

static int64_t next_inbox_ns(const ds_replica *r) {
  return r->n_inbox > 0 ? r->inbox[r->inbox_head].time_ns : DS_TIME_NEVER;
}

/* Into the inbox again. */
static ds_status put_back(ds_sim *s, ds_replica *r, ds_inbox_entry e) {
  s->slot[e.slot].in_inbox = true;
  return ds_inbox_insert(s, r, e);
}

/* Where a request that was set aside belongs: in order of arrival, unless the policy has an order of its own. */
static void queue_again(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  uint32_t at = r->v.queue_head;
  if (s->ranked) {
    ds_queue_insert(s, r, slot);
    return;
  }
  while (at != DS_SLOT_NONE && (s->view[at].arrival_ns < v->arrival_ns ||
                                (s->view[at].arrival_ns == v->arrival_ns && s->view[at].index < v->index))) {
    at = s->view[at].next;
  }
  if (at == DS_SLOT_NONE || at == r->v.queue_head) {
    if (at == DS_SLOT_NONE) ds_queue_push_back(s, r, slot);
    else ds_queue_push_front(s, r, slot);
    return;
  }
  v->next = at;
  v->prev = s->view[at].prev;
  s->view[v->prev].next = slot;
  s->view[at].prev = slot;
  r->v.n_queue++;
}

/* The head of the queue is looked up in the tiers once, when its turn comes: what must be loaded is set aside until then. */
static ds_status look_up_heads(ds_sim *s, ds_replica *r) {
  while (r->v.n_queue > 0) {
    uint32_t slot = r->v.queue_head;
    ds_slot *q = &s->slot[slot];
    if (q->look != DS_LOOK_DUE || s->view[slot].admitted_before) return DS_OK;
    int64_t ready_ns, now_ns = r->v.now_ns;
    bool fits;
    DS_TRY(ds_tiers_look(s, r, slot, now_ns, &ready_ns, &fits));
    if (!fits && r->loading_blocks == 0) return DS_OK; /* nor could it be admitted: later */
    q->look = DS_LOOK_DONE;
    if (ready_ns == now_ns) return DS_OK;
    int64_t for_kv = ds_kv_wait_at(r, now_ns) - q->kv_wait_before;
    q->look = fits ? DS_LOOK_LOADING : DS_LOOK_PUT_OFF;
    q->aside_kv_ns += for_kv + (fits ? 0 : ready_ns - now_ns);
    q->aside_load_ns += fits ? ready_ns - now_ns : 0;
    if (fits) r->loading_blocks += q->load_to;
    ds_queue_remove(s, r, slot);
    DS_TRY(put_back(s, r, (ds_inbox_entry){ready_ns, slot}));
  }
  return DS_OK;
}

/* Its client went while it was set aside. */
static void abort_waiting(ds_sim *s, ds_replica *r, uint32_t slot) {
  if (s->sched->on_abort != NULL) s->sched->on_abort(r->policy, slot, &s->view[slot]);
  ds_slot_free(s, r, slot);
}

/* What was routed here and has arrived by t enters the queue; called before any plan at or after t. */
static ds_status deliver_some(ds_sim *s, ds_replica *r, int64_t t_ns) {
  while (next_inbox_ns(r) <= t_ns) {
    ds_inbox_entry e = r->inbox[r->inbox_head];
    r->inbox_head = (r->inbox_head + 1) & (r->cap_inbox - 1);
    r->n_inbox--;
    ds_req_view *v = &s->view[e.slot];
    ds_slot *q = &s->slot[e.slot];
    q->kv_wait_before = ds_kv_wait_at(r, e.time_ns);
    q->in_inbox = false;
    if (DS_UNLIKELY(q->look == DS_LOOK_LOADING || q->look == DS_LOOK_PUT_OFF)) {
      if (q->look == DS_LOOK_LOADING) {
        r->loading_blocks -= q->load_to;
        DS_TRY(ds_tiers_loaded(s, r, e.slot));
      }
      q->look = q->look == DS_LOOK_LOADING ? DS_LOOK_DONE : DS_LOOK_DUE;
      if (q->gone) {
        abort_waiting(s, r, e.slot);
        continue;
      }
      queue_again(s, r, e.slot);
      continue;
    }
    if (DS_UNLIKELY(q->gone)) {
      ds_slot_free(s, r, e.slot);
      continue;
    }
    if (DS_UNLIKELY(s->turns_away) && ds_refused(s, r, e.slot)) {
      DS_TRY(ds_turn_away(s, r, e.slot, e.time_ns));
      continue;
    }
    if (DS_UNLIKELY(s->ranked)) ds_queue_insert(s, r, e.slot);
    else ds_queue_push_back(s, r, e.slot);
    if (DS_UNLIKELY(r->v.n_queue > DS_QUEUE_LONG)) ds_queue_hint(s, r, e.slot);
    if (q->output < r->pending_least) r->pending_least = q->output;
    if (s->sched->on_arrival != NULL) s->sched->on_arrival(r->policy, v);
  }
  return DS_OK;
}

static inline ds_status deliver(ds_sim *s, ds_replica *r, int64_t t_ns) {
  return next_inbox_ns(r) <= t_ns ? deliver_some(s, r, t_ns) : DS_OK;
}

static inline int64_t due_ns(const ds_replica *r) {
  if (r->plan_due) return r->v.now_ns;
  int64_t t = next_inbox_ns(r);
  if (r->deadline_ns < t) t = r->deadline_ns;
  return t < r->wake_ns ? t : r->wake_ns;
}
int64_t ds_replica_due_ns(const ds_replica *r) { return due_ns(r); }

/* Somebody arrives before anything else happens here. An event of its own only where he may be turned away: if he asks
 * again, or lets another in, that one is to be heard of before the next plan. */
static bool knocks(const ds_sim *s, const ds_replica *r) {
  if (DS_LIKELY(!s->turns_away)) return false;
  return r->in_flight ? next_inbox_ns(r) < r->end_ns : r->n_inbox > 0 && next_inbox_ns(r) <= due_ns(r);
}

static ds_status open_door(ds_sim *s, ds_replica *r) {
  int64_t t = next_inbox_ns(r);
  DS_TRY(deliver_some(s, r, t));
  if (r->in_flight || r->plan_due) return DS_OK;
  r->v.now_ns = t;
  r->plan_due = true;
  return DS_OK;
}

int64_t ds_replica_next_ns(const ds_sim *s, const ds_replica *r) {
  if (s->group > 1) return ds_group_next_ns(s, r);
  if (knocks(s, r)) return next_inbox_ns(r);
  return r->in_flight ? r->end_ns : due_ns(r);
}

bool ds_replica_ends(const ds_sim *s, const ds_replica *r) { return r->in_flight && !knocks(s, r); }

/* Room for a plan: every running request, and as many of the queue as a policy could admit. */
static ds_status make_room(ds_sim *s, ds_replica *r) {
  if (DS_LIKELY((size_t)r->v.n_running + r->v.n_swapped + r->v.n_queue + r->n_made_way <= r->cap_grants)) return DS_OK;
  size_t limit = r->v.n_queue;
  if (s->run.pool.max_num_seqs > 0 && limit > (size_t)s->run.pool.max_num_seqs) limit = (size_t)s->run.pool.max_num_seqs;
  size_t need = r->v.n_running + r->v.n_swapped + limit + r->n_made_way;
  if (need <= r->cap_grants) return DS_OK;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->grant_decodes, &r->cap_grant_decodes, need, sizeof *r->grant_decodes));
  if (s->sched->reorders) {
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->plan.order, &r->cap_order, need, sizeof *r->plan.order));
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->plan.spare, &r->cap_spare, need, sizeof *r->plan.spare));
  }
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->plan.decode, &r->cap_decode, need, sizeof *r->plan.decode));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->plan.preempt, &r->cap_preempt, need, sizeof *r->plan.preempt));
  return ds_alloc_grow(&s->alloc, (void **)&r->plan.grants, &r->cap_grants, need, sizeof *r->plan.grants);
}

static ds_status make_room_to_turn_away(ds_sim *s, ds_replica *r) {
  r->plan.n_turned_away = 0;
  return ds_alloc_grow(&s->alloc, (void **)&r->plan.turned_away, &r->cap_turned_away, r->v.n_queue, sizeof *r->plan.turned_away);
}

static void blank(ds_plan *p) {
  p->decode_all = p->hold = p->hold_past_arrival = p->hold_past_finish = p->hold_finished = false;
  p->emit_at_end = p->no_overlap = p->preempt_to_back = p->swap_out = false;
  p->n_grants = p->n_decode = p->n_preempt = p->n_order = p->padded_prefill_tokens = 0;
  p->hold_steps = 0;
  p->wake_ns = DS_TIME_NEVER;
  p->blocked = DS_BLOCKED_NO;
}

static ds_status ask_policy(ds_sim *s, ds_replica *r) {
  DS_TRY(make_room(s, r));
  r->v.steps = r->v.iteration - r->planned_at;
  r->v.req = s->view;
  r->v.prefilling = r->prefilling;
  r->v.image = s->image;
  r->v.free_blocks = r->kv.free_blocks;
  r->v.decode_blocks = r->need[r->phase];
  r->v.last_end_ns = r->end_ns;
  if (s->speculative) ds_spec_view(s, r);
  blank(&r->plan);
  if (DS_UNLIKELY(s->turns_away)) DS_TRY(make_room_to_turn_away(s, r));
  if (r->v.prefix_cache) {
    ds_kv_plan(&r->kv);
    r->claims_seen = r->leaving_seen = 0;
  }
  r->plan.preempt += r->n_made_way; /* the log wants all that went at this instant */
  ds_status st = s->sched->plan(r->policy, &r->v, &r->plan);
  r->plan.preempt -= r->n_made_way;
  if (DS_UNLIKELY(st != DS_OK)) {
    if (s->err != NULL && s->err->status == DS_OK) {
      ds_error_begin(s->err, st, "scheduler ");
      ds_error_text(s->err, s->sched->name);
      ds_error_text(s->err, " gave up");
    }
    return st;
  }
  r->planned_at = r->v.iteration;
  if (DS_UNLIKELY(r->kv_blocked || r->plan.blocked == DS_BLOCKED_KV)) {
    r->kv_wait_ns = ds_kv_wait_at(r, r->v.now_ns);
    r->kv_wait_since = r->v.now_ns;
    r->kv_blocked = r->plan.blocked == DS_BLOCKED_KV;
  }
  return DS_OK;
}

/* Plan at now, and start what was planned. */
static ds_status plan_now(ds_sim *s, ds_replica *r, int64_t until_ns) {
  const ds_plan *plan = &r->plan;
  r->plan_due = false;
  r->wake_ns = DS_TIME_NEVER;
  r->n_made_way = 0;
  if (DS_UNLIKELY(s->run.n_tiers > 0)) DS_TRY(look_up_heads(s, r));
  if (r->v.n_queue == 0 && r->v.n_running == 0 && r->v.n_swapped == 0) {
    r->kv_wait_ns = ds_kv_wait_at(r, r->v.now_ns);
    r->kv_blocked = false;
    return DS_OK;
  }
  for (;;) {
    DS_TRY(ask_policy(s, r));
    if (DS_UNLIKELY(s->turns_away)) DS_TRY(ds_turn_away_planned(s, r));
    const bool same = plan->hold && plan->decode_all && plan->n_grants == 0 && plan->n_preempt == 0;
    /* A plan that was made ahead and has not seen who is here holds for one iteration only. */
    const bool holds = DS_LIKELY(!s->late) || next_inbox_ns(r) > r->v.now_ns;
    /* Who was turned away may be back, or let another in, before a lease would end. */
    const bool heard = DS_UNLIKELY(s->turns_away) && plan->n_turned_away > 0 && s->opt.closed_loop;
    if (same && holds && !heard && !s->opt.no_lease && r->v.n_decoding > 0) {
      /* What comes back from a tier comes to the front. */
      bool behind = plan->hold_past_arrival && s->run.n_tiers == 0 && !s->late && !s->opt.closed_loop && s->group <= 1;
      int64_t horizon = behind ? until_ns : next_inbox_ns(r);
      if (horizon > until_ns) horizon = until_ns;
      if (horizon > s->lease_until_ns) horizon = s->lease_until_ns;
      if (horizon > r->deadline_ns) horizon = r->deadline_ns;
      if (DS_UNLIKELY(s->turns_away) && horizon > plan->wake_ns) horizon = plan->wake_ns;
      return ds_lease_run(s, r, plan, horizon < until_ns && s->opt.closed_loop ? horizon : until_ns, horizon);
    }
    if (same && s->plain && !plan->hold_finished && !plan->emit_at_end) {
      bool did;
      DS_TRY(ds_iteration_plain(s, r, until_ns, &did));
      if (did) return DS_OK;
    }
    DS_TRY(ds_iteration_begin(s, r, plan));
    if (r->in_flight) { /* if nobody can see anything before its end, end it at once */
      bool alone = !s->opt.closed_loop && s->group <= 1 && !s->in_order;
      return alone && r->end_ns <= until_ns ? ds_iteration_end(s, r) : DS_OK;
    }
    if (plan->n_preempt == 0) break; /* else the queue has changed: ask once more */
    r->n_made_way += plan->n_preempt;
  }
  if (r->v.n_running > 0) {
    ds_error_begin(s->err, DS_E_POLICY, "scheduler ");
    ds_error_text(s->err, s->sched->name);
    ds_error_text(s->err, " broke a rule: leaves running requests without work");
    return DS_E_POLICY;
  }
  r->wake_ns = plan->wake_ns > r->v.now_ns ? plan->wake_ns : DS_TIME_NEVER;
  return DS_OK;
}

/* One event: an iteration's end, or a plan. False when the next one is not before `until` (an end at `until` counts,
 * a plan at `until` does not: more arrivals of that instant may come). */
static ds_status one_event(ds_sim *s, ds_replica *r, int64_t until_ns, bool *did) {
  *did = false;
  if (knocks(s, r)) {
    if (next_inbox_ns(r) >= until_ns) return DS_OK;
    *did = true;
    return open_door(s, r);
  }
  if (r->in_flight) {
    if (r->end_ns > until_ns) return DS_OK;
    *did = true;
    return ds_iteration_end(s, r);
  }
  int64_t t = due_ns(r);
  if (t >= until_ns) return DS_OK;
  r->v.now_ns = t;
  /* Where the host works ahead, this plan was made when the iteration that has just ended began. */
  bool late = s->late && r->v.n_running > 0;
  DS_TRY(deliver(s, r, DS_UNLIKELY(late) ? r->cur.start_ns : t));
  *did = true;
  if (DS_UNLIKELY(r->deadline_ns <= t)) return ds_drop_due(s, r, t); /* the plan is the next event */
  return plan_now(s, r, until_ns);
}

/* A rank of a group, at an instant at which none of its group runs. */
ds_status ds_replica_plan_at(ds_sim *s, ds_replica *r, int64_t t_ns, int64_t until_ns) {
  r->v.now_ns = t_ns;
  DS_TRY(deliver(s, r, t_ns));
  return plan_now(s, r, until_ns);
}

ds_status ds_replica_advance(ds_sim *s, ds_replica *r, int64_t until_ns) {
  if (s->group > 1) return ds_group_advance(s, r, until_ns);
  bool did = true;
  while (s->events_left > 0) {
    DS_TRY(one_event(s, r, until_ns, &did));
    if (!did) return DS_OK;
    s->events_left--;
  }
  return DS_OK;
}
