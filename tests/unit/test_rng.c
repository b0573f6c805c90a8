// SPDX-License-Identifier: GPL-3.0-or-later
#include <criterion/criterion.h>

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* Known answers of philox4x32-10 as published with Random123 (file kat_vectors of its tests). */
Test(rng, philox_gives_the_published_answers) {
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(kat); i++) {
    uint32_t out[4];
    ds_philox(kat[i].counter, kat[i].key, out);
    cr_assert_eq(memcmp(out, kat[i].out, sizeof out), 0, "vector %zu: %08x %08x %08x %08x", i,
                 out[0], out[1], out[2], out[3]);
  }
}

/* What a stream is made of: block number, purpose and entity in the counter, the seed as the key.
 */
Test(rng, stream_is_the_bijection_of_seed_purpose_entity) {
  const uint64_t seed = 0x0123456789abcdefu, entity = 0xfedcba9876543210u;
  ds_rng r = ds_rng_stream(seed, DS_PURPOSE_OUTPUT_TOKENS, entity);
  for (uint32_t block = 0; block < 5; block++) {
    uint32_t counter[4] = {block, (uint32_t)DS_PURPOSE_OUTPUT_TOKENS << 16, 0x76543210u,
                           0xfedcba98u};
    uint32_t key[2] = {0x89abcdefu, 0x01234567u}, out[4];
    ds_philox(counter, key, out);
    cr_assert_eq(ds_rng_bits(&r), ((uint64_t)out[1] << 32) | out[0]);
    cr_assert_eq(ds_rng_bits(&r), ((uint64_t)out[3] << 32) | out[2]);
  }
  /* The block number carries into its upper 16 bits and leaves the purpose alone. */
  r = ds_rng_stream(seed, DS_PURPOSE_ORDER, 7);
  r.counter[0] = 0xffffffffu;
  ds_rng_bits(&r);
  cr_assert_eq(r.counter[0], 0u);
  cr_assert_eq(r.counter[1], ((uint32_t)DS_PURPOSE_ORDER << 16) | 1u);
  r.counter[0] = 0xffffffffu;
  r.counter[1] = ((uint32_t)DS_PURPOSE_ORDER << 16) | 0xffffu;
  r.has_spare = false;
  ds_rng_bits(&r);
  cr_assert_eq(r.counter[1], (uint32_t)DS_PURPOSE_ORDER << 16);
}

/* Neighbouring seeds, purposes and entities share nothing: bits of pairs agree half of the time. */
Test(rng, neighbouring_streams_are_unrelated) {
  static const struct {
    uint64_t seed;
    ds_purpose purpose;
    uint64_t entity;
  } other[] = {{2, DS_PURPOSE_ARRIVAL, 0},
               {1, DS_PURPOSE_INPUT_TOKENS, 0},
               {1, DS_PURPOSE_ARRIVAL, 1},
               {0, DS_PURPOSE_ARRIVAL, 0}};
  const int draws = 20000;
  for (size_t i = 0; i < DS_ARRAY_LEN(other); i++) {
    ds_rng a = ds_rng_stream(1, DS_PURPOSE_ARRIVAL, 0),
           b = ds_rng_stream(other[i].seed, other[i].purpose, other[i].entity);
    double same = 0;
    for (int k = 0; k < draws; k++)
      same += __builtin_popcountll(~(ds_rng_bits(&a) ^ ds_rng_bits(&b)));
    double n = 64.0 * draws, z = (same - n / 2) / sqrt(n / 4);
    cr_assert_lt(fabs(z), 4.0, "stream %zu: z %g", i, z);
  }
  /* First draws of consecutive entities, as lengths use them: each of the 64 bits is fair. */
  int ones[64] = {0};
  for (uint64_t e = 0; e < (uint64_t)draws; e++) {
    ds_rng r = ds_rng_stream(3, DS_PURPOSE_INPUT_TOKENS, e);
    uint64_t bits = ds_rng_bits(&r);
    for (int b = 0; b < 64; b++) ones[b] += (int)(bits >> b & 1);
  }
  for (int b = 0; b < 64; b++)
    cr_assert_lt(fabs((ones[b] - draws / 2) / sqrt(draws / 4.0)), 4.5, "bit %d: %d", b, ones[b]);
}

/* Pearson's test of below(n) against equal shares, also where n is no power of two and rejection
 * works. */
Test(rng, below_is_uniform_and_in_range) {
  static const uint64_t bound[] = {1, 2, 3, 7, 10, 100, 1000};
  for (size_t i = 0; i < DS_ARRAY_LEN(bound); i++) {
    uint64_t n = bound[i];
    int count[1000] = {0}, draws = 200000;
    ds_rng r = ds_rng_stream(11, DS_PURPOSE_TEST, i);
    for (int k = 0; k < draws; k++) {
      uint64_t x = ds_rng_below(&r, n);
      cr_assert_lt(x, n);
      count[x]++;
    }
    if (n == 1) continue;
    double mean = draws / (double)n, chi2 = 0;
    for (uint64_t x = 0; x < n; x++) chi2 += (count[x] - mean) * (count[x] - mean) / mean;
    double p = gsl_cdf_chisq_Q(chi2, (double)n - 1);
    cr_assert(p > 1e-4 && p < 1 - 1e-4, "n %llu: chi2 %g, p %g", (unsigned long long)n, chi2, p);
  }
  /* 3 x 2^62: taking bits modulo n would favour the first third two to one. */
  uint64_t n = 3ULL << 62, low = 0;
  ds_rng r = ds_rng_stream(12, DS_PURPOSE_TEST, 0);
  for (int k = 0; k < 30000; k++) low += ds_rng_below(&r, n) < n / 3;
  cr_assert_float_eq((double)low / 30000, 1.0 / 3, 0.011, "share of the first third %g",
                     (double)low / 30000);
}

Test(rng, unit_is_open_at_both_ends_and_uniform) {
  ds_rng r = ds_rng_stream(5, DS_PURPOSE_TEST, 9);
  int cell[100] = {0}, draws = 100000;
  double least = 1, most = 0;
  for (int k = 0; k < draws; k++) {
    double u = ds_rng_unit(&r);
    cr_assert(u > 0.0 && u < 1.0);
    cell[(int)(u * 100)]++;
    least = u < least ? u : least;
    most = u > most ? u : most;
  }
  double chi2 = 0;
  for (int i = 0; i < 100; i++) chi2 += (cell[i] - 1000.0) * (cell[i] - 1000.0) / 1000.0;
  double p = gsl_cdf_chisq_Q(chi2, 99);
  cr_assert(p > 1e-4 && p < 1 - 1e-4, "chi2 %g, p %g", chi2, p);
  cr_assert(least < 1e-3 && most > 1 - 1e-3);
  /* The extreme bit patterns stay inside: (0 + 1/2) and (2^52 - 1/2) steps of 2^-52. */
  ds_rng zero = {.has_spare = true, .spare = 0}, full = {.has_spare = true, .spare = UINT64_MAX};
  cr_assert_eq(ds_rng_unit(&zero), ldexp(1, -53));
  cr_assert_eq(ds_rng_unit(&full), 1.0 - ldexp(1, -53));
}
