// SPDX-License-Identifier: GPL-3.0-or-later
/* How requests came and went: the most at a time, and whether the queue grew without bound. */
#ifndef DS_REPORT_FLOW_H
#define DS_REPORT_FLOW_H

#include "study/arrivals.h"

typedef struct ds_flow {
  uint64_t requests;
  int64_t window_ns;       /* first to last arrival */
  int64_t drain_ns;        /* last arrival to last finish */
  uint64_t max_concurrent; /* exact sweep, departures before arrivals at equal times */
  /* Requests in the system at one half, three quarters and the end of the arrival window. */
  uint64_t in_system_half, in_system_late, in_system_end;
  uint64_t arrived_second_half;
  double queue_early_s,
      queue_late_s; /* means over arrivals of the second and of the last quarter of the window */
  double e2e_mean_s;
} ds_flow;

/* Columns in order of arrival, one entry per arrival. False when out of memory. */
bool ds_flow_of(const ds_arrivals *a, const int64_t *e2e_ns, const int64_t *queue_ns,
                int64_t last_finish_ns, ds_flow *out);

typedef enum ds_settling {
  DS_SETTLED,
  DS_SETTLED_NOT_BATCH, /* everything arrived at once */
  DS_SETTLED_NOT_SHORT, /* the arrival window is only a few latencies long */
  DS_SETTLED_NOT_FEW    /* too few requests for a tail percentile */
} ds_settling;

/* Saturated: over the second half of the arrival window more came than went, in both of its
 * quarters, by at least 5 % of what came and by two standard deviations of a Poisson count; and
 * waiting grew with it: from the second quarter to the last the mean time in the queue rose by a
 * quarter and by at least 1.25 % of the window.
 *
 * Why so: at load rho > 1 the backlog grows by 1 - 1/rho of the arrivals in every interval, and
 * waiting by rho - 1 of the time gone by (2.6 % of the window between those quarters when the
 * backlog grows by 5 %; half of that is asked for). So both tests see it however short the drain. A
 * stable system's backlog only wanders: it stays of the order of rate x latency, which two standard
 * deviations cover at loads up to about 0.95. A system that is still filling (latency longer than
 * the run) gains backlog too, but nobody queues: that is no saturation. Neither is a batch, where
 * all arrive at once. */
bool ds_flow_saturated(const ds_flow *f);

#define DS_SETTLE_LATENCIES 5 /* the arrival window must span so many mean end-to-end times */
#define DS_SETTLE_REQUESTS  100
ds_settling ds_flow_settled(const ds_flow *f);

#endif
