// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/validate_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The four figures of merit and the column that each is judged by. */
static const struct {
  const char *name, *title;
  ds_compared by;
} figures[] = {{"tpot", "TPOT", DS_CMP_TPOT_MEAN},
               {"e2e", "end to end", DS_CMP_E2E_MEAN},
               {"throughput", "throughput", DS_CMP_OUT_TOK_S},
               {"ttft", "TTFT", DS_CMP_TTFT_MEAN}};
#define N_FIGURES (sizeof figures / sizeof figures[0])
static const double targets[DS_STRATA][N_FIGURES] = {{7, 7, 8, 15}, {12, 12, 12, 20}, {20, 20, 20, 20}};

typedef struct want {
  int stratum, load, metric; /* -1: any */
  int fitted;                /* 1: only rows that a fit may have seen, 0: only others, -1: all */
  bool no_blanks, saturated, trusted; /* trusted: strata A and B only */
  bool known_part;
  const char *hardware, *model_class, *engine; /* NULL: any */
  int kernels;                                 /* -1: any */
  int half;                                    /* of the ids: 0, 1; -1: both */
} want;
static const want anything = {-1, -1, -1, 0, false, false, false, false, NULL, NULL, NULL, -1, -1};

static int half_of(const char *id) {
  unsigned h = 2166136261u;
  for (; *id != '\0'; id++) h = (h ^ (unsigned char)*id) * 16777619u;
  return (int)(h >> 7 & 1u);
}

static bool keep(const ds_residual *r, const void *user) {
  const want *w = user;
  const ds_validated *v = r->row;
  /* 2024's engine cards and blank versions are no reason here: they decide the stratum. */
  unsigned blanks = v->blanks & ~(unsigned)(DS_BLANK_VERSION | DS_BLANK_REQUESTS);
  return (w->stratum < 0 || (int)v->stratum == w->stratum) && (w->load < 0 || (int)v->load == w->load) &&
         (w->metric < 0 || (int)r->metric == w->metric) && (w->fitted < 0 || (int)v->fitted == w->fitted) &&
         (!w->no_blanks || blanks == 0) && (!w->trusted || v->stratum != DS_STRATUM_C) && (!w->known_part || (v->blanks & DS_BLANK_PART) == 0) &&
         (v->load == DS_LOAD_SATURATED) == w->saturated &&
         (w->hardware == NULL || strcmp(w->hardware, v->hardware) == 0) &&
         (w->model_class == NULL || strcmp(w->model_class, v->model_class) == 0) &&
         (w->engine == NULL || strcmp(w->engine, v->engine) == 0) &&
         (w->kernels < 0 || (int)v->measured_kernels == w->kernels) &&
         (w->half < 0 || half_of(r->run->text[DS_RUN_ID]) == w->half);
}

typedef struct averaged {
  ds_error_stats cells, all;
  size_t rows; /* in cells that count */
} averaged;

static bool average(const ds_validation *x, const want *w, averaged *a) {
  ds_cell *cells;
  size_t n;
  bool ok = ds_cells_of(x->residuals, keep, w, &cells, &n);
  if (ok) a->cells = ds_cells_average(cells, n, &a->rows);
  free(cells);
  a->all = ds_stats_of_residuals(x->residuals, keep, w);
  return ok;
}

double ds_validation_figure(const ds_validation *x, const char *metric) {
  for (size_t k = 0; k < N_FIGURES; k++) {
    if (strcmp(metric, figures[k].name) != 0) continue;
    want w = anything;
    averaged a;
    w.metric = (int)figures[k].by;
    if (!average(x, &w, &a) || a.all.n == 0) return -1;
    return a.cells.n > 0 ? a.cells.median : a.all.median;
  }
  return -1;
}

/* --- text ------------------------------------------------------------------------------------------ */

static void line_of(ds_outfile *out, const char *name, const averaged *a, double target) {
  if (a->all.n == 0) return;
  ds_out_printf(out, "  %-24s %6zu %6zu", name, a->cells.n, a->all.n);
  if (a->cells.n > 0)
    ds_out_printf(out, " %8.1f %7.1f %+7.1f", 100 * a->cells.median, 100 * a->cells.p90, 100 * a->cells.signed_median);
  else
    ds_out_printf(out, " %8s %7s %7s", "-", "-", "-");
  ds_out_printf(out, " %8.1f %7.1f %+7.1f", 100 * a->all.median, 100 * a->all.p90, 100 * a->all.signed_median);
  if (target > 0) ds_out_printf(out, " %7.0f", target);
  ds_out_text(out, "\n");
}

#define HEAD "                             cells   rows   median     p90  signed   median     p90  signed"

static bool strata(ds_outfile *out, const ds_validation *x) {
  static const struct {
    const char *title;
    int fitted;
    bool no_blanks, saturated;
  } parts[] = {{"never fitted", 0, false, false},
               {"never fitted, without rows whose formats, lengths or layout were filled in", 0, true, false},
               {"never fitted, saturated", 0, false, true},
               {"that fits may use", 1, false, false}};
  for (size_t p = 0; p < 4; p++) {
    ds_out_printf(out, "\nRows %s: absolute error in %%, mean over cells | all rows\n" HEAD "  target\n", parts[p].title);
    for (int s = 0; s < DS_STRATA; s++)
      for (size_t k = 0; k < N_FIGURES; k++) {
        want w = anything;
        averaged a;
        char name[64];
        w.stratum = s;
        w.metric = (int)figures[k].by;
        w.fitted = parts[p].fitted;
        w.no_blanks = parts[p].no_blanks;
        w.saturated = parts[p].saturated;
        if (!average(x, &w, &a)) return false;
        snprintf(name, sizeof name, "%c %s", "ABC"[s], figures[k].title);
        line_of(out, name, &a, p < 2 ? targets[s][k] : 0);
      }
  }
  return true;
}

static bool by_metric(ds_outfile *out, const ds_validation *x) {
  ds_out_text(out, "\nBy metric, never fitted\n" HEAD "\n");
  for (int m = 0; m < DS_CMP_N; m++) {
    want w = anything;
    averaged a;
    w.metric = m;
    if (!average(x, &w, &a)) return false;
    line_of(out, ds_compared_names[m], &a, 0);
  }
  ds_out_text(out, "\nBy load, TPOT (offline: throughput), never fitted\n" HEAD "\n");
  for (int l = 0; l < DS_LOADS; l++) {
    want w = anything;
    averaged a;
    w.load = l;
    w.metric = l == DS_LOAD_OFFLINE ? DS_CMP_OUT_TOK_S : DS_CMP_TPOT_MEAN;
    w.saturated = l == DS_LOAD_SATURATED;
    if (!average(x, &w, &a)) return false;
    line_of(out, ds_load_names[l], &a, 0);
  }
  return true;
}

static bool cells(ds_outfile *out, const ds_validation *x) {
  ds_cell *c;
  size_t n;
  want w = anything;
  w.fitted = -1;
  if (!ds_cells_of(x->residuals, keep, &w, &c, &n)) return false;
  ds_out_text(out, "\nCells of at least 10 rows, not saturated (* fits may have used them)\n"
                   "  metric    part             model            engine        load           rows  median     p90  signed\n");
  for (size_t i = 0; i < n; i++) {
    const ds_validated *v = c[i].first->row;
    const ds_error_stats *s = &c[i].stats;
    if (s->n < DS_CELL_ROWS) continue;
    ds_out_printf(out, "%c %-9s %-16.16s %-16.16s %-13.13s %-13s %5zu %7.1f %7.1f %+7.1f\n", v->fitted ? '*' : ' ',
                  ds_compared_names[c[i].first->metric], v->hardware, v->model, v->engine, ds_load_names[v->load], s->n,
                  100 * s->median, 100 * s->p90, 100 * s->signed_median);
  }
  free(c);
  return true;
}

static const char *cause_of(const ds_residual *r) {
  const ds_validated *v = r->row;
  if ((v->blanks & DS_BLANK_PART) != 0) return "which form of the part is not published";
  if (v->load == DS_LOAD_SATURATED || v->queue_share > 0.2) return "waits in a queue: capacity and limits decide";
  if ((v->blanks & DS_BLANK_KV) != 0 && r->metric >= DS_CMP_TPOT_MEAN) return "KV format not published";
  if ((v->blanks & DS_BLANK_LENGTHS) != 0) return "lengths not published";
  if ((v->blanks & DS_BLANK_PARALLEL) != 0) return "layout over devices not published";
  if (!v->measured_kernels) return "part without kernel data";
  if (!v->engine_current) return "no engine card of its version";
  if (v->host_share > 0.3) return "host time of the engine card";
  if (v->comm_share > 0.25) return "communication";
  if ((v->blanks & DS_BLANK_WEIGHTS) != 0) return "weight format not published";
  return "kernels, or what the source does not say";
}

static int worst_first(const void *a, const void *b) {
  const ds_residual *x = a, *y = b;
  double d = fabs(y->error) - fabs(x->error);
  return d > 0 ? 1 : d < 0 ? -1 : (x->run > y->run) - (x->run < y->run);
}

static bool worst(ds_outfile *out, const ds_validation *x) {
  ds_residual *r = malloc((x->residuals->n + 1) * sizeof *r);
  if (r == NULL) return false;
  size_t n = 0, shown = 0;
  for (size_t i = 0; i < x->residuals->n; i++) {
    const ds_residual *k = &x->residuals->r[i];
    bool figure = false;
    for (size_t f = 0; f < N_FIGURES; f++) figure = figure || figures[f].by == k->metric;
    if (figure && k->row->stratum != DS_STRATUM_C && k->row->load != DS_LOAD_SATURATED && !k->row->fitted) r[n++] = *k;
  }
  qsort(r, n, sizeof *r, worst_first);
  ds_out_text(out, "\nThe worst rows of A and B, never fitted, not saturated\n");
  for (size_t i = 0; i < n && shown < 10; i++) {
    bool again = false;
    for (size_t j = 0; j < i; j++) again = again || r[j].run == r[i].run;
    if (again) continue;
    shown++;
    ds_out_printf(out, "  %-14s %+6.0f %%  %s: %s on %s, %s\n", r[i].run->text[DS_RUN_ID], 100 * r[i].error,
                  ds_compared_names[r[i].metric], r[i].row->model, r[i].row->hardware, cause_of(&r[i]));
  }
  free(r);
  return true;
}

/* --- what could not be said ------------------------------------------------------------------------ */

typedef struct reason {
  const char *why;
  size_t n;
} reason;

static int by_count(const void *a, const void *b) {
  const reason *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->why, y->why);
}

static reason *reasons(const ds_validation *x, size_t *n, size_t *expressed, size_t *total) {
  reason *list = calloc(x->runs->n + 1, sizeof *list);
  *n = *expressed = *total = 0;
  for (size_t i = 0; list != NULL && i < x->runs->n; i++) {
    if (!x->wanted[i]) continue;
    (*total)++;
    if (x->v[i].expressed) {
      (*expressed)++;
      continue;
    }
    /* Numbers in a message do not make another reason. */
    size_t k = 0, stem = strcspn(x->v[i].why, ";");
    const char *cut = strstr(x->v[i].why, "; per device");
    if (cut == NULL) stem = strlen(x->v[i].why);
    while (k < *n && (strncmp(list[k].why, x->v[i].why, stem) != 0)) k++;
    if (k == *n) list[(*n)++].why = x->v[i].why;
    list[k].n++;
  }
  if (list != NULL) qsort(list, *n, sizeof *list, by_count);
  return list;
}

/* How often bands held, and how wide they were. */
typedef struct coverage {
  size_t held, rows;
  double *width; /* of each row */
} coverage;

static void cover(const ds_validation *x, ds_stratum s, size_t k, coverage *c) {
  static const ds_band_metric metric_of[N_FIGURES] = {DS_BAND_TPOT, DS_BAND_E2E, DS_BAND_THROUGHPUT, DS_BAND_TTFT};
  want w = anything;
  w.stratum = (int)s;
  w.metric = (int)figures[k].by;
  w.half = 1;
  w.known_part = true; /* a band is a part's */
  for (size_t i = 0; i < x->residuals->n; i++) {
    const ds_residual *r = &x->residuals->r[i];
    if (!keep(r, &w)) continue;
    const ds_band *b = ds_bands_find(x->bands, r->row->hardware, r->row->measured_kernels, r->row->model_class,
                                     r->row->engine, metric_of[k]);
    if (b == NULL) continue;
    c->held += fabs(r->error) <= b->half_width;
    c->width[c->rows++] = b->half_width;
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of the c->rows widths at c->width. */
static void coverage_line(ds_outfile *out, int stratum, const char *title, const coverage *c) {
  if (c->rows == 0) return;
  qsort(c->width, c->rows, sizeof *c->width, by_size);
  double median = 0.5 * (c->width[(c->rows - 1) / 2] + c->width[c->rows / 2]);
  ds_out_printf(out, "  %c %-22s %8zu %6.0f %% %12.0f %%\n", "ABC"[stratum], title, c->rows,
                100.0 * (double)c->held / (double)c->rows, 100 * median);
}

static bool band_lines(ds_outfile *out, const ds_validation *x) {
  if (x->bands == NULL || x->bands->n == 0) {
    ds_out_text(out, "\nNo band is stated yet (models/validation/errors.yaml): --bands FILE writes one.\n");
    return true;
  }
  double *width = malloc((x->residuals->n + 1) * sizeof *width), *copy = malloc((x->residuals->n + 1) * sizeof *copy);
  bool ok = width != NULL && copy != NULL;
  if (ok)
    ds_out_printf(out, "\nThe stated bands (%s), on the half of the rows that they were not made from\n"
                       "                              rows     held   median half-width\n", x->bands->date);
  for (int s = 0; s < DS_STRATA && ok; s++) {
    coverage all = {0, 0, width};
    for (size_t k = 0; k < N_FIGURES; k++) {
      coverage one = {0, 0, copy};
      cover(x, (ds_stratum)s, k, &one);
      coverage_line(out, s, figures[k].title, &one);
      memcpy(all.width + all.rows, one.width, one.rows * sizeof *copy);
      all.rows += one.rows;
      all.held += one.held;
    }
    coverage_line(out, s, "all four", &all);
  }
  free(width);
  free(copy);
  return ok;
}

bool ds_validation_text(ds_outfile *out, const ds_validation *x) {
  size_t n, expressed, total;
  reason *why = reasons(x, &n, &expressed, &total);
  ds_pairs p;
  if (why == NULL || !ds_pairs_of(x->runs, x->v, &p)) {
    free(why);
    return false;
  }
  ds_out_printf(out, "%s: %zu runs, %zu simulated (%.1f %%)\n", x->path, total, expressed,
                total > 0 ? 100.0 * (double)expressed / (double)total : 0.0);
  bool ok = strata(out, x) && by_metric(out, x) && cells(out, x) && worst(out, x);
  ds_out_printf(out, "\nPairs of configurations measured more than 10 %% apart: %zu, %.1f %% in the right order\n", p.pairs,
                p.pairs > 0 ? 100.0 * (double)p.ordered / (double)p.pairs : 0.0);
  for (int k = 0; k < DS_STRATA; k++)
    if (p.pairs_of[k] > 0)
      ds_out_printf(out, "  of which %c: %zu, %.1f %%\n", "ABC"[k], p.pairs_of[k], 100.0 * (double)p.ordered_of[k] / (double)p.pairs_of[k]);
  ds_out_printf(out, "Choosing by the simulator among the measured: %.1f %% from the best (median of %zu questions)\n",
                100 * p.regret_median, p.groups);
  ok = band_lines(out, x) && ok;
  ds_out_text(out, "\nNot simulated\n");
  for (size_t i = 0; i < n; i++) ds_out_printf(out, "  %5zu  %.160s\n", why[i].n, why[i].why);
  free(why);
  return ok;
}

/* --- bands ------------------------------------------------------------------------------------------- */

#define BAND_ROWS  20   /* fewer say too little about a tail */
#define BAND_SHARE 0.84 /* of the rows: 80 to 95 % of new ones should be inside */

/* The width that held BAND_SHARE of the rows; of few rows one more, as a new row is as likely to lie outside as any. */
static double share(const ds_validation *x, const want *w) {
  double *e = malloc((x->residuals->n + 1) * sizeof *e);
  size_t n = 0;
  if (e == NULL) return 0;
  for (size_t i = 0; i < x->residuals->n; i++)
    if (keep(&x->residuals->r[i], w)) e[n++] = fabs(x->residuals->r[i].error);
  qsort(e, n, sizeof *e, by_size);
  size_t inside = (size_t)ceil(BAND_SHARE * (double)(n + 1));
  double v = n > 0 ? e[(inside < n ? inside : n) - 1] : 0;
  free(e);
  return v;
}

/* From rows of strata A and B where there are enough of them. */
static void band(ds_outfile *out, const ds_validation *x, const want *asked, const char *hardware, size_t figure) {
  static const char *const names[N_FIGURES] = {"tpot", "e2e", "throughput", "ttft"};
  want trusted = *asked, *w = &trusted, all = *asked;
  trusted.trusted = true;
  ds_error_stats s = ds_stats_of_residuals(x->residuals, keep, w);
  if (s.n < BAND_ROWS) s = ds_stats_of_residuals(x->residuals, keep, w = &all);
  if (s.n < BAND_ROWS) return;
  double b = ceil(100 * share(x, w));
  ds_out_printf(out, "  - {hardware: %s, class: %s, engine: %s, metric: %s, within: %.0f, median: %.1f, signed: %.1f, runs: %zu}\n", hardware,
                w->model_class, w->engine != NULL ? w->engine : "any", names[figure], b < 1 ? 1 : b, 100 * s.median,
                100 * s.signed_median, s.n);
}

/* Each name once, in the order of the file. */
static bool seen(const ds_validated *v, size_t i, bool engine) {
  for (size_t k = 0; k < i; k++)
    if (v[k].expressed && strcmp(v[k].hardware, v[i].hardware) == 0 && (!engine || strcmp(v[k].engine, v[i].engine) == 0)) return true;
  return false;
}

bool ds_validation_bands(ds_outfile *out, const ds_validation *x) {
  static const char *const classes[] = {"dense", "moe", "mla"};
  ds_out_printf(out,
                "# SPDX-License-Identifier: GPL-3.0-or-later\n"
                "errors: 1\ntitle: errors of predictions against measured serving runs\ndate: 2026-12\n"
                "source: \"published measured runs, sha256 of the file %.16s\"\n"
                "command: dryserve validate runs.csv --bands models/validation/errors.yaml\n"
                "rule: \"within: %.0f %% of the rows were closer; rows never fitted and not saturated, of parts that are stated, one half of\n"
                "  them by a hash of the id; at least %d rows; percent\"\nbands:\n",
                x->runs->sha256, 100 * BAND_SHARE, BAND_ROWS);
  for (size_t c = 0; c < 3; c++)
    for (size_t k = 0; k < N_FIGURES; k++) {
      want w = anything;
      w.half = 0;
      w.known_part = true;
      w.model_class = classes[c];
      w.metric = (int)figures[k].by;
      for (int kernels = 1; kernels >= 0; kernels--) {
        w.kernels = kernels;
        band(out, x, &w, kernels ? "measured" : "other", k);
      }
      w.kernels = -1;
      for (size_t i = 0; i < x->runs->n; i++) {
        if (!x->v[i].expressed) continue;
        w.hardware = x->v[i].hardware;
        w.engine = NULL;
        if (!seen(x->v, i, false)) band(out, x, &w, w.hardware, k);
        w.engine = x->v[i].engine;
        if (!seen(x->v, i, true)) band(out, x, &w, w.hardware, k);
      }
    }
  return true;
}
