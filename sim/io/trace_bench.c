// SPDX-License-Identifier: GPL-3.0-or-later
/* Result files of the benchmarks of vLLM and SGLang: an object a run, with a list for each column.
 * Newer ones say when each request was sent; of older ones only a run in which all were sent at
 * once can be had again. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_formats.h"
#include "io/trace_rows.h"

typedef struct column {
  int64_t *v;
  size_t n, room;
  const char *at;
  bool given;
} column;

enum { COL_IN, COL_OUT, COL_START, COL_TTFT, COL_LATENCY, COL_QUEUE, COL_ERROR, COL_N };

typedef struct bench {
  ds_rows rows;
  column col[COL_N];
  bool at_once, rate_given;
  bool documents_done;
  size_t n, at;
} bench;

static bool put(column *c, int64_t v) {
  if (c->n == c->room) {
    size_t room = c->room == 0 ? 1024 : 2 * c->room;
    int64_t *m = realloc(c->v, room * sizeof *m);
    if (m == NULL) return false;
    c->v = m;
    c->room = room;
  }
  c->v[c->n++] = v;
  return true;
}

static const struct {
  const char *key;
  int column;
  char kind; /* tokens, seconds, error text */
} lists[] = {{"input_lens", COL_IN, 't'},     {"output_lens", COL_OUT, 't'},
             {"start_times", COL_START, 's'}, {"ttfts", COL_TTFT, 's'},
             {"latencies", COL_LATENCY, 's'}, {"queue_times", COL_QUEUE, 's'},
             {"errors", COL_ERROR, 'e'}};

static bool read_list(bench *b, ds_pull *p, size_t which, ds_diag *d) {
  ds_rows *r = &b->rows;
  column *c = &b->col[lists[which].column];
  if (ds_pull_kind(p) != '[') return ds_pull_skip(p) || ds_rows_not_json(r, p, d);
  c->given = true;
  c->at = p->at;
  for (ds_pull_list(p); ds_pull_next(p);) {
    bool given = true;
    uint32_t tokens = 0;
    int64_t v = 0;
    if (lists[which].kind == 't') {
      if (!ds_rows_tokens(r, p, lists[which].key, &given, &tokens, d)) return false;
      v = tokens;
    } else if (lists[which].kind == 's') {
      if (!ds_rows_time(r, p, lists[which].key, DS_NS_PER_S, &given, &v, d)) return false;
      if (!given) v = -1;
    } else if (ds_pull_kind(p) == '"') {
      ds_text t;
      if (!ds_pull_text(p, &t)) return ds_rows_not_json(r, p, d);
      v = t.n > 0;
    } else if (!ds_pull_skip(p)) {
      return ds_rows_not_json(r, p, d);
    }
    if (!put(c, v)) return ds_rows_no_memory(r, d);
  }
  return p->wrong == NULL || ds_rows_not_json(r, p, d);
}

static bool read_rate(bench *b, ds_pull *p, ds_diag *d) {
  const char *text = NULL;
  if (!ds_rows_text(&b->rows, p, "request_rate", &text, d)) return false;
  b->rate_given = text != NULL;
  b->at_once = text != NULL && (strcmp(text, "inf") == 0 || strcmp(text, "Infinity") == 0);
  return true;
}

static bool check(bench *b, const char *at, ds_diag *d) {
  ds_rows *r = &b->rows;
  if (!b->col[COL_IN].given || !b->col[COL_OUT].given) {
    ds_rows_bad(r, at, d, "a benchmark's result without its requests (%s)",
                b->col[COL_IN].given ? "output_lens" : "input_lens");
    ds_diag_expected(d, "a file written with --save-detailed (SGLang: --output-details)");
    return false;
  }
  b->n = b->col[COL_IN].n;
  for (size_t i = 0; i < DS_ARRAY_LEN(lists); i++) {
    const column *c = &b->col[lists[i].column];
    if (!c->given || c->n == b->n) continue;
    ds_rows_bad(r, c->at, d, "%s has %zu entries, input_lens %zu", lists[i].key, c->n, b->n);
    ds_diag_expected(d, "one for each request");
    return false;
  }
  if (b->col[COL_START].given || b->at_once) return true;
  ds_rows_bad(r, at, d,
              "a benchmark's result that does not say when requests were sent (no start_times)");
  ds_diag_expected(d,
                   "a newer file, a run at request rate inf, or `generate:` with the run's rate");
  return false;
}

static bool read_run(bench *b, ds_pull *p, ds_diag *d) {
  ds_text key;
  for (int i = 0; i < COL_N; i++) {
    b->col[i].n = 0;
    b->col[i].given = false;
  }
  b->at_once = b->rate_given = false;
  b->n = b->at = 0;
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(&b->rows, p, d);
  const char *begin = p->at;
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    size_t i = 0;
    ds_pull_kind(p);
    while (i < DS_ARRAY_LEN(lists) && !ds_text_is(key, lists[i].key)) i++;
    bool good = i < DS_ARRAY_LEN(lists) ? read_list(b, p, i, d)
                : ds_text_is(key, "request_rate")
                    ? read_rate(b, p, d)
                    : ds_pull_skip(p) || ds_rows_not_json(&b->rows, p, d);
    if (!good) return false;
  }
  if (!ds_pull_done(p)) return ds_rows_not_json(&b->rows, p, d);
  return check(b, begin, d);
}

static bool bench_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  bench *b = (bench *)source;
  *n = 0;
  ds_rows_begin(&b->rows);
  while (b->at == b->n) {
    ds_pull p;
    if (b->documents_done) return true;
    if (!ds_rows_value(&b->rows, &p, d)) return false;
    if (p.begin == NULL) {
      b->documents_done = true;
      return true;
    }
    if (!read_run(b, &p, d)) {
      b->n = b->at = 0;
      return false;
    }
  }
  for (; *n < cap && b->at < b->n; b->at++, ++*n) {
    ds_more *m = ds_rows_more(&b->rows);
    if (m == NULL) return ds_rows_no_memory(&b->rows, d);
    const column *c = b->col;
    size_t i = b->at;
    if (c[COL_TTFT].given) m->ttft_ns = c[COL_TTFT].v[i];
    if (c[COL_LATENCY].given) m->e2e_ns = c[COL_LATENCY].v[i];
    if (c[COL_QUEUE].given) m->queue_ns = c[COL_QUEUE].v[i];
    if (c[COL_ERROR].given && c[COL_ERROR].v[i] != 0) m->status = DS_ROW_FAILED;
    rows[*n] = (ds_row){.time_ns = c[COL_START].given ? c[COL_START].v[i] : 0,
                        .line = b->rows.value_line,
                        .id = DS_ROW_NO_ID,
                        .input_tokens = (uint32_t)c[COL_IN].v[i],
                        .output_tokens = (uint32_t)c[COL_OUT].v[i],
                        .more = m};
  }
  return true;
}

static void bench_close(ds_source *s) {
  bench *b = (bench *)s;
  for (int i = 0; i < COL_N; i++) free(b->col[i].v);
  ds_rows_free(&b->rows);
  free(b);
}

bool ds_bench_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "bench",
                 .time_name = "start_times",
                 .input_name = "input_lens",
                 .output_name = "output_lens",
                 .input = in,
                 .rebase = true,
                 .zeros_normal = true,
                 .unsorted_normal = true,
                 .documents = true,
                 .rows = bench_rows,
                 .close = bench_close};
  (void)w;
  *out = NULL;
  bench *b = ds_rows_new(sizeof *b, &s, d);
  if (b == NULL) return false;
  *out = &b->rows.source;
  return true;
}
