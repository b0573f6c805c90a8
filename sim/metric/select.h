// SPDX-License-Identifier: Apache-2.0
/* Exact statistics of a column: percentiles by counting into log buckets, then selecting inside the buckets that matter. */
#ifndef DS_METRIC_SELECT_H
#define DS_METRIC_SELECT_H

#include "base/alloc.h"

typedef struct ds_stats {
  size_t count;
  double mean, std; /* population; 0 when empty, as vLLM does */
  double min, max;
} ds_stats;

/* One pass over x (finite, >= 0), in index order, so that the sums do not depend on anything else. */
ds_stats ds_stats_of(const double *x, size_t n);

/* Linear-interpolated percentiles (numpy's default) of x[0..n), n >= 0, x finite and >= 0; pct ascending, 0..100.
 * x is not changed. Empty gives 0. Errors: DS_E_NOMEM. */
ds_status ds_percentiles(const double *x, size_t n, const double *pct, size_t n_pct, double *out, const ds_alloc *a);

#endif
