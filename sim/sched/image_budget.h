// SPDX-License-Identifier: Apache-2.0
/* How far a prompt may be computed in an iteration whose encoder and encoder cache take so many tokens of images more:
 * up to the first image that neither has room for. Source: _try_schedule_encoder_inputs in vllm v1/core/sched/scheduler.py
 * (an image is encoded whole; disable_chunked_mm_input is off, so its tokens may then be computed in chunks). */
#ifndef DS_SCHED_IMAGE_BUDGET_H
#define DS_SCHED_IMAGE_BUDGET_H

#include "engine/sched.h"

typedef struct ds_image_budget {
  int64_t compute, room;
} ds_image_budget;

/* Of the n tokens after the first `from`. *b is lessened by what is encoded for them. */
static inline int64_t ds_images_allow(const ds_sched_view *v, uint32_t slot, int64_t from, int64_t n, ds_image_budget *b) {
  if (v->req[slot].images == 0) return n;
  const ds_image_view *m = &v->image[v->req[slot].images - 1];
  for (uint32_t i = m->encoded; i < m->count; i++) {
    int64_t start = ds_image_start(m, i), end = ds_image_start(m, i + 1);
    if (start >= from + n) break;
    if (end <= from) continue; /* found in the prefix cache */
    if (end - start > b->compute || end - start > b->room) return start > from ? start - from : 0;
    b->compute -= end - start;
    b->room -= end - start;
  }
  return n;
}

#endif
