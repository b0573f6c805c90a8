// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/runs.h"

#include <csv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/card.h"
#include "io/input.h"

#define MAX_COLUMNS 512

static const char *const text_names[DS_RUN_TEXTS] = {
    "id",  "split",           "engine",        "engine_version", "model", "weight_precision", "kv_precision",
    "gpu", "scheduler_notes", "workload_kind", "notes",          "grade"};
static const char *const number_names[DS_RUN_NUMBERS] = {
    "n_gpus",        "tp",           "pp",           "dp",           "ep",
    "isl_mean",      "isl_std",      "osl_mean",     "osl_std",      "rate_rps",
    "concurrency",   "n_requests",   "max_num_seqs", "max_batched_tokens", "req_s",
    "total_tok_s",   "out_tok_s_total", "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms",
    "tpot_mean_ms",  "tpot_p50_ms",  "tpot_p99_ms",  "e2e_mean_ms",  "e2e_p99_ms"};
static const ds_run_text needed[] = {DS_RUN_ID, DS_RUN_ENGINE, DS_RUN_MODEL, DS_RUN_GPU, DS_RUN_KIND};

typedef struct reader {
  ds_measured_runs *out;
  ds_diag *d;
  const char *path;
  size_t cap_runs, used, cap_bytes;
  int text_of[MAX_COLUMNS], number_of[MAX_COLUMNS]; /* -1: not wanted */
  size_t column, n_columns;
  size_t text_at[DS_RUN_TEXTS]; /* offsets in bytes, which may move */
  size_t *offsets;              /* DS_RUN_TEXTS a run */
  char near_to[DS_RUN_TEXTS][64]; /* a heading that is no name but looks like this one */
  ds_measured_run now;
  int64_t line;
  bool header_done, failed;
} reader;

static void fail(reader *r, const char *what, const char *name) {
  if (!r->failed)
    ds_diag_set(r->d, DS_EXIT_INPUT, r->path, r->line, 0, "%s%s%s%s", what, name[0] != '\0' ? " '" : "", name,
                name[0] != '\0' ? "'" : "");
  r->failed = true;
}

static void blank(reader *r) {
  for (int i = 0; i < DS_RUN_NUMBERS; i++) r->now.number[i] = -1;
  for (int i = 0; i < DS_RUN_TEXTS; i++) r->text_at[i] = 0; /* byte 0 is an empty text */
}

static size_t keep(reader *r, const char *text, size_t bytes) {
  if (r->used + bytes + 1 > r->cap_bytes) {
    size_t cap = (r->used + bytes + 1) * 2;
    char *grown = realloc(r->out->bytes, cap);
    if (grown == NULL) {
      fail(r, "out of memory", "");
      return 0;
    }
    r->out->bytes = grown;
    r->cap_bytes = cap;
  }
  size_t at = r->used;
  if (bytes > 0 && text != NULL) memcpy(r->out->bytes + at, text, bytes);
  r->out->bytes[at + bytes] = '\0';
  r->used += bytes + 1;
  return at;
}

static void heading(reader *r, const char *cell) {
  if (r->column >= MAX_COLUMNS) {
    fail(r, "more than 512 columns", "");
    return;
  }
  r->text_of[r->column] = r->number_of[r->column] = -1;
  for (int i = 0; i < DS_RUN_TEXTS; i++)
    if (strcmp(cell, text_names[i]) == 0) r->text_of[r->column] = i;
  for (int i = 0; i < DS_RUN_NUMBERS; i++)
    if (strcmp(cell, number_names[i]) == 0) r->number_of[r->column] = i;
  if (r->text_of[r->column] >= 0 || r->number_of[r->column] >= 0) return;
  const char *near = ds_nearest(cell, text_names, DS_RUN_TEXTS);
  for (int i = 0; i < DS_RUN_TEXTS && near != NULL; i++)
    if (near == text_names[i]) snprintf(r->near_to[i], sizeof r->near_to[i], "%.60s", cell);
}

static void on_cell(void *data, size_t bytes, void *user) {
  reader *r = user;
  char cell[96];
  if (r->failed) return;
  snprintf(cell, sizeof cell, "%.*s", (int)(bytes < 95 ? bytes : 95), data != NULL ? (const char *)data : "");
  if (!r->header_done) {
    heading(r, cell);
  } else if (r->column >= r->n_columns) {
    fail(r, "more cells than columns", "");
  } else if (bytes > 0 && r->text_of[r->column] >= 0) {
    r->text_at[r->text_of[r->column]] = keep(r, data, bytes);
  } else if (cell[0] != '\0' && r->number_of[r->column] >= 0) {
    char *end;
    double v = strtod(cell, &end);
    if (*end != '\0' || !isfinite(v) || v < 0) {
      char name[160];
      snprintf(name, sizeof name, "%s: %s", number_names[r->number_of[r->column]], cell);
      fail(r, "not a number of at least 0:", name);
    }
    r->now.number[r->number_of[r->column]] = v;
  }
  r->column++;
}

static void expect_needed(reader *r) {
  char all[200];
  size_t used = 0;
  for (size_t k = 0; k < sizeof needed / sizeof needed[0] && used < sizeof all; k++)
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", k > 0 ? ", " : "", text_names[needed[k]]);
  ds_diag_expected(r->d, "a header with %s and what was measured, as docs/accuracy.md says", all);
}

static void end_header(reader *r) {
  r->n_columns = r->column;
  r->header_done = true;
  for (size_t k = 0; k < sizeof needed / sizeof needed[0]; k++) {
    bool found = false;
    for (size_t i = 0; i < r->n_columns; i++) found = found || r->text_of[i] == (int)needed[k];
    if (!found && !r->failed) {
      fail(r, "no column", text_names[needed[k]]);
      expect_needed(r);
      if (r->near_to[needed[k]][0] != '\0')
        ds_diag_hint(r->d, "did you mean %s by \"%s\"?", text_names[needed[k]], r->near_to[needed[k]]);
    }
  }
  bool measured = false;
  for (size_t i = 0; i < r->n_columns; i++) measured = measured || r->number_of[i] >= DS_RUN_OUT_TOK_S;
  if (!measured && !r->failed) {
    fail(r, "no measured column", "");
    ds_diag_expected(r->d, "one of out_tok_s_total, ttft_mean_ms, tpot_mean_ms, e2e_mean_ms");
  }
}

static void on_row(int c, void *user) {
  (void)c;
  reader *r = user;
  r->line++;
  if (r->failed) return;
  if (!r->header_done) {
    end_header(r);
  } else if (r->column == r->n_columns) {
    ds_measured_runs *out = r->out;
    if (out->n == r->cap_runs) {
      size_t cap = r->cap_runs * 2 + 64;
      ds_measured_run *runs = realloc(out->run, cap * sizeof *runs);
      if (runs != NULL) out->run = runs;
      size_t *offsets = runs == NULL ? NULL : realloc(r->offsets, cap * DS_RUN_TEXTS * sizeof *offsets);
      if (offsets == NULL) {
        fail(r, "out of memory", "");
        return;
      }
      r->offsets = offsets;
      r->cap_runs = cap;
    }
    r->now.line = r->line;
    memcpy(r->offsets + out->n * DS_RUN_TEXTS, r->text_at, sizeof r->text_at);
    out->run[out->n++] = r->now;
  } else if (r->column > 0) {
    bool first = !r->failed;
    fail(r, "a row with fewer cells than columns", "");
    if (first) ds_diag_expected(r->d, "%zu cells, as in the header; this row has %zu", r->n_columns, r->column);
  }
  r->column = 0;
  blank(r);
}

static bool parse(reader *r, ds_input *in, struct csv_parser *csv) {
  for (;;) {
    size_t n = (size_t)(in->end - in->at);
    if (n > 0 && csv_parse(csv, in->at, n, on_cell, on_row, r) != n) fail(r, csv_strerror(csv_error(csv)), "");
    in->at = in->end;
    if (r->failed) return false;
    if (in->ended) break;
    if (!ds_input_fill(in, r->d)) return false;
  }
  if (csv_fini(csv, on_cell, on_row, r) != 0) fail(r, csv_strerror(csv_error(csv)), "");
  return !r->failed;
}

bool ds_measured_open(const char *path, ds_measured_runs *out, ds_diag *d) {
  memset(out, 0, sizeof *out);
  reader *r = calloc(1, sizeof *r);
  ds_input *in = NULL;
  struct csv_parser csv;
  if (r == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  r->out = out;
  r->d = d;
  r->path = path;
  keep(r, "", 0);
  blank(r);
  bool ok = !r->failed && ds_input_open(path, NULL, &in, d);
  if (ok && csv_init(&csv, CSV_STRICT | CSV_STRICT_FINI) == 0) {
    ok = parse(r, in, &csv);
    csv_free(&csv);
  } else if (ok) {
    ok = ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  }
  if (ok && out->n == 0) ok = ds_diag_set(d, DS_EXIT_INPUT, path, 0, 0, "no measured runs in it");
  for (size_t i = 0; ok && i < out->n; i++)
    for (int k = 0; k < DS_RUN_TEXTS; k++) out->run[i].text[k] = out->bytes + r->offsets[i * DS_RUN_TEXTS + (size_t)k];
  if (ok) snprintf(out->sha256, sizeof out->sha256, "%s", ds_input_sha256(in));
  if (in != NULL) ds_input_close(in);
  free(r->offsets);
  free(r);
  return ok;
}

void ds_measured_free(ds_measured_runs *r) {
  free(r->run);
  free(r->bytes);
  memset(r, 0, sizeof *r);
}

void ds_measured_source(const ds_measured_run *r, char *out, size_t cap) {
  size_t n = strcspn(r->text[DS_RUN_ID], "-");
  snprintf(out, cap, "%.*s", (int)(n < 64 ? n : 64), r->text[DS_RUN_ID]);
}
