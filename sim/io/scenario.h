// SPDX-License-Identifier: GPL-3.0-or-later
/* A scenario file made into values: the run for the core, the workload for the readers, and where
 * each value came from. */
#ifndef DS_IO_SCENARIO_H
#define DS_IO_SCENARIO_H

#include "engine/sim.h"
#include "io/diag.h"
#include "io/span_room.h"
#include "io/generate.h"

typedef enum ds_workload_kind {
  DS_WORKLOAD_TRACE,
  DS_WORKLOAD_GENERATE,
  DS_WORKLOAD_INLINE,
  DS_WORKLOAD_MERGED /* several streams, merged by time */
} ds_workload_kind;

/* What to do with a row that is not simply good (interface page, import defaults). */
typedef enum ds_repair {
  DS_REPAIR_ERROR,
  DS_REPAIR_DROP,
  DS_REPAIR_CLAMP,
  DS_REPAIR_SORT,
  DS_REPAIR_REJECT,
  DS_REPAIR_TRUNCATE
} ds_repair;

/* A column of a flat CSV or JSONL that no reader knows (workload.map). */
typedef enum ds_field {
  DS_FIELD_ARRIVAL,
  DS_FIELD_INPUT,
  DS_FIELD_OUTPUT,
  DS_FIELD_MAX_TOKENS,
  DS_FIELD_ID,
  DS_FIELD_SESSION,
  DS_FIELD_TURN,
  DS_FIELD_THINK,
  DS_FIELD_CLASS,
  DS_FIELD_MODEL,
  DS_FIELD_TENANT,
  DS_FIELD_PRIORITY,
  DS_FIELD_STATUS,
  DS_FIELD_TTFT,
  DS_FIELD_E2E,
  DS_FIELD_PREFIX,
  DS_FIELD_PREFIX_TOKENS,
  DS_FIELD_IMAGES,
  DS_FIELD_IMAGE_TOKENS,
  DS_FIELD_N
} ds_field;
extern const char *const ds_field_names[DS_FIELD_N];
#define DS_UNIT_STAMP (-1) /* a date and time of day */
typedef struct ds_map_entry {
  ds_field field;
  int64_t unit_ns; /* of a time: nanoseconds a unit, or DS_UNIT_STAMP; 0: not a time */
  char column[64]; /* a name; in JSON a path with dots */
} ds_map_entry;

/* A protocol that is several runs: every one is the scenario with one value changed. */
typedef enum ds_series_kind { DS_SERIES_NONE, DS_SERIES_SWEEP, DS_SERIES_SEARCH } ds_series_kind;

typedef struct ds_workload {
  ds_workload_kind kind;
  /* merged */
  const struct ds_workload *stream; /* the scenario's */
  size_t n_stream;
  /* of one stream among several */
  ds_slo slo;
  char tenant[DS_NAME_MAX];
  /* trace */
  char path[1024];       /* resolved; "-" is standard input */
  char path_given[1024]; /* as the scenario has it */
  char format[32];       /* empty: sniff; else a name of io/trace_formats.h */
  int64_t select_first;  /* 0: all */
  int64_t window_from_ns,
      window_to_ns;  /* half open; to 0: none. Times then count from the window's start */
  double time_scale; /* multiplies arrival offsets */
  ds_repair zero, unsorted, oversize; /* ERROR unless the scenario says otherwise */
  bool zero_given, unsorted_given;    /* else a format in which such rows are normal has its way */
  bool keep_failed, drop_malformed, drop_duplicates;
  int64_t dequantize_ns; /* > 0: arrivals stand for a tick of this length and are spread over it */
  char session_input;    /* 'f' full, 'd' delta, 0: as the format has it */
  char block_tail;       /* 'c' ceil, 'f' floor, 0: either */
  char hash_scope;       /* 'g' global, 'f' file, 's' session, 0: as the format has it */
  uint32_t block_tokens; /* of block ids; 0: as the format has it */
  double share;          /* keep this share of the sessions at random; 0: all */
  bool whole_sessions;   /* a window takes or leaves sessions by their first request */
  bool open_loop;        /* recorded arrivals, and nothing else */
  ds_map_entry map[DS_FIELD_N];
  size_t n_map;
  /* Of a trace that says how many images a request brings and not how large they are: tokens of each, and where that is
   * assumed the resolution behind it; the most that an image can have (0: unknown). */
  int64_t image_each, image_most;
  char image_assumed[24];
  bool ignore_images; /* what they are is text like any other */
  /* generate */
  int64_t requests; /* 0: by duration */
  int64_t duration_ns;
  ds_arrival_process process;
  double rate_per_s; /* mean; of sessions where there are such */
  ds_length_law input, output;
  ds_arrival_detail arrival;
  ds_session_law session;
  ds_prefix_law prefix;
  ds_image_law images;
  char rows_path[1024];       /* lengths drawn jointly from the rows of this trace; empty: by law */
  char rows_path_given[1024];
  char preset[40], protocol[40]; /* as the scenario names them; empty: none */
  char rows_order;               /* r: at random, e: each equally often, shuffled; a: as recorded */
  ds_series_kind series;
  int64_t series_runs; /* of a sweep */
  int64_t least_ns;                     /* that a protocol's run must last; 0: any time */
  int64_t limit_ttft_ns, limit_tpot_ns; /* p99 limits that come with a protocol; 0: none */
  struct ds_law_table *tables;          /* owned */
  /* inline */
  ds_request *inline_requests; /* sorted by arrival (stable); owned */
  char **inline_ids;           /* owned; NULL entries when unnamed */
  char **inline_notes;         /* owned; what the scenario says of their tokens, or NULL */
  ds_span_room inline_spans;   /* owned */
  size_t n_inline;
  /* closed loop: requests may follow others, and all are fed before the first step */
  bool closed_loop;
  int64_t concurrency; /* so many in flight, each completion admits the next; 0: no cap */
  int64_t think_ns;    /* generate: pause before a freed seat is taken again */
  /* all */
  /* Warm-up: the first requests by number, or those that arrive in the first time, are simulated and
   * in no figure about requests. */
  int64_t warmup_requests, warmup_ns;
  bool no_stream; /* the client sees nothing before the end */
  int64_t rtt_ns; /* between client and server, there and back */
  ds_patience patience; /* timeout as the client sees it, the round trip included; notice_ns unused */
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
  double *stream_acceptance; /* by class; likewise */
  ds_workload *stream; /* workloads: in their order; owned */
  size_t n_stream;
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

/* May its server answer requests with an error? */
bool ds_scenario_turns_away(const ds_scenario *s);

#endif
