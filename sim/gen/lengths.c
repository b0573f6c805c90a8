// SPDX-License-Identifier: GPL-3.0-or-later
#include "gen/lengths.h"

#include "base/num.h"

static uint32_t whole_tokens(double x) {
  if (!(x >= 1.5)) return 1;
  if (x >= (double)DS_LENGTH_MAX) return DS_LENGTH_MAX;
  return (uint32_t)(x + 0.5);
}

ds_length ds_length_fixed(double value) {
  ds_length l = {.fixed = true, .tokens = whole_tokens(value)};
  return l;
}

ds_lognormal_fit ds_length_lognormal(double mean, double p, double value, double min, double max,
                                     ds_length *out) {
  *out = (ds_length){.fixed = false};
  return ds_lognormal_from(mean, p, value, min, max, &out->law);
}

ds_length ds_length_uniform(double low, double high) {
  return (ds_length){.kind = DS_LENGTH_UNIFORM, .low = low, .high = high};
}

/* --- normal -------------------------------------------------------------------------------- */

static double density(double z) { return 0.3989422804014326779 * ds_exp(-0.5 * z * z); }

/* Mean of what is drawn when the law's own mean is mu. */
static double normal_mean(const ds_length *l, double mu) {
  double a = (l->low - mu) / l->sd, b = (l->high - mu) / l->sd;
  bool top = l->high > 0.0;
  double pa = ds_normal_cdf(a), pb = top ? ds_normal_cdf(b) : 1.0, da = density(a),
         db = top ? density(b) : 0.0;
  double inside = mu * (pb - pa) + l->sd * (da - db);
  if (l->clamp) return inside + l->low * pa + (top ? l->high * (1.0 - pb) : 0.0);
  if (pb - pa < 1e-12) return a > 0.0 ? l->low : l->high; /* far outside: all at the nearer end */
  return inside / (pb - pa);
}

bool ds_length_normal(double mean, double sd, double min, double max, bool clamp, ds_length *out) {
  ds_length l = {.kind = DS_LENGTH_NORMAL,
                 .low = min >= 1.0 ? min : 1.0,
                 .high = max,
                 .mean = mean,
                 .sd = sd,
                 .clamp = clamp};
  *out = l;
  if (mean <= l.low || (max > 0.0 && mean >= max)) return false;
  double low = mean - 6.0 * sd, high = mean + 6.0 * sd;
  if (normal_mean(&l, low) > mean || normal_mean(&l, high) < mean) return false;
  for (int i = 0; i < 200; i++) {
    double mid = 0.5 * (low + high);
    if (mid <= low || mid >= high) break;
    if (normal_mean(&l, mid) < mean)
      low = mid;
    else
      high = mid;
  }
  out->mean = 0.5 * (low + high);
  return true;
}

ds_length ds_length_normal_tool(double mean, double sd) {
  return (ds_length){.kind = DS_LENGTH_NORMAL_TOOL, .mean = mean, .sd = sd};
}

static double normal_draw(const ds_length *l, ds_rng *r) {
  double x;
  if (l->kind == DS_LENGTH_NORMAL_TOOL) {
    for (int tries = 0; tries < 1000; tries++) {
      x = ds_floor(ds_draw_normal(r, l->mean, l->sd)); /* toward zero where it is kept */
      if (x >= 1.0) return x;
    }
    return 1.0;
  }
  if (l->clamp) {
    x = ds_draw_normal(r, l->mean, l->sd);
  } else {
    double pa = ds_normal_cdf((l->low - l->mean) / l->sd);
    double pb = l->high > 0.0 ? ds_normal_cdf((l->high - l->mean) / l->sd) : 1.0;
    x = l->mean + l->sd * ds_normal_quantile(pa + (pb - pa) * ds_rng_unit(r));
  }
  if (x < l->low) return l->low;
  return l->high > 0.0 && x > l->high ? l->high : x;
}

/* --- exponential --------------------------------------------------------------------------- */

/* Mean of max(1, nearest whole) of an exponential: 1 + the sum over k >= 1 of P(X >= k + 1/2). */
static double rounded_mean(double mean) {
  return 1.0 + ds_exp(-1.5 / mean) / (1.0 - ds_exp(-1.0 / mean));
}

ds_length ds_length_exponential(double mean) {
  double low = 0.01, high = mean + 1.0;
  for (int i = 0; i < 200; i++) {
    double mid = 0.5 * (low + high);
    if (mid <= low || mid >= high) break;
    if (rounded_mean(mid) < mean)
      low = mid;
    else
      high = mid;
  }
  return (ds_length){.kind = DS_LENGTH_EXPONENTIAL, .mean = 0.5 * (low + high)};
}

/* --- Zipf: rejection-inversion, Hoermann and Derflinger, ACM TOMACS 6 (1996) ---------------------
 */

/* Integral of x^-theta from 1, and its inverse. */
static double hat(double x, double theta) {
  double e = 1.0 - theta, log_x = ds_log(x);
  if (e < 1e-9 && e > -1e-9) return log_x;
  return (ds_exp(e * log_x) - 1.0) / e;
}
static double hat_inverse(double y, double theta) {
  double e = 1.0 - theta;
  if (e < 1e-9 && e > -1e-9) return ds_exp(y);
  double t = 1.0 + e * y;
  return ds_exp(ds_log(t > 1e-300 ? t : 1e-300) / e);
}

ds_length ds_length_zipf(double theta, double low, double high) {
  return (ds_length){.kind = DS_LENGTH_ZIPF, .theta = theta, .low = low, .high = high};
}

static double zipf_draw(const ds_length *l, ds_rng *r) {
  double n = l->high - l->low + 1.0, theta = l->theta;
  double from = hat(1.5, theta) - 1.0, to = hat(n + 0.5, theta);
  double near = 2.0 - hat_inverse(hat(2.5, theta) - ds_exp(-theta * ds_log(2.0)), theta);
  for (;;) {
    double u = to + ds_rng_unit(r) * (from - to), x = hat_inverse(u, theta);
    double k = ds_floor(x + 0.5);
    if (k < 1.0) k = 1.0;
    if (k > n) k = n;
    if (k - x <= near || u >= hat(k + 0.5, theta) - ds_exp(-theta * ds_log(k)))
      return l->low + k - 1.0;
  }
}

/* --- tables and mixtures ------------------------------------------------------------------- */

ds_length ds_length_table(const ds_quantile *q, size_t n, double mean) {
  double times = mean > 0.0 ? mean / ds_quantile_mean(q, n) : 1.0;
  return (ds_length){.kind = DS_LENGTH_TABLE, .table = q, .n_table = n, .times = times};
}

ds_length ds_length_mixture(const ds_length *part, const double *weight, size_t n) {
  return (ds_length){.kind = DS_LENGTH_MIXTURE, .part = part, .weight = weight, .n_part = n};
}

static uint32_t draw(const ds_length *l, ds_rng *r) {
  switch (l->kind) {
  case DS_LENGTH_PLAIN:
    return l->fixed ? l->tokens : whole_tokens(ds_draw_lognormal(r, &l->law));
  case DS_LENGTH_UNIFORM:
    return (uint32_t)(l->low + (double)ds_rng_below(r, (uint64_t)(l->high - l->low) + 1));
  case DS_LENGTH_NORMAL:
  case DS_LENGTH_NORMAL_TOOL:
    return whole_tokens(normal_draw(l, r));
  case DS_LENGTH_EXPONENTIAL:
    return whole_tokens(ds_draw_exponential(r, l->mean));
  case DS_LENGTH_ZIPF:
    return whole_tokens(zipf_draw(l, r));
  case DS_LENGTH_TABLE:
    return whole_tokens(l->times * ds_draw_empirical(r, l->table, l->n_table));
  case DS_LENGTH_MIXTURE:
    break;
  }
  double u = ds_rng_unit(r), reached = 0.0;
  size_t k = 0;
  while (k + 1 < l->n_part && (reached += l->weight[k]) < u) k++;
  return draw(&l->part[k], r);
}

uint32_t ds_length_draw(const ds_length *l, uint64_t seed, ds_purpose purpose, uint64_t index) {
  if (l->kind == DS_LENGTH_PLAIN && l->fixed) return l->tokens;
  ds_rng r = ds_rng_stream(seed, purpose, index);
  return draw(l, &r);
}
