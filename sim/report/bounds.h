// SPDX-License-Identifier: GPL-3.0-or-later
/* What no scheduler could beat on this hardware with this workload: the roofline with every
 * efficiency at 1. */
#ifndef DS_REPORT_BOUNDS_H
#define DS_REPORT_BOUNDS_H

#include "spec/run.h"
#include "study/arrivals.h"

typedef struct ds_bounds {
  bool known;     /* false for the linear cost model, which has no physics */
  double ttft_ms; /* least of any request: the shortest prompt alone */
  double tpot_ms; /* least of any request: one sequence, the shortest prompt */
  double busy_s;  /* least time in which all replicas can do the work */
  double request_throughput, output_throughput, total_throughput; /* most, with work at all times */
  bool memory_bound; /* busy_s comes from bytes, not from FLOPs */
} ds_bounds;

/* kv_blocks: usable blocks of a replica (DS_KV_UNLIMITED allowed). False when out of memory. */
bool ds_bounds_of(const ds_run *run, const ds_arrivals *a, int64_t kv_blocks, ds_bounds *out);

#endif
