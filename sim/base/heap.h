// SPDX-License-Identifier: Apache-2.0
/* A 4-ary min-heap of (key, order, id): the smallest key first, ties by order. No removal from the middle: owners
 * mark what is stale and skip it when it surfaces. */
#ifndef DS_BASE_HEAP_H
#define DS_BASE_HEAP_H

#include "base/alloc.h"

typedef struct ds_heap_item {
  uint64_t key;
  uint32_t order, id;
} ds_heap_item;

typedef struct ds_heap {
  ds_heap_item *item;
  size_t n, cap;
} ds_heap;

static inline bool ds_heap_less(const ds_heap_item *a, const ds_heap_item *b) {
  return (a->key < b->key) | ((a->key == b->key) & (a->order < b->order)); /* no branch: it would be unpredictable */
}

static inline ds_status ds_heap_push(ds_heap *h, ds_heap_item x, const ds_alloc *a) {
  if (DS_UNLIKELY(h->n == h->cap)) {
    DS_TRY(ds_alloc_grow(a, (void **)&h->item, &h->cap, h->n + 1, sizeof *h->item));
  }
  size_t i = h->n++;
  while (i > 0) {
    size_t up = (i - 1) >> 2;
    if (!ds_heap_less(&x, &h->item[up])) break;
    h->item[i] = h->item[up];
    i = up;
  }
  h->item[i] = x;
  return DS_OK;
}

static inline void ds_heap_pop(ds_heap *h) {
  ds_heap_item x = h->item[--h->n];
  size_t i = 0;
  for (;;) {
    size_t c = 4 * i + 1;
    if (c >= h->n) break;
    size_t last = h->n - 1, best = c; /* children beyond the end repeat the last one */
    for (size_t k = c + 1; k < c + 4; k++) {
      size_t child = k < last ? k : last;
      best = ds_heap_less(&h->item[child], &h->item[best]) ? child : best;
    }
    if (!ds_heap_less(&h->item[best], &x)) break;
    h->item[i] = h->item[best];
    i = best;
  }
  h->item[i] = x;
}

static inline void ds_heap_free(ds_heap *h, const ds_alloc *a) {
  ds_alloc_free(a, h->item, h->cap, sizeof *h->item);
}

#endif
