// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_flat.h"

#include <string.h>

#define PATH_MAX_BYTES 200

static bool again(ds_flat *f, const ds_flat_key *k, const char *at, ds_diag *d) {
  ds_rows_bad(&f->rows, at, d, "a key appears twice: %s", k->path);
  ds_diag_expected(d, "each key once");
  return false;
}

static bool names(ds_flat *f, ds_pull *p, const ds_flat_key *k, ds_flat_value *v, ds_diag *d) {
  if (ds_pull_kind(p) != '[') {
    ds_rows_bad(&f->rows, p->at, d, "%s is not a list", k->path);
    ds_diag_expected(d, "[id, ...]");
    return false;
  }
  uint64_t *hash = NULL;
  for (ds_pull_list(p); ds_pull_next(p); v->n++) {
    const size_t bytes = (size_t)v->n * sizeof *hash;
    const char *name = NULL;
    if (!ds_rows_text(&f->rows, p, k->path, &name, d)) return false;
    hash = ds_arena_grow(&f->rows.rows, hash, bytes, bytes + sizeof *hash);
    if (hash == NULL) return ds_rows_no_memory(&f->rows, d);
    hash[v->n] = name != NULL ? ds_hash_text(name) : 0;
  }
  v->blocks = hash;
  return p->wrong == NULL || ds_rows_not_json(&f->rows, p, d);
}

static bool value(ds_flat *f, ds_pull *p, const ds_flat_key *k, ds_diag *d) {
  ds_rows *r = &f->rows;
  ds_flat_value *v = &f->v[k->field];
  char kind = ds_pull_kind(p);
  if (kind == 'n') return ds_pull_null(p) || ds_rows_not_json(r, p, d);
  if (v->given) return again(f, k, p->at, d);
  v->given = true;
  v->at = p->at;
  v->path = k->path;
  bool given = true;
  uint64_t u = 0;
  uint32_t tokens = 0;
  switch (k->kind) {
  case DS_KIND_TOKENS:
    if (!ds_rows_tokens(r, p, k->path, &given, &tokens, d)) return false;
    v->number = tokens;
    return true;
  case DS_KIND_COUNT:
    if (!ds_rows_count(r, p, k->path, INT64_MAX, &given, &u, d)) return false;
    v->number = (int64_t)u;
    return true;
  case DS_KIND_INTEGER:
    return ds_rows_integer(r, p, k->path, &given, &v->number, d);
  case DS_KIND_TIME:
    return ds_rows_time(r, p, k->path, k->unit_ns, &given, &v->number, d);
  case DS_KIND_STAMP:
    return ds_rows_stamp(r, p, k->path, &given, &v->number, d);
  case DS_KIND_TEXT:
    if (!ds_rows_text(r, p, k->path, &v->text, d)) return false;
    v->given = v->text != NULL;
    return true;
  case DS_KIND_BLOCKS:
    return ds_rows_blocks(r, p, k->path, &v->blocks, &v->n, d);
  case DS_KIND_NAMES:
    return names(f, p, k, v, d);
  case DS_KIND_TRUE: {
    bool b = false;
    if (kind == 't') {
      if (!ds_pull_bool(p, &b)) return ds_rows_not_json(r, p, d);
    } else if (kind == '"') { /* some loggers write "True" */
      ds_text t;
      if (!ds_pull_text(p, &t)) return ds_rows_not_json(r, p, d);
      b = ds_text_is(t, "True") || ds_text_is(t, "true");
    } else if (!ds_pull_skip(p)) {
      return ds_rows_not_json(r, p, d);
    }
    v->number = b;
    return true;
  }
  case DS_KIND_ANY:
    break;
  }
  return ds_pull_skip(p) || ds_rows_not_json(r, p, d);
}

/* The key that this path names, or (*inside) one below it. */
static const ds_flat_key *key_of(const ds_flat *f, const char *path, size_t n, bool *inside) {
  *inside = false;
  for (size_t i = 0; i < f->n_keys; i++) {
    const char *k = f->key[i].path;
    if (strncmp(k, path, n) != 0) continue;
    if (k[n] == '\0') return &f->key[i];
    if (k[n] == '.') *inside = true;
  }
  return NULL;
}

static bool members(ds_flat *f, ds_pull *p, char *path, size_t n, ds_diag *d) {
  ds_text key;
  ds_pull_map(p);
  while (ds_pull_key(p, &key)) {
    size_t at = n;
    bool inside = false;
    const ds_flat_key *k = NULL;
    if (!key.escaped && n + key.n + 2 < PATH_MAX_BYTES) {
      if (at > 0) path[at++] = '.';
      memcpy(path + at, key.s, key.n);
      at += key.n;
      k = key_of(f, path, at, &inside);
    }
    if (inside && ds_pull_kind(p) == '{') {
      if (!members(f, p, path, at, d)) return false;
    } else if (k != NULL) {
      if (!value(f, p, k, d)) return false;
    } else if (!ds_pull_skip(p)) {
      break;
    }
  }
  return p->wrong == NULL || ds_rows_not_json(&f->rows, p, d);
}

bool ds_flat_read(ds_flat *f, ds_pull *p, ds_diag *d) {
  char path[PATH_MAX_BYTES] = "";
  memset(f->v, 0, sizeof f->v);
  if (ds_pull_kind(p) != '{') {
    if (p->wrong != NULL || ds_pull_kind(p) == 0) return ds_rows_not_json(&f->rows, p, d);
    ds_rows_bad(&f->rows, p->at, d, "not a JSON object: %s",
                ds_excerpt_of(p->at, (size_t)(p->end - p->at)).text);
    ds_diag_expected(d, "one JSON object a request");
    return false;
  }
  return members(f, p, path, 0, d);
}

/* The key of this name, misspelt somewhere in the row. */
static void hint(const ds_flat *f, const char *name, ds_diag *d) {
  const char *valid[64];
  size_t n = 0, missing = SIZE_MAX;
  for (; n < f->n_keys && n < DS_ARRAY_LEN(valid); n++) {
    const char *dot = strrchr(f->key[n].path, '.');
    valid[n] = dot != NULL ? dot + 1 : f->key[n].path;
    if (strcmp(f->key[n].path, name) == 0) missing = n;
  }
  size_t bytes = f->rows.value_bytes < 1 << 16 ? f->rows.value_bytes : 1 << 16;
  if (missing < n && f->rows.value != NULL)
    ds_diag_hint_misspelt(d, valid, n, missing, f->rows.value, bytes, ':');
}

bool ds_flat_need(ds_flat *f, int field, const char *name, ds_diag *d) {
  if (f->v[field].given) return true;
  ds_rows_bad(&f->rows, NULL, d, "a request without %s", name);
  d->column = 0;
  if (f->v[DS_FLAT_TEXT].given)
    ds_diag_expected(d, "its length in tokens: %s is a text, which only its tokenizer can count",
                     f->v[DS_FLAT_TEXT].path);
  else
    ds_diag_expected(d, "%s in every request", name);
  hint(f, name, d);
  return false;
}

bool ds_flat_take(ds_flat *f, ds_row *row, ds_more *more, ds_diag *d) {
  const ds_flat_value *v = f->v;
  row->input_tokens = (uint32_t)v[DS_FIELD_INPUT].number;
  row->output_tokens = (uint32_t)v[DS_FIELD_OUTPUT].number;
  row->max_tokens = (uint32_t)v[DS_FIELD_MAX_TOKENS].number;
  row->time_column = ds_rows_column(&f->rows, v[DS_FIELD_ARRIVAL].at);
  row->input_column = ds_rows_column(&f->rows, v[DS_FIELD_INPUT].at);
  row->output_column = ds_rows_column(&f->rows, v[DS_FIELD_OUTPUT].at);
  int64_t priority = v[DS_FIELD_PRIORITY].number;
  if (priority > INT32_MAX || priority < INT32_MIN + 1) {
    ds_rows_bad(&f->rows, v[DS_FIELD_PRIORITY].at, d, "%s is too large", v[DS_FIELD_PRIORITY].path);
    ds_diag_expected(d, "a whole number of 32 bits");
    return false;
  }
  row->priority = (int32_t)priority;
  if (v[DS_FIELD_ID].given) {
    row->id = ds_rows_id_of(&f->rows, v[DS_FIELD_ID].text, strlen(v[DS_FIELD_ID].text));
    if (row->id == DS_ROW_NO_ID) return ds_rows_no_memory(&f->rows, d);
  }
  more->session = v[DS_FIELD_SESSION].text;
  more->class_name = v[DS_FIELD_CLASS].text;
  more->model = v[DS_FIELD_MODEL].text;
  more->tenant = v[DS_FIELD_TENANT].text;
  row->tenant = ds_tenant_number(more->tenant);
  more->prefix = v[DS_FIELD_PREFIX].text;
  more->prefix_tokens = (uint32_t)v[DS_FIELD_PREFIX_TOKENS].number;
  row->images = (uint32_t)v[DS_FIELD_IMAGES].number;
  row->image_tokens = (uint32_t)v[DS_FIELD_IMAGE_TOKENS].number;
  more->has_turn = v[DS_FIELD_TURN].given;
  more->turn = (uint32_t)v[DS_FIELD_TURN].number;
  if (v[DS_FIELD_THINK].given) more->think_ns = v[DS_FIELD_THINK].number;
  if (v[DS_FIELD_TTFT].given) more->ttft_ns = v[DS_FIELD_TTFT].number;
  if (v[DS_FIELD_E2E].given) more->e2e_ns = v[DS_FIELD_E2E].number;
  if (v[DS_FLAT_QUEUE].given) more->queue_ns = v[DS_FLAT_QUEUE].number;
  return true;
}

bool ds_flat_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  ds_flat *f = (ds_flat *)s;
  ds_rows_begin(&f->rows);
  (void)cap; /* one at a time: a bad row must not hide the good ones before it */
  for (*n = 0; *n == 0;) {
    ds_pull p;
    if (!(f->values ? ds_rows_value(&f->rows, &p, d) : ds_rows_line(&f->rows, &p, d))) return false;
    if (p.begin == NULL) return true;
    if (!ds_flat_read(f, &p, d)) return false;
    if (!ds_pull_done(&p)) return ds_rows_not_json(&f->rows, &p, d);
    rows[0] = (ds_row){.line = f->rows.value_line, .id = DS_ROW_NO_ID};
    ds_more *more = ds_rows_more(&f->rows);
    if (more == NULL) return ds_rows_no_memory(&f->rows, d);
    bool skip = false;
    rows[0].more = more;
    if (!f->row(f, &rows[0], more, &skip, d)) return false;
    *n = !skip;
  }
  return true;
}
