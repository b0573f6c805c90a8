// SPDX-License-Identifier: GPL-3.0-or-later
/* What needs all rows of a trace at once: sorting, spreading quantised arrivals, and who follows
 * whom. And what is remembered by session while rows go by. */
#ifndef DS_IO_TRACE_HOLD_H
#define DS_IO_TRACE_HOLD_H

#include "io/trace_source.h"

typedef struct ds_session_state {
  const void *session; /* as an identity; NULL: free */
  int64_t first_ns, last_ns;
  uint64_t rows, input_tokens, output_tokens; /* of the row before; input as the model saw it */
  const uint64_t *blocks;
  uint64_t n_blocks;
  bool taken;
  size_t last; /* index of its row before */
} ds_session_state;

typedef struct ds_sessions {
  ds_session_state *slot;
  size_t n, room;
} ds_sessions;

/* The state of a session, new (rows 0) when it was not known; NULL when out of memory. Valid until
 * the next call. */
ds_session_state *ds_sessions_of(ds_sessions *s, const void *session);
void ds_sessions_free(ds_sessions *s);

/* Numbers seen before: false when out of memory. */
typedef struct ds_seen {
  uint64_t *slot;
  size_t n, room;
  bool zero;
} ds_seen;
bool ds_seen_add(ds_seen *s, uint64_t x, bool *fresh);
void ds_seen_free(ds_seen *s);

/* By time; equal times stay in order. False when out of memory. */
bool ds_hold_sort(ds_row *rows, size_t n);
/* Sorted rows with one time each tick: spread over the tick in order, uniformly at random, but not
 * into the next one. Returns how many moved. */
uint64_t ds_hold_spread(ds_row *rows, size_t n, int64_t tick_ns, uint64_t seed);
/* A row that waits for another beside the one that it follows: both by their numbers. */
typedef struct ds_row_join {
  size_t row, on;
} ds_row_join;
typedef struct ds_row_joins {
  ds_row_join *of;
  size_t n, room;
} ds_row_joins;

/* Sorted rows for a closed loop: a row that follows another gets `after` and a pause, and the time
 * of its first ancestor, behind which it then stands; further rows that it waits for go to joins. False when out of
 * memory. */
bool ds_hold_follow(ds_row *rows, size_t n, ds_row_joins *joins, ds_trace_report *report);

#endif
