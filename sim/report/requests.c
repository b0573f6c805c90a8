// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/requests.h"

#include <stdlib.h>
#include <string.h>

#include "report/json_writer.h"
#include "report/numbers.h"

/* Rows come in order of the trace whatever order the engine keeps its records in. */
static int by_index(const void *a, const void *b) {
  const ds_record *const *x = a, *const *y = b;
  return ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

/* Those of the warm-up, too. */
static size_t all_of(const ds_drive *drive) { return drive->result->n + drive->warmup.n; }

static const ds_record **in_order(const ds_drive *drive) {
  const ds_result *r = drive->result;
  const size_t n = all_of(drive);
  const ds_record **rows = malloc((n + 1) * sizeof *rows);
  if (rows == NULL) return NULL;
  bool sorted = true;
  for (size_t i = 0; i < n; i++) {
    rows[i] = &r->records[i];
    sorted = sorted && (i == 0 || rows[i - 1]->index < rows[i]->index);
  }
  if (!sorted) qsort(rows, n, sizeof *rows, by_index);
  return rows;
}

/* TPOT is a quotient, unlike the times: rounded to the nanosecond, half up. */
static int64_t tpot_ns(const ds_record *q) {
  int64_t n = (int64_t)q->output_tokens - 1, d = q->finish_ns - q->first_token_ns;
  return d / n + (2 * (d % n) >= n);
}

static void csv_cell(ds_outfile *out, const char *text) {
  if (strpbrk(text, ",\"\r\n") == NULL) {
    ds_out_text(out, text);
    return;
  }
  ds_out_bytes(out, "\"", 1);
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '"') ds_out_bytes(out, "\"", 1);
    ds_out_bytes(out, c, 1);
  }
  ds_out_bytes(out, "\"", 1);
}

static void csv_header(ds_outfile *out, const ds_result *r) {
  ds_out_text(out, "id,session,class,arrival_s,input_tokens,output_tokens,cached_tokens,status,"
                   "replica,scheduled_s,"
                   "first_token_s,finish_s,ttft_ms,tpot_ms,e2el_ms,max_itl_ms,preemptions");
  for (int c = 0; c < ds_causes_shown(r); c++)
    ds_out_printf(out, ",blame_%s_ms", ds_cause_name((ds_cause)c));
  ds_out_text(out, r->with_images ? ",images,image_tokens\n" : "\n");
}

static char *put_text(char *p, const char *text) {
  size_t n = strlen(text);
  memcpy(p, text, n);
  return p + n;
}
static char *put_cell_u64(char *p, uint64_t v) {
  *p++ = ',';
  return p + ds_put_u64(p, v);
}
static char *put_cell_time(char *p, int64_t ns, int digits) {
  *p++ = ',';
  return p + ds_put_decimal(p, ns, digits);
}

/* Columns after the status that only a request that ran has. */
#define CSV_EMPTY ",,,,,,,,,"

/* A request without an answer: status says why. */
static void csv_failed(ds_outfile *out, const ds_result *r, int64_t arrival_ns, uint32_t input, uint32_t output,
                       const char *status, const char *id, const char *class_name) {
  csv_cell(out, id);
  ds_out_text(out, ",,");
  csv_cell(out, class_name);
  char *start = ds_out_room(out, DS_OUT_ROOM), *p = start;
  p = put_cell_time(p, arrival_ns, 9);
  p = put_cell_u64(p, input);
  p = put_cell_u64(p, output);
  ds_out_used(out, (size_t)(p - start));
  ds_out_printf(out, ",0,%s" CSV_EMPTY, status);
  for (int c = 0; c < ds_causes_shown(r); c++) ds_out_bytes(out, ",", 1);
  ds_out_text(out, r->with_images ? ",,\n" : "\n");
}

/* Of a request that was admitted. With "warmup" it is in no figure, answered or not. */
static const char *status_of(const ds_drive *drive, const ds_record *q) {
  static const char *const status[] = {"ok", "timeout", "rejected"}; /* by ds_failure */
  return ds_warmup_has(&drive->warmup, q) ? "warmup" : status[q->failed];
}

static void csv_row(ds_outfile *out, const ds_result *r, const ds_record *q, const char *id, const char *status,
                    const char *class_name) {
  if (q->failed) {
    csv_failed(out, r, q->arrival_ns, q->input_tokens, q->output_tokens, status, id, class_name);
    return;
  }
  csv_cell(out, id);
  ds_out_text(out, ",,");
  csv_cell(out, class_name);
  char *start = ds_out_room(out, DS_OUT_ROOM), *p = start;
  p = put_cell_time(p, q->arrival_ns, 9);
  p = put_cell_u64(p, q->input_tokens);
  p = put_cell_u64(p, q->output_tokens);
  p = put_cell_u64(p, q->cached_tokens);
  *p++ = ',';
  p = put_cell_u64(put_text(p, status), q->replica);
  p = put_cell_time(p, q->scheduled_ns, 9);
  p = put_cell_time(p, q->first_token_ns, 9);
  p = put_cell_time(p, q->finish_ns, 9);
  p = put_cell_time(p, q->first_token_ns - q->arrival_ns, 6);
  if (q->output_tokens > 1)
    p = put_cell_time(p, tpot_ns(q), 6);
  else
    *p++ = ',';
  p = put_cell_time(p, q->finish_ns - q->arrival_ns, 6);
  p = put_cell_time(p, q->max_itl_ns, 6);
  p = put_cell_u64(p, q->preemptions);
  for (int c = 0; c < ds_causes_shown(r); c++) p = put_cell_time(p, q->blame_ns[c], 6);
  if (r->with_images) p = put_cell_u64(put_cell_u64(p, q->images), q->image_tokens);
  *p++ = '\n';
  ds_out_used(out, (size_t)(p - start));
}

static void csv_rejected(ds_outfile *out, const ds_result *r, const ds_rejected *q, const char *id,
                         const char *class_name) {
  csv_failed(out, r, q->request.arrival_ns, q->request.input_tokens, q->request.output_tokens,
             "rejected", id, class_name);
}

/* Of several workloads each has its class. */
static const char *class_of(const ds_drive *drive, uint64_t index, const char *class_name) {
  return drive->merged != NULL ? ds_merged_class(drive->merged, index) : class_name;
}

bool ds_requests_csv(ds_outfile *out, const ds_drive *drive, const char *class_name) {
  const size_t n = all_of(drive);
  const ds_record **rows = in_order(drive);
  if (rows == NULL) return false;
  csv_header(out, drive->result);
  const ds_oversize *o = &drive->oversize;
  size_t away = 0;
  for (size_t i = 0; i <= n && !ds_out_failed(out); i++) {
    uint64_t index = i < n ? ds_oversize_trace_index(o, rows[i]->index) : UINT64_MAX;
    for (; away < o->n && o->rejected[away].index < index; away++)
      csv_rejected(out, drive->result, &o->rejected[away], ds_trace_id(drive->trace, o->rejected[away].index),
                   class_of(drive, o->rejected[away].index, class_name));
    if (i < n)
      csv_row(out, drive->result, rows[i], ds_trace_id(drive->trace, index), status_of(drive, rows[i]),
              class_of(drive, index, class_name));
  }
  free(rows);
  return true;
}

static char *put_field_u64(char *p, const char *name, uint64_t v) {
  p = put_text(p, name);
  return p + ds_put_u64(p, v);
}
static char *put_field_time(char *p, const char *name, int64_t ns, int digits) {
  p = put_text(p, name);
  return p + ds_put_decimal(p, ns, digits);
}

void ds_request_id_json(ds_outfile *out, const ds_drive *drive, uint64_t trace_index) {
  if (ds_trace_has_ids(drive->trace)) {
    ds_json_quote(out, ds_trace_id(drive->trace, trace_index));
    return;
  }
  char *p = ds_out_room(out, DS_NUMBER_BYTES);
  ds_out_used(out, ds_put_u64(p, trace_index));
}

static void jsonl_gaps(ds_outfile *out, const ds_result *r, const ds_record *q) {
  ds_out_text(out, ",\"itl_ms\":[");
  for (uint64_t i = 0; i < q->n_chunks && r->gaps_ns != NULL; i++) {
    char *p = ds_out_room(out, DS_NUMBER_BYTES), *end = p;
    if (i > 0) *end++ = ',';
    end += ds_put_decimal(end, r->gaps_ns[q->itl_first + i], 6);
    ds_out_used(out, (size_t)(end - p));
  }
  if (r->chunk_tokens != NULL) { /* speculation: tokens of the first chunk, and of that at the end of each gap */
    ds_out_text(out, "],\"chunk_tokens\":[1");
    for (uint64_t i = 0; i < q->n_chunks; i++) ds_out_printf(out, ",%u", (unsigned)r->chunk_tokens[q->itl_first + i]);
  }
  ds_out_text(out, "]}\n");
}

static void jsonl_begin(ds_outfile *out, const ds_drive *drive, uint64_t trace_index,
                        const char *class_name) {
  ds_out_text(out, "{\"id\":");
  ds_request_id_json(out, drive, trace_index);
  ds_out_text(out, ",\"session\":null,\"class\":");
  if (class_name[0] != '\0')
    ds_json_quote(out, class_name);
  else
    ds_out_text(out, "null");
}

static void jsonl_failed(ds_outfile *out, const ds_drive *drive, const ds_rejected *q,
                         const char *status, const char *class_name) {
  jsonl_begin(out, drive, q->index, class_name);
  char *start = ds_out_room(out, DS_OUT_ROOM), *p = start;
  p = put_field_time(p, ",\"arrival_s\":", q->request.arrival_ns, 9);
  p = put_field_u64(p, ",\"input_tokens\":", q->request.input_tokens);
  p = put_field_u64(p, ",\"output_tokens\":", q->request.output_tokens);
  ds_out_used(out, (size_t)(p - start));
  static const char *const none[] = {"replica",  "scheduled_s", "first_token_s",
                                     "finish_s", "ttft_ms",     "tpot_ms",
                                     "e2el_ms",  "max_itl_ms",  "preemptions"};
  ds_out_printf(out, ",\"cached_tokens\":0,\"status\":\"%s\"", status);
  for (size_t i = 0; i < DS_ARRAY_LEN(none); i++) ds_out_printf(out, ",\"%s\":null", none[i]);
  for (int c = 0; c < ds_causes_shown(drive->result); c++)
    ds_out_printf(out, ",\"blame_%s_ms\":null", ds_cause_name((ds_cause)c));
  if (drive->result->with_images) ds_out_text(out, ",\"images\":null,\"image_tokens\":null");
  ds_out_text(out, ",\"itl_ms\":[]}\n");
}

static void jsonl_row(ds_outfile *out, const ds_drive *drive, const ds_record *q,
                      uint64_t trace_index, const char *class_name) {
  if (q->failed) {
    const ds_rejected f = {.index = trace_index,
                           .request = {.arrival_ns = q->arrival_ns,
                                       .input_tokens = q->input_tokens,
                                       .output_tokens = q->output_tokens}};
    jsonl_failed(out, drive, &f, status_of(drive, q), class_name);
    return;
  }
  jsonl_begin(out, drive, trace_index, class_name);
  char *start = ds_out_room(out, DS_OUT_ROOM), *p = start;
  p = put_field_time(p, ",\"arrival_s\":", q->arrival_ns, 9);
  p = put_field_u64(p, ",\"input_tokens\":", q->input_tokens);
  p = put_field_u64(p, ",\"output_tokens\":", q->output_tokens);
  p = put_field_u64(p, ",\"cached_tokens\":", q->cached_tokens);
  p = put_text(p, ",\"status\":\"");
  p = put_text(p, status_of(drive, q));
  p = put_field_u64(p, "\",\"replica\":", q->replica);
  p = put_field_time(p, ",\"scheduled_s\":", q->scheduled_ns, 9);
  p = put_field_time(p, ",\"first_token_s\":", q->first_token_ns, 9);
  p = put_field_time(p, ",\"finish_s\":", q->finish_ns, 9);
  p = put_field_time(p, ",\"ttft_ms\":", q->first_token_ns - q->arrival_ns, 6);
  if (q->output_tokens > 1)
    p = put_field_time(p, ",\"tpot_ms\":", tpot_ns(q), 6);
  else
    p = put_text(p, ",\"tpot_ms\":null");
  p = put_field_time(p, ",\"e2el_ms\":", q->finish_ns - q->arrival_ns, 6);
  p = put_field_time(p, ",\"max_itl_ms\":", q->max_itl_ns, 6);
  p = put_field_u64(p, ",\"preemptions\":", q->preemptions);
  ds_out_used(out, (size_t)(p - start));
  for (int c = 0; c < ds_causes_shown(drive->result); c++) {
    p = start = ds_out_room(out, DS_OUT_ROOM);
    p = put_text(p, ",\"blame_");
    p = put_text(p, ds_cause_name((ds_cause)c));
    p = put_field_time(p, "_ms\":", q->blame_ns[c], 6);
    ds_out_used(out, (size_t)(p - start));
  }
  if (drive->result->with_images)
    ds_out_printf(out, ",\"images\":%u,\"image_tokens\":%u", (unsigned)q->images, (unsigned)q->image_tokens);
  jsonl_gaps(out, drive->result, q);
}

bool ds_requests_jsonl(ds_outfile *out, const ds_drive *drive, const char *class_name) {
  const size_t n = all_of(drive);
  const ds_record **rows = in_order(drive);
  if (rows == NULL) return false;
  const ds_oversize *o = &drive->oversize;
  size_t away = 0;
  for (size_t i = 0; i <= n && !ds_out_failed(out); i++) {
    uint64_t index = i < n ? ds_oversize_trace_index(o, rows[i]->index) : UINT64_MAX;
    for (; away < o->n && o->rejected[away].index < index; away++)
      jsonl_failed(out, drive, &o->rejected[away], "rejected",
                   class_of(drive, o->rejected[away].index, class_name));
    if (i < n) jsonl_row(out, drive, rows[i], index, class_of(drive, index, class_name));
  }
  free(rows);
  return true;
}
