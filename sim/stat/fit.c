// SPDX-License-Identifier: GPL-3.0-or-later
#include "stat/fit.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP      0.02 /* of log value, for differences: larger than the grain of a simulation */
#define EFFECT    0.05 /* d log result / d log value below which a point is not moved */
#define TOO_WIDE  0.25 /* standard error of log value: +-50 % is no knowledge */
#define ROUNDS    4    /* of reweighting */
#define HUBER     1.5
#define SETTLED   1e-3 /* largest change of a log value in a round after which there is no other */

typedef struct work {
  ds_fit *f;
  size_t free[DS_FIT_PARAMS_MAX], n_free;
  double *r, *r2, *jac; /* jac: n_points x n_params, d residual / d log value */
  double scale;         /* of the residuals, robustly */
  bool warm;            /* it was fitted with more parameters before */
  bool failed;
} work;

static bool spent(const ds_fit *f) { return f->most_evaluations > 0 && f->evaluations >= f->most_evaluations; }

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static double to_value(const ds_fit_param *p, double u) {
  double s = 1 / (1 + exp(-u));
  return p->low * exp(s * log(p->high / p->low));
}

static double to_free(const ds_fit_param *p, double value) {
  double s = clamp(log(value / p->low) / log(p->high / p->low), 1e-3, 1 - 1e-3);
  return log(s / (1 - s));
}

static bool evaluate(work *w, const double *value, double *out) {
  w->f->evaluations++;
  if (!w->f->residuals(w->f->user, value, out)) w->failed = true;
  return !w->failed;
}

static void values_of(const ds_fit *f, double *value) {
  for (size_t i = 0; i < f->n_params; i++) value[i] = f->param[i].value;
}

static bool jacobian(work *w) {
  const ds_fit *f = w->f;
  double value[DS_FIT_PARAMS_MAX];
  values_of(f, value);
  if (!evaluate(w, value, w->r)) return false;
  for (size_t j = 0; j < w->n_free; j++) {
    size_t k = w->free[j];
    double keep = value[k], up = keep * exp(STEP) <= f->param[k].high ? STEP : -STEP;
    value[k] = keep * exp(up);
    if (!evaluate(w, value, w->r2)) return false;
    value[k] = keep;
    for (size_t i = 0; i < f->n_points; i++) w->jac[i * f->n_params + k] = (w->r2[i] - w->r[i]) / up;
  }
  return true;
}

/* Standard errors of the free parameters for unit noise, from the singular values of their columns. */
static bool errors(const work *w, double *error) {
  const ds_fit *f = w->f;
  size_t n = w->n_free, m = f->n_points + n;
  gsl_matrix *a = gsl_matrix_calloc(m, n), *v = gsl_matrix_alloc(n, n);
  gsl_vector *s = gsl_vector_alloc(n), *t = gsl_vector_alloc(n);
  bool ok = a != NULL && v != NULL && s != NULL && t != NULL;
  if (ok) {
    for (size_t i = 0; i < f->n_points; i++)
      for (size_t k = 0; k < n; k++) gsl_matrix_set(a, i, k, w->jac[i * f->n_params + w->free[k]]);
    for (size_t k = 0; k < n; k++) {
      const ds_fit_param *p = &f->param[w->free[k]];
      if (p->nuisance) gsl_matrix_set(a, f->n_points + k, k, f->noise / p->prior);
    }
    ok = gsl_linalg_SV_decomp(a, v, s, t) == GSL_SUCCESS;
  }
  for (size_t k = 0; ok && k < n; k++) {
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
      double sigma = gsl_vector_get(s, j), part = gsl_matrix_get(v, k, j);
      sum += sigma > 1e-9 ? part * part / (sigma * sigma) : fabs(part) > 1e-6 ? 1e12 : 0;
    }
    error[k] = sqrt(sum);
  }
  gsl_matrix_free(a);
  gsl_matrix_free(v);
  gsl_vector_free(s);
  gsl_vector_free(t);
  return ok;
}

static void drop(work *w, size_t k) {
  memmove(&w->free[k], &w->free[k + 1], (w->n_free - k - 1) * sizeof w->free[0]);
  w->n_free--;
}

/* The free parameter that is known least, of those that may be given up; n_free: there is none. */
static size_t widest(const work *w) {
  size_t worst = w->n_free;
  for (size_t k = 0; k < w->n_free; k++) {
    const ds_fit_param *p = &w->f->param[w->free[k]];
    if (!p->nuisance && (worst == w->n_free || p->error > w->f->param[w->free[worst]].error)) worst = k;
  }
  return worst;
}

/* Gives up, one at a time, whatever the Jacobian in w->jac cannot pin down. */
static bool choose(work *w, double noise) {
  ds_fit *f = w->f;
  for (size_t k = w->n_free; k-- > 0;) {
    ds_fit_param *p = &f->param[w->free[k]];
    p->points = 0;
    for (size_t i = 0; i < f->n_points; i++) p->points += fabs(w->jac[i * f->n_params + w->free[k]]) > EFFECT;
    if (p->points >= DS_FIT_POINTS_NEEDED || p->nuisance) continue;
    p->state = DS_FIT_NO_EFFECT;
    drop(w, k);
  }
  while (w->n_free > 0) {
    double error[DS_FIT_PARAMS_MAX];
    if (!errors(w, error)) return false;
    for (size_t k = 0; k < w->n_free; k++) f->param[w->free[k]].error = error[k] * noise;
    size_t worst = widest(w), asked = w->n_free;
    for (size_t k = 0; k < w->n_free; k++) asked -= f->param[w->free[k]].nuisance;
    bool few = asked + 1 > f->n_points;
    if (worst == w->n_free || (error[worst] * noise <= TOO_WIDE && !few)) return true;
    f->param[w->free[worst]].state = DS_FIT_TANGLED;
    drop(w, worst);
  }
  return true;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_abs(const double *r, size_t n, double *room) {
  for (size_t i = 0; i < n; i++) room[i] = fabs(r[i]);
  qsort(room, n, sizeof *room, by_size);
  return n > 0 ? room[n / 2] : 0;
}

/* A prior counts as one more point: how much, against points that scatter by `scale`. */
static double pull(const work *w, const ds_fit_param *p) { return p->prior > 0 ? w->scale / p->prior : 0; }

static int model(const gsl_vector *u, void *user, gsl_vector *out) {
  work *w = user;
  double value[DS_FIT_PARAMS_MAX];
  values_of(w->f, value);
  for (size_t k = 0; k < w->n_free; k++) value[w->free[k]] = to_value(&w->f->param[w->free[k]], gsl_vector_get(u, k));
  if (!evaluate(w, value, w->r2)) return GSL_EFAILED;
  for (size_t i = 0; i < w->f->n_points; i++) gsl_vector_set(out, i, w->r2[i]);
  for (size_t k = 0; k < w->n_free; k++) {
    const ds_fit_param *p = &w->f->param[w->free[k]];
    gsl_vector_set(out, w->f->n_points + k, pull(w, p) * log(value[w->free[k]] / p->start));
  }
  return GSL_SUCCESS;
}

/* Differences of 2 % of the value: a simulation has a grain, so the library's own tiny steps would see noise. */
static int slope(const gsl_vector *u, void *user, gsl_matrix *out) {
  work *w = user;
  const ds_fit *f = w->f;
  double value[DS_FIT_PARAMS_MAX];
  values_of(f, value);
  for (size_t k = 0; k < w->n_free; k++) value[w->free[k]] = to_value(&f->param[w->free[k]], gsl_vector_get(u, k));
  if (!evaluate(w, value, w->r)) return GSL_EFAILED;
  for (size_t k = 0; k < w->n_free; k++) {
    const ds_fit_param *p = &f->param[w->free[k]];
    double keep = value[w->free[k]], up = keep * exp(STEP) <= p->high ? STEP : -STEP;
    double s = 1 / (1 + exp(-gsl_vector_get(u, k))), per_u = s * (1 - s) * log(p->high / p->low);
    value[w->free[k]] = keep * exp(up);
    if (!evaluate(w, value, w->r2)) return GSL_EFAILED;
    value[w->free[k]] = keep;
    for (size_t i = 0; i < f->n_points; i++) gsl_matrix_set(out, i, k, (w->r2[i] - w->r[i]) / up * per_u);
    for (size_t j = 0; j < w->n_free; j++) gsl_matrix_set(out, f->n_points + j, k, j == k ? pull(w, p) * per_u : 0);
  }
  return GSL_SUCCESS;
}

/* One weighted fit; the parameters move to its end. */
static bool descend(work *w, const gsl_vector *weights) {
  ds_fit *f = w->f;
  gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
  gsl_multifit_nlinear_fdf fdf = {.f = model, .df = slope, .n = f->n_points + w->n_free, .p = w->n_free, .params = w};
  gsl_multifit_nlinear_workspace *ws = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, f->n_points + w->n_free, w->n_free);
  gsl_vector *u = gsl_vector_alloc(w->n_free);
  bool ok = ws != NULL && u != NULL;
  if (ok) {
    for (size_t k = 0; k < w->n_free; k++)
      gsl_vector_set(u, k, to_free(&f->param[w->free[k]], f->param[w->free[k]].value));
    int info;
    ok = gsl_multifit_nlinear_winit(u, weights, &fdf, ws) == GSL_SUCCESS;
    if (ok) gsl_multifit_nlinear_driver(12, 1e-4, 1e-6, 1e-8, NULL, NULL, &info, ws);
    const gsl_vector *x = gsl_multifit_nlinear_position(ws);
    for (size_t k = 0; ok && k < w->n_free; k++) f->param[w->free[k]].value = to_value(&f->param[w->free[k]], gsl_vector_get(x, k));
  }
  gsl_multifit_nlinear_free(ws);
  gsl_vector_free(u);
  return ok && !w->failed;
}

static bool fit(work *w) {
  ds_fit *f = w->f;
  gsl_vector *weights = gsl_vector_alloc(f->n_points + w->n_free);
  double value[DS_FIT_PARAMS_MAX], before[DS_FIT_PARAMS_MAX], *room = malloc(f->n_points * sizeof *room);
  bool ok = weights != NULL && room != NULL;
  if (ok) gsl_vector_set_all(weights, 1);
  for (int round = 0; ok && round < ROUNDS; round++) {
    values_of(f, before);
    ok = evaluate(w, before, w->r);
    if (!ok) break;
    w->scale = 1.4826 * median_abs(w->r, f->n_points, room);
    if (w->scale < f->noise / 2) w->scale = f->noise / 2;
    for (size_t i = 0; i < f->n_points; i++) {
      double z = fabs(w->r[i]) / w->scale;
      gsl_vector_set(weights, i, (round == 0 && !w->warm) || z <= HUBER ? 1 : HUBER / z);
    }
    ok = descend(w, weights);
    values_of(f, value);
    double most = 0;
    for (size_t k = 0; k < f->n_params; k++) most = fmax(most, fabs(log(value[k] / before[k])));
    if (most < SETTLED || spent(f)) break;
  }
  w->warm = true;
  gsl_vector_free(weights);
  free(room);
  return ok;
}

/* 95 % intervals from the Jacobian where the fit ended and the spread of its residuals. */
static bool intervals(work *w) {
  ds_fit *f = w->f;
  double error[DS_FIT_PARAMS_MAX], sum = 0, *room = malloc(f->n_points * sizeof *room);
  if (room == NULL || !jacobian(w) || (w->n_free > 0 && !errors(w, error))) {
    free(room);
    return false;
  }
  f->after = median_abs(w->r, f->n_points, room);
  size_t dof = f->n_points > w->n_free ? f->n_points - w->n_free : 1;
  double cut = 3 * 1.4826 * f->after; /* far ones have little weight in the fit, so they have little here */
  for (size_t i = 0; i < f->n_points; i++) {
    double x = fabs(w->r[i]) < cut || cut <= 0 ? w->r[i] : cut;
    sum += x * x;
  }
  double sigma = sqrt(sum / (double)dof), t = gsl_cdf_tdist_Pinv(0.975, (double)dof);
  for (size_t k = 0; k < w->n_free; k++) {
    ds_fit_param *p = &f->param[w->free[k]];
    p->error = error[k] * sigma;
    p->from = clamp(p->value * exp(-t * p->error), p->low, p->high);
    p->to = clamp(p->value * exp(t * p->error), p->low, p->high);
  }
  free(room);
  return true;
}

/* Where the fit ended some values are not pinned down after all: the worst goes, and whatever is twice too wide. */
static bool give_up(work *w) {
  ds_fit *f = w->f;
  bool any = false;
  for (;;) {
    size_t k = widest(w);
    if (k == w->n_free) return any;
    ds_fit_param *p = &f->param[w->free[k]];
    if (p->error <= (any && !spent(f) ? 2 : 1) * TOO_WIDE) return any && w->n_free > 0;
    p->state = DS_FIT_TANGLED;
    p->value = p->from = p->to = p->start;
    drop(w, k);
    any = true;
  }
}

static bool begin(work *w, ds_fit *f) {
  gsl_set_error_handler_off();
  memset(w, 0, sizeof *w);
  w->f = f;
  f->evaluations = 0;
  for (size_t k = 0; k < f->n_params; k++) {
    ds_fit_param *p = &f->param[k];
    p->value = p->from = p->to = p->start;
    p->state = DS_FIT_FITTED;
    w->free[w->n_free++] = k;
  }
  w->r = calloc(f->n_points + 1, sizeof *w->r);
  w->r2 = calloc(f->n_points + 1, sizeof *w->r2);
  w->jac = calloc(f->n_points * f->n_params + 1, sizeof *w->jac);
  return w->r != NULL && w->r2 != NULL && w->jac != NULL;
}

static void end(work *w) {
  free(w->r);
  free(w->r2);
  free(w->jac);
}

bool ds_fit_judge(ds_fit *f) {
  work w;
  bool ok = begin(&w, f) && jacobian(&w);
  if (ok) {
    f->before = f->after = median_abs(w.r, f->n_points, w.r2);
    ok = choose(&w, f->noise);
  }
  end(&w);
  return ok;
}

bool ds_fit_run(ds_fit *f) {
  work w;
  bool ok = begin(&w, f) && jacobian(&w);
  if (ok) {
    f->before = f->after = median_abs(w.r, f->n_points, w.r2);
    ok = choose(&w, f->noise);
    while (ok && w.n_free > 0) {
      ok = fit(&w) && intervals(&w);
      if (!ok || !give_up(&w)) break;
    }
  }
  end(&w);
  return ok;
}
