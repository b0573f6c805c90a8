// SPDX-License-Identifier: GPL-3.0-or-later
/* One complaint about input: where, what was found, what was expected, the nearest valid name. */
#ifndef DS_IO_DIAG_H
#define DS_IO_DIAG_H

#include <stdio.h>

#include "base/status.h"

typedef enum ds_exit {
  DS_EXIT_OK = 0,
  DS_EXIT_RUNTIME = 1,
  DS_EXIT_USAGE = 2,
  DS_EXIT_INPUT = 3,
  DS_EXIT_CHECK = 4
} ds_exit;

typedef struct ds_diag {
  ds_exit exit;         /* what the process should exit with; DS_EXIT_OK: no complaint */
  char file[512];       /* as given by the user; empty when there is none */
  int64_t line, column; /* 1-based; 0: not known */
  char text[768];       /* what is wrong: lower case, shows the offending text, no full stop */
  char expected[384];   /* "expected ..." without the word; may be empty */
  char hint[256];       /* e.g. the nearest valid name; may be empty */
} ds_diag;

/* Fill *d (printf style for text). Returns false, to return it on. */
bool ds_diag_set(ds_diag *d, ds_exit exit, const char *file, int64_t line, int64_t column,
                 const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void ds_diag_expected(ds_diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ds_diag_hint(ds_diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text without the key that it begins with: "KEY: what" and "KEY is what" become "what". */
const char *ds_diag_without(const char *text, const char *key);
/* "dryserve: file:line:col: text\n  expected ...\n  did you mean ...?\n" on `out` (stderr),
 * folded to 80 columns: a line goes on after four blanks. */
void ds_diag_print(const ds_diag *d, FILE *out);

/* The candidate nearest to `word` by edit distance when it is near enough to suggest, else NULL. */
const char *ds_nearest(const char *word, const char *const *candidates, size_t n);

#endif
