// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/residuals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_ttft(ds_compared m) { return m <= DS_CMP_TTFT_P99; }

bool ds_counts(const ds_validated *v, ds_compared metric) {
  if (v->load == DS_LOAD_OFFLINE || v->load == DS_LOAD_EDGE) return metric == DS_CMP_OUT_TOK_S;
  return v->load != DS_LOAD_OPEN || metric != DS_CMP_OUT_TOK_S;
}

bool ds_residuals_of(const ds_measured_runs *runs, const ds_validated *v, ds_residuals *out) {
  out->n = 0;
  out->r = malloc((runs->n * DS_CMP_N + 1) * sizeof *out->r);
  if (out->r == NULL) return false;
  for (size_t i = 0; i < runs->n; i++) {
    if (!v[i].expressed) continue;
    for (int k = 0; k < DS_CMP_N; k++) {
      double p = v[i].predicted[k], m = v[i].measured[k];
      if (!(p > 0 && m > 0) || !ds_counts(&v[i], (ds_compared)k)) continue;
      double e = (p - m) / m;
      if (is_ttft((ds_compared)k) && fabs(p - m) < 10) e = 0;
      out->r[out->n++] = (ds_residual){e, (ds_compared)k, &v[i], &runs->run[i]};
    }
  }
  return true;
}

void ds_residuals_free(ds_residuals *r) {
  free(r->r);
  r->r = NULL;
  r->n = 0;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double p) {
  double at = p * (double)(n - 1);
  size_t i = (size_t)at;
  return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static ds_error_stats stats(double *e, size_t n) {
  ds_error_stats s = {.n = n};
  if (n == 0) return s;
  qsort(e, n, sizeof *e, by_value);
  s.signed_median = quantile(e, n, 0.5);
  for (size_t i = 0; i < n; i++) e[i] = fabs(e[i]);
  qsort(e, n, sizeof *e, by_value);
  s.median = quantile(e, n, 0.5);
  s.p90 = quantile(e, n, 0.9);
  return s;
}

ds_error_stats ds_stats_of_residuals(const ds_residuals *r, ds_keep keep, const void *user) {
  double *e = malloc((r->n + 1) * sizeof *e);
  size_t n = 0;
  if (e == NULL) return (ds_error_stats){0, 0, 0, 0};
  for (size_t i = 0; i < r->n; i++)
    if (keep == NULL || keep(&r->r[i], user)) e[n++] = r->r[i].error;
  ds_error_stats s = stats(e, n);
  free(e);
  return s;
}

static int by_cell(const void *a, const void *b) {
  const ds_residual *x = a, *y = b;
  int c = (int)x->metric - (int)y->metric;
  if (c == 0) c = strcmp(x->row->hardware, y->row->hardware);
  if (c == 0) c = strcmp(x->row->model, y->row->model);
  if (c == 0) c = strcmp(x->row->engine, y->row->engine);
  if (c == 0) c = (int)x->row->load - (int)y->row->load;
  return c;
}

static int by_cell_then_file(const void *a, const void *b) {
  int c = by_cell(a, b);
  const ds_residual *x = a, *y = b;
  return c != 0 ? c : (x->run > y->run) - (x->run < y->run);
}

bool ds_cells_of(const ds_residuals *r, ds_keep keep, const void *user, ds_cell **cells, size_t *n) {
  ds_residual *kept = malloc((r->n + 1) * sizeof *kept);
  double *e = kept == NULL ? NULL : malloc((r->n + 1) * sizeof *e);
  *cells = e == NULL ? NULL : malloc((r->n + 1) * sizeof **cells);
  *n = 0;
  size_t k = 0;
  for (size_t i = 0; *cells != NULL && i < r->n; i++)
    if (keep == NULL || keep(&r->r[i], user)) kept[k++] = r->r[i];
  if (*cells != NULL) qsort(kept, k, sizeof *kept, by_cell_then_file);
  for (size_t i = 0; *cells != NULL && i < k;) {
    size_t m = 0, first = i;
    while (i < k && by_cell(&kept[i], &kept[first]) == 0) e[m++] = kept[i++].error;
    const ds_residual *named = NULL; /* one that outlives kept */
    for (size_t j = 0; j < r->n && named == NULL; j++)
      if (r->r[j].run == kept[first].run && r->r[j].metric == kept[first].metric) named = &r->r[j];
    (*cells)[(*n)++] = (ds_cell){named, stats(e, m)};
  }
  free(kept);
  free(e);
  return *cells != NULL;
}

ds_error_stats ds_cells_average(const ds_cell *cells, size_t n, size_t *rows) {
  ds_error_stats s = {0, 0, 0, 0};
  *rows = 0;
  for (size_t i = 0; i < n; i++) {
    if (cells[i].stats.n < DS_CELL_ROWS) continue;
    s.n++;
    *rows += cells[i].stats.n;
    s.median += cells[i].stats.median;
    s.p90 += cells[i].stats.p90;
    s.signed_median += cells[i].stats.signed_median;
  }
  if (s.n == 0) return s;
  s.median /= (double)s.n;
  s.p90 /= (double)s.n;
  s.signed_median /= (double)s.n;
  return s;
}

/* --- pairs ---------------------------------------------------------------------------------------- */

typedef struct judged {
  const ds_measured_run *run;
  char source[80];
  double measured, predicted; /* more is better */
  ds_stratum stratum;
} judged;

static int by_question(const void *a, const void *b) {
  static const ds_run_number same[] = {DS_RUN_ISL, DS_RUN_OSL, DS_RUN_CONCURRENCY, DS_RUN_RATE, DS_RUN_REQUESTS};
  const judged *x = a, *y = b;
  int c = strcmp(x->source, y->source);
  if (c == 0) c = strcmp(x->run->text[DS_RUN_MODEL], y->run->text[DS_RUN_MODEL]);
  if (c == 0) c = strcmp(x->run->text[DS_RUN_KIND], y->run->text[DS_RUN_KIND]);
  for (size_t i = 0; c == 0 && i < sizeof same / sizeof same[0]; i++)
    c = (x->run->number[same[i]] > y->run->number[same[i]]) - (x->run->number[same[i]] < y->run->number[same[i]]);
  return c;
}

static int by_question_then_file(const void *a, const void *b) {
  int c = by_question(a, b);
  const judged *x = a, *y = b;
  return c != 0 ? c : (x->run > y->run) - (x->run < y->run);
}

/* By the time of a token where it is published, else by throughput. */
static bool judge(const ds_measured_run *m, const ds_validated *v, judged *out) {
  static const ds_compared by[] = {DS_CMP_TPOT_MEAN, DS_CMP_TPOT_P50, DS_CMP_OUT_TOK_S};
  if (!v->expressed || v->load == DS_LOAD_SATURATED) return false;
  for (size_t i = 0; i < 3; i++) {
    ds_compared k = by[i];
    if (!(v->measured[k] > 0 && v->predicted[k] > 0) || !ds_counts(v, k)) continue;
    bool rate = k == DS_CMP_OUT_TOK_S;
    *out = (judged){.run = m, .measured = rate ? v->measured[k] : 1 / v->measured[k],
                    .predicted = rate ? v->predicted[k] : 1 / v->predicted[k], .stratum = v->stratum};
    ds_measured_source(m, out->source, sizeof out->source);
    return true;
  }
  return false;
}

bool ds_pairs_of(const ds_measured_runs *runs, const ds_validated *v, ds_pairs *out) {
  memset(out, 0, sizeof *out);
  judged *j = malloc((runs->n + 1) * sizeof *j);
  double *regret = j == NULL ? NULL : malloc((runs->n + 1) * sizeof *regret);
  if (regret == NULL) {
    free(j);
    return false;
  }
  size_t n = 0;
  for (size_t i = 0; i < runs->n; i++) n += judge(&runs->run[i], &v[i], &j[n]);
  qsort(j, n, sizeof *j, by_question_then_file);
  for (size_t i = 0, end; i < n; i = end) {
    size_t best = i, chosen = i;
    for (end = i; end < n && by_question(&j[end], &j[i]) == 0; end++) {
      if (j[end].measured > j[best].measured) best = end;
      if (j[end].predicted > j[chosen].predicted) chosen = end;
      for (size_t k = i; k < end; k++) {
        double ratio = j[k].measured / j[end].measured;
        if (ratio < 1.1 && ratio > 1 / 1.1) continue;
        bool right = ratio > 1 ? j[k].predicted > j[end].predicted : j[k].predicted < j[end].predicted; /* a draw is wrong */
        ds_stratum s = j[k].stratum > j[end].stratum ? j[k].stratum : j[end].stratum;
        out->pairs++;
        out->ordered += right;
        out->pairs_of[s]++;
        out->ordered_of[s] += right;
      }
    }
    if (end - i > 1) regret[out->groups++] = 1 - j[chosen].measured / j[best].measured;
  }
  qsort(regret, out->groups, sizeof *regret, by_value);
  if (out->groups > 0) out->regret_median = quantile(regret, out->groups, 0.5);
  free(regret);
  free(j);
  return true;
}
