// SPDX-License-Identifier: Apache-2.0
/* The longest gap since any iteration, without visiting the batch at each step: a stack of right-to-left maxima. */
#ifndef DS_METRIC_MAXGAP_H
#define DS_METRIC_MAXGAP_H

#include "base/alloc.h"

typedef struct ds_maxgap_entry {
  uint64_t iteration;
  int64_t gap_ns;
} ds_maxgap_entry;

typedef struct ds_maxgap {
  ds_maxgap_entry *e; /* iterations rise, gaps fall */
  size_t n, cap;
} ds_maxgap;

ds_status ds_maxgap_push(ds_maxgap *m, uint64_t iteration, int64_t gap_ns, const ds_alloc *a);
/* The longest gap of iterations >= since; 0 when there is none. */
int64_t ds_maxgap_since(const ds_maxgap *m, uint64_t since);
/* Forget iterations before `oldest`: nobody will ask for them. */
void ds_maxgap_forget(ds_maxgap *m, uint64_t oldest);

#endif
