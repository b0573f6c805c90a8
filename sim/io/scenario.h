// SPDX-License-Identifier: GPL-3.0-or-later
/* A scenario file made into values: the run for the core, the workload for the readers, and where
 * each value came from. */
#ifndef DS_IO_SCENARIO_H
#define DS_IO_SCENARIO_H

#include "engine/sim.h"
#include "io/diag.h"
#include "io/span_room.h"

typedef enum ds_workload_kind {
  DS_WORKLOAD_TRACE,
  DS_WORKLOAD_GENERATE,
  DS_WORKLOAD_INLINE
} ds_workload_kind;

typedef enum ds_law { DS_LAW_FIXED, DS_LAW_LOGNORMAL } ds_law;
typedef struct ds_length_law { /* tokens; a draw is rounded to the nearest integer and at least 1 */
  ds_law law;
  double value;             /* fixed */
  double mean, p99, median; /* lognormal: mean and one of p99 or median; 0 = not given */
  double min, max;          /* 0 = none; draws outside are drawn again */
} ds_length_law;

typedef enum ds_arrival_process {
  DS_ARRIVAL_POISSON,
  DS_ARRIVAL_CONSTANT,
  DS_ARRIVAL_BURST
} ds_arrival_process;

/* What to do with a row that is not simply good (interface page, import defaults). */
typedef enum ds_repair {
  DS_REPAIR_ERROR,
  DS_REPAIR_DROP,
  DS_REPAIR_CLAMP,
  DS_REPAIR_SORT,
  DS_REPAIR_REJECT,
  DS_REPAIR_TRUNCATE
} ds_repair;

typedef struct ds_workload {
  ds_workload_kind kind;
  /* trace */
  char path[1024];       /* resolved; "-" is standard input */
  char path_given[1024]; /* as the scenario has it */
  char format[32];       /* empty: sniff; azure | jsonl */
  int64_t select_first;  /* 0: all */
  int64_t window_from_ns,
      window_to_ns;  /* half open; to 0: none. Times then count from the window's start */
  double time_scale; /* multiplies arrival offsets */
  ds_repair zero, unsorted, oversize; /* ERROR unless the scenario says otherwise */
  /* generate */
  int64_t requests; /* 0: by duration */
  int64_t duration_ns;
  ds_arrival_process process;
  double rate_per_s;
  ds_length_law input, output;
  /* inline */
  ds_request *inline_requests; /* sorted by arrival (stable); owned */
  char **inline_ids;           /* owned; NULL entries when unnamed */
  char **inline_notes;         /* owned; what the scenario says of their tokens, or NULL */
  ds_span_room inline_spans;   /* owned */
  size_t n_inline;
  /* all */
  char class_name[DS_NAME_MAX];
  int64_t max_tokens_fixed;  /* > 0: a count for everybody */
  double max_tokens_times;   /* > 0: so many times the true output */
  bool max_tokens_is_output; /* default: schedulers that believe caps know the true lengths */
} ds_workload;

/* One effective value for --explain-config and the `scenario` object of --json. */
typedef struct ds_setting {
  char key[160];        /* dotted path: pools.main.tensor_parallel */
  const char *value;    /* as one would write it in YAML, with its unit */
  char from[320];       /* default | file:line | command line */
  int32_t line, column; /* of the value in its file; 0: default or command line */
} ds_setting;

typedef struct ds_scenario {
  char path[1024]; /* as given; empty for one made from flags */
  char title[256];
  char model_title[DS_NAME_MAX],
      hardware_title[DS_NAME_MAX]; /* the cards' titles; empty without a card */
  ds_run run;
  const ds_sched_ops *sched;
  const ds_route_ops *route;
  ds_workload workload;
  char acceptance_given[512], acceptance_path[1536]; /* of speculation, when it is a file; else empty */
  uint64_t *replay_first;                            /* what it says, for run.pool.speculative; owned */
  uint8_t *replay_accepted;
  ds_setting *settings; /* in the order of the interface page */
  size_t n_settings;
  /* Inputs read, for provenance: path as given and SHA-256 in hex. */
  struct {
    char path[1024];
    char sha256[65];
  } inputs[16];
  size_t n_inputs;
} ds_scenario;

/* Where cards are looked for after the scenario's own folder: $DRYSERVE_DATA, then the folder of
 * the program, then the installed data folder (PREFIX/share/dryserve). Set once by main; the
 * strings must outlive all loads. */
typedef struct ds_data_dirs {
  const char *dir[4];
  size_t n;
} ds_data_dirs;

/* Read and check a scenario. sets: "path=value" from --set, applied over the file. On failure *d
 * says why and nothing is kept. Free with ds_scenario_free. path "-" reads standard input. */
bool ds_scenario_load(const char *path, const char *const *sets, size_t n_sets,
                      const ds_data_dirs *dirs, ds_scenario *out, ds_diag *d);
/* The same from text (file is the name for messages; base_dir what its relative paths are relative
 * to). A file that begins with "command line" was made from flags: it has no lines worth naming. */
bool ds_scenario_parse(const char *text, size_t bytes, const char *file, const char *base_dir,
                       const char *const *sets, size_t n_sets, const ds_data_dirs *dirs,
                       ds_scenario *out, ds_diag *d);
void ds_scenario_free(ds_scenario *s);
/* A complaint of the core about this scenario: where its text begins with a key
 * ("pools.main.kv_blocks: ..."), the place is that key's. Returns false, to return it on. */
bool ds_scenario_complain(const ds_scenario *s, const ds_error *err, ds_diag *d);

#endif
