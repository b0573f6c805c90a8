// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_csv.h"

#include <stdlib.h>
#include <string.h>

#include "io/doc.h"

#define RECORD_BYTES_MAX DS_LINE_BYTES_MAX
#define COLUMNS_MAX      512

typedef struct cell {
  char *s;
  size_t n;
  const char *at; /* where it begins in the line, quote included */
} cell;

typedef struct csv {
  ds_flat flat;
  size_t n_columns;
  int16_t key_of[COLUMNS_MAX]; /* of a column; -1: none */
  bool has[DS_FLAT_N];
  cell cell[COLUMNS_MAX];
  size_t n_cells;
} csv;

/* ---- records and cells ---- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_name(const char *s, size_t n, const char *name) {
  while (n > 0 && (*s == ' ' || *s == '\t')) s++, n--;
  while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t')) n--;
  for (size_t i = 0; i < n; i++)
    if (lower(s[i]) != lower(name[i])) return false; /* also where the name is shorter */
  return name[n] == '\0';
}

/* One record: up to a line end outside quotes. *s NULL at the end of the file. */
static bool record(csv *c, char **s, size_t *n, ds_diag *d) {
  ds_rows *r = &c->flat.rows;
  ds_input *in = r->source.input;
  size_t at = 0, first_line = 0;
  bool quoted = false;
  *s = NULL;
  for (;;) {
    size_t have = (size_t)(in->end - in->at);
    if (!quoted && at < have) { /* most records hold no quote at all */
      const char *end = memchr(in->at + at, '\n', have - at);
      size_t to = end != NULL ? (size_t)(end - in->at) : have;
      const char *quote = memchr(in->at + at, '"', to - at);
      at = quote != NULL ? (size_t)(quote - in->at) : to;
    }
    for (; at < have; at++) {
      if (in->at[at] == '"') quoted = !quoted;
      if (in->at[at] != '\n') continue;
      if (first_line == 0) first_line = at + 1;
      if (!quoted) break;
    }
    if (at < have || in->ended) break;
    if (have > RECORD_BYTES_MAX) break;
    if (!ds_input_fill(in, d)) return false;
  }
  size_t have = (size_t)(in->end - in->at);
  if (have == 0) return true;
  bool open = quoted || (at >= have && !in->ended);
  size_t take = open && first_line > 0 ? first_line : at < have ? at + 1 : have;
  r->value = in->at;
  r->value_bytes = take;
  r->value_line = in->line + 1;
  r->value_is_line = true;
  *s = in->at;
  *n = take;
  for (size_t i = 0; i < take; i++) in->line += in->at[i] == '\n';
  if (take > 0 && in->at[take - 1] != '\n') in->line++;
  in->at += take;
  return true; /* a quote that is not closed is the splitter's business: its line ends before it
                  does */
}

static bool stray(csv *c, const char *at, ds_diag *d) {
  ds_rows_bad(&c->flat.rows, at, d, "a stray quote");
  ds_diag_expected(d, "quotes around a whole cell, and doubled inside it");
  return false;
}

/* Cells of a record; quotes are taken off in place. */
static bool split(csv *c, char *s, size_t n, ds_diag *d) {
  while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r')) n--;
  char *end = s + n;
  c->n_cells = 0;
  for (;;) {
    cell x = {s, 0, s};
    char *comma;
    if (s < end && *s == '"') {
      char *to = s, *from = s + 1;
      for (;;) {
        if (from >= end) {
          ds_rows_bad(&c->flat.rows, x.at, d, "a quoted cell that does not end");
          ds_diag_expected(d, "a closing quote for every opening one");
          return false;
        }
        if (*from == '"') {
          if (from + 1 < end && from[1] == '"')
            from++;
          else
            break;
        }
        *to++ = *from++;
      }
      x.n = (size_t)(to - s);
      comma = from + 1;
      if (comma < end && *comma != ',') return stray(c, comma, d);
    } else {
      comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
      if (comma == NULL) comma = end;
      x.n = (size_t)(comma - s);
      const char *quote = x.n > 0 ? memchr(s, '"', x.n) : NULL;
      if (quote != NULL) return stray(c, quote, d);
    }
    if (c->n_cells == COLUMNS_MAX) {
      ds_rows_bad(&c->flat.rows, x.at, d, "more than %d cells", COLUMNS_MAX);
      ds_diag_expected(d, "a request a row");
      return false;
    }
    c->cell[c->n_cells++] = x;
    if (comma >= end) return true;
    s = comma + 1;
  }
}

static bool blank(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') return false;
  return true;
}

/* The next record that is not blank. *more false at the end. */
static bool next(csv *c, bool *more, ds_diag *d) {
  char *s;
  size_t n;
  do {
    if (!record(c, &s, &n, d)) return false;
    *more = s != NULL;
  } while (*more && blank(s, n));
  return !*more || split(c, s, n, d);
}

/* ---- values ---- */

static bool value(csv *c, const cell *x, const ds_flat_key *k, ds_diag *d) {
  ds_rows *r = &c->flat.rows;
  ds_flat_value *v = &c->flat.v[k->field];
  ds_text t = {x->s, x->n, false};
  while (t.n > 0 && (*t.s == ' ' || *t.s == '\t')) t.s++, t.n--;
  while (t.n > 0 && (t.s[t.n - 1] == ' ' || t.s[t.n - 1] == '\t')) t.n--;
  v->at = x->at;
  v->path = k->path;
  if (t.n == 0) return true;
  v->given = true;
  const char *wrong = NULL, *expected = "a whole number";
  uint64_t u = 0;
  switch (k->kind) {
  case DS_KIND_TOKENS:
    wrong = ds_number_count(t, DS_TOKENS_MAX, &u);
    v->number = (int64_t)u;
    expected = "a whole number of tokens, 1 to 1000000000";
    break;
  case DS_KIND_COUNT:
    wrong = ds_number_count(t, INT64_MAX, &u);
    v->number = (int64_t)u;
    break;
  case DS_KIND_INTEGER:
    wrong = ds_number_integer(t, &v->number);
    break;
  case DS_KIND_TIME:
    wrong = ds_number_time(t, k->unit_ns, &v->number);
    expected = k->unit_ns == 1              ? "a time in nanoseconds"
               : k->unit_ns == 1000         ? "a time in microseconds"
               : k->unit_ns == DS_NS_PER_MS ? "a time in milliseconds"
                                            : "a time in seconds";
    break;
  case DS_KIND_STAMP:
    wrong = ds_stamp_parse(t.s, t.n, &v->number);
    expected =
        "YYYY-MM-DD hh:mm:ss, up to 9 fraction digits, then nothing, Z or an offset like +00:00";
    break;
  case DS_KIND_TEXT:
    if (!ds_utf8_valid(t.s, t.n) || t.n > 1000) {
      wrong = "is no short text in UTF-8";
      expected = "a text of at most 1000 bytes";
      break;
    }
    v->text = ds_rows_keep(r, t.s, t.n);
    if (v->text == NULL) return ds_rows_no_memory(r, d);
    break;
  case DS_KIND_TRUE:
    v->number = same_name(t.s, t.n, "true") || same_name(t.s, t.n, "1");
    break;
  case DS_KIND_ANY:
  case DS_KIND_BLOCKS:
  case DS_KIND_NAMES:
    break;
  }
  if (wrong == NULL) return true;
  ds_rows_bad(r, x->at, d, "%s %s: %s", k->path, wrong, ds_excerpt_of(t.s, t.n).text);
  ds_diag_expected(d, "%s", expected);
  return false;
}

static bool csv_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  csv *c = (csv *)s;
  ds_flat *f = &c->flat;
  (void)cap; /* one at a time: a bad row must not hide the good ones before it */
  ds_rows_begin(&f->rows);
  for (*n = 0; *n == 0;) {
    bool more, skip = false;
    if (f->rows.failed) return ds_rows_no_memory(&f->rows, d);
    if (!next(c, &more, d)) return false;
    if (!more) return true;
    if (c->n_cells != c->n_columns) {
      bool few = c->n_cells < c->n_columns;
      ds_rows_bad(&f->rows, c->cell[few ? c->n_cells - 1 : c->n_columns].at, d,
                  "a row of %zu cell%s", c->n_cells, c->n_cells == 1 ? "" : "s");
      ds_diag_expected(d, "%zu cells, as in the header", c->n_columns);
      return false;
    }
    memset(f->v, 0, sizeof f->v);
    for (size_t i = 0; i < c->n_cells; i++)
      if (c->key_of[i] >= 0 && !value(c, &c->cell[i], &f->key[c->key_of[i]], d)) return false;
    rows[0] = (ds_row){.line = f->rows.value_line, .id = DS_ROW_NO_ID};
    ds_more *m = ds_rows_more(&f->rows);
    if (m == NULL) return ds_rows_no_memory(&f->rows, d);
    rows[0].more = m;
    if (!f->row(f, &rows[0], m, &skip, d)) return false;
    *n = !skip;
  }
  return true;
}

static void csv_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(s);
}

/* ---- the header ---- */

static bool header(csv *c, const ds_csv_format *format, ds_diag *d) {
  ds_rows *r = &c->flat.rows;
  bool more;
  char all[300] = "";
  if (!next(c, &more, d)) return false;
  if (!more) {
    ds_diag_set(d, DS_EXIT_INPUT, r->source.input->name, 0, 0, "the file is empty");
    ds_diag_expected(d, "a header and a row per request");
    return false;
  }
  c->n_columns = c->n_cells;
  for (size_t i = 0; i < c->n_cells; i++) {
    ds_excerpt e = ds_excerpt_of(c->cell[i].s, c->cell[i].n);
    size_t used = strlen(all);
    if (used + strlen(e.text) + 3 < sizeof all)
      snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "", e.text);
    c->key_of[i] = -1;
    for (size_t k = 0; k < format->n_keys && c->key_of[i] < 0; k++) {
      if (!same_name(c->cell[i].s, c->cell[i].n, format->key[k].path)) continue;
      if (c->has[format->key[k].field]) {
        ds_rows_bad(r, c->cell[i].at, d, "column %s appears twice", format->key[k].path);
        ds_diag_expected(d, "one column of each name");
        return false;
      }
      c->key_of[i] = (int16_t)k;
      c->has[format->key[k].field] = true;
    }
  }
  for (size_t i = 0; i < DS_ARRAY_LEN(format->needed) && format->needed[i] >= 0; i++) {
    if (c->has[format->needed[i]]) continue;
    size_t k = 0;
    while (k + 1 < format->n_keys && format->key[k].field != format->needed[i]) k++;
    ds_rows_bad(r, c->cell[0].at, d, "no column %s among %s", format->key[k].path, all);
    ds_diag_expected(d, "a header with the columns of %s", r->source.format);
    return false;
  }
  return true;
}

bool ds_csv_has(const ds_source *s, int field) { return ((const csv *)s)->has[field]; }

bool ds_csv_open(ds_input *in, const ds_workload *w, const ds_csv_format *format, ds_source **out,
                 ds_diag *d) {
  *out = NULL;
  ds_source s = format->source;
  s.input = in;
  s.rows = csv_rows;
  s.close = csv_close;
  s.id = ds_rows_id;
  csv *c = ds_rows_new(sizeof *c, &s, d);
  if (c == NULL) return false;
  c->flat.key = format->key;
  c->flat.n_keys = format->n_keys;
  c->flat.row = format->row;
  c->flat.w = w;
  if (!header(c, format, d)) {
    csv_close(&c->flat.rows.source);
    return false;
  }
  *out = &c->flat.rows.source;
  return true;
}
