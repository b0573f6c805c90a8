// SPDX-License-Identifier: Apache-2.0
/* Counters per second of the run: tokens emitted, requests arrived and finished. Pages appear as time reaches them. */
#ifndef DS_METRIC_SECONDS_H
#define DS_METRIC_SECONDS_H

#include "base/alloc.h"

typedef struct ds_second {
  uint64_t tokens;
  uint32_t arrived, finished;
} ds_second;

#define DS_SECONDS_PAGE 1024
#define DS_SECONDS_MAX (1LL << 26) /* about two years; beyond it `overflow` is set and counters stop */

typedef struct ds_seconds {
  ds_second **page; /* NULL where nothing happened */
  size_t n_pages, cap_pages;
  int64_t last; /* largest second touched, -1 none */
  bool overflow;
} ds_seconds;

/* The counters of one second (created if need be), or NULL when out of memory or range. */
ds_second *ds_seconds_at(ds_seconds *s, int64_t second, const ds_alloc *a);
/* Note that something happened in a second whose counters are at hand. */
static inline void ds_seconds_touch(ds_seconds *s, int64_t second) {
  if (second > s->last) s->last = second;
}
/* Zeros where nothing happened. */
ds_second ds_seconds_get(const ds_seconds *s, int64_t second);
void ds_seconds_free(ds_seconds *s, const ds_alloc *a);

#endif
