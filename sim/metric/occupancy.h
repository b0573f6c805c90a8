// SPDX-License-Identifier: Apache-2.0
/* A gauge over the time of a run, in a bounded number of points: read at every full second, like a monitor does. When the
 * run outgrows the points, pairs of them become one. Everything is a sum or a maximum of integers, so replicas may add
 * their readings in any order. */
#ifndef DS_METRIC_OCCUPANCY_H
#define DS_METRIC_OCCUPANCY_H

#include "base/types.h"

#define DS_OCCUPANCY_POINTS 60

typedef struct ds_occupancy_point { /* over the readings that fall into it, of all replicas */
  uint64_t blocks, tokens;          /* sums: KV blocks in use, tokens that they hold */
  int64_t most_blocks;              /* in use at one replica */
} ds_occupancy_point;

typedef struct ds_occupancy {
  ds_occupancy_point point[DS_OCCUPANCY_POINTS];
  int64_t width_s; /* seconds of a point */
  int64_t last_s;  /* the last reading; 0: none. The first is at second 1 */
} ds_occupancy;

/* Readings at seconds from..to, all alike. */
void ds_occupancy_add(ds_occupancy *o, int64_t from_s, int64_t to_s, int64_t blocks, int64_t tokens);

#endif
