// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/oversize.h"

#include <stdlib.h>

#include "base/num.h"

/* The engine's own conditions. */
static bool fits(const ds_scenario *sc, int64_t total_blocks, const ds_request *r) {
  const ds_pool *pool = &sc->run.pool;
  int64_t whole = (int64_t)r->input_tokens + r->output_tokens;
  if (whole > INT32_MAX || (pool->max_model_len > 0 && whole > pool->max_model_len)) return false;
  bool limited = pool->kv_blocks != DS_KV_UNLIMITED && total_blocks != DS_KV_UNLIMITED;
  if (limited && ds_div_up(whole - 1, pool->kv_block_tokens) > total_blocks) return false;
  return sc->sched->accepts == NULL ||
         sc->sched->accepts(pool->scheduler_config.bytes, pool, total_blocks, r->input_tokens,
                            r->output_tokens, r->max_tokens, NULL) == DS_OK;
}

static ds_request shorter(const ds_request *r, uint32_t input, uint32_t output) {
  ds_request s = *r;
  s.input_tokens = input;
  s.output_tokens = output;
  if (input < r->input_tokens) s.span_tokens = input; /* what is behind a cut is not what it was */
  if (s.max_tokens > output) s.max_tokens = output;
  uint32_t left = s.image_at < input ? input - s.image_at : 0; /* for images */
  if (s.image_tokens > left) {
    s.images = (uint32_t)((uint64_t)s.images * left / s.image_tokens); /* whole ones; what else is cut is text */
    s.image_tokens = s.images > 0 ? (uint32_t)((uint64_t)r->image_tokens * s.images / r->images) : 0;
  }
  return s;
}

/* The largest length in [1, most] that fits, given that smaller ones fit when larger ones do; 0:
 * none. */
static uint32_t largest(const ds_scenario *sc, int64_t total_blocks, const ds_request *r,
                        bool of_input, uint32_t most) {
  uint32_t low = 0, high = most;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    ds_request s = of_input ? shorter(r, middle, 1) : shorter(r, r->input_tokens, middle);
    if (fits(sc, total_blocks, &s))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static bool truncate_request(const ds_scenario *sc, int64_t total_blocks, ds_request *r) {
  uint32_t output = largest(sc, total_blocks, r, false, r->output_tokens);
  if (output > 0) {
    *r = shorter(r, r->input_tokens, output);
    return true;
  }
  uint32_t input = largest(sc, total_blocks, r, true, r->input_tokens);
  if (input > 0) *r = shorter(r, input, 1);
  return input > 0;
}

static bool reject(ds_oversize *o, uint64_t index, const ds_request *r) {
  if (o->n == o->cap) {
    size_t cap = o->cap == 0 ? 64 : 2 * o->cap;
    ds_rejected *more = realloc(o->rejected, cap * sizeof *more);
    if (more == NULL) return false;
    o->rejected = more;
    o->cap = cap;
  }
  o->rejected[o->n++] = (ds_rejected){index, *r};
  return true;
}

bool ds_oversize_apply(ds_oversize *o, const ds_scenario *sc, int64_t total_blocks, uint64_t first,
                       ds_request *r, size_t *n) {
  ds_repair repair = sc->workload.oversize;
  if (repair != DS_REPAIR_REJECT && repair != DS_REPAIR_TRUNCATE) return true;
  size_t kept = 0;
  for (size_t i = 0; i < *n; i++) {
    bool good = fits(sc, total_blocks, &r[i]);
    if (!good && repair == DS_REPAIR_TRUNCATE) {
      good = truncate_request(sc, total_blocks, &r[i]);
      o->truncated += good;
    }
    if (good)
      r[kept++] = r[i];
    else if (!reject(o, first + i, &r[i]))
      return false;
  }
  *n = kept;
  return true;
}

void ds_oversize_free(ds_oversize *o) {
  free(o->rejected);
  o->rejected = NULL;
  o->n = o->cap = 0;
}

uint64_t ds_oversize_trace_index(const ds_oversize *o, uint64_t k) {
  /* Before the i-th rejected one, index - i were fed: count those that have at most k before them.
   */
  size_t low = 0, high = o->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (o->rejected[middle].index - middle <= k)
      low = middle + 1;
    else
      high = middle;
  }
  return k + low;
}
