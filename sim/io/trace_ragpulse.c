// SPDX-License-Identifier: GPL-3.0-or-later
/* RAGPulse's trace (JSONL): a prompt is a list of segments (system prompt, passages, history,
 * search results, question), each with an id and, in the files that lie beside the trace, a length.
 *
 * Segments have no fixed size, so their ids are no block ids. With the lengths, exact blocks can be
 * made: a block of 16 tokens is decided by the segments up to the one in which it ends. Without
 * them, nothing is shared. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_formats.h"
#include "io/trace_rows.h"

#define BLOCK_TOKENS 16

static const struct {
  const char *key, *file, *id; /* in the order of the prompt */
} parts[] = {{"sys_prompt", "1_sys_prompt.jsonl", "sys_prompt_id"},
             {"passages_ids", "2_passages.jsonl", "passage_id"},
             {"history", "3_history.jsonl", "history_id"},
             {"web_search", "5_web_search.jsonl", "web_search_id"},
             {"user_input", "4_user_input.jsonl", "user_input_id"}};
#define N_PARTS DS_ARRAY_LEN(parts)

typedef struct length {
  uint64_t id; /* 1 + the segment's */
  uint32_t tokens;
} length;

typedef struct rag {
  ds_rows rows;
  uint32_t block_tokens;
  length *length; /* open addressing; room 0: not known */
  size_t n, room;
} rag;

static length *slot_of(const rag *k, uint64_t id) {
  size_t i = (size_t)ds_mix64(id + 1) & (k->room - 1);
  while (k->length[i].id != 0 && k->length[i].id != id + 1) i = (i + 1) & (k->room - 1);
  return &k->length[i];
}

static bool keep_length(rag *k, uint64_t id, uint32_t tokens) {
  if (k->n * 2 >= k->room) {
    rag larger = *k;
    larger.room = k->room == 0 ? 4096 : 2 * k->room;
    larger.length = calloc(larger.room, sizeof *larger.length);
    if (larger.length == NULL) return false;
    for (size_t i = 0; i < k->room; i++)
      if (k->length[i].id != 0) *slot_of(&larger, k->length[i].id - 1) = k->length[i];
    free(k->length);
    k->length = larger.length;
    k->room = larger.room;
  }
  length *s = slot_of(k, id);
  k->n += s->id == 0;
  *s = (length){id + 1, tokens};
  return true;
}

/* One file of lengths. *found false: it is not there. */
static bool read_lengths(rag *k, const char *path, const char *id_key, bool *found, ds_diag *d) {
  ds_input *in;
  ds_diag own = {.exit = DS_EXIT_OK};
  *found = false;
  if (!ds_input_open(path, NULL, &in, &own)) return true;
  *found = true;
  ds_rows r = {.source = {.input = in}};
  bool good = true;
  for (;;) {
    ds_pull p;
    good = ds_rows_line(&r, &p, d);
    if (!good || p.begin == NULL) break;
    ds_text key;
    uint64_t id = 0;
    uint32_t tokens = 0;
    bool has_id = false, has_tokens = false;
    if (ds_pull_kind(&p) != '{') {
      good = ds_rows_not_json(&r, &p, d);
      break;
    }
    for (ds_pull_map(&p); good && ds_pull_key(&p, &key);) {
      if (ds_text_is(key, id_key))
        good = ds_rows_count(&r, &p, id_key, INT64_MAX, &has_id, &id, d);
      else if (ds_text_is(key, "token_length"))
        good = ds_rows_tokens(&r, &p, "token_length", &has_tokens, &tokens, d);
      else
        good = ds_pull_skip(&p) || ds_rows_not_json(&r, &p, d);
    }
    if (good && p.wrong != NULL) good = ds_rows_not_json(&r, &p, d);
    if (!good) break;
    if (!has_id || !has_tokens) {
      good = ds_rows_bad(&r, NULL, d, "a segment without %s", has_id ? "token_length" : id_key);
      break;
    }
    if (!keep_length(k, id, tokens)) {
      good = ds_rows_no_memory(&r, d);
      break;
    }
  }
  ds_rows_free(&r);
  ds_input_close(in);
  return good;
}

typedef struct segments {
  const uint64_t *id[N_PARTS];
  uint64_t n[N_PARTS];
} segments;

static bool read_segments(rag *k, ds_pull *p, segments *s, ds_diag *d) {
  ds_text key;
  if (ds_pull_kind(p) != '{') {
    if (p->wrong != NULL) return ds_rows_not_json(&k->rows, p, d);
    ds_rows_bad(&k->rows, p->at, d, "hash_ids is not an object");
    ds_diag_expected(d, "{\"sys_prompt\": [...], \"passages_ids\": [...], ...}; a plain list would "
                        "be a Mooncake trace");
    return false;
  }
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    size_t i = 0;
    while (i < N_PARTS && !ds_text_is(key, parts[i].key)) i++;
    if (i == N_PARTS ? !ds_pull_skip(p) && !ds_rows_not_json(&k->rows, p, d)
                     : !ds_rows_blocks(&k->rows, p, parts[i].key, &s->id[i], &s->n[i], d))
      return false;
  }
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

/* Blocks from segments with lengths. What the template adds stands at the end and is nobody else's.
 */
static bool make_blocks(rag *k, const segments *s, uint32_t input, ds_more *m) {
  uint64_t room = input / k->block_tokens, n = 0, tokens = 0, chain = 0;
  if (k->room == 0 || room == 0) return true;
  uint64_t *ids = ds_arena_take(&k->rows.rows, (size_t)room * sizeof *ids);
  if (ids == NULL) return false;
  for (size_t i = 0; i < N_PARTS; i++) {
    for (uint64_t j = 0; j < s->n[i]; j++) {
      const length *l = slot_of(k, s->id[i][j]);
      if (l->id == 0) goto done; /* of unknown length: nothing behind it is known */
      chain = ds_mix64(chain ^ (s->id[i][j] + 1)) + i;
      tokens += l->tokens;
      while (n < room && (n + 1) * k->block_tokens <= tokens) {
        ids[n] = ds_mix64(chain ^ ds_mix64(n + 1));
        n++;
      }
    }
  }
done:
  m->blocks = ids;
  m->n_blocks = n;
  m->block_tokens = k->block_tokens;
  return true;
}

static bool rag_line(rag *k, ds_pull *p, ds_row *row, ds_diag *d) {
  ds_rows *r = &k->rows;
  segments s;
  ds_text key;
  bool has_time = false, has_in = false, has_out = false;
  const char *time_at = NULL, *in_at = NULL, *out_at = NULL;
  memset(&s, 0, sizeof s);
  ds_more *m = ds_rows_more(r);
  if (m == NULL) return ds_rows_no_memory(r, d);
  *row = (ds_row){.line = r->value_line, .id = DS_ROW_NO_ID, .more = m};
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(r, p, d);
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    bool good;
    ds_pull_kind(p);
    if (ds_text_is(key, "timestamp")) {
      time_at = p->at;
      good = ds_rows_time(r, p, "timestamp", DS_NS_PER_S, &has_time, &row->time_ns, d);
    } else if (ds_text_is(key, "input_length")) {
      in_at = p->at;
      good = ds_rows_tokens(r, p, "input_length", &has_in, &row->input_tokens, d);
    } else if (ds_text_is(key, "output_length")) {
      out_at = p->at;
      good = ds_rows_tokens(r, p, "output_length", &has_out, &row->output_tokens, d);
    } else if (ds_text_is(key, "session_id")) {
      good = ds_rows_text(r, p, "session_id", &m->session, d);
    } else if (ds_text_is(key, "hash_ids")) {
      good = read_segments(k, p, &s, d);
    } else {
      good = ds_pull_skip(p) || ds_rows_not_json(r, p, d);
    }
    if (!good) return false;
  }
  if (!ds_pull_done(p)) return ds_rows_not_json(r, p, d);
  if (!has_time || !has_in || !has_out) {
    ds_rows_bad(r, NULL, d, "a request without %s",
                !has_time ? "timestamp"
                : !has_in ? "input_length"
                          : "output_length");
    ds_diag_expected(d, "timestamp, input_length and output_length in every line");
    return false;
  }
  row->time_column = ds_rows_column(r, time_at);
  row->input_column = ds_rows_column(r, in_at);
  row->output_column = ds_rows_column(r, out_at);
  return make_blocks(k, &s, row->input_tokens, m) || ds_rows_no_memory(r, d);
}

static bool rag_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  rag *k = (rag *)source;
  ds_pull p;
  (void)cap;
  *n = 0;
  ds_rows_begin(&k->rows);
  if (!ds_rows_line(&k->rows, &p, d)) return false;
  if (p.begin == NULL) return true;
  if (!rag_line(k, &p, rows, d)) return false;
  *n = 1;
  return true;
}

static void rag_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(((rag *)s)->length);
  free(s);
}

bool ds_ragpulse_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "ragpulse",
                 .time_name = "timestamp",
                 .input_name = "input_length",
                 .output_name = "output_length",
                 .input = in,
                 .rebase = true,
                 .unsorted_normal = true,
                 .note =
                     "the files with the lengths of segments (1_sys_prompt.jsonl ...) do not lie "
                     "beside the trace: prompts share nothing",
                 .rows = rag_rows,
                 .close = rag_close};
  *out = NULL;
  rag *k = ds_rows_new(sizeof *k, &s, d);
  if (k == NULL) return false;
  k->block_tokens = w->block_tokens > 0 ? w->block_tokens : BLOCK_TOKENS;
  const char *slash = strrchr(w->path, '/');
  size_t folder = slash != NULL ? (size_t)(slash - w->path) + 1 : 0;
  bool all = true;
  for (size_t i = 0; i < N_PARTS && all; i++) {
    char path[1100];
    snprintf(path, sizeof path, "%.*s%s", (int)folder, w->path, parts[i].file);
    if (!read_lengths(k, path, parts[i].id, &all, d)) {
      rag_close(&k->rows.source);
      return false;
    }
  }
  if (all) {
    k->rows.source.note = NULL;
  } else {
    free(k->length);
    k->length = NULL;
    k->room = k->n = 0;
  }
  *out = &k->rows.source;
  return true;
}
