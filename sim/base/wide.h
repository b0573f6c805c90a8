// SPDX-License-Identifier: Apache-2.0
/* Unsigned 128-bit sums in two limbs: sums of squares and time integrals overflow 64 bits, and a double would
 * depend on the order of addition. Where the processor has no 64 x 64 -> 128 multiplication (wasm would import a helper
 * for __int128) the product is made of four. */
#ifndef DS_BASE_WIDE_H
#define DS_BASE_WIDE_H

#include "base/types.h"

typedef struct ds_wide {
  uint64_t lo, hi;
} ds_wide;

static inline void ds_wide_add(ds_wide *w, uint64_t x) {
  w->lo += x;
  w->hi += w->lo < x;
}

static inline void ds_wide_add_wide(ds_wide *w, ds_wide x) {
  w->lo += x.lo;
  w->hi += x.hi + (w->lo < x.lo);
}

/* a x b, exact. */
static inline ds_wide ds_wide_mul(uint64_t a, uint64_t b) {
#if defined(__x86_64__) || defined(__aarch64__) /* one instruction; the same integers */
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (ds_wide){(uint64_t)product, (uint64_t)(product >> 64)};
#else
  uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
  uint64_t mid = (p00 >> 32) + (p01 & 0xffffffffu) + (p10 & 0xffffffffu);
  ds_wide r = {(p00 & 0xffffffffu) | (mid << 32), p11 + (p01 >> 32) + (p10 >> 32) + (mid >> 32)};
  return r;
#endif
}

/* Nearest double, up to one rounding of each limb. */
static inline double ds_wide_double(ds_wide w) { return (double)w.hi * 18446744073709551616.0 + (double)w.lo; }

#endif
