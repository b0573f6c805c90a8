// SPDX-License-Identifier: GPL-3.0-or-later
/* A benchmark tool's series of runs: GuideLLM's sweep, and MLPerf's search for the highest valid rate. Each run is the
 * scenario with one value changed, which whoever read it can read again. */
#ifndef DS_REPORT_SERIES_H
#define DS_REPORT_SERIES_H

#include "io/outfile.h"
#include "io/scenario.h"
#include "report/summary.h"

#define DS_SERIES_MAX 64

typedef struct ds_series_row {
  char what[24];   /* synchronous, throughput; empty: at a rate */
  double rate_per_s; /* asked; 0: not by rate */
  bool holds;      /* the limits, if there are any */
  char change[96]; /* what makes this run: PATH=VALUE */
  ds_summary summary;
} ds_series_row;

typedef struct ds_series {
  ds_series_kind kind;
  bool judged;     /* there are limits to hold */
  size_t n, chosen; /* chosen: which run is looked into; n: none */
  ds_series_row row[DS_SERIES_MAX];
} ds_series;

/* The scenario with this change (PATH=VALUE), or false with *d filled. */
typedef bool (*ds_series_load)(void *user, const char *change, ds_scenario *out, ds_diag *d);

/* Run them all. first is the scenario as given. */
bool ds_series_run(const ds_scenario *first, ds_series_load load, void *user, ds_series *out, ds_diag *d);

void ds_series_table(ds_outfile *out, const ds_series *s);

#endif
