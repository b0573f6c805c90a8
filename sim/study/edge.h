// SPDX-License-Identifier: GPL-3.0-or-later
/* The highest Poisson rate at which a run still meets its limits: how an audited server run is found.
 *
 * The run's own arrivals, all stretched by one factor, so that every rate sees the same draws. By bisection to one part in
 * fifty; the limits are those of the 99th percentiles, over ten minutes of arrivals. */
#ifndef DS_STUDY_EDGE_H
#define DS_STUDY_EDGE_H

#include "study/validate.h"

/* Fills *out as ds_validate_run does, at that rate, and its throughput. False: why; no rate meets them, say. */
/* rate_per_s: the published one, of all copies. */
bool ds_edge_run(const ds_expressed *x, double rate_per_s, ds_validated *out);

#endif
