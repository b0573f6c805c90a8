// SPDX-License-Identifier: Apache-2.0
/* Tiers of KV memory behind a replica's own: what was computed is copied there in the background, and survives there
 * when the replica evicts it.
 *
 * A request at the head of the queue is looked up once, here and there. What a tier holds beyond the replica's own cache
 * is loaded first, if that takes less time than computing it again (or always, or never, as asked): the request is set
 * aside, others may pass, and it is queued again in its place when the load is over. Loads over one link go one after
 * the other. Loaded blocks are cached blocks of the replica like others. A preempted request does not look again.
 *
 * Copying out goes over the same link in the other direction, which PCIe and networks have apart, as vLLM does it with a
 * stream for each: nobody waits for it, but what is copied can be loaded only when it is there. The memory of a request
 * that has left may be used again before; what is so far back that the whole pool waits before it is taken to be lost.
 * Source: vllm-project/vllm v1/kv_offload/worker/cpu_gpu.py, read in 2026. */
#include "engine/replica.h"

#include "base/num.h"

#include <string.h>

#define NODE_GPUS 8 /* of a tier of node scope */

static int64_t replicas_of(const ds_sim *s, const ds_tier *t) {
  if (t->scope == DS_TIER_REPLICA) return 1;
  if (t->scope == DS_TIER_CLUSTER) return (int64_t)s->n_replicas;
  const ds_pool *p = &s->run.pool;
  int64_t gpus = p->tensor_parallel * p->data_parallel * p->pipeline_parallel;
  return gpus > 0 && gpus < NODE_GPUS ? NODE_GPUS / gpus : 1;
}

ds_status ds_tiers_init(ds_sim *s, ds_error *err) {
  const ds_pool *p = &s->run.pool;
  double devices = (double)(p->tensor_parallel * p->data_parallel * p->pipeline_parallel);
  double block_bytes = s->result.memory.kv_bytes_per_token * devices * (double)s->block_tokens;
  for (int64_t i = 0; i < s->run.n_tiers; i++) {
    const ds_tier *t = &s->run.tier[i];
    ds_tier_state *x = &s->tier[i];
    x->replicas = replicas_of(s, t);
    x->n = ((int64_t)s->n_replicas + x->replicas - 1) / x->replicas;
    x->blocks = t->blocks > 0 ? t->blocks : (int64_t)(t->capacity_bytes / block_bytes);
    x->block_ns = t->bytes_per_s > 0 ? ds_ns_of_s(block_bytes / t->bytes_per_s) : t->block_ns;
    x->write_block_ns = t->write_bytes_per_s > 0 ? ds_ns_of_s(block_bytes / t->write_bytes_per_s) : t->write_block_ns;
    if (x->blocks <= 0) {
      ds_error_begin(err, DS_E_INPUT, "tiers.");
      ds_error_text(err, t->name);
      return ds_error_text(err, ".capacity: less than one block"), DS_E_INPUT;
    }
    x->store = ds_alloc_zeroed(&s->alloc, (size_t)x->n, sizeof *x->store);
    if (x->store == NULL) return DS_E_NOMEM;
    for (int64_t k = 0; k < x->n; k++) DS_TRY(ds_kv_init(&x->store[k].pool, x->blocks, true, DS_EVICT_LRU, &s->alloc));
    /* What replicas share must be seen in one order: event by event over all of them. */
    if (x->replicas > 1 && s->n_replicas > 1) s->opt.eager = s->opt.no_lease = s->in_order = true;
  }
  return DS_OK;
}

void ds_tiers_free(ds_sim *s) {
  for (int64_t i = 0; i < s->run.n_tiers; i++) {
    ds_tier_state *x = &s->tier[i];
    for (int64_t k = 0; x->store != NULL && k < x->n; k++) {
      ds_kv_free(&x->store[k].pool, &s->alloc);
      ds_alloc_free(&s->alloc, x->store[k].write, x->store[k].cap_writes, sizeof *x->store[k].write);
    }
    ds_alloc_free(&s->alloc, x->store, (size_t)x->n, sizeof *x->store);
  }
}

static ds_tier_store *store_of(const ds_sim *s, int64_t tier, const ds_replica *r) {
  return &s->tier[tier].store[r->index / s->tier[tier].replicas];
}

/* These blocks are in the pool afterwards, most recently used, as far as `take` blocks may be handed out for them. */
static ds_status put(ds_sim *s, ds_kv_pool *pool, const ds_slot *q, uint32_t blocks, uint64_t *put_blocks) {
  uint32_t held, leaf, there = ds_kv_lasting(pool, s->part + q->part_at, q->n_parts, blocks, 0, &held);
  DS_TRY(ds_kv_hold(pool, s->part + q->part_at, q->n_parts, there, &leaf, &s->alloc));
  uint32_t more = blocks - there;
  if (more > pool->free_blocks) more = (uint32_t)pool->free_blocks;
  if (more > 0) {
    ds_kv_take(pool, more);
    DS_TRY(ds_kv_extend(pool, s->part + q->part_at, q->n_parts, there, there + more, &leaf, &s->alloc));
    *put_blocks += more;
  }
  return ds_kv_release(pool, leaf, &s->alloc);
}

/* ---- copying out ---- */

static void arrived(ds_sim *s, ds_tier_store *x, int64_t now_ns) {
  while (x->n_writes > 0 && x->write[x->first_write].ready_ns <= now_ns) {
    const ds_tier_write *w = &x->write[x->first_write++];
    ds_identity_free(s, w->part_at, w->n_parts);
    x->n_writes--;
  }
}

static ds_status send(ds_sim *s, ds_tier_store *x, ds_tier_write w) {
  if (x->first_write > x->n_writes) {
    memmove(x->write, x->write + x->first_write, x->n_writes * sizeof *x->write);
    x->first_write = 0;
  }
  size_t at = x->first_write + x->n_writes;
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&x->write, &x->cap_writes, at + 1, sizeof *x->write));
  DS_TRY(ds_identity_copy(s, w.part_at, w.n_parts, &w.part_at));
  x->write[at] = w;
  x->n_writes++;
  return DS_OK;
}

/* Of the first `blocks` blocks, how many are not on their way any more. */
static uint32_t landed(ds_sim *s, ds_tier_store *x, const ds_slot *q, uint32_t blocks, int64_t now_ns) {
  arrived(s, x, now_ns);
  for (size_t i = 0; i < x->n_writes; i++) {
    const ds_tier_write *w = &x->write[x->first_write + i];
    if (w->from >= blocks) continue;
    if (ds_kv_parts_common(s->part + q->part_at, q->n_parts, s->part + w->part_at, w->n_parts) > w->from) blocks = w->from;
  }
  return blocks;
}

static ds_status keep_in(ds_sim *s, ds_replica *r, const ds_slot *q, int64_t tier) {
  ds_tier_store *x = store_of(s, tier, r);
  ds_tier_totals *t = &r->totals.tier[tier];
  const int64_t block_ns = s->tier[tier].write_block_ns, now_ns = r->v.now_ns;
  arrived(s, x, now_ns);
  uint32_t held, there = ds_kv_lasting(&x->pool, s->part + q->part_at, q->n_parts, q->shared, 0, &held);
  int64_t begin_ns = x->written_at_ns > now_ns ? x->written_at_ns : now_ns, waiting = begin_ns - now_ns;
  uint32_t upto = q->shared;
  if (waiting > 0 && waiting / block_ns + (upto - there) > r->kv.total_blocks) { /* block_ns > 0, or nothing waited */
    t->lost_blocks += upto - there;
    upto = there;
  }
  uint64_t sent = 0;
  DS_TRY(put(s, &x->pool, q, upto, &sent));
  t->stored_blocks += sent;
  if (sent == 0 || block_ns == 0) return DS_OK;
  x->written_at_ns = begin_ns + s->run.tier[tier].latency_ns + (int64_t)sent * block_ns;
  t->store_ns += x->written_at_ns - begin_ns;
  return send(s, x, (ds_tier_write){x->written_at_ns, q->part_at, q->n_parts, there, there + (uint32_t)sent});
}

ds_status ds_tiers_keep(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_slot *q = &s->slot[slot];
  for (int64_t i = 0; i < s->run.n_tiers && q->shared > 0; i++) DS_TRY(keep_in(s, r, q, i));
  return DS_OK;
}

/* ---- loading ---- */

/* What computing blocks from..to of a prompt adds to an iteration. */
static int64_t compute_ns(const ds_sim *s, uint32_t from, uint32_t to) {
  double n = (double)(to - from) * s->block_tokens, c = (double)from * s->block_tokens;
  ds_shape one = {.prefill_tokens = 1, .prefill_chunks = 1, .prefill_pairs = c + n + 1, .prefill_kv_tokens = c + n + 1, .prefill_tiles = 1};
  ds_shape all = one;
  all.prefill_tokens += (int64_t)n;
  all.prefill_pairs += n * c + n * (n + 1.0) * 0.5;
  all.prefill_tiles = ((int64_t)n + 128) / 128;
  int64_t ns = ds_price_mixed_ns(s->pricer, &all) - ds_price_mixed_ns(s->pricer, &one);
  return ns > 0 ? ns : 0;
}

/* When it can go on, and (load_to) up to which block it will then be cached. Not *fits: there is no room for it beside
 * what is being loaded, nothing was begun, and it can try again when that is over. */
ds_status ds_tiers_look(ds_sim *s, ds_replica *r, uint32_t slot, int64_t t_ns, int64_t *ready_ns, bool *fits) {
  ds_slot *q = &s->slot[slot];
  uint32_t most = (s->view[slot].prompt_tokens - 1) / s->block_tokens, held;
  uint32_t limit = q->identity < most ? q->identity : most;
  const ds_kv_part *part = s->part + q->part_at;
  uint32_t have = ds_kv_lasting(&r->kv, part, q->n_parts, limit, 0, &held);
  int64_t whole = ds_div_up((int64_t)s->view[slot].prompt_tokens, s->block_tokens);
  *ready_ns = t_ns;
  *fits = whole - held + r->loading_blocks <= r->kv.free_blocks;
  q->load_to = 0;
  if (!*fits) {
    for (int64_t i = 0; i < s->run.n_tiers; i++) {
      int64_t free_ns = store_of(s, i, r)->free_at_ns;
      if (free_ns > *ready_ns) *ready_ns = free_ns;
    }
    return DS_OK;
  }
  for (int64_t i = 0; i < s->run.n_tiers; i++) {
    const ds_tier *t = &s->run.tier[i];
    ds_tier_store *x = store_of(s, i, r);
    uint32_t there = ds_kv_lasting(&x->pool, part, q->n_parts, limit, 0, &held);
    if (there > have) there = landed(s, x, q, there, t_ns);
    if (there <= have || t->fetch == DS_FETCH_NEVER) continue;
    int64_t load_ns = t->latency_ns + (int64_t)(there - have) * s->tier[i].block_ns;
    int64_t begin_ns = *ready_ns > x->free_at_ns ? *ready_ns : x->free_at_ns;
    if (t->fetch == DS_FETCH_AUTO && begin_ns + load_ns - *ready_ns >= compute_ns(s, have, there)) {
      r->totals.tier[i].recomputed_blocks += there - have;
      continue;
    }
    uint64_t none = 0;
    DS_TRY(put(s, &x->pool, q, there, &none)); /* it has been used */
    r->totals.tier[i].loads++;
    r->totals.tier[i].loaded_blocks += there - have;
    r->totals.tier[i].load_ns += load_ns;
    *ready_ns = x->free_at_ns = begin_ns + load_ns;
    q->load_to = have = there;
  }
  return DS_OK;
}

ds_status ds_tiers_loaded(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_slot *q = &s->slot[slot];
  uint64_t loaded = 0;
  return q->load_to > 0 ? put(s, &r->kv, q, q->load_to, &loaded) : DS_OK;
}
