// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/calibrate.h"
#include "study/source_rules.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 64
#define OFFSET   0.15 /* standard deviation of what a source and its software add */
#define ROUNDS   4    /* of exact simulation at most */
#define MOVED    0.02 /* largest change of a log value from one to the next that calls for no other */
#define PRICINGS 3000 /* of all rows by one fit, about */

static bool no_memory(ds_diag *d) { return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory"); }

/* --- rows ------------------------------------------------------------------------------------------ */

static const ds_compared points_of[] = {DS_CMP_TPOT_MEAN, DS_CMP_TTFT_MEAN, DS_CMP_E2E_MEAN, DS_CMP_OUT_TOK_S};

/* What a row says that a fit can use. End to end only where its parts are not published. */
static bool usable(const ds_measured_run *m, const ds_expressed *x, ds_compared k, double *measured) {
  const double *n = m->number;
  double ttft = n[DS_RUN_TTFT_MEAN], tpot = n[DS_RUN_TPOT_MEAN], e2e = n[DS_RUN_E2E_MEAN];
  bool offline = x->protocol == DS_PROTOCOL_OFFLINE, open = x->protocol == DS_PROTOCOL_OPEN;
  if (open && x->at_its_edge) return false; /* how near to its limit a system runs says little of its kernels */
  if (tpot <= 0 && e2e > 0 && ttft > 0 && x->mean_output > 1) tpot = (e2e - ttft) / (x->mean_output - 1);
  switch (k) {
  case DS_CMP_TPOT_MEAN:
    *measured = tpot;
    return tpot > 0 && !offline;
  case DS_CMP_TTFT_MEAN:
    *measured = ttft;
    return ttft > 0 && !offline && x->client_known;
  case DS_CMP_E2E_MEAN:
    *measured = e2e;
    return e2e > 0 && !offline && !(tpot > 0) && !(n[DS_RUN_OUT_TOK_S] > 0);
  case DS_CMP_OUT_TOK_S:
    *measured = n[DS_RUN_OUT_TOK_S];
    return *measured > 0 && !open && !(tpot > 0);
  case DS_CMP_TTFT_P50:
  case DS_CMP_TTFT_P99:
  case DS_CMP_TPOT_P50:
  case DS_CMP_TPOT_P99:
  case DS_CMP_E2E_P99:
  case DS_CMP_N:
    break;
  }
  return false;
}

/* More than one source or engine: the part of a group's name before its model. */
static bool mixed(const ds_calibration *c) {
  for (size_t g = 1; g < c->n_groups; g++) {
    size_t n = strcspn(c->group[0].name, ":");
    if (strncmp(c->group[0].name, c->group[g].name, n + 1) != 0) return true;
  }
  return false;
}

static bool wanted(const ds_measured_run *m) {
  const char *split = m->text[DS_RUN_SPLIT];
  return split[0] == '\0' || strncmp(split, "calibrate", 9) == 0;
}

static void to_run(const ds_calibration *c, ds_expressed *x) {
  ds_pool *p = &x->scenario->run.pool;
  p->hw = c->hw;
  if (strcmp(p->engine.name, c->engine.name) != 0) return;
  p->engine = c->engine;
  bool http = x->protocol == DS_PROTOCOL_OPEN || x->protocol == DS_PROTOCOL_CLOSED;
  if (!http) p->engine.api_per_request_s = p->engine.api_per_token_s = p->engine.tokenise_s = 0;
}

static void apply(ds_calibration *c, const double *value) {
  for (size_t k = 0; k < c->fit.n_params; k++) {
    if (c->param[k].field == NULL) continue;
    char *base = c->param[k].of_engine ? (char *)&c->engine : (char *)&c->hw;
    memcpy(base + c->param[k].field->offset, &value[k], sizeof value[k]);
  }
  for (size_t i = 0; i < c->n_runs; i++) to_run(c, &c->run[i]);
}

/* Rows that differ in nothing but lengths and load. */
static bool same_cell(const ds_calibration *c, size_t i, size_t k) {
  if (c->run[i].scenario == NULL || c->run[k].scenario == NULL) return false;
  const ds_run *a = &c->run[i].scenario->run, *b = &c->run[k].scenario->run;
  return c->group_of[i] == c->group_of[k] && c->run[i].protocol == c->run[k].protocol && strcmp(a->model.name, b->model.name) == 0 &&
         a->pool.tensor_parallel == b->pool.tensor_parallel && a->weights == b->weights;
}

static void forget(ds_calibration *c, size_t i) {
  ds_expressed_free(&c->run[i]);
  if (c->digest != NULL) ds_digest_free(&c->digest[i]);
}

/* Keeps `most` rows of each cell, evenly spread over the file. */
static void thin(ds_calibration *c, size_t most) {
  size_t *of = malloc((c->n_runs + 1) * sizeof *of), *at = calloc(c->n_runs + 1, sizeof *at), *n = calloc(c->n_runs + 1, sizeof *n), kept = 0;
  if (most == 0 || of == NULL || at == NULL || n == NULL) most = 0;
  for (size_t i = 0; most > 0 && i < c->n_runs; i++) {
    of[i] = 0;
    while (!same_cell(c, of[i], i)) of[i]++;
    n[of[i]]++;
  }
  for (size_t i = 0; most > 0 && i < c->n_runs; i++) {
    size_t j = at[of[i]]++, all = n[of[i]];
    bool stays = all <= most || (j + 1) * most / all > j * most / all;
    if (!stays) {
      forget(c, i);
      continue;
    }
    c->run[kept] = c->run[i];
    c->row[kept] = c->row[i];
    c->group_of[kept++] = c->group_of[i];
  }
  if (most > 0) c->n_runs = kept;
  free(of);
  free(at);
  free(n);
}

/* The group of a row, made where it is new; the last one takes all that are too many. */
static size_t group_of(ds_calibration *c, const ds_measured_run *m, const ds_expressed *x) {
  char source[80], name[sizeof c->group[0].name];
  const ds_run *run = &x->scenario->run;
  ds_measured_source(m, source, sizeof source);
  snprintf(name, sizeof name, "%.60s, %.60s: %.60s", source, run->pool.engine.name, run->model.name);
  for (size_t g = 0; g < c->n_groups; g++)
    if (strcmp(c->group[g].name, name) == 0) return g;
  if (c->n_groups == DS_CALIBRATION_GROUPS) return DS_CALIBRATION_GROUPS - 1;
  snprintf(c->group[c->n_groups].name, sizeof c->group[0].name, "%s", name);
  return c->n_groups++;
}

static bool room_for(ds_calibration *c, size_t n, ds_diag *d) {
  c->run = calloc(n + 1, sizeof *c->run);
  c->row = calloc(n + 1, sizeof *c->row);
  c->digest = calloc(n + 1, sizeof *c->digest);
  c->group_of = calloc(n + 1, sizeof *c->group_of);
  c->point = calloc(4 * n + 1, sizeof *c->point);
  if (c->run != NULL && c->row != NULL && c->digest != NULL && c->group_of != NULL && c->point != NULL) return true;
  return no_memory(d);
}

/* Rows on the card's part, and on the engine where one is asked for. fitted: those that a fit may see, else the others;
 * timed: not those of engines whose cards are guesses, since a fit would put the guess into the part's efficiencies. */
static void take_rows(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs, bool fitted,
                      bool timed) {
  for (size_t i = 0; i < runs->n; i++) {
    const ds_measured_run *m = &runs->run[i];
    const ds_hw *hw = ds_card_cache_part(cards, ds_part_of(m));
    ds_expressed x;
    char why[200];
    if (wanted(m) != fitted || hw == NULL || strcmp(hw->name, c->hw.name) != 0) continue;
    if (!ds_express(m, cards, dirs, &x, why, sizeof why)) continue;
    bool other = c->engine_path[0] != '\0' && strcmp(x.scenario->run.pool.engine.name, c->engine.name) != 0;
    bool guessed = fitted && timed && c->engine_path[0] == '\0' && !x.engine_current;
    c->n_guessed += guessed;
    if (other || guessed) {
      ds_expressed_free(&x);
      continue;
    }
    bool loop = x.protocol == DS_PROTOCOL_OPEN || x.protocol == DS_PROTOCOL_CLOSED;
    size_t most = loop ? c->most_requests : 10 * c->most_requests;
    if (most > 0 && x.n > most) x.n = most;
    c->group_of[c->n_runs] = group_of(c, m, &x);
    c->run[c->n_runs] = x;
    c->row[c->n_runs++] = m;
  }
  c->n_offered = c->n_runs;
}

/* --- simulation, on several processors ------------------------------------------------------------- */

typedef bool (*ds_job)(ds_calibration *c, size_t i, void *user);

typedef struct crew {
  ds_calibration *c;
  ds_job job;
  void *user;
  const char *title; /* NULL: no word */
  size_t next;
  bool failed;
  pthread_mutex_t lock;
} crew;

static void *work(void *user) {
  crew *w = user;
  for (;;) {
    pthread_mutex_lock(&w->lock);
    size_t i = w->next++;
    if (w->title != NULL && i <= w->c->n_runs) fprintf(stderr, "\r\033[K%s: %zu of %zu rows", w->title, i, w->c->n_runs);
    pthread_mutex_unlock(&w->lock);
    if (i >= w->c->n_runs) return NULL;
    if (w->job(w->c, i, w->user)) continue;
    pthread_mutex_lock(&w->lock);
    w->failed = true;
    pthread_mutex_unlock(&w->lock);
  }
}

/* Every run once. False: a job said so. */
static bool all_runs(ds_calibration *c, ds_job job, void *user, const char *title) {
  crew w = {.c = c, .job = job, .user = user, .title = c->progress ? title : NULL};
  pthread_t thread[JOBS_MAX];
  int jobs = c->jobs > JOBS_MAX ? JOBS_MAX : c->jobs, started = 0;
  if (pthread_mutex_init(&w.lock, NULL) != 0) return false;
  while (started < jobs - 1 && pthread_create(&thread[started], NULL, work, &w) == 0) started++;
  work(&w);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&w.lock);
  if (w.title != NULL) fputs("\r\033[K", stderr);
  return !w.failed;
}

static bool digest_one(ds_calibration *c, size_t i, void *user) {
  (void)user;
  ds_digest_free(&c->digest[i]);
  if (!ds_digest_of(&c->run[i], &c->digest[i])) c->digest[i].kind = NULL; /* it has no points */
  return true;
}

/* Where requests mostly wait, capacity decides, not kernels. */
static void add_points(ds_calibration *c) {
  for (size_t i = 0; i < c->n_runs; i++) {
    const ds_digest *g = &c->digest[i];
    bool waits = c->run[i].protocol != DS_PROTOCOL_OFFLINE && g->exact.queue_share > 0.2;
    for (size_t j = 0; g->kind != NULL && !waits && j < sizeof points_of / sizeof points_of[0]; j++) {
      double measured;
      if (!usable(c->row[i], &c->run[i], points_of[j], &measured) || !(g->exact.predicted[points_of[j]] > 0)) continue;
      c->point[c->fit.n_points].run = i;
      c->point[c->fit.n_points].metric = points_of[j];
      c->point[c->fit.n_points++].measured = measured;
    }
  }
}

bool ds_calibration_rows(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs,
                         ds_diag *d) {
  if (!room_for(c, runs->n, d)) return false;
  take_rows(c, runs, cards, dirs, true, true);
  if (c->n_runs == 0) { /* better those than none */
    c->n_guessed = 0;
    take_rows(c, runs, cards, dirs, true, false);
  }
  thin(c, c->most_per_cell);
  if (!all_runs(c, digest_one, NULL, "simulating")) return no_memory(d);
  add_points(c);
  if (c->fit.n_points > 0) return true;
  ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "no measured run on %s%s%s that a fit may use", c->hw.name,
              c->engine_path[0] != '\0' ? " with " : "", c->engine_path[0] != '\0' ? c->engine.name : "");
  ds_diag_expected(d, "rows whose gpu leads to that card, whose split is blank or begins with calibrate");
  return false;
}

/* --- parameters ------------------------------------------------------------------------------------ */

static bool listed(const char *only, const char *path) {
  if (only == NULL) return true;
  for (const char *s = only; *s != '\0';) {
    size_t n = strcspn(s, ",");
    const char *p = strncmp(path, "efficiencies.", 13) == 0 ? path + 13 : strncmp(path, "libraries.", 10) == 0 ? path + 10 : path;
    if (n > 0 && strncmp(p, s, n) == 0) return true;
    s += n + (s[n] == ',');
  }
  return false;
}

static bool within(size_t offset, size_t from, size_t bytes) { return offset >= from && offset < from + bytes; }

/* No kernel timings stand behind this value. */
static bool estimated(const ds_hw *hw, const ds_card_field *f) {
  size_t at = f->offset;
  for (size_t i = 0; i < DS_GEMM_GROUPS; i++)
    if (within(at, offsetof(ds_hw, gemm) + i * sizeof hw->gemm[0], sizeof hw->gemm[0])) return hw->gemm_estimated[i];
  for (size_t i = 0; i < DS_MOE_GROUPS; i++)
    if (within(at, offsetof(ds_hw, moe) + i * sizeof hw->moe[0], sizeof hw->moe[0])) return hw->moe_estimated[i];
  return hw->grade != DS_GRADE_MEASURED;
}

/* What the card is good for, as a relative deviation: kernels timed by others, with other libraries, are within some
 * 15 % in what they reach and 30 % in fixed times (docs/accuracy.md, per operator); the rest is a guess. */
static double prior_of(const ds_calibration *c, const ds_card_field *f, bool of_engine) {
  if (of_engine || estimated(&c->hw, f)) return 0.7;
  return f->dim == DS_DIM_TIME ? 0.3 : 0.15;
}

static void add_param(ds_calibration *c, const ds_card_field *f, bool of_engine) {
  if (f->type != DS_FIELD_QUANTITY || c->fit.n_params == DS_FIT_PARAMS_MAX || !listed(c->only, f->path)) return;
  const char *last = strrchr(f->path, '.');
  bool shape = last != NULL && (strcmp(last, ".p") == 0 || strcmp(last, ".wh") == 0 || strcmp(last, ".kh") == 0);
  bool efficiency = strncmp(f->path, "efficiencies.", 13) == 0 || strncmp(f->path, "libraries.", 10) == 0;
  if (!of_engine && (!efficiency || shape)) return;
  double value, high;
  memcpy(&value, (of_engine ? (const char *)&c->engine : (const char *)&c->hw) + f->offset, sizeof value);
  bool time = f->dim == DS_DIM_TIME;
  if (!(value > 0)) { /* a factor that is not given is 1 */
    if (!of_engine || time || f->max > 4) return;
    value = 1;
  }
  bool factor = of_engine && !time && f->max <= 4; /* and what is none may be anything */
  bool free_scale = time || (of_engine && !factor);
  high = free_scale ? value * 30 : of_engine ? 2 : f->max;
  ds_fit_param *p = &c->fit.param[c->fit.n_params];
  *p = (ds_fit_param){.start = value, .low = free_scale ? value / 30 : of_engine ? 0.5 : 0.05, .high = high, .prior = prior_of(c, f, of_engine)};
  if (p->low > p->start * 0.999 || p->high < p->start) p->low = p->start / 2;
  c->param[c->fit.n_params++] = (ds_calibration_param){f, of_engine, 0};
}

void ds_calibration_params(ds_calibration *c) {
  const ds_card_schema *h = &ds_card_schemas[DS_CARD_HARDWARE], *e = &ds_card_schemas[DS_CARD_ENGINE];
  /* An engine card alone: the part's efficiencies stay as they are unless they are asked for by name. */
  bool hardware = c->engine_path[0] == '\0' || c->only != NULL;
  for (size_t i = 0; hardware && i < h->n_fields; i++) add_param(c, &h->fields[i], false);
  for (size_t i = 0; c->engine_path[0] != '\0' && i < e->n_fields; i++) add_param(c, &e->fields[i], true);
  for (size_t g = 0; mixed(c) && g < c->n_groups && c->fit.n_params < DS_FIT_PARAMS_MAX; g++) {
    c->fit.param[c->fit.n_params] = (ds_fit_param){.start = 1, .low = 0.3, .high = 1 / 0.3, .prior = OFFSET, .nuisance = true};
    c->param[c->fit.n_params++] = (ds_calibration_param){NULL, false, g};
  }
}

double ds_calibration_value(const ds_calibration *c, size_t k) { return c->fit.param[k].value; }

/* --- evaluation ------------------------------------------------------------------------------------ */

typedef struct pricing {
  double (*predicted)[DS_CMP_N];
  size_t moved; /* the one value that is not the base's; n_params: several */
} pricing;

/* To the last bit, and unknown figures alike. */
static bool same_figures(const double a[DS_CMP_N], const double b[DS_CMP_N]) {
  for (int m = 0; m < DS_CMP_N; m++) {
    if (a[m] != b[m] && !(isnan(a[m]) && isnan(b[m]))) return false;
  }
  return true;
}

static bool price_one(ds_calibration *c, size_t i, void *user) {
  const pricing *w = user;
  bool one = w->moved < c->fit.n_params;
  unsigned char *depends = one ? &c->depends[w->moved * c->n_runs + i] : NULL;
  if (c->digest[i].kind == NULL) return true;
  if (one) memcpy(w->predicted[i], c->base_predicted[i], sizeof w->predicted[i]);
  if (one && *depends == 1) return true;
  if (!ds_digest_predict(&c->digest[i], &c->run[i].scenario->run, w->predicted[i])) return false;
  if (one && *depends == 0) *depends = same_figures(w->predicted[i], c->base_predicted[i]) ? 1 : 2;
  return true;
}

/* Which value differs from the base; n_params: more than one, or there is no base. */
static size_t moved_one(const ds_calibration *c, const double *value) {
  size_t at = c->fit.n_params, n = 0;
  for (size_t k = 0; k < c->fit.n_params; k++)
    if (value[k] != c->base[k]) at = k, n++;
  return n == 1 ? at : c->fit.n_params;
}

static double offset_of(const ds_calibration *c, const double *value, size_t run) {
  for (size_t k = c->fit.n_params; k-- > 0 && c->param[k].field == NULL;)
    if (c->param[k].group == c->group_of[run]) return log(value[k]);
  return 0;
}

static void compare(const ds_calibration *c, const double *value, double (*predicted)[DS_CMP_N], double *out) {
  for (size_t i = 0; i < c->fit.n_points; i++) {
    size_t run = c->point[i].run;
    double p = predicted[run][c->point[i].metric], by = offset_of(c, value, run);
    if (c->point[i].metric == DS_CMP_OUT_TOK_S) by = -by; /* an offset is of time */
    out[i] = p > 0 ? log(p / c->point[i].measured) + by : 3;
  }
}

static bool residuals(void *user, const double *value, double *out) {
  ds_calibration *c = user;
  pricing w = {calloc(c->n_runs + 1, sizeof *w.predicted), moved_one(c, value)};
  if (w.predicted == NULL) return false;
  apply(c, value);
  bool ok = all_runs(c, price_one, &w, NULL);
  if (ok) compare(c, value, w.predicted, out);
  if (ok && w.moved == c->fit.n_params) {
    memcpy(c->base, value, c->fit.n_params * sizeof *value);
    memcpy(c->base_predicted, w.predicted, c->n_runs * sizeof *w.predicted);
  }
  free(w.predicted);
  return ok;
}

/* Before the first set of values, and whenever the runs were simulated anew. */
static bool start_pricing(ds_calibration *c) {
  free(c->base_predicted);
  free(c->depends);
  c->base_predicted = calloc(c->n_runs + 1, sizeof *c->base_predicted);
  c->depends = calloc(c->n_runs * c->fit.n_params + 1, 1);
  for (size_t k = 0; k < c->fit.n_params; k++) c->base[k] = -1;
  return c->base_predicted != NULL && c->depends != NULL;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_abs(double *r, size_t n) {
  for (size_t i = 0; i < n; i++) r[i] = fabs(r[i]);
  qsort(r, n, sizeof *r, by_size);
  return n > 0 ? r[n / 2] : 0;
}

/* Median error of the rows as they were last simulated, without offsets: what a user of the card would see. */
static bool exact_error(const ds_calibration *c, double *median) {
  double value[DS_FIT_PARAMS_MAX], *out = calloc(c->fit.n_points + 1, sizeof *out);
  double(*predicted)[DS_CMP_N] = calloc(c->n_runs + 1, sizeof *predicted);
  bool ok = out != NULL && predicted != NULL;
  for (size_t k = 0; k < c->fit.n_params; k++) value[k] = 1;
  for (size_t i = 0; ok && i < c->n_runs; i++) memcpy(predicted[i], c->digest[i].exact.predicted, sizeof predicted[i]);
  if (ok) compare(c, value, predicted, out);
  if (ok) *median = median_abs(out, c->fit.n_points);
  free(out);
  free(predicted);
  return ok;
}

bool ds_calibration_run(ds_calibration *c, ds_diag *d) {
  double value[DS_FIT_PARAMS_MAX], last[DS_FIT_PARAMS_MAX] = {0}, before = 0, after = 0, moved = 1;
  c->fit.residuals = residuals;
  c->fit.user = c;
  c->fit.noise = c->noise;
  c->fit.most_evaluations = PRICINGS;
  if (c->fit.n_params == 0 || c->param[0].field == NULL) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--fit '%s' names nothing on the card", c->only != NULL ? c->only : "");
    ds_diag_expected(d, "the beginning of an efficiency's name, e.g. gemm_bf16 or attn_decode_kv16.em");
    return false;
  }
  if (!exact_error(c, &before)) return no_memory(d);
  for (size_t k = 0; k < c->fit.n_params; k++) last[k] = c->fit.param[k].start;
  for (c->rounds = 1; c->rounds <= ROUNDS && moved > MOVED; c->rounds++) {
    if (c->progress) fprintf(stderr, "\r\033[Kfitting %zu values to %zu figures, round %d", c->fit.n_params, c->fit.n_points, c->rounds);
    bool ok = start_pricing(c) && ds_fit_run(&c->fit);
    if (c->progress) fputs("\r\033[K", stderr);
    if (!ok) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "the fit failed");
    moved = 0;
    for (size_t k = 0; k < c->fit.n_params; k++) {
      value[k] = c->fit.param[k].value;
      moved = fmax(moved, fabs(log(value[k] / last[k])));
      last[k] = value[k];
    }
    apply(c, value);
    if (!all_runs(c, digest_one, NULL, "simulating") || !exact_error(c, &after)) return no_memory(d);
  }
  c->rounds--;
  c->fit.before = before;
  c->fit.after = after;
  return true;
}

/* --- rows kept aside ------------------------------------------------------------------------------- */

#define JUDGES_PER_CELL 6

static bool simulate_one(ds_calibration *c, size_t i, void *user) {
  (void)user;
  ds_digest *g = &c->digest[i];
  ds_validate_run(&c->run[i], &g->exact);
  g->kind = NULL;
  return true;
}

static bool judge(ds_calibration *aside, const ds_calibration *c, bool fitted, double *median) {
  for (size_t i = 0; i < aside->n_runs; i++)
    if (fitted) to_run(c, &aside->run[i]);
  if (!all_runs(aside, simulate_one, NULL, fitted ? "judging, after" : "judging, before")) return false;
  if (aside->fit.n_points == 0)
    for (size_t i = 0; i < aside->n_runs; i++)
      for (size_t j = 0; j < sizeof points_of / sizeof points_of[0]; j++) {
        const ds_validated *v = &aside->digest[i].exact;
        double measured;
        bool waits = aside->run[i].protocol != DS_PROTOCOL_OFFLINE && v->queue_share > 0.2;
        if (waits || !usable(aside->row[i], &aside->run[i], points_of[j], &measured) || !(v->predicted[points_of[j]] > 0)) continue;
        aside->point[aside->fit.n_points].run = i;
        aside->point[aside->fit.n_points].metric = points_of[j];
        aside->point[aside->fit.n_points++].measured = measured;
      }
  return exact_error(aside, median);
}

bool ds_calibration_judge(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs,
                          ds_diag *d) {
  ds_calibration *aside = calloc(1, sizeof *aside);
  if (aside == NULL) return no_memory(d);
  aside->hw = c->hw;
  aside->engine = c->engine;
  snprintf(aside->engine_path, sizeof aside->engine_path, "%s", c->engine_path);
  aside->jobs = c->jobs;
  aside->most_requests = c->most_requests;
  aside->progress = c->progress;
  bool ok = room_for(aside, runs->n, d);
  if (ok) take_rows(aside, runs, cards, dirs, false, false);
  if (ok) thin(aside, JUDGES_PER_CELL);
  if (ok && aside->n_runs > 0) ok = (judge(aside, c, false, &c->judged.before) && judge(aside, c, true, &c->judged.after)) || no_memory(d);
  c->judged.rows = aside->n_runs;
  c->judged.figures = aside->fit.n_points;
  ds_calibration_free(aside);
  free(aside);
  return ok;
}

void ds_calibration_free(ds_calibration *c) {
  for (size_t i = 0; i < c->n_runs; i++) forget(c, i);
  free(c->run);
  free(c->row);
  free(c->digest);
  free(c->group_of);
  free(c->point);
  free(c->base_predicted);
  free(c->depends);
  c->base_predicted = NULL;
  c->depends = NULL;
  c->run = NULL;
  c->row = NULL;
  c->digest = NULL;
  c->group_of = NULL;
  c->point = NULL;
  c->n_runs = 0;
}

/* --- plan ------------------------------------------------------------------------------------------ */

typedef struct candidate {
  const char *model;
  int gpus, batch, input, output;
  bool fp8;
} candidate;

#define SMALL "meta-llama/Llama-3.1-8B-Instruct"
#define LARGE "meta-llama/Llama-3.1-70B-Instruct"
static const candidate candidates[] = {
    {SMALL, 1, 1, 128, 128, false},   {SMALL, 1, 1, 4096, 1, false},    {SMALL, 1, 16, 512, 64, false}, {SMALL, 1, 64, 128, 128, false},
    {SMALL, 1, 64, 2048, 64, false},  {SMALL, 1, 4, 16000, 64, false},  {SMALL, 1, 8, 2048, 1, false},  {SMALL, 1, 1, 32, 64, false},
    {SMALL, 1, 1, 128, 128, true},    {SMALL, 1, 64, 128, 128, true},   {SMALL, 1, 8, 2048, 1, true},   {SMALL, 1, 32, 4096, 64, true},
    {SMALL, 2, 1, 128, 128, false},   {SMALL, 2, 64, 128, 64, false},   {SMALL, 2, 8, 2048, 1, false},  {SMALL, 8, 1, 128, 128, false},
    {LARGE, 8, 1, 128, 64, false},    {LARGE, 8, 32, 1024, 64, false},
};
#define N_CANDIDATES (sizeof candidates / sizeof candidates[0])

static void row_of(const candidate *k, const char *gpu, ds_measured_run *m) {
  for (int i = 0; i < DS_RUN_TEXTS; i++) m->text[i] = "";
  for (int i = 0; i < DS_RUN_NUMBERS; i++) m->number[i] = -1;
  m->text[DS_RUN_ID] = "PLAN";
  m->text[DS_RUN_ENGINE] = "vLLM";
  m->text[DS_RUN_VERSION] = "0.18";
  m->text[DS_RUN_MODEL] = k->model;
  m->text[DS_RUN_WEIGHTS] = k->fp8 ? "fp8" : "bf16";
  m->text[DS_RUN_KV] = k->fp8 ? "fp8" : "bf16";
  m->text[DS_RUN_GPU] = gpu;
  m->text[DS_RUN_KIND] = "offline";
  m->number[DS_RUN_N_GPUS] = m->number[DS_RUN_TP] = k->gpus;
  m->number[DS_RUN_ISL] = k->input;
  m->number[DS_RUN_OSL] = k->output;
  m->number[DS_RUN_CONCURRENCY] = k->batch;
  m->number[DS_RUN_E2E_MEAN] = 1;
}

/* log det of (information + a weak prior), by Cholesky. */
static double log_det(const double *a, size_t n) {
  double l[DS_FIT_PARAMS_MAX][DS_FIT_PARAMS_MAX], sum = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      double s = a[i * n + j] + (i == j ? 1 : 0);
      for (size_t k = 0; k < j; k++) s -= l[i][k] * l[j][k];
      if (i == j) {
        l[i][i] = sqrt(s > 1e-12 ? s : 1e-12);
        sum += 2 * log(l[i][i]);
      } else {
        l[i][j] = s / l[j][j];
      }
    }
  return sum;
}

static bool sensitivities(ds_calibration *c, double *jac, double *seconds) {
  size_t n = c->fit.n_params, m = c->fit.n_points;
  double value[DS_FIT_PARAMS_MAX] = {0};
  double *base = calloc(m + 1, sizeof *base), *moved = calloc(m + 1, sizeof *moved);
  bool ok = base != NULL && moved != NULL && start_pricing(c);
  for (size_t k = 0; k < n; k++) value[k] = c->fit.param[k].start;
  ok = ok && residuals(c, value, base);
  for (size_t k = 0; ok && k < n; k++) {
    double keep = value[k], step = keep * 1.02 <= c->fit.param[k].high ? 0.02 : -0.02;
    value[k] = keep * exp(step);
    ok = residuals(c, value, moved);
    value[k] = keep;
    for (size_t i = 0; ok && i < m; i++) jac[i * n + k] = (moved[i] - base[i]) / step;
  }
  for (size_t i = 0; ok && i < m; i++) seconds[i] = exp(base[i]) * 1e-3; /* measured was 1 ms */
  if (ok) residuals(c, value, base);
  free(base);
  free(moved);
  return ok;
}

static void command_of(const candidate *k, char *out, size_t cap) {
  snprintf(out, cap, "vllm bench latency --model %s \\\n  %s--tensor-parallel-size %d --batch-size %d \\\n  --input-len %d --output-len %d --no-enable-prefix-caching",
           k->model, k->fp8 ? "--quantization fp8 --kv-cache-dtype fp8 \\\n  " : "", k->gpus, k->batch, k->input, k->output);
}

bool ds_calibration_plan(ds_calibration *c, const ds_data_dirs *dirs, ds_planned out[DS_PLAN_RUNS], ds_diag *d) {
  ds_measured_run row[N_CANDIDATES];
  ds_measured_runs runs = {.run = row, .n = N_CANDIDATES};
  size_t of[N_CANDIDATES], n = c->fit.n_params;
  for (size_t i = 0; i < N_CANDIDATES; i++) row_of(&candidates[i], c->hw.name, &row[i]);
  ds_card_cache *cards = ds_card_cache_new(&runs, dirs);
  if (cards == NULL || !room_for(c, N_CANDIDATES, d)) return no_memory(d);
  for (size_t i = 0; i < N_CANDIDATES; i++) {
    ds_expressed x;
    char why[200];
    ds_card_cache_hardware(cards, c->hw.name, &c->hw, c->hardware_path);
    if (!ds_express(&row[i], cards, dirs, &x, why, sizeof why)) continue; /* it does not fit the part, say */
    c->run[c->n_runs] = x;
    c->row[c->n_runs] = &row[i];
    of[c->n_runs] = i;
    c->point[c->fit.n_points].run = c->n_runs++;
    c->point[c->fit.n_points].metric = DS_CMP_E2E_MEAN;
    c->point[c->fit.n_points++].measured = 1;
  }
  ds_card_cache_free(cards);
  if (!all_runs(c, digest_one, NULL, "simulating")) return no_memory(d);
  double *jac = calloc(N_CANDIDATES * n + 1, sizeof *jac), *info = calloc(n * n + 1, sizeof *info), *tried = calloc(n * n + 1, sizeof *tried);
  double seconds[N_CANDIDATES];
  bool taken[N_CANDIDATES] = {false}, ok = jac != NULL && info != NULL && tried != NULL && sensitivities(c, jac, seconds);
  for (size_t r = 0; ok && r < DS_PLAN_RUNS && r < c->fit.n_points; r++) {
    double now = log_det(info, n), best_gain = -1;
    size_t best = 0;
    for (size_t i = 0; i < c->fit.n_points; i++) {
      if (taken[i]) continue;
      for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) tried[a * n + b] = info[a * n + b] + jac[i * n + a] * jac[i * n + b] / (c->noise * c->noise);
      double gain = (log_det(tried, n) - now) / (2 + seconds[i]); /* starting an engine costs something, too */
      if (gain > best_gain) best_gain = gain, best = i;
    }
    taken[best] = true;
    for (size_t a = 0; a < n; a++)
      for (size_t b = 0; b < n; b++) info[a * n + b] += jac[best * n + a] * jac[best * n + b] / (c->noise * c->noise);
    command_of(&candidates[of[best]], out[r].command, sizeof out[r].command);
    out[r].seconds = seconds[best];
  }
  free(jac);
  free(info);
  free(tried);
  return ok || no_memory(d);
}
