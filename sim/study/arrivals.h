// SPDX-License-Identifier: GPL-3.0-or-later
/* What the workload was, kept in four bytes a request: arrival times as gaps, and totals of
 * lengths. */
#ifndef DS_STUDY_ARRIVALS_H
#define DS_STUDY_ARRIVALS_H

#include "engine/sim.h"

typedef struct ds_far_gap { /* a gap of 4.29 s or more */
  size_t index;
  int64_t gap_ns;
} ds_far_gap;

#define DS_LENGTH_BUCKETS 4096
/* Token counts in the log buckets of metric/gaps.h: exact below 256, then within 1/128. */
typedef struct ds_lengths {
  uint64_t count, sum;
  uint32_t min, max;
  uint32_t bucket[DS_LENGTH_BUCKETS];
} ds_lengths;

typedef struct ds_arrivals {
  size_t n, cap;
  uint32_t *gap_ns;
  ds_far_gap *far;
  size_t n_far, cap_far;
  int64_t first_ns, last_ns;
  ds_lengths input, output;
  double prefill_pairs;  /* sum of query x key pairs of all prompts: p (p + 1) / 2 */
  double decode_context; /* sum over decoded tokens of the context that they read */
  int64_t rtt_ns; /* part of every latency that is no server's */
  bool capped; /* arrivals wait for completions under a concurrency cap: no queue can grow without bound */
} ds_arrivals;

/* False when out of memory. */
bool ds_arrivals_add(ds_arrivals *a, const ds_request *r, size_t n);
void ds_arrivals_free(ds_arrivals *a);

typedef struct ds_arrival_walk {
  size_t i, far;
  int64_t now_ns;
} ds_arrival_walk;
/* Arrival of request w->i, then move on. Start from a zeroed walk; at most a->n calls. */
int64_t ds_arrival_next(const ds_arrivals *a, ds_arrival_walk *w);

/* Smallest length that at least pct per cent of the requests do not exceed; 0 when empty. */
uint32_t ds_lengths_percentile(const ds_lengths *l, double pct);

#endif
