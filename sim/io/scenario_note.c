// SPDX-License-Identifier: GPL-3.0-or-later
/* Effective values and where they came from, and the optional keys that make up most of a scenario.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io/scenario_read.h"

const char *ds_name(ds_reader *r, const char *key) {
  snprintf(r->name, sizeof r->name, "%s%s%s", r->prefix, r->prefix[0] && key[0] ? "." : "", key);
  return r->name;
}

static bool out_of_memory(ds_reader *r) {
  return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
}

static bool note(ds_reader *r, const char *key, const ds_node *from, const char *why,
                 const char *value) {
  ds_scenario *s = r->s;
  if (s->n_settings == r->cap_settings) {
    size_t cap = r->cap_settings ? r->cap_settings * 2 : 64;
    ds_setting *more = realloc(s->settings, cap * sizeof *more);
    if (!more) return out_of_memory(r);
    s->settings = more;
    r->cap_settings = cap;
  }
  size_t n = strlen(value) + 1;
  char *copy = malloc(n);
  if (!copy) return out_of_memory(r);
  memcpy(copy, value, n);
  ds_setting *t = &s->settings[s->n_settings++];
  memset(t, 0, sizeof *t);
  snprintf(t->key, sizeof t->key, "%.159s", ds_name(r, key));
  t->value = copy;
  if (!from)
    snprintf(t->from, sizeof t->from, "%s", why);
  else if (from->line == 0)
    snprintf(t->from, sizeof t->from, "command line");
  else
    snprintf(t->from, sizeof t->from, "%.300s:%d", from->file, (int)from->line);
  if (from) {
    t->line = from->line;
    t->column = from->column;
  }
  return true;
}

bool ds_note(ds_reader *r, const char *key, const ds_node *from, const char *why, const char *fmt,
             ...) {
  char value[7000]; /* a request with its block ids */
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(value, sizeof value, fmt, ap);
  va_end(ap);
  return note(r, key, from, why, value);
}

/* Safe as it stands: letters, digits and a few marks, and nothing that YAML reads as null or a
 * document mark. */
static bool plain(const char *s) {
  static const char safe[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-() ";
  size_t n = strlen(s);
  if (n == 0 || strspn(s, safe) != n || s[0] == ' ' || s[0] == '-' || s[n - 1] == ' ') return false;
  return strcmp(s, "null") != 0 && strcmp(s, "...") != 0;
}

bool ds_note_text(ds_reader *r, const char *key, const ds_node *from, const char *why,
                  const char *text) {
  if (plain(text)) return note(r, key, from, why, text);
  size_t n = strlen(text), m = 0;
  char *quoted = malloc(2 * n + 3);
  if (!quoted) return out_of_memory(r);
  quoted[m++] = '"';
  for (size_t i = 0; i < n; ++i) {
    if (text[i] == '"' || text[i] == '\\') quoted[m++] = '\\';
    quoted[m++] = text[i];
  }
  quoted[m++] = '"';
  quoted[m] = '\0';
  bool ok = note(r, key, from, why, quoted);
  free(quoted);
  return ok;
}

bool ds_opt_integer(ds_reader *r, const ds_node *map, const char *key, int64_t min, int64_t max,
                    int64_t preset, int64_t *out) {
  const ds_node *n = ds_node_get(map, key);
  *out = preset;
  if (n && !ds_want_integer(n, ds_name(r, key), min, max, out, r->d)) return false;
  return ds_note(r, key, n, "default", "%lld", (long long)*out);
}

bool ds_opt_bool(ds_reader *r, const ds_node *map, const char *key, bool preset, bool *out) {
  const ds_node *n = ds_node_get(map, key);
  *out = preset;
  if (n && !ds_want_bool(n, ds_name(r, key), out, r->d)) return false;
  return ds_note(r, key, n, "default", "%s", *out ? "true" : "false");
}

bool ds_opt_number(ds_reader *r, const ds_node *map, const char *key, double min, double max,
                   double preset, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = preset;
  if (n && !ds_want_number(n, ds_name(r, key), min, max, out, r->d)) return false;
  ds_quantity_format(*out, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, key, n, "default", "%s", text);
}

bool ds_opt_choice(ds_reader *r, const ds_node *map, const char *key, const char *const *names,
                   size_t n_names, size_t preset, size_t *out) {
  const ds_node *n = ds_node_get(map, key);
  *out = preset;
  if (n && !ds_want_choice(n, ds_name(r, key), names, n_names, out, r->d)) return false;
  return ds_note(r, key, n, "default", "%s", names[*out]);
}

/* --- keys ---------------------------------------------------------------------------------- */

static bool neutral(const ds_node *n, const ds_later *l) {
  return l->neutral && n->kind == DS_NODE_SCALAR && strcmp(n->text, l->neutral) == 0;
}

bool ds_section(ds_reader *r, const ds_node *map, const char *const *keys, size_t n_keys,
                const ds_later *later, size_t n_later) {
  const char *all[64];
  size_t n = 0;
  for (size_t i = 0; i < n_keys; ++i) all[n++] = keys[i];
  for (size_t i = 0; i < n_later; ++i) all[n++] = later[i].key;
  char where[256];
  snprintf(where, sizeof where, "%s", ds_name(r, ""));
  if (!ds_want_map(map, where[0] ? where : "the scenario", r->d)) return false;
  /* A later key is known, but suggesting it would not help. */
  for (const ds_node *c = map->first; c; c = c->next) {
    size_t i = 0;
    while (i < n_later && strcmp(later[i].key, c->key) != 0) ++i;
    if (i == n_later || neutral(c, &later[i])) continue;
    ds_complain_key(r->d, c, "%s: this version does not model %s", ds_name(r, c->key),
                    later[i].what);
    if (later[i].neutral)
      ds_diag_expected(r->d, "%s, or no such key", later[i].neutral);
    else
      ds_diag_expected(r->d, "a scenario without this key");
    return false;
  }
  return ds_want_keys(map, where, all, n, r->d);
}

/* --- options of a policy ------------------------------------------------------------------- */

static bool want_ints(ds_reader *r, const ds_node *n, const char *key, const ds_param *p,
                      ds_int_list *out) {
  if (!ds_want_list(n, ds_name(r, key), r->d)) return false;
  if (n->n > DS_INT_LIST_MAX) {
    ds_complain(r->d, n, "%s has %zu entries", ds_name(r, key), n->n);
    ds_diag_expected(r->d, "%d entries at most", DS_INT_LIST_MAX);
    return false;
  }
  out->n = 0;
  for (const ds_node *c = n->first; c; c = c->next)
    if (!ds_want_integer(c, ds_name(r, key), (int64_t)p->min,
                         p->max >= 9.2e18 ? INT64_MAX : (int64_t)p->max, &out->v[out->n++], r->d))
      return false;
  return true;
}

static size_t count_choices(const char *const *choices) {
  size_t n = 0;
  while (choices && choices[n]) ++n;
  return n;
}

static bool read_param(ds_reader *r, const ds_node *n, const ds_param *p, double preset,
                       const char *why, unsigned char *config) {
  const char *key = p->name;
  char text[512] = "";
  int64_t i = (int64_t)preset, most = p->max >= 9.2e18 ? INT64_MAX : (int64_t)p->max;
  double x = preset;
  bool b = preset != 0;
  size_t k = (size_t)preset;
  ds_int_list list = {0, {0}};
  switch (p->type) {
  case DS_PARAM_INT:
    if (n && !ds_want_integer(n, ds_name(r, key), (int64_t)p->min, most, &i, r->d)) return false;
    memcpy(config + p->offset, &i, sizeof i);
    snprintf(text, sizeof text, "%lld", (long long)i);
    break;
  case DS_PARAM_TIME:
    if (n && !ds_want_time(n, ds_name(r, key), (int64_t)p->min, most, &i, r->d)) return false;
    memcpy(config + p->offset, &i, sizeof i);
    ds_time_format(i, text, sizeof text);
    break;
  case DS_PARAM_FRAC:
    if (n && !ds_want_number(n, ds_name(r, key), p->min, p->max, &x, r->d)) return false;
    memcpy(config + p->offset, &x, sizeof x);
    ds_quantity_format(x, DS_DIM_NUMBER, text, sizeof text);
    break;
  case DS_PARAM_BOOL:
    if (n && !ds_want_bool(n, ds_name(r, key), &b, r->d)) return false;
    memcpy(config + p->offset, &b, sizeof b);
    snprintf(text, sizeof text, "%s", b ? "true" : "false");
    break;
  case DS_PARAM_CHOICE:
    if (n && !ds_want_choice(n, ds_name(r, key), p->choices, count_choices(p->choices), &k, r->d))
      return false;
    i = (int64_t)k;
    memcpy(config + p->offset, &i, sizeof i);
    snprintf(text, sizeof text, "%s", p->choices[k]);
    break;
  case DS_PARAM_INTS:
    if (n && !want_ints(r, n, key, p, &list)) return false;
    memcpy(config + p->offset, &list, sizeof list);
    size_t used = (size_t)snprintf(text, sizeof text, "[");
    for (int64_t j = 0; j < list.n && used < sizeof text; ++j)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", j ? ", " : "",
                               (long long)list.v[j]);
    snprintf(text + used, sizeof text - used, "]");
    break;
  }
  return ds_note(r, key, n, why, "%s", text);
}

bool ds_read_params(ds_reader *r, const ds_node *map, const char *skip, const char *owner,
                    const ds_param *params, size_t n_params, bool big, ds_policy_config *config) {
  const char *keys[64];
  size_t n = 0;
  for (size_t i = 0; i < n_params && n < 62; ++i) keys[n++] = params[i].name;
  if (skip[0]) keys[n++] = skip;
  if (map) {
    char where[300];
    snprintf(where, sizeof where, "%s (%s)", ds_name(r, ""), owner);
    if (n == 0 && map->kind == DS_NODE_MAP && map->n > 0) {
      ds_complain_key(r->d, map->first, "unknown key '%.60s' in %s", map->first->key, where);
      ds_diag_expected(r->d, "nothing: %s has no options", owner);
      return false;
    }
    if (!ds_want_keys(map, where, keys, n, r->d)) return false;
  }
  for (size_t i = 0; i < n_params; ++i) {
    const ds_param *p = &params[i];
    bool changed = big && p->preset != p->preset_big;
    const char *why = changed ? "default on a part of 70 GiB or more" : "default";
    if (!read_param(r, ds_node_get(map, p->name), p, big ? p->preset_big : p->preset, why,
                    config->bytes))
      return false;
  }
  return true;
}
