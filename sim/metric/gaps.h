// SPDX-License-Identifier: Apache-2.0
/* Inter-token gaps: (value, count) pairs kept exactly up to a million gaps, then a log-bucket histogram of
 * 128 buckets per power of two, whose values are off by at most 1/256. Count, sum and sum of squares stay exact. */
#ifndef DS_METRIC_GAPS_H
#define DS_METRIC_GAPS_H

#include "base/alloc.h"
#include "base/wide.h"

#define DS_GAPS_SUB_BITS 7
#define DS_GAPS_BUCKETS (64 << DS_GAPS_SUB_BITS)
#define DS_GAPS_EXACT_MAX 1000000

typedef struct ds_gap_run {
  int64_t gap_ns;
  uint64_t count;
} ds_gap_run;

typedef struct ds_gaps {
  uint64_t count;
  ds_wide sum, sum_sq;
  int64_t max_ns;
  uint64_t *bucket; /* DS_GAPS_BUCKETS counts */
  ds_gap_run *run;  /* NULL once there were too many */
  size_t n_run, cap_run;
  bool exact;       /* `run` holds every gap */
} ds_gaps;

static inline uint32_t ds_gap_bucket(int64_t gap_ns) {
  uint64_t v = (uint64_t)gap_ns;
  if (v < (1u << DS_GAPS_SUB_BITS)) return (uint32_t)v;
  uint32_t e = 63u - (uint32_t)__builtin_clzll(v);
  uint32_t shift = e - DS_GAPS_SUB_BITS;
  return ((shift + 1) << DS_GAPS_SUB_BITS) + (uint32_t)((v >> shift) & ((1u << DS_GAPS_SUB_BITS) - 1));
}
/* First value of a bucket, and first value beyond it. */
static inline int64_t ds_gap_bucket_low(uint32_t bucket) {
  uint32_t octave = bucket >> DS_GAPS_SUB_BITS, sub = bucket & ((1u << DS_GAPS_SUB_BITS) - 1);
  if (octave == 0) return (int64_t)sub;
  return (int64_t)((uint64_t)((1u << DS_GAPS_SUB_BITS) + sub) << (octave - 1));
}
static inline int64_t ds_gap_bucket_high(uint32_t bucket) {
  uint32_t octave = bucket >> DS_GAPS_SUB_BITS;
  return ds_gap_bucket_low(bucket) + (octave == 0 ? 1 : (int64_t)(1ull << (octave - 1)));
}

/* Append one run of equal gaps to the exact list; drops the list once it holds too many, unless keep_all. */
ds_status ds_gaps_push_exact(ds_gaps *g, int64_t gap_ns, uint64_t count, bool keep_all, const ds_alloc *a);

/* Count `count` gaps of gap_ns in everything but the exact list. */
static inline void ds_gaps_count(ds_gaps *g, int64_t gap_ns, uint64_t count) {
  uint64_t v = (uint64_t)gap_ns;
  g->count += count;
  ds_wide_add_wide(&g->sum, ds_wide_mul(v, count));
  if (DS_LIKELY(v < (1u << 26) && count < (1u << 11))) {
    ds_wide_add(&g->sum_sq, v * v * count);
  } else {
    ds_wide sq = ds_wide_mul(v, v), low = ds_wide_mul(sq.lo, count);
    low.hi += sq.hi * count;
    ds_wide_add_wide(&g->sum_sq, low);
  }
  g->bucket[ds_gap_bucket(gap_ns)] += count;
  if (gap_ns > g->max_ns) g->max_ns = gap_ns;
}


/* Percentile (0..100) with linear interpolation between order statistics (numpy's default), in nanoseconds; from the
 * histogram each order statistic is its bucket's middle. scratch: allocator for a sorted copy. 0 when empty. */
ds_status ds_gaps_percentiles(const ds_gaps *g, const double *pct, size_t n, double *out_ns, const ds_alloc *scratch);
double ds_gaps_mean_ns(const ds_gaps *g);
double ds_gaps_std_ns(const ds_gaps *g); /* population */

#endif
