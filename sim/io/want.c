// SPDX-License-Identifier: GPL-3.0-or-later
/* Typed reading of doc.h's tree: strict, and every complaint at its place. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io/doc.h"

static bool complain(ds_diag *d, const ds_node *at, int32_t line, int32_t column, const char *fmt,
                     va_list ap) __attribute__((format(printf, 5, 0)));
static bool complain(ds_diag *d, const ds_node *at, int32_t line, int32_t column, const char *fmt,
                     va_list ap) {
  char text[sizeof d->text];
  vsnprintf(text, sizeof text, fmt, ap);
  return ds_diag_set(d, DS_EXIT_INPUT, at->file, line, column, "%s", text);
}

bool ds_complain(ds_diag *d, const ds_node *at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  complain(d, at, at->line, at->column, fmt, ap);
  va_end(ap);
  return false;
}

bool ds_complain_key(ds_diag *d, const ds_node *at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  complain(d, at, at->key_line, at->key_column, fmt, ap);
  va_end(ap);
  return false;
}

bool ds_node_is_null(const ds_node *n) {
  if (n->kind != DS_NODE_SCALAR || n->quoted) return false;
  return n->text[0] == '\0' || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0;
}

/* "'text'", "a mapping", "a list" or "nothing", for messages. */
static const char *shown(const ds_node *n, char *buf, size_t cap) {
  if (n->kind == DS_NODE_MAP) return "a mapping";
  if (n->kind == DS_NODE_LIST) return "a list";
  if (n->text[0] == '\0') return n->quoted ? "an empty text" : "nothing";
  snprintf(buf, cap, "'%.60s'", n->text);
  return buf;
}

static bool wrong(ds_diag *d, const ds_node *n, const char *key, const char *expected) {
  char buf[80];
  ds_complain(d, n, "%s is %s", key, shown(n, buf, sizeof buf));
  ds_diag_expected(d, "%s", expected);
  return false;
}

bool ds_want_map(const ds_node *n, const char *key, ds_diag *d) {
  return n->kind == DS_NODE_MAP || wrong(d, n, key, "a mapping, such as {key: value}");
}

bool ds_want_list(const ds_node *n, const char *key, ds_diag *d) {
  return n->kind == DS_NODE_LIST || wrong(d, n, key, "a list, such as [a, b]");
}

bool ds_want_keys(const ds_node *map, const char *key, const char *const *keys, size_t n_keys,
                  ds_diag *d) {
  if (!ds_want_map(map, key[0] ? key : "the document", d)) return false;
  for (const ds_node *c = map->first; c; c = c->next) {
    size_t i = 0;
    while (i < n_keys && strcmp(keys[i], c->key) != 0) ++i;
    if (i < n_keys) continue;
    ds_complain_key(d, c, "unknown key '%.60s'%s%s", c->key, key[0] ? " in " : "", key);
    char list[320] = "";
    size_t used = 0;
    for (i = 0; i < n_keys && used + strlen(keys[i]) + 8 < sizeof list; ++i)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", keys[i]);
    ds_diag_expected(d, "%s%s%s", n_keys > 1 ? "one of " : "", list, i < n_keys ? ", ..." : "");
    const char *near = ds_nearest(c->key, keys, n_keys);
    if (near) ds_diag_hint(d, "did you mean %s?", near);
    return false;
  }
  return true;
}

bool ds_want_text(const ds_node *n, const char *key, char *out, size_t cap, ds_diag *d) {
  char expected[48];
  snprintf(expected, sizeof expected, "text of 1 to %zu bytes", cap - 1);
  if (n->kind != DS_NODE_SCALAR || ds_node_is_null(n) || n->text[0] == '\0')
    return wrong(d, n, key, expected);
  size_t len = strlen(n->text);
  while (len > 0 && n->text[len - 1] == '\n') --len; /* a block scalar ends in one */
  if (len == 0 || len >= cap) return wrong(d, n, key, expected);
  for (size_t i = 0; i < len; ++i)
    if ((unsigned char)n->text[i] < 0x20 || n->text[i] == 0x7f)
      return wrong(d, n, key, "one line of text");
  memcpy(out, n->text, len);
  out[len] = '\0';
  return true;
}

bool ds_want_bool(const ds_node *n, const char *key, bool *out, ds_diag *d) {
  if (n->kind == DS_NODE_SCALAR && !n->quoted) {
    *out = strcmp(n->text, "true") == 0;
    if (*out || strcmp(n->text, "false") == 0) return true;
  }
  return wrong(d, n, key, "true or false");
}

static bool unit_complaint(ds_diag *d, const ds_node *n, const char *key, const ds_unit_error *e) {
  ds_complain(d, n, "%s: %s", key, e->text);
  ds_diag_expected(d, "%s", e->expected);
  if (e->hint[0]) ds_diag_hint(d, "%s", e->hint);
  return false;
}

/* Numbers are never in quotes; quantities may be, as JSON has no other way to write them. */
static bool plain_number(const ds_node *n, const char *key, const char *expected, ds_diag *d) {
  if (n->kind == DS_NODE_SCALAR && !n->quoted && !ds_node_is_null(n)) return true;
  wrong(d, n, key, expected);
  if (n->kind == DS_NODE_SCALAR && n->quoted) ds_diag_hint(d, "a number is written without quotes");
  return false;
}

static void integer_range(int64_t min, int64_t max, char *buf, size_t cap) {
  if (max == INT64_MAX)
    snprintf(buf, cap, "a whole number of at least %lld", (long long)min);
  else
    snprintf(buf, cap, "a whole number from %lld to %lld", (long long)min, (long long)max);
}

bool ds_want_integer(const ds_node *n, const char *key, int64_t min, int64_t max, int64_t *out,
                     ds_diag *d) {
  ds_unit_error e;
  char range[80];
  integer_range(min, max, range, sizeof range);
  if (!plain_number(n, key, range, d)) return false;
  if (!ds_integer_parse(n->text, out, &e)) {
    snprintf(e.expected, sizeof e.expected, "%s", range);
    return unit_complaint(d, n, key, &e);
  }
  if (*out >= min && *out <= max) return true;
  ds_complain(d, n, "%s is %lld, which is out of range", key, (long long)*out);
  ds_diag_expected(d, "%s", range);
  return false;
}

static void quantity_range(ds_dim dim, double min, double max, char *buf, size_t cap) {
  char low[48], high[48];
  ds_quantity_format(min, dim, low, sizeof low);
  ds_quantity_format(max, dim, high, sizeof high);
  if (isinf(max))
    snprintf(buf, cap, "%s, at least %s", ds_dim_example(dim), low);
  else
    snprintf(buf, cap, "%s, from %s to %s", ds_dim_example(dim), low, high);
}

static bool quantity_in_range(const ds_node *n, const char *key, ds_dim dim, double min, double max,
                              double v, ds_diag *d) {
  char range[192];
  if (v >= min && v <= max) return true;
  quantity_range(dim, min, max, range, sizeof range);
  ds_complain(d, n, "%s is '%.60s', which is out of range", key, n->text);
  ds_diag_expected(d, "%s", range);
  return false;
}

bool ds_want_number(const ds_node *n, const char *key, double min, double max, double *out,
                    ds_diag *d) {
  ds_unit_error e;
  char range[192];
  quantity_range(DS_DIM_NUMBER, min, max, range, sizeof range);
  if (!plain_number(n, key, range, d)) return false;
  if (!ds_quantity_parse(n->text, DS_DIM_NUMBER, out, &e)) return unit_complaint(d, n, key, &e);
  return quantity_in_range(n, key, DS_DIM_NUMBER, min, max, *out, d);
}

bool ds_want_quantity(const ds_node *n, const char *key, ds_dim dim, double min, double max,
                      double *out, ds_diag *d) {
  ds_unit_error e;
  if (dim == DS_DIM_NUMBER) return ds_want_number(n, key, min, max, out, d);
  if (n->kind != DS_NODE_SCALAR || ds_node_is_null(n)) return wrong(d, n, key, ds_dim_example(dim));
  if (!ds_quantity_parse(n->text, dim, out, &e)) return unit_complaint(d, n, key, &e);
  return quantity_in_range(n, key, dim, min, max, *out, d);
}

bool ds_want_time(const ds_node *n, const char *key, int64_t min_ns, int64_t max_ns, int64_t *out,
                  ds_diag *d) {
  ds_unit_error e;
  char low[48], high[48];
  if (n->kind != DS_NODE_SCALAR || ds_node_is_null(n))
    return wrong(d, n, key, ds_dim_example(DS_DIM_TIME));
  if (!ds_time_parse(n->text, out, &e)) return unit_complaint(d, n, key, &e);
  if (*out >= min_ns && *out <= max_ns) return true;
  ds_time_format(min_ns, low, sizeof low);
  ds_time_format(max_ns, high, sizeof high);
  ds_complain(d, n, "%s is '%.60s', which is out of range", key, n->text);
  ds_diag_expected(d, "a time from %s to %s", low, high);
  return false;
}

bool ds_want_choice(const ds_node *n, const char *key, const char *const *names, size_t n_names,
                    size_t *out, ds_diag *d) {
  char list[320] = "one of ", buf[80];
  size_t used = strlen(list), i;
  for (i = 0; n->kind == DS_NODE_SCALAR && i < n_names; ++i) {
    if (strcmp(names[i], n->text) != 0) continue;
    *out = i;
    return true;
  }
  for (i = 0; i < n_names && used + strlen(names[i]) + 8 < sizeof list; ++i)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  ds_complain(d, n, "%s is %s", key, shown(n, buf, sizeof buf));
  ds_diag_expected(d, "%s%s", n_names == 1 ? names[0] : list, i < n_names ? ", ..." : "");
  const char *near = n->kind == DS_NODE_SCALAR ? ds_nearest(n->text, names, n_names) : NULL;
  if (near) ds_diag_hint(d, "did you mean %s?", near);
  return false;
}
