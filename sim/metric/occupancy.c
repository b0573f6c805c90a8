// SPDX-License-Identifier: Apache-2.0
#include "metric/occupancy.h"

static void halve(ds_occupancy *o) {
  for (size_t i = 0; i < DS_OCCUPANCY_POINTS; i++) {
    ds_occupancy_point p = {0, 0, 0};
    for (size_t k = 2 * i; k < 2 * i + 2 && k < DS_OCCUPANCY_POINTS; k++) {
      p.blocks += o->point[k].blocks;
      p.tokens += o->point[k].tokens;
      if (o->point[k].most_blocks > p.most_blocks) p.most_blocks = o->point[k].most_blocks;
    }
    o->point[i] = p;
  }
  o->width_s *= 2;
}

void ds_occupancy_add(ds_occupancy *o, int64_t from_s, int64_t to_s, int64_t blocks, int64_t tokens) {
  if (o->width_s == 0) o->width_s = 1;
  while ((to_s - 1) / o->width_s >= DS_OCCUPANCY_POINTS) halve(o);
  if (to_s > o->last_s) o->last_s = to_s;
  for (int64_t s = from_s; s <= to_s;) {
    int64_t at = (s - 1) / o->width_s, end = (at + 1) * o->width_s;
    uint64_t n = (uint64_t)((end < to_s ? end : to_s) - s + 1);
    ds_occupancy_point *p = &o->point[at];
    p->blocks += n * (uint64_t)blocks;
    p->tokens += n * (uint64_t)tokens;
    if (blocks > p->most_blocks) p->most_blocks = blocks;
    s = end + 1;
  }
}
