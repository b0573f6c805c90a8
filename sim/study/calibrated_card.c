// SPDX-License-Identifier: GPL-3.0-or-later
/* The card as it was, with the fitted numbers in their places: what a person wrote around them stays. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/doc.h"
#include "study/calibrate.h"

#define EDITS_MAX 256

typedef struct edit {
  size_t at, bytes; /* of the old text */
  char text[1024];
} edit;

typedef struct editor {
  const char *text;
  size_t bytes;
  edit *e;
  size_t n;
} editor;

static size_t offset_of(const editor *ed, const ds_node *n) {
  size_t at = 0;
  for (int32_t line = 1; line < n->line && at < ed->bytes; at++) line += ed->text[at] == '\n';
  return at + (size_t)(n->column - 1);
}

static void replace(editor *ed, const ds_node *n, const char *text) {
  size_t at = offset_of(ed, n), bytes = 0;
  if (ed->n == EDITS_MAX || at >= ed->bytes) return;
  const char *s = ed->text + at;
  if (s[0] == '"' || s[0] == '\'') { /* a quoted text ends with its own quote */
    bytes = 1;
    while (at + bytes < ed->bytes && (s[bytes] != s[0] || s[bytes - 1] == '\\')) bytes++;
    bytes++;
  } else {
    bytes = strcspn(s, ",}\n#");
    while (bytes > 0 && isspace((unsigned char)s[bytes - 1])) bytes--;
  }
  for (size_t i = 0; i < ed->n; i++)
    if (ed->e[i].at == at) return;
  edit *e = &ed->e[ed->n++];
  e->at = at;
  e->bytes = bytes;
  snprintf(e->text, sizeof e->text, "%s", text);
}

static void insert(editor *ed, const ds_node *before, const char *text) {
  if (ed->n == EDITS_MAX) return;
  edit *e = &ed->e[ed->n++];
  e->at = offset_of(ed, before);
  while (e->at > 0 && ed->text[e->at - 1] != '\n') e->at--; /* a line of its own */
  e->bytes = 0;
  snprintf(e->text, sizeof e->text, "%s", text);
}

static void provenance(editor *ed, const ds_node *group, const ds_fit_param *p) {
  char text[160];
  const ds_node *n;
  if (group == NULL) return;
  if ((n = ds_node_get(group, "source")) != NULL) replace(ed, n, "CALIBRATED");
  if ((n = ds_node_get(group, "grade")) != NULL) replace(ed, n, "measured");
  if ((n = ds_node_get(group, "error")) == NULL) return;
  snprintf(text, sizeof text, "\"fitted to %zu figures of measured runs\"", p->points);
  replace(ed, n, text);
}

static int by_place(const void *a, const void *b) {
  const edit *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static char *apply(editor *ed, ds_diag *d) {
  size_t room = ed->bytes + 1;
  for (size_t i = 0; i < ed->n; i++) room += strlen(ed->e[i].text);
  char *out = malloc(room);
  if (out == NULL) {
    ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    return NULL;
  }
  qsort(ed->e, ed->n, sizeof *ed->e, by_place);
  size_t from = 0, n = 0;
  for (size_t i = 0; i < ed->n; i++) {
    memcpy(out + n, ed->text + from, ed->e[i].at - from);
    n += ed->e[i].at - from;
    memcpy(out + n, ed->e[i].text, strlen(ed->e[i].text));
    n += strlen(ed->e[i].text);
    from = ed->e[i].at + ed->e[i].bytes;
  }
  memcpy(out + n, ed->text + from, ed->bytes - from);
  out[n + ed->bytes - from] = '\0';
  return out;
}

/* What was fitted and to what, in one line. */
static void describe(const ds_calibration *c, bool hardware, const char *data, char *out, size_t cap) {
  size_t fitted = 0, n = 0;
  char names[420] = "";
  for (size_t k = 0; k < c->fit.n_params; k++) {
    const ds_fit_param *p = &c->fit.param[k];
    if (c->param[k].field == NULL || c->param[k].of_engine == hardware || p->state != DS_FIT_FITTED) continue;
    const char *path = c->param[k].field->path;
    if (strncmp(path, "efficiencies.", 13) == 0) path += 13;
    int w = snprintf(names + n, sizeof names - n, "%s%s", fitted > 0 ? ", " : "", path);
    if (w > 0 && n + (size_t)w < sizeof names) n += (size_t)w;
    fitted++;
  }
  snprintf(out, cap,
           "  CALIBRATED: \"dryserve calibrate %.120s: %zu runs, %zu figures, median error %.1f %% before and %.1f %% after; fitted: %s; "
           "other values of these groups are as before\"\n",
           data, c->n_runs, c->fit.n_points, 100 * c->fit.before, 100 * c->fit.after, names);
}

/* As many as the fit supports: rounding moves the value by a twentieth of its standard error at most. */
static int digits(const ds_fit_param *p) {
  int n = 2;
  for (double grain = 0.05; n < 6 && grain > p->error / 20; grain /= 10) n++;
  return n;
}

static bool edit_all(const ds_calibration *c, bool hardware, const char *name, const char *data, const ds_node *root, editor *ed, ds_diag *d) {
  const ds_node *sources = ds_node_get(root, "sources"), *n = ds_node_get(root, "name");
  char text[1024];
  if (sources == NULL || sources->first == NULL || n == NULL)
    return ds_diag_set(d, DS_EXIT_INPUT, hardware ? c->hardware_path : c->engine_path, 0, 0, "a card without name or sources");
  replace(ed, n, name);
  describe(c, hardware, data, text, sizeof text);
  insert(ed, sources->first, text);
  for (size_t k = 0; k < c->fit.n_params; k++) {
    const ds_fit_param *p = &c->fit.param[k];
    const ds_card_field *f = c->param[k].field;
    const ds_node *group;
    if (c->param[k].field == NULL || c->param[k].of_engine == hardware || p->state != DS_FIT_FITTED) continue;
    const ds_node *value = ds_card_value(root, f, &group);
    if (f->dim == DS_DIM_TIME) snprintf(text, sizeof text, "%.*g us", digits(p), p->value * 1e6);
    else snprintf(text, sizeof text, "%.*g", digits(p), p->value);
    if (value != NULL) {
      replace(ed, value, text);
      provenance(ed, group, p);
    } else if (strchr(f->path, '.') == NULL) { /* an optional field that the card did not have */
      char line[1400];
      snprintf(line, sizeof line, "%s: {value: %s, source: CALIBRATED, date: 2026-11, grade: measured}\n", f->path, text);
      insert(ed, ds_node_get(root, "per_iteration") != NULL ? ds_node_get(root, "per_iteration") : sources, line);
    }
  }
  return true;
}

char *ds_calibration_card(const ds_calibration *c, bool hardware, const char *name, const char *data, ds_diag *d) {
  const char *path = hardware ? c->hardware_path : c->engine_path;
  char *text = NULL, *out = NULL;
  size_t bytes;
  ds_doc doc;
  if (!ds_file_read(path, path, &text, &bytes, d)) return NULL;
  editor ed = {.text = text, .bytes = bytes, .e = calloc(EDITS_MAX, sizeof(edit))};
  if (ed.e == NULL) {
    ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  } else {
    if (ds_doc_parse(text, bytes, path, &doc, d) && edit_all(c, hardware, name, data, doc.root, &ed, d)) out = apply(&ed, d);
    ds_doc_free(&doc);
  }
  free(ed.e);
  free(text);
  return out;
}
