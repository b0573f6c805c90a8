// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests in: a trace file read as a stream, whatever its format. Memory does not grow with the file. */
#ifndef DS_IO_TRACE_H
#define DS_IO_TRACE_H

#include "io/scenario.h"

typedef struct ds_trace ds_trace;

typedef struct ds_trace_report { /* rows_read = kept + the rest */
  uint64_t rows_read, kept, dropped_zero, outside_window, beyond_first, clamped_zero;
  uint64_t dropped_failed, dropped_cached, dropped_malformed, dropped_duplicate, thinned;
  /* Of the rows that were read, and repaired or only counted */
  uint64_t out_of_order, spread, accumulated, missing_parents, several_parents, think_from_gaps;
  uint64_t smaller_images; /* of a size that the scenario says, but with less room in the input */
  uint64_t raised_caps; /* outputs longer than max_tokens allows */
  uint64_t looks_incremental; /* turns whose input is smaller than what the turn before left */
} ds_trace_report;

/* What most requests lack: io/trace_source.h. */
struct ds_more;

/* Open w (trace, generate or inline) as one stream of requests in order of arrival. */
bool ds_trace_open(const ds_workload *w, uint64_t seed, ds_trace **out, ds_diag *d);
/* Up to cap requests into r; *n 0 at the end. A malformed row fails with its line and column.
 * Their spans stay valid until the next call. */
bool ds_trace_read(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d);
/* The same with what else the rows say (NULL: nothing); valid until the next call. */
bool ds_trace_read_more(ds_trace *t, ds_request *r, const struct ds_more **more, size_t cap, size_t *n, ds_diag *d);
/* Draws that repairs need (spreading, thinning) come from this seed; before the first read. */
void ds_trace_seed(ds_trace *t, uint64_t seed);
/* Requests follow one another: rows name whom they wait for. */
bool ds_trace_is_closed(const ds_trace *t);
/* Of a closed loop, once it is read to its end: requests that wait for a further one beside that in `after`. The array is
 * the trace's. False when out of memory. */
typedef struct ds_trace_join {
  uint64_t follower, on; /* by order of the requests */
} ds_trace_join;
bool ds_trace_joins(ds_trace *t, const ds_trace_join **out, size_t *n);
/* "12,031 rows read = 12,000 kept + 31 zero tokens; 5 out of order sorted": complete after the end. */
void ds_trace_account(const ds_trace *t, char *out, size_t cap);
/* A reason by index and its count, for reports: false behind the last. Dropped ones first. */
bool ds_trace_reason(const ds_trace_report *p, size_t i, const char **key, const char **what, uint64_t *count, bool *dropped);
/* What to know about how it was read; may be NULL. */
const char *ds_trace_note(const ds_trace *t);
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
