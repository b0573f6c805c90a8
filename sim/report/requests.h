// SPDX-License-Identifier: GPL-3.0-or-later
/* A row per request, as CSV or JSON lines; and a line per engine iteration. Times are exact
 * decimals. */
#ifndef DS_REPORT_REQUESTS_H
#define DS_REPORT_REQUESTS_H

#include "io/outfile.h"
#include "study/driver.h"

/* Rows in order of the trace; the result's records must be there (and its gaps for JSON lines). A
 * rejected request has no replica and no times. False when out of memory. */
bool ds_requests_csv(ds_outfile *out, const ds_drive *drive, const char *class_name);
bool ds_requests_jsonl(ds_outfile *out, const ds_drive *drive, const char *class_name);

/* The id as JSON: the trace's own as a string, or the index as a number when the trace has none. */
void ds_request_id_json(ds_outfile *out, const ds_drive *drive, uint64_t trace_index);

void ds_steps_line(ds_outfile *out, const ds_step *step, const ds_drive *drive);

#endif
