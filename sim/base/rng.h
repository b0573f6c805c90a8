// SPDX-License-Identifier: Apache-2.0
/* Random streams keyed by (seed, purpose, entity): any draw can be had without drawing the others,
 * so adding a consumer never shifts another, and two designs that are compared see the same
 * workload.
 *
 * Construction: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011), a keyed bijection of 128-bit counters that passes TestU01's
 * BigCrush. The seed is the 64-bit key; the counter is (block number 48 bits, purpose 16 bits,
 * entity 64 bits), so different streams never share a counter. Each block yields two 64-bit draws.
 * Integers only: the same bits everywhere. No allocation, no shared state. */
#ifndef DS_BASE_RNG_H
#define DS_BASE_RNG_H

#include "base/types.h"

/* What a stream is for. Numbers are part of every seeded result: add at the end, never reuse. */
typedef enum ds_purpose {
  DS_PURPOSE_ARRIVAL = 1,
  DS_PURPOSE_INPUT_TOKENS = 2,
  DS_PURPOSE_OUTPUT_TOKENS = 3,
  DS_PURPOSE_ORDER = 4,  /* shuffles */
  DS_PURPOSE_CHANCE = 5, /* bootstrap and other statistics */
  DS_PURPOSE_ACCEPTANCE = 6, /* of drafted tokens */
  DS_PURPOSE_STATE = 16, /* the hidden states of modulated arrivals */
  DS_PURPOSE_USER = 17,  /* when each user starts */
  DS_PURPOSE_SESSION = 18,
  DS_PURPOSE_THINK = 19,
  DS_PURPOSE_PREFIX = 20, /* which shared prefix a request has */
  DS_PURPOSE_BACKOFF = 21, /* of clients that ask again */
  DS_PURPOSE_IMAGES = 22,  /* how many a request brings, and how large */
  DS_PURPOSE_TEST = 0xffff
} ds_purpose;

typedef struct ds_rng {
  uint32_t key[2];
  uint32_t counter[4];
  uint64_t spare; /* second draw of the last block */
  bool has_spare;
} ds_rng;

/* Start of a stream. entity: e.g. the index of the request that the draws belong to. */
ds_rng ds_rng_stream(uint64_t seed, ds_purpose purpose, uint64_t entity);

/* 64 random bits. A stream has 2^49 of them. */
uint64_t ds_rng_bits(ds_rng *r);
/* Strictly between 0 and 1, in steps of 2^-52, symmetric about a half: safe for logarithms and
 * inverse distributions. */
double ds_rng_unit(ds_rng *r);
/* 0 .. n-1 without bias; n >= 1. */
uint64_t ds_rng_below(ds_rng *r, uint64_t n);

/* The bijection itself, for its known answers. */
void ds_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
