// SPDX-License-Identifier: GPL-3.0-or-later
/* A warm-up is simulated and in no figure about requests: what is left is the run of the others alone, where nothing of
 * the warm-up is left in the server by then. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "report/summary.h"
#include "study/driver.h"

typedef struct outcome {
  ds_summary s;
  double made;
  size_t left_out;
} outcome;

static bool try(const char *requests, const char *more, outcome *o, ds_diag *d) {
  char text[3000];
  snprintf(text, sizeof text,
           "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, slo: {ttft: 30 ms, tpot: "
           "13 ms, itl: 25 ms}, pools: [{kv_blocks: 90, kv_block_tokens: 10, scheduler: vllm-v1}], workload: {%s%s}}",
           requests, more);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  memset(o, 0, sizeof *o);
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, d), "%s", d->text);
  bool good = ds_drive_run(&sc, &opt, &drive, d);
  if (good) {
    cr_assert(ds_summary_of(&sc.run, drive.result, &drive.arrivals, 0, &o->s));
    o->made = (double)drive.arrivals.input.sum;
    o->left_out = drive.warmup.n;
  }
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
  return good;
}

static outcome run(const char *requests, const char *more) {
  outcome o;
  ds_diag d = {0};
  cr_assert(try(requests, more, &o, &d), "%s", d.text);
  return o;
}

#define EARLY                                                                                                                     \
  "{arrival_ns: 0, input_tokens: 300, output_tokens: 40}, {arrival_ns: 0, input_tokens: 10, output_tokens: 3}, {arrival: 1 s, " \
  "input_tokens: 70, output_tokens: 9}, "
#define REST                                                                                                                    \
  "{arrival: 100 s, input_tokens: 100, output_tokens: 20}, {arrival: 100.01 s, input_tokens: 200, output_tokens: 30}, "        \
  "{arrival: 100.02 s, input_tokens: 50, output_tokens: 1}, {arrival: 101 s, input_tokens: 20, output_tokens: 50}"

static void same(const outcome *a, const outcome *b) {
  const ds_dist *x[] = {&a->s.ttft, &a->s.tpot, &a->s.itl, &a->s.e2el, &a->s.queue, &a->s.normalized};
  const ds_dist *y[] = {&b->s.ttft, &b->s.tpot, &b->s.itl, &b->s.e2el, &b->s.queue, &b->s.normalized};
  for (size_t i = 0; i < 6; i++) {
    cr_assert_eq(x[i]->count, y[i]->count, "column %zu", i);
    cr_assert_float_eq(x[i]->mean, y[i]->mean, 1e-9);
    cr_assert_float_eq(x[i]->std, y[i]->std, 1e-6);
    cr_assert_float_eq(x[i]->p99, y[i]->p99, 1e-9);
    cr_assert_float_eq(x[i]->max, y[i]->max, 1e-9);
  }
  cr_assert_eq(a->s.completed, b->s.completed);
  cr_assert_eq(a->s.output_tokens, b->s.output_tokens);
  cr_assert_eq(a->s.max_output_tokens_per_s, b->s.max_output_tokens_per_s);
  cr_assert_float_eq(a->s.duration_s, b->s.duration_s, 1e-9);
  cr_assert_float_eq(a->s.request_goodput, b->s.request_goodput, 1e-9);
  cr_assert_float_eq(a->s.slo_attainment, b->s.slo_attainment, 1e-12);
  cr_assert_eq(a->s.flow.max_concurrent, b->s.flow.max_concurrent);
  cr_assert_float_eq(a->made, b->made, 1e-9);
}

Test(warmup, what_is_left_is_the_run_without_it) {
  outcome alone = run("requests: [" REST "]", ""), by_count = run("requests: [" EARLY REST "]", ", warmup: {requests: 3}"),
          by_time = run("requests: [" EARLY REST "]", ", warmup: {duration: 50 s}");
  cr_assert_eq(by_count.left_out, 3);
  cr_assert_eq(by_time.left_out, 3);
  same(&alone, &by_count);
  same(&alone, &by_time);
  cr_assert(by_count.s.busy_fraction < alone.s.busy_fraction); /* over the whole run, which is mostly idle */
}

Test(warmup, a_client_sees_the_same_round_trip) {
  outcome alone = run("requests: [" REST "]", ", client: {rtt: 5 ms}"),
          cut = run("requests: [" EARLY REST "]", ", client: {rtt: 5 ms}, warmup: {requests: 3}");
  same(&alone, &cut);
}

/* Of a closed loop the first N by arrival: all the same here. */
Test(warmup, a_closed_loop_loses_its_first_requests) {
  const char *loop = "generate: {requests: 40, arrivals: {process: closed-loop, concurrency: 1}, input_tokens: 100, output_tokens: 5}";
  outcome whole = run(loop, ""), cut = run(loop, ", warmup: {requests: 10}");
  cr_assert_eq(cut.s.completed, 30);
  cr_assert_float_eq(cut.s.ttft.mean, whole.s.ttft.mean, 1e-9);
  cr_assert_float_eq(cut.s.duration_s, whole.s.duration_s * 30 / 40, 1e-9);
  cr_assert_float_eq(cut.s.output_throughput, whole.s.output_throughput, 1e-6);
}

Test(warmup, given_up_requests_count_where_they_arrive) {
  outcome cut = run("requests: [" EARLY REST "]", ", client: {timeout: 300 ms}, warmup: {requests: 3}"),
          alone = run("requests: [" REST "]", ", client: {timeout: 300 ms}");
  cr_assert_eq(cut.s.timed_out, alone.s.timed_out);
  cr_assert_gt(cut.s.timed_out, 0);
  cr_assert_eq(cut.s.completed, alone.s.completed);
  cr_assert_float_eq(cut.s.e2el.mean, alone.s.e2el.mean, 1e-9);
  cr_assert_float_eq(cut.s.duration_s, alone.s.duration_s, 1e-9);
}

Test(warmup, something_must_be_left) {
  outcome o;
  ds_diag d = {0};
  cr_assert_not(try("requests: [" REST "]", ", warmup: {requests: 4}", &o, &d));
  cr_assert(strstr(d.text, "all 4 requests") != NULL, "%s", d.text);
}
