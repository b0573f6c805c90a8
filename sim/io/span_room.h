// SPDX-License-Identifier: GPL-3.0-or-later
/* A place for spans that are handed out: what is kept never moves. Zero it before the first use. */
#ifndef DS_IO_SPAN_ROOM_H
#define DS_IO_SPAN_ROOM_H

#include <stdbool.h>

#include "kv/span.h"

typedef struct ds_span_page ds_span_page;
typedef struct ds_span_room {
  ds_span_page *first, *at;
} ds_span_room;

/* *spans is copied and points to the copy afterwards; false when out of memory. */
bool ds_span_keep(ds_span_room *room, const ds_span **spans, size_t n);
/* Start over; the room itself is kept. */
void ds_span_forget(ds_span_room *room);
void ds_span_room_free(ds_span_room *room);

#endif
