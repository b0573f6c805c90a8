// SPDX-License-Identifier: Apache-2.0
/* One row per option of a policy: it drives parsing, bounds, defaults, `dryserve list` and the docs.
 * A policy's config is a plain struct; `offset` says where the option lives in it. */
#ifndef DS_SPEC_PARAM_H
#define DS_SPEC_PARAM_H

#include "base/types.h"

typedef enum ds_param_type {
  DS_PARAM_INT,    /* int64_t */
  DS_PARAM_BOOL,   /* bool */
  DS_PARAM_TIME,   /* int64_t, nanoseconds; written with its unit */
  DS_PARAM_FRAC,   /* double, no unit */
  DS_PARAM_CHOICE, /* int64_t, index into choices */
  DS_PARAM_INTS    /* ds_int_list, written as [a, b, ...] */
} ds_param_type;

#define DS_INT_LIST_MAX 15
typedef struct ds_int_list {
  int64_t n, v[DS_INT_LIST_MAX];
} ds_int_list;

typedef struct ds_param {
  const char *name;           /* the engine's own name where it has one */
  ds_param_type type;
  size_t offset;
  double min, max;            /* inclusive; both 0 for bool, choice */
  double preset;              /* default (ns for times) */
  double preset_big;          /* default on a big part (70 GiB or more and not an A100), as vLLM has it */
  const char *const *choices; /* NULL-terminated, for DS_PARAM_CHOICE */
  const char *help;
  const char *unit;           /* of a count: tokens, blocks, requests; NULL for the other types, which name their own */
} ds_param;

#endif
