// SPDX-License-Identifier: GPL-3.0-or-later
/* Arrival processes and length laws against GSL's distribution functions and against theory. Seeds
 * are fixed, so a test passes always or never; a Kolmogorov-Smirnov bound of 1.95 / sqrt(N) is
 * exceeded by chance by one seed in a thousand, five standard errors by one in a million. */
#include <criterion/criterion.h>

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_gamma.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lengths.h"
#include "gen/process.h"
#include "study/generator.h"

#define KS_LIMIT 1.95

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Greatest distance of the sample (sorted here) from a law. */
static double ks(double *x, size_t n, double (*cdf)(double, double, double), double p, double q) {
  double d = 0;
  qsort(x, n, sizeof *x, ascending);
  for (size_t i = 0; i < n; i++) {
    double f = cdf(x[i], p, q);
    d = fmax(d, fmax(f - (double)i / (double)n, (double)(i + 1) / (double)n - f));
  }
  return d;
}

static double exponential(double x, double mean, double unused) {
  (void)unused;
  return gsl_cdf_exponential_P(x, mean);
}

#define N 20000
static double sample[N];

/* Mean 1, the right law, and a variance within five standard errors. */
Test(gen_laws, gaps_follow_their_laws) {
  static const double gamma_shapes[] = {0.05, 0.25, 0.87, 1, 3, 40},
                      weibull_shapes[] = {0.4, 0.9, 1, 2};
  for (size_t k = 0; k < DS_ARRAY_LEN(gamma_shapes); k++) {
    double shape = gamma_shapes[k], sum = 0;
    for (uint64_t i = 0; i < N; i++) sum += sample[i] = ds_gap_draw(DS_GAP_GAMMA, shape, 11, i);
    cr_assert_lt(fabs(sum / N - 1), 5 / sqrt(shape * N), "gamma %g: mean %g", shape, sum / N);
    double d = ks(sample, N, gsl_cdf_gamma_P, shape, 1 / shape);
    cr_assert_lt(d, KS_LIMIT / sqrt(N), "gamma %g: %g", shape, d);
  }
  for (size_t k = 0; k < DS_ARRAY_LEN(weibull_shapes); k++) {
    double shape = weibull_shapes[k], scale = 1 / gsl_sf_gamma(1 + 1 / shape), sum = 0;
    for (uint64_t i = 0; i < N; i++) sum += sample[i] = ds_gap_draw(DS_GAP_WEIBULL, shape, 12, i);
    double cv2 = gsl_sf_gamma(1 + 2 / shape) * scale * scale - 1;
    cr_assert_lt(fabs(sum / N - 1), 5 * sqrt(cv2 / N), "Weibull %g: mean %g", shape, sum / N);
    double d = ks(sample, N, gsl_cdf_weibull_P, scale, shape);
    cr_assert_lt(d, KS_LIMIT / sqrt(N), "Weibull %g: %g", shape, d);
    cr_assert_float_eq(ds_weibull_shape(sqrt(cv2)), shape, 1e-9 * shape);
  }
  cr_assert_eq(ds_weibull_shape(1e9), 0);
  for (double x = 0.1; x < 60; x *= 1.31)
    cr_assert_float_eq(ds_ln_gamma(x), gsl_sf_lngamma(x), 1e-12 * (1 + fabs(gsl_sf_lngamma(x))));
}

/* Time change: the area under the rate up to the arrivals is a Poisson process of rate 1. */
Test(gen_laws, rates_over_time_are_followed) {
  const ds_rate_piece p[] = {{10, 0, 40, false},
                             {5, 40, 40, false},
                             {20, 40, 2, true},
                             {3, 0, 0, false},
                             {8, 2, 30, false}};
  double length, area = ds_pieces_area(p, 5, &length);
  cr_assert_float_eq(length, 46, 1e-12);
  cr_assert_float_eq(area, 200 + 200 + 20 * 38 / log(20) + 0 + 128, 1e-9);
  ds_process q = {.kind = DS_PROCESS_PIECES, .piece = p, .n_piece = 5, .repeat = true, .seed = 3};
  double before = 0;
  for (size_t i = 0; i < N; i++) {
    double t = (double)ds_process_next(&q) * 1e-9, at = 0;
    double rounds = floor(t / length), x = t - rounds * length;
    for (size_t k = 0; k < 5 && x > 0; k++) {
      double dt = fmin(x, p[k].length_s), share = dt / p[k].length_s;
      double to = p[k].exponential ? p[k].from_per_s * pow(p[k].to_per_s / p[k].from_per_s, share)
                                   : p[k].from_per_s + share * (p[k].to_per_s - p[k].from_per_s);
      at += p[k].exponential
                ? (to - p[k].from_per_s) * p[k].length_s / log(p[k].to_per_s / p[k].from_per_s)
                : dt * 0.5 * (p[k].from_per_s + to);
      x -= dt;
    }
    at += rounds * area;
    sample[i] = at - before;
    before = at;
  }
  double d = ks(sample, N, exponential, 1, 0);
  cr_assert_lt(d, KS_LIMIT / sqrt(N), "%g", d);
  /* Constant gaps: exactly so many in every round; the clock stops where the rate stays 0. */
  ds_process c = {.kind = DS_PROCESS_PIECES, .piece = p, .n_piece = 4, .gap = DS_GAP_CONSTANT};
  size_t n = 0;
  while (ds_process_next(&c) != DS_TIME_NEVER) n++;
  cr_assert_eq(n, (size_t)ds_pieces_area(p, 4, &length));
}

/* Index of dispersion of counts against the closed form, and the mean rate. */
Test(gen_laws, modulated_arrivals_are_as_bursty_as_theory_says) {
  const ds_modulator m[2] = {{2, {4, 12}, {3, 1.5}}, {2, {0, 30}, {40, 4}}};
  static const double windows[] = {0.5, 5, 40};
  double mean = ds_modulators_mean(m, 2);
  cr_assert_float_eq(mean, (4 * 3 + 12 * 1.5) / 4.5 + 30 * 4 / 44.0, 1e-12);
  for (size_t w = 0; w < 3; w++) {
    ds_process p = {.kind = DS_PROCESS_MODULATED, .modulator = m, .n_modulator = 2, .seed = 5};
    double sum = 0, squares = 0, t = windows[w];
    size_t bins = w == 2 ? 20000 : 60000;
    int64_t next = ds_process_next(&p);
    for (size_t b = 1; b <= bins; b++) {
      double count = 0;
      for (; (double)next * 1e-9 < (double)b * t; next = ds_process_next(&p)) count++;
      sum += count;
      squares += count * count;
    }
    double got =
        (squares / (double)bins - sum / (double)bins * (sum / (double)bins)) / (sum / (double)bins);
    double want = ds_modulators_dispersion(m, 2, t);
    cr_assert_float_eq(got, want, 0.06 * want, "window %g s: dispersion %g, theory %g", t, got,
                       want);
    cr_assert_float_eq(sum / ((double)bins * t), mean, 0.05 * mean, "window %g s: rate %g of %g", t,
                       sum / ((double)bins * t), mean);
  }
}

static ds_length made[3];

Test(gen_laws, lengths_follow_their_laws) {
  enum { M = 100000 };
  static const struct {
    double mean, sd, min, max;
    bool clamp;
  } normal[] = {{550, 150, 0, 0, false},
                {550, 500, 0, 0, false},
                {550, 500, 0, 900, true},
                {200, 300, 100, 5000, false},
                {200, 300, 0, 0, true}};
  for (size_t k = 0; k < DS_ARRAY_LEN(normal); k++) {
    ds_length l;
    cr_assert(ds_length_normal(normal[k].mean, normal[k].sd, normal[k].min, normal[k].max,
                               normal[k].clamp, &l));
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < M; i++) {
      double x = ds_length_draw(&l, 8, DS_PURPOSE_OUTPUT_TOKENS, i);
      cr_assert_geq(x, normal[k].min);
      if (normal[k].max > 0) cr_assert_leq(x, normal[k].max);
      sum += x;
      squares += x * x;
    }
    double mean = sum / M, error = sqrt((squares / M - mean * mean) / M);
    cr_assert_lt(fabs(mean - normal[k].mean), 5 * error, "normal %zu: mean %g", k, mean);
  }
  ds_length l;
  cr_assert_not(ds_length_normal(500, 100, 600, 900, false, &l));
  cr_assert_not(ds_length_normal(2, 5000, 0, 0, false, &l));

  static const double means[] = {1.2, 2, 30, 5000};
  for (size_t k = 0; k < DS_ARRAY_LEN(means); k++) {
    l = ds_length_exponential(means[k]);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < M; i++) {
      double x = ds_length_draw(&l, 9, DS_PURPOSE_INPUT_TOKENS, i);
      sum += x;
      squares += x * x;
    }
    double mean = sum / M, error = sqrt((squares / M - mean * mean) / M);
    cr_assert_lt(fabs(mean - means[k]), 5 * error, "exponential %g: mean %g", means[k], mean);
  }

  /* Zipf and uniform: every value's share, by chi-square (99.9 %). */
  static const double thetas[] = {0.6, 1, 2.5};
  for (size_t k = 0; k < 3; k++) {
    double count[50] = {0}, norm = 0, chi = 0;
    l = ds_length_zipf(thetas[k], 11, 60);
    for (int i = 1; i <= 50; i++) norm += pow(i, -thetas[k]);
    for (uint64_t i = 0; i < M; i++) {
      uint32_t x = ds_length_draw(&l, 10, DS_PURPOSE_INPUT_TOKENS, i);
      cr_assert(x >= 11 && x <= 60);
      count[x - 11]++;
    }
    for (int i = 1; i <= 50; i++) {
      double want = M * pow(i, -thetas[k]) / norm;
      chi += (count[i - 1] - want) * (count[i - 1] - want) / want;
    }
    cr_assert_lt(chi, gsl_cdf_chisq_Pinv(0.999, 49), "theta %g: chi-square %g", thetas[k], chi);
  }
  double count[6] = {0}, chi = 0;
  l = ds_length_uniform(5, 10);
  for (uint64_t i = 0; i < M; i++) count[ds_length_draw(&l, 10, DS_PURPOSE_INPUT_TOKENS, i) - 5]++;
  for (int i = 0; i < 6; i++) chi += (count[i] - M / 6.0) * (count[i] - M / 6.0) / (M / 6.0);
  cr_assert_lt(chi, gsl_cdf_chisq_Pinv(0.999, 5));

  /* A table's own quantiles, scaled to another mean; a mixture's weights. */
  static const ds_quantile q[] = {{0, 10}, {0.5, 100}, {0.9, 100.4}, {1, 4000}};
  l = ds_length_table(q, 4, 0);
  double below = 0;
  for (uint64_t i = 0; i < M; i++)
    below += ds_length_draw(&l, 1, DS_PURPOSE_INPUT_TOKENS, i) <= 100;
  cr_assert_float_eq(below / M, 0.9, 5 * sqrt(0.09 / M) + 1e-4);
  l = ds_length_table(q, 4, 2 * ds_quantile_mean(q, 4));
  cr_assert_float_eq(l.times, 2, 1e-12);
  static const double weight[] = {0.2, 0.5, 0.3};
  for (int i = 0; i < 3; i++) made[i] = ds_length_fixed(i + 1);
  l = ds_length_mixture(made, weight, 3);
  double seen[3] = {0};
  for (uint64_t i = 0; i < M; i++) seen[ds_length_draw(&l, 4, DS_PURPOSE_INPUT_TOKENS, i) - 1]++;
  for (int i = 0; i < 3; i++)
    cr_assert_float_eq(seen[i] / M, weight[i], 5 * sqrt(weight[i] * (1 - weight[i]) / M));

  /* LLMPerf cuts toward zero: half a token below the mean where nothing is near 0. */
  l = ds_length_normal_tool(550, 15);
  double sum = 0;
  for (uint64_t i = 0; i < M; i++) sum += ds_length_draw(&l, 4, DS_PURPOSE_INPUT_TOKENS, i);
  cr_assert_float_eq(sum / M, 549.5, 5 * 15 / sqrt(M));
}

/* ---- whole workloads ---- */

static ds_workload workload(int64_t requests, ds_arrival_process process, double rate) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_GENERATE;
  w.time_scale = 1;
  w.requests = requests;
  w.process = process;
  w.rate_per_s = rate;
  w.input.value = 100;
  w.output.value = 10;
  return w;
}

static ds_generated *all_of(const ds_workload *w, uint64_t seed, size_t *n) {
  ds_generator *g;
  ds_diag d = {0};
  cr_assert(ds_generator_open(w, seed, &g, &d), "%s", d.text);
  ds_generated *q = malloc(200000 * sizeof *q);
  size_t got = 1;
  for (*n = 0; got > 0; *n += got)
    cr_assert(ds_generator_next(g, q + *n, *n < 100000 ? 333 : 0, &got, &d), "%s", d.text);
  ds_generator_close(g);
  return q;
}

Test(gen_laws, an_exact_count_ends_exactly) {
  size_t n, m;
  ds_workload w = workload(1000, DS_ARRIVAL_GAMMA, 8);
  w.arrival.shape = 0.3;
  ds_generated *a = all_of(&w, 4, &n);
  w.arrival.exact = true;
  ds_generated *b = all_of(&w, 4, &m);
  cr_assert(n == 1000 && m == 1000);
  cr_assert_leq(llabs(b[999].arrival_ns - 125000000000), 1000);
  cr_assert_neq(a[999].arrival_ns, b[999].arrival_ns);
  double scale = (double)b[999].arrival_ns / (double)a[999].arrival_ns;
  cr_assert_float_eq((double)b[500].arrival_ns / (double)a[500].arrival_ns, scale, 1e-6);
  free(a);
  free(b);
  w = workload(100, DS_ARRIVAL_POISSON, 8);
  w.arrival.quantise_ns = 3000000000;
  a = all_of(&w, 4, &n);
  for (size_t i = 0; i < n; i++) cr_assert_eq(a[i].arrival_ns % 3000000000, 0);
  free(a);
}

/* vLLM's ramp by request: gap i has mean 1 / rate(i). */
Test(gen_laws, a_ramp_by_request_speeds_up) {
  ds_workload w = workload(101, DS_ARRIVAL_RAMP, 20);
  size_t n;
  w.arrival.by_request = w.arrival.constant_gaps = true;
  w.arrival.ramp_from_per_s = 1;
  w.arrival.ramp_to_per_s = 16;
  for (int exponential = 0; exponential < 2; exponential++) {
    w.arrival.exponential = exponential;
    ds_generated *q = all_of(&w, 1, &n);
    cr_assert_eq(n, 101u);
    for (size_t i = 1; i < n; i++) {
      double rate = exponential ? pow(16, (double)i / 100) : 1 + 15 * (double)i / 100;
      cr_assert_float_eq((double)(q[i].arrival_ns - q[i - 1].arrival_ns) * 1e-9, 1 / rate, 2e-9);
    }
    free(q);
  }
}

Test(gen_laws, users_take_turns) {
  ds_workload w = workload(0, DS_ARRIVAL_USERS, 1);
  size_t n;
  w.duration_ns = 600000000000;
  w.closed_loop = true;
  w.arrival.users = 200;
  w.arrival.every_ns = 30000000000;
  w.arrival.fixed_gaps = true;
  ds_generated *q = all_of(&w, 1, &n);
  cr_assert_eq(n, 200u * 20);
  for (size_t i = 0; i < n; i++) {
    cr_assert(i == 0 || q[i].arrival_ns >= q[i - 1].arrival_ns);
    if (q[i].turn == 0) {
      cr_assert_eq(q[i].after, 0);
      continue;
    }
    const ds_generated *before = &q[q[i].after - 1];
    cr_assert_lt(q[i].after - 1, i);
    cr_assert(before->session == q[i].session && before->turn + 1 == q[i].turn);
    cr_assert_eq(q[i].arrival_ns - before->arrival_ns, 30000000000);
  }
  free(q);
  w.arrival.fixed_gaps = false; /* in all a Poisson process of 200 / 30 s */
  q = all_of(&w, 2, &n);
  cr_assert_lt(fabs((double)n - 4000), 5 * sqrt(4000.0), "%zu turns", n);
  for (size_t i = 0; i < n; i++)
    sample[i] = (double)(q[i].arrival_ns - (i > 0 ? q[i - 1].arrival_ns : 0)) * 1e-9;
  double d = ks(sample, n, exponential, 0.15, 0);
  cr_assert_lt(d, KS_LIMIT / sqrt((double)n), "%g", d);
  free(q);
}

/* Each turn's prompt is all that was said before and something new; sub-agents start afresh. */
Test(gen_laws, sessions_grow) {
  ds_workload w = workload(20000, DS_ARRIVAL_POISSON, 1);
  size_t n;
  ds_session_law *s = &w.session;
  w.closed_loop = s->on = true;
  s->turns = (ds_length_law){.law = DS_LAW_EXPONENTIAL, .mean = 6};
  s->think = (ds_length_law){.law = DS_LAW_FIXED, .value = 1500};
  s->input = (ds_length_law){.law = DS_LAW_UNIFORM, .min = 20, .max = 40};
  s->max_context = 400;
  w.prefix = (ds_prefix_law){.groups = 3, .tokens = 50};
  ds_generated *q = all_of(&w, 7, &n);
  cr_assert_eq(n, 20000u);
  size_t sessions = 0, longest = 0, in_group[4] = {0};
  for (size_t i = 0; i < n; i++) {
    cr_assert_leq(q[i].input_tokens + q[i].output_tokens, 400);
    if (q[i].turn > longest) longest = q[i].turn;
    if (q[i].turn == 0) {
      sessions++;
      cr_assert_eq(q[i].input_tokens, 150);
      cr_assert_eq(q[i].prefix_tokens, 50);
      cr_assert(q[i].prefix_group >= 1 && q[i].prefix_group <= 3);
      in_group[q[i].prefix_group]++;
      continue;
    }
    cr_assert_eq(q[i].after, i); /* the one before it */
    cr_assert_eq(q[i].think_ns, 1500000000);
    uint32_t fresh = q[i].input_tokens - q[i - 1].input_tokens - q[i - 1].output_tokens;
    cr_assert(fresh >= 20 && fresh <= 40, "%u", fresh);
  }
  cr_assert_leq(longest, 8u);
  for (size_t k = 1; k <= 3; k++)
    cr_assert_lt(fabs((double)in_group[k] - (double)sessions / 3),
                 5 * sqrt((double)sessions * 2 / 9));
  free(q);

  s->max_context = 0;
  s->agents_chance = 0.3;
  s->agents = (ds_length_law){.law = DS_LAW_FIXED, .value = 2};
  s->agent_turns = (ds_length_law){.law = DS_LAW_FIXED, .value = 2};
  s->agent_input = (ds_length_law){.law = DS_LAW_FIXED, .value = 777};
  q = all_of(&w, 7, &n);
  size_t nested = 0, forked = 0;
  for (size_t i = 0; i < n; i++) {
    cr_assert(q[i].after <= i && (q[i].turn == 0 || q[i].after > 0));
    if (q[i].turn != 0 || q[i].after == 0) continue;
    nested++;
    cr_assert_eq(q[i].input_tokens, 777);
    cr_assert_eq(q[i].think_ns, 0);
    if (i + 2 < n && q[i + 2].turn == 0 && q[i + 2].after == q[i].after) forked++;
  }
  cr_assert_gt(nested, 1000u);
  cr_assert_gt(forked, nested / 2 - 100);
  free(q);
}

/* Another knob moves nothing that it is not about. */
Test(gen_laws, streams_do_not_move_each_other) {
  ds_workload w = workload(3000, DS_ARRIVAL_MMPP, 5), v;
  size_t n, m;
  w.arrival.n_chain = 1;
  w.arrival.chain[0] = (ds_rate_chain){2, {1, 9}, {10, 10}};
  w.input = (ds_length_law){.law = DS_LAW_EXPONENTIAL, .mean = 300};
  w.output = (ds_length_law){.law = DS_LAW_NORMAL, .mean = 300, .sd = 200};
  w.prefix = (ds_prefix_law){.groups = 9, .share = 0.5, .theta = 1};
  ds_generated *a = all_of(&w, 5, &n);
  v = w;
  v.process = DS_ARRIVAL_GAMMA;
  v.arrival.shape = 0.2;
  v.output = (ds_length_law){.law = DS_LAW_ZIPF, .theta = 1, .min = 1, .max = 500};
  ds_generated *b = all_of(&v, 5, &m);
  for (size_t i = 0; i < n; i++) {
    cr_assert_eq(a[i].input_tokens, b[i].input_tokens);
    cr_assert_eq(a[i].prefix_group, b[i].prefix_group);
  }
  free(b);
  v = w;
  v.requests = 1000;
  v.input = (ds_length_law){.law = DS_LAW_FIXED, .value = 9};
  b = all_of(&v, 5, &m);
  for (size_t i = 0; i < m; i++) {
    cr_assert_eq(a[i].arrival_ns, b[i].arrival_ns);
    cr_assert_eq(a[i].output_tokens, b[i].output_tokens);
  }
  free(a);
  free(b);
}
