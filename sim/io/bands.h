// SPDX-License-Identifier: GPL-3.0-or-later
/* How far predictions have been from measured runs: models/validation/errors.yaml, written by `dryserve validate
 * --bands` and read by run. Each entry is for a part (or every part, with or without kernel data), a class of models and
 * a metric. */
#ifndef DS_IO_BANDS_H
#define DS_IO_BANDS_H

#include "io/scenario.h"

typedef enum ds_band_metric { DS_BAND_TTFT, DS_BAND_TPOT, DS_BAND_E2E, DS_BAND_THROUGHPUT, DS_BAND_METRICS } ds_band_metric;
extern const char *const ds_band_metric_names[DS_BAND_METRICS];

typedef struct ds_band {
  char hardware[64];    /* a card's name; "measured" or "other": every part whose kernels were, or were not */
  char model_class[16]; /* dense, moe */
  char engine[64];      /* a card's name, or "any" */
  ds_band_metric metric;
  double half_width, median, signed_median; /* relative: 0.12 is +-12 % */
  int64_t runs;
} ds_band;

typedef struct ds_bands {
  ds_band *band;
  size_t n;
  char date[16];
} ds_bands;

/* From the data folders; without such a file there are none. False: the file is wrong. */
bool ds_bands_open(const ds_data_dirs *dirs, ds_bands *out, ds_diag *d);
bool ds_bands_parse(const char *text, size_t bytes, const char *file, ds_bands *out, ds_diag *d);
void ds_bands_free(ds_bands *b);

/* The most specific entry: this part and engine card, this part, parts of its kind; NULL: nothing was measured. */
const ds_band *ds_bands_find(const ds_bands *b, const char *hardware, bool measured_kernels, const char *model_class,
                             const char *engine, ds_band_metric metric);

#endif
