// SPDX-License-Identifier: GPL-3.0-or-later
/* What can be asked of a trace. */
#include <stdio.h>
#include <string.h>

#include "io/trace_inside.h"

const char *ds_trace_id(const ds_trace *t, uint64_t index) {
  if (index < t->ids_room && t->ids[index] != DS_ROW_NO_ID)
    return t->source->id(t->source, t->ids[index]);
  /* The buffer is the trace's, and the next call may use it again, as the header says. */
  ds_trace *mutable = (ds_trace *)(uintptr_t)t;
  snprintf(mutable->number, sizeof mutable->number, "%llu", (unsigned long long)index);
  return t->number;
}

bool ds_trace_has_ids(const ds_trace *t) { return t->ids != NULL; }

int64_t ds_trace_line(const ds_trace *t, uint64_t index) {
  if (t->runs_n == 0 || index < t->runs[0].index || index >= t->lines_known) return 0;
  size_t low = 0, high = t->runs_n;
  while (high - low > 1) {
    size_t mid = low + (high - low) / 2;
    if (t->runs[mid].index <= index)
      low = mid;
    else
      high = mid;
  }
  return t->runs[low].line + (int64_t)(index - t->runs[low].index);
}

const ds_trace_report *ds_trace_report_of(const ds_trace *t) { return &t->report; }

void ds_trace_seed(ds_trace *t, uint64_t seed) {
  t->seed = seed;
  t->source->seed = seed;
}

bool ds_trace_is_closed(const ds_trace *t) { return t->closed || t->w.closed_loop; }

const char *ds_trace_note(const ds_trace *t) { return t->source->note; }

const char *ds_trace_sha256(ds_trace *t) {
  return t->input != NULL ? ds_input_sha256(t->input) : "";
}

const char *ds_trace_format(const ds_trace *t) { return t->source->format; }

void ds_trace_progress(const ds_trace *t, uint64_t *done, uint64_t *total) {
  *done = *total = 0;
  if (t->input != NULL) ds_input_progress(t->input, done, total);
}
