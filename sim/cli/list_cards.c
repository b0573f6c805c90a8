// SPDX-License-Identifier: GPL-3.0-or-later
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/list.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* --- opening ------------------------------------------------------------------------------- */

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

/* doc points into itself: the array must not move while cards are open, so it is made large enough
 * first. */
static bool open_one(ds_cards *c, const char *name, const char *path, ds_diag *d) {
  for (size_t i = 0; i < c->n; ++i)
    if (strcmp(c->card[i].name, name) == 0) return true;
  ds_listed_card *k = &c->card[c->n];
  snprintf(k->name, sizeof k->name, "%s", name);
  if (!ds_card_open(c->kind, path, &k->doc, NULL, d)) return false;
  ++c->n;
  if (c->kind == DS_CARD_MODEL) return ds_card_model(&k->doc, &k->value.model, d);
  if (c->kind == DS_CARD_HARDWARE) return ds_card_hardware(&k->doc, &k->value.hw, d);
  return ds_card_engine(&k->doc, &k->value.engine, d);
}

static bool open_named(ds_cards *c, const char *name, const ds_data_dirs *dirs, ds_diag *d) {
  ds_node at;
  char path[1400], stem[128];
  memset(&at, 0, sizeof at);
  at.file = "";
  if (!ds_card_find(c->kind, name, "", dirs, &at, path, sizeof path, d)) return false;
  const char *slash = strrchr(path, '/');
  snprintf(stem, sizeof stem, "%.127s", slash ? slash + 1 : path);
  char *dot = strstr(stem, ".yaml");
  if (dot) *dot = '\0';
  c->card = calloc(1, sizeof *c->card);
  return c->card ? open_one(c, stem, path, d) : out_of_memory(d);
}

bool ds_cards_open(ds_card_kind kind, const char *name, const ds_data_dirs *dirs, ds_cards *out,
                   ds_diag *d) {
  char **names[LEN(dirs->dir)], path[1400];
  size_t n[LEN(dirs->dir)], total = 0, opened = 0;
  memset(out, 0, sizeof *out);
  out->kind = kind;
  if (name) return open_named(out, name, dirs, d);
  bool ok = true;
  for (; ok && opened < dirs->n; ++opened) {
    ok = ds_card_names(kind, dirs->dir[opened], &names[opened], &n[opened]) || out_of_memory(d);
    if (ok) total += n[opened];
  }
  if (ok && total > 0) {
    out->card = calloc(total, sizeof *out->card);
    ok = out->card || out_of_memory(d);
  }
  for (size_t i = 0; i < opened; ++i) {
    for (size_t j = 0; ok && j < n[i]; ++j) {
      snprintf(path, sizeof path, "%s/%s/%.200s.yaml", dirs->dir[i], ds_card_schemas[kind].folder,
               names[i][j]);
      ok = open_one(out, names[i][j], path, d);
    }
    ds_card_names_free(names[i], n[i]);
  }
  return ok;
}

void ds_cards_free(ds_cards *c) {
  for (size_t i = 0; i < c->n; ++i) ds_doc_free(&c->card[i].doc);
  free(c->card);
  memset(c, 0, sizeof *c);
}

/* --- tables -------------------------------------------------------------------------------- */

/* A value for a column: three significant digits are enough to choose by. */
static const char *brief(double v, ds_dim dim, char *buf, size_t cap) {
  char num[32], full[48];
  if (v == 0) return "-";
  snprintf(num, sizeof num, "%.4g %s", v, ds_dim_unit(dim));
  double rounded;
  ds_unit_error e;
  if (!ds_quantity_parse(num, dim, &rounded, &e)) rounded = v;
  ds_quantity_format(rounded, dim, full, sizeof full);
  snprintf(buf, cap, "%s", full);
  return buf;
}

static void models(ds_outfile *out, const ds_cards *c) {
  ds_out_printf(out, "%-21s %10s %6s %7s %11s %8s  %s\n", "model", "parameters", "layers",
                "kv/head", "KV a token", "context", "weights");
  for (size_t i = 0; i < c->n; ++i) {
    const ds_model *m = &c->card[i].value.model;
    char kv[48], heads[48];
    snprintf(heads, sizeof heads, "%lld/%lld", (long long)m->kv_heads, (long long)m->heads);
    ds_out_printf(out, "%-21s %8.1f B %6lld %7s %11s %8lld  %s\n", c->card[i].name,
                  ds_model_params(m) / 1e9, (long long)m->layers, heads,
                  brief(ds_model_kv_bytes_per_token(m, 2), DS_DIM_BYTES, kv, sizeof kv),
                  (long long)m->max_positions, ds_format_names[m->weights]);
  }
  ds_out_text(out,
              "\nKV per token: in bf16, over all layers, before any split. context in tokens.\n");
}

static void hardware(ds_outfile *out, const ds_cards *c) {
  static const char *const grades[] = {"estimate", "datasheet", "measured"};
  ds_out_printf(out, "%-13s %9s %10s %13s %13s %7s %s\n", "hardware", "memory", "bandwidth", "bf16",
                "fp8", "power", "kernels");
  for (size_t i = 0; i < c->n; ++i) {
    const ds_hw *h = &c->card[i].value.hw;
    char a[5][48];
    ds_out_printf(out, "%-13s %9s %10s %13s %13s %7s %s\n", c->card[i].name,
                  brief(h->memory_bytes, DS_DIM_BYTES, a[0], 48),
                  brief(h->memory_bytes_per_s, DS_DIM_BYTES_PER_S, a[1], 48),
                  brief(h->peak_flops_per_s[DS_MATH_16], DS_DIM_FLOPS_PER_S, a[2], 48),
                  brief(h->peak_flops_per_s[DS_MATH_8], DS_DIM_FLOPS_PER_S, a[3], 48),
                  brief(h->power_w, DS_DIM_POWER, a[4], 48), grades[h->grade]);
  }
  ds_out_text(out,
              "\nPeaks are dense. kernels: whether the efficiencies were measured or estimated.\n");
}

static void engines(ds_outfile *out, const ds_cards *c) {
  ds_out_printf(out, "%-16s %-8s %9s %9s %12s %11s %9s\n", "engine", "family", "iteration",
                "request", "small kernel", "API request", "API token");
  for (size_t i = 0; i < c->n; ++i) {
    const ds_engine_card *e = &c->card[i].value.engine;
    char a[5][48];
    ds_out_printf(out, "%-16s %-8s %9s %9s %12s %11s %9s\n", c->card[i].name, e->family,
                  brief(e->per_iteration_s, DS_DIM_TIME, a[0], 48),
                  brief(e->per_request_s, DS_DIM_TIME, a[1], 48),
                  brief(e->small_kernel_s, DS_DIM_TIME, a[2], 48),
                  brief(e->api_per_request_s, DS_DIM_TIME, a[3], 48),
                  brief(e->api_per_token_s, DS_DIM_TIME, a[4], 48));
  }
}

static const char *plural(ds_card_kind kind) {
  return kind == DS_CARD_HARDWARE ? "hardware" : kind == DS_CARD_MODEL ? "models" : "engines";
}

void ds_list_cards(ds_outfile *out, const ds_cards *c) {
  if (c->kind == DS_CARD_MODEL) models(out, c);
  if (c->kind == DS_CARD_HARDWARE) hardware(out, c);
  if (c->kind == DS_CARD_ENGINE) engines(out, c);
  ds_out_printf(out, "`dryserve list %s NAME` shows every value of one with its source;\n",
                plural(c->kind));
  ds_out_text(out, "--schema shows what a card may say.\n");
}

void ds_list_prices(ds_outfile *out, const ds_cards *c) {
  ds_out_printf(out, "%-14s %12s %12s %12s  %-8s %s\n", "hardware", "price", "low", "high", "date",
                "source");
  for (size_t i = 0; i < c->n; ++i) {
    const ds_hw *h = &c->card[i].value.hw;
    const ds_node *source = ds_node_get(ds_node_get(c->card[i].doc.root, "price"), "source");
    char a[3][48];
    ds_out_printf(out, "%-14s %12s %12s %12s  %-8s %s\n", c->card[i].name,
                  brief(h->price_usd_per_h, DS_DIM_PRICE, a[0], 48),
                  brief(h->price_low_usd_per_h, DS_DIM_PRICE, a[1], 48),
                  brief(h->price_high_usd_per_h, DS_DIM_PRICE, a[2], 48), h->price_date,
                  source ? source->text : "");
  }
  ds_out_text(
      out, "\nPer accelerator and hour. Another one: --set pools.main.hardware.price='2 USD/h'\n");
}

/* --- one card ------------------------------------------------------------------------------ */

/* A value as its card has it; of a list, the words one after the other. */
static const char *words_of(const ds_node *n, char *room, size_t cap) {
  size_t used = 0;
  if (n->kind == DS_NODE_SCALAR) return n->text;
  room[0] = '\0';
  for (const ds_node *c = n->first; c && used < cap; c = c->next)
    used += (size_t)snprintf(room + used, cap - used, "%s%s", used > 0 ? " " : "",
                             c->kind == DS_NODE_SCALAR ? c->text : "");
  return room;
}

static const char *text_of(const ds_node *map, const char *key) {
  const ds_node *n = ds_node_get(map, key);
  return n && n->kind == DS_NODE_SCALAR ? n->text : "";
}

void ds_list_one_card(ds_outfile *out, const ds_cards *c) {
  const ds_card_schema *s = &ds_card_schemas[c->kind];
  const ds_node *root = c->card[0].doc.root, *aliases = ds_node_get(root, "aliases"),
                *sources = ds_node_get(root, "sources");
  ds_out_printf(out, "%s: %s\n", c->card[0].name, text_of(root, "title"));
  char names[1024] = "also called";
  size_t used = strlen(names);
  for (const ds_node *a = aliases ? aliases->first : NULL; a && used < sizeof names; a = a->next)
    used +=
        (size_t)snprintf(names + used, sizeof names - used, "%s %s", used > 11 ? "," : "", a->text);
  if (used > 11) ds_list_wrap(out, names, 0, 2);
  const ds_node *from = ds_node_get(root, "calibrated_on");
  used = (size_t)snprintf(names, sizeof names, "calibrated on");
  for (const ds_node *a = from ? from->first : NULL; a && used < sizeof names; a = a->next)
    used +=
        (size_t)snprintf(names + used, sizeof names - used, "%s %s", used > 13 ? "," : "", a->text);
  if (from && used == 13) snprintf(names + used, sizeof names - used, " nothing");
  if (from) ds_list_wrap(out, names, 0, 2);
  if (text_of(root, "notes")[0]) ds_list_wrap(out, text_of(root, "notes"), 0, 2);
  ds_out_printf(out, "\n%-30s %-14s %-9s %-7s %s\n", "value", "", "grade", "date", "source");
  for (size_t i = 0; i < s->n_fields; ++i) {
    const ds_node *group, *n = ds_card_value(root, &s->fields[i], &group);
    if (!n) continue;
    ds_out_printf(out, "%-30s %-14s %-9s %-7s %s\n", s->fields[i].path,
                  words_of(n, names, sizeof names), text_of(group, "grade"), text_of(group, "date"), text_of(group, "source"));
  }
  if (!sources || sources->kind != DS_NODE_MAP) return;
  ds_out_text(out, "\nsources\n");
  for (const ds_node *n = sources->first; n; n = n->next) {
    ds_out_printf(out, "  %-12s ", n->key);
    size_t margin = strlen(n->key) > 12 ? strlen(n->key) + 3 : 15;
    ds_list_wrap(out, n->text, margin, margin);
  }
}

/* --- JSON ---------------------------------------------------------------------------------- */

static void set_text(json_t *o, const char *key, const char *text) {
  if (text[0]) json_object_set_new(o, key, json_string(text));
}

static json_t *value_json(const ds_card_field *f, const ds_node *n, const ds_node *group) {
  json_t *o = json_object();
  double x;
  int64_t k;
  ds_unit_error e;
  char words[128];
  set_text(o, "text", words_of(n, words, sizeof words));
  if (f->type == DS_FIELD_WIDTHS) {
    json_t *list = json_array();
    for (const ds_node *c = n->first; c; c = c->next)
      if (c->kind == DS_NODE_SCALAR && ds_integer_parse(c->text, &k, &e))
        json_array_append_new(list, json_integer(k));
    json_object_set_new(o, "value", list);
    k = 0;
  }
  if (f->type == DS_FIELD_QUANTITY && ds_quantity_parse(n->text, f->dim, &x, &e)) {
    json_object_set_new(o, "value", json_real(x));
    set_text(o, "unit", ds_dim_unit(f->dim));
  }
  if (f->type == DS_FIELD_INTEGER && ds_integer_parse(n->text, &k, &e))
    json_object_set_new(o, "value", json_integer(k));
  if (f->type == DS_FIELD_BOOL)
    json_object_set_new(o, "value", json_boolean(strcmp(n->text, "true") == 0));
  if (f->type == DS_FIELD_FORMAT) json_object_set_new(o, "value", json_string(n->text));
  set_text(o, "source", text_of(group, "source"));
  set_text(o, "date", text_of(group, "date"));
  set_text(o, "grade", text_of(group, "grade"));
  return o;
}

static json_t *card_json(const ds_card_schema *s, const ds_listed_card *c) {
  const ds_node *root = c->doc.root, *aliases = ds_node_get(root, "aliases"),
                *sources = ds_node_get(root, "sources");
  json_t *o = json_object(), *values = json_object(), *also = json_array(), *from = json_object();
  json_object_set_new(o, "name", json_string(c->name));
  set_text(o, "title", text_of(root, "title"));
  set_text(o, "vendor", text_of(root, "vendor"));
  set_text(o, "family", text_of(root, "family"));
  set_text(o, "date", text_of(root, "date"));
  for (const ds_node *a = aliases ? aliases->first : NULL; a; a = a->next)
    json_array_append_new(also, json_string(a->text));
  json_object_set_new(o, "aliases", also);
  const ds_node *fitted = ds_node_get(root, "calibrated_on");
  json_t *list = fitted ? json_array() : NULL;
  for (const ds_node *a = fitted ? fitted->first : NULL; a; a = a->next)
    json_array_append_new(list, json_string(a->text));
  if (list) json_object_set_new(o, "calibrated_on", list);
  for (size_t i = 0; i < s->n_fields; ++i) {
    const ds_node *group, *n = ds_card_value(root, &s->fields[i], &group);
    if (n) json_object_set_new(values, s->fields[i].path, value_json(&s->fields[i], n, group));
  }
  json_object_set_new(o, "values", values);
  for (const ds_node *n = sources ? sources->first : NULL; n; n = n->next)
    if (n->key) json_object_set_new(from, n->key, json_string(n->text));
  json_object_set_new(o, "sources", from);
  return o;
}

json_t *ds_list_cards_json(const ds_cards *c) {
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < c->n; ++i)
    json_array_append_new(list, card_json(&ds_card_schemas[c->kind], &c->card[i]));
  json_object_set_new(o, plural(c->kind), list);
  json_object_set_new(o, "schema", ds_list_schema_json(c->kind));
  return o;
}

/* --- schema -------------------------------------------------------------------------------- */

static const char *type_of(const ds_card_field *f) {
  switch (f->type) {
  case DS_FIELD_QUANTITY:
    return f->dim == DS_DIM_NUMBER ? "number" : ds_dim_unit(f->dim);
  case DS_FIELD_INTEGER:
    return "count";
  case DS_FIELD_BOOL:
    return "bool";
  case DS_FIELD_FORMAT:
    return "format";
  case DS_FIELD_WIDTHS:
    return "counts";
  }
  return "";
}

void ds_list_schema(ds_outfile *out, ds_card_kind kind) {
  const ds_card_schema *s = &ds_card_schemas[kind];
  ds_out_printf(out,
                "A card of this kind is %s/NAME.yaml and begins with `%s: 1`.\nTexts:", s->folder,
                s->noun);
  for (size_t i = 0; i < s->n_texts; ++i) ds_out_printf(out, " %s", s->texts[i]);
  ds_out_text(out, ".\nA value is {value: 4.8 TB/s, source: KEY, date: 2025-06, grade: measured}, "
                   "where\nKEY is one of `sources` and the grade is measured, datasheet or "
                   "estimate; a\ngroup of values may share them.\n\n");
  for (size_t i = 0; i < s->n_fields; ++i) {
    const ds_card_field *f = &s->fields[i];
    char help[128];
    snprintf(help, sizeof help, "%s%s", f->help, f->required ? " (required)" : "");
    /* A long name pushes its own text to the right. */
    size_t name = strlen(f->path) > 32 ? strlen(f->path) : 32;
    ds_out_printf(out, "%-32s %-6s ", f->path, type_of(f));
    ds_list_wrap(out, help, name + 8, 40);
  }
}

json_t *ds_list_schema_json(ds_card_kind kind) {
  const ds_card_schema *s = &ds_card_schemas[kind];
  json_t *o = json_object(), *list = json_array();
  json_object_set_new(o, "kind", json_string(s->noun));
  json_object_set_new(o, "folder", json_string(s->folder));
  for (size_t i = 0; i < s->n_fields; ++i) {
    const ds_card_field *f = &s->fields[i];
    json_t *e = json_object();
    json_object_set_new(e, "path", json_string(f->path));
    json_object_set_new(e, "type", json_string(type_of(f)));
    json_object_set_new(e, "required", json_boolean(f->required));
    if (f->type == DS_FIELD_QUANTITY || f->type == DS_FIELD_INTEGER) {
      json_object_set_new(e, "min", json_real(f->min));
      json_object_set_new(e, "max", json_real(f->max));
    }
    json_object_set_new(e, "help", json_string(f->help));
    json_array_append_new(list, e);
  }
  json_object_set_new(o, "fields", list);
  return o;
}
