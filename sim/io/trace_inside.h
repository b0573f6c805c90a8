// SPDX-License-Identifier: GPL-3.0-or-later
/* A trace that is being read: what trace.c works on and trace_ask.c tells about. */
#ifndef DS_IO_TRACE_INSIDE_H
#define DS_IO_TRACE_INSIDE_H

#include "io/trace_hold.h"
#include "io/trace_identity.h"
#include "io/trace_rows.h"

#define BATCH 256

typedef struct line_run { /* requests from `index` on stand on consecutive lines from `line` on */
  uint64_t index;
  int64_t line;
} line_run;

struct ds_trace {
  ds_workload w; /* shallow: the inline arrays stay the caller's */
  ds_input *input;
  ds_source *source;
  ds_trace_report report;
  double scale;
  /* Rows read but not handed out */
  ds_row batch[BATCH];
  size_t batch_at, batch_n;
  bool source_ended, failed, selected_all;
  /* Times */
  bool any_row;
  int64_t earliest_ns, latest_ns; /* of the rows so far */
  /* unsorted: sort keeps everything */
  bool sort, hold, held; /* hold: something needs all rows at once */
  ds_repair zero;        /* as the scenario or the format has it */
  bool closed;
  uint64_t seed;
  ds_row *all;
  size_t all_n, all_room, all_at;
  /* What the request with an index was */
  int64_t *ids; /* handles by index; NULL while no request has had an id */
  size_t ids_room;
  line_run *runs;
  size_t runs_n, runs_room;
  uint64_t lines_known; /* requests whose line the runs tell */
  bool lines_lost;
  char number[24];
  ds_sessions sessions; /* of rows as they come, and of rows as they are selected */
  ds_sessions selected;
  ds_seen seen;
  ds_arena joined; /* block lists of incremental sessions */
  uint64_t *renumber;
  bool *row_taken;
  ds_row_joins joins;      /* by rows */
  ds_trace_join *join_out; /* by requests */
  const struct ds_more **more_out; /* where read_on puts them; NULL: nobody asks */
  ds_span_room spans;              /* of all rows that are held */
  ds_row_identity identity;        /* of the requests handed out last */
};

#endif
