// SPDX-License-Identifier: Apache-2.0
#include "kv/pool.h"

#include <string.h>

ds_status ds_kv_init(ds_kv_pool *p, int64_t total_blocks, bool ordered, const ds_alloc *a) {
  memset(p, 0, sizeof *p);
  p->total_blocks = p->free_blocks = total_blocks;
  p->ordered = ordered;
  if (!ordered) return DS_OK;
  p->cap = 16;
  p->run = ds_alloc_zeroed(a, p->cap, sizeof *p->run);
  if (p->run == NULL) return DS_E_NOMEM;
  p->run[0] = (ds_kv_run){total_blocks, false};
  p->end = 1;
  return DS_OK;
}

void ds_kv_free(ds_kv_pool *p, const ds_alloc *a) {
  ds_alloc_free(a, p->run, p->cap, sizeof *p->run);
  memset(p, 0, sizeof *p);
}

static ds_kv_run *run_at(const ds_kv_pool *p, uint64_t number) {
  return &p->run[number & (p->cap - 1)];
}

void ds_kv_take_ordered(ds_kv_pool *p, int64_t n) {
  while (n > 0) {
    DS_ASSERT(p->first < p->end);
    ds_kv_run *r = run_at(p, p->first);
    if (r->blocks > n) {
      r->blocks -= n;
      return;
    }
    n -= r->blocks;
    p->first++;
  }
}

static ds_status append(ds_kv_pool *p, ds_kv_run r, const ds_alloc *a) {
  if (p->end - p->first == p->cap) {
    ds_kv_run *bigger = ds_alloc_zeroed(a, 2 * p->cap, sizeof *bigger);
    if (bigger == NULL) return DS_E_NOMEM;
    for (uint64_t i = p->first; i < p->end; i++) bigger[i & (2 * p->cap - 1)] = *run_at(p, i);
    ds_alloc_free(a, p->run, p->cap, sizeof *p->run);
    p->run = bigger;
    p->cap *= 2;
  }
  *run_at(p, p->end++) = r;
  return DS_OK;
}

ds_status ds_kv_give(ds_kv_pool *p, int64_t n, const ds_alloc *a) {
  p->free_blocks += n;
  DS_ASSERT(p->free_blocks <= p->total_blocks);
  if (!p->ordered || n == 0) return DS_OK;
  if (p->end > p->first && !run_at(p, p->end - 1)->owned) {
    run_at(p, p->end - 1)->blocks += n;
    return DS_OK;
  }
  return append(p, (ds_kv_run){n, false}, a);
}

ds_status ds_kv_give_owned(ds_kv_pool *p, int64_t n, uint64_t *run, const ds_alloc *a) {
  *run = DS_KV_NO_RUN;
  if (!p->ordered || n == 0) return ds_kv_give(p, n, a);
  p->free_blocks += n;
  DS_ASSERT(p->free_blocks <= p->total_blocks);
  *run = p->end;
  return append(p, (ds_kv_run){n, true}, a);
}

int64_t ds_kv_left(const ds_kv_pool *p, uint64_t run) {
  if (run == DS_KV_NO_RUN || run < p->first) return 0;
  return run_at(p, run)->blocks;
}

void ds_kv_reclaim(ds_kv_pool *p, uint64_t run, int64_t n) {
  if (run == DS_KV_NO_RUN || run < p->first) return;
  ds_kv_run *r = run_at(p, run);
  DS_ASSERT(n <= r->blocks);
  r->blocks -= n; /* an empty run is skipped when the head reaches it */
  r->owned = false;
  p->free_blocks -= n;
}
