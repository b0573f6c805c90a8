// SPDX-License-Identifier: GPL-3.0-or-later
/* Cards: accelerators, language models and engines as YAML files, one table of fields per kind.
 * A number stands as it is or as {value: 4.8 TB/s, source: KEY, date: 2025-06, grade: datasheet}; a
 * group of numbers may share one source, date and grade. A model may also be a Hugging Face
 * config.json. */
#ifndef DS_IO_CARD_H
#define DS_IO_CARD_H

#include "io/doc.h"
#include "io/scenario.h"

typedef enum ds_card_kind {
  DS_CARD_MODEL,
  DS_CARD_HARDWARE,
  DS_CARD_ENGINE,
  DS_CARD_KINDS
} ds_card_kind;

typedef enum ds_field_type {
  DS_FIELD_QUANTITY, /* double, in the dimension's base unit */
  DS_FIELD_INTEGER,  /* int64_t */
  DS_FIELD_BOOL,     /* bool */
  DS_FIELD_FORMAT,   /* ds_format: a number format's name */
  DS_FIELD_WIDTHS    /* int64_t[DS_PROJECTOR_MAX] and, behind it, how many: a list of counts */
} ds_field_type;

/* One value of a card. `path` is dotted: efficiencies.gemm_bf16.ec. */
typedef struct ds_card_field {
  const char *path;
  ds_field_type type;
  ds_dim dim;
  size_t offset; /* in ds_model, ds_hw or ds_engine_card */
  double min, max;
  bool required;
  const char *help;
} ds_card_field;

typedef struct ds_card_schema {
  const char
      *noun; /* "model", "hardware", "engine": also the key that marks a card, as in `model: 1` */
  const char *folder; /* within a data folder */
  const ds_card_field *fields;
  size_t n_fields;
  const char *const *texts; /* keys beside the fields: name, title, ... */
  size_t n_texts;
} ds_card_schema;

extern const ds_card_schema ds_card_schemas[DS_CARD_KINDS];

/* The node that holds a field of this card: a scalar (of widths: a list), or NULL where the card does not give it.
 * *group, when not NULL, gets the mapping that carries its source, date and grade (NULL: none). */
const ds_node *ds_card_value(const ds_node *root, const ds_card_field *f, const ds_node **group);

/* Where a name leads: a path (relative to base_dir), a file of that name beside the scenario, or a
 * card of a data folder by file name or alias, in any case of letters; an engine's family leads to
 * its newest card. `at` is the place of the name, for the complaint. */
bool ds_card_find(ds_card_kind kind, const char *name, const char *base_dir,
                  const ds_data_dirs *dirs, const ds_node *at, char *path, size_t cap, ds_diag *d);
/* Parse a card's file. sha256 (65 bytes) may be NULL. */
bool ds_card_open(ds_card_kind kind, const char *path, ds_doc *doc, char *sha256, ds_diag *d);

/* Its title, or its name where it has none. */
void ds_card_title(const ds_doc *doc, char *out, size_t cap);

/* Values of an open card; a model's may be a config.json. */
bool ds_card_model(const ds_doc *doc, ds_model *out, ds_diag *d);
bool ds_card_hardware(const ds_doc *doc, ds_hw *out, ds_diag *d);
bool ds_card_engine(const ds_doc *doc, ds_engine_card *out, ds_diag *d);
bool ds_is_config_json(const ds_node *root);
bool ds_config_json_model(const ds_doc *doc, ds_model *out, ds_diag *d);

/* hardware: {base: ..., memory_bandwidth: 6 TB/s}: change what the mapping names, in *hw. key: path
 * for messages. */
bool ds_hardware_override(const ds_node *map, const char *key, bool has_base, ds_hw *hw,
                          ds_diag *d);

/* Names of one kind in a data folder: file names without .yaml, sorted. Free each, then the array.
 */
bool ds_card_names(ds_card_kind kind, const char *dir, char ***names, size_t *n);
void ds_card_names_free(char **names, size_t n);

/* Index into the formats' names; used for weights and kv_cache. */
extern const char *const ds_format_names[DS_FMT_N];

/* Lower-case hex of SHA-256; out has 65 bytes. */
void ds_sha256_hex(const void *bytes, size_t n, char *out);

#endif
