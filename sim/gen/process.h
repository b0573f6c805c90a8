// SPDX-License-Identifier: GPL-3.0-or-later
/* When synthetic requests arrive. Times are nanoseconds from the start of the run; the first
 * request waits a gap too. Every gap has a random stream of its own, keyed by the index of its
 * request. */
#ifndef DS_GEN_PROCESS_H
#define DS_GEN_PROCESS_H

#include "base/rng.h"

typedef enum ds_process_kind {
  DS_PROCESS_POISSON,  /* gaps exponential with mean 1 / rate */
  DS_PROCESS_CONSTANT, /* gaps of 1 / rate; request i arrives at (i + 1) / rate, so that rounding
                          does not add up */
  DS_PROCESS_BURST     /* all at time 0 */
} ds_process_kind;

typedef struct ds_process {
  ds_process_kind kind;
  double rate_per_s; /* > 0 and finite; not used by a burst */
  uint64_t seed;
  uint64_t index;  /* of the next request */
  int64_t time_ns; /* of the last; start with 0 */
} ds_process;

/* Arrival of the next request; never before the last one. DS_TIME_NEVER when it is beyond the range
 * of the clock (292 years), and from then on. */
int64_t ds_process_next(ds_process *p);

#endif
