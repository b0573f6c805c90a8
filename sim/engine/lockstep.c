// SPDX-License-Identifier: Apache-2.0
/* Data-parallel ranks in lockstep: every iteration of a group begins and ends on all its ranks at once.
 *
 * Each rank has its own queue, policy and KV, and is a replica here; a group is data_parallel of them. The group's
 * iteration takes as long as its slowest rank's, and ranks without work run an empty one, which no real one undercuts.
 * What a rank waits for the others counts as communication. Source: vllm-project/vllm docs on data-parallel
 * deployment (dummy batches on idle ranks); sgl-project/sglang data-parallel attention (idle batches). */
#include "engine/lists.h"

static ds_replica *rank_of(ds_sim *s, size_t first, size_t i) { return &s->replica[first + i]; }

/* All ranks that run wait for the slowest. */
static void wait_for_slowest(ds_sim *s, size_t first) {
  int64_t end_ns = 0;
  for (size_t i = 0; i < s->group; i++) {
    const ds_replica *r = rank_of(s, first, i);
    if (r->in_flight && r->end_ns > end_ns) end_ns = r->end_ns;
  }
  for (size_t i = 0; i < s->group; i++) {
    ds_replica *r = rank_of(s, first, i);
    ds_current *c = &r->cur;
    if (!r->in_flight) continue;
    c->wait_ns = end_ns - r->end_ns;
    c->dt_ns += c->wait_ns;
    if (c->rows > 0) {
      c->alone_ns += c->wait_ns;
      c->fixed_ns[DS_PART_COMM] += c->wait_ns;
      c->price = NULL;
    }
    r->end_ns = end_ns;
  }
}

/* Nothing of a group happens before this: what arrived while it ran waits for its end. */
static int64_t group_now_ns(const ds_sim *s, size_t first) {
  int64_t now_ns = 0;
  for (size_t i = 0; i < s->group; i++) {
    if (s->replica[first + i].v.now_ns > now_ns) now_ns = s->replica[first + i].v.now_ns;
  }
  return now_ns;
}

int64_t ds_group_next_ns(const ds_sim *s, const ds_replica *rank) {
  size_t first = rank->index / s->group * s->group;
  for (size_t i = 0; i < s->group; i++) {
    if (s->replica[first + i].in_flight) return rank->in_flight ? rank->end_ns : DS_TIME_NEVER; /* who runs speaks */
  }
  int64_t t = ds_replica_due_ns(rank), now_ns = group_now_ns(s, first);
  return t > now_ns ? t : now_ns;
}

/* One event of the group, as one_event of a replica: false when the next one is not before `until`. */
static ds_status group_event(ds_sim *s, size_t first, int64_t until_ns, bool *did) {
  int64_t t = DS_TIME_NEVER;
  bool in_flight = false;
  *did = false;
  for (size_t i = 0; i < s->group; i++) {
    int64_t next = ds_group_next_ns(s, rank_of(s, first, i));
    in_flight = in_flight || rank_of(s, first, i)->in_flight;
    if (next < t) t = next;
  }
  if (in_flight ? t > until_ns : t >= until_ns) return DS_OK;
  *did = true;
  for (size_t i = 0; i < s->group && in_flight; i++) {
    ds_replica *r = rank_of(s, first, i);
    if (r->in_flight) DS_TRY(ds_iteration_end(s, r));
    else if (r->v.now_ns < t) r->v.now_ns = t;
  }
  if (in_flight) return DS_OK;
  for (size_t i = 0; i < s->group; i++) DS_TRY(ds_replica_plan_at(s, rank_of(s, first, i), t, until_ns));
  wait_for_slowest(s, first);
  for (size_t i = 0; i < s->group && s->opt.steps; i++) {
    const ds_replica *r = rank_of(s, first, i);
    if (r->in_flight) DS_TRY(ds_log_step(s, r, &r->plan));
  }
  return DS_OK;
}

ds_status ds_group_advance(ds_sim *s, const ds_replica *rank, int64_t until_ns) {
  size_t first = rank->index / s->group * s->group;
  bool did = true;
  while (s->events_left > 0) {
    DS_TRY(group_event(s, first, until_ns, &did));
    if (!did) return DS_OK;
    s->events_left--;
  }
  return DS_OK;
}
