// SPDX-License-Identifier: Apache-2.0
/* Arrivals that depend on completions: a follow-up arrives its think time after the request before it is finished, and
 * under a concurrency cap the next request arrives when any is finished.
 *
 * Such a run must see completions of all replicas in order of time, so it goes event by event. A lease on one replica
 * may last until the next event of another, no longer: that event may send it an arrival. */
#include "engine/replica.h"

#include <string.h>

#define NOBODY UINT64_MAX

/* Everything is fed before the first step, so the requests can be kept by index. */
ds_status ds_closed_hold(ds_sim *s, const ds_request *r, size_t n) {
  size_t total = (size_t)s->n_fed + n;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->held, &s->cap_held, total, sizeof *s->held));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->arrival_ns, &s->cap_arrival, total, sizeof *s->arrival_ns));
  for (size_t i = 0; i < n; i++) {
    uint64_t index = s->n_fed + i;
    s->held[index] = (ds_held){.request = r[i], .first_follower = NOBODY, .next_follower = NOBODY, .waits = r[i].after != 0};
    s->arrival_ns[index] = r[i].arrival_ns;
    DS_TRY(ds_identity_take(s, &s->held[index].request));
  }
  return DS_OK;
}

/* A further attempt is sent at t_ns. */
ds_status ds_closed_again(ds_sim *s, uint64_t index, int64_t t_ns) {
  s->held[index].request.arrival_ns = t_ns;
  return ds_heap_push(&s->released, (ds_heap_item){(uint64_t)t_ns, (uint32_t)index, (uint32_t)index}, &s->alloc);
}

static ds_status release(ds_sim *s, uint64_t index, int64_t t_ns) {
  if (t_ns > s->held[index].request.arrival_ns) s->held[index].request.arrival_ns = t_ns;
  t_ns = s->held[index].request.arrival_ns;
  s->arrival_ns[index] = t_ns;
  /* Ties in order of the file. */
  return ds_heap_push(&s->released, (ds_heap_item){(uint64_t)t_ns, (uint32_t)index, (uint32_t)index}, &s->alloc);
}

/* Link followers to whom they follow; release who follows nobody, as far as the cap allows. */
static ds_status start(ds_sim *s) {
  s->next_uncapped = 0;
  for (uint64_t i = s->n_fed; i-- > 0;) { /* backwards, so that followers of one request stay in file order */
    uint64_t after = s->held[i].request.after;
    if (after == 0) continue;
    s->held[i].next_follower = s->held[after - 1].first_follower;
    s->held[after - 1].first_follower = i;
  }
  uint64_t free_seats = s->opt.concurrency > 0 ? s->opt.concurrency : UINT64_MAX;
  for (; s->next_uncapped < s->n_fed && free_seats > 0; s->next_uncapped++) {
    if (s->held[s->next_uncapped].request.after != 0) continue;
    int64_t t_ns = s->held[s->next_uncapped].request.arrival_ns;
    if (s->released.n == 0 || t_ns < s->start_ns) s->start_ns = t_ns;
    DS_TRY(release(s, s->next_uncapped, t_ns));
    free_seats--;
  }
  s->started = true;
  return DS_OK;
}

ds_status ds_sim_join(ds_sim *s, uint64_t follower, uint64_t on, ds_error *err) {
  if (!s->opt.closed_loop || s->started || follower >= s->n_fed || on >= s->n_fed || follower == on) {
    return ds_error_begin(err, DS_E_STATE, "requests are joined in a closed loop that has been fed and not begun");
  }
  if (s->held[follower].request.after == 0) return DS_OK;
  if (ds_alloc_grow(&s->alloc, (void **)&s->join, &s->cap_join, s->n_join + 1, sizeof *s->join) != DS_OK) {
    return ds_error_begin(err, DS_E_NOMEM, "out of memory");
  }
  s->join[s->n_join++] = (ds_join){(uint32_t)follower, s->held[on].first_join};
  s->held[on].first_join = (uint32_t)s->n_join;
  s->held[follower].waits++;
  return DS_OK;
}

/* One of those that this request waits for is finished. */
static ds_status one_less(ds_sim *s, uint64_t index, int64_t finish_ns, bool *released) {
  ds_held *h = &s->held[index];
  if (finish_ns > h->ready_ns) h->ready_ns = finish_ns;
  if (--h->waits > 0) return DS_OK;
  *released = true;
  return release(s, index, h->ready_ns + h->request.think_ns);
}

/* A request is finished (as its client sees it), or given up for good, at finish_ns. */
ds_status ds_closed_finished(ds_sim *s, uint64_t index, int64_t finish_ns) {
  bool followed = false;
  for (uint64_t i = s->held[index].first_follower; i != NOBODY; i = s->held[i].next_follower) {
    DS_TRY(one_less(s, i, finish_ns, &followed));
  }
  for (uint32_t k = s->held[index].first_join; k != 0; k = s->join[k - 1].next) {
    DS_TRY(one_less(s, s->join[k - 1].follower, finish_ns, &followed));
  }
  if (s->opt.concurrency == 0 || followed) return DS_OK; /* the seat goes on to the follower */
  while (s->next_uncapped < s->n_fed && s->held[s->next_uncapped].request.after != 0) s->next_uncapped++;
  if (s->next_uncapped == s->n_fed) return DS_OK;
  uint64_t next = s->next_uncapped++;
  return release(s, next, finish_ns + s->held[next].request.think_ns);
}

/* The replica with the first event, and when the first event of any other is. Of one instant the ends of iterations
 * come first, then arrivals, then plans, so that a router counts everybody who has finished by then. */
static ds_replica *first_event(ds_sim *s, int64_t *first_ns, int64_t *other_ns) {
  ds_replica *first = NULL;
  *first_ns = *other_ns = DS_TIME_NEVER;
  for (size_t i = 0; i < s->n_replicas; i++) {
    int64_t t = ds_replica_next_ns(s, &s->replica[i]);
    bool ends = t == *first_ns && first != NULL && ds_replica_ends(s, &s->replica[i]) && !ds_replica_ends(s, first);
    if (t < *first_ns || ends) {
      *other_ns = *first_ns;
      *first_ns = t;
      first = &s->replica[i];
    } else if (t < *other_ns) {
      *other_ns = t;
    }
  }
  return first;
}

ds_status ds_closed_run(ds_sim *s) {
  if (!s->started) DS_TRY(start(s));
  while (s->events_left > 0) {
    int64_t arrival_ns = s->released.n > 0 ? (int64_t)s->released.item[0].key : DS_TIME_NEVER, first_ns, other_ns;
    ds_replica *r = first_event(s, &first_ns, &other_ns);
    int64_t give_up_ns = DS_TIME_NEVER;
    if (DS_UNLIKELY(s->give_up.n > 0)) give_up_ns = ds_give_up_next_ns(s);
    if (give_up_ns <= arrival_ns && give_up_ns < DS_TIME_NEVER &&
        (r == NULL || (ds_replica_ends(s, r) ? first_ns > give_up_ns : first_ns >= give_up_ns))) {
      DS_TRY(ds_give_up_first(s));
      s->events_left--;
      continue;
    }
    if (give_up_ns < other_ns) other_ns = give_up_ns;
    bool event = r != NULL && (ds_replica_ends(s, r) ? first_ns <= arrival_ns : first_ns < arrival_ns);
    if (event) {
      int64_t left = s->events_left;
      s->events_left = 1;
      s->lease_until_ns = other_ns > first_ns ? other_ns : first_ns + 1;
      DS_TRY(ds_replica_advance(s, r, arrival_ns));
      s->events_left = left - 1;
    } else if (s->released.n > 0) {
      uint64_t index = s->released.item[0].id;
      ds_heap_pop(&s->released);
      DS_TRY(ds_route_request(s, &s->held[index].request, index));
      s->events_left--;
    } else {
      return DS_OK;
    }
  }
  return DS_OK;
}
