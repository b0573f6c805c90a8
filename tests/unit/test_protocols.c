// SPDX-License-Identifier: GPL-3.0-or-later
/* What each benchmark tool sends, against the tools' own rules. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/protocols.h"
#include "study/generator.h"

static bool load(const char *protocol, ds_scenario *sc, ds_diag *d) {
  char text[900];
  snprintf(text, sizeof text,
           "scenario: 1\ncost: {model: linear, step: 10 ms}\npools: [{name: main, scheduler: "
           "vllm-v1, kv_blocks: 9}]\nworkload: {protocol: %s}\n",
           protocol);
  ds_data_dirs dirs = {{"."}, 1};
  memset(d, 0, sizeof *d);
  return ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, sc, d);
}

typedef struct sent {
  ds_scenario sc;
  ds_generated *q;
  size_t n;
  uint32_t in_low, in_high, out_low, out_high;
  double in_mean, out_mean;
} sent;

static sent send_all(const char *protocol) {
  sent s;
  ds_diag d;
  memset(&s, 0, sizeof s);
  cr_assert(load(protocol, &s.sc, &d), "%s: %s (expected %s)", protocol, d.text, d.expected);
  ds_generator *g;
  cr_assert(ds_generator_open(&s.sc.workload, s.sc.run.seed, &g, &d), "%s", d.text);
  s.q = malloc(50000 * sizeof *s.q);
  for (size_t got = 1; got > 0; s.n += got)
    cr_assert(ds_generator_next(g, s.q + s.n, 999, &got, &d), "%s", d.text);
  ds_generator_close(g);
  s.in_low = s.out_low = UINT32_MAX;
  for (size_t i = 0; i < s.n; i++) {
    const ds_generated *q = &s.q[i];
    if (q->input_tokens < s.in_low) s.in_low = q->input_tokens;
    if (q->input_tokens > s.in_high) s.in_high = q->input_tokens;
    if (q->output_tokens < s.out_low) s.out_low = q->output_tokens;
    if (q->output_tokens > s.out_high) s.out_high = q->output_tokens;
    s.in_mean += q->input_tokens / (double)s.n;
    s.out_mean += q->output_tokens / (double)s.n;
  }
  return s;
}

static void done(sent *s) {
  free(s->q);
  ds_scenario_free(&s->sc);
}

Test(protocols, send_what_the_tools_send) {
  sent s = send_all("{tool: vllm-bench}");
  cr_assert(s.n == 1000 && s.q[999].arrival_ns == 0 && !s.sc.workload.closed_loop);
  cr_assert(s.in_low == 1024 && s.in_high == 1024 && s.out_low == 128 && s.out_high == 128);
  done(&s);
  s = send_all("{tool: vllm-bench, requests: 2000, rate: 8 /s, burstiness: 0.5, range_ratio: 0.25, "
               "max_concurrency: 7}");
  cr_assert_leq(llabs(s.q[1999].arrival_ns - 250000000000), 2000); /* exactly requests / rate */
  cr_assert(s.in_low == 768 && s.in_high == 1280, "%u %u", s.in_low, s.in_high);
  cr_assert(s.sc.workload.closed_loop && s.sc.workload.concurrency == 7);
  done(&s);
  s = send_all("{tool: sglang-bench, requests: 20000, range_ratio: 0.5, rate: 8 /s}");
  cr_assert(s.in_low == 512 && s.in_high == 1024 && s.out_low == 512 && s.out_high == 1024);
  cr_assert_float_eq((double)s.q[19999].arrival_ns * 1e-9, 2500, 5 * sqrt(20000) / 8);
  done(&s);
  s = send_all("{tool: inferencex, concurrency: 512, output_tokens: 8192}");
  cr_assert_eq(s.n, 5120u);
  cr_assert(s.in_low == 819 && s.in_high == 1024, "%u %u", s.in_low, s.in_high);
  cr_assert(s.out_low >= 6553 && s.out_low < 6600 && s.out_high <= 8192 && s.out_high > 8150);
  cr_assert_float_eq(s.in_mean, 921.5, 5 * 59.5 / sqrt(5120));
  cr_assert(s.sc.workload.process == DS_ARRIVAL_CLOSED && s.sc.workload.concurrency == 512);
  done(&s);
  s = send_all("{tool: llmperf}");
  cr_assert(s.n == 10 && s.sc.workload.concurrency == 10);
  done(&s);
  s = send_all("{tool: llmperf, requests: 20000, concurrency: 4, output_sd: 10}");
  cr_assert_float_eq(s.in_mean, 549.6, 5 * 150 / sqrt(20000) + 0.2);
  cr_assert_float_eq(s.out_mean, 149.5, 5 * 10 / sqrt(20000));
  done(&s);
  s = send_all(
      "{tool: genai-perf, requests: 20000, output_tokens: 200, output_sd: 50, rate: 4 /s}");
  cr_assert(s.q[9].arrival_ns == 2500000000 && s.in_low == 550 && s.in_high == 550);
  cr_assert_float_eq(s.out_mean, 200, 5 * 50 / sqrt(20000));
  done(&s);
  s = send_all("{tool: aiperf, requests: 100, output_tokens: 200}");
  cr_assert_eq(s.sc.workload.concurrency, 1);
  done(&s);
  s = send_all("{tool: guidellm, strategy: throughput, requests: 50, input_tokens: 256, "
               "output_tokens: 128}");
  cr_assert(s.n == 50 && s.sc.workload.process == DS_ARRIVAL_BURST);
  done(&s);
  s = send_all("{tool: guidellm, strategy: sweep, requests: 50, input_tokens: 256, output_tokens: 128, at: 4 /s, warmup: 0.25}");
  cr_assert(s.n == 50 && s.sc.workload.process == DS_ARRIVAL_CONSTANT && s.sc.workload.series == DS_SERIES_NONE);
  cr_assert(s.q[8].arrival_ns == 2250000000 && s.sc.workload.warmup_requests == 12);
  done(&s);
}

Test(protocols, guidellm_sends_for_a_time) {
  sent s = send_all("{tool: guidellm, strategy: constant, rate: 4 /s, max_seconds: 2.5, "
                    "input_tokens: 256, output_tokens: 128}");
  cr_assert(s.n == 9 && s.q[8].arrival_ns == 2250000000); /* 0.25 s, 0.5 s ... before 2.5 s */
  done(&s);
  s = send_all("{tool: guidellm, strategy: poisson, rate: 40 /s, max_seconds: 100, warmup: 7, "
               "input_tokens: 256, output_tokens: 128}");
  cr_assert(fabs((double)s.n - 4000) < 4 * sqrt(4000) && s.sc.workload.warmup_requests == 7);
  cr_assert(s.q[s.n - 1].arrival_ns < 100 * INT64_C(1000000000));
  done(&s);
}

Test(protocols, mlperf_has_its_minima_limits_and_equal_issue) {
  sent s = send_all("{tool: mlperf, scenario: server, benchmark: llama2-70b, rate: 50 /s, "
                    "input_tokens: 290, output_tokens: 290}");
  cr_assert_eq(s.n, 30000u); /* 600 s, more than the 24,576 samples */
  const ds_slo *slo = &s.sc.run.slo;
  cr_assert(slo->n_run == 2 && slo->run[0].metric == DS_METRIC_TTFT &&
            slo->run[0].percentile == 99);
  cr_assert(slo->run[0].limit_ns == 2000000000 && slo->run[1].limit_ns == 200000000);
  done(&s);
  s = send_all("{tool: mlperf, scenario: interactive, benchmark: llama2-70b, rate: 1 /s, "
               "input_tokens: 290, output_tokens: 290}");
  cr_assert(s.n == 24576 && s.sc.run.slo.run[0].limit_ns == 450000000);
  done(&s);
  s = send_all("{tool: mlperf, scenario: single-stream, benchmark: llama3.1-8b, requests: 100, "
               "input_tokens: 290, output_tokens: 290}");
  cr_assert(s.sc.workload.concurrency == 1 && s.sc.run.slo.n_run == 0);
  cr_assert_eq(s.sc.workload.least_ns, 600 * INT64_C(1000000000));
  done(&s);
  s = send_all("{tool: mlperf, scenario: offline, benchmark: llama3.1-8b, rate: 50 /s, "
               "input_tokens: 290, output_tokens: 290}");
  cr_assert_eq(s.n, 33000u); /* 1.1 * 600 s * 50 /s */
  done(&s);
  s = send_all("{tool: mlperf, scenario: offline, benchmark: llama3.1-8b, rate: 20 /s, "
               "input_tokens: 290, output_tokens: 290}");
  cr_assert_eq(s.n, 13368u); /* 13,200 and the samples */
  done(&s);

  char path[] = "/tmp/dryserve-rows-XXXXXX", protocol[300];
  int fd = mkstemp(path);
  FILE *f = fdopen(fd, "w");
  fputs("TIMESTAMP,ContextTokens,GeneratedTokens\n", f);
  for (int i = 0; i < 100; i++)
    fprintf(f, "2024-05-10 00:00:%02d.%02d0000+00:00,%d,%d\n", i / 50, i % 50, 1000 + i, 100 + i);
  fclose(f);
  snprintf(
      protocol, sizeof protocol,
      "{tool: mlperf, scenario: offline, benchmark: deepseek-r1, requests: 4400, lengths: {rows: "
      "%s}}",
      path);
  s = send_all(protocol);
  size_t seen[100] = {0}, in_order = 0;
  for (size_t i = 0; i < s.n; i++) {
    cr_assert_eq(s.q[i].input_tokens - 1000, s.q[i].output_tokens - 100); /* rows stay together */
    size_t row = s.q[i].input_tokens - 1000;
    cr_assert_eq(seen[row], i / 100, "every sample once in each hundred");
    seen[row]++;
    in_order += row == i % 100;
  }
  cr_assert_lt(in_order, 150u); /* 44 expected of a shuffle */
  done(&s);
  remove(path);
}

Test(protocols, what_a_tool_cannot_do_is_refused) {
  static const struct {
    const char *protocol, *says;
  } c[] = {
      {"{tool: vlm-bench}", "vlm-bench"},
      {"{requests: 5}", "tool is missing"},
      {"{tool: llmperf, requests: 5, concurrency: 1, rate: 1 /s}", "'rate'"},
      {"{tool: inferencex}", "concurrency is missing"},
      {"{tool: guidellm, strategy: sweep}", "requests is missing"},
      {"{tool: guidellm, strategy: sweep, requests: 9, input_tokens: 1, output_tokens: 1, rate: 3 /s}",
       "stands beside strategy: sweep"},
      {"{tool: guidellm, strategy: sweep, requests: 9, input_tokens: 1, output_tokens: 1, rates: 2}", "rates is 2"},
      {"{tool: guidellm, strategy: sweep, requests: 9, input_tokens: 1, output_tokens: 1, at: fast}", "at"},
      {"{tool: guidellm, strategy: throughput, requests: 9, input_tokens: 1, output_tokens: 1, at: 2 /s}",
       "without strategy: sweep"},
      {"{tool: mlperf, scenario: offline, benchmark: llama2-70b, rate: find, input_tokens: 1, output_tokens: 1}",
       "stands beside scenario: offline"},
      {"{tool: guidellm, strategy: constant, requests: 5, input_tokens: 1, output_tokens: 1}",
       "rate is missing"},
      {"{tool: mlperf, scenario: server, benchmark: llama2-70b, input_tokens: 1, output_tokens: "
       "1}",
       "rate is missing"},
      {"{tool: mlperf, scenario: interactive, benchmark: mixtral-8x7b, rate: 1 /s, input_tokens: "
       "1, output_tokens: 1}",
       "no interactive"},
      {"{tool: mlperf, scenario: offline, benchmark: llama2-70b, requests: 100, input_tokens: 1, "
       "output_tokens: 1}",
       "requests is 100"},
      {"{tool: mlperf, scenario: offline, benchmark: llama2-70b, rate: 100 /s, requests: 24576, "
       "input_tokens: 1, output_tokens: 1}",
       "requests is 24576"},
      {"{tool: mlperf, scenario: single-stream, benchmark: llama2-70b, rate: 1 /s, requests: 9, "
       "input_tokens: 1, output_tokens: 1}",
       "stands beside scenario: single-stream"},
      {"{tool: guidellm, strategy: constant, rate: 4 /s, max_seconds: 2, requests: 5, "
       "input_tokens: 1, output_tokens: 1}",
       "max_seconds stands beside requests"},
      {"{tool: guidellm, strategy: concurrent, concurrency: 4, max_seconds: 2, input_tokens: 1, "
       "output_tokens: 1}",
       "max_seconds stands without a rate"},
      {"{tool: guidellm, strategy: sweep, max_seconds: 2, input_tokens: 1, output_tokens: 1}",
       "max_seconds stands without a rate"},
      {"{tool: guidellm, strategy: constant, rate: 4 /s, max_seconds: 2, warmup: 0.1, "
       "input_tokens: 1, output_tokens: 1}",
       "warmup is a share"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(c); i++) {
    ds_scenario sc;
    ds_diag d;
    cr_assert_not(load(c[i].protocol, &sc, &d), "%s", c[i].protocol);
    cr_assert(strstr(d.text, c[i].says) != NULL, "%s: %s", c[i].protocol, d.text);
  }
  for (size_t i = 0; i < ds_n_protocols; i++)
    cr_assert(ds_protocols[i].rules[0] && ds_protocols[i].keys[0] && ds_protocols[i].source[0]);
}
