// SPDX-License-Identifier: GPL-3.0-or-later
/* Synthetic requests one by one, with all that the native trace format says of them. */
#ifndef DS_STUDY_GENERATOR_H
#define DS_STUDY_GENERATOR_H

#include "io/scenario.h"

typedef struct ds_generated {
  int64_t arrival_ns; /* of one that follows another: the earliest it may arrive */
  uint32_t input_tokens, output_tokens; /* the prompt with all that precedes it */
  uint64_t after;                       /* 0, or 1 + the number of the request that it follows */
  int64_t think_ns;                     /* after that */
  uint64_t session;                     /* from 1; 0: none */
  uint32_t turn;                        /* from 0 */
  uint32_t epoch;                       /* how often the session's context was compacted before */
  bool grows;             /* its prompt holds the session so far (users: it does not) */
  uint64_t prefix_group;  /* from 1; 0: none */
  uint32_t prefix_tokens; /* how much of the prompt its group shares */
  uint32_t images, image_tokens, image_at; /* their tokens are among the input's, from this one on */
} ds_generated;

typedef struct ds_generator ds_generator;

/* Checks the laws: what no law can do is named by its key. */
bool ds_generator_open(const ds_workload *w, uint64_t seed, ds_generator **out, ds_diag *d);
/* Up to cap requests; *n 0 at the end. In order of arrival_ns; who follows another names its place
 * in this order. */
bool ds_generator_next(ds_generator *g, ds_generated *out, size_t cap, size_t *n, ds_diag *d);
void ds_generator_close(ds_generator *g);

#endif
