// SPDX-License-Identifier: GPL-3.0-or-later
/* What a prefix cache could find in a workload, without a simulation: with room for everything, with a
 * cache of any size under LRU (one pass gives the whole curve), and the bound of a cache that knows
 * the future. Prompts count in the order of arrival, each looked up and then kept before the next
 * comes; only whole lookups from the start count as hits. */
#ifndef DS_STUDY_PREFIX_STUDY_H
#define DS_STUDY_PREFIX_STUDY_H

#include "engine/sim.h"

typedef struct ds_prefix_study ds_prefix_study;

typedef struct ds_prefix_found {
  uint64_t requests, identified; /* identified: those that say what their tokens are */
  uint64_t input_tokens;         /* of all requests */
  uint64_t blocks, unique;       /* of identified prompts */
  uint64_t hit_blocks, hit_tokens, full_hits; /* found with room for everything; full: whole prompts */
} ds_prefix_found;

/* Blocks of block_tokens, the size of the trace's own or one that it is a multiple of. partial: a
 * prompt's last, partial block counts as one, as in traces that name it (their own size only). False:
 * out of memory, here and below. */
bool ds_prefix_study_new(uint32_t block_tokens, bool partial, ds_prefix_study **out);
bool ds_prefix_study_add(ds_prefix_study *s, const ds_request *r, size_t n);
/* Nothing can be added afterwards. */
bool ds_prefix_study_close(ds_prefix_study *s);
const ds_prefix_found *ds_prefix_study_found(const ds_prefix_study *s);
/* Blocks found by an LRU cache of so many blocks: a prompt's blocks are touched last to first, and
 * then the oldest leave. */
uint64_t ds_prefix_study_lru(const ds_prefix_study *s, uint64_t cache_blocks);
/* The same where those leave that are needed last: no cache of that size finds more. */
bool ds_prefix_study_bound(const ds_prefix_study *s, uint64_t cache_blocks, uint64_t *hits);
void ds_prefix_study_free(ds_prefix_study *s);

#endif
