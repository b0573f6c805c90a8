// SPDX-License-Identifier: Apache-2.0
/* Samplers and the two normal functions that they need, on base's own log and exp: the same bits
 * under every compiler.
 *
 *   uniform, exponential, normal, lognormal, empirical   inverse distribution function, one uniform
 * a draw: a draw keeps its rank when a parameter changes gamma     Marsaglia and Tsang, "A simple
 * method for generating gamma variables", ACM TOMS 26 (2000); below shape 1 the draw at shape + 1
 * is multiplied by u^(1/shape) Parameters are the caller's to check (see each line); no errors, no
 * allocation. */
#ifndef DS_BASE_DIST_H
#define DS_BASE_DIST_H

#include "base/rng.h"

/* Standard normal: P(Z <= x), absolute error below 1e-15; and its inverse for 0 < p < 1, relative
 * error below 1e-14 (Wichura, algorithm AS 241, Applied Statistics 37 (1988)). */
double ds_normal_cdf(double x);
double ds_normal_quantile(double p);

double ds_draw_uniform(ds_rng *r, double low, double high);
double ds_draw_exponential(ds_rng *r, double mean);          /* mean > 0 */
double ds_draw_normal(ds_rng *r, double mean, double sd);    /* sd >= 0 */
double ds_draw_gamma(ds_rng *r, double shape, double scale); /* both > 0 */

/* exp(mu + sigma Z), kept within [low, high] as if draws outside were drawn again (by inversion
 * between the two ends, so that it always takes one uniform). low 0 and high 0: no limit on that
 * side. */
typedef struct ds_lognormal {
  double mu, sigma;
  double low, high;
  double p_low, p_high; /* distribution function at the limits; 0 and 1 without */
} ds_lognormal;

double ds_draw_lognormal(ds_rng *r, const ds_lognormal *l);
/* Mean of what ds_draw_lognormal gives. */
double ds_lognormal_mean(const ds_lognormal *l);

typedef enum ds_lognormal_fit {
  DS_FIT_OK,
  DS_FIT_SHAPE, /* no lognormal has such a mean and percentile */
  DS_FIT_LIMITS /* the limits leave (almost) nothing, or the mean is not inside them */
} ds_lognormal_fit;
/* The lognormal of a mean > 0 and its value at probability p (0.5: the median; 0.99), within
 * limits. sigma follows from the two as if there were no limits; mu is then moved until the mean of
 * the draws is the mean asked for. */
ds_lognormal_fit ds_lognormal_from(double mean, double p, double value, double low, double high,
                                   ds_lognormal *out);

/* A distribution given by points of its inverse, p ascending from 0 to 1, x ascending, straight
 * lines between. */
typedef struct ds_quantile {
  double p, x;
} ds_quantile;
double ds_quantile_at(const ds_quantile *q, size_t n,
                      double p); /* n >= 1; beyond the ends: the ends */
double ds_quantile_mean(const ds_quantile *q, size_t n);
double ds_draw_empirical(ds_rng *r, const ds_quantile *q, size_t n);

#endif
