// SPDX-License-Identifier: Apache-2.0
/* The KV blocks of one replica: how many are free, and in which order free blocks will be handed out.
 *
 * The order matters only for the prefix cache: freed blocks keep their contents until they are handed out again, and a
 * preempted request may find its own again. Blocks are freed last block first, so the head of the free queue eats a
 * request's tail and leaves a prefix of it: a run of blocks is described by its length alone, and neighbouring runs
 * that nobody can ask for are merged. Same order as a queue of single blocks (vLLM's FreeKVCacheBlockQueue).
 * Source: vllm-project/vllm v1/core/kv_cache_utils.py, v1/core/single_type_kv_cache_manager.py. */
#ifndef DS_KV_POOL_H
#define DS_KV_POOL_H

#include "base/alloc.h"

typedef struct ds_kv_run {
  int64_t blocks;
  bool owned; /* some request may come back for it */
} ds_kv_run;

#define DS_KV_NO_RUN UINT64_MAX

typedef struct ds_kv_pool {
  int64_t total_blocks, free_blocks;
  bool ordered;        /* keep the order of free blocks (prefix cache on) */
  ds_kv_run *run;      /* ring; run number i is at i % cap */
  size_t cap;
  uint64_t first, end; /* live run numbers: first <= i < end */
} ds_kv_pool;

ds_status ds_kv_init(ds_kv_pool *p, int64_t total_blocks, bool ordered, const ds_alloc *a);
void ds_kv_free(ds_kv_pool *p, const ds_alloc *a);

/* Hand out n <= free_blocks blocks, from the head of the free queue. */
void ds_kv_take_ordered(ds_kv_pool *p, int64_t n);
static inline void ds_kv_take(ds_kv_pool *p, int64_t n) {
  DS_ASSERT(n >= 0 && n <= p->free_blocks);
  p->free_blocks -= n;
  if (p->ordered && n > 0) ds_kv_take_ordered(p, n);
}

/* Take back n blocks of one request, last block first; nobody will ask for their contents. */
ds_status ds_kv_give(ds_kv_pool *p, int64_t n, const ds_alloc *a);
/* The same, but the request may come back: *run names them. */
ds_status ds_kv_give_owned(ds_kv_pool *p, int64_t n, uint64_t *run, const ds_alloc *a);

/* How many of the first blocks of that run are still there. */
int64_t ds_kv_left(const ds_kv_pool *p, uint64_t run);
/* The request is back: take `n` <= left first blocks out of the free queue; the rest belongs to nobody. */
void ds_kv_reclaim(ds_kv_pool *p, uint64_t run, int64_t n);

#endif
