// SPDX-License-Identifier: Apache-2.0
/* Arrivals to replicas, and which replicas must be brought up to date for that.
 *
 * A router that asks for nothing lets each replica run on its own, in batches that stay in cache. One that asks for
 * outstanding counts gets them exact: a replica is advanced when its earliest possible finish has passed. The bound
 * never lies after the true finish, so a replica advances once and never rolls back. */
#include "engine/replica.h"

#include <string.h>

#define ROUTE_BATCH 256 /* arrivals routed before replicas catch up */

/* ---- earliest possible finish ---- */

static int64_t least_finish_ns(ds_sim *s, ds_replica *r, int64_t now_ns) {
  if (s->group > 1) return r->outstanding > 0 ? now_ns + 1 : DS_TIME_NEVER;
  int64_t from = ds_replica_next_ns(s, r);
  if (from == DS_TIME_NEVER) return from;
  uint64_t ended = r->in_flight ? 1 : 0; /* iterations that are over at `from`, beyond r->v.iteration */
  uint64_t least = UINT64_MAX;           /* iterations from `from` on until somebody can finish */
  if (r->finish_due) {
    least = 0;
  } else if (r->v.n_decoding > 0) {
    uint64_t done = ds_wheel_next(&r->finish, s->link, r->v.iteration);
    least = done - r->v.iteration - ended;
  }
  if (r->v.n_queue > 0 || r->v.n_prefilling > 0 || r->n_inbox > 0 || r->v.n_swapped > 0) {
    uint64_t p = r->pending_least - (uint64_t)(r->pending_least > 0 ? 1 : 0);
    if (p < least) least = p;
  }
  if (DS_UNLIKELY(s->run.patience.timeout_ns > 0) && r->n_inbox > 0) least = 0; /* it may come in only to leave */
  if (DS_UNLIKELY(s->turns_away) && (r->n_inbox > 0 || r->v.n_queue > 0)) least = 0;
  if (DS_UNLIKELY(s->speculative) && least != UINT64_MAX) { /* several tokens an iteration */
    least = r->v.n_running > 0 ? 0 : least / (uint64_t)(s->run.pool.speculative.tokens + 1);
  }
  if (least == UINT64_MAX) return r->deadline_ns;
  if (least > 1000000) least = 1000000; /* keeps the product small; only makes the bound earlier */
  int64_t t = from + (int64_t)least * s->least_iteration_ns;
  if (r->deadline_ns < t) t = r->deadline_ns;
  return t > now_ns ? t : now_ns + 1; /* that nobody has finished by now is known: replicas that were due are up to date */
}

static ds_status set_due(ds_sim *s, ds_replica *r, int64_t now_ns) {
  uint64_t key = (uint64_t)least_finish_ns(s, r, now_ns);
  if (s->due_key[r->index] == key) return DS_OK;
  s->due_key[r->index] = key;
  return ds_heap_push(&s->due, (ds_heap_item){key, r->index, r->index}, &s->alloc);
}

/* ---- first replica with the fewest outstanding requests: a tree of winners ---- */

static uint32_t better(const ds_sim *s, uint32_t a, uint32_t b) {
  if (s->outstanding[a] != s->outstanding[b]) return s->outstanding[a] < s->outstanding[b] ? a : b;
  return a < b ? a : b;
}

static void replay(ds_sim *s, uint32_t replica) {
  s->outstanding[replica] = s->replica[replica].outstanding;
  for (size_t i = (s->n_replicas + replica) / 2; i >= 1; i /= 2) {
    s->tournament[i] = better(s, s->tournament[2 * i], s->tournament[2 * i + 1]);
  }
}

void ds_route_init(ds_sim *s) {
  size_t n = s->n_replicas;
  for (size_t i = 0; i < n; i++) {
    s->tournament[n + i] = (uint32_t)i;
    s->due_key[i] = UINT64_MAX;
  }
  for (size_t i = n - 1; i >= 1; i--) s->tournament[i] = better(s, s->tournament[2 * i], s->tournament[2 * i + 1]);
}

static uint32_t fewest(const ds_sim *s) { return s->n_replicas == 1 ? 0 : s->tournament[1]; }

/* ---- bringing replicas up to date ---- */

/* All replicas, event by event, in order of (time, replica): the order in which a log of them reads. */
ds_status ds_advance_in_order(ds_sim *s, int64_t until_ns) {
  while (s->events_left > 0) {
    ds_replica *first = NULL;
    int64_t best = DS_TIME_NEVER;
    for (size_t i = 0; i < s->n_replicas; i++) {
      ds_replica *r = &s->replica[i];
      int64_t t = ds_replica_next_ns(s, r);
      bool may = ds_replica_ends(s, r) ? t <= until_ns : t < until_ns;
      if (may && t < best) {
        best = t;
        first = r;
      }
    }
    if (first == NULL) return DS_OK;
    int64_t left = s->events_left;
    s->events_left = 1;
    DS_TRY(ds_replica_advance(s, first, until_ns));
    s->events_left = left - 1;
  }
  return DS_OK;
}

static ds_status catch_up(ds_sim *s, int64_t now_ns) {
  if (s->opt.eager) {
    DS_TRY(ds_advance_in_order(s, now_ns));
    for (uint32_t i = 0; i < s->n_replicas && s->route->needs_outstanding; i++) replay(s, i);
    return DS_OK;
  }
  if (!s->route->needs_outstanding) return DS_OK;
  while (s->due.n > 0 && (int64_t)s->due.item[0].key <= now_ns && s->events_left > 0) {
    ds_heap_item top = s->due.item[0];
    if (s->due_key[top.id] != top.key) { /* superseded */
      ds_heap_pop(&s->due);
      continue;
    }
    ds_replica *r = &s->replica[top.id];
    DS_TRY(ds_replica_advance(s, r, now_ns));
    if (s->events_left <= 0) return DS_OK; /* the entry stays for the next call */
    ds_heap_pop(&s->due);
    s->due_key[top.id] = UINT64_MAX;
    replay(s, top.id);
    DS_TRY(set_due(s, r, now_ns));
  }
  return DS_OK;
}

/* ---- one arrival ---- */

static ds_status new_slot(ds_sim *s, uint32_t *slot) {
  if (s->free_slot != DS_SLOT_NONE) {
    *slot = s->free_slot;
    s->free_slot = s->view[*slot].next;
    return DS_OK;
  }
  if (s->n_slots >= DS_SLOT_NONE) return DS_E_NOMEM;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->view, &s->cap_view, s->n_slots + 1, sizeof *s->view));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->link, &s->cap_link, s->n_slots + 1, sizeof *s->link));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->slot, &s->cap_slots, s->n_slots + 1, sizeof *s->slot));
  *slot = (uint32_t)s->n_slots++;
  memset(&s->slot[*slot], 0, sizeof s->slot[*slot]);
  return DS_OK;
}

ds_status ds_inbox_push(ds_sim *s, ds_replica *r, ds_inbox_entry e) {
  if (r->n_inbox == r->cap_inbox) {
    ds_inbox_entry *bigger = ds_alloc_zeroed(&s->alloc, 2 * r->cap_inbox, sizeof *bigger);
    if (bigger == NULL) return DS_E_NOMEM;
    for (size_t i = 0; i < r->n_inbox; i++) bigger[i] = r->inbox[(r->inbox_head + i) & (r->cap_inbox - 1)];
    ds_alloc_free(&s->alloc, r->inbox, r->cap_inbox, sizeof *r->inbox);
    r->inbox = bigger;
    r->inbox_head = 0;
    r->cap_inbox *= 2;
  }
  r->inbox[(r->inbox_head + r->n_inbox++) & (r->cap_inbox - 1)] = e;
  return DS_OK;
}

/* In order of time, behind what comes at the same time. */
ds_status ds_inbox_insert(ds_sim *s, ds_replica *r, ds_inbox_entry e) {
  DS_TRY(ds_inbox_push(s, r, e));
  size_t i = r->n_inbox - 1, mask = r->cap_inbox - 1;
  for (; i > 0 && r->inbox[(r->inbox_head + i - 1) & mask].time_ns > e.time_ns; i--) {
    r->inbox[(r->inbox_head + i) & mask] = r->inbox[(r->inbox_head + i - 1) & mask];
  }
  r->inbox[(r->inbox_head + i) & mask] = e;
  return DS_OK;
}

static ds_status count_arrival(ds_sim *s, int64_t t_ns) {
  if (t_ns >= s->arrival_second_end_ns || s->arrival_second == NULL) {
    int64_t second = (t_ns - s->start_ns) / DS_NS_PER_S;
    s->arrival_second = ds_seconds_at(&s->seconds, second, &s->alloc);
    if (s->arrival_second == NULL && !s->seconds.overflow) return DS_E_NOMEM;
    s->arrival_second_end_ns = s->start_ns + (second + 1) * DS_NS_PER_S;
  }
  if (s->arrival_second != NULL) s->arrival_second->arrived++;
  return DS_OK;
}

/* When a request enters the queue: one prompt is tokenised after the other, then passes the rest of the front end. */
static int64_t queued_at(const ds_sim *s, ds_replica *r, const ds_request *a) {
  if (!(s->tokenise_s > 0)) return a->arrival_ns + s->api_request_ns;
  int64_t from = r->tokenised_ns > a->arrival_ns ? r->tokenised_ns : a->arrival_ns;
  r->tokenised_ns = from + ds_ns_of_s(s->tokenise_s * (double)(a->input_tokens - a->image_tokens));
  return r->tokenised_ns + s->api_request_ns;
}

static ds_status arrive(ds_sim *s, const ds_request *a, uint64_t index, uint32_t replica) {
  ds_replica *r = &s->replica[replica];
  uint32_t slot;
  DS_TRY(new_slot(s, &slot));
  uint32_t images;
  DS_TRY(ds_encoder_take(s, a, &images));
  s->view[slot] = (ds_req_view){
      .arrival_ns = queued_at(s, r, a), .index = index, .prompt_tokens = a->input_tokens,
      .max_tokens = a->max_tokens > a->output_tokens ? a->max_tokens : a->output_tokens, .priority = a->priority, .tenant = a->tenant,
      .images = images,
      .true_output = s->oracle ? a->output_tokens : 0, .phase = DS_PHASE_WAITING};
  ds_slot *q = &s->slot[slot]; /* what its turn in the queue reads; the rest at its first admission */
  q->arrival_ns = a->arrival_ns;
  q->api_ns = s->view[slot].arrival_ns - a->arrival_ns;
  q->kv_wait_before = q->aside_kv_ns = q->aside_load_ns = 0;
  q->kv_run = DS_KV_NO_RUN;
  q->stream = a->stream;
  q->kv_run_full = q->identity = q->shared = q->load_to = 0;
  q->in_inbox = true;
  q->gone = false;
  q->leaf = DS_KV_ROOT;
  q->part_at = a->span_tokens;
  q->n_parts = a->n_spans;
  for (uint32_t i = 0; i < a->n_spans; i++) q->identity += s->part[a->span_tokens + i].blocks;
  q->look = s->run.n_tiers > 0 && q->identity > 0 ? DS_LOOK_DUE : DS_LOOK_DONE;
  q->output = a->output_tokens;
  q->replica = replica;
  q->last_grant = UINT32_MAX;
  q->ahead = slot;
  /* Its latency counts from the first attempt. */
  if (DS_UNLIKELY(s->run.patience.retries > 0)) q->arrival_ns = s->arrival_ns[index];
  if (DS_UNLIKELY(s->run.patience.timeout_ns > 0)) DS_TRY(ds_deadline_set(s, r, slot, a->arrival_ns));
  DS_TRY(count_arrival(s, a->arrival_ns));
  if (r->v.n_queue == 0 && r->v.n_prefilling == 0 && r->n_inbox == 0 && r->v.n_swapped == 0) r->pending_least = UINT32_MAX;
  if (a->output_tokens < r->pending_least) r->pending_least = a->output_tokens;
  if (DS_LIKELY(!(s->api_image_token_s > 0) || !s->result.with_images)) {
    DS_TRY(ds_inbox_push(s, r, (ds_inbox_entry){s->view[slot].arrival_ns, slot}));
  } else { /* a text may overtake a picture */
    int64_t pictures_ns = ds_encoder_api_ns(s, slot);
    s->view[slot].arrival_ns += pictures_ns;
    q->api_ns += pictures_ns;
    DS_TRY(ds_inbox_insert(s, r, (ds_inbox_entry){s->view[slot].arrival_ns, slot}));
  }
  r->outstanding++;
  if (s->route->needs_outstanding && !s->opt.closed_loop) {
    replay(s, replica);
    DS_TRY(set_due(s, r, a->arrival_ns));
  }
  s->n_routed++;
  s->horizon_ns = a->arrival_ns;
  if (a->arrival_ns > s->result.last_arrival_ns) s->result.last_arrival_ns = a->arrival_ns;
  return DS_OK;
}

/* Replicas are up to date as far as the router needs. */
ds_status ds_route_request(ds_sim *s, const ds_request *a, uint64_t index) {
  ds_route_view v = {.now_ns = a->arrival_ns, .n_replicas = (uint32_t)s->n_replicas, .request_index = index};
  if (s->route->needs_outstanding) {
    if (s->opt.closed_loop) {
      for (uint32_t i = 0; i < s->n_replicas; i++) replay(s, i);
    }
    v.outstanding = s->outstanding;
    v.least_outstanding = fewest(s);
  }
  uint32_t replica = s->route->pick(s->route_state, s->run.router_config.bytes, &v);
  if (replica >= s->n_replicas) {
    ds_error_begin(s->err, DS_E_POLICY, "router ");
    ds_error_text(s->err, s->route->name);
    ds_error_text(s->err, " broke a rule: picked a replica that does not exist");
    return DS_E_POLICY;
  }
  return arrive(s, a, index, replica);
}

static ds_status route_one(ds_sim *s, bool *routed) {
  const ds_request *a = &s->pending[s->pending_head];
  *routed = false;
  DS_TRY(catch_up(s, a->arrival_ns));
  if (s->events_left <= 0) return DS_OK;
  DS_TRY(ds_route_request(s, a, s->n_routed));
  s->pending_head++;
  s->n_pending--;
  *routed = true;
  return DS_OK;
}

ds_status ds_route_pending(ds_sim *s) {
  while (s->events_left > 0) {
    bool routed = s->n_pending > 0;
    for (int i = 0; i < ROUTE_BATCH && s->n_pending > 0 && routed; i++) DS_TRY(route_one(s, &routed));
    if (!s->opt.eager && !s->route->needs_outstanding) {
      for (size_t i = 0; i < s->n_replicas; i++) DS_TRY(ds_replica_advance(s, &s->replica[i], s->horizon_ns));
    }
    if (s->n_pending == 0) return DS_OK;
  }
  return DS_OK;
}
