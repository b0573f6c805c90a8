// SPDX-License-Identifier: GPL-3.0-or-later
/* A file of measured serving runs: CSV, one run a row, columns found by name and in any order.
 * Needed are id, engine, model, gpu, workload_kind and at least one measured column; all others
 * may be absent. Whole file in memory; read by any thread once open. */
#ifndef DS_IO_RUNS_H
#define DS_IO_RUNS_H

#include "base/types.h"
#include "io/diag.h"

typedef enum ds_run_text {
  DS_RUN_ID,
  DS_RUN_SPLIT,
  DS_RUN_ENGINE,
  DS_RUN_VERSION,
  DS_RUN_MODEL,
  DS_RUN_WEIGHTS,
  DS_RUN_KV,
  DS_RUN_GPU,
  DS_RUN_SCHED_NOTES,
  DS_RUN_KIND,
  DS_RUN_NOTES,
  DS_RUN_GRADE,
  DS_RUN_TEXTS
} ds_run_text;

typedef enum ds_run_number {
  DS_RUN_N_GPUS,
  DS_RUN_TP,
  DS_RUN_PP,
  DS_RUN_DP,
  DS_RUN_EP,
  DS_RUN_ISL,
  DS_RUN_ISL_STD,
  DS_RUN_OSL,
  DS_RUN_OSL_STD,
  DS_RUN_RATE,
  DS_RUN_CONCURRENCY,
  DS_RUN_REQUESTS,
  DS_RUN_MAX_SEQS,
  DS_RUN_MAX_TOKENS,
  DS_RUN_REQ_S,
  DS_RUN_TOTAL_TOK_S,
  DS_RUN_OUT_TOK_S, /* measured, from here on; times in milliseconds */
  DS_RUN_TTFT_MEAN,
  DS_RUN_TTFT_P50,
  DS_RUN_TTFT_P99,
  DS_RUN_TPOT_MEAN,
  DS_RUN_TPOT_P50,
  DS_RUN_TPOT_P99,
  DS_RUN_E2E_MEAN,
  DS_RUN_E2E_P99,
  DS_RUN_NUMBERS
} ds_run_number;

typedef struct ds_measured_run {
  const char *text[DS_RUN_TEXTS];  /* "" when blank or without such a column */
  double number[DS_RUN_NUMBERS];   /* negative when blank */
  int64_t line;                    /* where its row ends in the file */
} ds_measured_run;

typedef struct ds_measured_runs {
  ds_measured_run *run;
  size_t n;
  char sha256[65];
  char *bytes; /* what the texts point into */
} ds_measured_runs;

/* False with *d filled: unreadable, a needed column missing, a cell that is no number. Free it
 * either way. */
bool ds_measured_open(const char *path, ds_measured_runs *out, ds_diag *d);
void ds_measured_free(ds_measured_runs *r);

/* The source of a run: its id up to the first '-'. */
void ds_measured_source(const ds_measured_run *r, char *out, size_t cap);

#endif
