// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests as a trace file, in one of the formats that can be written. */
#ifndef DS_IO_TRACE_WRITE_H
#define DS_IO_TRACE_WRITE_H

#include "io/outfile.h"
#include "io/trace_source.h"

typedef enum ds_trace_has { /* what a request may say beyond arrival and lengths */
                            DS_HAS_ID,
                            DS_HAS_SESSION,
                            DS_HAS_TURN,
                            DS_HAS_THINK,
  DS_HAS_JOIN, /* it waits for several */
                            DS_HAS_CLASS,
                            DS_HAS_MODEL,
                            DS_HAS_TENANT,
                            DS_HAS_PRIORITY,
                            DS_HAS_CAP,
                            DS_HAS_BLOCKS,
                            DS_HAS_PREFIX,
                            DS_HAS_MEASURED,
                            DS_HAS_IMAGES,
                            DS_HAS_SUB_MS, /* times that are no whole milliseconds, microseconds */
                            DS_HAS_SUB_US,
                            DS_HAS_N
} ds_trace_has;
extern const char *const ds_trace_has_names[DS_HAS_N];

typedef struct ds_trace_writer ds_trace_writer;
struct ds_trace_writer {
  const char *name;
  uint32_t holds;                 /* a bit by ds_trace_has */
  void (*begin)(ds_outfile *out); /* may be NULL */
  /* id: as the trace has it, or NULL; more: may be NULL */
  void (*row)(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
              const ds_more *more);
};

const ds_trace_writer *ds_trace_writer_named(const char *name);
/* "jsonl, azure, ..." */
const char *ds_trace_writer_names(void);

/* What this request says; adds to seen[]. */
void ds_trace_has_of(const ds_request *r, const char *id, const ds_more *more,
                     uint64_t seen[DS_HAS_N]);

#endif
