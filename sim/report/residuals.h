// SPDX-License-Identifier: GPL-3.0-or-later
/* What the errors of many simulated runs say: cells, strata, pairs, bands.
 *
 * An error is (simulated - measured) / measured; a TTFT that is off by less than 10 ms counts as right. A cell is one
 * metric on one part, model, engine card and kind of load. Averages over cells take cells of at least ten rows, so that
 * no source carries the figure by its number of rows. */
#ifndef DS_REPORT_RESIDUALS_H
#define DS_REPORT_RESIDUALS_H

#include "io/outfile.h"
#include "study/validate.h"

#define DS_CELL_ROWS 10

typedef struct ds_residual { /* one row and metric */
  double error;
  ds_compared metric;
  const ds_validated *row;
  const ds_measured_run *run;
} ds_residual;

typedef struct ds_residuals {
  ds_residual *r;
  size_t n;
} ds_residuals;

typedef struct ds_error_stats {
  size_t n;
  double median, p90, signed_median; /* of |e|, |e|, e */
} ds_error_stats;

typedef struct ds_cell {
  const ds_residual *first; /* names the cell */
  ds_error_stats stats;
} ds_cell;

/* Every comparison that a row offers and that counts (ds_counts). False: out of memory. */
bool ds_residuals_of(const ds_measured_runs *runs, const ds_validated *v, ds_residuals *out);
void ds_residuals_free(ds_residuals *r);
/* Whether this metric of a row under that load is a test of the model: nothing but throughput when all is queued at
 * once, no throughput in an open loop. */
bool ds_counts(const ds_validated *v, ds_compared metric);

/* keep says which residuals; NULL: all. Sorts cells by name. Free *cells. */
typedef bool (*ds_keep)(const ds_residual *r, const void *user);
bool ds_cells_of(const ds_residuals *r, ds_keep keep, const void *user, ds_cell **cells, size_t *n);
ds_error_stats ds_stats_of_residuals(const ds_residuals *r, ds_keep keep, const void *user);
/* Averages of the cells with at least DS_CELL_ROWS rows: n is how many such cells. */
ds_error_stats ds_cells_average(const ds_cell *cells, size_t n, size_t *rows);

/* Pairs of rows of one source, model, lengths and load that differ in part, layout, format or engine and are measured
 * more than 10 % apart. */
typedef struct ds_pairs {
  size_t pairs, ordered;
  size_t pairs_of[DS_STRATA], ordered_of[DS_STRATA]; /* by the less trusted of the two */
  size_t groups;
  double regret_median; /* of choosing by the simulator, against the best measured */
} ds_pairs;
bool ds_pairs_of(const ds_measured_runs *runs, const ds_validated *v, ds_pairs *out);

#endif
