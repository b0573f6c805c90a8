// SPDX-License-Identifier: GPL-3.0-or-later
/* Inside the scenario reader: one reader walks the tree section by section, in the order of the
 * documentation, and notes every effective value with where it came from. Each section has its file
 * scenario_*.c. */
#ifndef DS_IO_SCENARIO_READ_H
#define DS_IO_SCENARIO_READ_H

#include "io/card.h"

#define DS_SETS_MAX 64

typedef struct ds_reader {
  ds_scenario *s;
  ds_doc *doc;   /* the scenario's own */
  ds_doc *extra; /* values of --set that needed parsing; DS_SETS_MAX of room */
  size_t n_extra;
  const ds_data_dirs *dirs;
  const char *base_dir; /* of the scenario file */
  size_t cap_settings;
  char prefix[128];       /* of the section being read: "pools.main" */
  const char *root, *slo_root; /* workload or workloads.0; slo or workloads.0.slo */
  char name[256];         /* scratch of ds_name */
  const ds_node *by_class; /* acceptance of drafts by class, or NULL; and the section it is of */
  char by_class_prefix[128];
  char weights_from[320]; /* card and line of the model's own format */
  ds_diag *d;
} ds_reader;

/* Keys that the contract names but this version does not model. neutral: the one value that changes
 * nothing, or NULL. */
typedef struct ds_later {
  const char *key, *neutral, *what;
} ds_later;

/* Apply "key=value" to the tree. Syntax is a usage error; what the value means is judged by the
 * sections. */
bool ds_apply_set(ds_reader *r, const char *assignment);

/* Dotted name of a key of the current section; valid until the next call. "" names the section
 * itself. */
const char *ds_name(ds_reader *r, const char *key);
/* The keys of the mapping are `keys` or later ones, and no later one asks for anything. */
bool ds_section(ds_reader *r, const ds_node *map, const char *const *keys, size_t n_keys,
                const ds_later *later, size_t n_later);

/* Note an effective value. from: the node that gave it, or NULL with `why` ("default"). */
bool ds_note(ds_reader *r, const char *key, const ds_node *from, const char *why, const char *fmt,
             ...) __attribute__((format(printf, 5, 6)));
/* The same for text, quoted where YAML would read it as something else. */
bool ds_note_text(ds_reader *r, const char *key, const ds_node *from, const char *why,
                  const char *text);

/* Read an optional key of map (which may be NULL) into *out, or take the preset, and note it. */
bool ds_opt_integer(ds_reader *r, const ds_node *map, const char *key, int64_t min, int64_t max,
                    int64_t preset, int64_t *out);
bool ds_opt_bool(ds_reader *r, const ds_node *map, const char *key, bool preset, bool *out);
bool ds_opt_number(ds_reader *r, const ds_node *map, const char *key, double min, double max,
                   double preset, double *out);
bool ds_opt_choice(ds_reader *r, const ds_node *map, const char *key, const char *const *names,
                   size_t n, size_t preset, size_t *out);

/* Folder that a path in this node is relative to. */
const char *ds_base_of(const ds_reader *r, const ds_node *n);
/* Find, open and hash a card that the scenario names; `from` (320 bytes) gets its name for
 * provenance. */
bool ds_open_card(ds_reader *r, ds_card_kind kind, const char *name, const ds_node *at, ds_doc *doc,
                  char *from);

/* Provenance of a file that was read. */
void ds_add_input(ds_scenario *s, const char *path, const char *sha256);
/* Options of a policy by its table, into config. map may hold further keys: `skip` is one of them.
 */
bool ds_read_params(ds_reader *r, const ds_node *map, const char *skip, const char *owner,
                    const ds_param *params, size_t n_params, bool big, ds_policy_config *config);

/* The sections. */
bool ds_read_pool(ds_reader *r, const ds_node *pool);
bool ds_read_speculative(ds_reader *r, const ds_node *pool);
bool ds_read_replay(ds_reader *r); /* after the workload, whose ids it may name */
bool ds_read_acceptance_by_class(ds_reader *r); /* likewise: its classes */
#define STREAMS_MAX 32 /* workloads of one scenario */
bool ds_is_pool_key(const char *key);
bool ds_read_workload(ds_reader *r, const ds_node *workload);
bool ds_read_workloads(ds_reader *r, const ds_node *list);
bool ds_read_protocol(ds_reader *r, const ds_node *protocol, ds_workload *w);
/* Parts of a workload that is a trace (scenario_import.c); the nodes may be NULL. */
bool ds_read_trace_format(ds_reader *r, const ds_node *workload, ds_workload *w);
bool ds_read_trace_select(ds_reader *r, const ds_node *select, ds_workload *w);
bool ds_read_trace_import(ds_reader *r, const ds_node *import, ds_workload *w);
bool ds_read_trace_replay(ds_reader *r, const ds_node *workload, ds_workload *w);
bool ds_read_trace_map(ds_reader *r, const ds_node *map, ds_workload *w);
/* Images (scenario_images.c): of generated requests, of a trace, of a request that the scenario states. */
bool ds_read_generated_images(ds_reader *r, const ds_node *n, ds_workload *w);
bool ds_read_trace_images(ds_reader *r, const ds_node *workload, ds_workload *w);
bool ds_read_request_images(ds_reader *r, const ds_node *request, ds_request *q);
bool ds_read_generate(ds_reader *r, const ds_node *generate, ds_workload *w);

/* What the scenario says, and the preset beneath it (or NULL). */
typedef struct ds_layers {
  const ds_node *own, *preset;
} ds_layers;
const ds_node *ds_layers_get(const ds_layers *l, const char *key);
bool ds_read_arrivals(ds_reader *r, const ds_layers *generate, ds_workload *w);
/* A law at workload.<section>; a time is kept in milliseconds. */
bool ds_read_law(ds_reader *r, const ds_node *n, const char *section, bool time, ds_length_law *l);
bool ds_read_slo(ds_reader *r, const ds_node *slo);
bool ds_read_tiers(ds_reader *r, const ds_node *tiers); /* after the pools */
bool ds_read_cost(ds_reader *r, const ds_node *cost, bool note);

#endif
