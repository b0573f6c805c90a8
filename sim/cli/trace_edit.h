// SPDX-License-Identifier: GPL-3.0-or-later
/* Traces in, one trace out. */
#ifndef DS_CLI_TRACE_EDIT_H
#define DS_CLI_TRACE_EDIT_H

#include "io/trace.h"

typedef struct ds_trace_edit {
  const ds_workload *const *workload; /* of each file */
  size_t n;
  uint64_t seed;
  const char *to, *out; /* format and path */
  bool merge, anonymise;
} ds_trace_edit;

/* What the format cannot hold is said on standard error before anything is written. */
bool ds_trace_edit_run(const ds_trace_edit *e, ds_diag *d);

#endif
