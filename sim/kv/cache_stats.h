// SPDX-License-Identifier: Apache-2.0
/* What went on in a prefix index. Counts of blocks, each since the start. */
#ifndef DS_KV_CACHE_STATS_H
#define DS_KV_CACHE_STATS_H

#include "base/types.h"

#define DS_KV_REUSE_BUCKETS 44

typedef struct ds_kv_stats { /* of the prefix index; blocks */
  uint64_t found, made, copied, evicted;
  uint64_t reuse[DS_KV_REUSE_BUCKETS]; /* found blocks by how many blocks were released since their own release: bucket
                                          b holds [2^(b-1), 2^b), 0: none; the last holds those in use */
} ds_kv_stats;

#endif
