// SPDX-License-Identifier: GPL-3.0-or-later
/* A closed loop from scenario to report: times by hand, order of columns, rejected requests. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "study/driver.h"
#include "study/measured.h"

#define MS 1000000LL

static ds_scenario load(const char *pool, const char *workload) {
  char text[2000];
  snprintf(text, sizeof text,
           "scenario: 1\ncost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, "
           "decode_sequence: 1 ms}\npools:\n  - {name: main, scheduler: vllm-v1, %s}\nworkload: "
           "%s\n",
           pool, workload);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s",
            d.text);
  return sc;
}

/* One request alone: a prefill iteration, then one for each further token. */
static int64_t alone_ns(uint32_t in, uint32_t out) {
  return 10 * MS + in * MS / 10 + (int64_t)(out - 1) * 11 * MS;
}

Test(closed_drive, one_client_is_served_request_by_request) {
  for (int think_ms = 0; think_ms <= 250; think_ms += 250) {
    char workload[300];
    snprintf(workload, sizeof workload,
             "{generate: {requests: 50, arrivals: {process: closed-loop, concurrency: 1, think: "
             "%d ms}, input_tokens: 100, output_tokens: 5}}",
             think_ms);
    ds_scenario sc = load("kv_blocks: 200", workload);
    ds_drive drive = {0};
    ds_drive_options opt = {0};
    ds_diag d = {0};
    cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
    const ds_result *r = drive.result;
    cr_assert_eq(r->n, 50);
    int64_t each = alone_ns(100, 5), period = each + think_ms * MS;
    for (size_t i = 0; i < r->n; i++) {
      cr_assert_eq(r->arrival_ns[i], (int64_t)i * period);
      cr_assert_eq(r->e2e_ns[i], each);
    }
    cr_assert_eq(drive.arrivals.n, 50);
    cr_assert_eq(drive.arrivals.last_ns, 49 * period);
    ds_summary s;
    cr_assert(ds_summary_of(&sc.run, r, &drive.arrivals, 0, &s));
    cr_assert_float_eq(s.duration_s, (double)(49 * period + each) / 1e9, 1e-12);
    cr_assert_eq(s.flow.max_concurrent, 1);
    cr_assert_not(s.saturated);
    ds_drive_free(&drive);
    ds_scenario_free(&sc);
  }
}

/* Chains that start late and overtake each other: reports want order of arrival. */
Test(closed_drive, columns_come_in_order_of_arrival) {
  ds_scenario sc =
      load("kv_blocks: 200", "{requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}");
  ds_request r[] = {
      {.arrival_ns = 0, .input_tokens = 50, .output_tokens = 2, .max_tokens = 2},
      {.after = 1, .think_ns = 5000 * MS, .input_tokens = 60, .output_tokens = 3, .max_tokens = 3},
      {.arrival_ns = 1000 * MS, .input_tokens = 70, .output_tokens = 4, .max_tokens = 4},
      {.after = 3, .think_ns = 500 * MS, .input_tokens = 80, .output_tokens = 5, .max_tokens = 5},
  };
  static const size_t order[] = {0, 2, 3, 1};
  int64_t arrival[4] = {0, alone_ns(50, 2) + 5000 * MS, 1000 * MS, 0};
  arrival[3] = arrival[2] + alone_ns(70, 4) + 500 * MS;
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  ds_diag d = {0};
  opt.sim.closed_loop = opt.sim.records = true;
  cr_assert(ds_drive_requests(&sc, &opt, r, 4, &drive, &d), "%s", d.text);
  ds_arrival_walk w = {0, 0, 0};
  for (size_t i = 0; i < 4; i++) {
    const ds_request *q = &r[order[i]];
    cr_assert_eq(drive.result->arrival_ns[i], arrival[order[i]]);
    cr_assert_eq(ds_arrival_next(&drive.arrivals, &w), arrival[order[i]]);
    cr_assert_eq(drive.result->e2e_ns[i], alone_ns(q->input_tokens, q->output_tokens));
    cr_assert_eq(drive.result->outputs[i], q->output_tokens);
  }
  cr_assert_eq(drive.arrivals.input.sum, 50 + 60 + 70 + 80);
  cr_assert_eq(r[1].arrival_ns, 0, "what was given stays as it was");
  cr_assert_str_eq(ds_drive_id(&drive, 2), "2");
  ds_drive_free(&drive);

  /* The same array in open loop: as it stands, not in order. */
  opt.sim.closed_loop = false;
  cr_assert_not(ds_drive_requests(&sc, &opt, r, 4, &drive, &d));
  cr_assert(strstr(d.text, "in order of arrival") != NULL, "%s", d.text);
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

/* The second of a chain is too large for the pool: the third follows the first. */
Test(closed_drive, who_followed_a_rejected_request_follows_its_predecessor) {
  ds_scenario sc = load("kv_blocks: 10", "{trace: nowhere, import: {oversize: reject}}");
  ds_request r[] = {
      {.input_tokens = 900, .output_tokens = 1, .max_tokens = 1},
      {.input_tokens = 20, .output_tokens = 2, .max_tokens = 2},
      {.after = 2, .input_tokens = 500, .output_tokens = 2, .max_tokens = 2},
      {.after = 3, .think_ns = 7 * MS, .input_tokens = 30, .output_tokens = 2, .max_tokens = 2},
      {.after = 1, .input_tokens = 40, .output_tokens = 1, .max_tokens = 1, .arrival_ns = 900 * MS},
  };
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  ds_diag d = {0};
  opt.sim.closed_loop = true;
  cr_assert(ds_drive_requests(&sc, &opt, r, 5, &drive, &d), "%s", d.text);
  cr_assert_eq(drive.result->n, 3);
  cr_assert_eq(drive.oversize.n, 2);
  cr_assert_eq(drive.result->arrival_ns[0], 0);
  cr_assert_eq(drive.result->arrival_ns[1], alone_ns(20, 2) + 7 * MS);
  cr_assert_eq(drive.result->arrival_ns[2], 900 * MS);
  cr_assert_str_eq(ds_drive_id(&drive, 1), "3");
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

/* A cache that never runs out finds what the generator says was said before, but for partial blocks
 * and requests that overlap. */
Test(closed_drive, generated_conversations_are_found_in_the_cache) {
  ds_scenario sc = load(
      "kv_blocks: 4000000, kv_block_tokens: 1, prefix_cache: true",
      "{generate: {requests: 600, arrivals: {process: closed-loop, concurrency: "
      "1}, input_tokens: 50, output_tokens: 7, session: {turns: {law: uniform, min: 1, max: 9}, "
      "think: 1 s, input_tokens: {law: uniform, min: 5, max: 30}, max_context: 200, compact_to: "
      "60}, "
      "prefix: {groups: 3, tokens: 20}}}");
  ds_generator *g;
  ds_diag d = {0};
  cr_assert(ds_generator_open(&sc.workload, sc.run.seed, &g, &d), "%s", d.text);
  static ds_generated q[1000];
  ds_reuse reuse = {0};
  size_t n;
  cr_assert(ds_generator_next(g, q, 1000, &n, &d) && n == 600);
  for (size_t i = 0; i < n; i++) cr_assert(ds_reuse_add(&reuse, &q[i]));
  ds_generator_close(g);
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
  /* The last token of an answer is never computed, so it is not there yet. */
  uint64_t turns = 0;
  for (size_t i = 0; i < n; i++) turns += q[i].turn > 0 && (i == 0 || q[i].epoch == q[i - 1].epoch);
  cr_assert_eq(drive.result->cached_tokens, reuse.reused_tokens - turns, "%llu of %llu",
               (unsigned long long)drive.result->cached_tokens,
               (unsigned long long)reuse.reused_tokens);
  ds_reuse_free(&reuse);
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

Test(closed_drive, lease_and_no_lease_agree) {
  ds_scenario sc = load("kv_blocks: 300, replicas: 2",
                        "{generate: {requests: 400, arrivals: {process: closed-loop, concurrency: "
                        "24}, input_tokens: {law: lognormal, mean: 60, p99: 200}, output_tokens: "
                        "{law: lognormal, mean: 40, p99: 160}}}");
  ds_drive drive[2];
  memset(drive, 0, sizeof drive);
  for (int i = 0; i < 2; i++) {
    ds_drive_options opt = {0};
    ds_diag d = {0};
    opt.sim.no_lease = i == 1;
    cr_assert(ds_drive_run(&sc, &opt, &drive[i], &d), "%s", d.text);
    ds_summary s;
    cr_assert(ds_summary_of(&sc.run, drive[i].result, &drive[i].arrivals, 0, &s));
    cr_assert_eq(s.flow.max_concurrent, 24);
  }
  size_t bytes = 400 * sizeof(int64_t);
  cr_assert_arr_eq(drive[0].result->arrival_ns, drive[1].result->arrival_ns, bytes);
  cr_assert_arr_eq(drive[0].result->e2e_ns, drive[1].result->e2e_ns, bytes);
  ds_drive_free(&drive[0]);
  ds_drive_free(&drive[1]);
  ds_scenario_free(&sc);
}

Test(closed_drive, what_makes_no_sense_is_refused) {
  static const struct {
    const char *arrivals, *says;
  } c[] = {{"{process: closed-loop}", "concurrency is missing"},
           {"{process: closed-loop, concurrency: 0}", "concurrency"},
           {"{process: closed-loop, concurrency: 4, rate: 1 /s}", "rate stands beside"},
           {"{process: poisson, rate: 1 /s, think: 1 s}", "think stands beside process: poisson"},
           {"{process: closed-loop, concurrency: 4, think: 5}", "unit"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(c); i++) {
    char text[500];
    snprintf(text, sizeof text,
             "scenario: 1\ncost: {model: linear, step: 10 ms}\npools: [{name: main, scheduler: "
             "vllm-v1, kv_blocks: 9}]\nworkload: {generate: {requests: 9, arrivals: %s, "
             "input_tokens: 9, output_tokens: 9}}\n",
             c[i].arrivals);
    ds_data_dirs dirs = {{"."}, 1};
    ds_scenario sc;
    ds_diag d = {0};
    cr_assert_not(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d));
    cr_assert(strstr(d.text, c[i].says) != NULL, "case %zu: %s", i, d.text);
  }
}

/* A round trip adds to both ends; without streaming the first content is the last. Nothing else
 * changes at an open loop, and a closed loop waits a round trip longer for each next request. */
Test(closed_drive, clients_see_a_round_trip_and_perhaps_no_stream) {
  static const char *const arrivals[] = {"process: poisson, rate: 30 /s",
                                         "process: closed-loop, concurrency: 1"};
  for (int closed = 0; closed < 2; closed++) {
    ds_drive drive[3];
    ds_scenario sc[3];
    memset(drive, 0, sizeof drive);
    static const char *const client[] = {"", ", client: {rtt: 40 ms}",
                                         ", client: {stream: false, rtt: 40 ms}"};
    for (int k = 0; k < 3; k++) {
      char workload[400];
      snprintf(workload, sizeof workload,
               "{generate: {requests: 120, arrivals: {%s}, input_tokens: 100, output_tokens: {law: "
               "uniform, min: 1, max: "
               "9}}%s}\nslo: {ttft: 100 ms, e2e: 150 ms}",
               arrivals[closed], client[k]);
      sc[k] = load("kv_blocks: 300", workload);
      ds_drive_options opt = {0};
      ds_diag d = {0};
      opt.sim.records = true;
      cr_assert(ds_drive_run(&sc[k], &opt, &drive[k], &d), "%s", d.text);
    }
    uint64_t good[3] = {0};
    for (size_t i = 0; i < 120; i++) {
      for (int k = 0; k < 3; k++) {
        const ds_result *r = drive[k].result;
        good[k] += r->ttft_ns[i] <= 100 * MS && r->e2e_ns[i] <= 150 * MS;
        const ds_record *q = &r->records[i];
        int64_t blamed = 0;
        for (int c = 0; c < DS_CAUSE_N; c++) blamed += q->blame_ns[c];
        cr_assert_eq(blamed, q->finish_ns - q->arrival_ns);
        cr_assert_eq(q->blame_ns[DS_CAUSE_CLIENT], k == 0 ? 0 : 40 * MS);
      }
      const ds_result *a = drive[0].result, *b = drive[1].result, *c = drive[2].result;
      cr_assert(b->ttft_ns[i] == a->ttft_ns[i] + 40 * MS && b->e2e_ns[i] == a->e2e_ns[i] + 40 * MS);
      cr_assert(c->ttft_ns[i] == b->e2e_ns[i] && c->e2e_ns[i] == b->e2e_ns[i]);
      if (closed) cr_assert_eq(b->arrival_ns[i], a->arrival_ns[i] + (int64_t)i * 40 * MS);
    }
    for (int k = 0; k < 3; k++) {
      cr_assert_eq(drive[k].result->good, good[k], "client %d: %d good, %d by the columns", k,
                   (int)drive[k].result->good, (int)good[k]);
      ds_drive_free(&drive[k]);
      ds_scenario_free(&sc[k]);
    }
    cr_assert(good[0] >= good[1] && good[1] >= good[2] && good[0] > good[2]);
  }
}
