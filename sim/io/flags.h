// SPDX-License-Identifier: GPL-3.0-or-later
/* The shorthand: flags that describe a scenario without a file. They only write a scenario's text,
 * which is then read like any other, so that there is one way to configure. */
#ifndef DS_IO_FLAGS_H
#define DS_IO_FLAGS_H

#include "io/diag.h"

typedef struct ds_option {
  const char *name;  /* with its dashes: --json */
  const char *value; /* what it takes, as help shows it: FILE; NULL for a switch */
  const char *help;  /* NULL: understood, but not listed */
} ds_option;

/* The flags, for parsing and help. */
extern const ds_option ds_flag_options[];
extern const size_t ds_n_flag_options;

typedef struct ds_flag { /* one that was given; --goodput may come more than once */
  const char *name, *value;
} ds_flag;

/* The scenario that the flags mean, as YAML; *text is malloc'd. A flag that cannot be understood is
 * a usage error. */
bool ds_flags_scenario(const ds_flag *flags, size_t n, char **text, ds_diag *d);

#endif
