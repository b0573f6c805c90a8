// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve list: what there is to choose from, each with its parameters; for people and, with
 * --json, for programs. */
#include "cli/list.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

static const ds_option options[] = {
    {"--json", NULL, "everything as one JSON object"},
    {"--schema", NULL, "what a card of this kind may say: every field with its unit and range"},
};

static const ds_example examples[] = {
    {"dryserve list hardware", "accelerators"},
    {"dryserve list hardware h200-sxm", "every number of one card, with source, date and grade"},
    {"dryserve list hardware --schema", "what a card may say"},
    {"dryserve list schedulers vllm-v1", "one scheduler: its source, options, ranges, versions"},
    {"dryserve list schedulers --json", "for programs"},
};

static ds_command command_of(void) {
  ds_command c = {
      .name = "list",
      .synopsis = "models|hardware|engines|schedulers|routers|formats|metrics|\n"
                  "       prices|presets|protocols [NAME]",
      .summary = "Show what there is to choose from.",
      .options = options,
      .n_options = sizeof options / sizeof options[0],
      .examples = examples,
      .n_examples = sizeof examples / sizeof examples[0],
  };
  return c;
}

typedef struct kind {
  const char *name;
  ds_card_kind card; /* DS_CARD_KINDS: no card */
  void (*text)(ds_outfile *out, const char *only); /* only: one entry, which is there; NULL: all */
  json_t *(*json)(void);
} kind;

static const kind kinds[] = {
    {"models", DS_CARD_MODEL, NULL, NULL},
    {"hardware", DS_CARD_HARDWARE, NULL, NULL},
    {"engines", DS_CARD_ENGINE, NULL, NULL},
    {"schedulers", DS_CARD_KINDS, ds_list_schedulers, ds_list_schedulers_json},
    {"routers", DS_CARD_KINDS, ds_list_routers, ds_list_routers_json},
    {"formats", DS_CARD_KINDS, ds_list_formats, ds_list_formats_json},
    {"metrics", DS_CARD_KINDS, ds_list_metrics, ds_list_metrics_json},
    {"prices", DS_CARD_HARDWARE, NULL, NULL},
    {"presets", DS_CARD_KINDS, ds_list_presets, ds_list_presets_json},
    {"protocols", DS_CARD_KINDS, ds_list_protocols, ds_list_protocols_json},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])
#define NAMES_MAX 256 /* of one kind */

typedef struct list_args {
  const char *kind, *name;
  bool json, schema;
} list_args;

static bool usage(ds_diag *d, const char *text, const char *expected) {
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s", text);
  ds_diag_expected(d, "%s", expected);
  return false;
}

/* 1: go on; 0: help was asked for; -1: wrong. */
static int parse(const ds_command *c, int argc, char **argv, list_args *a, ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  for (;;) {
    const ds_option *o;
    const char *value;
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_END:
      if (a->kind) return 1;
      usage(d, "nothing to list was named",
            "models, hardware, engines, schedulers, routers, formats, metrics, prices, presets or protocols");
      return -1;
    case DS_ARG_HELP:
      return 0;
    case DS_ARG_WRONG:
      return -1;
    case DS_ARG_OPTION:
      if (strcmp(o->name, "--json") == 0) a->json = true;
      if (strcmp(o->name, "--schema") == 0) a->schema = true;
      break;
    case DS_ARG_OPERAND:
      if (a->kind && a->name) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "'%.100s' comes after '%.100s'", value, a->name);
        ds_diag_expected(d, "one name at most");
        return -1;
      }
      if (a->kind)
        a->name = value;
      else
        a->kind = value;
      break;
    }
  }
}

static const kind *find_kind(const char *word, ds_diag *d) {
  const char *names[N_KINDS];
  for (size_t i = 0; i < N_KINDS; ++i) {
    if (strcmp(word, kinds[i].name) == 0) return &kinds[i];
    names[i] = kinds[i].name;
  }
  ds_unknown(d, "kind", word, names, N_KINDS);
  return NULL;
}

void ds_list_wrap(ds_outfile *out, const char *text, size_t column, size_t margin) {
  for (bool first = true; *text; first = false) {
    size_t n = strcspn(text, " ");
    if (!first && column + 1 + n > 80) {
      ds_out_printf(out, "\n%*s", (int)margin, "");
      column = margin;
    } else if (!first) {
      ds_out_text(out, " ");
      ++column;
    }
    ds_out_bytes(out, text, n);
    column += n;
    text += n;
    text += strspn(text, " ");
  }
  ds_out_text(out, "\n");
}

static bool print_json(ds_outfile *out, json_t *j, ds_diag *d) {
  char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_ENSURE_ASCII) : NULL;
  json_decref(j);
  if (!text) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  ds_out_text(out, text);
  ds_out_text(out, "\n");
  free(text);
  return true;
}

/* Leaves only the entries of that name in the arrays of j; false when there is none. */
static bool keep_named(json_t *j, const char *what, const char *name, ds_diag *d) {
  const char *names[NAMES_MAX], *key;
  size_t n = 0, found = 0;
  json_t *list;
  json_object_foreach(j, key, list) {
    for (size_t i = 0; i < json_array_size(list); ++i) {
      const char *own = json_string_value(json_object_get(json_array_get(list, i), "name"));
      if (own && strcmp(own, name) == 0) ++found;
      if (own && n < NAMES_MAX) names[n++] = own;
    }
  }
  if (!found) {
    char one[32];
    snprintf(one, sizeof one, "%.*s", (int)strlen(what) - 1, what); /* without its s */
    ds_unknown(d, one, name, names, n);
    return false;
  }
  json_object_foreach(j, key, list) {
    for (size_t i = json_array_size(list); i-- > 0;) {
      const char *own = json_string_value(json_object_get(json_array_get(list, i), "name"));
      if (!own || strcmp(own, name) != 0) json_array_remove(list, i);
    }
  }
  return true;
}

static bool list_built_in(const kind *k, const list_args *a, ds_outfile *out, ds_diag *d) {
  if (a->schema) return usage(d, "--schema is for cards", "models, hardware or engines");
  json_t *j = a->json || a->name ? k->json() : NULL;
  bool ok = !a->name || keep_named(j, k->name, a->name, d);
  if (ok && a->json) return print_json(out, j, d);
  json_decref(j);
  if (ok) k->text(out, a->name);
  return ok;
}

static bool list_kind(const kind *k, const list_args *a, const ds_data_dirs *dirs, ds_outfile *out,
                      ds_diag *d) {
  if (k->card == DS_CARD_KINDS) return list_built_in(k, a, out, d);
  if (a->schema) {
    if (a->json) return print_json(out, ds_list_schema_json(k->card), d);
    ds_list_schema(out, k->card);
    return true;
  }
  ds_cards cards;
  bool ok = ds_cards_open(k->card, a->name, dirs, &cards, d);
  if (ok && a->json)
    ok = print_json(out, ds_list_cards_json(&cards), d);
  else if (ok && strcmp(k->name, "prices") == 0)
    ds_list_prices(out, &cards);
  else if (ok && a->name)
    ds_list_one_card(out, &cards);
  else if (ok)
    ds_list_cards(out, &cards);
  ds_cards_free(&cards);
  return ok;
}

int ds_cmd_list(int argc, char **argv, const ds_data_dirs *dirs) {
  ds_command c = command_of();
  list_args a = {NULL, NULL, false, false};
  ds_diag d = {.exit = DS_EXIT_OK};
  int go = parse(&c, argc, argv, &a, &d);
  if (go == 0) return ds_help_exit(&c);
  const kind *k = go == 1 ? find_kind(a.kind, &d) : NULL;
  ds_outfile *out = k ? ds_outfile_open("-", &d) : NULL;
  if (!out) return ds_fail(&d, c.name);
  if (!list_kind(k, &a, dirs, out, &d) || !ds_outfile_close(out, &d)) {
    ds_outfile_discard(out);
    return ds_fail(&d, c.name);
  }
  return ds_outfile_publish(out, &d) ? DS_EXIT_OK : ds_fail(&d, c.name);
}
