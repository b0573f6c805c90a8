// SPDX-License-Identifier: Apache-2.0
/* Arithmetic that gives the same bits under gcc, clang and wasm: only + - * / and sqrt.
 * libm's log, exp and pow differ between processors; its floor and ceil are library calls for some compilers. */
#ifndef DS_BASE_NUM_H
#define DS_BASE_NUM_H

#include "base/types.h"

/* Largest integer <= x and smallest integer >= x, as doubles. |x| < 2^62; larger x is returned as it is. */
double ds_floor(double x);
double ds_ceil(double x);

/* Base-2 logarithm (x > 0 and finite) and exponential; relative error below 1e-14. exp2 of less than -1020 is 0. */
double ds_log2(double x);
double ds_exp2(double x);

/* Natural forms on the same base: ln x = log2 x * ln 2. */
double ds_log(double x);
double ds_exp(double x);

/* x to the power y for x >= 0: exp2(y log2 x), with 0^y = 0 for y > 0 and x^0 = 1. Relative error below 1e-12 for |y log2 x| < 500. */
double ds_pow(double x, double y);

/* (a^p + b^p)^(1/p) for a, b >= 0 and p >= 1: hypot-like, scaled so that nothing overflows.
 * p of 1, 2 and 4 need only + and sqrt. */
double ds_pnorm(double a, double b, double p);

#if defined(__GNUC__) || defined(__clang__)
#define ds_sqrt(x) __builtin_sqrt(x) /* one instruction under -fno-math-errno */
#endif

/* Seconds (>= 0) to nanoseconds, to nearest: the one place where a cost is rounded. Inline: the hot loop calls it. */
static inline int64_t ds_ns_of_s(double seconds) { return (int64_t)(seconds * 1e9 + 0.5); }

/* Blocks of `per` that hold n tokens; a 32-bit division, several times faster than a 64-bit one. */
static inline uint32_t ds_blocks_of(uint32_t n, uint32_t per) { return (n + per - 1) / per; }

/* ceil(a / b) for a >= 0, b > 0. */
static inline int64_t ds_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
