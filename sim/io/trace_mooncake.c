// SPDX-License-Identifier: GPL-3.0-or-later
/* Mooncake's trace (JSONL: timestamp in ms, input_length, output_length, hash_ids of 512-token
 * blocks) and what others made of it: Dynamo's rows and agentic rows, AIPerf's mooncake_trace,
 * vLLM's timed traces. Qwen-Bailian's trace is a cousin with seconds, 16-token blocks and chains of
 * chats. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_flat.h"
#include "io/trace_formats.h"

static const ds_flat_key mooncake_keys[] = {
    {"timestamp", DS_FIELD_ARRIVAL, DS_KIND_TIME, DS_NS_PER_MS},
    {"created_time", DS_FIELD_ARRIVAL, DS_KIND_TIME, DS_NS_PER_MS},
    {"input_length", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"input_tokens", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"output_length", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"output_tokens", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"hash_ids", DS_FLAT_BLOCKS, DS_KIND_BLOCKS, 0},
    {"request_id", DS_FIELD_ID, DS_KIND_TEXT, 0},
    {"session_id", DS_FIELD_SESSION, DS_KIND_TEXT, 0},
    {"delay", DS_FIELD_THINK, DS_KIND_TIME, DS_NS_PER_MS},
    {"delay_ms", DS_FIELD_THINK, DS_KIND_TIME, DS_NS_PER_MS},
    {"tool_wait_ms", DS_FLAT_TOOL, DS_KIND_TIME, DS_NS_PER_MS},
    {"wait_for", DS_FLAT_WAIT_FOR, DS_KIND_NAMES, 0},
    {"priority", DS_FIELD_PRIORITY, DS_KIND_INTEGER, 0},
    {"policy_class", DS_FIELD_CLASS, DS_KIND_TEXT, 0},
    {"text_input", DS_FLAT_TEXT, DS_KIND_ANY, 0},
    {"messages", DS_FLAT_TEXT, DS_KIND_ANY, 0},
    {"payload", DS_FLAT_TEXT, DS_KIND_ANY, 0},
};

typedef struct mooncake {
  ds_flat flat;
  uint32_t block_tokens;
  bool agentic; /* rows say whom they wait for */
} mooncake;

static bool take_blocks(ds_flat *f, const ds_row *row, ds_more *more, uint32_t block_tokens,
                        ds_diag *d) {
  const ds_flat_value *b = &f->v[DS_FLAT_BLOCKS];
  if (!b->given) return true;
  more->blocks = b->blocks;
  more->n_blocks = b->n;
  more->block_tokens = block_tokens;
  return ds_rows_check_blocks(&f->rows, b->at, row->input_tokens, b->n, block_tokens,
                              f->w->block_tail, &more->tail, d);
}

static bool mooncake_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  const mooncake *m = (const mooncake *)f;
  const ds_flat_value *v = f->v;
  (void)skip;
  if (!ds_flat_need(f, DS_FIELD_INPUT, "input_length", d) ||
      !ds_flat_need(f, DS_FIELD_OUTPUT, "output_length", d) || !ds_flat_take(f, row, more, d))
    return false;
  row->priority = -row->priority; /* there a larger number is more urgent */
  if (v[DS_FLAT_TOOL].given)
    more->think_ns = (more->think_ns > 0 ? more->think_ns : 0) + v[DS_FLAT_TOOL].number;
  if (m->agentic) {
    more->has_key = v[DS_FIELD_ID].given;
    if (more->has_key) more->key = ds_hash_text(v[DS_FIELD_ID].text);
    more->has_after = true;
    more->n_after = (uint32_t)v[DS_FLAT_WAIT_FOR].n;
    more->also_keys = v[DS_FLAT_WAIT_FOR].blocks;
    if (more->n_after > 0) more->after_key = more->also_keys[more->n_after - 1];
  }
  bool chained = m->agentic ? more->n_after > 0 : more->session != NULL;
  if (v[DS_FIELD_ARRIVAL].given)
    row->time_ns = v[DS_FIELD_ARRIVAL].number;
  else if (chained)
    row->time_ns = DS_ROW_CHAINED;
  else if (!ds_flat_need(f, DS_FIELD_ARRIVAL, "timestamp", d))
    return false;
  return take_blocks(f, row, more, m->block_tokens, d);
}

static void flat_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(s);
}

static bool mentions(const ds_input *in, const char *text) {
  size_t n = (size_t)(in->end - in->at), m = strlen(text);
  const char *p = in->at;
  for (;;) {
    p = memchr(p, '"', n - (size_t)(p - in->at));
    if (p == NULL || (size_t)(in->end - p) < m) return false;
    if (memcmp(p, text, m) == 0) return true;
    p++;
  }
}

bool ds_mooncake_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const ds_source source = {.format = "mooncake",
                                   .time_name = "timestamp",
                                   .input_name = "input_length",
                                   .output_name = "output_length",
                                   .rebase = true,
                                   .rows = ds_flat_rows,
                                   .id = ds_rows_id,
                                   .close = flat_close};
  *out = NULL;
  if (!ds_input_peek(in, 64u << 10, d)) return false;
  ds_source s = source;
  s.input = in;
  mooncake *m = ds_rows_new(sizeof *m, &s, d);
  if (m == NULL) return false;
  m->flat.key = mooncake_keys;
  m->flat.n_keys = DS_ARRAY_LEN(mooncake_keys);
  m->flat.row = mooncake_row;
  m->flat.w = w;
  m->block_tokens = w->block_tokens > 0 ? w->block_tokens : 512;
  m->agentic = mentions(in, "\"wait_for\"") || mentions(in, "\"request_kind\"");
  bool delays =
      mentions(in, "\"delay\"") || mentions(in, "\"delay_ms\"") || mentions(in, "\"tool_wait_ms\"");
  m->flat.rows.source.chained = m->agentic || delays;
  if (mentions(in, "\"priority\""))
    m->flat.rows.source.note =
        "priorities were turned round: in this format a larger number is more urgent";
  *out = &m->flat.rows.source;
  return true;
}

/* ---- Qwen-Bailian ---- */

static const ds_flat_key bailian_keys[] = {
    {"chat_id", DS_FLAT_KEY, DS_KIND_COUNT, 0},
    {"parent_chat_id", DS_FLAT_PARENT, DS_KIND_INTEGER, 0},
    {"timestamp", DS_FIELD_ARRIVAL, DS_KIND_TIME, DS_NS_PER_S},
    {"input_length", DS_FIELD_INPUT, DS_KIND_TOKENS, 0},
    {"output_length", DS_FIELD_OUTPUT, DS_KIND_TOKENS, 0},
    {"type", DS_FIELD_CLASS, DS_KIND_TEXT, 0},
    {"turn", DS_FIELD_TURN, DS_KIND_COUNT, 0},
    {"hash_ids", DS_FLAT_BLOCKS, DS_KIND_BLOCKS, 0},
};

typedef struct chat {
  uint64_t id; /* 1 + the chat's */
  const char *session;
} chat;

typedef struct bailian {
  ds_flat flat;
  uint32_t block_tokens;
  chat *chat; /* open addressing */
  size_t n, room;
} bailian;

static chat *chat_of(bailian *b, uint64_t id) {
  if (b->n * 2 >= b->room) {
    size_t room = b->room == 0 ? 1024 : 2 * b->room;
    chat *c = calloc(room, sizeof *c);
    if (c == NULL) return NULL;
    for (size_t i = 0; i < b->room; i++) {
      if (b->chat[i].id == 0) continue;
      size_t k = (size_t)ds_mix64(b->chat[i].id) & (room - 1);
      while (c[k].id != 0) k = (k + 1) & (room - 1);
      c[k] = b->chat[i];
    }
    free(b->chat);
    b->chat = c;
    b->room = room;
  }
  size_t k = (size_t)ds_mix64(id + 1) & (b->room - 1);
  while (b->chat[k].id != 0 && b->chat[k].id != id + 1) k = (k + 1) & (b->room - 1);
  return &b->chat[k];
}

static bool bailian_row(ds_flat *f, ds_row *row, ds_more *more, bool *skip, ds_diag *d) {
  bailian *b = (bailian *)f;
  const ds_flat_value *v = f->v;
  (void)skip;
  if (!ds_flat_need(f, DS_FLAT_KEY, "chat_id", d) ||
      !ds_flat_need(f, DS_FIELD_ARRIVAL, "timestamp", d) ||
      !ds_flat_need(f, DS_FIELD_INPUT, "input_length", d) ||
      !ds_flat_need(f, DS_FIELD_OUTPUT, "output_length", d) || !ds_flat_take(f, row, more, d))
    return false;
  row->time_ns = v[DS_FIELD_ARRIVAL].number;
  uint64_t id = (uint64_t)v[DS_FLAT_KEY].number;
  char text[24];
  int n = snprintf(text, sizeof text, "%llu", (unsigned long long)id);
  row->id = ds_rows_id_of(&f->rows, text, (size_t)n);
  more->has_key = more->has_after = true;
  more->key = id;
  if (more->turn > 0) more->turn--; /* there from 1 on */
  const chat *parent = NULL;
  if (v[DS_FLAT_PARENT].given && v[DS_FLAT_PARENT].number >= 0) {
    more->n_after = 1;
    more->after_key = (uint64_t)v[DS_FLAT_PARENT].number;
    parent = chat_of(b, more->after_key);
    if (parent == NULL) return ds_rows_no_memory(&f->rows, d);
  }
  more->session =
      parent != NULL && parent->id != 0 ? parent->session : ds_rows_keep(&f->rows, text, (size_t)n);
  chat *c = chat_of(b, id);
  if (c == NULL || more->session == NULL || row->id == DS_ROW_NO_ID)
    return ds_rows_no_memory(&f->rows, d);
  if (c->id != 0) {
    ds_rows_bad(&f->rows, v[DS_FLAT_KEY].at, d, "chat_id %s appears a second time", text);
    ds_diag_expected(d, "an id of its own for every request");
    return false;
  }
  *c = (chat){id + 1, more->session};
  b->n++;
  return take_blocks(f, row, more, b->block_tokens, d);
}

static void bailian_close(ds_source *s) {
  free(((bailian *)s)->chat);
  flat_close(s);
}

bool ds_bailian_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "bailian",
                 .time_name = "timestamp",
                 .input_name = "input_length",
                 .output_name = "output_length",
                 .input = in,
                 .rebase = true,
                 .rows = ds_flat_rows,
                 .id = ds_rows_id,
                 .close = bailian_close};
  *out = NULL;
  bailian *b = ds_rows_new(sizeof *b, &s, d);
  if (b == NULL) return false;
  b->flat.key = bailian_keys;
  b->flat.n_keys = DS_ARRAY_LEN(bailian_keys);
  b->flat.row = bailian_row;
  b->flat.w = w;
  b->block_tokens = w->block_tokens > 0 ? w->block_tokens : 16;
  *out = &b->flat.rows.source;
  return true;
}
