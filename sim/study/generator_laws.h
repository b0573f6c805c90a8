// SPDX-License-Identifier: GPL-3.0-or-later
/* Laws as a scenario states them, made into samplers. */
#ifndef DS_STUDY_GENERATOR_LAWS_H
#define DS_STUDY_GENERATOR_LAWS_H

#include "gen/lengths.h"
#include "gen/process.h"
#include "io/scenario.h"

/* A sampler with the parts of a mixture beside it; must not move once made. */
typedef struct ds_sampler {
  ds_length law;
  ds_length part[DS_PARTS_MAX];
} ds_sampler;

/* key: below workload.generate, for messages. Tables must outlive it. */
bool ds_sampler_of(const ds_length_law *law, const char *key, ds_sampler *out, ds_diag *d);

/* Pieces and chains in gen's terms; must not move once made. */
typedef struct ds_arrival_maker {
  ds_process process;
  ds_rate_piece piece[DS_SPANS_MAX];
  ds_modulator modulator[DS_CHAINS_MAX];
} ds_arrival_maker;
void ds_arrival_maker_of(const ds_workload *w, uint64_t seed, ds_arrival_maker *out);

#endif
