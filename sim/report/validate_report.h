// SPDX-License-Identifier: GPL-3.0-or-later
/* The report of dryserve validate, for people and as JSON. */
#ifndef DS_REPORT_VALIDATE_REPORT_H
#define DS_REPORT_VALIDATE_REPORT_H

#include "io/bands.h"
#include "report/residuals.h"

typedef struct ds_validation {
  const char *path;
  const ds_measured_runs *runs;
  const bool *wanted;
  const ds_validated *v;
  const ds_residuals *residuals;
  const ds_bands *bands; /* may be NULL */
  double wall_s;
} ds_validation;

bool ds_validation_text(ds_outfile *out, const ds_validation *x);
bool ds_validation_json(ds_outfile *out, const ds_validation *x);
/* Bands from the residuals of never fitted rows, half of them (by a hash of the id), for a card that run reads. */
bool ds_validation_bands(ds_outfile *out, const ds_validation *x);
/* Average over cells of the median error of a metric (tpot, ttft, e2e, throughput) on rows never fitted and not
 * saturated; negative without such a cell. */
double ds_validation_figure(const ds_validation *x, const char *metric);

#endif
