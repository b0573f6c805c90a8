// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/merged.h"

#include <stdlib.h>
#include <string.h>

#include "io/trace_rows.h"
#include "io/trace_source.h"

#define BATCH 512

typedef struct stream {
  ds_trace *trace;
  ds_request batch[BATCH];
  size_t n, at;
  bool ended, chained;
  uint32_t tenant; /* of the whole stream; 0: as its requests have it */
  uint64_t read;   /* requests handed out */
  uint64_t *place; /* of each in the merged order, when others follow it */
  size_t cap_place;
} stream;

struct ds_merged {
  ds_source source;
  const ds_workload *w;
  stream *stream;
  size_t n;
  uint8_t *of; /* workload of each request */
  size_t n_of, cap_of;
  ds_trace_join *join;
  char id[300];
};

static bool grow(void **p, size_t *cap, size_t need, size_t size) {
  if (need < *cap) return true;
  size_t more = *cap == 0 ? 4096 : 2 * *cap;
  void *q = realloc(*p, more * size);
  if (q == NULL) return false;
  *p = q;
  *cap = more;
  return true;
}

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

/* The stream whose next request is first; NULL at the end, or when one must be read on first. */
static stream *first_of(ds_merged *m, bool *read_on) {
  stream *first = NULL;
  *read_on = false;
  for (size_t k = 0; k < m->n; k++) {
    stream *s = &m->stream[k];
    if (s->at == s->n && !s->ended) {
      *read_on = true;
      return NULL;
    }
    if (s->at == s->n) continue;
    if (first == NULL || s->batch[s->at].arrival_ns < first->batch[first->at].arrival_ns) first = s;
  }
  return first;
}

static bool refill(ds_merged *m, ds_diag *d) {
  for (size_t k = 0; k < m->n; k++) {
    stream *s = &m->stream[k];
    if (s->at < s->n || s->ended) continue;
    s->at = 0;
    if (!ds_trace_read(s->trace, s->batch, BATCH, &s->n, d)) return false;
    s->ended = s->n == 0;
  }
  return true;
}

static bool merged_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  ds_merged *m = (ds_merged *)source;
  *n = 0;
  if (!refill(m, d)) return false;
  while (*n < cap) {
    bool read_on;
    stream *s = first_of(m, &read_on);
    if (s == NULL) {
      /* What was handed out points into the batches, so reading on waits for the next call. */
      if (read_on && *n == 0 && !refill(m, d)) return false;
      if (read_on && *n == 0) continue;
      return true;
    }
    size_t k = (size_t)(s - m->stream);
    const ds_request *q = &s->batch[s->at++];
    void *of = m->of;
    bool good = grow(&of, &m->cap_of, m->n_of, sizeof *m->of);
    m->of = of;
    if (good && s->chained) {
      void *place = s->place;
      good = grow(&place, &s->cap_place, s->read, sizeof *s->place);
      s->place = place;
    }
    if (!good) return *n = 0, out_of_memory(d);
    if (s->chained) s->place[s->read] = m->n_of;
    m->of[m->n_of++] = (uint8_t)k;
    rows[(*n)++] = (ds_row){.time_ns = q->arrival_ns,
                            .id = (int64_t)(k << 48 | s->read),
                            .input_tokens = q->input_tokens,
                            .output_tokens = q->output_tokens,
                            .max_tokens = q->max_tokens,
                            .priority = q->priority,
                            .tenant = s->tenant > 0 ? s->tenant : q->tenant,
                            .stream = (uint32_t)k,
                            .after = q->after > 0 ? 1 + s->place[q->after - 1] : 0,
                            .think_ns = q->think_ns,
                            .images = q->images,
                            .image_tokens = q->image_tokens,
                            .image_at = q->image_at,
                            .image_placed = true,
                            .spans = q->spans,
                            .n_spans = q->n_spans};
    s->read++;
  }
  return true;
}

static const char *merged_id(const ds_source *source, int64_t id) {
  /* The buffer may be used again by the next call, as the header of traces says. */
  ds_merged *m = (ds_merged *)(uintptr_t)source;
  size_t k = (size_t)((uint64_t)id >> 48);
  snprintf(m->id, sizeof m->id, "%.60s/%.220s", m->w->stream[k].class_name,
           ds_trace_id(m->stream[k].trace, (uint64_t)id & 0xffffffffffffu));
  return m->id;
}

static void merged_close(ds_source *source) { (void)source; /* the merged workload outlives it */ }

bool ds_merged_open(const ds_workload *w, uint64_t seed, ds_merged **out, ds_trace **trace,
                    ds_diag *d) {
  ds_merged *m = calloc(1, sizeof *m);
  *out = m;
  *trace = NULL;
  if (m == NULL) return out_of_memory(d);
  m->w = w;
  m->stream = calloc(w->n_stream, sizeof *m->stream);
  if (m->stream == NULL) return out_of_memory(d);
  m->source = (ds_source){.format = "merged",
                          .time_name = "arrival_ns",
                          .input_name = "input_tokens",
                          .output_name = "output_tokens",
                          .rows = merged_rows,
                          .id = merged_id,
                          .close = merged_close};
  for (; m->n < w->n_stream; m->n++) {
    stream *s = &m->stream[m->n];
    /* The first draws what it would draw alone. */
    if (!ds_trace_open(&w->stream[m->n], seed + m->n * 0x9e3779b97f4a7c15u, &s->trace, d))
      return false;
    s->chained = ds_trace_is_closed(s->trace);
    if (w->stream[m->n].tenant[0] != '\0') s->tenant = ds_tenant_number(w->stream[m->n].tenant);
  }
  ds_workload whole = *w;
  for (size_t k = 0; k < m->n; k++) whole.closed_loop = whole.closed_loop || m->stream[k].chained;
  return ds_trace_start(&whole, NULL, &m->source, trace, d);
}

size_t ds_merged_stream(const ds_merged *m, uint64_t index) { return m->of[index]; }

const char *ds_merged_class(const ds_merged *m, uint64_t index) {
  return m->w->stream[m->of[index]].class_name;
}

ds_trace *ds_merged_trace(const ds_merged *m, size_t k) { return m->stream[k].trace; }

bool ds_merged_joins(ds_merged *m, const ds_trace_join **out, size_t *n) {
  *out = NULL;
  *n = 0;
  for (size_t k = 0; k < m->n; k++) {
    stream *s = &m->stream[k];
    const ds_trace_join *j;
    size_t some;
    if (!ds_trace_joins(s->trace, &j, &some)) return false;
    if (some == 0 || !s->chained) continue;
    ds_trace_join *more = realloc(m->join, (*n + some) * sizeof *more);
    if (more == NULL) return false;
    m->join = more;
    for (size_t i = 0; i < some; i++) m->join[(*n)++] = (ds_trace_join){s->place[j[i].follower], s->place[j[i].on]};
  }
  *out = m->join;
  return true;
}

void ds_merged_close(ds_merged *m) {
  if (m == NULL) return;
  for (size_t k = 0; m->stream != NULL && k < m->n; k++) {
    ds_trace_close(m->stream[k].trace);
    free(m->stream[k].place);
  }
  free(m->stream);
  free(m->join);
  free(m->of);
  free(m);
}
