// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/classes.h"

#include <stdlib.h>
#include <string.h>

void ds_classes_complete(ds_scenario *sc) {
  for (size_t k = 0; k < sc->n_stream; k++) ds_slo_complete(&sc->stream[k].slo);
}

typedef struct columns {
  int64_t *ttft, *e2e, *queue;
  uint32_t *outputs;
  size_t n;
  ds_arrivals arrivals;
} columns;

static void free_columns(columns *c) {
  free(c->ttft);
  free(c->outputs);
  ds_arrivals_free(&c->arrivals);
}

/* The columns of one workload, in order of arrival. */
static bool pick(const ds_drive *drive, const int64_t *arrival_ns, size_t k, columns *c) {
  const ds_result *r = drive->result;
  c->ttft = malloc((3 * r->n + 1) * sizeof *c->ttft);
  c->outputs = malloc((r->n + 1) * sizeof *c->outputs);
  if (c->ttft == NULL || c->outputs == NULL) return false;
  c->e2e = c->ttft + r->n;
  c->queue = c->e2e + r->n;
  for (size_t i = 0; i < r->n; i++) {
    if (ds_drive_stream(drive, i) != k) continue;
    c->ttft[c->n] = r->ttft_ns[i];
    c->e2e[c->n] = r->e2e_ns[i];
    c->queue[c->n] = r->queue_ns[i];
    c->outputs[c->n++] = r->outputs[i];
    ds_request q = {.arrival_ns = arrival_ns[i], .input_tokens = 1, .output_tokens = r->outputs[i]};
    if (!ds_arrivals_add(&c->arrivals, &q, 1)) return false;
  }
  return true;
}

static bool within(int64_t value, int64_t limit) { return limit <= 0 || value <= limit; }

/* Good, as the engine has it: inclusive, and a single token has no TPOT to miss. */
static uint64_t count_good(const columns *c, const ds_slo_request *q) {
  uint64_t good = 0;
  for (size_t i = 0; i < c->n; i++) {
    int64_t more = (int64_t)c->outputs[i] - 1;
    bool tpot = more <= 0 || q->tpot_ns <= 0 || c->e2e[i] - c->ttft[i] <= q->tpot_ns * more;
    if (more < 0) continue; /* no answer */
    good += within(c->ttft[i], q->ttft_ns) && within(c->e2e[i], q->e2e_ns) && tpot;
  }
  return good;
}

static void count_failed(const columns *c, ds_result *r) {
  r->timed_out = r->turned_away = 0;
  for (size_t i = 0; i < c->n; i++) {
    bool away = c->ttft[i] == DS_TTFT_TURNED_AWAY;
    r->turned_away += away;
    r->timed_out += c->outputs[i] == 0 && !away;
  }
}

static bool judge_class(const ds_scenario *sc, const ds_drive *drive, const int64_t *arrival_ns,
                        size_t k, ds_class_result *out) {
  columns c;
  memset(&c, 0, sizeof c);
  const ds_workload *w = &sc->stream[k];
  out->workload = w;
  c.arrivals.rtt_ns = drive->arrivals.rtt_ns;
  bool good = pick(drive, arrival_ns, k, &c);
  if (good) {
    ds_run run = sc->run;
    run.slo = w->slo;
    ds_gaps no_gaps;
    memset(&no_gaps, 0, sizeof no_gaps);
    uint64_t *bucket = calloc(DS_GAPS_BUCKETS, sizeof *bucket);
    no_gaps.bucket = bucket;
    no_gaps.exact = true;
    ds_seconds no_seconds;
    memset(&no_seconds, 0, sizeof no_seconds);
    ds_result r = *drive->result;
    r.n = c.n;
    r.ttft_ns = c.ttft;
    r.e2e_ns = c.e2e;
    r.queue_ns = c.queue;
    r.outputs = c.outputs;
    r.records = NULL;
    r.itl = &no_gaps;
    r.seconds = &no_seconds;
    r.submitted = c.n;
    count_failed(&c, &r);
    r.completed = c.n - ds_failed(&r);
    r.good = count_good(&c, &w->slo.request);
    r.input_tokens = 0;
    r.output_tokens = c.arrivals.output.sum;
    r.n_replicas = 0;
    uint64_t oversize = 0;
    for (size_t i = 0; i < drive->oversize.n; i++)
      oversize += ds_merged_stream(drive->merged, drive->oversize.rejected[i].index) == k;
    good = bucket != NULL && ds_summary_of(&run, &r, &c.arrivals, oversize, &out->summary);
    free(bucket);
  }
  free_columns(&c);
  return good;
}

bool ds_classes_of(const ds_scenario *sc, const ds_drive *drive, ds_classes *out) {
  memset(out, 0, sizeof *out);
  out->slo_met = true;
  if (drive->merged == NULL) return true;
  out->of = calloc(sc->n_stream, sizeof *out->of);
  int64_t *arrival_ns = malloc((drive->result->n + 1) * sizeof *arrival_ns);
  bool good = out->of != NULL && arrival_ns != NULL;
  ds_arrival_walk w = {0, 0, 0};
  for (size_t i = 0; good && i < drive->result->n; i++)
    arrival_ns[i] = ds_arrival_next(&drive->arrivals, &w);
  for (; good && out->n < sc->n_stream; out->n++) {
    good = judge_class(sc, drive, arrival_ns, out->n, &out->of[out->n]);
    out->slo_met = out->slo_met && out->of[out->n].summary.slo_met;
  }
  free(arrival_ns);
  return good;
}

void ds_classes_free(ds_classes *c) {
  free(c->of);
  memset(c, 0, sizeof *c);
}
