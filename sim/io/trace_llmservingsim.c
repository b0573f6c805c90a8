// SPDX-License-Identifier: GPL-3.0-or-later
/* LLMServingSim's datasets (JSONL): a request a line, or an agent's session a line, whose next
 * sub-request starts when the one before it and its tool are finished. Token ids, where they are
 * given, become block ids: a chained hash of each full block. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_formats.h"
#include "io/trace_rows.h"

#define BLOCK_TOKENS 16

typedef struct lss {
  ds_rows rows;
  uint32_t block_tokens;
  ds_row *queue;
  size_t n, at, room;
} lss;

typedef struct item { /* a request, or one of a session */
  const char *at, *in_at, *out_at, *time_at;
  bool has_in, has_out, has_time, has_tool;
  uint32_t in, out;
  int64_t time_ns, tool_ns;
  const uint64_t *ids;
  uint64_t n_ids;
  const char *session, *id;
  bool has_parts;
  ds_pull parts;
} item;

static bool member(lss *k, ds_pull *p, ds_text key, item *t, ds_diag *d) {
  ds_rows *r = &k->rows;
  ds_pull_kind(p);
  if (ds_text_is(key, "input_toks")) {
    t->in_at = p->at;
    return ds_rows_tokens(r, p, "input_toks", &t->has_in, &t->in, d);
  }
  if (ds_text_is(key, "output_toks")) {
    t->out_at = p->at;
    return ds_rows_tokens(r, p, "output_toks", &t->has_out, &t->out, d);
  }
  if (ds_text_is(key, "arrival_time_ns")) {
    t->time_at = p->at;
    return ds_rows_time(r, p, "arrival_time_ns", 1, &t->has_time, &t->time_ns, d);
  }
  /* The file of a measured run: seconds since 1970. */
  if (ds_text_is(key, "arrival_time")) {
    t->time_at = p->at;
    return ds_rows_time(r, p, "arrival_time", DS_NS_PER_S, &t->has_time, &t->time_ns, d);
  }
  if (ds_text_is(key, "tool_duration_ns"))
    return ds_rows_time(r, p, "tool_duration_ns", 1, &t->has_tool, &t->tool_ns, d);
  if (ds_text_is(key, "input_tok_ids"))
    return ds_rows_blocks(r, p, "input_tok_ids", &t->ids, &t->n_ids, d);
  if (ds_text_is(key, "session_id")) return ds_rows_text(r, p, "session_id", &t->session, d);
  if (ds_text_is(key, "request_id")) return ds_rows_text(r, p, "request_id", &t->id, d);
  if (ds_text_is(key, "sub_requests") && ds_pull_kind(p) == '[') {
    t->has_parts = true;
    t->parts = *p;
  }
  return ds_pull_skip(p) || ds_rows_not_json(r, p, d);
}

static bool read_item(lss *k, ds_pull *p, item *t, ds_diag *d) {
  ds_text key;
  memset(t, 0, sizeof *t);
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(&k->rows, p, d);
  t->at = p->at;
  for (ds_pull_map(p); ds_pull_key(p, &key);)
    if (!member(k, p, key, t, d)) return false;
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

static bool blocks_of(lss *k, const item *t, ds_more *m) {
  uint64_t n = (t->n_ids < t->in ? t->n_ids : t->in) / k->block_tokens;
  if (n == 0) return true;
  uint64_t *ids = ds_arena_take(&k->rows.rows, (size_t)n * sizeof *ids), h = 0;
  if (ids == NULL) return false;
  for (uint64_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < k->block_tokens; j++)
      h = ds_mix64(h ^ t->ids[i * k->block_tokens + j]) + 1;
    ids[i] = h;
  }
  m->blocks = ids;
  m->n_blocks = n;
  m->block_tokens = k->block_tokens;
  return true;
}

static bool add(lss *k, const item *t, const char *session, uint32_t turn, int64_t time_ns,
                int64_t think_ns, ds_diag *d) {
  ds_rows *r = &k->rows;
  if (!t->has_in || !t->has_out) {
    ds_rows_bad(r, t->at, d, "a request without %s", t->has_in ? "output_toks" : "input_toks");
    ds_diag_expected(d, "input_toks and output_toks in every request");
    static const char *const valid[] = {"input_toks", "output_toks"};
    size_t bytes = r->value_bytes < 1 << 16 ? r->value_bytes : 1 << 16;
    ds_diag_hint_misspelt(d, valid, 2, t->has_in, r->value, bytes, ':');
    return false;
  }
  if (k->n == k->room) {
    size_t room = k->room == 0 ? 64 : 2 * k->room;
    ds_row *q = realloc(k->queue, room * sizeof *q);
    if (q == NULL) return ds_rows_no_memory(r, d);
    k->queue = q;
    k->room = room;
  }
  ds_more *m = ds_rows_more(r);
  if (m == NULL || !blocks_of(k, t, m)) return ds_rows_no_memory(r, d);
  m->session = session;
  m->turn = turn;
  m->has_turn = session != NULL;
  m->think_ns = think_ns;
  int64_t id = t->id != NULL ? ds_rows_id_of(r, t->id, strlen(t->id)) : DS_ROW_NO_ID;
  k->queue[k->n++] = (ds_row){.time_ns = time_ns,
                              .line = r->value_line,
                              .id = id,
                              .input_tokens = t->in,
                              .output_tokens = t->out,
                              .time_column = ds_rows_column(r, t->time_at),
                              .input_column = ds_rows_column(r, t->in_at),
                              .output_column = ds_rows_column(r, t->out_at),
                              .more = m};
  return true;
}

static bool take_line(lss *k, ds_pull *p, ds_diag *d) {
  ds_rows *r = &k->rows;
  item t;
  if (!read_item(k, p, &t, d)) return false;
  if (!ds_pull_done(p)) return ds_rows_not_json(r, p, d);
  if (!t.has_time) {
    ds_rows_bad(r, NULL, d, "a request without arrival_time_ns");
    ds_diag_expected(d, "arrival_time_ns in every line");
    return false;
  }
  if (!t.has_parts) return add(k, &t, t.session, 0, t.time_ns, -1, d);
  const char *session = t.session;
  if (session == NULL) {
    char name[40];
    int n = snprintf(name, sizeof name, "line-%lld", (long long)r->value_line);
    session = ds_rows_keep(r, name, (size_t)n);
    if (session == NULL) return ds_rows_no_memory(r, d);
  }
  uint32_t turn = 0;
  int64_t think_ns = -1;
  for (ds_pull_list(&t.parts); ds_pull_next(&t.parts); turn++) {
    item part;
    if (!read_item(k, &t.parts, &part, d)) return false;
    if (!add(k, &part, session, turn, turn == 0 ? t.time_ns : DS_ROW_CHAINED, think_ns, d))
      return false;
    think_ns = part.has_tool ? part.tool_ns : 0;
  }
  return t.parts.wrong == NULL || ds_rows_not_json(r, &t.parts, d);
}

static bool lss_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  lss *k = (lss *)s;
  *n = 0;
  while (k->at == k->n) {
    ds_pull p;
    k->n = k->at = 0;
    ds_rows_begin(&k->rows);
    if (!ds_rows_line(&k->rows, &p, d)) return false;
    if (p.begin == NULL) return true;
    if (!take_line(k, &p, d)) {
      k->n = 0;
      return false;
    }
  }
  *n = ds_rows_hand_out(rows, cap, k->queue, k->n, &k->at);
  return true;
}

static void lss_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(((lss *)s)->queue);
  free(s);
}

bool ds_llmservingsim_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const char agentic[] = "\"sub_requests\"";
  ds_source s = {.format = "llmservingsim",
                 .time_name = "arrival_time_ns",
                 .input_name = "input_toks",
                 .output_name = "output_toks",
                 .input = in,
                 .rebase = true,
                 .unsorted_normal = true,
                 .rows = lss_rows,
                 .id = ds_rows_id,
                 .close = lss_close};
  *out = NULL;
  if (!ds_input_peek(in, 64u << 10, d)) return false;
  for (const char *p = in->at; p + sizeof agentic <= in->end && !s.chained; p++)
    s.chained = *p == '"' && memcmp(p, agentic, sizeof agentic - 1) == 0;
  lss *k = ds_rows_new(sizeof *k, &s, d);
  if (k == NULL) return false;
  k->block_tokens = w->block_tokens > 0 ? w->block_tokens : BLOCK_TOKENS;
  *out = &k->rows.source;
  return true;
}
