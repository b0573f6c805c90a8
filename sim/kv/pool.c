// SPDX-License-Identifier: Apache-2.0
#include "kv/pool.h"

#include <string.h>

ds_status ds_kv_entry_new(ds_kv_pool *p, ds_kv_kind kind, int64_t blocks, uint32_t *id, const ds_alloc *a) {
  uint32_t generation = 0;
  if (p->unused != DS_KV_NONE) {
    *id = p->unused;
    p->unused = p->run[*id].next;
    generation = p->run[*id].generation;
  } else {
    if (p->n_runs >= DS_KV_NONE - 1u) return DS_E_NOMEM;
    DS_TRY(ds_alloc_grow(a, (void **)&p->run, &p->cap_runs, p->n_runs + 1, sizeof *p->run));
    *id = (uint32_t)p->n_runs++;
  }
  p->run[*id] = (ds_kv_run){.blocks = blocks, .kind = (uint8_t)kind, .generation = generation, .prev = DS_KV_NONE,
                            .next = DS_KV_NONE, .parent = DS_KV_NONE, .hash_next = DS_KV_NONE};
  return DS_OK;
}

void ds_kv_entry_drop(ds_kv_pool *p, uint32_t id) {
  ds_kv_run *r = &p->run[id];
  r->kind = DS_KV_UNUSED;
  r->generation++;
  r->next = p->unused;
  p->unused = id;
}

void ds_kv_queue_behind(ds_kv_pool *p, uint32_t id, uint32_t at) {
  ds_kv_run *r = &p->run[id];
  r->prev = at;
  r->next = at == DS_KV_NONE ? p->head : p->run[at].next;
  if (at == DS_KV_NONE) p->head = id;
  else p->run[at].next = id;
  if (r->next == DS_KV_NONE) p->tail = id;
  else p->run[r->next].prev = id;
}

void ds_kv_queue_remove(ds_kv_pool *p, uint32_t id) {
  const ds_kv_run *r = &p->run[id];
  if (r->prev == DS_KV_NONE) p->head = r->next;
  else p->run[r->prev].next = r->next;
  if (r->next == DS_KV_NONE) p->tail = r->prev;
  else p->run[r->next].prev = r->prev;
}

ds_status ds_kv_init(ds_kv_pool *p, int64_t total_blocks, bool ordered, ds_eviction eviction, const ds_alloc *a) {
  memset(p, 0, sizeof *p);
  p->total_blocks = p->free_blocks = total_blocks;
  p->ordered = ordered;
  p->eviction = (uint8_t)eviction;
  p->head = p->tail = p->unused = DS_KV_NONE;
  if (!ordered) return DS_OK;
  uint32_t root, all;
  p->n_buckets = 64;
  p->bucket = ds_alloc_zeroed(a, p->n_buckets, sizeof *p->bucket);
  if (p->bucket == NULL) return DS_E_NOMEM;
  for (uint32_t i = 0; i < p->n_buckets; i++) p->bucket[i] = DS_KV_NONE;
  DS_TRY(ds_kv_entry_new(p, DS_KV_SHARED, 0, &root, a));
  DS_ASSERT(root == DS_KV_ROOT);
  p->run[root].refs = 1; /* never given up */
  DS_TRY(ds_kv_entry_new(p, DS_KV_PLAIN, total_blocks, &all, a));
  ds_kv_queue_behind(p, all, DS_KV_NONE);
  return DS_OK;
}

void ds_kv_free(ds_kv_pool *p, const ds_alloc *a) {
  ds_alloc_free(a, p->run, p->cap_runs, sizeof *p->run);
  ds_alloc_free(a, p->bucket, p->n_buckets, sizeof *p->bucket);
  ds_heap_free(&p->leaves, a);
  memset(p, 0, sizeof *p);
}

void ds_kv_take_ordered(ds_kv_pool *p, int64_t n) {
  const uint32_t first = p->head;
  while (n > 0) {
    uint32_t id = p->head != DS_KV_NONE ? p->head : ds_kv_victim(p);
    DS_ASSERT(id != DS_KV_NONE);
    ds_kv_run *r = &p->run[id];
    int64_t k = r->blocks < n ? r->blocks : n;
    n -= k;
    if (r->kind == DS_KV_SHARED) {
      ds_kv_evict(p, id, k);
      continue;
    }
    r->blocks -= k;
    if (r->blocks > 0) break;
    ds_kv_queue_remove(p, id);
    ds_kv_entry_drop(p, id);
  }
  /* The one that is eaten next has not been touched for longer than any other. */
  if (p->head != first && p->head != DS_KV_NONE) DS_PREFETCH(&p->run[p->head]);
}

ds_status ds_kv_give(ds_kv_pool *p, int64_t n, const ds_alloc *a) {
  p->free_blocks += n;
  DS_ASSERT(p->free_blocks <= p->total_blocks);
  if (!p->ordered || n == 0) return DS_OK;
  p->released += (uint64_t)n;
  if (p->tail != DS_KV_NONE && p->run[p->tail].kind == DS_KV_PLAIN) {
    p->run[p->tail].blocks += n;
    return DS_OK;
  }
  uint32_t id;
  DS_TRY(ds_kv_entry_new(p, DS_KV_PLAIN, n, &id, a));
  ds_kv_queue_behind(p, id, p->tail);
  return DS_OK;
}

ds_status ds_kv_give_owned(ds_kv_pool *p, int64_t n, uint64_t *run, const ds_alloc *a) {
  *run = DS_KV_NO_RUN;
  if (!p->ordered || n == 0) return ds_kv_give(p, n, a);
  p->free_blocks += n;
  DS_ASSERT(p->free_blocks <= p->total_blocks);
  p->released += (uint64_t)n;
  uint32_t id;
  DS_TRY(ds_kv_entry_new(p, DS_KV_OWNED, n, &id, a));
  ds_kv_queue_behind(p, id, p->tail);
  *run = (uint64_t)p->run[id].generation << 32 | id;
  return DS_OK;
}

static bool there(const ds_kv_pool *p, uint64_t run) {
  if (run == DS_KV_NO_RUN) return false;
  const ds_kv_run *r = &p->run[ds_kv_entry(run)];
  return r->kind == DS_KV_OWNED && r->generation == (uint32_t)(run >> 32);
}

int64_t ds_kv_left(const ds_kv_pool *p, uint64_t run) { return there(p, run) ? p->run[ds_kv_entry(run)].blocks : 0; }

void ds_kv_reclaim(ds_kv_pool *p, uint64_t run, int64_t n) {
  if (!there(p, run)) return;
  uint32_t id = ds_kv_entry(run);
  ds_kv_run *r = &p->run[id];
  DS_ASSERT(n <= r->blocks);
  r->blocks -= n;
  r->kind = DS_KV_PLAIN;
  r->generation++;
  p->free_blocks -= n;
  uint32_t next = r->next;
  if (next != DS_KV_NONE && p->run[next].kind == DS_KV_PLAIN) { /* what nobody can ask for is one run again */
    p->run[next].blocks += r->blocks;
    r->blocks = 0;
  }
  if (r->blocks > 0) return;
  ds_kv_queue_remove(p, id);
  ds_kv_entry_drop(p, id);
}
