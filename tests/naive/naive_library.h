// SPDX-License-Identifier: GPL-3.0-or-later
/* The naive simulators as functions, for tests that run thousands of cases: the text of a scenario (written as JSON; it is
 * changed), and files for what --steps and --requests write. Returns what the program's exit status would be; *why is then
 * what it would say. Not for two threads at once. */
#ifndef TESTS_NAIVE_LIBRARY_H
#define TESTS_NAIVE_LIBRARY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

int naive_run(char *scenario, FILE *steps, FILE *requests, char *why, size_t n);
int naive_policies_run(char *scenario, FILE *steps, FILE *requests, char *why, size_t n);

/* The way out of a simulation that cannot go on. */
typedef struct naive_escape {
  jmp_buf at;
  int status;
  char *why;
  size_t n;
} naive_escape;

__attribute__((format(printf, 3, 0))) static inline _Noreturn void naive_out(naive_escape *e, int status, const char *format, va_list ap) {
  vsnprintf(e->why, e->n, format, ap);
  e->status = status;
  longjmp(e->at, 1);
}

#endif
