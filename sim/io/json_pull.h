// SPDX-License-Identifier: GPL-3.0-or-later
/* JSON read in order, value by value, without building a tree: for rows whose lists are long and
 * whose numbers must stay exact (block ids up to 2^64 - 1, times to the nanosecond). Strict: what
 * JSON does not allow is an error with its place. Nothing is allocated; texts point into the input.
 */
#ifndef DS_IO_JSON_PULL_H
#define DS_IO_JSON_PULL_H

#include "base/types.h"

typedef struct ds_pull {
  const char *begin, *at, *end; /* the input; need not end in a zero */
  const char *wrong;            /* what is not JSON, once something is not; nothing is read after */
  const char *wrong_at;
  int depth;
} ds_pull;

typedef struct ds_text { /* between the quotes; escapes as they stand */
  const char *s;
  size_t n;
  bool escaped;
} ds_text;

ds_pull ds_pull_of(const char *s, size_t n);

/* Kind of the next value: one of { [ " 0 (a number) t (true or false) n (null); 0 at the end or
 * where nothing can begin. */
char ds_pull_kind(ds_pull *p);

/* Enter a map or list, then ask for each member: false behind the last one or at an error. */
bool ds_pull_map(ds_pull *p);
bool ds_pull_key(ds_pull *p, ds_text *key);
bool ds_pull_list(ds_pull *p);
bool ds_pull_next(ds_pull *p);

/* Values of the kind that ds_pull_kind told. */
bool ds_pull_text(ds_pull *p, ds_text *t);
bool ds_pull_number(ds_pull *p, ds_text *digits); /* as written */
bool ds_pull_bool(ds_pull *p, bool *v);
bool ds_pull_null(ds_pull *p);
bool ds_pull_skip(ds_pull *p); /* whatever comes next */
/* Nothing but blanks is left. */
bool ds_pull_done(ds_pull *p);

bool ds_text_is(ds_text t, const char *word);
/* Escapes resolved, as UTF-8 with a zero at the end; false: longer than cap - 1 bytes. */
bool ds_text_copy(ds_text t, char *out, size_t cap);

/* Numbers as written. NULL when good, else what is wrong ("is negative", ...). */
const char *ds_number_count(ds_text t, uint64_t max, uint64_t *out); /* 91, 91.0 and 9.1e1 */
const char *ds_number_u64(ds_text t, uint64_t *out);                 /* digits only */
const char *ds_number_integer(ds_text t, int64_t *out);              /* with a sign */
/* Times unit_ns (a power of ten of nanoseconds), to the nearest nanosecond, without doubles. */
const char *ds_number_time(ds_text t, int64_t unit_ns, int64_t *out_ns);

#endif
