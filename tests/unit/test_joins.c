// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests that wait for several others: from trace to arrival. */
#include "readers.h"

#include "base/rng.h"
#include "core/registry.h"
#include "study/driver.h"

TestSuite(joins, .init = make_folder, .fini = remove_folder);

static ds_scenario scenario(const char *workload) {
  char text[2000];
  snprintf(text, sizeof text,
           "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, pools: [{replicas: 2, "
           "scheduler: vllm-v1, kv_blocks: 60, kv_block_tokens: 10}], router: {policy: least-outstanding}, workload%s}",
           workload);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", folder, NULL, 0, &dirs, &sc, &d), "%s", d.text);
  return sc;
}

/* Any graph without cycles: everybody arrives its pause after the last of those that it waits for. */
Test(joins, a_request_arrives_after_the_last_that_it_waits_for) {
  enum { N = 120 };
  ds_scenario sc = scenario(": {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}");
  for (uint64_t seed = 1; seed <= 40; seed++) {
    ds_request r[N];
    ds_trace_join j[4 * N];
    size_t n_join = 0;
    for (uint64_t i = 0; i < N; i++) {
      ds_rng g = ds_rng_stream(seed, DS_PURPOSE_TEST, i);
      r[i] = (ds_request){.input_tokens = 1 + (uint32_t)ds_rng_below(&g, 90), .output_tokens = 1 + (uint32_t)ds_rng_below(&g, 12)};
      r[i].max_tokens = r[i].output_tokens;
      if (i == 0 || ds_rng_below(&g, 10) == 0) continue;
      r[i].after = 1 + ds_rng_below(&g, i);
      r[i].think_ns = (int64_t)ds_rng_below(&g, 3) * 7 * MS;
      for (uint64_t k = ds_rng_below(&g, 4); k > 0; k--) j[n_join++] = (ds_trace_join){i, ds_rng_below(&g, i)};
    }
    int64_t finish[2][N];
    for (int no_lease = 0; no_lease < 2; no_lease++) {
      ds_sim *s;
      ds_error err = {0};
      bool more = true;
      ds_sim_options opt = {.records = true, .closed_loop = true, .no_lease = no_lease};
      cr_assert_eq(ds_sim_new(&sc.run, sc.sched, sc.route, &opt, &ds_heap, &s, &err), DS_OK, "%s", err.text);
      cr_assert_eq(ds_sim_feed(s, r, N, &err), DS_OK, "%s", err.text);
      for (size_t k = 0; k < n_join; k++) cr_assert_eq(ds_sim_join(s, j[k].follower, j[k].on, &err), DS_OK);
      ds_sim_close(s);
      while (more) cr_assert_eq(ds_sim_step(s, 100, &more, &err), DS_OK, "%s", err.text);
      const ds_result *res = ds_sim_result(s);
      cr_assert_eq(res->completed, N);
      for (size_t i = 0; i < N; i++) {
        int64_t want = 0;
        if (r[i].after > 0) want = res->records[r[i].after - 1].finish_ns;
        for (size_t k = 0; k < n_join; k++)
          if (j[k].follower == i && res->records[j[k].on].finish_ns > want) want = res->records[j[k].on].finish_ns;
        cr_assert_eq(res->records[i].arrival_ns, want + r[i].think_ns, "seed %d, request %zu", (int)seed, i);
        finish[no_lease][i] = res->records[i].finish_ns;
      }
      ds_sim_free(s);
    }
    cr_assert(memcmp(finish[0], finish[1], sizeof finish[0]) == 0);
  }
  ds_scenario_free(&sc);
}

/* Alone, 50 tokens in and n out take 15 + 11 (n - 1) ms: a ends at 37, b at 42 + 334 on its own replica, c at 44 + 37. */
static const char graph[] =
    "{\"request_id\": \"a\", \"timestamp\": 0, \"input_length\": 50, \"output_length\": 3, \"wait_for\": []}\n"
    "{\"request_id\": \"b\", \"input_length\": 50, \"output_length\": 30, \"wait_for\": [\"a\"], \"tool_wait_ms\": 5}\n"
    "{\"request_id\": \"c\", \"input_length\": 50, \"output_length\": 3, \"wait_for\": [\"a\"], \"tool_wait_ms\": 7}\n"
    "{\"request_id\": \"d\", \"input_length\": 50, \"output_length\": 3, \"wait_for\": [\"b\", \"c\"], \"tool_wait_ms\": 100}\n"
    "{\"request_id\": \"e\", \"input_length\": 50, \"output_length\": 3, \"wait_for\": [\"c\", \"b\"]}\n";

static void run(const char *workload, int64_t *arrival_ns, size_t n) {
  ds_scenario sc = scenario(workload);
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  ds_diag d = {0};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
  cr_assert_eq(drive.result->n, n);
  for (size_t i = 0; i < n; i++) arrival_ns[i] = drive.result->arrival_ns[i];
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

Test(joins, an_agentic_trace_is_followed_as_its_graph) {
  int64_t at[6];
  write_file("t.jsonl", graph, strlen(graph));
  run(": {trace: t.jsonl}", at, 5); /* in order of arrival: a b c e d */
  const int64_t b_ends = 42 * MS + 15 * MS + 29 * 11 * MS;
  cr_assert(at[0] == 0 && at[1] == 42 * MS && at[2] == 44 * MS);
  cr_assert_eq(at[3], b_ends);
  cr_assert_eq(at[4], b_ends + 100 * MS);
  /* Among several workloads, too: the other one is over before. */
  run("s: [{class: x, trace: t.jsonl}, {class: y, requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}]", at, 6);
  cr_assert(at[4] == b_ends && at[5] == b_ends + 100 * MS, "%lld %lld", (long long)at[4], (long long)at[5]);
}

/* Two sub-agents beside each other; the next call waits for both, and its pause counts from the later end. */
Test(joins, a_session_waits_for_all_its_sub_agents) {
  static const char text[] =
      "{\"id\":\"w\",\"models\":[\"m\"],\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":["
      "{\"t\":0,\"type\":\"n\",\"in\":50,\"out\":3,\"hash_ids\":[],\"api_time\":1},"
      "{\"t\":2,\"type\":\"subagent\",\"agent_id\":\"x\",\"duration_ms\":7000,\"requests\":["
      "{\"t\":0,\"type\":\"n\",\"in\":50,\"out\":30,\"hash_ids\":[],\"api_time\":7}]},"
      "{\"t\":2,\"type\":\"subagent\",\"agent_id\":\"y\",\"duration_ms\":3000,\"requests\":["
      "{\"t\":0,\"type\":\"n\",\"in\":50,\"out\":3,\"hash_ids\":[],\"api_time\":3}]},"
      "{\"t\":9.5,\"type\":\"n\",\"in\":50,\"out\":3,\"hash_ids\":[],\"api_time\":1}]}\n";
  int64_t at[4];
  write_file("t.json", text, strlen(text));
  run(": {trace: t.json}", at, 4);
  cr_assert(at[0] == 0 && at[1] == 1037 * MS && at[2] == 1037 * MS);
  cr_assert_eq(at[3], 1037 * MS + 15 * MS + 29 * 11 * MS + 500 * MS);
}
