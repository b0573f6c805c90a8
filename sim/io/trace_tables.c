// SPDX-License-Identifier: GPL-3.0-or-later
/* The CSV formats, and what a column map makes of any other flat file. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_csv.h"
#include "io/trace_formats.h"

#define S  DS_NS_PER_S
#define US 1000

static bool plain_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  (void)skip;
  static const int needed[] = {DS_FIELD_INPUT, DS_FIELD_OUTPUT};
  for (size_t i = 0; i < DS_ARRAY_LEN(needed); i++) {
    const ds_flat_value *v = &f->v[needed[i]];
    if (v->given) continue;
    if (v->path == NULL) return ds_flat_need(f, needed[i], ds_field_names[needed[i]], d);
    ds_rows_bad(&f->rows, v->at, d, "%s is empty", v->path);
    ds_diag_expected(d, "a whole number of tokens, 1 to %d", DS_TOKENS_MAX);
    return false;
  }
  if (!ds_flat_take(f, row, more, d)) return false;
  const ds_flat_value *time = &f->v[DS_FIELD_ARRIVAL];
  row->time_ns = time->number;
  if (time->given || f->rows.source.time_name[0] == '\0') return true;
  if (time->path == NULL) return ds_flat_need(f, DS_FIELD_ARRIVAL, "a time of arrival", d);
  ds_rows_bad(&f->rows, time->at, d, "%s is empty", time->path);
  ds_diag_expected(d, "a time of arrival");
  return false;
}

/* ---- BurstGPT ---- */

static const ds_flat_key burstgpt_keys[] = {{"Timestamp", DS_FIELD_ARRIVAL, DS_KIND_TIME, S},
                                            {"Request tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
                                            {"Response tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
                                            {"Session ID", DS_FIELD_SESSION, DS_KIND_TEXT, 0},
                                            {"Elapsed time", DS_FIELD_E2E, DS_KIND_TIME, S},
                                            {"Model", DS_FIELD_MODEL, DS_KIND_TEXT, 0},
                                            {"Log Type", DS_FIELD_CLASS, DS_KIND_TEXT, 0}};

bool ds_burstgpt_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const ds_csv_format format = {
      .source = {.format = "burstgpt",
                 .time_name = "Timestamp",
                 .input_name = "Request tokens",
                 .output_name = "Response tokens",
                 .rebase = true,
                 .zeros_normal = true},
      .key = burstgpt_keys,
      .n_keys = DS_ARRAY_LEN(burstgpt_keys),
      .needed = {DS_FIELD_ARRIVAL, DS_FIELD_INPUT, DS_FIELD_OUTPUT, -1},
      .row = plain_row};
  return ds_csv_open(in, w, &format, out, d);
}

/* ---- Vidur ---- */

static const ds_flat_key vidur_keys[] = {{"num_prefill_tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
                                         {"num_decode_tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
                                         {"arrived_at", DS_FIELD_ARRIVAL, DS_KIND_TIME, S},
                                         {"session_id", DS_FIELD_SESSION, DS_KIND_TEXT, 0}};

bool ds_vidur_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const ds_csv_format format = {.source = {.format = "vidur",
                                                  .time_name = "arrived_at",
                                                  .input_name = "num_prefill_tokens",
                                                  .output_name = "num_decode_tokens",
                                                  .rebase = true},
                                       .key = vidur_keys,
                                       .n_keys = DS_ARRAY_LEN(vidur_keys),
                                       .needed = {DS_FIELD_INPUT, DS_FIELD_OUTPUT, -1},
                                       .row = plain_row};
  if (!ds_csv_open(in, w, &format, out, d)) return false;
  if (!ds_csv_has(*out, DS_FIELD_ARRIVAL)) {
    (*out)->time_name = "";
    (*out)->note = "lengths without times: all requests arrive at once";
  }
  return true;
}

/* ---- Splitwise ---- */

static const ds_flat_key splitwise_keys[] = {
    {"arrival_timestamp", DS_FIELD_ARRIVAL, DS_KIND_TIME, S},
    {"prompt_size", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"token_size", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"request_id", DS_FIELD_ID, DS_KIND_TEXT, 0},
    {"application_id", DS_FIELD_CLASS, DS_KIND_TEXT, 0}};

bool ds_splitwise_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const ds_csv_format format = {
      .source = {.format = "splitwise",
                 .time_name = "arrival_timestamp",
                 .input_name = "prompt_size",
                 .output_name = "token_size",
                 .rebase = true},
      .key = splitwise_keys,
      .n_keys = DS_ARRAY_LEN(splitwise_keys),
      .needed = {DS_FIELD_ARRIVAL, DS_FIELD_INPUT, DS_FIELD_OUTPUT, -1},
      .row = plain_row};
  return ds_csv_open(in, w, &format, out, d);
}

/* ---- BLIS TraceV2 ---- */

static const ds_flat_key tracev2_keys[] = {
    {"arrival_time_us", DS_FIELD_ARRIVAL, DS_KIND_TIME, US},
    {"input_tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"output_tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"request_id", DS_FIELD_ID, DS_KIND_TEXT, 0},
    {"tenant_id", DS_FIELD_TENANT, DS_KIND_TEXT, 0},
    {"slo_class", DS_FIELD_CLASS, DS_KIND_TEXT, 0},
    {"session_id", DS_FIELD_SESSION, DS_KIND_TEXT, 0},
    {"round_index", DS_FIELD_TURN, DS_KIND_COUNT, 0},
    {"prefix_group", DS_FIELD_PREFIX, DS_KIND_TEXT, 0},
    {"prefix_length", DS_FIELD_PREFIX_TOKENS, DS_KIND_TOKENS, 0},
    {"image_tokens", DS_FIELD_IMAGE_TOKENS, DS_KIND_TOKENS, 0},
    {"model", DS_FIELD_MODEL, DS_KIND_TEXT, 0},
    {"vllm_priority", DS_FIELD_PRIORITY, DS_KIND_INTEGER, 0},
    {"send_time_us", DS_FLAT_AGE, DS_KIND_TIME, US},
    {"first_chunk_time_us", DS_FLAT_FIRST, DS_KIND_TIME, US},
    {"last_chunk_time_us", DS_FLAT_END, DS_KIND_TIME, US},
    {"think_time_us", DS_FIELD_THINK, DS_KIND_TIME, US},
    {"status", DS_FIELD_STATUS, DS_KIND_TEXT, 0}};

static bool tracev2_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  const ds_flat_value *v = f->v;
  if (!plain_row(f, row, more, skip, d)) return false;
  if (more->think_ns == 0) more->think_ns = -1; /* 0 is what is written when it is not known */
  int64_t sent = v[DS_FLAT_AGE].number;
  if (v[DS_FLAT_FIRST].number > sent) more->ttft_ns = v[DS_FLAT_FIRST].number - sent;
  if (v[DS_FLAT_END].number > sent) more->e2e_ns = v[DS_FLAT_END].number - sent;
  const char *status = v[DS_FIELD_STATUS].text;
  if (status != NULL && strcmp(status, "ok") != 0) more->status = DS_ROW_FAILED;
  return true;
}

/* The YAML header, which BLIS keeps in a file of its own: in front of the CSV, or beside it with
 * the same name and .yaml. Only what changes the meaning of rows is looked at. */
static bool header_line(const char *s, size_t n, bool *accumulates, ds_input *in, ds_diag *d) {
  static const char growth[] = "session_context_growth:", unit[] = "time_unit:";
  while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r' || s[n - 1] == ' ' || s[n - 1] == '"')) n--;
  if (n > sizeof growth && memcmp(s, growth, sizeof growth - 1) == 0)
    *accumulates = n >= 10 && memcmp(s + n - 10, "accumulate", 10) == 0;
  if (n > sizeof unit && memcmp(s, unit, sizeof unit - 1) == 0 &&
      (n < 12 || memcmp(s + n - 12, "microseconds", 12) != 0)) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, 1, "times that are not in microseconds: %s",
                ds_excerpt_of(s, n).text);
    ds_diag_expected(d, "time_unit: microseconds");
    return false;
  }
  return true;
}

static bool has(const char *s, size_t n, const char *text) {
  size_t m = strlen(text);
  for (size_t i = 0; i + m <= n; i++)
    if (memcmp(s + i, text, m) == 0) return true;
  return false;
}

static bool header_in_front(ds_input *in, bool *accumulates, ds_diag *d) {
  for (;;) {
    if (!ds_input_peek(in, 4096, d)) return false;
    size_t have = (size_t)(in->end - in->at);
    const char *end = have > 0 ? memchr(in->at, '\n', have) : NULL;
    if (has(in->at, end != NULL ? (size_t)(end - in->at) : have, "arrival_time_us")) return true;
    char *s;
    size_t n;
    if (!ds_input_line(in, 1u << 20, &s, &n, d)) return false;
    if (n == 0) break;
    if (!header_line(s, n, accumulates, in, d)) return false;
  }
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0,
              "the header of a BLIS TraceV2 trace, without its rows");
  ds_diag_expected(d,
                   "the CSV file that belongs to it; its header is found beside it as NAME.yaml");
  return false;
}

static bool header_beside(const ds_workload *w, bool *accumulates, ds_diag *d) {
  char path[1100];
  const char *dot = strrchr(w->path, '.'), *slash = strrchr(w->path, '/');
  if (dot == NULL || (slash != NULL && dot < slash)) return true;
  snprintf(path, sizeof path, "%.*s.yaml", (int)(dot - w->path), w->path);
  ds_input *in;
  ds_diag own = {.exit = DS_EXIT_OK};
  if (strcmp(path, w->path) == 0 || !ds_input_open(path, NULL, &in, &own)) return true;
  bool good = true;
  for (;;) {
    char *s;
    size_t n;
    good = ds_input_line(in, 1u << 20, &s, &n, d);
    if (!good || n == 0) break;
    good = header_line(s, n, accumulates, in, d);
    if (!good) break;
  }
  ds_input_close(in);
  return good;
}

bool ds_tracev2_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const ds_csv_format format = {
      .source = {.format = "tracev2",
                 .time_name = "arrival_time_us",
                 .input_name = "input_tokens",
                 .output_name = "output_tokens",
                 .rebase = true,
                 .unsorted_normal = true},
      .key = tracev2_keys,
      .n_keys = DS_ARRAY_LEN(tracev2_keys),
      .needed = {DS_FIELD_ARRIVAL, DS_FIELD_INPUT, DS_FIELD_OUTPUT, -1},
      .row = tracev2_row};
  bool accumulates = false;
  *out = NULL;
  if (!header_in_front(in, &accumulates, d) || !header_beside(w, &accumulates, d) ||
      !ds_csv_open(in, w, &format, out, d))
    return false;
  (*out)->accumulates = accumulates;
  return true;
}

/* ---- any other flat file, by a map of its columns ---- */

const char *const ds_field_names[DS_FIELD_N] = {[DS_FIELD_ARRIVAL] = "arrival",
                                                [DS_FIELD_INPUT] = "input_tokens",
                                                [DS_FIELD_OUTPUT] = "output_tokens",
                                                [DS_FIELD_MAX_TOKENS] = "max_tokens",
                                                [DS_FIELD_ID] = "id",
                                                [DS_FIELD_SESSION] = "session",
                                                [DS_FIELD_TURN] = "turn",
                                                [DS_FIELD_THINK] = "think",
                                                [DS_FIELD_CLASS] = "class",
                                                [DS_FIELD_MODEL] = "model",
                                                [DS_FIELD_TENANT] = "tenant",
                                                [DS_FIELD_PRIORITY] = "priority",
                                                [DS_FIELD_STATUS] = "status",
                                                [DS_FIELD_TTFT] = "ttft",
                                                [DS_FIELD_E2E] = "e2e",
                                                [DS_FIELD_PREFIX] = "prefix",
                                                [DS_FIELD_PREFIX_TOKENS] = "prefix_tokens",
                                                [DS_FIELD_IMAGES] = "images",
                                                [DS_FIELD_IMAGE_TOKENS] = "image_tokens"};

static ds_flat_kind kind_of(const ds_map_entry *e) {
  switch (e->field) {
  case DS_FIELD_INPUT:
  case DS_FIELD_OUTPUT:
  case DS_FIELD_MAX_TOKENS:
  case DS_FIELD_PREFIX_TOKENS:
  case DS_FIELD_IMAGE_TOKENS:
    return DS_KIND_TOKENS;
  case DS_FIELD_TURN:
  case DS_FIELD_IMAGES:
    return DS_KIND_COUNT;
  case DS_FIELD_PRIORITY:
    return DS_KIND_INTEGER;
  case DS_FIELD_ARRIVAL:
  case DS_FIELD_THINK:
  case DS_FIELD_TTFT:
  case DS_FIELD_E2E:
    return e->unit_ns == DS_UNIT_STAMP ? DS_KIND_STAMP : DS_KIND_TIME;
  case DS_FIELD_ID:
  case DS_FIELD_SESSION:
  case DS_FIELD_CLASS:
  case DS_FIELD_MODEL:
  case DS_FIELD_TENANT:
  case DS_FIELD_STATUS:
  case DS_FIELD_PREFIX:
  case DS_FIELD_N:
    break;
  }
  return DS_KIND_TEXT;
}

static bool map_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  static const char *const good[] = {"ok", "OK",   "success", "Success", "200",
                                     "0",  "stop", "length",  "true"};
  if (!plain_row(f, row, more, skip, d)) return false;
  const char *status = f->v[DS_FIELD_STATUS].text;
  if (status == NULL) return true;
  more->status = DS_ROW_FAILED;
  for (size_t i = 0; i < DS_ARRAY_LEN(good); i++)
    if (strcmp(status, good[i]) == 0) more->status = DS_ROW_OK;
  return true;
}

/* The keys, kept in the source's own memory. */
static ds_flat_key *keys_of(const ds_workload *w) {
  ds_flat_key *k = calloc(w->n_map + 1, sizeof *k);
  for (size_t i = 0; k != NULL && i < w->n_map; i++)
    k[i] = (ds_flat_key){w->map[i].column, (int)w->map[i].field, kind_of(&w->map[i]),
                         w->map[i].unit_ns};
  return k;
}

static const char *column_name(const ds_workload *w, ds_field field) {
  for (size_t i = 0; i < w->n_map; i++)
    if (w->map[i].field == field) return w->map[i].column;
  return ds_field_names[field];
}

static bool need_map(ds_input *in, const ds_workload *w, ds_diag *d) {
  bool arrival = false, input = false, output = false;
  for (size_t i = 0; i < w->n_map; i++) {
    arrival = arrival || w->map[i].field == DS_FIELD_ARRIVAL;
    input = input || w->map[i].field == DS_FIELD_INPUT;
    output = output || w->map[i].field == DS_FIELD_OUTPUT;
  }
  if (arrival && input && output) return true;
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0, "a map without %s",
              !arrival ? "arrival"
              : !input ? "input_tokens"
                       : "output_tokens");
  ds_diag_expected(d, "map: {arrival: COLUMN:unit, input_tokens: COLUMN, output_tokens: COLUMN}");
  return false;
}

static ds_source map_source(const ds_workload *w) {
  return (ds_source){.format = "map",
                     .time_name = column_name(w, DS_FIELD_ARRIVAL),
                     .input_name = column_name(w, DS_FIELD_INPUT),
                     .output_name = column_name(w, DS_FIELD_OUTPUT),
                     .rebase = true};
}

static void map_close(ds_source *s) {
  ds_flat *f = (ds_flat *)s;
  ds_flat_key *keys = (ds_flat_key *)(uintptr_t)f->key;
  ds_rows_free(&f->rows);
  free(keys);
  free(s);
}

bool ds_map_csv_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  *out = NULL;
  if (!need_map(in, w, d)) return false;
  ds_flat_key *k = keys_of(w);
  if (k == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, in->name, 0, 0, "out of memory");
  ds_csv_format format = {.source = map_source(w),
                          .key = k,
                          .n_keys = w->n_map,
                          .needed = {DS_FIELD_ARRIVAL, DS_FIELD_INPUT, DS_FIELD_OUTPUT, -1},
                          .row = map_row};
  if (!ds_csv_open(in, w, &format, out, d)) {
    free(k);
    return false;
  }
  (*out)->close = map_close;
  return true;
}

bool ds_map_jsonl_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  *out = NULL;
  if (!need_map(in, w, d)) return false;
  ds_source s = map_source(w);
  s.input = in;
  s.rows = ds_flat_rows;
  s.id = ds_rows_id;
  s.close = map_close;
  ds_flat_key *k = keys_of(w);
  ds_flat *f = k != NULL ? ds_rows_new(sizeof *f, &s, d) : NULL;
  if (f == NULL) {
    free(k);
    return ds_diag_set(d, DS_EXIT_RUNTIME, in->name, 0, 0, "out of memory");
  }
  f->key = k;
  f->n_keys = w->n_map;
  f->row = map_row;
  f->w = w;
  *out = &f->rows.source;
  return true;
}
