// SPDX-License-Identifier: GPL-3.0-or-later
/* Request logs that are one JSON object a request: LiteLLM's, and Dynamo's request traces. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_flat.h"
#include "io/trace_formats.h"

static void flat_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(s);
}

static bool open_flat(const ds_source *source, const ds_workload *w, const ds_flat_key *key,
                      size_t n_keys,
                      bool (*row)(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d),
                      ds_source **out, ds_diag *d) {
  *out = NULL;
  ds_flat *f = ds_rows_new(sizeof *f, source, d);
  if (f == NULL) return false;
  f->key = key;
  f->n_keys = n_keys;
  f->row = row;
  f->w = w;
  *out = &f->rows.source;
  return true;
}

/* ---- LiteLLM ---- */

static const ds_flat_key litellm_keys[] = {
    {"startTime", DS_FIELD_ARRIVAL, DS_KIND_STAMP, 0},
    {"endTime", DS_FLAT_END, DS_KIND_STAMP, 0},
    {"completionStartTime", DS_FLAT_FIRST, DS_KIND_STAMP, 0},
    {"timestamp", DS_FLAT_AGE, DS_KIND_STAMP, 0},
    {"prompt_tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"completion_tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"status", DS_FIELD_STATUS, DS_KIND_TEXT, 0},
    {"model", DS_FIELD_MODEL, DS_KIND_TEXT, 0},
    {"id", DS_FIELD_ID, DS_KIND_TEXT, 0},
    {"request_id", DS_FIELD_ID, DS_KIND_TEXT, 0},
    {"session_id", DS_FIELD_SESSION, DS_KIND_TEXT, 0},
    {"end_user", DS_FIELD_TENANT, DS_KIND_TEXT, 0},
    {"cache_hit", DS_FLAT_CACHED, DS_KIND_TRUE, 0},
};

static bool litellm_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  const ds_flat_value *v = f->v;
  (void)skip;
  if (!v[DS_FIELD_ARRIVAL].given && v[DS_FLAT_AGE].given) {
    ds_rows_bad(&f->rows, v[DS_FLAT_AGE].at, d,
                "a log of completion times: timestamp is when the request was over and logged, and "
                "there is no startTime");
    ds_diag_expected(
        d, "startTime in every line; `map: {arrival: timestamp:stamp, input_tokens: prompt_tokens, "
           "output_tokens: completion_tokens}` takes it for the arrival all the same");
    return false;
  }
  if (!ds_flat_need(f, DS_FIELD_ARRIVAL, "startTime", d) ||
      !ds_flat_need(f, DS_FIELD_INPUT, "prompt_tokens", d) ||
      !ds_flat_need(f, DS_FIELD_OUTPUT, "completion_tokens", d) || !ds_flat_take(f, row, more, d))
    return false;
  row->time_ns = v[DS_FIELD_ARRIVAL].number;
  const char *status = v[DS_FIELD_STATUS].text;
  if (v[DS_FLAT_CACHED].number != 0)
    more->status = DS_ROW_CACHED;
  else if (status != NULL && strcmp(status, "success") != 0)
    more->status = DS_ROW_FAILED;
  if (v[DS_FLAT_END].given) more->e2e_ns = v[DS_FLAT_END].number - row->time_ns;
  if (v[DS_FLAT_FIRST].given) more->ttft_ns = v[DS_FLAT_FIRST].number - row->time_ns;
  return true;
}

bool ds_litellm_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "litellm",
                 .time_name = "startTime",
                 .input_name = "prompt_tokens",
                 .output_name = "completion_tokens",
                 .input = in,
                 .rebase = true,
                 .zeros_normal = true,
                 .unsorted_normal = true,
                 .rows = ds_flat_rows,
                 .id = ds_rows_id,
                 .close = flat_close};
  return open_flat(&s, w, litellm_keys, DS_ARRAY_LEN(litellm_keys), litellm_row, out, d);
}

/* ---- Dynamo ---- */

#define DYNAMO(prefix)                                                                             \
  {prefix "event_type", DS_FLAT_EVENT, DS_KIND_TEXT, 0},                                           \
      {prefix "agent_context.session_id", DS_FIELD_SESSION, DS_KIND_TEXT, 0},                      \
      {prefix "request.request_id", DS_FIELD_ID, DS_KIND_TEXT, 0},                                 \
      {prefix "request.model", DS_FIELD_MODEL, DS_KIND_TEXT, 0},                                   \
      {prefix "request.input_tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},                          \
      {prefix "request.output_tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},                        \
      {prefix "request.request_received_ms", DS_FIELD_ARRIVAL, DS_KIND_TIME, DS_NS_PER_MS},        \
      {prefix "request.prefill_wait_time_ms", DS_FLAT_QUEUE, DS_KIND_TIME, DS_NS_PER_MS},          \
      {prefix "request.ttft_ms", DS_FIELD_TTFT, DS_KIND_TIME, DS_NS_PER_MS},                       \
      {prefix "request.total_time_ms", DS_FIELD_E2E, DS_KIND_TIME, DS_NS_PER_MS},                  \
      {prefix "request.replay.trace_block_size", DS_FLAT_BLOCK_TOKENS, DS_KIND_COUNT, 0}, {        \
    prefix "request.replay.input_sequence_hashes", DS_FLAT_BLOCKS, DS_KIND_BLOCKS, 0               \
  }

static const ds_flat_key dynamo_keys[] = {DYNAMO(""), DYNAMO("event.")};

static bool dynamo_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  const ds_flat_value *v = f->v;
  if (v[DS_FLAT_EVENT].text != NULL && strcmp(v[DS_FLAT_EVENT].text, "request_end") != 0) {
    *skip = true; /* payloads and tools: no request */
    return true;
  }
  if (!ds_flat_need(f, DS_FIELD_ARRIVAL, "request.request_received_ms", d) ||
      !ds_flat_need(f, DS_FIELD_INPUT, "request.input_tokens", d) ||
      !ds_flat_need(f, DS_FIELD_OUTPUT, "request.output_tokens", d) ||
      !ds_flat_take(f, row, more, d))
    return false;
  row->time_ns = v[DS_FIELD_ARRIVAL].number;
  const ds_flat_value *b = &v[DS_FLAT_BLOCKS];
  if (!b->given) return true;
  int64_t size = v[DS_FLAT_BLOCK_TOKENS].number;
  if (size < 1 || size > 1 << 20) {
    ds_rows_bad(&f->rows, b->at, d, "hashes of blocks without request.replay.trace_block_size");
    ds_diag_expected(d, "the tokens of a block beside input_sequence_hashes");
    return false;
  }
  more->blocks = b->blocks;
  more->n_blocks = b->n;
  more->block_tokens = (uint32_t)size;
  return ds_rows_check_blocks(&f->rows, b->at, row->input_tokens, b->n, (uint32_t)size,
                              f->w->block_tail, &more->tail, d);
}

bool ds_dynamo_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "dynamo",
                 .time_name = "request_received_ms",
                 .input_name = "input_tokens",
                 .output_name = "output_tokens",
                 .input = in,
                 .rebase = true,
                 .zeros_normal = true,
                 .unsorted_normal = true,
                 .rows = ds_flat_rows,
                 .id = ds_rows_id,
                 .close = flat_close};
  return open_flat(&s, w, dynamo_keys, DS_ARRAY_LEN(dynamo_keys), dynamo_row, out, d);
}
