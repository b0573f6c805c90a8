// SPDX-License-Identifier: GPL-3.0-or-later
/* What a reader must know before believing the figures. Nothing here depends on how long the run
 * took. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "io/units.h"
#include "report/numbers.h"
#include "report/report.h"

static void add(ds_warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(ds_warnings *w, const char *fmt, ...) {
  if (w->n == DS_WARNINGS_MAX) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(w->text[w->n++], sizeof w->text[0], fmt, args);
  va_end(args);
}

static void about_load(ds_warnings *w, const ds_summary *s) {
  const ds_flow *f = &s->flow;
  double window_s = (double)f->window_ns * 1e-9;
  char early[DS_NUMBER_BYTES], late[DS_NUMBER_BYTES], span[DS_NUMBER_BYTES], mean[DS_NUMBER_BYTES];
  ds_put_short(early, f->queue_early_s);
  ds_put_short(late, f->queue_late_s);
  ds_put_short(span, window_s);
  ds_put_short(mean, f->e2e_mean_s);
  if (s->saturated) {
    add(w,
        "saturated: requests came faster than they were served. In the second half of the arrivals "
        "%" PRIu64 " came and the backlog grew by %" PRIu64
        "; waiting rose from %s s to %s s. Latencies depend on how long the "
        "workload lasts",
        f->arrived_second_half, f->in_system_end - f->in_system_half, early, late);
    return;
  }
  switch (s->settling) {
  case DS_SETTLED:
    break;
  case DS_SETTLED_NOT_BATCH:
    if (f->requests > 1)
      add(w,
          "not settled: all %" PRIu64
          " requests arrive at once; this is one batch, not a steady load",
          f->requests);
    else
      add(w, "not settled: a single request; percentiles and rates say nothing about a load");
    break;
  case DS_SETTLED_NOT_SHORT:
    add(w,
        "not settled: requests arrive for %s s, less than %d times the mean end-to-end time of %s "
        "s; the system "
        "fills and drains without a steady state",
        span, DS_SETTLE_LATENCIES, mean);
    break;
  case DS_SETTLED_NOT_FEW:
    add(w, "not settled: only %" PRIu64 " requests; tail percentiles rest on a few of them",
        f->requests);
    break;
  }
}

/* MLPerf's offline and single-stream runs last as long as they take, but not less than 600 s. */
static void about_rules(ds_warnings *w, const ds_scenario *sc, const ds_summary *s) {
  const double least_s = (double)sc->workload.least_ns * 1e-9;
  if (s->duration_s <= 0 || s->duration_s >= least_s) return;
  char lasted[DS_NUMBER_BYTES];
  ds_put_short(lasted, s->duration_s);
  add(w,
      "the run lasts %s s, and the rules of %s ask for %g s: about %.0f requests would do",
      lasted, sc->workload.protocol, least_s,
      1.1 * least_s / s->duration_s * (double)sc->workload.requests);
}

static void about_import(ds_warnings *w, const ds_trace_report *t) {
  if (t == NULL) return;
  if (t->dropped_zero > 0)
    add(w, "%" PRIu64 " of %" PRIu64 " rows with zero tokens were dropped", t->dropped_zero,
        t->rows_read);
  if (t->clamped_zero > 0)
    add(w, "%" PRIu64 " rows with zero tokens count as one token", t->clamped_zero);
  if (t->raised_caps > 0)
    add(w, "%" PRIu64 " of %" PRIu64 " outputs are longer than max_tokens says; they are not cut, and schedulers take the length for the cap",
        t->raised_caps, t->rows_read);
}

/* What the card says of one box need not hold for another. */
static void about_crowding(ds_warnings *w, const ds_run *run) {
  const ds_hw *hw = &run->pool.hw;
  int64_t n = run->pool.tensor_parallel * run->pool.data_parallel;
  if (run->cost_tier != DS_COST_ROOFLINE || !(hw->allreduce.crowding > 0) || n <= 2) return;
  add(w,
      "%" PRId64 " devices of %s share their way through the host, as in the box that was timed: behind "
      "PCIe switches their all-reduces are faster (hardware.efficiencies.allreduce.crowding)",
      n, hw->name);
}

void ds_warnings_of(const ds_scenario *sc, const ds_drive *drive, const ds_summary *s,
                    ds_warnings *out) {
  out->n = 0;
  about_load(out, s);
  about_rules(out, sc, s);
  about_import(out, ds_trace_report_of(drive->trace));
  if (drive->result->seconds->overflow)
    add(out, "the run lasts longer than two years; counters per second stop there");
  if (s->oversize > 0)
    add(out, "%" PRIu64 " of %" PRIu64 " requests were rejected: no replica could hold them",
        s->oversize, s->submitted);
  if (s->turned_away > 0)
    add(out,
        "%" PRIu64 " of %" PRIu64 " requests were turned away by the server%s; latencies are those "
        "of the others",
        s->turned_away, s->submitted,
        sc->workload.patience.retries > 0 ? " at every attempt" : "");
  if (s->timed_out > 0) {
    char text[48];
    ds_time_format(sc->workload.patience.timeout_ns, text, sizeof text);
    add(out,
        "%" PRIu64 " of %" PRIu64 " requests were given up by their clients after %s%s; latencies "
        "are those of the others",
        s->timed_out, s->submitted, text,
        sc->workload.patience.retries > 0 ? " and all retries" : "");
  }
  if (drive->oversize.truncated > 0)
    add(out, "%" PRIu64 " requests were cut to what a replica can hold", drive->oversize.truncated);
  about_crowding(out, &sc->run);
  if (sc->run.cost_tier == DS_COST_SPEED_OF_LIGHT)
    add(out, "speed-of-light: a bound that no machine reaches, not a prediction");
  if (sc->run.slo.window_ns > 0)
    for (size_t i = 0; i < s->n_verdicts; i++)
      if (s->verdict[i].limit.metric == DS_METRIC_ITL) {
        add(out, "slo.window: limits on itl are judged over the whole run only");
        break;
      }
}
