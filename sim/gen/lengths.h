// SPDX-License-Identifier: GPL-3.0-or-later
/* How many tokens synthetic requests have. A draw is rounded to the nearest whole token and is at
 * least 1. Each request draws from a stream of its own, so lengths do not move when arrivals do. */
#ifndef DS_GEN_LENGTHS_H
#define DS_GEN_LENGTHS_H

#include "base/dist.h"

#define DS_LENGTH_MAX 1000000000 /* tokens: a draw is at most this */

typedef struct ds_length {
  bool fixed;
  uint32_t tokens;  /* fixed */
  ds_lognormal law; /* else */
} ds_length;

/* Everybody the same: value >= 0.5, at most DS_LENGTH_MAX. */
ds_length ds_length_fixed(double value);
/* Lognormal by its mean and its value at probability p; see ds_lognormal_from. */
ds_lognormal_fit ds_length_lognormal(double mean, double p, double value, double min, double max,
                                     ds_length *out);

/* Tokens of request `index`. */
uint32_t ds_length_draw(const ds_length *l, uint64_t seed, ds_purpose purpose, uint64_t index);

#endif
