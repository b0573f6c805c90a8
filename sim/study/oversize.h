// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests that no replica could ever hold, when the scenario says that they are no error: turned
 * away or cut short before the engine sees them. The engine then counts only those that it was fed.
 */
#ifndef DS_STUDY_OVERSIZE_H
#define DS_STUDY_OVERSIZE_H

#include "io/scenario.h"

typedef struct ds_rejected {
  uint64_t index; /* in the trace */
  ds_request request;
} ds_rejected;

typedef struct ds_oversize {
  ds_rejected *rejected; /* in order of the trace */
  size_t n, cap;
  uint64_t truncated;
} ds_oversize;

/* Apply workload.import.oversize to r[0..*n), whose first has index first in the trace: rejected
 * requests leave the array, truncated ones lose output first and prompt then. total_blocks is that
 * of one replica. False when out of memory. Does nothing when oversize requests are errors: the
 * engine then names the first. */
bool ds_oversize_apply(ds_oversize *o, const ds_scenario *sc, int64_t total_blocks, uint64_t first,
                       ds_request *r, size_t *n);
void ds_oversize_free(ds_oversize *o);

/* Index in the trace of the k-th request that was fed. */
uint64_t ds_oversize_trace_index(const ds_oversize *o, uint64_t k);

#endif
