// SPDX-License-Identifier: Apache-2.0
#include "base/dist.h"

#include "base/num.h"

#define INV_SQRT_2PI 0.3989422804014326779
#define NORMAL_FAR   8.5 /* beyond it 1 - P(Z <= x) is below 1e-17 */
#define SIGMA_REACH  3.0 /* limits must leave about the mass beyond three sigma, 0.13 %, at least  \
                          */

double ds_normal_cdf(double x) {
  if (x < -NORMAL_FAR) return 0.0;
  if (x > NORMAL_FAR) return 1.0;
  /* 1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...): Marsaglia, "Evaluating the normal distribution", J.
   * Stat. Software 11 (2004). All terms have one sign, so nothing cancels. */
  double term = x, sum = x, before = 0.0, square = x * x;
  for (double k = 3.0; sum != before; k += 2.0) {
    before = sum;
    term *= square / k;
    sum += term;
  }
  double p = 0.5 + sum * INV_SQRT_2PI * ds_exp(-0.5 * square);
  return p < 0.0 ? 0.0 : p > 1.0 ? 1.0 : p;
}

/* Coefficients of AS 241, routine PPND16, highest power first. */
static const double central_num[8] = {
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
    13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608};
static const double central_den[8] = {
    5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
    5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
static const double near_num[8] = {7.7454501427834140764e-4, 0.0227238449892691845833,
                                   0.24178072517745061177,   1.27045825245236838258,
                                   3.64784832476320460504,   5.7694972214606914055,
                                   4.6303378461565452959,    1.42343711074968357734};
static const double near_den[8] = {1.05075007164441684324e-9, 5.475938084995344946e-4,
                                   0.0151986665636164571966,  0.14810397642748007459,
                                   0.68976733498510000455,    1.6763848301838038494,
                                   2.05319162663775882187,    1.0};
static const double far_num[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                  0.0012426609473880784386,  0.026532189526576123093,
                                  0.29656057182850489123,    1.7848265399172913358,
                                  5.4637849111641143699,     6.6579046435011037772};
static const double far_den[8] = {2.04426310338993978564e-15, 1.4215117583164458887e-7,
                                  1.8463183175100546818e-5,   7.868691311456132591e-4,
                                  0.0148753612908506148525,   0.13692988092273580531,
                                  0.59983220655588793769,     1.0};

static double ratio(const double num[8], const double den[8], double r) {
  double a = num[0], b = den[0];
  for (int i = 1; i < 8; i++) {
    a = a * r + num[i];
    b = b * r + den[i];
  }
  return a / b;
}

double ds_normal_quantile(double p) {
  double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) return q * ratio(central_num, central_den, 0.180625 - q * q);
  double tail = q < 0.0 ? p : 1.0 - p;
  if (tail < 1e-300) tail = 1e-300; /* p of 0 or 1: as far as the routine goes */
  double r = ds_sqrt(-ds_log(tail));
  double z = r <= 5.0 ? ratio(near_num, near_den, r - 1.6) : ratio(far_num, far_den, r - 5.0);
  return q < 0.0 ? -z : z;
}

double ds_draw_uniform(ds_rng *r, double low, double high) {
  return low + (high - low) * ds_rng_unit(r);
}

double ds_draw_exponential(ds_rng *r, double mean) { return -mean * ds_log(ds_rng_unit(r)); }

double ds_draw_normal(ds_rng *r, double mean, double sd) {
  return mean + sd * ds_normal_quantile(ds_rng_unit(r));
}

double ds_draw_gamma(ds_rng *r, double shape, double scale) {
  double boost = 1.0;
  if (shape < 1.0) {
    boost = ds_pow(ds_rng_unit(r), 1.0 / shape);
    shape += 1.0;
  }
  double d = shape - 1.0 / 3.0, c = 1.0 / ds_sqrt(9.0 * d);
  for (;;) {
    double z = ds_draw_normal(r, 0.0, 1.0), v = 1.0 + c * z;
    if (v <= 0.0) continue;
    v = v * v * v;
    if (ds_log(ds_rng_unit(r)) < 0.5 * z * z + d - d * v + d * ds_log(v))
      return boost * d * v * scale;
  }
}

static void set_limits(ds_lognormal *l) {
  l->p_low = l->low > 0.0 ? ds_normal_cdf((ds_log(l->low) - l->mu) / l->sigma) : 0.0;
  l->p_high = l->high > 0.0 ? ds_normal_cdf((ds_log(l->high) - l->mu) / l->sigma) : 1.0;
}

double ds_draw_lognormal(ds_rng *r, const ds_lognormal *l) {
  double u = ds_rng_unit(r);
  if (l->sigma == 0.0) return ds_exp(l->mu);
  double x = ds_exp(l->mu + l->sigma * ds_normal_quantile(l->p_low + u * (l->p_high - l->p_low)));
  if (l->low > 0.0 && x < l->low) return l->low;
  if (l->high > 0.0 && x > l->high) return l->high;
  return x;
}

double ds_lognormal_mean(const ds_lognormal *l) {
  double all = ds_exp(l->mu + 0.5 * l->sigma * l->sigma);
  if (l->sigma == 0.0) return all;
  /* E[X; a < X < b] = E[X] (P(beta - sigma) - P(alpha - sigma)) */
  double low = l->low > 0.0 ? ds_normal_cdf((ds_log(l->low) - l->mu) / l->sigma - l->sigma) : 0.0;
  double high =
      l->high > 0.0 ? ds_normal_cdf((ds_log(l->high) - l->mu) / l->sigma - l->sigma) : 1.0;
  return all * (high - low) / (l->p_high - l->p_low);
}

/* Move mu by bisection (the mean of the limited law grows with mu) until the mean is met. */
static ds_lognormal_fit fit_limits(double mean, ds_lognormal *l) {
  double free_mu = l->mu;
  /* A lower limit raises the mean and an upper one lowers it, so the free mu is a bound on one side
   * of the answer. */
  double a = l->low > 0.0 ? ds_log(l->low) - SIGMA_REACH * l->sigma : free_mu;
  double b = l->high > 0.0 ? ds_log(l->high) + SIGMA_REACH * l->sigma : free_mu;
  if (a > free_mu) a = free_mu;
  if (b < free_mu) b = free_mu;
  for (int i = 0; i < 200 && a < b; i++) {
    l->mu = 0.5 * (a + b);
    if (l->mu <= a || l->mu >= b) break;
    set_limits(l);
    if (!(l->p_high - l->p_low >
          1e-12)) { /* nearly everything on one side: move towards the limits */
      if (l->p_low > 0.5)
        a = l->mu;
      else
        b = l->mu;
      continue;
    }
    if (ds_lognormal_mean(l) < mean)
      a = l->mu;
    else
      b = l->mu;
  }
  set_limits(l);
  if (!(l->p_high - l->p_low > 1e-4)) return DS_FIT_LIMITS;
  double off = ds_lognormal_mean(l) / mean - 1.0;
  return off < 1e-6 && off > -1e-6 ? DS_FIT_OK : DS_FIT_LIMITS;
}

ds_lognormal_fit ds_lognormal_from(double mean, double p, double value, double low, double high,
                                   ds_lognormal *out) {
  ds_lognormal l = {.mu = 0.0, .sigma = 0.0, .low = low, .high = high, .p_low = 0.0, .p_high = 1.0};
  *out = l;
  if (!(mean > 0.0) || !(value > 0.0) || !(p >= 0.5) || !(p < 1.0)) return DS_FIT_SHAPE;
  /* ln value = mu + z sigma and ln mean = mu + sigma^2 / 2; of the two roots the smaller sigma,
   * which is the one that goes to 0 as the value goes to the mean. */
  double z = p == 0.5 ? 0.0 : ds_normal_quantile(p), gap = ds_log(value / mean);
  double root = z * z - 2.0 * gap;
  if (root < 0.0) return DS_FIT_SHAPE;
  l.sigma = z == 0.0 ? ds_sqrt(root) : z - ds_sqrt(root);
  if (l.sigma < 0.0) return DS_FIT_SHAPE;
  l.mu = ds_log(mean) - 0.5 * l.sigma * l.sigma;
  if ((low > 0.0 && mean < low) || (high > 0.0 && mean > high) || (high > 0.0 && low > high))
    return DS_FIT_LIMITS;
  ds_lognormal_fit fit = DS_FIT_OK;
  if (l.sigma > 0.0 && (low > 0.0 || high > 0.0)) fit = fit_limits(mean, &l);
  *out = l;
  return fit;
}

double ds_quantile_at(const ds_quantile *q, size_t n, double p) {
  if (p <= q[0].p) return q[0].x;
  size_t low = 0, high = n - 1;
  if (p >= q[high].p) return q[high].x;
  while (high - low > 1) {
    size_t mid = low + (high - low) / 2;
    if (q[mid].p <= p)
      low = mid;
    else
      high = mid;
  }
  double width = q[high].p - q[low].p;
  return q[low].x + (q[high].x - q[low].x) * ((p - q[low].p) / width);
}

double ds_quantile_mean(const ds_quantile *q, size_t n) {
  double sum = 0.0;
  for (size_t i = 1; i < n; i++) sum += (q[i].p - q[i - 1].p) * 0.5 * (q[i].x + q[i - 1].x);
  return n == 1 ? q[0].x : sum;
}

double ds_draw_empirical(ds_rng *r, const ds_quantile *q, size_t n) {
  return ds_quantile_at(q, n, ds_rng_unit(r));
}
