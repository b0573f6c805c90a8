// SPDX-License-Identifier: GPL-3.0-or-later
/* Several workloads at once: merged by time, judged each by its own. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "report/classes.h"

static bool load(const char *workloads, ds_scenario *sc, ds_diag *d) {
  char text[3000];
  snprintf(text, sizeof text,
           "scenario: 1\ncost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, "
           "decode_sequence: 1 ms}\npools:\n  - {name: main, scheduler: vllm-v1, kv_blocks: 5000, "
           "replicas: 2}\n"
           "workloads: %s\n",
           workloads);
  ds_data_dirs dirs = {{"."}, 1};
  memset(d, 0, sizeof *d);
  return ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, sc, d);
}

#define CHAT                                                                                       \
  "{class: chat, generate: {requests: 300, arrivals: {process: poisson, rate: 20 /s}, "            \
  "input_tokens: 50, output_tokens: 10}"
#define LONG                                                                                       \
  "{class: long, generate: {requests: 100, arrivals: {process: constant, rate: 7 /s}, "            \
  "input_tokens: 900, output_tokens: 3}"
#define TALK                                                                                       \
  "{class: talk, tenant: b, generate: {requests: 200, arrivals: {process: poisson, rate: 2 /s}, "  \
  "input_tokens: 60, output_tokens: 10, session: {turns: 4, think: 100 ms, input_tokens: 20}}"

static size_t column_stream(const ds_drive *drive, size_t i) { return ds_drive_stream(drive, i); }

/* A request is with others what it is alone, and each class has its own figures. */
Test(merged, streams_keep_their_requests) {
  static const char *const more[] = {"[" CHAT "}, " LONG "}]", "[" CHAT "}, " LONG "}, " TALK "}]"};
  for (int with_sessions = 0; with_sessions < 2; with_sessions++) {
    ds_scenario sc, alone;
    ds_diag d;
    cr_assert(load(more[with_sessions], &sc, &d), "%s", d.text);
    cr_assert(load("[" CHAT "}]", &alone, &d), "%s", d.text);
    ds_drive drive = {0}, single = {0};
    ds_drive_options opt = {0};
    opt.sim.records = true;
    cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
    cr_assert(ds_drive_run(&alone, &opt, &single, &d), "%s", d.text);
    size_t n = with_sessions ? 600 : 400, count[3] = {0}, chat = 0;
    cr_assert_eq(drive.result->n, n);
    int64_t before = 0, *arrival = calloc(n, sizeof *arrival);
    ds_arrival_walk w = {0, 0, 0}, v = {0, 0, 0};
    for (size_t i = 0; i < n; i++) {
      arrival[i] = ds_arrival_next(&drive.arrivals, &w);
      cr_assert_geq(arrival[i], before);
      before = arrival[i];
      size_t k = column_stream(&drive, i);
      count[k]++;
      cr_assert_eq(drive.result->outputs[i], k == 1 ? 3u : 10u);
      if (k == 0)
        cr_assert_eq(arrival[i], ds_arrival_next(&single.arrivals, &v), "chat %zu", chat++);
    }
    cr_assert(count[0] == 300 && count[1] == 100 && count[2] == (with_sessions ? 200u : 0u));
    /* Turns follow their own predecessors, wherever these stand among the others. */
    for (size_t i = 0; i < n; i++) {
      const ds_record *q = &drive.result->records[i];
      cr_assert_eq(ds_merged_class(drive.merged, q->index)[0],
                   "clt"[ds_merged_stream(drive.merged, q->index)]);
    }
    char first[40];
    snprintf(first, sizeof first, "%s", ds_trace_id(drive.trace, 0));
    cr_assert(strstr(first, "/0") != NULL, "%s", first);
    free(arrival);
    ds_drive_free(&drive);
    ds_drive_free(&single);
    ds_scenario_free(&sc);
    ds_scenario_free(&alone);
  }
}

Test(merged, each_class_is_judged_by_its_own_slo) {
  ds_scenario sc;
  ds_diag d;
  cr_assert(load("[" CHAT ", slo: {ttft: 5 s, tpot: 200 ms}}, " LONG
                 ", slo: {run: {p99_ttft: 1 ms}}}, " TALK "}]",
                 &sc, &d),
            "%s", d.text);
  ds_classes_complete(&sc);
  ds_drive drive = {0};
  ds_drive_options opt = {0};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
  ds_classes c;
  cr_assert(ds_classes_of(&sc, &drive, &c));
  cr_assert(c.n == 3 && !c.slo_met);
  cr_assert(c.of[0].summary.completed == 300 && c.of[1].summary.completed == 100 &&
            c.of[2].summary.completed == 200);
  cr_assert(c.of[0].summary.has_limits && c.of[0].summary.slo_attainment == 1 &&
            c.of[0].summary.slo_met);
  cr_assert(c.of[1].summary.n_verdicts == 1 && !c.of[1].summary.slo_met);
  cr_assert(!c.of[2].summary.has_limits && c.of[2].summary.slo_met);
  cr_assert_eq(c.of[1].summary.slo_attainment, 0); /* nobody has a first token within 1 ms */
  /* The means of the classes add up to the mean of all. */
  ds_summary all;
  cr_assert(ds_summary_of(&sc.run, drive.result, &drive.arrivals, 0, &all));
  double sum = 0;
  for (size_t k = 0; k < 3; k++)
    sum += c.of[k].summary.e2el.mean * (double)c.of[k].summary.completed;
  cr_assert_float_eq(sum / 600, all.e2el.mean, 1e-6);
  cr_assert_str_eq(sc.stream[2].tenant, "b");
  ds_classes_free(&c);
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

typedef struct by_class {
  ds_classes c;
  ds_drive drive;
  ds_scenario sc;
  ds_summary all;
} by_class;

static void run_classes(const char *workloads, by_class *b) {
  ds_diag d;
  memset(b, 0, sizeof *b);
  cr_assert(load(workloads, &b->sc, &d), "%s", d.text);
  ds_classes_complete(&b->sc);
  ds_drive_options opt = {0};
  cr_assert(ds_drive_run(&b->sc, &opt, &b->drive, &d), "%s", d.text);
  cr_assert(ds_classes_of(&b->sc, &b->drive, &b->c));
  cr_assert(ds_summary_of(&b->sc.run, b->drive.result, &b->drive.arrivals, 0, &b->all));
}

static void free_classes(by_class *b) {
  ds_classes_free(&b->c);
  ds_drive_free(&b->drive);
  ds_scenario_free(&b->sc);
}

/* All workloads have the same clients: a round trip later, and nothing before the end. */
Test(merged, clients_are_those_of_all) {
  by_class server, client;
  run_classes("[" CHAT "}, " LONG "}]", &server);
  run_classes("[" CHAT ", client: {rtt: 40 ms, stream: false}}, " LONG
              ", client: {stream: false, rtt: 40 ms}}]",
              &client);
  for (size_t k = 0; k < 2; k++) {
    const ds_summary *s = &server.c.of[k].summary, *c = &client.c.of[k].summary;
    cr_assert_float_eq(c->e2el.mean, s->e2el.mean + 40, 1e-6);
    cr_assert_float_eq(c->ttft.mean, c->e2el.mean, 1e-9);
  }
  free_classes(&server);
  free_classes(&client);
}

Test(merged, a_warm_up_takes_from_each_class) {
  by_class plain, late;
  run_classes("[" CHAT "}, " LONG "}, " TALK "}]", &plain);
  run_classes("[" CHAT ", warmup: {duration: 5 s}}, " LONG ", warmup: {duration: 5 s}}, " TALK
              ", warmup: {duration: 5 s}}]",
              &late);
  size_t count[3] = {0};
  ds_arrival_walk w = {0, 0, 0};
  int64_t first_ns = 0;
  for (size_t i = 0; i < plain.drive.result->n; i++) {
    int64_t at_ns = ds_arrival_next(&plain.drive.arrivals, &w);
    if (i == 0) first_ns = at_ns;
    if (at_ns - first_ns >= 5 * DS_NS_PER_S) count[ds_drive_stream(&plain.drive, i)]++;
  }
  for (size_t k = 0; k < 3; k++)
    cr_assert(count[k] > 0 && late.c.of[k].summary.completed == count[k], "%zu: %zu", k, count[k]);
  cr_assert_lt(late.all.completed, plain.all.completed);
  free_classes(&plain);
  free_classes(&late);
}

Test(merged, who_gives_up_counts_in_his_class) {
  by_class b;
  /* The long prompts alone are 91 ms in their first step. */
  run_classes("[" CHAT ", client: {timeout: 300 ms}}, " LONG ", client: {timeout: 300 ms}}]", &b);
  uint64_t given_up = 0, completed = 0;
  double sum = 0;
  for (size_t k = 0; k < 2; k++) {
    const ds_summary *s = &b.c.of[k].summary;
    given_up += s->timed_out;
    completed += s->completed;
    sum += s->e2el.mean * (double)s->completed;
    cr_assert_eq(s->timed_out + s->completed, k == 0 ? 300u : 100u);
    cr_assert_leq(s->e2el.max, 300.0);
  }
  cr_assert(given_up == b.all.timed_out && given_up > 0 && completed == b.all.completed);
  cr_assert_float_eq(sum / (double)completed, b.all.e2el.mean, 1e-6);
  free_classes(&b);
}

Test(merged, what_cannot_be_mixed_is_refused) {
  static const struct {
    const char *workloads, *says;
  } t[] = {
      {"[]", "0 entries"},
      {"{}", "workloads is"},
      {"[" CHAT "}, " CHAT "}]", "a second time"},
      {"[{generate: {requests: 5, arrivals: {rate: 1 /s}, input_tokens: 1, output_tokens: 1}}]",
       "class is missing"},
      {"[{class: a, protocol: {tool: inferencex, concurrency: 4}}]",
       "concurrency is for one workload"},
      {"[" CHAT ", slo: {itl: 5 ms}}]", "gaps between tokens"},
      {"[" CHAT ", client: {rtt: 1 s}}, " LONG "}]", "workloads.1.client is not as in the first"},
      {"[" CHAT ", client: {timeout: 1 s}}, " LONG ", client: {timeout: 2 s}}]",
       "workloads.1.client is not as in the first"},
      {"[" CHAT "}, " LONG ", warmup: {duration: 1 s}}]", "workloads.1.warmup is not as"},
      {"[" CHAT ", warmup: {requests: 5}}]", "workloads.0.warmup.requests: a number among several"},
      {"[{class: a, protocol: {tool: guidellm, strategy: constant, rate: 1 /s, requests: 9, warmup: "
       "2, input_tokens: 1, output_tokens: 1}}]",
       "a warm-up of 2 requests"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(t); i++) {
    ds_scenario sc;
    ds_diag d;
    cr_assert_not(load(t[i].workloads, &sc, &d), "case %zu", i);
    cr_assert(strstr(d.text, t[i].says) != NULL, "case %zu: %s", i, d.text);
  }
}

/* Drafts of one class are all accepted and of the other never: what each needs is known. Outputs of 10 after the first
 * token take 3 verify steps of 4 tokens, outputs of 3 take 2 of 1. Leases, order of advance and a second run change
 * nothing. */
Test(merged, drafts_are_accepted_by_class) {
  static const char *const speculative[] = {"{chat: 1, long: 0}", "{chat: [1, 1, 1], long: [0, 1, 1]}"};
  for (size_t way = 0; way < 2; way++) {
    char text[2000];
    snprintf(text, sizeof text,
             "scenario: 1\ncost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms, "
             "draft_token: 0.2 ms}\nrouter: {policy: least-outstanding}\npools:\n  - {name: main, scheduler: vllm-v1, "
             "kv_blocks: 700, replicas: 3, speculative: {method: ngram, tokens: 3, acceptance: %s}}\n"
             "workloads: [" CHAT "}, " LONG "}]\n",
             speculative[way]);
    ds_data_dirs dirs = {{"."}, 1};
    ds_scenario sc;
    ds_diag d = {0};
    ds_drive drive[3] = {{0}};
    cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
    for (int k = 0; k < 3; k++) {
      ds_drive_options opt = {0};
      opt.sim.records = true;
      opt.sim.no_lease = opt.sim.eager = k == 1;
      cr_assert(ds_drive_run(&sc, &opt, &drive[k], &d), "%s", d.text);
      const ds_result *r = drive[k].result;
      const ds_spec_totals *t = r->stream_speculation;
      const uint64_t expected[2][3] = {{900, 2700, 2700}, {200, 600, 0}};
      cr_assert_not_null(t);
      for (int c = 0; c < 2; c++) {
        cr_expect_eq(t[c].drafts, expected[c][0], "class %d", c);
        cr_expect_eq(t[c].draft_tokens, expected[c][1], "class %d", c);
        cr_expect_eq(t[c].accepted_tokens, expected[c][2], "class %d", c);
        for (int i = 0; i < 3; i++) cr_expect_eq(t[c].accepted_at[i], c == 0 ? 900u : 0u);
      }
      cr_expect_eq(r->speculation.accepted_tokens, 2700u);
      cr_expect_eq(r->n, 400u);
      for (size_t i = 0; i < r->n; i++) {
        const ds_record *a = &r->records[i], *b = &drive[0].result->records[i];
        cr_assert(a->first_token_ns == b->first_token_ns && a->finish_ns == b->finish_ns &&
                      a->replica == b->replica && memcmp(a->blame_ns, b->blame_ns, sizeof a->blame_ns) == 0,
                  "way %zu, run %d, request %zu", way, k, i);
      }
    }
    for (int k = 0; k < 3; k++) ds_drive_free(&drive[k]);
    ds_scenario_free(&sc);
  }
}

/* A policy that is fair to tenants must see whose requests a workload sends. */
Test(merged, the_tenant_of_a_workload_is_that_of_its_requests) {
  ds_scenario sc;
  ds_diag d;
  cr_assert(load("[" CHAT "}, " TALK "}]", &sc, &d), "%s", d.text);
  ds_merged *m;
  ds_trace *trace;
  cr_assert(ds_merged_open(&sc.workload, 1, &m, &trace, &d), "%s", d.text);
  ds_request r[64];
  size_t n, seen[2] = {0};
  for (uint64_t index = 0; ds_trace_read(trace, r, 64, &n, &d) && n > 0;) {
    for (size_t i = 0; i < n; i++, index++) {
      size_t k = ds_merged_stream(m, index);
      seen[k]++;
      cr_assert_eq(r[i].stream, k);
      cr_assert_eq(r[i].tenant != 0, k == 1);
    }
  }
  cr_assert(seen[0] == 300 && seen[1] == 200);
  ds_trace_close(trace);
  ds_merged_close(m);
  ds_scenario_free(&sc);
}
