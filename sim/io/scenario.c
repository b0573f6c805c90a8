// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "io/scenario_read.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const top_keys[] = {"scenario", "title", "model",  "weights", "expert_weights",
                                       "kv_cache", "pools", "router", "workload", "workloads",
                                       "slo",      "cost",  "seed",   "tiers"};
static const ds_later top_later[] = {
    {"admission", NULL, "admission control"},
    {"tenants", NULL, "tenants"},
    {"network", NULL, "a network between replicas"},
    {"disaggregation", NULL, "split prefill and decode"},
    {"autoscale", NULL, "autoscaling"},
    {"faults", NULL, "faults"},
    {"maintenance", NULL, "maintenance"},
    {"prices", NULL, "price lists (a hardware card's price counts)"},
    {"stop", NULL, "limits on the simulation"},
};

const char *ds_base_of(const ds_reader *r, const ds_node *n) {
  return n->line == 0
             ? ""
             : r->base_dir; /* what the command line says is relative to the working folder */
}

void ds_add_input(ds_scenario *s, const char *path, const char *sha256) {
  if (s->n_inputs == LEN(s->inputs)) return;
  snprintf(s->inputs[s->n_inputs].path, sizeof s->inputs[0].path, "%s", path);
  snprintf(s->inputs[s->n_inputs].sha256, sizeof s->inputs[0].sha256, "%s", sha256);
  ++s->n_inputs;
}

bool ds_open_card(ds_reader *r, ds_card_kind kind, const char *name, const ds_node *at, ds_doc *doc,
                  char *from) {
  char path[1400], sha256[65];
  /* A path on the command line is relative to the working folder, a name means the same everywhere.
   */
  const char *dot = strrchr(name, '.');
  bool is_path =
      strchr(name, '/') ||
      (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0));
  const char *base = is_path ? ds_base_of(r, at) : r->base_dir;
  if (!ds_card_find(kind, name, base, r->dirs, at, path, sizeof path, r->d) ||
      !ds_card_open(kind, path, doc, sha256, r->d))
    return false;
  if (is_path) {
    snprintf(from, 320, "%.300s", name);
  } else {
    /* Found by name: called by its place in the data folder, wherever that is installed. */
    const char *slash = strrchr(path, '/'), *folder = ds_card_schemas[kind].folder;
    size_t n = slash ? (size_t)(slash - path) : 0, m = strlen(folder);
    bool inside = slash && n >= m && strncmp(slash - m, folder, m) == 0;
    snprintf(from, 320, "%s%s%.280s", inside ? folder : "", inside ? "/" : "",
             slash ? slash + 1 : path);
  }
  ds_add_input(r->s, from, sha256);
  return true;
}

/* --- top level ----------------------------------------------------------------------------- */

static bool missing(ds_reader *r, const char *key, const char *expected) {
  ds_complain(r->d, r->doc->root, "%s is missing", key);
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

static bool read_version(ds_reader *r) {
  const ds_node *n = ds_node_get(r->doc->root, "scenario");
  int64_t version;
  if (!n) return missing(r, "scenario", "scenario: 1, the version of this form of file");
  return ds_want_integer(n, "scenario", 1, 1, &version, r->d) && ds_note(r, "scenario", n, "", "1");
}

static bool read_title(ds_reader *r) {
  const ds_node *n = ds_node_get(r->doc->root, "title");
  if (!n) return true;
  return ds_want_text(n, "title", r->s->title, sizeof r->s->title, r->d) &&
         ds_note_text(r, "title", n, "", r->s->title);
}

static bool read_model(ds_reader *r) {
  const ds_node *n = ds_node_get(r->doc->root, "model");
  char name[256], from[320];
  ds_doc doc;
  if (!n && r->s->run.cost_tier == DS_COST_LINEAR) return true;
  if (!n) return missing(r, "model", "model: a name that `dryserve list models` shows, or a path");
  if (!ds_want_text(n, "model", name, sizeof name, r->d) ||
      !ds_open_card(r, DS_CARD_MODEL, name, n, &doc, from))
    return false;
  bool ok = ds_card_model(&doc, &r->s->run.model, r->d);
  const ds_node *weights = ok ? ds_node_get(doc.root, "weights") : NULL;
  snprintf(r->weights_from, sizeof r->weights_from, "%.300s:%d", from,
           weights ? (int)weights->line : 1);
  ds_card_title(&doc, r->s->model_title, sizeof r->s->model_title);
  if (r->s->model_title[0] == '\0')
    snprintf(r->s->model_title, sizeof r->s->model_title, "%s", r->s->run.model.name);
  ds_doc_free(&doc);
  return ok && ds_note_text(r, "model", n, "", name);
}

static bool read_formats(ds_reader *r) {
  static const char *const kv_formats[] = {"bf16", "fp16", "fp8", "int8"};
  static const ds_format kv_is[] = {DS_FMT_BF16, DS_FMT_FP16, DS_FMT_FP8, DS_FMT_INT8};
  const ds_node *root = r->doc->root, *w = ds_node_get(root, "weights"),
                *kv = ds_node_get(root, "kv_cache");
  size_t k = r->s->run.model.weights;
  bool model = ds_node_get(root, "model") != NULL;
  if (w && !ds_want_choice(w, "weights", ds_format_names, DS_FMT_N, &k, r->d)) return false;
  /* A checkpoint whose experts have a format of their own keeps it, unless told another one. Asked for the experts'
   * format, it is served as published. */
  const ds_model *m = &r->s->run.model;
  const ds_node *e = ds_node_get(root, "expert_weights");
  size_t expert = w ? k : m->expert_weights;
  if (w && m->experts > 0 && m->expert_weights != m->weights && (ds_format)k == m->expert_weights)
    k = m->weights;
  r->s->run.weights = (ds_format)k;
  if (e && !ds_want_choice(e, "expert_weights", ds_format_names, DS_FMT_N, &expert, r->d)) return false;
  r->s->run.expert_weights = (ds_format)expert;
  if ((e || m->experts > 0) &&
      !ds_note(r, "expert_weights", e, w ? "weights" : r->weights_from, "%s", ds_format_names[expert]))
    return false;
  if ((w || model) && !ds_note(r, "weights", w, r->weights_from, "%s", ds_format_names[k]))
    return false;
  k = 0;
  if (kv && !ds_want_choice(kv, "kv_cache", kv_formats, LEN(kv_formats), &k, r->d)) return false;
  r->s->run.kv_cache = kv_is[k];
  return !(kv || model) || ds_note(r, "kv_cache", kv, "default", "%s", kv_formats[k]);
}

static bool read_pools(ds_reader *r) {
  const ds_node *n = ds_node_get(r->doc->root, "pools");
  if (!n)
    return missing(r, "pools",
                   "pools: a list with one pool, such as [{name: main, hardware: h200-sxm}]");
  if (!ds_want_list(n, "pools", r->d)) return false;
  if (n->n == 1) return ds_read_pool(r, n->first);
  ds_complain(r->d, n->n > 1 ? n->first->next : n,
              "pools has %zu entries: this version models one pool", n->n);
  ds_diag_expected(r->d, "a list with one pool");
  return false;
}

static bool read_router(ds_reader *r) {
  const ds_node *n = ds_node_get(r->doc->root, "router"),
                *policy = n && n->kind == DS_NODE_MAP ? ds_node_get(n, "policy") : n;
  char name[DS_NAME_MAX] = "round-robin";
  const char *names[64];
  size_t k = 0;
  if (n && !policy) {
    ds_complain(r->d, n, "router.policy is missing");
    ds_diag_expected(r->d, "router: {policy: round-robin}");
    return false;
  }
  if (policy && !ds_want_text(policy, "router.policy", name, sizeof name, r->d)) return false;
  r->s->route = ds_router_find(name);
  for (; k < ds_n_routers && k < LEN(names); ++k) names[k] = ds_routers[k]->name;
  if (!r->s->route && policy) return ds_want_choice(policy, "router.policy", names, k, &k, r->d);
  if (!r->s->route) return ds_complain(r->d, r->doc->root, "there is no router called round-robin");
  if (r->s->route->config_bytes > sizeof r->s->run.router_config)
    return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "the options of %s need more room", name);
  snprintf(r->s->run.router, DS_NAME_MAX, "%s", name);
  snprintf(r->prefix, sizeof r->prefix, "router");
  const ds_route_ops *ops = r->s->route;
  bool ok = ds_note(r, "policy", policy, "default", "%s", name) &&
            ds_read_params(r, n && n->kind == DS_NODE_MAP ? n : NULL, "policy", name, ops->params,
                           ops->n_params, r->s->run.pool.hw.big_default, &r->s->run.router_config);
  r->prefix[0] = '\0';
  return ok;
}

static bool read_demand(ds_reader *r) {
  const ds_node *one = ds_node_get(r->doc->root, "workload"),
                *many = ds_node_get(r->doc->root, "workloads");
  if (!many) return ds_read_workload(r, one);
  if (!one) return ds_read_workloads(r, many);
  ds_complain_key(r->d, many, "workloads stands beside workload");
  ds_diag_expected(r->d, "one of the two");
  return false;
}

static bool read_seed(ds_reader *r) {
  int64_t seed;
  if (!ds_opt_integer(r, r->doc->root, "seed", 0, INT64_MAX, 1, &seed)) return false;
  r->s->run.seed = (uint64_t)seed;
  return true;
}

/* Two slips that deserve better than "unknown key" and "not a mapping". */
static bool check_root(ds_reader *r) {
  const ds_node *root = r->doc->root;
  if (root->kind != DS_NODE_MAP) {
    ds_want_map(root, "the scenario", r->d);
    ds_diag_hint(r->d, "a trace is run with --trace FILE, or named under workload: {trace: FILE}");
    return false;
  }
  for (const ds_node *c = root->first; c; c = c->next) {
    size_t i = 0;
    while (i < LEN(top_keys) && strcmp(top_keys[i], c->key) != 0) ++i;
    if (i < LEN(top_keys) || !ds_is_pool_key(c->key)) continue;
    ds_complain_key(r->d, c, "unknown key '%s'", c->key);
    ds_diag_expected(r->d, "it in an entry of pools, such as pools: [{name: main, %s: ...}]",
                     c->key);
    return false;
  }
  return true;
}

static bool read_all(ds_reader *r) {
  const ds_node *root = r->doc->root, *cost = ds_node_get(root, "cost");
  if (!check_root(r) || !ds_section(r, root, top_keys, LEN(top_keys), top_later, LEN(top_later)) ||
      !read_version(r) || !read_title(r) || !ds_read_cost(r, cost, false) || !read_model(r) ||
      !read_formats(r) || !read_pools(r) || !read_router(r) ||
      !read_demand(r) || !ds_read_replay(r) || !ds_read_acceptance_by_class(r) ||
      !ds_read_slo(r, ds_node_get(root, "slo")) || !ds_read_cost(r, cost, true) || !read_seed(r) ||
      !ds_read_tiers(r, ds_node_get(root, "tiers")))
    return false;
  ds_error err = {DS_OK, -1, ""};
  return ds_run_validate(&r->s->run, &err) == DS_OK || ds_scenario_complain(r->s, &err, r->d);
}

/* --- complaints of the core ---------------------------------------------------------------- */

/* The setting that a key names, or the first one beneath it (a mapping), or the nearest one above
 * it. */
static const ds_setting *setting_for(const ds_scenario *s, const char *key, size_t n) {
  for (; n > 0;) {
    const ds_setting *beneath = NULL;
    for (size_t i = 0; i < s->n_settings; ++i) {
      const ds_setting *t = &s->settings[i];
      if (strncmp(t->key, key, n) != 0) continue;
      if (t->key[n] == '\0') return t;
      if (t->key[n] == '.' && !beneath) beneath = t;
    }
    if (beneath) return beneath;
    while (n > 0 && key[n - 1] != '.') --n;
    if (n > 0) --n;
  }
  return NULL;
}

/* The setting that a complaint of the core begins with. Policies do not know what their pool is called: then `name`, what
 * the reader sees, has it in front. */
static const ds_setting *setting_of(const ds_scenario *s, const char *text, char *name, size_t room) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  size_t n = strspn(text, letters);
  if (n == 0 || text[n] != ':') return NULL;
  bool option = strncmp(text, "scheduler_options.", 18) == 0 || strncmp(text, "speculative", 11) == 0;
  if (option) n = (size_t)snprintf(name, room, "pools.%s.%.*s", s->run.pool.name, (int)n, text);
  return n < room ? setting_for(s, option ? name : text, n) : NULL;
}

/* What the core says, in two parts where it also says what was expected. */
static bool complain_at(ds_diag *d, ds_exit code, const char *file, int64_t line, int64_t column, const char *pool,
                        const char *text) {
  static const char mark[] = ", expected ";
  const char *expected = strstr(text, mark);
  ds_diag_set(d, code, file, line, column, "%s%.*s", pool, (int)(expected ? (size_t)(expected - text) : strlen(text)), text);
  if (expected) ds_diag_expected(d, "%s", expected + sizeof mark - 1);
  return false;
}

bool ds_scenario_complain(const ds_scenario *s, const ds_error *err, ds_diag *d) {
  char name[DS_ERROR_TEXT_MAX + DS_NAME_MAX + 8] = "", pool[DS_NAME_MAX + 8] = "";
  ds_exit code = err->status == DS_E_NOMEM ? DS_EXIT_RUNTIME : DS_EXIT_INPUT;
  const char *text = err->text[0] ? err->text : "the scenario cannot be run";
  const ds_setting *t = setting_of(s, err->text, name, sizeof name);
  if (name[0]) snprintf(pool, sizeof pool, "pools.%s.", s->run.pool.name);
  if (!t) return complain_at(d, code, s->path, 0, 0, pool, text);
  if (t->line == 0) {
    char file[200];
    bool set = strcmp(t->from, "command line") == 0;
    snprintf(file, sizeof file, "command line --set %.160s", t->key);
    return complain_at(d, code, set ? file : s->path, 0, 0, pool, text);
  }
  const char *colon = strrchr(t->from, ':');
  char file[sizeof t->from];
  snprintf(file, sizeof file, "%.*s", colon ? (int)(colon - t->from) : 0, t->from);
  return complain_at(d, code, file, t->line, t->column, pool, text);
}

bool ds_scenario_turns_away(const ds_scenario *s) {
  return s->sched && s->sched->turns_away &&
         s->sched->turns_away(s->run.pool.scheduler_config.bytes);
}

/* --- loading ------------------------------------------------------------------------------- */

static void free_workload(ds_workload *w) {
  for (size_t i = 0; i < w->n_inline; ++i) {
    free(w->inline_ids[i]);
    if (w->inline_notes) free(w->inline_notes[i]);
  }
  free(w->inline_notes);
  ds_span_room_free(&w->inline_spans);
  free(w->inline_ids);
  free(w->inline_requests);
  for (ds_law_table *t = w->tables, *next; t; t = next) {
    next = t->next;
    free(t);
  }
}

void ds_scenario_free(ds_scenario *s) {
  for (size_t i = 0; i < s->n_settings; ++i) {
    char *value;
    memcpy(&value, &s->settings[i].value,
           sizeof value); /* const for readers; it was malloc'd here */
    free(value);
  }
  free(s->settings);
  free(s->replay_first);
  free(s->replay_accepted);
  free(s->stream_acceptance);
  free_workload(&s->workload);
  for (size_t i = 0; i < s->n_stream; ++i) free_workload(&s->stream[i]);
  free(s->stream);
  memset(s, 0, sizeof *s);
}

/* Lines of a text that nobody wrote are not worth naming. */
static void unplace(ds_node *n) {
  n->line = n->column = n->key_line = n->key_column = 0;
  for (ds_node *c = n->first; c; c = c->next) unplace(c);
}

static bool apply_sets(ds_reader *r, const char *const *sets, size_t n_sets) {
  for (size_t i = 0; i < n_sets; ++i)
    if (!ds_apply_set(r, sets[i])) return false;
  return true;
}

bool ds_scenario_parse(const char *text, size_t bytes, const char *file, const char *base_dir,
                       const char *const *sets, size_t n_sets, const ds_data_dirs *dirs,
                       ds_scenario *out, ds_diag *d) {
  ds_doc doc;
  memset(out, 0, sizeof *out);
  memset(d, 0, sizeof *d);
  ds_reader r = {.s = out, .doc = &doc, .dirs = dirs, .base_dir = base_dir,
                 .root = "workload", .slo_root = "slo", .d = d};
  bool from_flags = strcmp(file, "flags") == 0;
  if (!from_flags) snprintf(out->path, sizeof out->path, "%s", file);
  bool ok = ds_doc_parse(text, bytes, file, &doc, d);
  if (ok && from_flags) unplace(doc.root);
  if (ok && n_sets > 0) {
    r.extra = calloc(n_sets, sizeof *r.extra);
    ok = r.extra != NULL || ds_diag_set(d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  }
  ok = ok && apply_sets(&r, sets, n_sets) && read_all(&r);
  for (size_t i = 0; i < r.n_extra; ++i) ds_doc_free(&r.extra[i]);
  free(r.extra);
  ds_doc_free(&doc);
  if (!ok) ds_scenario_free(out);
  return ok;
}

bool ds_scenario_load(const char *path, const char *const *sets, size_t n_sets,
                      const ds_data_dirs *dirs, ds_scenario *out, ds_diag *d) {
  char *text, base[1024], sha256[65];
  size_t bytes;
  bool standard = strcmp(path, "-") == 0;
  const char *slash = standard ? NULL : strrchr(path, '/');
  memset(out, 0, sizeof *out);
  memset(d, 0, sizeof *d);
  if (strlen(path) >= sizeof base)
    return ds_diag_set(d, DS_EXIT_INPUT, "", 0, 0, "the scenario's path is too long");
  snprintf(base, sizeof base, "%.*s", slash ? (int)(slash - path + (slash == path)) : 0, path);
  if (!ds_file_read(path, standard ? "standard input" : path, &text, &bytes, d)) {
    ds_diag_expected(d, "a scenario file; `dryserve new` writes one");
    return false;
  }
  ds_sha256_hex(text, bytes, sha256);
  bool ok = ds_scenario_parse(text, bytes, standard ? "standard input" : path, base, sets, n_sets,
                              dirs, out, d);
  free(text);
  if (!ok) return false;
  snprintf(out->path, sizeof out->path, "%s", path);
  ds_add_input(out, path, sha256);
  for (size_t i = out->n_inputs - 1; i > 0; --i) { /* the scenario comes first */
    char moved[sizeof out->inputs[0]];
    memcpy(moved, &out->inputs[i], sizeof moved);
    memcpy(&out->inputs[i], &out->inputs[i - 1], sizeof moved);
    memcpy(&out->inputs[i - 1], moved, sizeof moved);
  }
  return true;
}
