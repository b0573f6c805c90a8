// SPDX-License-Identifier: GPL-3.0-or-later
/* What a workload turned out to be: how bursty its arrivals are, and how much of its prompts was
 * said before. */
#ifndef DS_STUDY_MEASURED_H
#define DS_STUDY_MEASURED_H

#include "study/arrivals.h"
#include "study/generator.h"

#define DS_WINDOWS 3
extern const double ds_window_s[DS_WINDOWS]; /* 1, 10 and 60 s */

typedef struct ds_measured {
  double rate_per_s, cv;         /* of the gaps between arrivals; 0 without two arrivals */
  double dispersion[DS_WINDOWS]; /* variance over mean of the counts in windows from the first
                                    arrival on, the last only if whole; 0: fewer than two windows */
} ds_measured;
void ds_measured_of(const ds_arrivals *a, ds_measured *out);

/* Prompt tokens that an unlimited prefix cache would have: those of the conversation before the
 * turn, and of a group's prefix as far as an earlier request had it. Zero before, free after. */
typedef struct ds_reuse {
  uint32_t *context; /* of each session after its last turn */
  uint32_t *longest; /* prefix of each group so far */
  size_t cap_context, cap_longest;
  uint64_t reused_tokens, input_tokens;
} ds_reuse;
/* In order. False when out of memory. */
bool ds_reuse_add(ds_reuse *u, const ds_generated *q);
void ds_reuse_free(ds_reuse *u);

#endif
