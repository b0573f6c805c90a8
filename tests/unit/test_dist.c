// SPDX-License-Identifier: GPL-3.0-or-later
#include <criterion/criterion.h>

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dist.h"

/* Φ and its inverse against GSL, whose routines are Cody's and Wichura's in another's words. */
Test(dist, normal_functions_agree_with_gsl) {
  for (double x = -8.4; x < 8.4; x += 0.0137) {
    cr_assert_float_eq(ds_normal_cdf(x), gsl_cdf_ugaussian_P(x), 2e-15, "x %g: %.17g, GSL %.17g", x,
                       ds_normal_cdf(x), gsl_cdf_ugaussian_P(x));
  }
  cr_assert_eq(ds_normal_cdf(0.0), 0.5);
  cr_assert_eq(ds_normal_cdf(-40.0), 0.0);
  cr_assert_eq(ds_normal_cdf(40.0), 1.0);
  static const double small[] = {1e-300, 1e-100, 1e-40, 1e-16, 1e-9, 1e-5, 1e-3};
  for (size_t i = 0; i < DS_ARRAY_LEN(small); i++) {
    double got = ds_normal_quantile(small[i]), want = gsl_cdf_ugaussian_Pinv(small[i]);
    cr_assert_lt(fabs(got / want - 1), 1e-13, "p %g: %.17g, GSL %.17g", small[i], got, want);
  }
  for (double p = 0.0005; p < 1; p += 0.000917) {
    double got = ds_normal_quantile(p), want = gsl_cdf_ugaussian_Pinv(p);
    cr_assert_lt(fabs(got - want), 1e-13 * (1 + fabs(want)), "p %g: %.17g, GSL %.17g", p, got,
                 want);
  }
  cr_assert_eq(ds_normal_quantile(0.5), 0.0);
}

#define DRAWS 20000
/* Kolmogorov-Smirnov: sqrt(n) D exceeds 1.95 with probability 0.001 (Smirnov's limit). */
#define KS_LIMIT (1.95 / sqrt((double)DRAWS))

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct law {
  const char *name;
  double (*draw)(ds_rng *r, double a, double b);
  double (*cdf)(double x, double a, double b);
  double a, b, mean, variance;
} law;

static double draw_exponential(ds_rng *r, double mean, double unused) {
  return ds_draw_exponential(r, mean + 0 * unused);
}
static double cdf_exponential(double x, double mean, double unused) {
  return gsl_cdf_exponential_P(x, mean + 0 * unused);
}
static double cdf_normal(double x, double mean, double sd) {
  return gsl_cdf_gaussian_P(x - mean, sd);
}
static double draw_lognormal(ds_rng *r, double mu, double sigma) {
  ds_lognormal l = {.mu = mu, .sigma = sigma, .p_high = 1.0};
  return ds_draw_lognormal(r, &l);
}

/* Every sampler follows GSL's distribution function, and has the law's mean and variance within
 * five standard errors. */
Test(dist, samplers_follow_their_laws) {
  const law laws[] = {
      {"uniform", ds_draw_uniform, gsl_cdf_flat_P, -3, 5, 1, 64.0 / 12},
      {"exponential", draw_exponential, cdf_exponential, 0.1808, 0, 0.1808, 0.1808 * 0.1808},
      {"normal", ds_draw_normal, cdf_normal, 342.6, 249.9, 342.6, 249.9 * 249.9},
      {"lognormal", draw_lognormal, gsl_cdf_lognormal_P, 4.641, 0.71, exp(4.641 + 0.71 * 0.71 / 2),
       (exp(0.71 * 0.71) - 1) * exp(2 * 4.641 + 0.71 * 0.71)},
      {"gamma 0.231", ds_draw_gamma, gsl_cdf_gamma_P, 0.231, 1.685, 0.231 * 1.685,
       0.231 * 1.685 * 1.685},
      {"gamma 0.871", ds_draw_gamma, gsl_cdf_gamma_P, 0.871, 0.2076, 0.871 * 0.2076,
       0.871 * 0.2076 * 0.2076},
      {"gamma 1", ds_draw_gamma, gsl_cdf_gamma_P, 1, 2, 2, 4},
      {"gamma 2.083", ds_draw_gamma, gsl_cdf_gamma_P, 2.083, 136, 2.083 * 136, 2.083 * 136 * 136},
      {"gamma 60", ds_draw_gamma, gsl_cdf_gamma_P, 60, 0.5, 30, 15},
  };
  double *x = malloc(DRAWS * sizeof *x);
  for (size_t i = 0; i < DS_ARRAY_LEN(laws); i++) {
    const law *l = &laws[i];
    ds_rng r = ds_rng_stream(2026, DS_PURPOSE_TEST, i);
    double sum = 0, squares = 0, fourth = 0, d = 0;
    for (int k = 0; k < DRAWS; k++) {
      x[k] = l->draw(&r, l->a, l->b);
      double e = x[k] - l->mean;
      sum += e;
      squares += e * e;
      fourth += e * e * e * e;
    }
    qsort(x, DRAWS, sizeof *x, ascending);
    for (int k = 0; k < DRAWS; k++) {
      double f = l->cdf(x[k], l->a, l->b);
      d = fmax(d, fmax(f - k / (double)DRAWS, (k + 1) / (double)DRAWS - f));
    }
    cr_assert_lt(d, KS_LIMIT, "%s: D %g", l->name, d);
    cr_assert_lt(fabs(sum / DRAWS), 5 * sqrt(l->variance / DRAWS), "%s: mean off by %g", l->name,
                 sum / DRAWS);
    double variance = squares / DRAWS, error = sqrt((fourth / DRAWS - variance * variance) / DRAWS);
    cr_assert_lt(fabs(variance - l->variance), 5 * error, "%s: variance %g, expected %g", l->name,
                 variance, l->variance);
  }
  free(x);
}

/* Samplers by inversion take one uniform each and keep its rank: u near 0 is a small normal and a
 * large exponential. */
Test(dist, inversion_keeps_ranks) {
  for (uint64_t e = 0; e < 1000; e++) {
    ds_rng r = ds_rng_stream(8, DS_PURPOSE_TEST, e), s = r, t = r, u = r;
    double p = ds_rng_unit(&r);
    double by_exponential = gsl_cdf_exponential_Q(ds_draw_exponential(&s, 3.0), 3.0);
    double by_normal = gsl_cdf_ugaussian_P(ds_draw_normal(&t, 0, 1)),
           by_uniform = gsl_cdf_flat_P(ds_draw_uniform(&u, 2, 4), 2, 4);
    cr_assert_float_eq(by_exponential, p, 1e-12);
    cr_assert_float_eq(by_normal, p, 1e-12);
    cr_assert_float_eq(by_uniform, p, 1e-12);
  }
}

/* mean and p99, mean and median: the law that comes out has them, by GSL's reckoning. */
Test(dist, lognormal_is_found_from_mean_and_percentile) {
  static const struct {
    double mean, p, value;
  } ask[] = {{550, 0.99, 3000}, {211.1, 0.99, 601}, {1154.7, 0.99, 4142}, {100, 0.99, 1490},
             {100, 0.99, 100},  {100, 0.5, 100},    {1505, 0.5, 731},     {30, 0.9, 60}};
  for (size_t i = 0; i < DS_ARRAY_LEN(ask); i++) {
    ds_lognormal l;
    cr_assert_eq(ds_lognormal_from(ask[i].mean, ask[i].p, ask[i].value, 0, 0, &l), DS_FIT_OK);
    cr_assert_lt(fabs(exp(l.mu + l.sigma * l.sigma / 2) / ask[i].mean - 1), 1e-12);
    double value = l.sigma == 0 ? exp(l.mu) : gsl_cdf_lognormal_Pinv(ask[i].p, l.mu, l.sigma);
    cr_assert_lt(fabs(value / ask[i].value - 1), 1e-11, "case %zu: %g", i, value);
  }
  ds_lognormal l;
  /* z^2 / 2 = 2.7060 for the 99th percentile, so it is at most e^2.706 = 14.969 times the mean. */
  cr_assert_eq(ds_lognormal_from(100, 0.99, 1498, 0, 0, &l), DS_FIT_SHAPE);
  cr_assert_eq(ds_lognormal_from(100, 0.99, 99, 0, 0, &l), DS_FIT_SHAPE);
  cr_assert_eq(ds_lognormal_from(100, 0.5, 101, 0, 0, &l), DS_FIT_SHAPE);
  cr_assert_eq(ds_lognormal_from(0, 0.5, 1, 0, 0, &l), DS_FIT_SHAPE);
  cr_assert_eq(ds_lognormal_from(100, 0.99, 300, 101, 0, &l), DS_FIT_LIMITS);
  cr_assert_eq(ds_lognormal_from(100, 0.99, 300, 0, 99, &l), DS_FIT_LIMITS);
  cr_assert_eq(ds_lognormal_from(100, 0.99, 300, 200, 50, &l), DS_FIT_LIMITS);
  /* So wide a law has no mean of 50 above 49 without all of it lying below. */
  cr_assert_eq(ds_lognormal_from(50, 0.99, 500, 49, 0, &l), DS_FIT_LIMITS);
}

/* With limits: draws are the law's draws that fall inside (drawing again gives this distribution
 * function), and their mean is the mean asked for. */
Test(dist, limited_lognormal_keeps_its_mean) {
  static const struct {
    double mean, p99, low, high;
  } ask[] = {{550, 3000, 0, 2048}, {550, 3000, 16, 0},    {550, 3000, 100, 4096},
             {211, 601, 150, 300}, {1000, 9000, 0, 1500}, {100, 500, 49, 0}};
  double *x = malloc(DRAWS * sizeof *x);
  for (size_t i = 0; i < DS_ARRAY_LEN(ask); i++) {
    ds_lognormal l;
    cr_assert_eq(ds_lognormal_from(ask[i].mean, 0.99, ask[i].p99, ask[i].low, ask[i].high, &l),
                 DS_FIT_OK, "case %zu", i);
    ds_lognormal free_law;
    ds_lognormal_from(ask[i].mean, 0.99, ask[i].p99, 0, 0, &free_law);
    cr_assert_eq(l.sigma, free_law.sigma);
    cr_assert_lt(fabs(ds_lognormal_mean(&l) / ask[i].mean - 1), 1e-6);
    double low = ask[i].low, high = ask[i].high > 0 ? ask[i].high : INFINITY;
    double f_low = low > 0 ? gsl_cdf_lognormal_P(low, l.mu, l.sigma) : 0,
           f_high = isfinite(high) ? gsl_cdf_lognormal_P(high, l.mu, l.sigma) : 1;
    ds_rng r = ds_rng_stream(77, DS_PURPOSE_TEST, i);
    double sum = 0, squares = 0, d = 0;
    for (int k = 0; k < DRAWS; k++) {
      x[k] = ds_draw_lognormal(&r, &l);
      cr_assert(x[k] >= low && x[k] <= high);
      sum += x[k];
      squares += x[k] * x[k];
    }
    double mean = sum / DRAWS, error = sqrt((squares / DRAWS - mean * mean) / DRAWS);
    cr_assert_lt(fabs(mean - ask[i].mean), 4.5 * error, "case %zu: mean %g, asked %g", i, mean,
                 ask[i].mean);
    qsort(x, DRAWS, sizeof *x, ascending);
    for (int k = 0; k < DRAWS; k++) {
      double f = (gsl_cdf_lognormal_P(x[k], l.mu, l.sigma) - f_low) / (f_high - f_low);
      d = fmax(d, fmax(f - k / (double)DRAWS, (k + 1) / (double)DRAWS - f));
    }
    cr_assert_lt(d, KS_LIMIT, "case %zu: D %g", i, d);
  }
  free(x);
}

Test(dist, empirical_is_piecewise_linear) {
  static const ds_quantile q[] = {{0.0, 10}, {0.25, 20}, {0.5, 20}, {0.9, 100}, {1.0, 300}};
  static const struct {
    double p, x;
  } want[] = {{-1, 10},  {0, 10},    {0.125, 15}, {0.25, 20}, {0.3, 20}, {0.5, 20},
              {0.7, 60}, {0.9, 100}, {0.95, 200}, {1, 300},   {2, 300}};
  for (size_t i = 0; i < DS_ARRAY_LEN(want); i++)
    cr_assert_float_eq(ds_quantile_at(q, 5, want[i].p), want[i].x, 1e-12, "p %g", want[i].p);
  /* 0.25 x 15 + 0.25 x 20 + 0.4 x 60 + 0.1 x 200 */
  cr_assert_float_eq(ds_quantile_mean(q, 5), 52.75, 1e-12);
  cr_assert_eq(ds_quantile_at(q, 1, 0.7), 10.0);
  ds_rng r = ds_rng_stream(4, DS_PURPOSE_TEST, 0);
  double sum = 0;
  int below = 0;
  for (int k = 0; k < 100000; k++) {
    double x = ds_draw_empirical(&r, q, 5);
    sum += x;
    below += x <= 100;
  }
  cr_assert_float_eq(sum / 100000, 52.75, 5 * 60.0 / sqrt(100000));
  cr_assert_float_eq(below / 100000.0, 0.9, 5 * sqrt(0.09 / 100000));
}

/* The first bits of every sampler, so that a compiler or a machine that computes otherwise is
 * noticed. Made by this program; that they follow the laws is what the tests above show. */
Test(dist, bits_are_the_same_everywhere) {
  ds_rng r = ds_rng_stream(1, DS_PURPOSE_TEST, 0);
  ds_lognormal l;
  ds_lognormal_from(550, 0.99, 3000, 16, 4096, &l);
  uint64_t h = 14695981039346656037u;
  for (int k = 0; k < 3000; k++) {
    double x[6] = {ds_draw_uniform(&r, 1, 2), ds_draw_exponential(&r, 2),
                   ds_draw_normal(&r, 1, 2),  ds_draw_gamma(&r, 0.3, 2),
                   ds_draw_gamma(&r, 3, 2),   ds_draw_lognormal(&r, &l)};
    for (int i = 0; i < 6; i++) {
      uint64_t bits;
      memcpy(&bits, &x[i], sizeof bits);
      h = (h ^ bits) * 1099511628211u;
    }
  }
  cr_assert_eq(h, 0x4e9d72619c82745cu, "0x%016llx", (unsigned long long)h);
}
