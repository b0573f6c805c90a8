// SPDX-License-Identifier: Apache-2.0
#include "metric/seconds.h"

#include <string.h>

ds_second *ds_seconds_at(ds_seconds *s, int64_t second, const ds_alloc *a) {
  if (second < 0) second = 0;
  if (second >= DS_SECONDS_MAX) {
    s->overflow = true;
    return NULL;
  }
  size_t page = (size_t)(second / DS_SECONDS_PAGE);
  if (page >= s->n_pages) {
    size_t old_cap = s->cap_pages;
    if (ds_alloc_grow(a, (void **)&s->page, &s->cap_pages, page + 1, sizeof *s->page) != DS_OK) return NULL;
    memset(s->page + old_cap, 0, (s->cap_pages - old_cap) * sizeof *s->page);
    s->n_pages = page + 1;
  }
  if (s->page[page] == NULL) {
    s->page[page] = ds_alloc_zeroed(a, DS_SECONDS_PAGE, sizeof *s->page[page]);
    if (s->page[page] == NULL) return NULL;
  }
  if (second > s->last) s->last = second;
  return &s->page[page][second % DS_SECONDS_PAGE];
}

ds_second ds_seconds_get(const ds_seconds *s, int64_t second) {
  size_t page = (size_t)(second / DS_SECONDS_PAGE);
  ds_second none = {0, 0, 0};
  if (second < 0 || page >= s->n_pages || s->page[page] == NULL) return none;
  return s->page[page][second % DS_SECONDS_PAGE];
}

void ds_seconds_free(ds_seconds *s, const ds_alloc *a) {
  for (size_t i = 0; i < s->n_pages; i++) ds_alloc_free(a, s->page[i], DS_SECONDS_PAGE, sizeof *s->page[i]);
  ds_alloc_free(a, s->page, s->cap_pages, sizeof *s->page);
  memset(s, 0, sizeof *s);
  s->last = -1;
}
