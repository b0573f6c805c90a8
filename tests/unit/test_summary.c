// SPDX-License-Identifier: GPL-3.0-or-later
/* The report's figures against hand-made results whose right answers are known: vLLM's definitions,
 * queueing theory, the binomial distribution. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/numbers.h"
#include "report/summary.h"

#define MAX_REQUESTS 64
#define MAX_GAPS     256

/* A result put together request by request from times in milliseconds. */
typedef struct world {
  int64_t ttft[MAX_REQUESTS], e2e[MAX_REQUESTS], queue[MAX_REQUESTS];
  uint32_t outputs[MAX_REQUESTS];
  ds_gap_run gap[MAX_GAPS];
  ds_gaps gaps;
  ds_second page[DS_SECONDS_PAGE];
  ds_second *pages[1];
  ds_seconds seconds;
  ds_replica_totals replica;
  ds_arrivals arrivals;
  ds_run run;
  ds_result r;
  uint64_t rejected;
} world;

static int64_t ns(double ms) { return llround(ms * 1e6); }

static world *world_new(void) {
  world *w = calloc(1, sizeof *w);
  cr_assert_not_null(w);
  w->run.cost_tier = DS_COST_LINEAR;
  w->run.pool.replicas = w->run.pool.tensor_parallel = w->run.pool.data_parallel =
      w->run.pool.pipeline_parallel = 1;
  w->run.pool.kv_block_tokens = 16;
  w->gaps.exact = true;
  w->gaps.run = w->gap;
  w->pages[0] = w->page;
  w->seconds.page = w->pages;
  w->seconds.n_pages = 1;
  w->r.ttft_ns = w->ttft;
  w->r.e2e_ns = w->e2e;
  w->r.queue_ns = w->queue;
  w->r.outputs = w->outputs;
  w->r.itl = &w->gaps;
  w->r.seconds = &w->seconds;
  w->r.replicas = &w->replica;
  w->r.n_replicas = 1;
  w->r.memory.kv_blocks = DS_KV_UNLIMITED;
  return w;
}

static void world_free(world *w) {
  ds_arrivals_free(&w->arrivals);
  free(w);
}

/* A request sent at send_ms whose tokens come at these times; it was scheduled queue_ms after it
 * was sent. */
static void add_request(world *w, double send_ms, double queue_ms, uint32_t prompt,
                        const double *token_ms, uint32_t n) {
  size_t i = w->r.n++;
  cr_assert_lt(i, (size_t)MAX_REQUESTS);
  ds_request q = {.arrival_ns = ns(send_ms), .input_tokens = prompt, .output_tokens = n, .max_tokens = n};
  cr_assert(ds_arrivals_add(&w->arrivals, &q, 1));
  w->ttft[i] = ns(token_ms[0] - send_ms);
  w->e2e[i] = ns(token_ms[n - 1] - send_ms);
  w->queue[i] = ns(queue_ms);
  w->outputs[i] = n;
  for (uint32_t k = 0; k < n; k++) {
    w->page[(size_t)(token_ms[k] / 1000)].tokens++;
    if (k == 0) continue;
    int64_t gap = ns(token_ms[k] - token_ms[k - 1]);
    w->gap[w->gaps.n_run++] = (ds_gap_run){gap, 1};
    w->gaps.count++;
    ds_wide_add(&w->gaps.sum, (uint64_t)gap);
    ds_wide_add_wide(&w->gaps.sum_sq, ds_wide_mul((uint64_t)gap, (uint64_t)gap));
    if (gap > w->gaps.max_ns) w->gaps.max_ns = gap;
  }
  w->r.submitted++;
  w->r.completed++;
  w->r.input_tokens += prompt;
  w->r.output_tokens += n;
  if (i == 0) w->r.first_arrival_ns = q.arrival_ns;
  w->r.last_arrival_ns = q.arrival_ns;
  if (ns(token_ms[n - 1]) > w->r.last_finish_ns) w->r.last_finish_ns = ns(token_ms[n - 1]);
}

static ds_summary summary_of(world *w) {
  ds_summary s;
  cr_assert(ds_summary_of(&w->run, &w->r, &w->arrivals, w->rejected, &s));
  return s;
}

static void near(double got, double want, double tolerance, const char *what) {
  cr_assert(fabs(got - want) <= tolerance, "%s: %.17g, expected %.17g", what, got, want);
}

static void same_dist(const ds_dist *d, const double *want, double tolerance, const char *what) {
  const double got[] = {d->mean, d->p50, d->std, d->p90, d->p95, d->p99};
  for (size_t i = 0; i < DS_ARRAY_LEN(got); i++) near(got[i], want[i], tolerance, what);
}

Test(summary, one_request_as_vllm_has_it) { /* M1 */
  world *w = world_new();
  add_request(w, 0, 0, 20, (double[]){100, 110, 130, 170}, 4);
  ds_summary s = summary_of(w);
  near(s.ttft.mean, 100, 0, "ttft");
  near(s.tpot.mean, 70.0 / 3, 1e-12, "tpot");
  near(s.e2el.p99, 170, 0, "e2el");
  same_dist(&s.itl, (double[]){70.0 / 3, 20, 12.472191289246473, 36, 38, 39.6}, 1e-9, "itl");
  near(s.normalized.mean, 42.5, 0, "normalized latency");
  near(s.mean_interactivity, 3000.0 / 70, 1e-12, "interactivity");
  near(s.max_itl_ms, 40, 0, "max itl");
  world_free(w);
}

Test(summary, single_token_has_no_tpot) { /* M2: empty lists give 0 */
  world *w = world_new();
  add_request(w, 0, 0, 20, (double[]){100}, 1);
  ds_summary s = summary_of(w);
  cr_assert_eq(s.tpot.count, 0);
  near(s.ttft.mean, 100, 0, "ttft");
  near(s.e2el.mean, 100, 0, "e2el");
  same_dist(&s.tpot, (double[]){0, 0, 0, 0, 0, 0}, 0, "tpot");
  same_dist(&s.itl, (double[]){0, 0, 0, 0, 0, 0}, 0, "itl");
  near(s.mean_interactivity, 0, 0, "interactivity");
  near(s.normalized.mean, 100, 0, "normalized latency");
  world_free(w);
}

Test(summary, percentiles_are_linear) { /* M4, M17 */
  world *w = world_new();
  for (int i = 1; i <= 10; i++) add_request(w, 0, 0, 1, (double[]){i * 10}, 1);
  ds_summary s = summary_of(w);
  same_dist(&s.ttft, (double[]){55, 55, 28.722813232690143, 91, 95.5, 99.1}, 1e-9, "ttft");
  world_free(w);
  w = world_new();
  double token[21] = {0};
  for (int i = 1; i <= 20; i++) token[i] = token[i - 1] + (i <= 18 ? 20 : i == 19 ? 90 : 110);
  add_request(w, 0, 0, 1, token, 21);
  s = summary_of(w);
  near(s.itl.p99, 106.2, 1e-9, "p99 itl");
  near(s.itl.mean, 28, 1e-9, "mean itl");
  world_free(w);
}

Test(summary,
     goodput_and_attainment) { /* M5 without the request that times out, then M12's denominators */
  world *w = world_new();
  w->run.slo.request = (ds_slo_request){ns(200), ns(50), 0, 0};
  add_request(w, 0, 0, 1, (double[]){100, 140}, 2);
  add_request(w, 0, 0, 1, (double[]){250, 290}, 2);
  add_request(w, 0, 0, 1, (double[]){200, 250}, 2);
  add_request(w, 0, 0, 1, (double[]){150}, 1);
  w->r.good = 3;
  w->r.submitted = 5; /* one more came and never finished */
  w->r.last_finish_ns = 10 * DS_NS_PER_S;
  ds_summary s = summary_of(w);
  cr_assert(s.has_limits);
  near(s.request_goodput, 0.3, 1e-15, "goodput");
  near(s.slo_attainment, 0.6, 1e-15, "attainment");
  near(s.slo_attainment_completed, 0.75, 1e-15, "attainment of the completed");
  cr_assert_eq(s.failed, 1);
  w->r.submitted = 4; /* M12: who is rejected counts, too */
  w->rejected = 6;
  s = summary_of(w);
  near(s.slo_attainment, 0.3, 1e-15, "attainment with rejected requests");
  cr_assert_eq(s.failed, 6);
  world_free(w);
}

Test(summary, busiest_second_and_concurrency) { /* M8; seconds count from the first dispatch */
  world *w = world_new();
  add_request(w, 0, 0, 1, (double[]){50, 750, 850, 950, 1800}, 5);
  ds_summary s = summary_of(w);
  cr_assert_eq(s.max_output_tokens_per_s, 4);
  world_free(w);
  w = world_new();
  add_request(w, 0, 0, 1, (double[]){1000}, 1);
  add_request(w, 500, 0, 1, (double[]){1500}, 1);
  add_request(w, 1000, 0, 1, (double[]){2000}, 1);
  s = summary_of(w);
  cr_assert_eq(s.flow.max_concurrent, 2, "departures come before arrivals");
  world_free(w);
}

Test(summary, per_gpu_cost_and_energy) { /* M11: 8 GPUs at 2 $/h, 4000 output tokens/s */
  world *w = world_new();
  add_request(w, 0, 0, 1, (double[]){10, 20}, 2);
  add_request(w, 0, 0, 1, (double[]){10, 40}, 2);
  w->run.cost_tier = DS_COST_ROOFLINE;
  w->run.pool.tensor_parallel = 8;
  w->run.pool.hw.price_usd_per_h = 2;
  w->run.pool.hw.power_w = 700;
  w->run.pool.hw.idle_power_w = 100;
  w->run.pool.hw.memory_bytes_per_s = 1e12;
  w->run.pool.hw.peak_flops_per_s[DS_MATH_16] = 1e15;
  w->r.output_tokens = 40000;
  w->r.last_finish_ns = 10 * DS_NS_PER_S;
  w->replica.busy_ns = 10 * DS_NS_PER_S;
  w->replica.flops =
      0.5 * 1e15 * 10; /* u_c = 0.5, u_m = 0.8: 1.2 u_c + 0.5 u_m reaches 1, so the whole TDP */
  w->replica.bytes = 0.8 * 1e12 * 10;
  ds_summary s = summary_of(w);
  near(1000 / s.tpot.mean, 50, 1e-12, "interactivity from mean TPOT");
  near(s.mean_interactivity, 200.0 / 3, 1e-9, "mean interactivity");
  near(s.output_throughput / (double)s.gpus, 500, 1e-9, "per GPU");
  near(s.usd_per_m_output, 1.1111111111111112, 1e-12, "cost");
  near(s.energy_j / 40000, 1.4, 1e-12, "joules per output token");
  w->replica.busy_ns /= 2; /* half the time idle, at 100 W */
  s = summary_of(w);
  near(s.energy_j / 40000, 0.8, 1e-12, "joules per output token, half idle");
  world_free(w);
}

Test(summary, normalized_latency_is_a_mean_of_ratios) { /* M13 */
  world *w = world_new();
  const double e2e[] = {100, 100, 400};
  const uint32_t n[] = {10, 1, 40};
  for (size_t i = 0; i < 3; i++) {
    double token[40];
    for (uint32_t k = 0; k < n[i]; k++) token[k] = e2e[i] * (k + 1) / n[i];
    add_request(w, 0, 0, 1, token, n[i]);
  }
  near(summary_of(w).normalized.mean, 40, 1e-12, "normalized latency");
  world_free(w);
}

Test(summary,
     preempted_request_as_the_server_sees_it) { /* M14, from the arrival in the queue at 1 */
  world *w = world_new();
  add_request(w, 0, 4, 1, (double[]){15, 25, 52, 63}, 4);
  ds_summary s = summary_of(w);
  near(s.ttft.mean, 15, 0, "ttft");
  near(s.queue.mean, 4, 0, "queue");
  near(s.mean_decode_ms, 48, 1e-12, "decode");
  near(s.tpot.mean, 16, 0, "tpot");
  near(s.e2el.mean, 63, 0, "e2e");
  near(s.itl.max, 27, 0, "longest gap");
  near(s.itl.mean, 16, 1e-12, "mean gap");
  world_free(w);
}

Test(summary, whole_run_as_vllm_reports_it) { /* M16 */
  world *w = world_new();
  w->run.slo.request = (ds_slo_request){ns(20), ns(11.9), 0, 0};
  add_request(w, 0, 0, 10, (double[]){11.6, 24, 36, 47}, 4);
  add_request(w, 0, 0, 20, (double[]){24, 36}, 2);
  w->r.good = 1;
  ds_summary s = summary_of(w);
  near(s.duration_s, 0.047, 0, "duration");
  near(s.request_throughput, 42.5531914893617, 1e-12, "request throughput");
  near(s.output_throughput, 127.65957446808511, 1e-12, "output throughput");
  near(s.total_throughput, 765.9574468085107, 1e-11, "total throughput");
  near(s.request_goodput, 21.27659574468085, 1e-12, "goodput");
  same_dist(&s.ttft, (double[]){17.8, 17.8, 6.2, 22.76, 23.38, 23.876}, 1e-9, "ttft");
  same_dist(&s.tpot, (double[]){11.9, 11.9, 0.1, 11.98, 11.99, 11.998}, 1e-9, "tpot");
  same_dist(&s.itl, (double[]){11.85, 12, 0.5172040216394301, 12.28, 12.34, 12.388}, 1e-9, "itl");
  same_dist(&s.e2el, (double[]){41.5, 41.5, 5.5, 45.9, 46.45, 46.89}, 1e-9, "e2el");
  near(s.mean_interactivity, 84.0395, 1e-4, "interactivity");
  near(1000 / s.tpot.mean, 84.0336, 1e-4, "interactivity from the mean");
  cr_assert_eq(s.max_output_tokens_per_s, 6);
  cr_assert_eq(s.flow.max_concurrent, 2);
  cr_assert_eq(s.output_tokens, 6);
  world_free(w);
}

Test(summary, limits_of_the_run) {
  world *w = world_new();
  for (int i = 1; i <= 10; i++)
    add_request(w, i * 100, 0, 1, (double[]){i * 100 + i * 10, i * 100 + i * 20}, 2);
  ds_slo *slo = &w->run.slo;
  slo->n_run = 5;
  slo->run[4] = (ds_slo_limit){DS_METRIC_TTFT, 100, ns(100)};
  slo->run[0] = (ds_slo_limit){DS_METRIC_TTFT, 90, ns(91)};
  slo->run[1] = (ds_slo_limit){DS_METRIC_TTFT, 99, ns(99)};
  slo->run[2] = (ds_slo_limit){DS_METRIC_TPOT, 0, ns(55)}; /* the mean */
  slo->run[3] = (ds_slo_limit){DS_METRIC_E2E, 50, ns(100)};
  slo->window_ns = ns(500);
  ds_slo_complete(slo);
  cr_assert_eq(slo->request.ttft_ns, ns(91), "the least limit on the metric");
  cr_assert_eq(slo->request.tpot_ns, ns(55));
  cr_assert_eq(slo->request.itl_ns, 0);
  ds_summary s = summary_of(w);
  cr_assert(s.verdict[0].met, "limits are inclusive: %.17g", s.verdict[0].value_ms);
  near(s.verdict[1].value_ms, 99.1, 1e-9, "p99");
  cr_assert_not(s.verdict[1].met);
  cr_assert(s.verdict[4].met, "the largest equals its limit");
  cr_assert(s.verdict[2].met, "%.17g", s.verdict[2].value_ms);
  near(s.verdict[3].value_ms, 110, 1e-9, "p50 of e2e");
  cr_assert_not(s.slo_met);
  /* Windows of 500 ms: arrivals 100..400, 500..900, 1000. p50 of e2e: 50, 140, 200. */
  cr_assert_eq(s.verdict[3].windows, 3);
  cr_assert_eq(s.verdict[3].windows_met, 1);
  near(s.verdict[3].worst_ms, 200, 1e-9, "worst window");
  bool holds;
  ds_metric_id worst;
  cr_assert(ds_slo_holds(&w->run, &w->r, &holds, &worst));
  cr_assert_not(holds);
  cr_assert_eq(worst, DS_METRIC_E2E, "it is over its limit by the largest factor");
  slo->n_run = 0;
  slo->window_ns = 0;
  w->r.good = 9;
  w->r.miss_tpot = 1;
  cr_assert(ds_slo_holds(&w->run, &w->r, &holds, &worst));
  cr_assert_not(holds, "nine of ten are less than 99 %%");
  cr_assert_eq(worst, DS_METRIC_TPOT);
  world_free(w);
}

/* P(X <= k) for X ~ Bin(n, q), by logarithms of factorials. */
static double binomial_cdf(int k, int n, double q) {
  double sum = 0;
  for (int i = 0; i <= k; i++)
    sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) + i * log(q) +
               (n - i) * log1p(-q));
  return sum;
}

Test(summary, rank_intervals_are_binomial) {
  const int sizes[] = {2, 50, 72, 73, 200, 368, 369, 1000, 20000};
  const double pcts[] = {50, 90, 95, 99};
  for (size_t i = 0; i < DS_ARRAY_LEN(sizes); i++)
    for (size_t j = 0; j < DS_ARRAY_LEN(pcts); j++) {
      int n = sizes[i];
      double q = pcts[j] / 100;
      size_t low = 0, high = 0;
      bool known = ds_rank_interval((size_t)n, pcts[j], &low, &high);
      /* The top order statistic is beyond the percentile with 1 - q^n, the lowest below it with 1 -
       * (1 - q)^n. */
      cr_assert_eq(known, pow(q, n) <= 0.025 && pow(1 - q, n) <= 0.025, "n %d p%g", n, pcts[j]);
      if (!known) continue;
      /* Ranks from 1 cover with P(low + 1 <= X <= high); one tighter on either side would cut more
       * than 2.5 %. */
      int l = (int)low + 1, u = (int)high + 1;
      cr_assert_leq(binomial_cdf(l - 1, n, q), 0.025 + 1e-9, "n %d p%g low %d", n, pcts[j], l);
      cr_assert_gt(binomial_cdf(l, n, q), 0.025 - 1e-9, "n %d p%g low %d", n, pcts[j], l);
      cr_assert_geq(binomial_cdf(u - 1, n, q), 0.975 - 1e-9, "n %d p%g high %d", n, pcts[j], u);
      cr_assert_lt(binomial_cdf(u - 2, n, q), 0.975 + 1e-9, "n %d p%g high %d", n, pcts[j], u);
    }
}

/* A 64-bit generator of its own (splitmix64) so that the workloads below are the same everywhere.
 */
static double uniform(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* An M/D/1 queue with service of 1 s, by Lindley's recursion; `extra_s` is spent after the server,
 * by everybody at once. */
static ds_flow mdi_queue(double rho, size_t n, double extra_s, uint64_t seed) {
  ds_arrivals a;
  memset(&a, 0, sizeof a);
  int64_t *e2e = malloc(n * sizeof *e2e), *wait = malloc(n * sizeof *wait);
  double now = 0, wait_s = 0;
  int64_t end = 0;
  for (size_t i = 0; i < n; i++) {
    double gap = -log(uniform(&seed)) / rho;
    if (i > 0) {
      now += gap;
      wait_s = fmax(0, wait_s + 1 - gap);
    }
    ds_request q = {.arrival_ns = llround(now * 1e9), .input_tokens = 1, .output_tokens = 1, .max_tokens = 1};
    cr_assert(ds_arrivals_add(&a, &q, 1));
    wait[i] = llround(wait_s * 1e9);
    e2e[i] = llround((wait_s + 1 + extra_s) * 1e9);
    if (q.arrival_ns + e2e[i] > end) end = q.arrival_ns + e2e[i];
  }
  ds_flow f;
  cr_assert(ds_flow_of(&a, e2e, wait, end, &f));
  ds_arrivals_free(&a);
  free(e2e);
  free(wait);
  return f;
}

Test(summary, saturation_is_told_from_load) {
  const struct {
    double rho;
    size_t n;
    bool saturated;
  } cases[] = {{0.5, 200, false},  {0.5, 5000, false},  {0.9, 500, false},
               {0.9, 5000, false}, {0.9, 50000, false}, {1.2, 2000, true},
               {1.2, 20000, true}, {2, 200, true},      {2, 20000, true}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++)
    for (uint64_t seed = 1; seed <= 25; seed++) {
      ds_flow f = mdi_queue(cases[i].rho, cases[i].n, 0, seed);
      cr_assert_eq(ds_flow_saturated(&f), cases[i].saturated, "rho %g, %zu requests, seed %llu",
                   cases[i].rho, cases[i].n, (unsigned long long)seed);
      if (!cases[i].saturated)
        cr_assert_eq(ds_flow_settled(&f), DS_SETTLED, "rho %g, seed %llu", cases[i].rho,
                     (unsigned long long)seed);
    }
  /* Latency far longer than the arrivals last: the system only fills, nobody waits. */
  for (uint64_t seed = 1; seed <= 25; seed++) {
    ds_flow f = mdi_queue(0.5, 500, 5000, seed);
    cr_assert_not(ds_flow_saturated(&f));
    cr_assert_eq(ds_flow_settled(&f), DS_SETTLED_NOT_SHORT);
  }
  ds_flow few = mdi_queue(0.5, 50, 0, 1);
  cr_assert_eq(ds_flow_settled(&few), DS_SETTLED_NOT_FEW);
  ds_flow batch = mdi_queue(1e12, 1000, 0, 1);
  batch.window_ns = 0;
  cr_assert_not(ds_flow_saturated(&batch));
  cr_assert_eq(ds_flow_settled(&batch), DS_SETTLED_NOT_BATCH);
}

static int by_time(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

Test(summary, concurrency_is_that_of_a_full_sweep) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    size_t n = 1 + (size_t)(seed * seed * 3);
    uint64_t state = seed;
    ds_arrivals a;
    memset(&a, 0, sizeof a);
    int64_t *start = malloc(n * sizeof *start), *e2e = malloc(n * sizeof *e2e),
            *end = malloc(n * sizeof *end), at = 0;
    for (size_t i = 0; i < n; i++) {
      /* Ties are common, long gaps occur, and bursts. */
      double u = uniform(&state);
      at += u < 0.3    ? 0
            : u < 0.95 ? (int64_t)(u * 20)
            : u < 0.99 ? (int64_t)(u * 2000)
                       : (int64_t)(seed % 7 == 0 ? 5e9 : 5e3);
      start[i] = at;
      e2e[i] = 1 + (int64_t)(uniform(&state) * (seed % 3 == 0 ? 30 : 3000));
      end[i] = at + e2e[i];
      ds_request q = {.arrival_ns = at, .input_tokens = 1, .output_tokens = 1, .max_tokens = 1};
      cr_assert(ds_arrivals_add(&a, &q, 1));
    }
    qsort(end, n, sizeof *end, by_time);
    size_t gone = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
      while (gone < n && end[gone] <= start[i]) gone++;
      if (i + 1 - gone > most) most = i + 1 - gone;
    }
    ds_flow f;
    cr_assert(ds_flow_of(&a, e2e, e2e, end[n - 1], &f));
    cr_assert_eq(f.max_concurrent, most, "seed %llu: %llu, expected %zu", (unsigned long long)seed,
                 (unsigned long long)f.max_concurrent, most);
    ds_arrival_walk w = {0, 0, 0};
    for (size_t i = 0; i < n; i++) cr_assert_eq(ds_arrival_next(&a, &w), start[i]);
    ds_arrivals_free(&a);
    free(start);
    free(e2e);
    free(end);
  }
}

Test(summary, lengths_of_the_workload) {
  ds_arrivals a;
  memset(&a, 0, sizeof a);
  for (uint32_t i = 1; i <= 1000; i++) {
    ds_request q = {.arrival_ns = 0, .input_tokens = i, .output_tokens = 1001 - i, .max_tokens = 1001 - i};
    cr_assert(ds_arrivals_add(&a, &q, 1));
  }
  cr_assert_eq(a.input.sum, 500500);
  cr_assert_eq(a.input.min, 1);
  cr_assert_eq(a.output.max, 1000);
  for (double pct = 10; pct <= 99; pct += 89) {
    uint32_t got = ds_lengths_percentile(&a.input, pct);
    near(got, pct * 10, pct * 10 / 128, "percentile of lengths");
  }
  double pairs = 0, context = 0;
  for (int p = 1; p <= 1000; p++) {
    pairs += p * (p + 1) / 2.0;
    for (int k = 1; k < 1001 - p; k++) context += p + k;
  }
  near(a.prefill_pairs, pairs, 0, "pairs");
  near(a.decode_context, context, 0, "context");
  ds_arrivals_free(&a);
}

Test(summary, numbers_as_text) {
  char text[DS_NUMBER_BYTES];
  const struct {
    int64_t v;
    int digits;
    const char *want;
  } decimals[] = {{0, 9, "0"},
                  {1, 9, "0.000000001"},
                  {11600000, 9, "0.0116"},
                  {1500000000, 9, "1.5"},
                  {-1500, 6, "-0.0015"},
                  {INT64_MAX, 9, "9223372036.854775807"},
                  {INT64_MIN, 6, "-9223372036854.775808"},
                  {42000000, 6, "42"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(decimals); i++) {
    size_t n = ds_put_decimal(text, decimals[i].v, decimals[i].digits);
    cr_assert_str_eq(text, decimals[i].want);
    cr_assert_eq(n, strlen(text));
  }
  const struct {
    double v;
    const char *want;
  } doubles[] = {{0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {-0.0, "0"},
                 {1e300, "1e+300"},
                 {42, "42"},
                 {NAN, "null"},
                 {INFINITY, "null"},
                 {5e-324, "4.94065645841247e-324"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(doubles); i++) {
    ds_put_double(text, doubles[i].v);
    cr_assert_str_eq(text, doubles[i].want);
  }
  uint64_t state = 1;
  for (int i = 0; i < 20000; i++) {
    double v = ldexp(uniform(&state), (int)(uniform(&state) * 200) - 100);
    ds_put_double(text, v);
    cr_assert_eq(strtod(text, NULL), v, "%s", text);
  }
  const struct {
    double v;
    const char *want;
  } shorts[] = {{0, "0.00"},         {0.412, "0.412"},       {31.24, "31.2"},
                {99.96, "100"},      {9.996, "10.0"},        {0.9996, "1.00"},
                {12345.6, "12,346"}, {1234567, "1,234,567"}, {0.00012345, "0.00012"},
                {-2.5, "-2.50"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(shorts); i++) {
    ds_put_short(text, shorts[i].v);
    cr_assert_str_eq(text, shorts[i].want);
  }
  const struct {
    int64_t v;
    const char *want;
  } durations[] = {{2 * DS_NS_PER_S, "2 s"},
                   {1500000000, "1.5 s"},
                   {100000000, "100 ms"},
                   {500, "500 ns"},
                   {0, "0 s"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(durations); i++) {
    ds_put_duration(text, durations[i].v);
    cr_assert_str_eq(text, durations[i].want);
  }
}
