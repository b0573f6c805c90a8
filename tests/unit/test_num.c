// SPDX-License-Identifier: GPL-3.0-or-later
/* base/num against libm: exact where the header says exact, within its bounds everywhere else. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/num.h"

/* A fixed walk over the unit interval that does not repeat (Weyl sequence on the golden ratio). */
static double weyl(int i) { return fmod(i * 0.61803398874989484820, 1.0); }

static double relative(double got, double want) {
  return want == 0 ? fabs(got) : fabs(got - want) / fabs(want);
}

Test(num, floor_and_ceil_are_libms) {
  const double odd[] = {0.0,
                        0.5,
                        1.0,
                        1.5,
                        -0.5,
                        -1.0,
                        -1.5,
                        1e15 + 0.5,
                        -1e15 - 0.5,
                        0x1p61,
                        -0x1p61,
                        0x1p62,
                        1e300,
                        -1e300,
                        0x1p-1060,
                        -0x1p-1060,
                        0x1.fffffffffffffp52,
                        4503599627370496.5};
  for (size_t i = 0; i < DS_ARRAY_LEN(odd); i++) {
    cr_assert_eq(ds_floor(odd[i]), floor(odd[i]), "floor(%a)", odd[i]);
    cr_assert_eq(ds_ceil(odd[i]), ceil(odd[i]), "ceil(%a)", odd[i]);
  }
  for (int i = 1; i < 100000; i++) {
    double x = (weyl(i) - 0.5) * exp2(1 + i % 60);
    cr_assert_eq(ds_floor(x), floor(x), "floor(%a)", x);
    cr_assert_eq(ds_ceil(x), ceil(x), "ceil(%a)", x);
  }
  cr_assert(isnan(ds_floor(NAN)));
  cr_assert(isnan(ds_ceil(NAN)));
}

Test(num, powers_of_two_are_exact) {
  for (int e = -1074; e <= 1023; e++)
    cr_assert_eq(ds_log2(ldexp(1.0, e)), (double)e, "log2(2^%d)", e);
  for (int e = -1020; e <= 1023; e++) cr_assert_eq(ds_exp2(e), ldexp(1.0, e), "exp2(%d)", e);
  cr_assert_eq(ds_exp2(-1021), 0.0);
  cr_assert_eq(ds_exp2(1024), INFINITY);
  cr_assert_eq(ds_pow(0, 2.5), 0.0);
  cr_assert_eq(ds_pow(0, 0), 1.0);
  cr_assert_eq(ds_pow(7.25, 0), 1.0);
  cr_assert_eq(ds_pow(4, 0.5), 2.0);
}

Test(num, log2_and_exp2_within_1e_14) {
  for (int i = 1; i < 200000; i++) {
    double u = weyl(i);
    double wide = ldexp(1.0 + u, i % 2090 - 1070);         /* every binade, subnormals included */
    double near = 1.0 + (u - 0.5) * ldexp(1.0, -(i % 50)); /* where the logarithm vanishes */
    cr_assert_lt(relative(ds_log2(wide), log2(wide)), 1e-14, "log2(%a)", wide);
    if (near != 1.0) cr_assert_lt(relative(ds_log2(near), log2(near)), 1e-14, "log2(%a)", near);
    double x = (u - 0.5) * 2040;
    cr_assert_lt(relative(ds_exp2(x), exp2(x)), 1e-14, "exp2(%a)", x);
    double small = (u - 0.5) * ldexp(1.0, -(i % 60));
    cr_assert_lt(relative(ds_exp2(small), exp2(small)), 1e-14, "exp2(%a)", small);
  }
}

Test(num, natural_forms_and_powers) {
  for (int i = 1; i < 100000; i++) {
    double u = weyl(i), x = ldexp(1.0 + u, i % 400 - 200);
    cr_assert_lt(relative(ds_log(x), log(x)), 2e-14, "log(%a)", x);
    double t = (u - 0.5) * 100;
    cr_assert_lt(relative(ds_exp(t), exp(t)), 1e-13, "exp(%a)", t);
    double y = 499 * (2 * weyl(3 * i) - 1) / log2(x); /* |y log2 x| < 500 */
    if (isfinite(y)) cr_assert_lt(relative(ds_pow(x, y), pow(x, y)), 1e-12, "pow(%a, %a)", x, y);
  }
}

Test(num, pnorm) {
  const double p[] = {1, 1.371, 1.8166, 2, 2.5628, 4, 4.8585, 6, 30};
  for (size_t k = 0; k < DS_ARRAY_LEN(p); k++) {
    for (int i = 1; i < 5000; i++) {
      double a = ldexp(1.0 + weyl(i), i % 40 - 30),
             b = ldexp(1.0 + weyl(7 * i), (i * 13) % 40 - 30);
      double want = pow(pow(a, p[k]) + pow(b, p[k]), 1 / p[k]), got = ds_pnorm(a, b, p[k]);
      cr_assert_lt(relative(got, want), 2e-13, "pnorm(%a, %a, %g)", a, b, p[k]);
      cr_assert_eq(got, ds_pnorm(b, a, p[k]));
      cr_assert_geq(got, a > b ? a : b);
    }
    cr_assert_eq(ds_pnorm(0, 0, p[k]), 0.0);
    cr_assert_eq(ds_pnorm(3, 0, p[k]), 3.0);
    cr_assert_lt(relative(ds_pnorm(3e200, 4e200, p[k]), 1e200 * ds_pnorm(3, 4, p[k])), 1e-13,
                 "p %g", p[k]);
    cr_assert_lt(relative(ds_pnorm(3e-200, 4e-200, p[k]), 1e-200 * ds_pnorm(3, 4, p[k])), 1e-13,
                 "p %g", p[k]);
  }
}

/* What a compiler may not change: the bits. Computed once here and stated; the determinism checks
 * build this file's functions with other compilers and other levels of optimisation. */
Test(num, bits_do_not_depend_on_the_build) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 1; i < 20000; i++) {
    double u = weyl(i);
    const double x[] = {ds_log2(ldexp(1 + u, i % 64 - 32)),
                        ds_exp2((u - 0.5) * 200),
                        ds_pow(1 + u, 37 * u),
                        ds_pnorm(u, weyl(5 * i), 1 + 5 * weyl(11 * i)),
                        ds_floor(u * 1e6),
                        ds_exp(u),
                        ds_log(1 + u)};
    for (size_t k = 0; k < DS_ARRAY_LEN(x); k++) {
      uint64_t bits;
      memcpy(&bits, &x[k], sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
  }
  cr_assert_eq(hash, 0x95bc556e576310afu, "hash %llx", (unsigned long long)hash);
}

Test(num, rounding_helpers) {
  cr_assert_eq(ds_ns_of_s(0), 0);
  cr_assert_eq(ds_ns_of_s(1.5e-9), 2);
  cr_assert_eq(ds_ns_of_s(0.010), 10000000);
  cr_assert_eq(ds_div_up(0, 16), 0);
  cr_assert_eq(ds_div_up(16, 16), 1);
  cr_assert_eq(ds_div_up(17, 16), 2);
}
