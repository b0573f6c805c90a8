// SPDX-License-Identifier: Apache-2.0
/* The KV blocks of one replica: how many are free, in which order free blocks will be handed out, and what they hold.
 *
 * Freed blocks keep their contents until they are handed out again, so the order matters to the prefix cache. Blocks are
 * freed last block first: the head of the free queue eats a request's tail and leaves a prefix of it. So the queue is one
 * of runs: a run of blocks is described by its length alone, and eaten from its tail. Three kinds of runs are in it:
 * blocks that nobody can ask for (neighbours are merged), those that a preempted request may come back for, and those of
 * the prefix index (kv/prefix.h), which anybody may find. The same order as a queue of single blocks (vLLM's
 * FreeKVCacheBlockQueue). Source: vllm-project/vllm v1/core/kv_cache_utils.py, v1/core/single_type_kv_cache_manager.py.
 *
 * With another order of eviction than least recently used, blocks that nobody can find go first, and runs of the index
 * are kept in a heap instead of the queue; only a run that no other continues is taken. */
#ifndef DS_KV_POOL_H
#define DS_KV_POOL_H

#include "base/heap.h"
#include "kv/cache_stats.h"
#include "spec/run.h"

#define DS_KV_NONE UINT32_MAX
#define DS_KV_ROOT 0 /* the empty prefix, which every first run of the index continues */

typedef enum ds_kv_kind { DS_KV_UNUSED, DS_KV_PLAIN, DS_KV_OWNED, DS_KV_SHARED } ds_kv_kind;

typedef struct ds_kv_run {
  int64_t blocks;
  uint64_t stream;               /* SHARED: what its blocks hold, given what comes before (with space) */
  uint64_t seq;                  /* SHARED: of its tail block: blocks released before it, or (fifo) made before it */
  uint32_t space;
  uint32_t prev, next;           /* in the free queue; next: also of unused entries */
  uint32_t parent, hash_next;    /* SHARED */
  uint32_t children, refs;       /* SHARED: runs that continue it; running requests that hold it */
  uint32_t extra;                /* SHARED: further copies of it, computed by requests beside those that already had it */
  uint32_t uses;                 /* SHARED: how often it was computed or found */
  uint32_t generation;           /* of this entry: told apart from what stood here before */
  uint32_t mark;                 /* SHARED: the plan for which `claimed` and `leaving` hold */
  uint32_t claimed;              /* its first blocks that the plan at hand takes back */
  uint32_t leaving;              /* how many of those that hold it the plan at hand preempts */
  uint8_t kind;                  /* ds_kv_kind */
} ds_kv_run;

#define DS_KV_NO_RUN UINT64_MAX
typedef struct ds_kv_pool {
  int64_t total_blocks, free_blocks;
  bool ordered;            /* keep the order of free blocks (prefix cache on) */
  uint8_t eviction;        /* ds_eviction */
  ds_kv_run *run;
  size_t n_runs, cap_runs;
  uint32_t head, tail;     /* of the free queue */
  uint32_t unused;         /* list of entries to use again */
  uint32_t *bucket;        /* hash of the index: by parent, space and stream */
  uint32_t n_buckets, n_shared;
  ds_heap leaves;          /* not lru: free runs that none continues, by rank; stale ones are skipped */
  uint64_t released, made; /* blocks so far */
  uint32_t plan;           /* marks of runs that are older do not count */
  int64_t shared_free;     /* blocks of the index in the queue */
  ds_kv_stats stats;
} ds_kv_pool;

ds_status ds_kv_init(ds_kv_pool *p, int64_t total_blocks, bool ordered, ds_eviction eviction, const ds_alloc *a);
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
static inline uint32_t ds_kv_entry(uint64_t run) { return (uint32_t)run; }

/* For kv/prefix.c: entries and the queue. ds_kv_entry_new may move `run`. */
ds_status ds_kv_entry_new(ds_kv_pool *p, ds_kv_kind kind, int64_t blocks, uint32_t *id, const ds_alloc *a);
void ds_kv_entry_drop(ds_kv_pool *p, uint32_t id);
void ds_kv_queue_behind(ds_kv_pool *p, uint32_t id, uint32_t at); /* at DS_KV_NONE: at the head */
void ds_kv_queue_remove(ds_kv_pool *p, uint32_t id);
/* kv/prefix.c, for the pool: n blocks of the tail of a free run of the index are handed out. */
void ds_kv_evict(ds_kv_pool *p, uint32_t id, int64_t n);
/* The free run of the index to be eaten next when the order is not lru; DS_KV_NONE: there is none. */
uint32_t ds_kv_victim(ds_kv_pool *p);

#endif
