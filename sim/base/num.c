// SPDX-License-Identifier: Apache-2.0
#include "base/num.h"

#include <string.h>

#define LN2      0.69314718055994530942
#define LOG2_E   1.44269504088896340736
#define TWO_62   4611686018427387904.0
#define INF_BITS 0x7ff0000000000000u

static uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static double double_of(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* 2^k for -1022 <= k <= 1023. */
static double power_of_two(int64_t k) { return double_of((uint64_t)(k + 1023) << 52); }

double ds_floor(double x) {
  if (!(x < TWO_62 && x > -TWO_62))
    return x; /* every double this large is an integer; NaN comes here too */
  double d = (double)(int64_t)x;
  return d > x ? d - 1.0 : d;
}

double ds_ceil(double x) {
  if (!(x < TWO_62 && x > -TWO_62)) return x;
  double d = (double)(int64_t)x;
  return d < x ? d + 1.0 : d;
}

/* Coefficients of atanh(s) / s in s^2, highest power first, down to 1/3. */
static const double ATANH[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                               1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
/* 1/n! from n = 14 down to 2. */
static const double EXP[] = {
    1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
    1.0 / 362880,      1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,
    1.0 / 24,          1.0 / 6,          1.0 / 2};

/* x = m 2^e with m in [1/sqrt 2, sqrt 2), then log2 m = 2/ln 2 atanh((m - 1) / (m + 1)). m - 1 is
 * exact, so that the result keeps its relative error near x = 1. The series' argument is at most
 * 0.1716; its last term is below 1e-17. */
double ds_log2(double x) {
  if (!(x > 0)) return -double_of(INF_BITS);
  int64_t e = 0;
  if (x < 2.2250738585072014e-308) { /* subnormal */
    x *= 18014398509481984.0;        /* 2^54 */
    e = -54;
  }
  uint64_t u = bits_of(x);
  e += (int64_t)(u >> 52) - 1023;
  double m = double_of((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    e += 1;
  }
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double r = ATANH[0];
  for (size_t i = 1; i < DS_ARRAY_LEN(ATANH); i++) r = r * z + ATANH[i];
  /* s + s z r, so that the leading term is not rounded twice. */
  return (double)e + (2.0 * LOG2_E) * (s + s * z * r);
}

/* 2^x = 2^k e^(f ln 2), f = x - k in [-1/2, 1/2] (exact); Taylor to degree 14, whose remainder is
 * below 1e-18. */
double ds_exp2(double x) {
  if (x != x) return x;
  if (x < -1020) return 0;
  if (x >= 1024) return double_of(INF_BITS);
  double k = ds_floor(x + 0.5), t = (x - k) * LN2;
  double r = EXP[0];
  for (size_t i = 1; i < DS_ARRAY_LEN(EXP); i++) r = r * t + EXP[i];
  r = 1.0 + (t + t * t * r);
  int64_t e = (int64_t)k;
  return e <= 1023 ? r * power_of_two(e) : r * power_of_two(1023) * 2.0;
}

double ds_log(double x) { return ds_log2(x) * LN2; }
double ds_exp(double x) { return ds_exp2(x * LOG2_E); }

double ds_pow(double x, double y) {
  if (y == 0) return 1;
  if (x <= 0) return y > 0 ? 0 : double_of(INF_BITS);
  return ds_exp2(y * ds_log2(x));
}

double ds_pnorm(double a, double b, double p) {
  double large = a > b ? a : b, small = a > b ? b : a;
  if (!(large > 0)) return 0;
  if (p == 1) return large + small;
  double r = small / large;
  if (p == 2) return large * ds_sqrt(1.0 + r * r);
  double r2 = r * r;
  if (p == 4) return large * ds_sqrt(ds_sqrt(1.0 + r2 * r2));
  return large * ds_pow(1.0 + ds_pow(r, p), 1.0 / p);
}
