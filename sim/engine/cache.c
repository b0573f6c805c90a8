// SPDX-License-Identifier: Apache-2.0
/* Requests and the prefix cache: what they are made of, what of it a replica still holds, and how they come by it. */
#include "engine/replica.h"

#include <string.h>

/* ---- identities: lists of parts in one array, in sizes that are powers of two; lists that are given up are used again.
 * The first word of a free list is the place of the next. ---- */

static uint32_t class_of(uint32_t n) {
  uint32_t c = 0;
  while ((1u << c) < n) c++;
  return c;
}

static ds_status parts_new(ds_sim *s, uint32_t n, uint32_t *at) {
  uint32_t c = class_of(n);
  if (s->free_parts[c] != 0) {
    *at = s->free_parts[c] - 1;
    s->free_parts[c] = s->part[*at].blocks;
    return DS_OK;
  }
  size_t need = s->n_part + (1u << c);
  if (need >= UINT32_MAX) return DS_E_NOMEM;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->part, &s->cap_part, need, sizeof *s->part));
  *at = (uint32_t)s->n_part;
  s->n_part = need;
  return DS_OK;
}

/* A list that outlives the request whose it is. */
ds_status ds_identity_copy(ds_sim *s, uint32_t at, uint32_t n, uint32_t *copy) {
  DS_TRY(parts_new(s, n, copy));
  for (uint32_t i = 0; i < n; i++) s->part[*copy + i] = s->part[at + i];
  return DS_OK;
}

void ds_identity_free(ds_sim *s, uint32_t at, uint32_t n) {
  if (n == 0) return;
  uint32_t c = class_of(n);
  s->part[at].blocks = s->free_parts[c];
  s->free_parts[c] = at + 1;
}

static ds_status room_for(ds_sim *s, uint32_t n_spans) {
  return ds_alloc_grow(&s->alloc, (void **)&s->part_scratch, &s->cap_part_scratch, 2 * (size_t)n_spans, sizeof *s->part_scratch);
}

/* In blocks of the engine, up to what it will ever compute: the last token's KV is never made. */
static uint32_t to_parts(const ds_sim *s, const ds_request *r, uint32_t *blocks) {
  uint64_t most = (uint64_t)r->input_tokens + r->output_tokens - 1;
  if (r->span_tokens > 0 && r->span_tokens < most) most = r->span_tokens;
  return ds_kv_parts(r->spans, r->n_spans, most, s->block_tokens, false, s->part_scratch, blocks);
}

/* From now on span_tokens is the place of the list, n_spans its length. */
ds_status ds_identity_take(ds_sim *s, ds_request *r) {
  uint32_t n = 0, blocks = 0, at = 0;
  if (r->n_spans > 0 && s->use_index) {
    DS_TRY(room_for(s, r->n_spans));
    n = to_parts(s, r, &blocks);
    if (n > 0) {
      DS_TRY(parts_new(s, n, &at));
      for (uint32_t i = 0; i < n; i++) s->part[at + i] = s->part_scratch[i]; /* one or two, most often */
    }
  }
  r->spans = NULL;
  r->n_spans = n;
  r->span_tokens = at;
  return DS_OK;
}

static const ds_kv_part *parts_of(const ds_sim *s, const ds_slot *q) { return s->part + q->part_at; }

/* ---- what the cache holds ---- */

static void see_claims(const ds_sim *s, ds_replica *r, const ds_plan *so_far) {
  if (r->claims_seen > so_far->n_grants) { /* the policy has started over */
    ds_kv_plan(&r->kv);
    r->claims_seen = r->leaving_seen = 0;
  }
  for (; r->claims_seen < so_far->n_grants; r->claims_seen++) {
    const ds_grant *g = &so_far->grants[r->claims_seen];
    const ds_slot *q = &s->slot[g->slot];
    if (g->cached_tokens == 0 || s->view[g->slot].phase != DS_PHASE_WAITING) continue;
    uint32_t blocks = g->cached_tokens / s->block_tokens, shared = blocks < q->identity ? blocks : q->identity;
    if (shared > 0) ds_kv_claim(&r->kv, parts_of(s, q), q->n_parts, shared);
    if (blocks > shared) ds_kv_claim_own(&r->kv, q->kv_run, blocks - shared);
  }
}

/* Blocks that an earlier grant of the plan will have computed, and that are ours, too. */
static uint32_t planned(const ds_sim *s, const ds_slot *q, const ds_plan *so_far, uint32_t limit) {
  uint32_t best = 0;
  for (uint32_t i = 0; i < so_far->n_grants && best < limit; i++) {
    const ds_grant *g = &so_far->grants[i];
    const ds_slot *other = &s->slot[g->slot];
    if (other->n_parts == 0) continue;
    const ds_req_view *v = &s->view[g->slot];
    uint32_t from = v->phase == DS_PHASE_WAITING ? g->cached_tokens : v->computed;
    if (v->emitted > 0 && from + 1 == v->prompt_tokens + v->emitted) continue; /* it decodes: found when it leaves */
    uint32_t done = (from + g->tokens) / s->block_tokens;
    if (done > other->identity) done = other->identity;
    if (done > limit) done = limit;
    if (done <= best) continue;
    uint32_t common = ds_kv_parts_common(parts_of(s, q), q->n_parts, parts_of(s, other), other->n_parts);
    if (common > done) common = done;
    if (common > best) best = common;
  }
  return best;
}

uint32_t ds_cached_hit(const void *sim, uint32_t slot, const ds_plan *so_far, int64_t new_blocks, uint32_t *held_tokens) {
  const ds_sim *s = sim;
  const ds_slot *q = &s->slot[slot];
  const ds_req_view *v = &s->view[slot];
  ds_replica *r = &s->replica[q->replica];
  *held_tokens = 0;
  if (!r->v.prefix_cache || (q->identity == 0 && q->kv_run == DS_KV_NO_RUN)) return 0;
  if (so_far != NULL) see_claims(s, r, so_far);
  uint32_t most = (v->prompt_tokens + v->emitted - 1) / s->block_tokens;
  uint32_t limit = q->identity < most ? q->identity : most, hit = 0, held = 0;
  if (r->kv.eviction != DS_EVICT_LRU) new_blocks = 0; /* hits are taken before anything is handed out */
  if (limit > 0) {
    hit = ds_kv_lasting(&r->kv, parts_of(s, q), q->n_parts, limit, new_blocks, &held);
    uint32_t soon = so_far != NULL && !s->sched->caches_at_end ? planned(s, q, so_far, limit) : 0;
    if (soon > hit) hit = soon;
    if (soon > held) held = soon;
  }
  if (hit == q->identity && hit < most) {
    int64_t own = ds_kv_lasting_own(&r->kv, q->kv_run, new_blocks);
    if (own > q->kv_run_full) own = q->kv_run_full;
    if (own > most - hit) own = most - hit;
    hit += (uint32_t)own;
  }
  *held_tokens = held * s->block_tokens;
  return hit * s->block_tokens;
}

uint32_t ds_common_tokens(const void *sim, uint32_t a, uint32_t b) {
  const ds_sim *s = sim;
  const ds_slot *p = &s->slot[a], *q = &s->slot[b];
  uint32_t common = ds_kv_parts_common(parts_of(s, p), p->n_parts, parts_of(s, q), q->n_parts);
  const uint32_t slot[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    uint32_t known = (s->view[slot[i]].prompt_tokens + ds_emitted_now(&s->replica[p->replica], &s->view[slot[i]])) / s->block_tokens;
    if (common > known) common = known;
  }
  return common * s->block_tokens;
}

uint32_t ds_cached_tokens(const void *sim, uint32_t slot, const ds_plan *so_far, int64_t new_blocks) {
  uint32_t held;
  return ds_cached_hit(sim, slot, so_far, new_blocks, &held);
}

int64_t ds_cache_freed(const void *sim, uint32_t slot, const ds_plan *so_far) {
  const ds_sim *s = sim;
  const ds_slot *q = &s->slot[slot];
  ds_replica *r = &s->replica[q->replica];
  int64_t blocks = ds_view_blocks(&r->v, slot) - q->shared;
  if (q->shared == 0) return blocks;
  if (r->leaving_seen > so_far->n_preempt) {
    ds_kv_plan(&r->kv);
    r->claims_seen = r->leaving_seen = 0;
  }
  for (; r->leaving_seen < so_far->n_preempt; r->leaving_seen++) {
    const ds_slot *other = &s->slot[so_far->preempt[r->leaving_seen]];
    if (other->shared > 0) ds_kv_leave(&r->kv, other->leaf);
  }
  return blocks + ds_kv_freed(&r->kv, q->leaf);
}

/* ---- coming by it ---- */

ds_status ds_cache_take_hit(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t tokens) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  uint32_t blocks = tokens / s->block_tokens;
  if (tokens >= v->prompt_tokens + v->emitted) return DS_E_STATE; /* one token at least is computed */
  q->shared = blocks < q->identity ? blocks : q->identity;
  uint32_t own = blocks - q->shared;
  if (own > 0 && (own > q->kv_run_full || own > ds_kv_left(&r->kv, q->kv_run))) return DS_E_STATE;
  if (q->shared > 0) DS_TRY(ds_kv_hold(&r->kv, parts_of(s, q), q->n_parts, q->shared, &q->leaf, &s->alloc));
  if (q->kv_run != DS_KV_NO_RUN) ds_kv_reclaim(&r->kv, q->kv_run, own);
  q->kv_run = DS_KV_NO_RUN;
  v->computed = tokens;
  v->blocks = blocks;
  return DS_OK;
}

void ds_cache_count(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  ds_cache_totals *t = &r->totals.cache;
  s->slot[slot].cached_tokens = v->computed;
  t->asked_tokens += v->prompt_tokens;
  t->asked_blocks += v->prompt_tokens / s->block_tokens;
  t->asked_requests++;
  t->hit_tokens += v->computed;
  t->hit_blocks += v->computed / s->block_tokens;
  t->hit_requests += v->computed > 0;
}

ds_status ds_cache_computed(ds_sim *s, ds_replica *r, uint32_t slot, uint64_t tokens) {
  ds_slot *q = &s->slot[slot];
  uint32_t full = (uint32_t)(tokens / s->block_tokens);
  if (full > q->identity) full = q->identity;
  if (full <= q->shared) return DS_OK;
  uint32_t from = q->shared;
  q->shared = full;
  return ds_kv_extend(&r->kv, parts_of(s, q), q->n_parts, from, full, &q->leaf, &s->alloc);
}

ds_status ds_cache_give_back(ds_sim *s, ds_replica *r, uint32_t slot, bool comes_back) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  if (q->identity > q->shared) DS_TRY(ds_cache_computed(s, r, slot, v->computed)); /* what it generated, too */
  uint32_t own = v->blocks - q->shared;
  if (DS_UNLIKELY(s->run.n_tiers > 0)) DS_TRY(ds_tiers_keep(s, r, slot));
  if (DS_UNLIKELY(comes_back)) {
    q->kv_run_full = v->computed / s->block_tokens - q->shared;
    DS_TRY(ds_kv_give_owned(&r->kv, own, &q->kv_run, &s->alloc));
  } else {
    DS_TRY(ds_kv_give(&r->kv, own, &s->alloc));
  }
  if (q->shared > 0) DS_TRY(ds_kv_release(&r->kv, q->leaf, &s->alloc));
  q->shared = 0;
  q->leaf = DS_KV_ROOT;
  return DS_OK;
}

ds_status ds_cache_leave(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t *own) {
  ds_slot *q = &s->slot[slot];
  if (q->identity > q->shared) DS_TRY(ds_cache_computed(s, r, slot, s->view[slot].computed));
  if (s->run.n_tiers > 0) DS_TRY(ds_tiers_keep(s, r, slot));
  *own = s->view[slot].blocks - q->shared;
  if (q->shared > 0) DS_TRY(ds_kv_release(&r->kv, q->leaf, &s->alloc));
  q->shared = 0;
  q->leaf = DS_KV_ROOT;
  return DS_OK;
}

ds_status ds_sim_warm(ds_sim *s, const ds_request *requests, size_t n, ds_error *err) {
  if (s->n_fed > 0 || s->failed) return ds_error_begin(err, DS_E_STATE, "a cache is warmed before requests are fed");
  if (!s->use_index) return DS_OK;
  for (size_t i = 0; i < n; i++) {
    if (requests[i].n_spans == 0) continue;
    uint32_t blocks, n_parts, held;
    DS_TRY(room_for(s, requests[i].n_spans));
    n_parts = to_parts(s, &requests[i], &blocks);
    if (blocks > s->total_blocks) blocks = (uint32_t)s->total_blocks;
    for (size_t k = 0; k < s->n_replicas && blocks > 0; k++) {
      ds_kv_pool *kv = &s->replica[k].kv;
      uint32_t leaf, there = ds_kv_lasting(kv, s->part_scratch, n_parts, blocks, 0, &held);
      DS_TRY(ds_kv_hold(kv, s->part_scratch, n_parts, there, &leaf, &s->alloc));
      ds_kv_take(kv, blocks - there);
      DS_TRY(ds_kv_extend(kv, s->part_scratch, n_parts, there, blocks, &leaf, &s->alloc));
      DS_TRY(ds_kv_release(kv, leaf, &s->alloc));
      memset(&kv->stats, 0, sizeof kv->stats);
    }
  }
  return DS_OK;
}

#ifdef DS_CHECKING
/* Every block is free, or held by somebody. */
void ds_cache_check(const ds_sim *s, const ds_replica *r) {
  if (s->unlimited || r->kv.n_runs > 4096) return;
  int64_t used = ds_kv_shared_in_use(&r->kv) + r->held_blocks;
  for (uint32_t i = r->v.running_head; i != DS_SLOT_NONE; i = s->view[i].next) {
    const ds_req_view *v = &s->view[i];
    int64_t blocks = v->blocks;
    if (v->phase == DS_PHASE_DECODE && !v->reserved) {
      blocks = ((int64_t)v->computed + (int64_t)(r->v.iteration - v->since) + s->block_tokens - 1) / s->block_tokens;
    }
    used += blocks - s->slot[i].shared;
  }
  DS_ASSERT(used + r->kv.free_blocks == r->kv.total_blocks);
}
#endif
