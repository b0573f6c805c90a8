// SPDX-License-Identifier: Apache-2.0
/* The prefix index: which blocks of prompts (and of finished outputs) a pool holds, found by what they are.
 *
 * A tree of runs of consecutive blocks of one stream; a run is split where prompts part, so all its blocks are in the
 * same state: held by `refs` running requests, or free and in the queue, where it is eaten from its tail. A request
 * holds a path from the root. The outcome is that of hashing every block: a block's parent is never evicted before it.
 *
 * A request that computes blocks which the index has already (the last one of a prompt, which is always computed anew)
 * takes a hold on those, since the contents are the same; the memory it took for its own copy is in exchange for theirs
 * where they were free, and an extra copy of them otherwise, which the next release gives back. */
#ifndef DS_KV_PREFIX_H
#define DS_KV_PREFIX_H

#include "kv/pool.h"
#include "kv/span.h"

typedef struct ds_kv_part { /* so many blocks of one stream */
  uint64_t stream;
  uint32_t space, blocks;
} ds_kv_part;

/* Spans in blocks: only whole blocks of the first `tokens` tokens (0: all), and with `tail` a last partial one as well.
 * out has room for 2 n parts. *blocks: their sum. */
uint32_t ds_kv_parts(const ds_span *spans, uint32_t n, uint64_t tokens, uint32_t block_tokens, bool tail,
                     ds_kv_part *out, uint32_t *blocks);
/* Blocks that two lists have in common from the start. */
uint32_t ds_kv_parts_common(const ds_kv_part *a, uint32_t n_a, const ds_kv_part *b, uint32_t n_b);

/* Down the tree along parts, run by run. Zero it, then set part, n, limit (blocks at most) and node = DS_KV_ROOT. */
typedef struct ds_kv_walk {
  const ds_kv_part *part;
  uint32_t n, i, off;  /* the next block is number off of part i */
  uint32_t limit, at;  /* blocks in all, and so far */
  uint32_t node;       /* run found last */
} ds_kv_walk;
/* The next run and how many of its first blocks match (fewer than it has: the walk is over); false at the first miss. */
bool ds_kv_walk_next(const ds_kv_pool *p, ds_kv_walk *w, uint32_t *id, uint32_t *match);

/* Take a hold on the first `blocks` blocks. *leaf: the last run of the path. DS_E_STATE: the pool has not all of them. */
ds_status ds_kv_hold(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t blocks, uint32_t *leaf, const ds_alloc *a);
/* Blocks `from`..`to` of parts are computed, in blocks that were taken already: the path ends `to` blocks deep. */
ds_status ds_kv_extend(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t from, uint32_t to, uint32_t *leaf,
                       const ds_alloc *a);
/* Give up a path, last block first. */
ds_status ds_kv_release(ds_kv_pool *p, uint32_t leaf, const ds_alloc *a);

/* How many of the first blocks of parts are there and stay there when `taken` blocks are handed out, what the plan at
 * hand has claimed apart (ds_kv_claim). *held: how many of those are in use or claimed, so that holding them takes no
 * free block. */
uint32_t ds_kv_lasting(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t limit, int64_t taken, uint32_t *held);
/* The same for the `left` first blocks of what a preempted request left behind. */
int64_t ds_kv_lasting_own(ds_kv_pool *p, uint64_t run, int64_t taken);
/* A new plan: forget claims. */
void ds_kv_plan(ds_kv_pool *p);
/* The plan at hand takes these blocks back: nothing that it takes afterwards will come out of them. */
void ds_kv_claim(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t blocks);
void ds_kv_claim_own(ds_kv_pool *p, uint64_t run, uint32_t blocks);

/* The plan at hand preempts who holds this path. */
void ds_kv_leave(ds_kv_pool *p, uint32_t leaf);
/* Blocks of the path that become free when its holder goes, after those that leave already. */
int64_t ds_kv_freed(const ds_kv_pool *p, uint32_t leaf);

/* Blocks of the index that some request holds, copies included. With DS_CHECKING also checks everything. */
int64_t ds_kv_shared_in_use(const ds_kv_pool *p);

#endif
