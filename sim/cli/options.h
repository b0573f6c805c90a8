// SPDX-License-Identifier: GPL-3.0-or-later
/* A command line as data: one table per command drives parsing, --help and "did you mean". */
#ifndef DS_CLI_OPTIONS_H
#define DS_CLI_OPTIONS_H

#include "io/flags.h" /* ds_option */
#include "io/outfile.h"

typedef struct ds_example {
  const char *command, *what;
} ds_example;

typedef struct ds_command {
  const char *name, *synopsis;             /* "run", "SCENARIO [options]" */
  const char *summary;                     /* one line, lower case */
  const char *text;                        /* a paragraph for --help; may be NULL */
  const ds_option *options, *more_options; /* the second list has its own heading */
  size_t n_options, n_more;
  const char *more_heading;
  const ds_example *examples;
  size_t n_examples;
  const char *const
      *later; /* options of the contract that later versions bring; NULL-terminated, may be NULL */
} ds_command;

typedef enum ds_arg {
  DS_ARG_END,
  DS_ARG_OPTION,  /* *option and, if it takes one, *value */
  DS_ARG_OPERAND, /* *value */
  DS_ARG_HELP,    /* --help or -h */
  DS_ARG_WRONG    /* *d says why */
} ds_arg;

typedef struct ds_args { /* start with {.argc = argc, .argv = argv, .at = 1} */
  int argc;
  char **argv;
  int at;
  bool operands_only;       /* after -- */
  const ds_option *listing; /* an option that takes further values: those come one by one as if it
                               were repeated */
} ds_args;

/* The next argument. --name VALUE and --name=VALUE are the same; --goodput takes several values, as
 * vLLM's does. */
ds_arg ds_args_next(ds_args *a, const ds_command *c, const ds_option **option, const char **value,
                    ds_diag *d);

void ds_help(ds_outfile *out, const ds_command *c);
/* Print help to standard output and return the exit status. */
int ds_help_exit(const ds_command *c);
/* Print *d to standard error, with a line on where to find help after a usage error; returns
 * d->exit. */
int ds_fail(const ds_diag *d, const char *command);
/* A remark to standard error, wrapped at 80 columns; further lines are indented. */
void ds_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Usage error about an unknown word: names the nearest of the candidates. */
void ds_unknown(ds_diag *d, const char *kind, const char *word, const char *const *candidates,
                size_t n);

/* The value of --jobs, 1 to `most`; a usage error in *d otherwise. */
bool ds_take_jobs(const char *value, int most, int *jobs, ds_diag *d);
/* As many as were asked for; 0: one a processor. */
int ds_jobs_or_all(int asked);

#endif
