// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/bands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/doc.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

const char *const ds_band_metric_names[DS_BAND_METRICS] = {"ttft", "tpot", "e2e", "throughput"};

static bool percent(const ds_node *map, const char *key, double *out, ds_diag *d) {
  const ds_node *n = ds_node_get(map, key);
  if (n == NULL) return ds_complain(d, map, "a band without %s", key);
  if (!ds_want_number(n, key, -1e6, 1e6, out, d)) return false;
  *out /= 100;
  return true;
}

static bool text_of(const ds_node *map, const char *key, char *out, size_t cap, ds_diag *d) {
  const ds_node *n = ds_node_get(map, key);
  if (n == NULL) return ds_complain(d, map, "a band without %s", key);
  return ds_want_text(n, key, out, cap, d);
}

static bool read_band(const ds_node *n, ds_band *b, ds_diag *d) {
  static const char *const keys[] = {"hardware", "class", "engine", "metric", "within", "median", "signed", "runs"};
  size_t metric;
  const ds_node *runs, *name;
  if (!ds_want_map(n, "an entry of bands", d) || !ds_want_keys(n, "bands", keys, LEN(keys), d)) return false;
  if ((name = ds_node_get(n, "metric")) == NULL || (runs = ds_node_get(n, "runs")) == NULL)
    return ds_complain(d, n, "a band without %s", name == NULL ? "metric" : "runs");
  if (!ds_want_choice(name, "metric", ds_band_metric_names, DS_BAND_METRICS, &metric, d)) return false;
  b->metric = (ds_band_metric)metric;
  return text_of(n, "hardware", b->hardware, sizeof b->hardware, d) &&
         text_of(n, "class", b->model_class, sizeof b->model_class, d) &&
         text_of(n, "engine", b->engine, sizeof b->engine, d) && percent(n, "within", &b->half_width, d) &&
         percent(n, "median", &b->median, d) && percent(n, "signed", &b->signed_median, d) &&
         ds_want_integer(runs, "runs", 1, 1000000000, &b->runs, d);
}

static bool read_all(const ds_node *root, ds_bands *out, ds_diag *d) {
  static const char *const keys[] = {"errors", "title", "date", "source", "command", "rule", "bands"};
  if (!ds_want_map(root, "the file", d) || !ds_want_keys(root, "", keys, LEN(keys), d)) return false;
  const ds_node *bands = ds_node_get(root, "bands"), *date = ds_node_get(root, "date");
  if (bands == NULL || date == NULL) return ds_complain(d, root, "%s is missing", bands == NULL ? "bands" : "date");
  if (!ds_want_text(date, "date", out->date, sizeof out->date, d) || !ds_want_list(bands, "bands", d)) return false;
  out->band = calloc(bands->n + 1, sizeof *out->band);
  if (out->band == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  for (const ds_node *n = bands->first; n != NULL; n = n->next)
    if (!read_band(n, &out->band[out->n++], d)) return false;
  return true;
}

bool ds_bands_parse(const char *text, size_t bytes, const char *file, ds_bands *out, ds_diag *d) {
  memset(out, 0, sizeof *out);
  ds_doc doc;
  bool ok = ds_doc_parse(text, bytes, file, &doc, d) && read_all(doc.root, out, d);
  ds_doc_free(&doc);
  if (!ok) ds_bands_free(out);
  return ok;
}

bool ds_bands_open(const ds_data_dirs *dirs, ds_bands *out, ds_diag *d) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < dirs->n; i++) {
    char path[1200], *text;
    size_t bytes;
    snprintf(path, sizeof path, "%s/models/validation/errors.yaml", dirs->dir[i]);
    if (access(path, R_OK) != 0) continue;
    if (!ds_file_read(path, path, &text, &bytes, d)) return false;
    bool ok = ds_bands_parse(text, bytes, path, out, d);
    free(text);
    return ok;
  }
  return true;
}

void ds_bands_free(ds_bands *b) {
  free(b->band);
  memset(b, 0, sizeof *b);
}

const ds_band *ds_bands_find(const ds_bands *b, const char *hardware, bool measured_kernels, const char *model_class,
                             const char *engine, ds_band_metric metric) {
  const ds_band *best = NULL;
  int best_level = 0;
  for (size_t i = 0; i < b->n; i++) {
    const ds_band *x = &b->band[i];
    if (x->metric != metric || strcmp(x->model_class, model_class) != 0) continue;
    bool part = strcmp(x->hardware, hardware) == 0;
    bool kind = strcmp(x->hardware, measured_kernels ? "measured" : "other") == 0;
    bool card = strcmp(x->engine, engine) == 0, any = strcmp(x->engine, "any") == 0;
    int level = part && card ? 4 : part && any ? 3 : kind && card ? 2 : kind && any ? 1 : 0;
    if (level <= best_level) continue;
    best = x;
    best_level = level;
  }
  return best;
}
