// SPDX-License-Identifier: GPL-3.0-or-later
/* Every row of a measured-run file simulated, one row a thread at a time; results stand in the order of the file. */
#ifndef DS_STUDY_VALIDATE_H
#define DS_STUDY_VALIDATE_H

#include "study/express.h"

/* What is compared. Times in milliseconds. */
typedef enum ds_compared {
  DS_CMP_TTFT_MEAN,
  DS_CMP_TTFT_P50,
  DS_CMP_TTFT_P99,
  DS_CMP_TPOT_MEAN,
  DS_CMP_TPOT_P50,
  DS_CMP_TPOT_P99,
  DS_CMP_E2E_MEAN,
  DS_CMP_E2E_P99,
  DS_CMP_OUT_TOK_S,
  DS_CMP_N
} ds_compared;
extern const char *const ds_compared_names[DS_CMP_N];

typedef enum ds_load { DS_LOAD_STATIC, DS_LOAD_OFFLINE, DS_LOAD_LOW, DS_LOAD_MID, DS_LOAD_HIGH, DS_LOAD_OPEN, DS_LOAD_EDGE, DS_LOAD_SATURATED, DS_LOADS } ds_load;
extern const char *const ds_load_names[DS_LOADS];

typedef struct ds_validated {
  bool expressed;
  char why[200];                /* when not */
  double predicted[DS_CMP_N];   /* negative: none */
  double measured[DS_CMP_N];    /* negative: not published; E2E of the mean is derived where TTFT and TPOT are */
  ds_load load;
  ds_stratum stratum;
  unsigned blanks;
  bool client_known, engine_current, measured_kernels, fitted; /* fitted: its split is not a validation one */
  char hardware[64], model[64], engine[64], model_class[16];   /* cards */
  uint64_t iterations, requests;
  double queue_share, host_share, comm_share; /* of latency or busy time: for likely causes */
} ds_validated;

/* One row, on its own. */
void ds_validate_row(const ds_measured_run *m, const ds_card_cache *cards, const ds_data_dirs *dirs, ds_validated *out);
/* Requests of one expressed run, simulated; fills what ds_validated has of results. False: why. */
bool ds_validate_run(const ds_expressed *x, ds_validated *out);
/* The same one iteration at a time, each shown to `seen`. */
typedef void (*ds_step_seen)(void *user, const ds_step *s);
bool ds_validate_watched(const ds_expressed *x, ds_step_seen seen, void *user, ds_validated *out);

/* All rows for which wanted[i]; results[i] of the others is left as it is. progress: a line on a terminal. */
bool ds_validate_all(const ds_measured_runs *runs, const bool *wanted, const ds_card_cache *cards, const ds_data_dirs *dirs, int jobs,
                     bool progress, ds_validated *results, ds_diag *d);

#endif
