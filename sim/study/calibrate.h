// SPDX-License-Identifier: GPL-3.0-or-later
/* Fits the numbers of a hardware card, and of an engine card beside it, to measured runs.
 *
 * Every row on that part is made into a run once (study/express.h), simulated exactly, and boiled down to its kinds of
 * iteration (study/digest.h), which are priced for each set of values that the fit tries; where it ends all are simulated
 * again, and it starts over from there until nothing moves. A point is one published metric of one row, as
 * log(simulated / measured). Rows marked for validation are never fitted: a sample of them is simulated before and after,
 * and judges.
 *
 * Where rows come from several sources or engines, each of them has an offset for each model: their software and way of
 * measuring differ by more than kernels do, and would bend the efficiencies. It is part of the fit, not of the card. */
#ifndef DS_STUDY_CALIBRATE_H
#define DS_STUDY_CALIBRATE_H

#include "stat/fit.h"
#include "study/digest.h"

typedef struct ds_calibration_param {
  const ds_card_field *field; /* NULL: the offset of a group */
  bool of_engine;
  size_t group;
} ds_calibration_param;

/* Rows of one source, engine card and model. */
typedef struct ds_calibration_group {
  char name[240];
} ds_calibration_group;
#define DS_CALIBRATION_GROUPS 64

/* Median |log(simulated / measured)| over rows that were kept aside. */
typedef struct ds_calibration_judged {
  size_t rows, figures;
  double before, after;
} ds_calibration_judged;

typedef struct ds_calibration {
  /* what to fit */
  char hardware_path[1200], engine_path[1200]; /* engine: empty, not fitted */
  ds_hw hw;
  ds_engine_card engine;
  const char *only; /* comma-separated beginnings of paths, e.g. "gemm_bf16,attn_decode"; NULL: all */
  double noise;
  int jobs;
  size_t most_requests; /* of an open or closed loop: longer ones are cut; 0: none is */
  size_t most_per_cell; /* rows of one source, engine, model, layout and protocol: evenly chosen; 0: all */
  bool progress;        /* lines on standard error */
  /* what there is */
  ds_expressed *run;
  const ds_measured_run **row;
  ds_digest *digest;
  size_t n_runs, n_offered; /* rows taken, of how many */
  size_t n_guessed;         /* rows left out, as their engine's card is a guess */
  ds_calibration_group group[DS_CALIBRATION_GROUPS];
  size_t *group_of, n_groups; /* of each run */
  ds_calibration_judged judged;
  int rounds; /* of exact simulation */
  struct {
    size_t run;
    ds_compared metric;
    double measured;
  } *point;
  ds_calibration_param param[DS_FIT_PARAMS_MAX];
  ds_fit fit;
  /* The last set of values that was priced in full, what it gave, and which values each run depends on: [value][run],
   * 0 not known, 1 no, 2 yes. A set that differs in one value only prices the runs that depend on it. */
  double base[DS_FIT_PARAMS_MAX];
  double (*base_predicted)[DS_CMP_N];
  unsigned char *depends;
} ds_calibration;

/* Takes the rows that are on the card's part. False with *d filled: none is, or memory is out. */
bool ds_calibration_rows(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs,
                         ds_diag *d);
/* Parameters from the cards' fields, all that are given and positive. */
void ds_calibration_params(ds_calibration *c);
bool ds_calibration_run(ds_calibration *c, ds_diag *d);
/* Simulates rows that were kept aside, with the cards as they were and as they were fitted; nothing there: no rows. */
bool ds_calibration_judge(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs,
                          ds_diag *d);
void ds_calibration_free(ds_calibration *c);

/* The value of a parameter in the cards as they stand. */
double ds_calibration_value(const ds_calibration *c, size_t k);

/* A card's text with the fitted numbers and their source put in place of the old ones; malloc'd. hardware false: the
 * engine's. data: the measured file's name and hash. */
char *ds_calibration_card(const ds_calibration *c, bool hardware, const char *name, const char *data, ds_diag *d);

/* The best of a list of short static batches for this card: each is simulated, and chosen by what it adds to what can be
 * told apart, for its time. */
#define DS_PLAN_RUNS 5
typedef struct ds_planned {
  char command[256];
  double seconds; /* simulated length of the measurement itself */
} ds_planned;
bool ds_calibration_plan(ds_calibration *c, const ds_data_dirs *dirs, ds_planned out[DS_PLAN_RUNS], ds_diag *d);

#endif
