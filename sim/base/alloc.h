// SPDX-License-Identifier: Apache-2.0
/* Memory for the pure core: the caller hands in an allocator, the core never calls malloc.
 * The old size is passed on resize and free, so that an arena or a counting allocator needs no headers.
 * Threads: an allocator is used by one run at a time. */
#ifndef DS_BASE_ALLOC_H
#define DS_BASE_ALLOC_H

#include "base/status.h"

typedef struct ds_alloc {
  /* new_bytes == 0 frees and returns NULL; old == NULL allocates. NULL on failure, old then untouched.
   * The memory is aligned for any object; its contents beyond old_bytes are indeterminate. */
  void *(*resize)(void *opaque, void *old, size_t old_bytes, size_t new_bytes);
  void *opaque;
} ds_alloc;

/* n x size bytes, zeroed; NULL when that overflows or memory is out. n == 0 gives NULL. */
void *ds_alloc_zeroed(const ds_alloc *a, size_t n, size_t size);
void ds_alloc_free(const ds_alloc *a, void *p, size_t n, size_t size);

/* Make room for `need` elements in a growing array: doubles *cap until it suffices. */
ds_status ds_alloc_grow(const ds_alloc *a, void **p, size_t *cap, size_t need, size_t size);

#endif
