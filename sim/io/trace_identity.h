// SPDX-License-Identifier: GPL-3.0-or-later
/* From block ids or a named prefix of a row to the spans of a request. */
#ifndef DS_IO_TRACE_IDENTITY_H
#define DS_IO_TRACE_IDENTITY_H

#include "io/span_room.h"
#include "io/trace_source.h"

typedef struct ds_row_identity { /* zero before, free after */
  ds_span_room room;             /* where the spans are */
  ds_span *span;
  uint64_t *id;
  size_t cap;
} ds_row_identity;

/* Fill the spans of out, whose lengths are known. False when out of memory. */
bool ds_row_identify(ds_row_identity *t, const ds_more *m, ds_request *out);
void ds_row_identity_free(ds_row_identity *t);

#endif
