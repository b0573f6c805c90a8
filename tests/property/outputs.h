// SPDX-License-Identifier: GPL-3.0-or-later
/* Iterations and requests as one line of text each, from the files of the program and of the naive
 * simulator alike. */
#ifndef TESTS_PROPERTY_OUTPUTS_H
#define TESTS_PROPERTY_OUTPUTS_H

#include "harness.h"

typedef struct text {
  char *s;
  size_t n, cap;
} text;

__attribute__((format(printf, 2, 3))) static inline void put(text *t, const char *format, ...) {
  for (;;) {
    va_list ap;
    va_start(ap, format);
    int k = vsnprintf(t->s ? t->s + t->n : NULL, t->s ? t->cap - t->n : 0, format, ap);
    va_end(ap);
    if (t->s && t->n + (size_t)k < t->cap) {
      t->n += (size_t)k;
      return;
    }
    t->cap = 2 * t->cap + (size_t)k + 256;
    if (!(t->s = realloc(t->s, t->cap))) bail("out of memory");
  }
}

static inline void put_id(text *t, const json_t *id) {
  if (json_is_string(id))
    put(t, "%s", json_string_value(id));
  else if (json_is_integer(id))
    put(t, "%lld", (long long)json_integer_value(id));
  else
    put(t, "?");
}

static inline void put_rows(text *t, const char *name, const json_t *rows) {
  put(t, " %s[", name);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    if (i) put(t, ",");
    if (json_is_array(row)) {
      put_id(t, json_array_get(row, 0));
      put(t, ":%lld", (long long)json_integer_value(json_array_get(row, 1)));
    } else {
      put_id(t, row);
    }
  }
  put(t, "]");
}

/* "0: 11600000..24000000 P14 D1 prefill[R2:14] decode[R1] preempted[] free 92" */
static inline void put_step(text *t, const json_t *step, bool with_free) {
  put(t, "%lld: %lld..%lld P%lld D%lld", (long long)get_int(step, "replica"),
      (long long)get_int(step, "start_ns"), (long long)get_int(step, "end_ns"),
      (long long)get_int(step, "prefill_tokens"), (long long)get_int(step, "decode_sequences"));
  put_rows(t, "prefill", json_object_get(step, "prefill"));
  put_rows(t, "decode", json_object_get(step, "decode"));
  put_rows(t, "preempted", json_object_get(step, "preempted"));
  if (with_free) put(t, " free %lld", (long long)get_int(step, "free_blocks"));
}

/* A time in units of `per` nanoseconds. */
static inline void put_time(text *t, i64 ns, i64 per) {
  if (ns % per)
    put(t, " %lld ns", (long long)ns);
  else
    put(t, " %lld", (long long)(ns / per));
}

/* A request as the naive simulator has it. */
static inline void put_naive_request(text *t, const json_t *r) {
  put_id(t, json_object_get(r, "id"));
  if (json_object_get(r, "turned_away_ns")) {
    put(t, " rejected");
    return;
  }
  put(t, " replica %lld arrival %lld scheduled %lld preemptions %lld tokens",
      (long long)get_int(r, "replica"), (long long)get_int(r, "arrival_ns"),
      (long long)get_int(r, "scheduled_ns"), (long long)get_int(r, "preemptions"));
  const json_t *times = json_object_get(r, "tokens_ns");
  for (size_t i = 0; i < json_array_size(times); i++)
    put_time(t, (i64)json_integer_value(json_array_get(times, i)), 1);
}

/* The times of a request's tokens from a line of the program's --requests FILE.jsonl: its gaps add
 * up. An answer that comes at once, at the end of a static batch, has none. */
static inline i64 put_token_times(text *t, const json_t *r, i64 per) {
  const json_t *gaps = json_object_get(r, "itl_ms");
  i64 now = get_ns(r, "first_token_s", 1e9), n = get_int(r, "output_tokens");
  bool at_once = json_array_size(gaps) == 0 && now == get_ns(r, "finish_s", 1e9);
  put_time(t, now, per);
  for (size_t i = 0; i < json_array_size(gaps); i++) {
    const json_t *chunk = json_array_get(json_object_get(r, "chunk_tokens"), i + 1);
    now += llround(json_number_value(json_array_get(gaps, i)) * 1e6);
    put_time(t, now, per);
    for (i64 k = 1; k < (chunk ? (i64)json_integer_value(chunk) : 1); k++) put_time(t, now, per);
  }
  for (i64 i = 1; at_once && i < n; i++) put_time(t, now, per);
  return now;
}

static inline bool was_rejected(const json_t *r) {
  const char *status = json_string_value(json_object_get(r, "status"));
  return json_object_get(r, "turned_away_ns") || (status && !strcmp(status, "rejected"));
}

/* A request as the program has it. */
static inline void put_program_request(text *t, const json_t *r) {
  put_id(t, json_object_get(r, "id"));
  if (was_rejected(r)) {
    put(t, " rejected");
    return;
  }
  put(t, " replica %lld arrival %lld scheduled %lld preemptions %lld tokens",
      (long long)get_int(r, "replica"), (long long)get_ns(r, "arrival_s", 1e9),
      (long long)get_ns(r, "scheduled_s", 1e9), (long long)get_int(r, "preemptions"));
  i64 last = put_token_times(t, r, 1), finish = get_ns(r, "finish_s", 1e9);
  if (last != finish) put(t, " but finish %lld", (long long)finish);
}

#endif
