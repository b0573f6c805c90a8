// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <string.h>

void *ds_alloc_zeroed(const ds_alloc *a, size_t n, size_t size) {
  if (n == 0 || size == 0 || n > SIZE_MAX / size) return NULL;
  void *p = a->resize(a->opaque, NULL, 0, n * size);
  if (p != NULL) memset(p, 0, n * size);
  return p;
}

void ds_alloc_free(const ds_alloc *a, void *p, size_t n, size_t size) {
  if (p != NULL) a->resize(a->opaque, p, n * size, 0);
}

ds_status ds_alloc_grow(const ds_alloc *a, void **p, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return DS_OK;
  size_t want = *cap == 0 ? 16 : *cap;
  while (want < need) {
    if (want > SIZE_MAX / 2) return DS_E_NOMEM;
    want *= 2;
  }
  if (want > SIZE_MAX / size) return DS_E_NOMEM;
  void *q = a->resize(a->opaque, *p, *cap * size, want * size);
  if (q == NULL) return DS_E_NOMEM;
  *p = q;
  *cap = want;
  return DS_OK;
}
