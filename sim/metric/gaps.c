// SPDX-License-Identifier: Apache-2.0
#include "metric/gaps.h"

#include <string.h>

#include "base/num.h"

ds_status ds_gaps_push_exact(ds_gaps *g, int64_t gap_ns, uint64_t count, bool keep_all, const ds_alloc *a) {
  if (!g->exact) return DS_OK;
  if (g->count > DS_GAPS_EXACT_MAX && !keep_all) {
    ds_alloc_free(a, g->run, g->cap_run, sizeof *g->run);
    g->run = NULL;
    g->n_run = g->cap_run = 0;
    g->exact = false;
    return DS_OK;
  }
  if (g->n_run > 0 && g->run[g->n_run - 1].gap_ns == gap_ns) {
    g->run[g->n_run - 1].count += count;
    return DS_OK;
  }
  DS_TRY(ds_alloc_grow(a, (void **)&g->run, &g->cap_run, g->n_run + 1, sizeof *g->run));
  g->run[g->n_run++] = (ds_gap_run){gap_ns, count};
  return DS_OK;
}

/* In-place heap sort of runs by gap: no recursion, no worst case, and only done once per report. */
static void sift(ds_gap_run *x, size_t i, size_t n) {
  ds_gap_run v = x[i];
  for (;;) {
    size_t c = 2 * i + 1;
    if (c >= n) break;
    if (c + 1 < n && x[c + 1].gap_ns > x[c].gap_ns) c++;
    if (x[c].gap_ns <= v.gap_ns) break;
    x[i] = x[c];
    i = c;
  }
  x[i] = v;
}

static void sort_runs(ds_gap_run *x, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift(x, i, n);
  while (n > 1) {
    ds_gap_run last = x[n - 1];
    x[n - 1] = x[0];
    x[0] = last;
    sift(x, 0, --n);
  }
}

/* The k-th smallest (from 0) in sorted runs, or the middle of its bucket. */
static double order_statistic(const ds_gaps *g, const ds_gap_run *sorted, uint64_t k) {
  uint64_t seen = 0;
  if (sorted != NULL) {
    for (size_t i = 0; i < g->n_run; i++) {
      seen += sorted[i].count;
      if (seen > k) return (double)sorted[i].gap_ns;
    }
  } else {
    for (uint32_t b = 0; b < DS_GAPS_BUCKETS; b++) {
      seen += g->bucket[b];
      if (seen > k) {
        int64_t low = ds_gap_bucket_low(b), high = ds_gap_bucket_high(b) - 1;
        if (high > g->max_ns) high = g->max_ns;
        return ((double)low + (double)high) * 0.5;
      }
    }
  }
  return (double)g->max_ns;
}

ds_status ds_gaps_percentiles(const ds_gaps *g, const double *pct, size_t n, double *out_ns, const ds_alloc *scratch) {
  if (g->count == 0) {
    for (size_t i = 0; i < n; i++) out_ns[i] = 0.0;
    return DS_OK;
  }
  ds_gap_run *sorted = NULL;
  if (g->exact && g->n_run > 0) {
    sorted = ds_alloc_zeroed(scratch, g->n_run, sizeof *sorted);
    if (sorted == NULL) return DS_E_NOMEM;
    memcpy(sorted, g->run, g->n_run * sizeof *sorted);
    sort_runs(sorted, g->n_run);
  }
  for (size_t i = 0; i < n; i++) {
    double at = pct[i] / 100.0 * (double)(g->count - 1), low = ds_floor(at);
    double a = order_statistic(g, sorted, (uint64_t)low);
    double b = at > low ? order_statistic(g, sorted, (uint64_t)low + 1) : a;
    out_ns[i] = a + (b - a) * (at - low);
  }
  if (sorted != NULL) ds_alloc_free(scratch, sorted, g->n_run, sizeof *sorted);
  return DS_OK;
}

double ds_gaps_mean_ns(const ds_gaps *g) {
  return g->count == 0 ? 0.0 : ds_wide_double(g->sum) / (double)g->count;
}

double ds_gaps_std_ns(const ds_gaps *g) {
  if (g->count == 0) return 0.0;
  double mean = ds_gaps_mean_ns(g), var = ds_wide_double(g->sum_sq) / (double)g->count - mean * mean;
  return var > 0.0 ? ds_sqrt(var) : 0.0;
}
