// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/calibrate.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 64

static bool no_memory(ds_diag *d) { return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory"); }

/* --- rows ------------------------------------------------------------------------------------------ */

static const ds_compared points_of[] = {DS_CMP_TPOT_MEAN, DS_CMP_TTFT_MEAN, DS_CMP_E2E_MEAN, DS_CMP_OUT_TOK_S};

/* What a row says that a fit can use. End to end only where its parts are not published. */
static bool usable(const ds_measured_run *m, const ds_expressed *x, ds_compared k, double *measured) {
  const double *n = m->number;
  double ttft = n[DS_RUN_TTFT_MEAN], tpot = n[DS_RUN_TPOT_MEAN], e2e = n[DS_RUN_E2E_MEAN];
  bool offline = x->protocol == DS_PROTOCOL_OFFLINE, open = x->protocol == DS_PROTOCOL_OPEN;
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

static bool wanted(const ds_measured_run *m) {
  const char *split = m->text[DS_RUN_SPLIT];
  return split[0] == '\0' || strncmp(split, "calibrate", 9) == 0;
}

static void apply(ds_calibration *c, const double *value) {
  for (size_t k = 0; k < c->fit.n_params; k++) {
    char *base = c->param[k].of_engine ? (char *)&c->engine : (char *)&c->hw;
    memcpy(base + c->param[k].field->offset, &value[k], sizeof value[k]);
  }
  for (size_t i = 0; i < c->n_runs; i++) {
    ds_pool *p = &c->run[i].scenario->run.pool;
    p->hw = c->hw;
    if (strcmp(p->engine.name, c->engine.name) != 0) continue;
    p->engine = c->engine;
    bool http = c->run[i].protocol == DS_PROTOCOL_OPEN || c->run[i].protocol == DS_PROTOCOL_CLOSED;
    if (!http) p->engine.api_per_request_s = p->engine.api_per_token_s = 0;
  }
}

static bool add_row(ds_calibration *c, const ds_measured_run *m, ds_expressed *x) {
  ds_validated v;
  memset(&v, 0, sizeof v);
  bool open = x->protocol == DS_PROTOCOL_OPEN || x->protocol == DS_PROTOCOL_CLOSED;
  if (open && c->most_requests > 0 && x->n > c->most_requests) x->n = c->most_requests;
  c->run[c->n_runs] = *x;
  c->row[c->n_runs] = m;
  size_t run = c->n_runs++;
  if (!ds_validate_run(&c->run[run], &v)) return true;
  bool waits = x->protocol != DS_PROTOCOL_OFFLINE && v.queue_share > 0.2; /* capacity, not kernels */
  for (size_t j = 0; !waits && j < sizeof points_of / sizeof points_of[0]; j++) {
    double measured;
    if (!usable(m, x, points_of[j], &measured) || !(v.predicted[points_of[j]] > 0)) continue;
    c->point[c->fit.n_points].run = run;
    c->point[c->fit.n_points].metric = points_of[j];
    c->point[c->fit.n_points++].measured = measured;
  }
  return true;
}

bool ds_calibration_rows(ds_calibration *c, const ds_measured_runs *runs, const ds_card_cache *cards, const ds_data_dirs *dirs,
                         ds_diag *d) {
  c->run = calloc(runs->n + 1, sizeof *c->run);
  c->row = calloc(runs->n + 1, sizeof *c->row);
  c->point = calloc(4 * runs->n + 1, sizeof *c->point);
  if (c->run == NULL || c->row == NULL || c->point == NULL) return no_memory(d);
  for (size_t i = 0; i < runs->n; i++) {
    const ds_measured_run *m = &runs->run[i];
    const ds_hw *hw = ds_card_cache_part(cards, m->text[DS_RUN_GPU]);
    ds_expressed x;
    char why[200];
    if (!wanted(m) || hw == NULL || strcmp(hw->name, c->hw.name) != 0) continue;
    if (!ds_express(m, cards, dirs, &x, why, sizeof why)) continue;
    if (c->engine_path[0] != '\0' && strcmp(x.scenario->run.pool.engine.name, c->engine.name) != 0) {
      ds_expressed_free(&x);
      continue;
    }
    if (!add_row(c, m, &x)) return no_memory(d);
  }
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
    const char *p = strncmp(path, "efficiencies.", 13) == 0 ? path + 13 : path;
    if (n > 0 && strncmp(p, s, n) == 0) return true;
    s += n + (s[n] == ',');
  }
  return false;
}

static void add_param(ds_calibration *c, const ds_card_field *f, bool of_engine) {
  if (f->type != DS_FIELD_QUANTITY || c->fit.n_params == DS_FIT_PARAMS_MAX || !listed(c->only, f->path)) return;
  const char *last = strrchr(f->path, '.');
  bool shape = last != NULL && (strcmp(last, ".p") == 0 || strcmp(last, ".wh") == 0 || strcmp(last, ".kh") == 0);
  bool efficiency = strncmp(f->path, "efficiencies.", 13) == 0;
  if (!of_engine && (!efficiency || shape)) return;
  double value, high;
  memcpy(&value, (of_engine ? (const char *)&c->engine : (const char *)&c->hw) + f->offset, sizeof value);
  bool time = f->dim == DS_DIM_TIME;
  if (!(value > 0)) { /* a factor that is not given is 1 */
    if (!of_engine || time) return;
    value = 1;
  }
  high = time ? value * 30 : of_engine ? 2 : f->max;
  ds_fit_param *p = &c->fit.param[c->fit.n_params];
  *p = (ds_fit_param){.start = value, .low = time ? value / 30 : of_engine ? 0.5 : 0.05, .high = high};
  if (p->low > p->start * 0.999 || p->high < p->start) p->low = p->start / 2;
  c->param[c->fit.n_params++] = (ds_calibration_param){f, of_engine};
}

void ds_calibration_params(ds_calibration *c) {
  const ds_card_schema *h = &ds_card_schemas[DS_CARD_HARDWARE], *e = &ds_card_schemas[DS_CARD_ENGINE];
  /* An engine card alone: the part's efficiencies stay as they are unless they are asked for by name. */
  bool hardware = c->engine_path[0] == '\0' || c->only != NULL;
  for (size_t i = 0; hardware && i < h->n_fields; i++) add_param(c, &h->fields[i], false);
  for (size_t i = 0; c->engine_path[0] != '\0' && i < e->n_fields; i++) add_param(c, &e->fields[i], true);
}

double ds_calibration_value(const ds_calibration *c, size_t k) { return c->fit.param[k].value; }

/* --- evaluation ------------------------------------------------------------------------------------ */

typedef struct crew {
  ds_calibration *c;
  ds_validated *v;
  size_t next;
  bool failed;
  pthread_mutex_t lock;
} crew;

static void *work(void *user) {
  crew *w = user;
  for (;;) {
    pthread_mutex_lock(&w->lock);
    size_t i = w->next++;
    pthread_mutex_unlock(&w->lock);
    if (i >= w->c->n_runs) return NULL;
    if (ds_validate_run(&w->c->run[i], &w->v[i])) continue;
    pthread_mutex_lock(&w->lock);
    w->failed = true;
    pthread_mutex_unlock(&w->lock);
  }
}

static bool residuals(void *user, const double *value, double *out) {
  ds_calibration *c = user;
  crew w = {.c = c, .v = calloc(c->n_runs + 1, sizeof(ds_validated))};
  pthread_t thread[JOBS_MAX];
  int jobs = c->jobs > JOBS_MAX ? JOBS_MAX : c->jobs, started = 0;
  if (w.v == NULL || pthread_mutex_init(&w.lock, NULL) != 0) {
    free(w.v);
    return false;
  }
  apply(c, value);
  while (started < jobs - 1 && pthread_create(&thread[started], NULL, work, &w) == 0) started++;
  work(&w);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < c->fit.n_points; i++) {
    double p = w.v[c->point[i].run].predicted[c->point[i].metric];
    out[i] = p > 0 ? log(p / c->point[i].measured) : 3; /* a run that failed at these values is far off */
  }
  pthread_mutex_destroy(&w.lock);
  free(w.v);
  return true;
}

bool ds_calibration_run(ds_calibration *c, ds_diag *d) {
  double value[DS_FIT_PARAMS_MAX];
  c->fit.residuals = residuals;
  c->fit.user = c;
  c->fit.noise = c->noise;
  if (c->fit.n_params == 0) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--fit '%s' names nothing on the card", c->only != NULL ? c->only : "");
    ds_diag_expected(d, "the beginning of an efficiency's name, e.g. gemm_bf16 or attn_decode_kv16.em");
    return false;
  }
  if (!ds_fit_run(&c->fit)) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "the fit failed");
  for (size_t k = 0; k < c->fit.n_params; k++) value[k] = c->fit.param[k].value;
  apply(c, value);
  return true;
}

void ds_calibration_free(ds_calibration *c) {
  for (size_t i = 0; i < c->n_runs; i++) ds_expressed_free(&c->run[i]);
  free(c->run);
  free(c->row);
  free(c->point);
  c->run = NULL;
  c->row = NULL;
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
  bool ok = base != NULL && moved != NULL;
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
  snprintf(out, cap, "vllm bench latency --model %s%s --tensor-parallel-size %d --batch-size %d --input-len %d --output-len %d%s",
           k->model, k->fp8 ? " --quantization fp8 --kv-cache-dtype fp8" : "", k->gpus, k->batch, k->input, k->output,
           " --no-enable-prefix-caching");
}

bool ds_calibration_plan(ds_calibration *c, const ds_data_dirs *dirs, ds_planned out[DS_PLAN_RUNS], ds_diag *d) {
  ds_measured_run row[N_CANDIDATES];
  ds_measured_runs runs = {.run = row, .n = N_CANDIDATES};
  size_t of[N_CANDIDATES], n = c->fit.n_params;
  for (size_t i = 0; i < N_CANDIDATES; i++) row_of(&candidates[i], c->hw.name, &row[i]);
  ds_card_cache *cards = ds_card_cache_new(&runs, dirs);
  c->run = calloc(N_CANDIDATES, sizeof *c->run);
  c->row = calloc(N_CANDIDATES, sizeof *c->row);
  c->point = calloc(4 * N_CANDIDATES, sizeof *c->point);
  if (cards == NULL || c->run == NULL || c->row == NULL || c->point == NULL) return no_memory(d);
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
