// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/edge.h"

#include <stdlib.h>
#include <string.h>

#define SPAN_S    600  /* of arrivals: what the audit asks for */
#define FEWEST    1500 /* so that the 99th percentile is no single request */
#define FARTHEST  64   /* times the published rate, or a part of it */
#define PRECISION 1.02

static bool try_rate(const ds_expressed *x, const double *at_one_s, double rate, ds_validated *out, bool *meets) {
  ds_expressed now = *x;
  double n = rate * SPAN_S;
  now.n = n < FEWEST ? FEWEST : n < (double)x->n ? (size_t)n : x->n;
  if (now.n > x->n) now.n = x->n;
  now.request = malloc((now.n + 1) * sizeof *now.request);
  if (now.request == NULL) return false;
  memcpy(now.request, x->request, now.n * sizeof *now.request);
  for (size_t i = 0; i < now.n; i++) now.request[i].arrival_ns = (int64_t)(at_one_s[i] / rate * 1e9);
  bool ok = ds_validate_run(&now, out);
  free(now.request);
  *meets = ok && out->predicted[DS_CMP_TTFT_P99] <= x->limit_ttft_ms && out->predicted[DS_CMP_TPOT_P99] <= x->limit_tpot_ms;
  if (ok) out->predicted[DS_CMP_OUT_TOK_S] = rate * x->mean_output * (double)x->copies;
  return ok;
}

bool ds_edge_run(const ds_expressed *x, double rate_per_s, ds_validated *out) {
  double *at_one_s = malloc((x->n + 1) * sizeof *at_one_s); /* a request a second, on average */
  if (at_one_s == NULL) return false;
  rate_per_s /= (double)x->copies;
  for (size_t i = 0; i < x->n; i++) at_one_s[i] = (double)x->request[i].arrival_ns * 1e-9 * rate_per_s;
  double low = 0, high = 0, rate = rate_per_s;
  ds_validated now = *out;
  bool ok = true, meets;
  while (ok && (low == 0 || high == 0 || high / low > PRECISION)) {
    ok = try_rate(x, at_one_s, rate, &now, &meets);
    if (!ok) break;
    if (meets) low = rate, *out = now;
    else high = rate;
    rate = low == 0 ? high / 2 : high == 0 ? low * 2 : (low + high) / 2;
    if (rate > rate_per_s * FARTHEST || rate < rate_per_s / FARTHEST) break;
  }
  free(at_one_s);
  if (ok && low > 0 && high > 0) return true;
  if (ok && low > 0) snprintf(out->why, sizeof out->why, "every rate meets the limits of its audit");
  else if (ok) snprintf(out->why, sizeof out->why, "no rate meets the limits of its audit");
  else snprintf(out->why, sizeof out->why, "%s", now.why);
  return false;
}
