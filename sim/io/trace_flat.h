// SPDX-License-Identifier: GPL-3.0-or-later
/* Formats that are one JSON object a request: a table of keys, and a function that makes a row of
 * their values. Keys of nested objects are paths with dots. Keys that no table names are skipped.
 */
#ifndef DS_IO_TRACE_FLAT_H
#define DS_IO_TRACE_FLAT_H

#include "io/trace_rows.h"

typedef enum ds_flat_field { /* the first ones are those of ds_field */
                             DS_FLAT_QUEUE = DS_FIELD_N,
                             DS_FLAT_BLOCKS,
                             DS_FLAT_BLOCK_TOKENS,
                             DS_FLAT_KEY,      /* number of the row */
                             DS_FLAT_PARENT,   /* of the one that it follows; negative: none */
                             DS_FLAT_WAIT_FOR, /* [id, ...] */
                             DS_FLAT_TOOL,     /* a second pause */
                             DS_FLAT_END,      /* times of the answer */
                             DS_FLAT_FIRST,
                             DS_FLAT_CACHED, /* true: from a response cache */
                             DS_FLAT_TEXT,   /* the prompt itself */
                             DS_FLAT_EVENT,
                             DS_FLAT_AGE, /* when the response was made */
                             DS_FLAT_N
} ds_flat_field;

typedef enum ds_flat_kind {
  DS_KIND_TOKENS,
  DS_KIND_COUNT,
  DS_KIND_INTEGER,
  DS_KIND_TIME,  /* in units of unit_ns */
  DS_KIND_STAMP, /* a date, or seconds since 1970 */
  DS_KIND_TEXT,
  DS_KIND_BLOCKS,
  DS_KIND_NAMES, /* a list of texts: the hash of each, in `blocks` */
  DS_KIND_TRUE,
  DS_KIND_ANY /* that it is there */
} ds_flat_kind;

typedef struct ds_flat_key {
  const char *path;
  int field; /* ds_field or ds_flat_field */
  ds_flat_kind kind;
  int64_t unit_ns;
} ds_flat_key;

typedef struct ds_flat_value {
  bool given;
  const char *at, *path; /* for messages */
  int64_t number;        /* times in ns, counts, integers, truth */
  const char *text;
  const uint64_t *blocks;
  uint64_t n;
} ds_flat_value;

typedef struct ds_flat ds_flat;
struct ds_flat {
  ds_rows rows;
  const ds_flat_key *key;
  size_t n_keys;
  bool values; /* JSON values over several lines, too */
  const ds_workload *w;
  ds_flat_value v[DS_FLAT_N];
  /* *skip: no request. *more is zeroed and may be set to NULL. */
  bool (*row)(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d);
};

bool ds_flat_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d);
/* Read one object's members into f->v; p stands at its beginning. */
bool ds_flat_read(ds_flat *f, ds_pull *p, ds_diag *d);
/* What every format does with the plain ones: tokens, caps, ids, session, class, model, priority,
 * measured times. The arrival and whom it follows are the format's own business. */
bool ds_flat_take(ds_flat *f, ds_row *row, ds_more *more, ds_diag *d);
bool ds_flat_need(ds_flat *f, int field, const char *name, ds_diag *d);

#endif
