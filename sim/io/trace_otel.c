// SPDX-License-Identifier: GPL-3.0-or-later
/* OpenTelemetry spans of calls to language models (gen_ai.*), as OTLP writes them in JSON or as a
 * flat list of spans. Of all spans those that name input tokens and are a model's own work are
 * taken; agents and tools, whose counts repeat those of the calls inside them, are left. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_formats.h"
#include "io/trace_rows.h"

typedef struct otel {
  ds_rows rows;
  ds_row *queue;
  size_t n, at, room;
} otel;

typedef struct span {
  const char *at, *time_at, *in_at, *out_at;
  bool has_start, has_end, has_in, has_out, has_ttft, has_e2e, has_queue, has_max, other, error;
  int64_t start_ns, end_ns, ttft_ns, e2e_ns, queue_ns;
  uint32_t in, out;
  uint64_t max;
  const char *id, *session, *model, *conversation;
} span;

/* A number that may be {"intValue": "12"} as OTLP has it: p then stands at what is inside. */
static bool open_value(ds_pull *p, bool *wrapped) {
  ds_text key;
  *wrapped = ds_pull_kind(p) == '{';
  return !*wrapped || (ds_pull_map(p) && ds_pull_key(p, &key));
}

static bool close_value(ds_pull *p, bool wrapped) {
  ds_text key;
  while (wrapped && ds_pull_key(p, &key))
    if (!ds_pull_skip(p)) return false;
  return p->wrong == NULL;
}

static bool attribute(otel *k, ds_pull *p, ds_text key, span *s, ds_diag *d) {
  ds_rows *r = &k->rows;
  bool wrapped, good = true;
  if (!open_value(p, &wrapped)) return p->wrong == NULL || ds_rows_not_json(r, p, d);
  ds_pull_kind(p);
  const char *at = p->at;
  if (ds_text_is(key, "gen_ai.usage.input_tokens") ||
      ds_text_is(key, "gen_ai.usage.prompt_tokens")) {
    s->in_at = at;
    good = ds_rows_tokens(r, p, "gen_ai.usage.input_tokens", &s->has_in, &s->in, d);
  } else if (ds_text_is(key, "gen_ai.usage.output_tokens") ||
             ds_text_is(key, "gen_ai.usage.completion_tokens")) {
    s->out_at = at;
    good = ds_rows_tokens(r, p, "gen_ai.usage.output_tokens", &s->has_out, &s->out, d);
  } else if (ds_text_is(key, "gen_ai.request.max_tokens")) {
    good = ds_rows_count(r, p, "gen_ai.request.max_tokens", DS_TOKENS_MAX, &s->has_max, &s->max, d);
  } else if (ds_text_is(key, "gen_ai.latency.time_to_first_token")) {
    good = ds_rows_time(r, p, "gen_ai.latency.time_to_first_token", DS_NS_PER_S, &s->has_ttft,
                        &s->ttft_ns, d);
  } else if (ds_text_is(key, "gen_ai.latency.e2e")) {
    good = ds_rows_time(r, p, "gen_ai.latency.e2e", DS_NS_PER_S, &s->has_e2e, &s->e2e_ns, d);
  } else if (ds_text_is(key, "gen_ai.latency.time_in_queue")) {
    good = ds_rows_time(r, p, "gen_ai.latency.time_in_queue", DS_NS_PER_S, &s->has_queue,
                        &s->queue_ns, d);
  } else if (ds_text_is(key, "gen_ai.request.model")) {
    good = ds_rows_text(r, p, "gen_ai.request.model", &s->model, d);
  } else if (ds_text_is(key, "gen_ai.conversation.id")) {
    good = ds_rows_text(r, p, "gen_ai.conversation.id", &s->conversation, d);
  } else if (ds_text_is(key, "gen_ai.operation.name")) {
    const char *op = NULL;
    good = ds_rows_text(r, p, "gen_ai.operation.name", &op, d);
    s->other = op != NULL && strcmp(op, "chat") != 0 && strcmp(op, "text_completion") != 0 &&
               strcmp(op, "generate_content") != 0;
  } else {
    good = ds_pull_skip(p) || ds_rows_not_json(r, p, d);
  }
  return good && (close_value(p, wrapped) || ds_rows_not_json(r, p, d));
}

static bool attributes(otel *k, ds_pull *p, span *s, ds_diag *d) {
  ds_text key;
  if (ds_pull_kind(p) == '{') {
    for (ds_pull_map(p); ds_pull_key(p, &key);)
      if (!attribute(k, p, key, s, d)) return false;
    return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
  }
  if (ds_pull_kind(p) != '[') return ds_pull_skip(p) || ds_rows_not_json(&k->rows, p, d);
  for (ds_pull_list(p); ds_pull_next(p);) {
    ds_text name = {NULL, 0, false}, inner;
    ds_pull value = {.begin = NULL};
    if (ds_pull_kind(p) != '{') return ds_rows_not_json(&k->rows, p, d);
    for (ds_pull_map(p); ds_pull_key(p, &inner);) {
      ds_pull_kind(p);
      if (ds_text_is(inner, "key") && ds_pull_kind(p) == '"') {
        if (!ds_pull_text(p, &name)) return ds_rows_not_json(&k->rows, p, d);
        continue;
      }
      if (ds_text_is(inner, "value")) value = *p;
      if (!ds_pull_skip(p)) return ds_rows_not_json(&k->rows, p, d);
    }
    if (name.s != NULL && value.begin != NULL && !attribute(k, &value, name, s, d)) return false;
  }
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

static bool status(otel *k, ds_pull *p, span *s, ds_diag *d) {
  ds_text key, t;
  if (ds_pull_kind(p) != '{') return ds_pull_skip(p) || ds_rows_not_json(&k->rows, p, d);
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    char kind = ds_pull_kind(p);
    if (ds_text_is(key, "code") && (kind == '0' || kind == '"')) {
      if (!(kind == '0' ? ds_pull_number(p, &t) : ds_pull_text(p, &t))) break;
      s->error = ds_text_is(t, "2") || ds_text_is(t, "STATUS_CODE_ERROR") || ds_text_is(t, "ERROR");
    } else if (!ds_pull_skip(p)) {
      break;
    }
  }
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

static bool take(otel *k, const span *s, ds_diag *d) {
  ds_rows *r = &k->rows;
  if (!s->has_in || s->other) return true;
  if (!s->has_start) {
    ds_rows_bad(r, s->at, d, "a span without startTimeUnixNano");
    ds_diag_expected(d, "startTimeUnixNano (or start_time) in every span");
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
  if (m == NULL) return ds_rows_no_memory(r, d);
  m->session = s->conversation != NULL ? s->conversation : s->session;
  m->model = s->model;
  m->status = s->error ? DS_ROW_FAILED : DS_ROW_OK;
  if (s->has_ttft) m->ttft_ns = s->ttft_ns;
  if (s->has_queue) m->queue_ns = s->queue_ns;
  if (s->has_e2e)
    m->e2e_ns = s->e2e_ns;
  else if (s->has_end && s->end_ns >= s->start_ns)
    m->e2e_ns = s->end_ns - s->start_ns;
  int64_t id = s->id != NULL ? ds_rows_id_of(r, s->id, strlen(s->id)) : DS_ROW_NO_ID;
  k->queue[k->n++] = (ds_row){.time_ns = s->start_ns,
                              .line = ds_rows_line_of(r, s->at),
                              .id = id,
                              .input_tokens = s->in,
                              .output_tokens = s->out,
                              .max_tokens = (uint32_t)s->max,
                              .time_column = ds_rows_column(r, s->time_at),
                              .input_column = ds_rows_column(r, s->in_at),
                              .output_column = ds_rows_column(r, s->out_at),
                              .more = m};
  return true;
}

static bool one_span(otel *k, ds_pull *p, ds_diag *d) {
  ds_rows *r = &k->rows;
  ds_text key;
  span s;
  memset(&s, 0, sizeof s);
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(r, p, d);
  s.at = p->at;
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    bool good;
    ds_pull_kind(p);
    const char *at = p->at;
    if (ds_text_is(key, "startTimeUnixNano")) {
      s.time_at = at;
      good = ds_rows_time(r, p, "startTimeUnixNano", 1, &s.has_start, &s.start_ns, d);
    } else if (ds_text_is(key, "endTimeUnixNano")) {
      good = ds_rows_time(r, p, "endTimeUnixNano", 1, &s.has_end, &s.end_ns, d);
    } else if (ds_text_is(key, "start_time")) {
      s.time_at = at;
      good = ds_rows_stamp(r, p, "start_time", &s.has_start, &s.start_ns, d);
    } else if (ds_text_is(key, "end_time")) {
      good = ds_rows_stamp(r, p, "end_time", &s.has_end, &s.end_ns, d);
    } else if (ds_text_is(key, "spanId") || ds_text_is(key, "span_id")) {
      good = ds_rows_text(r, p, "spanId", &s.id, d);
    } else if (ds_text_is(key, "session_id")) {
      good = ds_rows_text(r, p, "session_id", &s.session, d);
    } else if (ds_text_is(key, "attributes")) {
      good = attributes(k, p, &s, d);
    } else if (ds_text_is(key, "status")) {
      good = status(k, p, &s, d);
    } else {
      good = ds_pull_skip(p) || ds_rows_not_json(r, p, d);
    }
    if (!good) return false;
  }
  return p->wrong == NULL ? take(k, &s, d) : ds_rows_not_json(r, p, d);
}

/* Lists called spans, wherever they stand. */
static bool walk(otel *k, ds_pull *p, ds_diag *d) {
  ds_text key;
  switch (ds_pull_kind(p)) {
  case '{':
    for (ds_pull_map(p); ds_pull_key(p, &key);) {
      if (ds_text_is(key, "spans") && ds_pull_kind(p) == '[') {
        for (ds_pull_list(p); ds_pull_next(p);)
          if (!one_span(k, p, d)) return false;
        if (p->wrong != NULL) return ds_rows_not_json(&k->rows, p, d);
      } else if (!walk(k, p, d)) {
        return false;
      }
    }
    return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
  case '[':
    for (ds_pull_list(p); ds_pull_next(p);)
      if (!walk(k, p, d)) return false;
    return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
  default:
    return ds_pull_skip(p) || ds_rows_not_json(&k->rows, p, d);
  }
}

static bool otel_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  otel *k = (otel *)source;
  *n = 0;
  while (k->at == k->n) {
    ds_pull p;
    k->n = k->at = 0;
    ds_rows_begin(&k->rows);
    if (!ds_rows_value(&k->rows, &p, d)) return false;
    if (p.begin == NULL) return true;
    bool good = walk(k, &p, d);
    if (good && !ds_pull_done(&p)) good = ds_rows_not_json(&k->rows, &p, d);
    if (!good) {
      k->n = 0;
      return false;
    }
  }
  *n = ds_rows_hand_out(rows, cap, k->queue, k->n, &k->at);
  return true;
}

static void otel_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(((otel *)s)->queue);
  free(s);
}

bool ds_otel_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "otel",
                 .time_name = "startTimeUnixNano",
                 .input_name = "gen_ai.usage.input_tokens",
                 .output_name = "gen_ai.usage.output_tokens",
                 .input = in,
                 .rebase = true,
                 .zeros_normal = true,
                 .unsorted_normal = true,
                 .documents = true,
                 .rows = otel_rows,
                 .id = ds_rows_id,
                 .close = otel_close};
  (void)w;
  *out = NULL;
  otel *k = ds_rows_new(sizeof *k, &s, d);
  if (k == NULL) return false;
  *out = &k->rows.source;
  return true;
}
