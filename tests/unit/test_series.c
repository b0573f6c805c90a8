// SPDX-License-Identifier: GPL-3.0-or-later
/* Series of runs: the search by LoadGen's rule, GuideLLM's sweep, and how they look at the runs they made. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "report/series.h"
#include "study/rate_search.h"

/* --- the search ---------------------------------------------------------------------------- */

typedef struct cliff {
  double at, tried[64];
  size_t n;
} cliff;

static bool below(void *user, double rate, bool *holds, ds_diag *d) {
  cliff *c = user;
  (void)d;
  c->tried[c->n++] = rate;
  *holds = rate <= c->at;
  return true;
}

/* Doubling from 1, then halves; it ends when floor(10 low) + 1 >= floor(10 high). */
Test(series, the_search_goes_as_loadgen_goes) {
  static const double as_loadgen[] = {1, 2, 4, 8, 6, 5, 5.5, 5.25, 5.375};
  const ds_rate_search rule = {.start = 1, .per_unit = 10, .most = 64};
  cliff c = {.at = 5.3};
  ds_diag d = {0};
  double best, broken;
  cr_assert(ds_rate_find(&rule, below, &c, &best, &broken, &d));
  cr_assert_eq(c.n, 9u);
  for (size_t i = 0; i < c.n; i++) cr_assert_eq(c.tried[i], as_loadgen[i], "probe %zu", i);
  cr_assert(best == 5.25 && broken == 5.375);
}

Test(series, the_search_finds_any_cliff) {
  ds_diag d = {0};
  double best, broken;
  for (double at = 0.11; at < 3000; at *= 1.37) {
    const ds_rate_search rule = {.start = 1, .per_unit = 10, .most = 64};
    cliff c = {.at = at};
    cr_assert(ds_rate_find(&rule, below, &c, &best, &broken, &d));
    cr_assert(best <= at && broken > at && broken - best < 0.2, "%g: %g to %g", at, best, broken);
  }
  const ds_rate_search rule = {.start = 1, .per_unit = 10, .most = 64};
  cliff none = {.at = 0}, all = {.at = 1e300};
  cr_assert(ds_rate_find(&rule, below, &none, &best, &broken, &d));
  cr_assert(best == 0 && broken > 0 && none.n < 10);
  cr_assert(ds_rate_find(&rule, below, &all, &best, &broken, &d));
  cr_assert(best > 0 && broken == 0 && all.n == 64);
  const ds_rate_search coarse = {.start = 1, .per_unit = 10, .share = 0.01, .most = 64};
  cliff high = {.at = 777};
  cr_assert(ds_rate_find(&coarse, below, &high, &best, &broken, &d));
  cr_assert(best <= 777 && broken > 777 && broken - best <= 0.01 * best && high.n < 20);
}

/* --- series -------------------------------------------------------------------------------- */

static bool load(void *user, const char *change, ds_scenario *out, ds_diag *d) {
  const char *text = user;
  ds_data_dirs dirs = {{"."}, 1};
  return ds_scenario_parse(text, strlen(text), "test", ".", &change, change != NULL, &dirs, out, d);
}

static ds_series *run(char *text) {
  ds_diag d = {0};
  ds_scenario sc;
  ds_series *s = malloc(sizeof *s);
  cr_assert(load(text, NULL, &sc, &d), "%s", d.text);
  cr_assert(ds_series_run(&sc, load, text, s, &d), "%s", d.text);
  ds_scenario_free(&sc);
  return s;
}

#define LINEAR                                                                                                       \
  "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, pools: [{scheduler: " \
  "vllm-v1, kv_blocks: 2000}], "

/* One client: 20 ms for the prompt and 9 x 11 for the rest, so 1 / 119 ms. */
Test(series, a_sweep_lies_evenly_between_one_client_and_all) {
  char text[] = LINEAR "workload: {protocol: {tool: guidellm, strategy: sweep, requests: 200, input_tokens: 100, output_tokens: "
                       "10, rates: 6}}}";
  ds_series *s = run(text);
  cr_assert_eq(s->n, 6u);
  cr_assert_str_eq(s->row[0].what, "synchronous");
  cr_assert_str_eq(s->row[1].what, "throughput");
  double low = s->row[0].summary.request_throughput, high = s->row[1].summary.request_throughput;
  cr_assert_float_eq(low, 1 / 0.119, 1e-9);
  cr_assert_gt(high, low);
  for (size_t i = 2; i < 6; i++)
    cr_assert_float_eq(s->row[i].rate_per_s, low + (high - low) * (double)(i - 1) / 4, 1e-9);
  cr_assert_float_eq(s->row[5].rate_per_s, high, 1e-9); /* the highest is what throughput reached */
  cr_assert(!s->judged && s->chosen == 5);              /* without limits: as fast as it goes */
  free(s);
}

Test(series, of_a_sweep_the_highest_rate_that_holds_is_chosen) {
  char text[] = LINEAR "slo: {run: {p99_tpot: 15 ms}}, workload: {protocol: {tool: guidellm, strategy: sweep, requests: 200, "
                       "input_tokens: 100, output_tokens: 10, rates: 12}}}";
  ds_series *s = run(text);
  cr_assert(s->judged && s->chosen > 2 && s->chosen < 11, "%zu", s->chosen);
  for (size_t i = 2; i < s->n; i++) cr_assert_eq(s->row[i].holds, s->row[i].summary.tpot.p99 <= 15);
  cr_assert(s->row[s->chosen].holds && !s->row[s->chosen + 1].holds);
  free(s);
}

Test(series, mlperf_reports_the_highest_valid_rate) {
  char text[] = LINEAR "workload: {protocol: {tool: mlperf, scenario: server, benchmark: deepseek-r1, rate: find, input_tokens: "
                       "20, output_tokens: 3}}}";
  ds_series *s = run(text);
  cr_assert(s->judged && s->chosen < s->n);
  double best = s->row[s->chosen].rate_per_s, broken = 1e9;
  cr_assert(best > 30, "%g", best); /* a third of 12 + 2 x 11 ms alone would allow 29 /s without batching */
  for (size_t i = 0; i < s->n; i++) {
    const ds_series_row *r = &s->row[i];
    bool valid = r->summary.ttft.p99 <= 2000 && r->summary.tpot.p99 <= 80;
    cr_assert_eq(r->holds, valid);
    cr_assert(r->holds ? r->rate_per_s <= best : r->rate_per_s > best, "%g", r->rate_per_s);
    if (!r->holds && r->rate_per_s < broken) broken = r->rate_per_s;
    cr_assert_geq(r->summary.completed, 4388u); /* the samples of the data set, at least */
    cr_assert_geq((double)r->summary.completed, r->rate_per_s * 600 - 1);
  }
  cr_assert_leq(broken - best, 0.2);
  free(s);
}
