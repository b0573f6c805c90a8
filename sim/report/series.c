// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/series.h"

#include <stdlib.h>
#include <string.h>

#include "report/numbers.h"
#include "study/driver.h"
#include "study/rate_search.h"

typedef struct runner {
  ds_series_load load;
  void *user;
  ds_series *series;
} runner;

static bool any_limit(const ds_slo *slo) {
  const ds_slo_request *q = &slo->request;
  return slo->n_run > 0 || slo->attainment > 0 || q->ttft_ns > 0 || q->tpot_ns > 0 || q->itl_ns > 0 || q->e2e_ns > 0;
}

/* Its run limits; without such, that 99 % of the requests meet theirs. */
static bool holds(const ds_slo *slo, const ds_summary *s) {
  if (slo->n_run > 0 || slo->attainment > 0) return s->slo_met;
  return s->slo_attainment >= DS_ATTAINMENT_DEFAULT;
}

static bool one_run(runner *r, const char *change, ds_series_row *row, ds_diag *d) {
  ds_scenario *sc = calloc(1, sizeof *sc);
  ds_drive *drive = calloc(1, sizeof *drive);
  bool loaded = sc != NULL && drive != NULL && r->load(r->user, change, sc, d), good = loaded;
  if (sc == NULL || drive == NULL) ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  snprintf(row->change, sizeof row->change, "%s", change);
  if (loaded) {
    ds_drive_options opt;
    memset(&opt, 0, sizeof opt);
    ds_slo_complete(&sc->run.slo);
    opt.progress = true;
    good = ds_drive_run(sc, &opt, drive, d);
    if (good && !ds_summary_of(&sc->run, drive->result, &drive->arrivals, drive->oversize.n, &row->summary))
      good = ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    row->holds = good && holds(&sc->run.slo, &row->summary);
    ds_drive_free(drive);
    ds_scenario_free(sc);
  }
  free(drive);
  free(sc);
  return good;
}

static ds_series_row *next_row(ds_series *s) { return s->n < DS_SERIES_MAX ? &s->row[s->n++] : NULL; }

static bool strategy(runner *r, const char *name, ds_diag *d) {
  char change[96];
  ds_series_row *row = next_row(r->series);
  snprintf(row->what, sizeof row->what, "%s", name);
  snprintf(change, sizeof change, "workload.protocol.at=%s", name);
  return one_run(r, change, row, d);
}

static bool at_rate(runner *r, const char *key, double rate, ds_diag *d) {
  char change[96], number[DS_NUMBER_BYTES];
  ds_series_row *row = next_row(r->series);
  ds_put_double(number, rate);
  row->rate_per_s = rate;
  snprintf(change, sizeof change, "workload.protocol.%s=%s /s", key, number);
  return one_run(r, change, row, d);
}

/* GuideLLM: one client, everything at once, and rates that lie evenly between what those reached, the higher of them
 * included. Source: vllm-project/guidellm benchmark/profiles/sweep.py @14ffe9c6 (linspace without its first). */
static bool sweep(const ds_scenario *first, runner *r, ds_diag *d) {
  ds_series *s = r->series;
  if (!strategy(r, "synchronous", d) || !strategy(r, "throughput", d)) return false;
  double low = s->row[0].summary.request_throughput, high = s->row[1].summary.request_throughput;
  int64_t between = first->workload.series_runs - 2;
  for (int64_t i = 1; i <= between; i++)
    if (!at_rate(r, "at", low + (high - low) * (double)i / (double)between, d)) return false;
  for (size_t i = 2; i < s->n; i++) /* without limits: as fast as it goes */
    if ((!s->judged || s->row[i].holds) && (s->chosen == DS_SERIES_MAX || s->row[i].rate_per_s > s->row[s->chosen].rate_per_s))
      s->chosen = i;
  return true;
}

static bool valid(void *user, double rate, bool *it_holds, ds_diag *d) {
  runner *r = user;
  if (!at_rate(r, "rate", rate, d)) return false;
  *it_holds = r->series->row[r->series->n - 1].holds;
  return true;
}

/* MLPerf LoadGen's FindPeakPerformance. It begins at a query a second and ends at a tenth; a thousandth of the rate is
 * fine enough where that is more. */
static bool search(runner *r, ds_diag *d) {
  static const ds_rate_search rule = {.start = 1, .per_unit = 10, .share = 0.001, .most = DS_SERIES_MAX};
  ds_series *s = r->series;
  double best, broken;
  if (!ds_rate_find(&rule, valid, r, &best, &broken, d)) return false;
  for (size_t i = 0; i < s->n; i++)
    if (s->row[i].holds && s->row[i].rate_per_s == best) s->chosen = i;
  return true;
}

bool ds_series_run(const ds_scenario *first, ds_series_load load, void *user, ds_series *out, ds_diag *d) {
  memset(out, 0, sizeof *out);
  runner r = {load, user, out};
  out->kind = first->workload.series;
  out->judged = any_limit(&first->run.slo);
  out->chosen = DS_SERIES_MAX; /* none */
  bool good = out->kind == DS_SERIES_SWEEP ? sweep(first, &r, d) : search(&r, d);
  if (out->chosen > out->n) out->chosen = out->n;
  return good;
}

static void cell(ds_outfile *out, double v, int width) {
  char text[DS_NUMBER_BYTES];
  ds_put_short(text, v);
  ds_out_printf(out, "%*s", width, text);
}

void ds_series_table(ds_outfile *out, const ds_series *s) {
  ds_out_printf(out, "%-12s%9s%9s%10s%10s%10s%10s  %s\n", "rate, req/s", "served", "tokens/s", "TTFT p50", "TTFT p99",
                "TPOT p50", "TPOT p99", s->judged ? "limits" : "ms");
  for (size_t i = 0; i < s->n; i++) {
    const ds_series_row *r = &s->row[i];
    char rate[DS_NUMBER_BYTES];
    ds_put_short(rate, r->rate_per_s);
    ds_out_printf(out, "%-12s", r->what[0] != '\0' ? r->what : rate);
    cell(out, r->summary.request_throughput, 9);
    cell(out, r->summary.output_throughput, 9);
    cell(out, r->summary.ttft.p50, 10);
    cell(out, r->summary.ttft.p99, 10);
    cell(out, r->summary.tpot.p50, 10);
    cell(out, r->summary.tpot.p99, 10);
    ds_out_printf(out, "  %s%s\n", !s->judged ? "" : r->holds ? "hold" : "break", i == s->chosen ? " <-" : "");
  }
  ds_out_text(out, "\n");
}
