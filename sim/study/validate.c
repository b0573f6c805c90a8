// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/validate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "metric/select.h"
#include "study/driver.h"
#include "study/edge.h"

const char *const ds_compared_names[DS_CMP_N] = {"ttft_mean", "ttft_p50", "ttft_p99", "tpot_mean", "tpot_p50",
                                                 "tpot_p99",  "e2e_mean", "e2e_p99",  "out_tok_s"};
const char *const ds_load_names[DS_LOADS] = {"static", "offline", "closed <= 8", "closed <= 64", "closed > 64", "open", "server edge",
                                             "saturated"};

static void show(ds_sim *sim, ds_step_seen seen, void *user) {
  ds_step step;
  while (ds_sim_next_step(sim, &step)) seen(user, &step);
}

static bool simulate(const ds_expressed *x, ds_step_seen seen, void *user, ds_sim **sim, char *why, size_t cap) {
  const ds_scenario *sc = x->scenario;
  ds_error err = {DS_OK, -1, ""};
  ds_sim_options options = x->options;
  options.steps = seen != NULL;
  *sim = NULL;
  ds_status status = ds_sim_new(&sc->run, sc->sched, sc->route, &options, &ds_heap, sim, &err);
  if (status == DS_OK) status = ds_sim_feed(*sim, x->request, x->n, &err);
  if (status == DS_OK) ds_sim_close(*sim);
  for (bool more = status == DS_OK; more;) {
    status = ds_sim_step(*sim, seen != NULL ? 1u << 8 : 1u << 20, &more, &err); /* the log of a few stays small */
    if (status != DS_OK) break;
    if (seen != NULL) show(*sim, seen, user);
  }
  if (status != DS_OK) snprintf(why, cap, "%.*s", (int)cap - 1, err.text[0] != '\0' ? err.text : "the simulation failed");
  return status == DS_OK;
}

static void column(double *ms, size_t n, double *mean, double *p50, double *p99) {
  static const double pct[] = {50, 99};
  double q[2] = {-1, -1};
  if (n == 0) return;
  *mean = ds_stats_of(ms, n).mean;
  if (ds_percentiles(ms, n, pct, 2, q, &ds_heap) != DS_OK) return;
  if (p50 != NULL) *p50 = q[0];
  *p99 = q[1];
}

static bool summarise(const ds_expressed *x, const ds_result *r, ds_validated *out) {
  double *ms = malloc((r->n + 1) * sizeof *ms), *p = out->predicted;
  if (ms == NULL) return false;
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++) ms[i] = (double)r->ttft_ns[i] * 1e-6;
  column(ms, r->n, &p[DS_CMP_TTFT_MEAN], &p[DS_CMP_TTFT_P50], &p[DS_CMP_TTFT_P99]);
  for (size_t i = 0; i < r->n; i++)
    if (r->outputs[i] > 1) ms[n++] = (double)(r->e2e_ns[i] - r->ttft_ns[i]) * 1e-6 / (double)(r->outputs[i] - 1);
  column(ms, n, &p[DS_CMP_TPOT_MEAN], &p[DS_CMP_TPOT_P50], &p[DS_CMP_TPOT_P99]);
  double e2e = 0, queue = 0;
  for (size_t i = 0; i < r->n; i++) {
    ms[i] = (double)r->e2e_ns[i] * 1e-6;
    e2e += ms[i];
    queue += (double)r->queue_ns[i] * 1e-6;
  }
  column(ms, r->n, &p[DS_CMP_E2E_MEAN], NULL, &p[DS_CMP_E2E_P99]);
  double span_s = (double)(r->last_finish_ns - r->first_arrival_ns) * 1e-9;
  if (span_s > 0) p[DS_CMP_OUT_TOK_S] = (double)r->output_tokens / span_s * (double)x->copies;
  out->queue_share = e2e > 0 ? queue / e2e : 0;
  double busy = 0, host = 0, comm = 0;
  for (size_t i = 0; i < r->n_replicas; i++) {
    busy += (double)r->replicas[i].busy_ns;
    host += (double)r->replicas[i].part_ns[DS_PART_HOST];
    comm += (double)r->replicas[i].part_ns[DS_PART_COMM];
  }
  out->host_share = busy > 0 ? host / busy : 0;
  out->comm_share = busy > 0 ? comm / busy : 0;
  out->iterations = r->iterations;
  out->requests = r->n;
  free(ms);
  return true;
}

bool ds_validate_watched(const ds_expressed *x, ds_step_seen seen, void *user, ds_validated *out) {
  ds_sim *sim;
  for (int i = 0; i < DS_CMP_N; i++) out->predicted[i] = -1;
  bool ok = simulate(x, seen, user, &sim, out->why, sizeof out->why) && summarise(x, ds_sim_result(sim), out);
  if (sim != NULL) ds_sim_free(sim);
  return ok;
}

bool ds_validate_run(const ds_expressed *x, ds_validated *out) { return ds_validate_watched(x, NULL, NULL, out); }

static void measured_of(const ds_measured_run *m, const ds_expressed *x, double *v) {
  const double *n = m->number;
  static const ds_run_number from[DS_CMP_N] = {DS_RUN_TTFT_MEAN, DS_RUN_TTFT_P50, DS_RUN_TTFT_P99, DS_RUN_TPOT_MEAN, DS_RUN_TPOT_P50,
                                               DS_RUN_TPOT_P99,  DS_RUN_E2E_MEAN, DS_RUN_E2E_P99,  DS_RUN_OUT_TOK_S};
  for (int i = 0; i < DS_CMP_N; i++) v[i] = n[from[i]] > 0 ? n[from[i]] : -1;
  if (v[DS_CMP_TPOT_MEAN] < 0 && v[DS_CMP_E2E_MEAN] > 0 && v[DS_CMP_TTFT_MEAN] > 0 && x->mean_output > 1)
    v[DS_CMP_TPOT_MEAN] = (v[DS_CMP_E2E_MEAN] - v[DS_CMP_TTFT_MEAN]) / (x->mean_output - 1);
  else if (v[DS_CMP_TTFT_MEAN] > 0 && v[DS_CMP_TPOT_MEAN] > 0 && x->client_known)
    v[DS_CMP_E2E_MEAN] = v[DS_CMP_TTFT_MEAN] + v[DS_CMP_TPOT_MEAN] * (x->mean_output - 1);
  if (x->protocol == DS_PROTOCOL_OPEN && !x->at_its_edge) v[DS_CMP_OUT_TOK_S] = -1; /* the offered rate for everyone */
  if (!x->client_known) v[DS_CMP_TTFT_MEAN] = v[DS_CMP_TTFT_P50] = v[DS_CMP_TTFT_P99] = -1;
}

static ds_load load_of(const ds_measured_run *m, const ds_expressed *x, const ds_validated *v) {
  if (x->protocol == DS_PROTOCOL_STATIC) return DS_LOAD_STATIC;
  if (x->protocol == DS_PROTOCOL_OFFLINE) return DS_LOAD_OFFLINE;
  if (x->at_its_edge) return DS_LOAD_EDGE;
  bool behind = m->number[DS_RUN_RATE] > 0 && m->number[DS_RUN_REQ_S] > 0 && m->number[DS_RUN_REQ_S] < 0.9 * m->number[DS_RUN_RATE];
  bool waited = v->measured[DS_CMP_E2E_MEAN] > 0 && v->measured[DS_CMP_TTFT_MEAN] > 0.5 * v->measured[DS_CMP_E2E_MEAN];
  if (v->queue_share > 0.2 || behind || waited) return DS_LOAD_SATURATED;
  if (x->protocol == DS_PROTOCOL_OPEN) return DS_LOAD_OPEN;
  double c = m->number[DS_RUN_CONCURRENCY];
  return c <= 8 ? DS_LOAD_LOW : c <= 64 ? DS_LOAD_MID : DS_LOAD_HIGH;
}

void ds_validate_row(const ds_measured_run *m, const ds_card_cache *cards, const ds_data_dirs *dirs, ds_validated *out) {
  ds_expressed x;
  memset(out, 0, sizeof *out);
  if (!ds_express(m, cards, dirs, &x, out->why, sizeof out->why)) return;
  out->expressed = x.at_its_edge ? ds_edge_run(&x, m->number[DS_RUN_RATE], out) : ds_validate_run(&x, out);
  const ds_run *run = &x.scenario->run;
  snprintf(out->hardware, sizeof out->hardware, "%s", run->pool.hw.name);
  snprintf(out->model, sizeof out->model, "%s", run->model.name);
  snprintf(out->engine, sizeof out->engine, "%s", run->pool.engine.name);
  snprintf(out->model_class, sizeof out->model_class, "%s", ds_model_class(&run->model));
  out->measured_kernels = run->pool.hw.grade == DS_GRADE_MEASURED;
  out->stratum = x.stratum;
  out->blanks = x.blanks;
  out->client_known = x.client_known;
  out->engine_current = x.engine_current;
  out->fitted = strncmp(m->text[DS_RUN_SPLIT], "calibrate", 9) == 0;
  if (out->expressed) {
    measured_of(m, &x, out->measured);
    out->load = load_of(m, &x, out);
  }
  ds_expressed_free(&x);
}

/* --- threads -------------------------------------------------------------------------------------- */

typedef struct crew {
  const ds_measured_runs *runs;
  const bool *wanted;
  const ds_card_cache *cards;
  const ds_data_dirs *dirs;
  ds_validated *results;
  pthread_mutex_t lock;
  size_t next, done;
} crew;

static void *work(void *user) {
  crew *c = user;
  for (;;) {
    pthread_mutex_lock(&c->lock);
    while (c->next < c->runs->n && !c->wanted[c->next]) c->next++;
    size_t i = c->next++;
    pthread_mutex_unlock(&c->lock);
    if (i >= c->runs->n) return NULL;
    ds_validate_row(&c->runs->run[i], c->cards, c->dirs, &c->results[i]);
    pthread_mutex_lock(&c->lock);
    c->done++;
    pthread_mutex_unlock(&c->lock);
  }
}

static void watch(crew *c, size_t total) {
  size_t done = 0;
  while (done < total) {
    struct timespec wait = {0, 200000000};
    nanosleep(&wait, NULL);
    pthread_mutex_lock(&c->lock);
    done = c->done;
    pthread_mutex_unlock(&c->lock);
    fprintf(stderr, "\r\033[K%zu of %zu runs simulated", done, total);
    fflush(stderr);
  }
  fputs("\r\033[K", stderr);
}

#define JOBS_MAX 256

bool ds_validate_all(const ds_measured_runs *runs, const bool *wanted, const ds_card_cache *cards, const ds_data_dirs *dirs, int jobs,
                     bool progress, ds_validated *results, ds_diag *d) {
  crew c = {.runs = runs, .wanted = wanted, .cards = cards, .dirs = dirs, .results = results};
  pthread_t thread[JOBS_MAX];
  int started = 0;
  size_t total = 0;
  for (size_t i = 0; i < runs->n; i++) total += wanted[i];
  if (pthread_mutex_init(&c.lock, NULL) != 0) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "no lock for the workers");
  if (jobs > JOBS_MAX) jobs = JOBS_MAX;
  while (started < jobs && pthread_create(&thread[started], NULL, work, &c) == 0) started++;
  if (started == 0) work(&c);
  else if (progress && isatty(STDERR_FILENO) == 1) watch(&c, total);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&c.lock);
  return true;
}
