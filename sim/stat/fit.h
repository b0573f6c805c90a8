// SPDX-License-Identifier: GPL-3.0-or-later
/* Least squares for a few positive parameters, with bounds, a robust loss and a plain word on what the data can tell.
 *
 * Parameters live on a log scale between their bounds (a logistic of an unbounded variable), residuals are relative
 * (log predicted / measured). Loss: Huber's by reweighting, so that a wrong row does not decide. Which parameters can be
 * told apart is read off the singular values of the Jacobian: while the standard error of some parameter is too large,
 * the worst one is given up and keeps its start value. A parameter may have a prior: what is known of it before, as a
 * relative deviation from its start. It holds the estimate back, but is no evidence: what can be told apart and the
 * intervals rest on the points alone. Only a nuisance parameter, which is there to take up what is not asked for, is
 * judged with its prior, and never given up. Uses the GNU Scientific Library; its error handler is off. */
#ifndef DS_STAT_FIT_H
#define DS_STAT_FIT_H

#include <stdbool.h>
#include <stddef.h>

#define DS_FIT_PARAMS_MAX 192

typedef enum ds_fit_state {
  DS_FIT_FITTED,
  DS_FIT_NO_EFFECT,  /* moves fewer points than it needs */
  DS_FIT_TANGLED     /* its effect cannot be told from that of others */
} ds_fit_state;

typedef struct ds_fit_param {
  double start, low, high; /* 0 < low <= start <= high */
  double prior;            /* standard deviation of log(value / start); 0: nothing is known */
  bool nuisance;           /* needs a prior */
  /* results */
  double value, from, to;  /* estimate and its 95 % interval; start when not fitted */
  double error;            /* standard error of log value, as judged before fitting when given up */
  size_t points;           /* that it moves */
  ds_fit_state state;
} ds_fit_param;

typedef struct ds_fit {
  ds_fit_param param[DS_FIT_PARAMS_MAX];
  size_t n_params, n_points;
  /* log(predicted / measured) of every point at these values; false stops the fit. */
  bool (*residuals)(void *user, const double *value, double *out);
  void *user;
  double noise; /* expected relative error of a point: decides what can be told apart */
  size_t most_evaluations; /* about; 0: no bound */
  /* results */
  double before, after; /* median |residual| */
  size_t evaluations;
} ds_fit;

#define DS_FIT_POINTS_NEEDED 3

/* False: out of memory, or residuals said so. Fewer points than parameters is no error: parameters are given up. */
bool ds_fit_run(ds_fit *f);
/* The same, but only what can be told apart: states, points and errors. */
bool ds_fit_judge(ds_fit *f);

#endif
