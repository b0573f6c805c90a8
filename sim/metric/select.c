// SPDX-License-Identifier: Apache-2.0
#include "metric/select.h"

#include <string.h>

#include "base/num.h"

ds_stats ds_stats_of(const double *x, size_t n) {
  ds_stats s = {n, 0.0, 0.0, 0.0, 0.0};
  if (n == 0) return s;
  double sum = 0.0;
  s.min = s.max = x[0];
  for (size_t i = 0; i < n; i++) {
    sum += x[i];
    if (x[i] < s.min) s.min = x[i];
    if (x[i] > s.max) s.max = x[i];
  }
  s.mean = sum / (double)n;
  double sq = 0.0;
  for (size_t i = 0; i < n; i++) sq += (x[i] - s.mean) * (x[i] - s.mean);
  s.std = ds_sqrt(sq / (double)n);
  return s;
}

/* Buckets are the top 17 bits under the sign of the double itself (64 per power of two): order-preserving for x >= 0,
 * and no logarithm. */
#define BUCKET_SHIFT 46
#define N_BUCKETS (1u << 17)

static uint32_t bucket_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint32_t)(bits >> BUCKET_SHIFT) & (N_BUCKETS - 1);
}

/* k-th smallest of v[0..n), reordering v: Hoare's quickselect with a median-of-three pivot. */
static double select_kth(double *v, size_t n, size_t k) {
  size_t lo = 0, hi = n - 1;
  while (lo < hi) {
    double a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi];
    double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
    size_t i = lo, j = hi; /* invariant: v[lo..i) <= pivot <= v(j..hi] */
    for (;;) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i > j) break;
      double t = v[i];
      v[i] = v[j];
      v[j] = t;
      i++;
      if (j == 0) break;
      j--;
      if (i > j) break;
    }
    if (k <= j && j < i) {
      hi = j;
    } else if (k >= i) {
      lo = i;
    } else {
      return v[k]; /* between the two parts everything equals the pivot */
    }
  }
  return v[k];
}

#define MAX_PCT 16 /* percentiles asked for in one call */

/* The elements of one bucket that some rank falls into. */
typedef struct segment {
  uint32_t bucket;
  size_t before, count, filled; /* elements below the bucket, in it, copied so far */
  double *v;
} segment;

static size_t segment_of_rank(segment *seg, size_t *n_seg, const uint32_t *count, size_t rank) {
  size_t before = 0;
  uint32_t b = 0;
  while (before + count[b] <= rank) before += count[b++];
  for (size_t i = 0; i < *n_seg; i++) {
    if (seg[i].bucket == b) return i;
  }
  seg[*n_seg] = (segment){b, before, count[b], 0, NULL};
  return (*n_seg)++;
}

static ds_status gather(const double *x, size_t n, segment *seg, size_t n_seg, uint32_t *map, const ds_alloc *a) {
  memset(map, 0, N_BUCKETS * sizeof *map);
  for (size_t i = 0; i < n_seg; i++) {
    seg[i].v = ds_alloc_zeroed(a, seg[i].count, sizeof *seg[i].v);
    if (seg[i].v == NULL) return DS_E_NOMEM;
    map[seg[i].bucket] = (uint32_t)i + 1;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t m = map[bucket_of(x[i])];
    if (m != 0) seg[m - 1].v[seg[m - 1].filled++] = x[i];
  }
  return DS_OK;
}

ds_status ds_percentiles(const double *x, size_t n, const double *pct, size_t n_pct, double *out, const ds_alloc *a) {
  for (size_t i = 0; i < n_pct; i++) out[i] = 0.0;
  if (n == 0) return DS_OK;
  if (n_pct > MAX_PCT) return DS_E_RANGE;
  uint32_t *count = ds_alloc_zeroed(a, N_BUCKETS, sizeof *count);
  if (count == NULL) return DS_E_NOMEM;
  for (size_t i = 0; i < n; i++) count[bucket_of(x[i])]++;

  segment seg[2 * MAX_PCT];
  size_t n_seg = 0, low_seg[MAX_PCT], high_seg[MAX_PCT];
  for (size_t i = 0; i < n_pct; i++) {
    double at = pct[i] / 100.0 * (double)(n - 1), low = ds_floor(at);
    low_seg[i] = segment_of_rank(seg, &n_seg, count, (size_t)low);
    high_seg[i] = at > low ? segment_of_rank(seg, &n_seg, count, (size_t)low + 1) : low_seg[i];
  }
  ds_status st = gather(x, n, seg, n_seg, count, a);
  for (size_t i = 0; i < n_pct && st == DS_OK; i++) {
    double at = pct[i] / 100.0 * (double)(n - 1), low = ds_floor(at);
    size_t k = (size_t)low;
    const segment *s = &seg[low_seg[i]], *t = &seg[high_seg[i]];
    double lower = select_kth(s->v, s->count, k - s->before);
    double upper = at > low ? select_kth(t->v, t->count, k + 1 - t->before) : lower;
    out[i] = lower + (upper - lower) * (at - low);
  }
  for (size_t i = 0; i < n_seg; i++) ds_alloc_free(a, seg[i].v, seg[i].count, sizeof *seg[i].v);
  ds_alloc_free(a, count, N_BUCKETS, sizeof *count);
  return st;
}
