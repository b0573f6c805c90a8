// SPDX-License-Identifier: GPL-3.0-or-later
/* Formats that are CSV with a header: a table of columns, found by name in any order and case, and
 * a function that makes a row of their values (io/trace_flat.h). RFC 4180: quoted cells may hold
 * commas, doubled quotes and line ends. */
#ifndef DS_IO_TRACE_CSV_H
#define DS_IO_TRACE_CSV_H

#include "io/trace_flat.h"

typedef struct ds_csv_format {
  ds_source source;
  const ds_flat_key *key; /* path: the column's name */
  size_t n_keys;
  int needed[4]; /* fields without which nothing can be said; -1: no more */
  bool (*row)(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d);
} ds_csv_format;

/* The file stands at its header line. *out may be changed by the caller afterwards. */
bool ds_csv_open(ds_input *in, const ds_workload *w, const ds_csv_format *format, ds_source **out,
                 ds_diag *d);
/* Whether a column with this name is there. */
bool ds_csv_has(const ds_source *s, int field);

#endif
