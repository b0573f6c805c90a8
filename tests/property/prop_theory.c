// SPDX-License-Identifier: GPL-3.0-or-later
/* Against queueing theory: one request at a time, constant service, Poisson arrivals is M/D/1. The
 * mean waiting time is rho S / (2 (1 - rho)) (Pollaczek and Khinchine), held within the 99 %
 * interval of batch means; and each single wait is Lindley's recursion, exact to the nanosecond.
 * Bursts of equal requests wait in exact arithmetic steps. */
#include "harness.h"

static const i64 step_ns = 10000000, prefill_ns = 100000, decode_ns = 1000000;

static void write_scenario(const char *scheduler, const char *options, const char *workload) {
  FILE *f = fopen(at("s.yaml"), "w");
  if (!f) bail("cannot write");
  fprintf(f,
          "scenario: 1\npools:\n  - {name: main, scheduler: %s, kv_blocks: 4000, kv_block_tokens: "
          "16, scheduler_options: {%s}}\n",
          scheduler, options);
  fprintf(f,
          "cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 "
          "ms}\nworkload: %s\n",
          workload);
  if (fclose(f)) bail("cannot write");
}

static bool simulate(table *t) {
  remove(at("r.csv"));
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--requests", at("r.csv"));
  if (rc == 0 && table_load(at("r.csv"), t)) return true;
  note("exit status %d", rc);
  say_stderr();
  return false;
}

static double mean(const double *x, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += x[i];
  return s / n;
}

/* Half the 99 % interval of the mean of 30 batches: Student's t with 29 degrees of freedom
 * is 2.756. */
static double half_width(const double *x, int n) {
  enum { batches = 30 };
  double m[batches], v = 0;
  for (int b = 0; b < batches; b++) m[b] = mean(x + b * (n / batches), n / batches);
  double all = mean(m, batches);
  for (int b = 0; b < batches; b++) v += (m[b] - all) * (m[b] - all);
  return 2.756 * sqrt(v / (batches - 1) / batches);
}

static void holds_for(const char *what, const table *t, const i64 *arrival, int n, double rho,
                      i64 service) {
  double *wait = calloc((size_t)n, sizeof *wait);
  i64 free_at = INT64_MIN, wrong = 0;
  for (int i = 0; i < n; i++) {
    i64 a = arrival[i] - arrival[0], start = free_at > a ? free_at : a;
    free_at = start + service;
    i64 w = cell_ns(t, i + 1, "scheduled_s") - cell_ns(t, i + 1, "arrival_s");
    wrong += w != start - a || cell_ns(t, i + 1, "finish_s") != free_at ||
             cell_ns(t, i + 1, "blame_queue_ms") != w;
    wait[i] = (double)w * 1e-6;
  }
  int from = n / 31; /* the start, when the queue is empty, is left out */
  double expected = rho * (double)service * 1e-6 / (2 * (1 - rho)),
         got = mean(wait + from, n - from), half = half_width(wait + from, n - from);
  tap(wrong == 0, "%s, rho %.1f: every wait is Lindley's recursion to the nanosecond (%d requests)",
      what, rho, n);
  tap(fabs(got - expected) <= half && half < 0.25 * expected,
      "%s, rho %.1f: mean wait %.3f ms, Pollaczek-Khinchine %.3f, interval +-%.3f", what, rho, got,
      expected, half);
  free(wait);
}

static void one_load(double rho, uint64_t seed, const char *scheduler, const char *options,
                     i64 input, i64 output, int n) {
  i64 service = step_ns + prefill_ns * input + (output - 1) * (step_ns + decode_ns);
  i64 *arrival = calloc((size_t)n, sizeof *arrival);
  double now = 0;
  FILE *f = fopen(at("arrivals.jsonl"), "w");
  if (!f) bail("cannot write");
  for (int i = 0; i < n; i++) {
    now += exponential(&seed) * (double)service / rho;
    arrival[i] = llround(now);
    fprintf(
        f,
        "{\"id\": \"%d\", \"arrival_ns\": %lld, \"input_tokens\": %lld, \"output_tokens\": %lld}\n",
        i, (long long)arrival[i], (long long)input, (long long)output);
  }
  if (fclose(f)) bail("cannot write");
  write_scenario(scheduler, options, "{trace: arrivals.jsonl}");
  table t;
  char what[64];
  snprintf(what, sizeof what, "%s, one request of %lld+%lld tokens at a time", scheduler,
           (long long)input, (long long)output);
  if (simulate(&t) && t.rows == n + 1)
    holds_for(what, &t, arrival, n, rho, service);
  else
    tap(false, "%s, rho %.1f runs", what, rho);
  table_free(&t);
  free(arrival);
}

/* n equal requests at time zero, `width` at a time in lock step. */
static void burst(int n, int width, i64 input, i64 output) {
  char options[100], workload[200];
  snprintf(options, sizeof options, "max_num_seqs: %d, max_num_batched_tokens: 8192", width);
  snprintf(workload, sizeof workload,
           "{generate: {requests: %d, arrivals: {process: burst-at-zero}, input_tokens: {law: "
           "fixed, value: %lld}, output_tokens: {law: fixed, value: %lld}}}",
           n, (long long)input, (long long)output);
  write_scenario("vllm-v1", options, workload);
  table t = {0};
  bool good = simulate(&t) && t.rows == n + 1;
  for (int i = 0, in_wave = 0; good && i < n; i += in_wave) {
    in_wave = n - i < width ? n - i : width;
    i64 full = step_ns + prefill_ns * input * width + (output - 1) * (step_ns + decode_ns * width),
        before = i / width * full;
    i64 first = before + step_ns + prefill_ns * input * in_wave,
        last = first + (output - 1) * (step_ns + decode_ns * in_wave);
    for (int k = i + 1; k <= i + in_wave && good; k++)
      good = cell_ns(&t, k, "scheduled_s") == before && cell_ns(&t, k, "first_token_s") == first &&
             cell_ns(&t, k, "finish_s") == last && cell_ns(&t, k, "blame_queue_ms") == before;
  }
  tap(good, "a burst of %d requests, %d at a time, waits in exact steps", n, width);
  table_free(&t);
}

/* The program's own Poisson arrivals: the number of arrivals and the mean wait are those of the
 * process. */
static void generated(double rho, int n) {
  char workload[300];
  i64 service = step_ns + prefill_ns * 100;
  snprintf(workload, sizeof workload,
           "{generate: {requests: %d, arrivals: {process: poisson, rate: %.6f /s}, input_tokens: "
           "{law: fixed, value: 100}, output_tokens: {law: fixed, value: 1}}}",
           n, rho / ((double)service * 1e-9));
  write_scenario("vllm-v1", "max_num_seqs: 1", workload);
  table t = {0};
  if (!simulate(&t) || t.rows != n + 1) {
    tap(false, "generated Poisson arrivals run");
    return;
  }
  i64 *arrival = calloc((size_t)n, sizeof *arrival);
  for (int i = 0; i < n; i++) arrival[i] = cell_ns(&t, i + 1, "arrival_s");
  double gap = (double)arrival[n - 1] / n, expected = (double)service / rho;
  tap(fabs(gap / expected - 1) < 2.576 / sqrt(n),
      "generated Poisson arrivals: mean gap %.3f ms, asked for %.3f", gap * 1e-6, expected * 1e-6);
  double *wait = calloc((size_t)n, sizeof *wait);
  for (int i = 0; i < n; i++)
    wait[i] = (double)(cell_ns(&t, i + 1, "scheduled_s") - arrival[i]) * 1e-6;
  int from = n / 31;
  double got = mean(wait + from, n - from), half = half_width(wait + from, n - from),
         theory = rho * (double)service * 1e-6 / (2 * (1 - rho));
  tap(fabs(got - theory) <= half,
      "generated Poisson arrivals, rho %.1f: mean wait %.3f ms, Pollaczek-Khinchine %.3f, interval "
      "+-%.3f",
      rho, got, theory, half);
  free(wait), free(arrival);
  table_free(&t);
}

int main(void) {
  harness_begin("theory");
  int n = deep() ? 310000 : 62000;
  one_load(0.3, 11, "vllm-v1", "max_num_seqs: 1, max_num_batched_tokens: 8192", 200, 1, n);
  one_load(0.6, 12, "vllm-v1", "max_num_seqs: 1, max_num_batched_tokens: 8192", 100, 4, n);
  one_load(0.8, 13, "vllm-v1", "max_num_seqs: 1, max_num_batched_tokens: 8192", 50, 3, n);
  one_load(0.8, 14, "static", "max_batch_size: 1", 64, 2, n);
  burst(200, 1, 37, 5);
  burst(203, 8, 16, 3);
  generated(0.6, n);
  return tap_end();
}
