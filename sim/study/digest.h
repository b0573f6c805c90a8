// SPDX-License-Identifier: GPL-3.0-or-later
/* A simulated run boiled down to a few kinds of iteration, so that it can be priced anew at other efficiencies without
 * being simulated again: what a fit does thousands of times.
 *
 * Iterations are put together by their prompt tokens and their decoding rows, each kind keeps the mean of its totals, and
 * four sums of time make the metrics: all iterations (makespan), requests decoding in them (time of a token), requests
 * before their first token, and requests in flight (their latencies, by Little's law). Which iterations there are is
 * taken from one exact simulation and kept: in closed loops and with everything queued it hardly depends on the prices.
 * A figure is that simulation's, changed by as much as the sums change. */
#ifndef DS_STUDY_DIGEST_H
#define DS_STUDY_DIGEST_H

#include "study/validate.h"

typedef enum ds_digest_sum { DS_DIGEST_SPAN, DS_DIGEST_DECODE, DS_DIGEST_FIRST, DS_DIGEST_FLIGHT, DS_DIGEST_SUMS } ds_digest_sum;

typedef struct ds_digest_kind {
  ds_shape shape;                /* means over its iterations, in whole numbers */
  double weight[DS_DIGEST_SUMS]; /* iterations; times requests */
} ds_digest_kind;

typedef struct ds_digest {
  ds_digest_kind *kind; /* owned */
  size_t n;
  double requests, replicas;
  double start_s[DS_DIGEST_SUMS]; /* at the prices of the simulation */
  double api_s;                   /* of a request's first token, then */
  ds_validated exact;             /* what the simulation said */
} ds_digest;

/* Simulates x. False: exact.why says why not, and nothing is to be freed. */
bool ds_digest_of(const ds_expressed *x, ds_digest *out);
/* Mean TTFT, TPOT, E2E and throughput at the run's present cards; the others stay as they are. False: out of memory. */
bool ds_digest_predict(const ds_digest *g, const ds_run *run, double predicted[DS_CMP_N]);
void ds_digest_free(ds_digest *g);

#endif
