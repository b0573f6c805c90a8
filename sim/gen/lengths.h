// SPDX-License-Identifier: GPL-3.0-or-later
/* How many tokens synthetic requests have. A draw is rounded to the nearest whole token and is at
 * least 1. Each request draws from a stream of its own, so lengths do not move when arrivals do.
 *
 * Every law with a mean keeps it whatever its limits: its location is moved until the mean of what
 * is drawn is the mean asked for. */
#ifndef DS_GEN_LENGTHS_H
#define DS_GEN_LENGTHS_H

#include "base/dist.h"

#define DS_LENGTH_MAX 1000000000 /* tokens: a draw is at most this */

typedef enum ds_length_kind {
  DS_LENGTH_PLAIN, /* fixed or lognormal, as `fixed` says */
  DS_LENGTH_UNIFORM,
  DS_LENGTH_NORMAL, /* limits by drawing again (by inversion) or, with clamp, by moving to them */
  DS_LENGTH_NORMAL_TOOL, /* as LLMPerf: drawn again until above 0, cut to a whole number below */
  DS_LENGTH_EXPONENTIAL,
  DS_LENGTH_ZIPF,
  DS_LENGTH_TABLE,
  DS_LENGTH_MIXTURE
} ds_length_kind;

typedef struct ds_length ds_length;
struct ds_length {
  bool fixed;
  uint32_t tokens;  /* fixed */
  ds_lognormal law; /* else */
  ds_length_kind kind;
  double low, high; /* uniform: whole tokens from low to high, each as likely; limits of a normal
                       law, 0 none; zipf: from low to high, low the most frequent */
  double mean, sd;  /* normal: its own location and scale; exponential: its own mean */
  bool clamp;       /* normal */
  double theta;     /* zipf: the k-th of the range has a share of k^-theta */
  const ds_quantile *table; /* the caller's */
  size_t n_table;
  double times;          /* table: every value times this */
  const ds_length *part; /* mixture: the caller's, with weights that add up to 1 */
  const double *weight;
  size_t n_part;
};

/* Everybody the same: value >= 0.5, at most DS_LENGTH_MAX. */
ds_length ds_length_fixed(double value);
/* Lognormal by its mean and its value at probability p; see ds_lognormal_from. */
ds_lognormal_fit ds_length_lognormal(double mean, double p, double value, double min, double max,
                                     ds_length *out);
ds_length ds_length_uniform(double low, double high); /* whole numbers, 1 <= low <= high */
/* Normal within limits (0: none, but 1 below), with the mean of the draws as asked for; false when
 * the limits do not leave room for it. sd > 0. */
bool ds_length_normal(double mean, double sd, double min, double max, bool clamp, ds_length *out);
/* As LLMPerf draws: mean and sd are those before limits. */
ds_length ds_length_normal_tool(double mean, double sd);
/* Exponential rounded to whole tokens of at least 1, with this mean > 1. */
ds_length ds_length_exponential(double mean);
ds_length ds_length_zipf(double theta, double low, double high); /* theta > 0 */
/* Points of the inverse distribution function; mean 0 or the mean to scale it to. */
ds_length ds_length_table(const ds_quantile *q, size_t n, double mean);
ds_length ds_length_mixture(const ds_length *part, const double *weight, size_t n);

/* Tokens of request `index`. */
uint32_t ds_length_draw(const ds_length *l, uint64_t seed, ds_purpose purpose, uint64_t index);

#endif
