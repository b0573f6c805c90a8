// SPDX-License-Identifier: GPL-3.0-or-later
/* At what rate an SLO gives way: the start of the workload again, its arrivals pulled together or
 * stretched out. */
#include <string.h>

#include "base/num.h"
#include "report/report.h"

#define RERUNS         6
#define FACTOR         4.0 /* first jumps, before halving */
#define LEAST_REQUESTS 20
#define LEAST_FACTOR   (1.0 / 4096) /* practically one request at a time */

typedef struct search {
  const ds_scenario *sc;
  const ds_drive *drive;
  double rate_per_s; /* of the requests kept, as recorded */
  int left;
  double holds_at, breaks_at; /* factors on the rate; 0: none yet */
  ds_metric_id metric;
} search;

/* One re-run; false when it could not be judged. */
static bool probe(search *s, double factor) {
  ds_sim *sim = NULL;
  ds_diag d;
  bool holds = false;
  ds_metric_id worst = DS_METRIC_N;
  s->left--;
  bool good = ds_drive_again(s->sc, s->drive->first, s->drive->n_first, 1 / factor, &sim, &d) &&
              ds_slo_holds(&s->sc->run, ds_sim_result(sim), &holds, &worst);
  if (sim != NULL) ds_sim_free(sim);
  if (!good) return false;
  if (holds) {
    if (factor > s->holds_at) s->holds_at = factor;
  } else if (s->breaks_at <= 0 || factor < s->breaks_at) {
    s->breaks_at = factor;
    s->metric = worst;
  }
  return true;
}

static double next_factor(const search *s) {
  if (s->breaks_at <= 0) return s->holds_at * FACTOR;
  if (s->holds_at > 0) return ds_sqrt(s->holds_at * s->breaks_at);
  /* Broken as recorded: two steps down, then all the way, to tell "too fast" from "never". */
  return s->left <= RERUNS - 3 ? LEAST_FACTOR : s->breaks_at / FACTOR;
}

void ds_breaking_find(const ds_scenario *sc, const ds_drive *drive, ds_breaking *out) {
  memset(out, 0, sizeof *out);
  const ds_slo *slo = &sc->run.slo;
  const ds_slo_request *q = &slo->request;
  bool asked = slo->n_run > 0 || slo->attainment > 0 || q->ttft_ns > 0 || q->tpot_ns > 0 ||
               q->itl_ns > 0 || q->e2e_ns > 0;
  if (!asked || drive->n_first < LEAST_REQUESTS) return;
  int64_t span_ns = drive->first[drive->n_first - 1].arrival_ns - drive->first[0].arrival_ns;
  if (span_ns <= 0) return;
  search s = {sc, drive,      (double)(drive->n_first - 1) / ((double)span_ns * 1e-9), RERUNS, 0,
              0,  DS_METRIC_N};
  if (!probe(&s, 1)) return;
  while (s.left > 0) {
    double factor = next_factor(&s);
    if (!probe(&s, factor)) return;
    if (s.holds_at <= 0 && factor <= LEAST_FACTOR) break;
  }
  out->searched = true;
  out->metric = s.metric;
  out->never = s.breaks_at <= 0;
  out->always = s.holds_at <= 0;
  double at = out->never    ? s.holds_at
              : out->always ? s.breaks_at
                            : ds_sqrt(s.holds_at * s.breaks_at);
  out->rate_per_s = at * s.rate_per_s;
}
