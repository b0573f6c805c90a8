// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests in: a trace file read as a stream, whatever its format. Memory does not grow with the file. */
#ifndef DS_IO_TRACE_H
#define DS_IO_TRACE_H

#include "io/scenario.h"

typedef struct ds_trace ds_trace;

typedef struct ds_trace_report { /* rows_read = kept + the rest */
  uint64_t rows_read, kept, dropped_zero, outside_window, beyond_first, clamped_zero;
} ds_trace_report;

/* Open w (trace, generate or inline) as one stream of requests in order of arrival. */
bool ds_trace_open(const ds_workload *w, uint64_t seed, ds_trace **out, ds_diag *d);
/* Up to cap requests into r; *n 0 at the end. A malformed row fails with its line and column.
 * Their spans stay valid until the next call. */
bool ds_trace_read(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d);
/* Id of the i-th request that was kept (order of arrival in the file), as the trace has it; the decimal index when it
 * has none. Valid until the next call. Only traces with ids keep any. */
const char *ds_trace_id(const ds_trace *t, uint64_t index);
bool ds_trace_has_ids(const ds_trace *t);
/* Source line of the i-th request kept, for messages; 0 unknown. */
int64_t ds_trace_line(const ds_trace *t, uint64_t index);
const ds_trace_report *ds_trace_report_of(const ds_trace *t);
/* Lower-case hex of the bytes read so far; complete after the end. Empty when nothing was read from a file. */
const char *ds_trace_sha256(ds_trace *t);
/* Name of the format that was recognised: azure, jsonl, generated, inline. */
const char *ds_trace_format(const ds_trace *t);
/* Bytes consumed and total bytes (0 unknown), for a progress bar. */
void ds_trace_progress(const ds_trace *t, uint64_t *done, uint64_t *total);
void ds_trace_close(ds_trace *t);

#endif
