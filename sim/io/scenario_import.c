// SPDX-License-Identifier: GPL-3.0-or-later
/* workload: how a trace file is read: its format, what to do with odd rows, which rows to take. */
#include <string.h>

#include "io/scenario_read.h"
#include "io/trace_formats.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define LONGEST_NS 1000000000000000000LL

static void enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "%s%s%s", r->root, section[0] ? "." : "", section);
}

/* A choice that is noted only where it is given. */
static bool choice(ds_reader *r, const ds_node *map, const char *key, const char *const *names,
                   size_t n, size_t *out) {
  *out = 0;
  return !ds_node_get(map, key) || ds_opt_choice(r, map, key, names, n, 0, out);
}

bool ds_read_trace_format(ds_reader *r, const ds_node *workload, ds_workload *w) {
  const char *known[64] = {"auto"};
  size_t n = 1, k = 0;
  for (size_t i = 0; i < ds_n_trace_readers && n < LEN(known); i++)
    known[n++] = ds_trace_readers[i].name;
  if (!ds_opt_choice(r, workload, "format", known, n, 0, &k)) return false;
  if (k > 0) snprintf(w->format, sizeof w->format, "%s", known[k]);
  return true;
}

/* "0 s .. 600 s", half open */
static bool read_window(ds_reader *r, const ds_node *n, ds_workload *w) {
  char text[128], from[48], to[48];
  ds_unit_error e;
  if (!ds_want_text(n, ds_name(r, "window"), text, sizeof text, r->d)) return false;
  char *dots = strstr(text, "..");
  bool ok = dots != NULL;
  if (ok) {
    *dots = '\0';
    ok = ds_time_parse(text, &w->window_from_ns, &e) &&
         ds_time_parse(dots + 2, &w->window_to_ns, &e);
    if (!ok) {
      ds_complain(r->d, n, "%s: %s", ds_name(r, "window"), e.text);
      ds_diag_expected(r->d, "two times, such as 0 s .. 600 s");
      if (e.hint[0]) ds_diag_hint(r->d, "%s", e.hint);
      return false;
    }
  }
  if (!ok || w->window_from_ns < 0 || w->window_to_ns <= w->window_from_ns) {
    ds_complain(r->d, n, ok ? "%s is '%.60s', which is no span of time" : "%s is '%.60s'",
                ds_name(r, "window"), n->text);
    ds_diag_expected(r->d, "a start of at least 0 s and a later end, such as 0 s .. 600 s");
    return false;
  }
  ds_time_format(w->window_from_ns, from, sizeof from);
  ds_time_format(w->window_to_ns, to, sizeof to);
  return ds_note(r, "window", n, "", "%s .. %s", from, to);
}

bool ds_read_trace_select(ds_reader *r, const ds_node *select, ds_workload *w) {
  static const char *const keys[] = {"first", "window", "sessions", "share"}, *const sessions[] = {
                                                                                  "cut", "whole"};
  size_t k;
  if (!select) return true;
  enter(r, "select");
  if (!ds_section(r, select, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *first = ds_node_get(select, "first"), *window = ds_node_get(select, "window");
  if (first &&
      (!ds_want_integer(first, ds_name(r, "first"), 1, (int64_t)1 << 40, &w->select_first, r->d) ||
       !ds_note(r, "first", first, "", "%lld", (long long)w->select_first)))
    return false;
  if (window && !read_window(r, window, w)) return false;
  if (!choice(r, select, "sessions", sessions, LEN(sessions), &k)) return false;
  w->whole_sessions = k == 1;
  if (ds_node_get(select, "share") && !ds_opt_number(r, select, "share", 1e-9, 1, 1, &w->share))
    return false;
  enter(r, "");
  return true;
}

static bool lenient(ds_reader *r, const ds_node *import, ds_workload *w) {
  w->zero = DS_REPAIR_DROP;
  w->unsorted = DS_REPAIR_SORT;
  w->oversize = DS_REPAIR_REJECT;
  w->drop_malformed = w->zero_given = w->unsorted_given = true;
  return ds_note(r, "import", import, "", "lenient");
}

static bool read_repairs(ds_reader *r, const ds_node *import, ds_workload *w) {
  static const char *const zero[] = {"error", "drop", "clamp"}, *const failed[] = {"drop", "keep"},
                           *const unsorted[] = {"error", "sort"},
                           *const oversize[] = {"error", "reject", "truncate"},
                           *const malformed[] = {"error", "drop"},
                           *const duplicates[] = {"keep", "drop"};
  static const ds_repair zero_is[] = {DS_REPAIR_ERROR, DS_REPAIR_DROP, DS_REPAIR_CLAMP},
                         unsorted_is[] = {DS_REPAIR_ERROR, DS_REPAIR_SORT},
                         oversize_is[] = {DS_REPAIR_ERROR, DS_REPAIR_REJECT, DS_REPAIR_TRUNCATE};
  size_t k;
  if (!ds_opt_choice(r, import, "zero", zero, LEN(zero), 0, &k)) return false;
  w->zero = zero_is[k];
  w->zero_given = ds_node_get(import, "zero") != NULL;
  if (!ds_opt_choice(r, import, "failed", failed, LEN(failed), 0, &k)) return false;
  w->keep_failed = k == 1;
  if (!ds_opt_choice(r, import, "unsorted", unsorted, LEN(unsorted), 0, &k)) return false;
  w->unsorted = unsorted_is[k];
  w->unsorted_given = ds_node_get(import, "unsorted") != NULL;
  if (!ds_opt_choice(r, import, "oversize", oversize, LEN(oversize), 0, &k)) return false;
  w->oversize = oversize_is[k];
  if (!choice(r, import, "malformed", malformed, LEN(malformed), &k)) return false;
  w->drop_malformed = k == 1;
  if (!choice(r, import, "duplicates", duplicates, LEN(duplicates), &k)) return false;
  w->drop_duplicates = k == 1;
  return true;
}

static bool read_meaning(ds_reader *r, const ds_node *import, ds_workload *w) {
  static const char *const input[] = {"auto", "full", "delta"},
                           *const tail[] = {"auto", "ceil", "floor"},
                           *const scope[] = {"auto", "global", "file", "session"};
  const ds_node *n = ds_node_get(import, "dequantize"), *size = ds_node_get(import, "block_tokens");
  size_t k;
  int64_t tokens;
  char text[48];
  if (n) {
    if (!ds_want_time(n, ds_name(r, "dequantize"), 1, LONGEST_NS, &w->dequantize_ns, r->d))
      return false;
    ds_time_format(w->dequantize_ns, text, sizeof text);
    if (!ds_note(r, "dequantize", n, "", "%s", text)) return false;
  }
  if (!choice(r, import, "session_input", input, LEN(input), &k)) return false;
  w->session_input = "\0fd"[k];
  if (!choice(r, import, "block_tail", tail, LEN(tail), &k)) return false;
  w->block_tail = "\0cf"[k];
  if (!choice(r, import, "hash_scope", scope, LEN(scope), &k)) return false;
  w->hash_scope = "\0gfs"[k];
  if (!size) return true;
  if (!ds_want_integer(size, ds_name(r, "block_tokens"), 1, 1 << 20, &tokens, r->d)) return false;
  w->block_tokens = (uint32_t)tokens;
  return ds_note(r, "block_tokens", size, "", "%lld", (long long)tokens);
}

bool ds_read_trace_import(ds_reader *r, const ds_node *import, ds_workload *w) {
  static const char *const keys[] = {"zero",       "failed",     "unsorted",    "oversize",
                                     "malformed",  "duplicates", "dequantize",  "session_input",
                                     "block_tail", "hash_scope", "block_tokens"};
  enter(r, "");
  if (import && import->kind == DS_NODE_SCALAR && strcmp(import->text, "lenient") == 0)
    return lenient(r, import, w);
  if (import && import->kind == DS_NODE_SCALAR) {
    static const char *const words[] = {"lenient"};
    ds_complain(r->d, import, "%s is '%s'", ds_name(r, "import"), import->text);
    ds_diag_expected(r->d, "lenient, or a mapping such as {zero: drop}");
    if (ds_nearest(import->text, words, 1) != NULL) ds_diag_hint(r->d, "did you mean lenient?");
    return false;
  }
  enter(r, "import");
  if (import && !ds_section(r, import, keys, LEN(keys), NULL, 0)) return false;
  if (!read_repairs(r, import, w) || !read_meaning(r, import, w)) return false;
  enter(r, "");
  return true;
}

bool ds_read_trace_replay(ds_reader *r, const ds_node *workload, ds_workload *w) {
  static const char *const names[] = {"auto", "open-loop", "closed-loop"};
  size_t k;
  if (!choice(r, workload, "replay", names, LEN(names), &k)) return false;
  w->open_loop = k == 1;
  w->closed_loop = w->closed_loop || k == 2;
  return true;
}

/* --- map ----------------------------------------------------------------------------------- */

static bool is_time(ds_field f) {
  return f == DS_FIELD_ARRIVAL || f == DS_FIELD_THINK || f == DS_FIELD_TTFT || f == DS_FIELD_E2E;
}

static const struct {
  const char *name;
  int64_t unit_ns;
} units[] = {
    {"s", DS_NS_PER_S}, {"ms", DS_NS_PER_MS}, {"us", 1000}, {"ns", 1}, {"stamp", DS_UNIT_STAMP}};

/* "COLUMN" or, of a time, "COLUMN:unit". */
static bool read_column(ds_reader *r, const ds_node *n, ds_map_entry *e) {
  char text[96];
  if (!ds_want_text(n, ds_name(r, ds_field_names[e->field]), text, sizeof text, r->d)) return false;
  if (is_time(e->field)) {
    char *colon = strrchr(text, ':');
    for (size_t i = 0; colon && i < LEN(units); i++)
      if (strcmp(colon + 1, units[i].name) == 0) e->unit_ns = units[i].unit_ns;
    if (!colon || e->unit_ns == 0 || (e->unit_ns == DS_UNIT_STAMP && e->field != DS_FIELD_ARRIVAL)) {
      ds_complain(r->d, n, "%s is '%.60s', without a unit", ds_name(r, ds_field_names[e->field]),
                  text);
      ds_diag_expected(r->d, "COLUMN:unit with s, ms, us or ns%s",
                       e->field == DS_FIELD_ARRIVAL ? ", or stamp for a date and time of day" : "");
      return false;
    }
    *colon = '\0';
  }
  size_t bytes = strlen(text) + 1;
  if (text[0] == '\0' || bytes > sizeof e->column) {
    ds_complain(r->d, n, "%s names no column", ds_name(r, ds_field_names[e->field]));
    ds_diag_expected(r->d, "the name of a column, or in JSON of a key, with dots for nested ones");
    return false;
  }
  memcpy(e->column, text, bytes);
  return ds_note_text(r, ds_field_names[e->field], n, "", n->text);
}

bool ds_read_trace_map(ds_reader *r, const ds_node *map, ds_workload *w) {
  if (!map) return true;
  enter(r, "map");
  if (!ds_section(r, map, ds_field_names, DS_FIELD_N, NULL, 0)) return false;
  for (int f = 0; f < DS_FIELD_N; f++) {
    const ds_node *n = ds_node_get(map, ds_field_names[f]);
    if (!n) continue;
    w->map[w->n_map].field = (ds_field)f;
    if (!read_column(r, n, &w->map[w->n_map])) return false;
    w->n_map++;
  }
  if (w->format[0] == '\0') snprintf(w->format, sizeof w->format, "map");
  if (strcmp(w->format, "map") != 0) {
    ds_complain_key(r->d, map, "workload.map stands beside format: %s", w->format);
    ds_diag_expected(r->d, "no format, or format: map");
    return false;
  }
  enter(r, "");
  return true;
}
