// SPDX-License-Identifier: GPL-3.0-or-later
/* The highest rate at which something still holds, by the rule of MLPerf LoadGen's search: double until it fails, then
 * halve the interval until it is no wider than the precision. What does not hold at the start is halved first, which LoadGen
 * refuses to do. Source: mlcommons/inference loadgen/find_peak_performance.h (IsFinished, MidOfBoundaries) and test_settings.h
 * (server_find_peak_qps_boundary_step_size 1, server_find_peak_qps_decimals_of_precision 1). */
#ifndef DS_STUDY_RATE_SEARCH_H
#define DS_STUDY_RATE_SEARCH_H

#include "io/diag.h"

typedef struct ds_rate_search {
  double start;  /* first rate tried, per second */
  double per_unit; /* steps of one rate unit: 10 finds it to a tenth */
  double share;  /* and no finer than this share of the rate; 0: no such limit */
  int most;      /* probes at most */
} ds_rate_search;

/* Does it hold at this rate? False with *d filled when that cannot be told. */
typedef bool (*ds_rate_probe)(void *user, double rate, bool *holds, ds_diag *d);

/* *best is the highest rate that held, *broken the lowest above it that did not; 0: there was none. */
bool ds_rate_find(const ds_rate_search *s, ds_rate_probe probe, void *user, double *best, double *broken, ds_diag *d);

#endif
