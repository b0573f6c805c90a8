// SPDX-License-Identifier: GPL-3.0-or-later
/* Several workloads as one stream of requests in order of arrival; at equal times the earlier
 * workload comes first. */
#ifndef DS_STUDY_MERGED_H
#define DS_STUDY_MERGED_H

#include "io/trace.h"

typedef struct ds_merged ds_merged;

/* Open all of w->stream. Each draws from random streams of its own. The trace reads from *out,
 * which must be closed after it. */
bool ds_merged_open(const ds_workload *w, uint64_t seed, ds_merged **out, ds_trace **trace,
                    ds_diag *d);
/* Which workload the request with this index in the trace is of. */
size_t ds_merged_stream(const ds_merged *m, uint64_t index);
const char *ds_merged_class(const ds_merged *m, uint64_t index);
/* The k-th workload as a trace of its own, for what was read. */
ds_trace *ds_merged_trace(const ds_merged *m, size_t k);
/* As ds_trace_joins, by the merged order. */
bool ds_merged_joins(ds_merged *m, const ds_trace_join **out, size_t *n);
void ds_merged_close(ds_merged *m);

#endif
