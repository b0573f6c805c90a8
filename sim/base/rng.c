// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include "base/wide.h"

/* Multipliers and Weyl increments of the paper, table 2. */
#define MUL0   0xD2511F53u
#define MUL1   0xCD9E8D57u
#define WEYL0  0x9E3779B9u
#define WEYL1  0xBB67AE85u
#define ROUNDS 10

void ds_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t p0 = (uint64_t)MUL0 * c0, p1 = (uint64_t)MUL1 * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += WEYL0;
    k1 += WEYL1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

ds_rng ds_rng_stream(uint64_t seed, ds_purpose purpose, uint64_t entity) {
  ds_rng r = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
              .counter = {0, (uint32_t)purpose << 16, (uint32_t)entity, (uint32_t)(entity >> 32)},
              .spare = 0,
              .has_spare = false};
  return r;
}

uint64_t ds_rng_bits(ds_rng *r) {
  if (r->has_spare) {
    r->has_spare = false;
    return r->spare;
  }
  uint32_t w[4];
  ds_philox(r->counter, r->key, w);
  if (++r->counter[0] ==
      0) { /* carry into the upper 16 bits of the block number, never into the purpose */
    r->counter[1] = (r->counter[1] & 0xffff0000u) | ((r->counter[1] + 1u) & 0xffffu);
  }
  r->spare = ((uint64_t)w[3] << 32) | w[2];
  r->has_spare = true;
  return ((uint64_t)w[1] << 32) | w[0];
}

double ds_rng_unit(ds_rng *r) {
  /* 52 bits and a half: the sum is exact in a double, the ends 0 and 1 cannot come out. */
  return ((double)(ds_rng_bits(r) >> 12) + 0.5) * (1.0 / 4503599627370496.0);
}

uint64_t ds_rng_below(ds_rng *r, uint64_t n) {
  DS_ASSERT(n > 0);
  /* Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): the high word of
   * bits x n, drawn again in the sliver that would favour some results. */
  ds_wide m = ds_wide_mul(ds_rng_bits(r), n);
  if (m.lo < n) {
    uint64_t sliver = (0u - n) % n;
    while (m.lo < sliver) m = ds_wide_mul(ds_rng_bits(r), n);
  }
  return m.hi;
}
