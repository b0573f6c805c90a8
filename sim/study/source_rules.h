// SPDX-License-Identifier: GPL-3.0-or-later
/* How the sources of measured runs measured, as tables: by the first part of a run's id, and by engine and version. */
#ifndef DS_STUDY_SOURCE_RULES_H
#define DS_STUDY_SOURCE_RULES_H

#include "io/runs.h"

typedef struct ds_profile_lengths { /* a workload that a source names instead of giving its lengths */
  const char *word;
  double input, output; /* tokens */
  bool guessed;
  double shared;        /* of the input, in front: a system prompt */
} ds_profile_lengths;

typedef struct ds_source_rule {
  const char *prefix;
  char grade;           /* A exact, B a setting is missing, C sanity only */
  bool client_known;
  int year;             /* of the software, where a row does not say */
  bool static_scales;   /* its fp8 checkpoints carry the scales of activations */
  bool kv_fp8;          /* its scripts ask for fp8 KV with quantised weights */
  bool seats_are_slots; /* max_num_seqs is the concurrency */
  double max_tokens;    /* of its vLLM scripts; 0: the engine's default */
  bool data_set;        /* lengths come from a data set */
  bool smallest_tp;     /* blank parallelism: as many copies as fit */
  bool profiles_win;    /* over the row's own output lengths, which its client counted anew */
  int prompts;          /* so many prompts take turns, and the engine's prefix cache holds them; 0: all are new */
  bool in_process;      /* client and engine share a process: no front end, and nothing hides the host's time */
  const char *card_said, *card_meant; /* an engine card of that software, and the one for the way in which it was driven */
  bool vendors_build;                 /* it runs the vendor's own build of vLLM, with kernels before upstream had them */
  const char *part_said, *part_meant; /* a part that it names without its memory, and which one it was */
  const char *card_of_two;            /* a part of which it counts cards, each two devices of ours */
  const ds_profile_lengths *profile;
  size_t n_profiles;
} ds_source_rule;

typedef struct ds_engine_rule {
  const char *name; /* how a row's engine begins */
  double from, to;  /* version, as major x 100 + minor; blank: the year decides */
  int year_from, year_to;
  const char *card, *scheduler;
  double memory; /* share of the device for weights and KV */
  bool current;  /* the card is of that software's time */
} ds_engine_rule;

typedef struct ds_script_rule { /* what a harness's launch script says beyond the defaults */
  const char *source, *engine, *model; /* how the first part of an id and a row's engine begin; a part of the model's name */
  double input, output;                /* mean lengths, tokens; 0: any */
  double tp_below;                     /* 0: any */
  const char *options;                 /* of the scheduler; NULL: none */
  bool marlin;                         /* MXFP4 experts run in Marlin's kernels */
} ds_script_rule;

/* The first that a row meets, or NULL. */
const ds_script_rule *ds_script_rule_of(const ds_measured_run *m, const char *source);

/* Never NULL: an unknown source is graded B, with a known client. */
const ds_source_rule *ds_source_rule_of(const char *source);
/* The engine card of that software on a vendor's parts, where its builds for them behave in their own way. */
const char *ds_engine_card_on(const ds_source_rule *rule, const char *card, const char *vendor);
/* The part that a row was measured on, as one of our cards calls it: what the row says, or what its source meant. */
const char *ds_part_of(const ds_measured_run *m);
/* Its name is that of several parts, and nothing says which. */
bool ds_part_is_open(const ds_measured_run *m);
/* NULL: no model of that engine. Sets DS_BLANK_VERSION. */
const ds_engine_rule *ds_engine_rule_of(const ds_measured_run *m, const ds_source_rule *rule, unsigned *blanks);

#endif
