// SPDX-License-Identifier: GPL-3.0-or-later
#include <criterion/criterion.h>

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lengths.h"
#include "gen/process.h"
#include "io/trace.h"

static ds_workload workload(int64_t requests) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_GENERATE;
  w.time_scale = 1.0;
  w.requests = requests;
  w.process = DS_ARRIVAL_POISSON;
  w.rate_per_s = 12;
  w.input = (ds_length_law){.law = DS_LAW_LOGNORMAL, .mean = 550, .p99 = 3000};
  w.output = (ds_length_law){.law = DS_LAW_FIXED, .value = 128};
  return w;
}

/* All requests of a generated workload; the caller frees them. */
static ds_request *generate(const ds_workload *w, uint64_t seed, size_t *n) {
  ds_diag d;
  ds_trace *t;
  memset(&d, 0, sizeof d);
  cr_assert(ds_trace_open(w, seed, &t, &d), "%s", d.text);
  size_t room = 1000, got;
  ds_request *r = malloc(room * sizeof *r);
  *n = 0;
  for (;;) {
    if (room - *n < 1000) r = realloc(r, (room *= 2) * sizeof *r);
    cr_assert(ds_trace_read(t, r + *n, 777, &got, &d), "%s", d.text);
    if (got == 0) break;
    *n += got;
  }
  cr_assert_str_eq(ds_trace_format(t), "generated");
  cr_assert_str_eq(ds_trace_sha256(t), "");
  cr_assert_str_eq(ds_trace_id(t, 3), "3");
  cr_assert_not(ds_trace_has_ids(t));
  ds_trace_close(t);
  return r;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Gaps are exponential with mean 1 / rate, the first one included; lags are uncorrelated. */
Test(gen, poisson_gaps_are_exponential) {
  enum { N = 20000 };
  ds_workload w = workload(N);
  size_t n;
  ds_request *r = generate(&w, 42, &n);
  cr_assert_eq(n, (size_t)N);
  static double gap[N];
  double sum = 0, lag = 0;
  for (size_t i = 0; i < n; i++) {
    gap[i] = (double)(r[i].arrival_ns - (i > 0 ? r[i - 1].arrival_ns : 0)) * 1e-9;
    sum += gap[i];
    if (i > 0) lag += (gap[i] - 1 / 12.0) * (gap[i - 1] - 1 / 12.0);
  }
  cr_assert_gt(r[0].arrival_ns, 0);
  cr_assert_lt(fabs(sum / N * 12 - 1), 4 / sqrt(N), "mean gap %g", sum / N);
  cr_assert_lt(fabs(lag / N * 144), 4 / sqrt(N), "correlation of neighbours %g", lag / N * 144);
  qsort(gap, N, sizeof gap[0], ascending);
  double d = 0;
  for (size_t i = 0; i < n; i++) {
    double f = gsl_cdf_exponential_P(gap[i], 1 / 12.0);
    d = fmax(d, fmax(f - (double)i / N, (double)(i + 1) / N - f));
  }
  cr_assert_lt(d, 1.95 / sqrt(N), "Kolmogorov-Smirnov distance %g", d);
  free(r);
}

Test(gen, constant_burst_and_duration) {
  size_t n;
  ds_workload w = workload(1000);
  w.process = DS_ARRIVAL_CONSTANT;
  w.rate_per_s = 3;
  ds_request *r = generate(&w, 1, &n);
  cr_assert_eq(n, 1000u);
  for (size_t i = 0; i < n; i++) {
    int64_t want =
        (int64_t)(((i + 1) * 2000000000 + 3) / 6); /* (i + 1) / 3 s to the nearest nanosecond */
    cr_assert_eq(r[i].arrival_ns, want, "request %zu at %lld", i, (long long)r[i].arrival_ns);
  }
  free(r);
  w.requests = 0;
  w.duration_ns = 10 * DS_NS_PER_S; /* half open: the request at 10 s itself is out */
  r = generate(&w, 1, &n);
  cr_assert_eq(n, 29u);
  free(r);
  w.requests = 5; /* whichever comes first */
  r = generate(&w, 1, &n);
  cr_assert_eq(n, 5u);
  free(r);
  w = workload(50);
  w.process = DS_ARRIVAL_BURST;
  w.rate_per_s = 0;
  r = generate(&w, 1, &n);
  cr_assert_eq(n, 50u);
  for (size_t i = 0; i < n; i++) cr_assert_eq(r[i].arrival_ns, 0);
  free(r);
  /* A Poisson stream cut by time holds rate x duration requests, give or take five deviations. */
  w = workload(0);
  w.duration_ns = 1000 * DS_NS_PER_S;
  r = generate(&w, 9, &n);
  cr_assert(fabs((double)n - 12000) < 5 * sqrt(12000.0), "%zu requests", n);
  cr_assert_lt(r[n - 1].arrival_ns, w.duration_ns);
  free(r);
}

/* Common random numbers: what is drawn for one purpose does not depend on any other. */
Test(gen, knobs_do_not_move_each_other) {
  size_t n, m;
  ds_workload w = workload(500), v = w;
  w.output = (ds_length_law){.law = DS_LAW_LOGNORMAL, .mean = 200, .median = 150};
  v.output = w.output;
  ds_request *a = generate(&w, 5, &n);
  v.rate_per_s = 24;
  ds_request *b = generate(&v, 5, &m);
  for (size_t i = 0; i < n; i++) {
    cr_assert_eq(a[i].input_tokens, b[i].input_tokens);
    cr_assert_eq(a[i].output_tokens, b[i].output_tokens);
    /* Twice the rate: the same gaps, halved; each is rounded to a nanosecond by itself. */
    cr_assert_leq(llabs(a[i].arrival_ns - 2 * b[i].arrival_ns), 2 * (int64_t)(i + 1));
  }
  free(b);
  v = w;
  v.process = DS_ARRIVAL_BURST;
  v.requests = 900;
  v.input = (ds_length_law){.law = DS_LAW_FIXED, .value = 7};
  b = generate(&v, 5, &m);
  cr_assert_eq(m, 900u);
  for (size_t i = 0; i < n; i++) {
    cr_assert_eq(b[i].input_tokens, 7u);
    cr_assert_eq(a[i].output_tokens, b[i].output_tokens);
  }
  free(b);
  b = generate(&w, 6, &m);
  size_t same = 0;
  for (size_t i = 0; i < n; i++)
    same += a[i].input_tokens == b[i].input_tokens || a[i].arrival_ns == b[i].arrival_ns;
  cr_assert_lt(same, 25u, "another seed, and %zu of 500 requests the same", same);
  free(a);
  free(b);
}

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Lognormal lengths: the mean asked for within five standard errors, whatever the limits; the
 * percentile where there are none; limits kept. */
Test(gen, lengths_have_the_mean_that_was_asked_for) {
  static const ds_length_law laws[] = {
      {.law = DS_LAW_LOGNORMAL, .mean = 550, .p99 = 3000},
      {.law = DS_LAW_LOGNORMAL, .mean = 1505, .median = 731},
      {.law = DS_LAW_LOGNORMAL, .mean = 550, .p99 = 3000, .max = 2048},
      {.law = DS_LAW_LOGNORMAL, .mean = 550, .p99 = 3000, .min = 64, .max = 4096},
      {.law = DS_LAW_LOGNORMAL, .mean = 211, .p99 = 601, .min = 150, .max = 300},
  };
  enum { N = 100000 };
  uint32_t *x = malloc(N * sizeof *x);
  for (size_t k = 0; k < DS_ARRAY_LEN(laws); k++) {
    const ds_length_law *law = &laws[k];
    ds_length l;
    double p = law->p99 > 0 ? 0.99 : 0.5, value = law->p99 > 0 ? law->p99 : law->median;
    cr_assert_eq(ds_length_lognormal(law->mean, p, value, law->min, law->max, &l), DS_FIT_OK);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N; i++) {
      x[i] = ds_length_draw(&l, 3, DS_PURPOSE_INPUT_TOKENS, i);
      sum += x[i];
      squares += (double)x[i] * x[i];
    }
    double mean = sum / N, error = sqrt((squares / N - mean * mean) / N);
    cr_assert_lt(fabs(mean - law->mean), 5 * error, "law %zu: mean %g, asked %g +- %g", k, mean,
                 law->mean, error);
    qsort(x, N, sizeof *x, by_value);
    cr_assert_geq(x[0], law->min > 0 ? law->min : 1);
    if (law->max > 0) cr_assert_leq(x[N - 1], law->max);
    if (law->min > 0 || law->max > 0) continue;
    double share = 0; /* at or below the percentile's value: p itself, within five deviations */
    for (size_t i = 0; i < N; i++) share += x[i] <= value;
    cr_assert_float_eq(share / N, p, 5 * sqrt(p * (1 - p) / N) + 1e-3, "law %zu: %g at or below %g",
                       k, share / N, value);
  }
  free(x);
  /* To the nearest whole token, and never none. */
  cr_assert_eq(ds_length_fixed(127.5).tokens, 128u);
  cr_assert_eq(ds_length_fixed(127.4).tokens, 127u);
  cr_assert_eq(ds_length_fixed(0.2).tokens, 1u);
  cr_assert_eq(ds_length_fixed(1e300).tokens, (uint32_t)DS_LENGTH_MAX);
}

/* The clock ends: far gaps give DS_TIME_NEVER and no overflow. */
Test(gen, arrivals_stop_at_the_end_of_time) {
  ds_process p = {.kind = DS_PROCESS_POISSON, .rate_per_s = 1e-9, .seed = 1};
  int64_t before = 0;
  for (int i = 0; i < 100; i++) {
    int64_t t = ds_process_next(&p);
    cr_assert_geq(t, before);
    before = t;
  }
  cr_assert_eq(before, DS_TIME_NEVER);
  ds_process c = {.kind = DS_PROCESS_CONSTANT, .rate_per_s = 1e-300};
  cr_assert_eq(ds_process_next(&c), DS_TIME_NEVER);
}

/* What cannot be generated is refused with the key that is wrong. */
Test(gen, impossible_workloads_are_refused) {
  struct {
    const char *key, *expected;
    ds_workload w;
  } bad[12];
  size_t n = 0;
#define BAD(k, e) bad[n].key = k, bad[n].expected = e, bad[n].w = workload(10), n++
  BAD("neither requests nor duration", "requests"), bad[n - 1].w.requests = 0;
  BAD("neither requests nor duration", "requests"), bad[n - 1].w.requests = -1;
  BAD("a burst without a number", "requests"), bad[n - 1].w.requests = 0,
                                                       bad[n - 1].w.process = DS_ARRIVAL_BURST;
  BAD("arrivals.rate: 0 /s", "more than 0"), bad[n - 1].w.rate_per_s = 0;
  BAD("arrivals.rate: -3 /s", "more than 0"), bad[n - 1].w.rate_per_s = -3;
  BAD("arrivals.rate: nan", "more than 0"), bad[n - 1].w.rate_per_s = NAN;
  BAD("input_tokens: no lognormal has mean 550 and p99 9000", "14.9 times"),
      bad[n - 1].w.input.p99 = 9000;
  BAD("input_tokens: no lognormal has mean 550 and p99 100", "p99"), bad[n - 1].w.input.p99 = 100;
  BAD("between min 0 and max 500", "limits"), bad[n - 1].w.input.max = 500;
  BAD("no lognormal has mean 550 and median 600", "median"),
      bad[n - 1].w.input.p99 = 0, bad[n - 1].w.input.median = 600;
  BAD("output_tokens.value: 0 tokens", "1 to"), bad[n - 1].w.output.value = 0;
  BAD("would arrive after more than 290 years", "rate"), bad[n - 1].w.rate_per_s = 1e-10;
  for (size_t i = 0; i < n; i++) {
    ds_diag d;
    ds_trace *t;
    ds_request r[16];
    size_t got;
    memset(&d, 0, sizeof d);
    bool good = ds_trace_open(&bad[i].w, 1, &t, &d);
    if (good) {
      good = ds_trace_read(t, r, 16, &got, &d);
      ds_trace_close(t);
    }
    cr_assert_not(good, "case %zu", i);
    cr_assert_eq(d.exit, DS_EXIT_INPUT);
    cr_assert(strstr(d.text, bad[i].key) != NULL, "case %zu: %s", i, d.text);
    cr_assert(strstr(d.expected, bad[i].expected) != NULL, "case %zu: %s", i, d.expected);
  }
}

/* The requests of one seed, so that a change of compiler, machine or program that moves them is
 * noticed. */
Test(gen, requests_of_a_seed_stay_the_same) {
  ds_workload w = workload(2000);
  w.output =
      (ds_length_law){.law = DS_LAW_LOGNORMAL, .mean = 211, .p99 = 601, .min = 7, .max = 1000};
  size_t n;
  ds_request *r = generate(&w, 1, &n);
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) {
    const uint64_t field[4] = {(uint64_t)r[i].arrival_ns, r[i].input_tokens, r[i].output_tokens,
                               r[i].max_tokens};
    for (int k = 0; k < 4; k++) h = (h ^ field[k]) * 1099511628211u;
    cr_assert_eq(r[i].max_tokens, r[i].output_tokens);
  }
  cr_assert_eq(h, 0x1515265db8b85830u, "0x%016llx", (unsigned long long)h);
  free(r);
}
