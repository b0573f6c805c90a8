// SPDX-License-Identifier: Apache-2.0
/* What layers of bounded reach read: the sum over the decode rows of min(context, reach), kept exact at the same cost
 * per iteration however large the batch is. Only for models that have such layers.
 *
 * A row whose context is below the window grows by one per iteration until it gets there, at an iteration that is known
 * when it enters: a ring counts those by iteration modulo the reach. With windows that start anew at each multiple
 * (chunked), every row grows, and the ring counts by phase the rows that start anew. */
#ifndef DS_ENGINE_NEAR_H
#define DS_ENGINE_NEAR_H

#include "engine/replica.h"

/* A row with ctx tokens to read in iteration `at`, the next one: in (by 1) or out (by -1, of what it was at entry). */
static inline void ds_near_count(const ds_sim *s, ds_replica *r, uint64_t since, int64_t ctx, uint64_t at, bool in) {
  ds_near *n = &r->near;
  const int64_t w = s->reach;
  uint32_t by = in ? 1u : UINT32_MAX; /* modulo 2^32 */
  n->sum += (in ? 1 : -1) * ds_attention_near(ctx, w, s->reach_chunked);
  int64_t first = ctx - (int64_t)(at - since); /* at entry */
  if (s->reach_chunked) {
    n->ring[((int64_t)(since % (uint64_t)w) + w - first % w) % w] += by;
    return;
  }
  uint64_t there = since + (uint64_t)(w - first);
  if (first >= w || there <= at) return;
  n->growing += by;
  n->ring[there % (uint64_t)w] += by;
}

/* Iteration number `at` has ended, in which so many rows took a token. */
static inline void ds_near_step(const ds_sim *s, ds_near *n, uint64_t at, uint32_t rows) {
  const uint64_t w = (uint64_t)s->reach;
  if (s->reach_chunked) {
    n->sum += (int64_t)rows - (int64_t)w * n->ring[at % w];
    return;
  }
  n->sum += n->growing;
  uint32_t *there = &n->ring[(at + 1) % w];
  n->growing -= *there;
  *there = 0;
}

/* Nobody is left. */
static inline void ds_near_clear(const ds_sim *s, ds_replica *r) {
  ds_near *n = &r->near;
  n->sum = 0;
  n->growing = 0;
  for (int64_t i = 0; i < s->reach; i++) n->ring[i] = 0;
}

#endif
