// SPDX-License-Identifier: GPL-3.0-or-later
/* From a format's rows to the requests of a run: what to do with odd rows, which rows to take, and
 * their times. */
#include "io/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "io/trace_formats.h"
#include "io/trace_inside.h"

#define LINE_RUNS_MAX 65536 /* of a streamed file; a few blank lines need a few */
#define PURPOSE_THIN  ((ds_purpose)40)

typedef enum fault { FAULT_FORM, FAULT_ZERO, FAULT_ORDER } fault;

static const char *file_of(const ds_trace *t) { return t->input != NULL ? t->input->name : NULL; }

static bool out_of_memory(const ds_trace *t, ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, file_of(t), 0, 0, "out of memory");
}

/* Room for one more element behind n. */
static bool grow(void **p, size_t *room, size_t n, size_t size) {
  if (n < *room) return true;
  size_t more = *room == 0 ? 256 : *room * 2;
  if (more > SIZE_MAX / size) return false;
  void *q = realloc(*p, more * size);
  if (q == NULL) return false;
  *p = q;
  *room = more;
  return true;
}

/* ---- faults in the file ---- */

static bool has_zero(const ds_row *r) { return r->input_tokens == 0 || r->output_tokens == 0; }

/* How many more rows like the first bad one the rest of the file has; reading stops at whatever
 * cannot be read. */
static uint64_t count_more(ds_trace *t, fault first) {
  uint64_t more = 0;
  int64_t latest = t->latest_ns;
  for (;;) {
    for (; t->batch_at < t->batch_n; t->batch_at++) {
      const ds_row *r = &t->batch[t->batch_at];
      more += first == FAULT_ZERO
                  ? has_zero(r)
                  : first == FAULT_ORDER && r->time_ns != DS_ROW_CHAINED && r->time_ns < latest;
      if (r->time_ns > latest) latest = r->time_ns;
    }
    ds_diag ignored = {.exit = DS_EXIT_OK};
    t->batch_at = 0;
    int64_t line = t->input != NULL ? t->input->line : 0;
    bool good = t->source->rows(t->source, t->batch, BATCH, &t->batch_n, &ignored);
    if (good && t->batch_n == 0) return more;
    if (!good) {
      /* A source goes on behind a bad row; one that does not move any more is at its end. */
      if (ignored.exit != DS_EXIT_INPUT || t->input == NULL || t->input->line == line) return more;
      more += first == FAULT_FORM;
    }
  }
}

/* Say how many more there are. Standard input that is a terminal or a slow pipe is read to its end
 * as well. */
static void add_count(ds_trace *t, fault kind, ds_diag *d) {
  if (t->input == NULL || d->exit != DS_EXIT_INPUT) return;
  uint64_t more = count_more(t, kind);
  if (more == 0) return;
  size_t n = strlen(d->text);
  snprintf(d->text + n, sizeof d->text - n, " (and %llu more %s)", (unsigned long long)more,
           kind == FAULT_FORM ? (more == 1 ? "row that cannot be read" : "rows that cannot be read")
           : kind == FAULT_ZERO ? (more == 1 ? "row with zero tokens" : "rows with zero tokens")
                                : (more == 1 ? "row out of order" : "rows out of order"));
}

static bool zero_fault(ds_trace *t, const ds_row *r, ds_diag *d) {
  bool in = r->input_tokens == 0;
  ds_diag_set(d, DS_EXIT_INPUT, file_of(t), r->line, in ? r->input_column : r->output_column,
              "%s is 0", in ? t->source->input_name : t->source->output_name);
  ds_diag_expected(
      d,
      "at least 1 token; `import: {zero: drop}` leaves such rows out, `{zero: clamp}` makes it 1");
  t->batch_at++;
  add_count(t, FAULT_ZERO, d);
  return false;
}

static bool order_fault(ds_trace *t, const ds_row *r, ds_diag *d) {
  int64_t late_ns = t->latest_ns - r->time_ns;
  ds_diag_set(d, DS_EXIT_INPUT, file_of(t), r->line, r->time_column,
              "%s is %lld.%09lld s earlier than in a row before", t->source->time_name,
              (long long)(late_ns / DS_NS_PER_S), (long long)(late_ns % DS_NS_PER_S));
  ds_diag_expected(d, "rows in order of arrival; `import: {unsorted: sort}` sorts them");
  t->batch_at++;
  add_count(t, FAULT_ORDER, d);
  return false;
}

static bool chained_fault(ds_trace *t, const ds_row *r, ds_diag *d) {
  ds_diag_set(
      d, DS_EXIT_INPUT, file_of(t), r->line, r->time_column,
      "this request has no arrival of its own: it starts when the one before it is finished");
  ds_diag_expected(d, "`replay: closed-loop` in the workload for a trace with such requests");
  t->batch_at++;
  return false;
}

static bool nothing_left(ds_trace *t, ds_diag *d) {
  const ds_trace_report *p = &t->report;
  if (p->rows_read == 0) {
    ds_diag_set(d, DS_EXIT_INPUT, file_of(t), 0, 0,
                t->input != NULL ? "no requests: a header and nothing else" : "no requests");
    if (t->input != NULL && strcmp(t->source->format, "azure") != 0)
      ds_diag_set(d, DS_EXIT_INPUT, file_of(t), 0, 0, "no requests");
    ds_diag_expected(d, "at least one request");
    return false;
  }
  ds_diag_set(d, DS_EXIT_INPUT, file_of(t), 0, 0,
              "no request is left of %llu: %llu outside the window, %llu dropped for zero tokens",
              (unsigned long long)p->rows_read, (unsigned long long)p->outside_window,
              (unsigned long long)p->dropped_zero);
  if (p->outside_window + p->dropped_zero < p->rows_read) {
    char account[400];
    ds_trace_account(t, account, sizeof account);
    ds_diag_set(d, DS_EXIT_INPUT, file_of(t), 0, 0, "no request is left: %s", account);
  }
  ds_diag_expected(d, "a selection with at least one request");
  return false;
}

/* ---- rows in order of the file ---- */

typedef enum verdict { TAKE, LEAVE_OUT, FAULT } verdict;

/* The first bytes decide nothing here: a row that says the same as one before is a copy of it. */
static bool is_copy(ds_trace *t, const ds_row *r, bool *copy) {
  uint64_t h =
      ds_mix64((uint64_t)r->time_ns ^ ((uint64_t)r->input_tokens << 32 | r->output_tokens));
  if (r->more != NULL) {
    h = ds_mix64(h ^ (uint64_t)(uintptr_t)r->more->session);
    for (uint64_t i = 0; i < r->more->n_blocks; i++) h = ds_mix64(h ^ r->more->blocks[i]);
  }
  bool fresh;
  if (!ds_seen_add(&t->seen, h, &fresh)) return false;
  *copy = !fresh;
  return true;
}

/* What is remembered by session: the time of a row that has none, and whole inputs where the file
 * says only what is new. */
static bool of_session(ds_trace *t, ds_row *r, ds_diag *d) {
  const ds_more *m = r->more;
  ds_session_state *s = ds_sessions_of(&t->sessions, m->session);
  if (s == NULL) return out_of_memory(t, d);
  if (r->time_ns == DS_ROW_CHAINED)
    r->time_ns = s->rows > 0 ? s->last_ns : t->any_row ? t->latest_ns : 0;
  bool delta = t->w.session_input == 'd' || (t->w.session_input == 0 && t->source->accumulates);
  if (s->rows > 0 && !delta && r->input_tokens < s->input_tokens + s->output_tokens)
    t->report.looks_incremental++;
  if (delta && s->rows > 0) {
    uint64_t whole = s->input_tokens + s->output_tokens + r->input_tokens;
    if (whole > DS_TOKENS_MAX) {
      ds_diag_set(d, DS_EXIT_INPUT, file_of(t), r->line, r->input_column,
                  "%s: the inputs of session \"%.40s\" add up to more than %d tokens",
                  t->source->input_name, m->session, DS_TOKENS_MAX);
      ds_diag_expected(d, "`import: {session_input: full}` where each row has the whole input");
      t->batch_at++;
      return false;
    }
    r->input_tokens = (uint32_t)whole;
    t->report.accumulated++;
    if (m->n_blocks > 0 || s->n_blocks > 0) {
      uint64_t n = s->n_blocks + m->n_blocks;
      uint64_t *all = ds_arena_take(&t->joined, (size_t)n * sizeof *all);
      ds_more *own = ds_arena_take(&t->joined, sizeof *own);
      if (all == NULL || own == NULL) return out_of_memory(t, d);
      if (s->n_blocks > 0) memcpy(all, s->blocks, (size_t)s->n_blocks * sizeof *all);
      if (m->n_blocks > 0) memcpy(all + s->n_blocks, m->blocks, (size_t)m->n_blocks * sizeof *all);
      *own = *m;
      own->blocks = all;
      own->n_blocks = n;
      r->more = own;
    }
  } else if (delta && m->n_blocks > 0) {
    uint64_t *all = ds_arena_take(&t->joined, (size_t)m->n_blocks * sizeof *all);
    if (all == NULL) return out_of_memory(t, d);
    memcpy(all, m->blocks, (size_t)m->n_blocks * sizeof *all);
    s->blocks = all;
    s->n_blocks = m->n_blocks;
  }
  if (delta && s->rows > 0) {
    s->blocks = r->more->blocks;
    s->n_blocks = r->more->n_blocks;
  }
  s->rows++;
  s->last_ns = r->time_ns;
  s->input_tokens = r->input_tokens;
  s->output_tokens = r->output_tokens;
  return true;
}

/* Where its block ids mean something, as the scenario has it rather than the format. A file is what
 * one trace is, so `file` leaves the format its way. */
static bool rescope(ds_trace *t, ds_row *r) {
  uint64_t scope = r->more->scope;
  if (t->w.hash_scope == 'g') scope = 0;
  if (t->w.hash_scope == 's' && r->more->session != NULL)
    scope = ds_hash_text(r->more->session) | 1;
  if (scope == r->more->scope) return true;
  ds_more *own = ds_arena_take(&t->joined, sizeof *own);
  if (own == NULL) return false;
  *own = *r->more;
  own->scope = scope;
  r->more = own;
  return true;
}

/* What only rows with more to say need. TAKE: judge the rest. */
static verdict judge_more(ds_trace *t, ds_row *r, ds_diag *d) {
  const ds_more *m = r->more;
  if (r->time_ns == DS_ROW_CHAINED && !t->closed) {
    chained_fault(t, r, d);
    return FAULT;
  }
  if (m->status != DS_ROW_OK && !t->w.keep_failed) {
    *(m->status == DS_ROW_CACHED ? &t->report.dropped_cached : &t->report.dropped_failed) += 1;
    return LEAVE_OUT;
  }
  if (t->w.hash_scope != 0 && m->n_blocks > 0 && !rescope(t, r)) {
    out_of_memory(t, d);
    return FAULT;
  }
  if (m->session != NULL) {
    if (!of_session(t, r, d)) return FAULT;
  } else if (r->time_ns == DS_ROW_CHAINED) {
    r->time_ns = t->any_row ? t->latest_ns : 0;
  }
  return TAKE;
}

/* The row as the import rules have it. */
static inline verdict judge(ds_trace *t, ds_row *r, ds_diag *d) {
  t->report.rows_read++;
  bool chained = r->time_ns == DS_ROW_CHAINED; /* such a row cannot be out of order */
  if (DS_UNLIKELY(r->more != NULL)) {
    verdict v = judge_more(t, r, d);
    if (v != TAKE) return v;
  }
  if (DS_UNLIKELY(!t->any_row)) {
    t->any_row = true;
    t->earliest_ns = t->latest_ns = t->source->rebase ? r->time_ns : 0;
  }
  if (DS_UNLIKELY(r->time_ns < t->latest_ns) && !chained) {
    if (!t->sort) {
      order_fault(t, r, d);
      return FAULT;
    }
    t->report.out_of_order++;
    if (r->time_ns < t->earliest_ns) t->earliest_ns = r->time_ns;
  } else if (!chained) {
    t->latest_ns = r->time_ns;
  }
  if (DS_UNLIKELY(t->w.drop_duplicates)) {
    bool copy = false;
    if (!is_copy(t, r, &copy)) {
      out_of_memory(t, d);
      return FAULT;
    }
    if (copy) {
      t->report.dropped_duplicate++;
      return LEAVE_OUT;
    }
  }
  if (DS_LIKELY(!has_zero(r))) return TAKE;
  if (t->zero == DS_REPAIR_DROP) {
    t->report.dropped_zero++;
    return LEAVE_OUT;
  }
  if (t->zero != DS_REPAIR_CLAMP) {
    zero_fault(t, r, d);
    return FAULT;
  }
  t->report.clamped_zero++;
  if (r->input_tokens == 0) r->input_tokens = 1;
  if (r->output_tokens == 0) r->output_tokens = 1;
  return TAKE;
}

/* More rows into the batch; none at the end. */
static bool refill(ds_trace *t, ds_diag *d) {
  t->batch_at = t->batch_n = 0;
  if (t->source_ended) return true;
  int64_t line = -1;
  while (!t->source->rows(t->source, t->batch, BATCH, &t->batch_n, d)) {
    t->batch_n = 0;
    /* A source goes on behind a bad row; one that does not move any more is at its end. */
    bool moves = t->input != NULL && t->input->line != line;
    if (!t->w.drop_malformed || d->exit != DS_EXIT_INPUT || !moves) {
      if (t->w.drop_malformed && d->exit == DS_EXIT_INPUT) {
        t->report.rows_read--;
        t->report.dropped_malformed--;
        *d = (ds_diag){.exit = DS_EXIT_OK};
        break;
      }
      add_count(t, FAULT_FORM, d);
      return false;
    }
    line = t->input->line;
    *d = (ds_diag){.exit = DS_EXIT_OK};
    t->report.rows_read++;
    t->report.dropped_malformed++;
  }
  if (t->batch_n == 0) t->source_ended = true;
  return true;
}

static bool read_all(ds_trace *t, ds_diag *d) {
  for (;;) {
    if (!refill(t, d)) return false;
    if (t->batch_n == 0) break;
    for (; t->batch_at < t->batch_n; t->batch_at++) {
      ds_row *r = &t->batch[t->batch_at];
      verdict v = judge(t, r, d);
      if (v == FAULT) return false;
      if (v == LEAVE_OUT) continue;
      if (!grow((void **)&t->all, &t->all_room, t->all_n, sizeof *t->all))
        return out_of_memory(t, d);
      t->all[t->all_n] = *r;
      if (!ds_span_keep(&t->spans, &t->all[t->all_n].spans, r->n_spans)) return out_of_memory(t, d);
      t->all_n++;
    }
  }
  t->held = true;
  if (t->all_n == 0) return true;
  if (!ds_hold_sort(t->all, t->all_n)) return out_of_memory(t, d);
  if (t->w.dequantize_ns > 0)
    t->report.spread = ds_hold_spread(t->all, t->all_n, t->w.dequantize_ns, t->seed);
  return !t->closed || ds_hold_follow(t->all, t->all_n, &t->joins, &t->report) || out_of_memory(t, d);
}

/* ---- rows in order of arrival ---- */

static bool keep_names(ds_trace *t, const ds_row *r, ds_diag *d) {
  uint64_t i = t->report.kept;
  if (DS_UNLIKELY(r->id != DS_ROW_NO_ID || t->ids != NULL)) {
    size_t had = t->ids_room;
    while (t->ids_room <= i) {
      if (!grow((void **)&t->ids, &t->ids_room, t->ids_room, sizeof *t->ids))
        return out_of_memory(t, d);
    }
    for (size_t k = had; k < t->ids_room; k++) t->ids[k] = DS_ROW_NO_ID;
    t->ids[i] = r->id;
  }
  if (DS_LIKELY(t->runs_n > 0)) {
    const line_run *last = &t->runs[t->runs_n - 1];
    if (DS_LIKELY(r->line == last->line + (int64_t)(i - last->index))) {
      if (!t->lines_lost) t->lines_known = i + 1;
      return true;
    }
  }
  if (t->lines_lost || r->line == 0) return true;
  if (t->runs_n >= LINE_RUNS_MAX && !t->sort) {
    t->lines_lost = true;
    return true;
  }
  if (!grow((void **)&t->runs, &t->runs_room, t->runs_n, sizeof *t->runs))
    return out_of_memory(t, d);
  t->runs[t->runs_n++] = (line_run){i, r->line};
  t->lines_known = i + 1;
  return true;
}

/* What a scheduler may believe of the output: the workload's rule where it states one, else the
 * request's own cap, else the truth. A trace that says its requests stopped beyond the cap is right
 * about what happened, so never less. */
static uint32_t cap_of(const ds_workload *w, const ds_row *r, uint64_t *raised) {
  uint64_t cap = r->max_tokens;
  if (w->max_tokens_fixed > 0) {
    cap = (uint64_t)w->max_tokens_fixed;
  } else if (w->max_tokens_times > 0.0) {
    double x = (double)r->output_tokens * w->max_tokens_times;
    cap = x < (double)DS_TOKENS_MAX ? (uint64_t)x : DS_TOKENS_MAX;
    if ((double)cap < x && cap < DS_TOKENS_MAX) cap++; /* up to the next whole token */
  }
  if (cap > DS_TOKENS_MAX) cap = DS_TOKENS_MAX;
  if (DS_LIKELY(cap >= r->output_tokens)) return (uint32_t)cap;
  *raised += cap > 0;
  return r->output_tokens;
}

/* Whether a row is taken that thinning or its session has a say in. A session goes by its first
 * row, and one of a closed loop (whose rows all stand at its beginning) by its time. */
static bool chosen(ds_trace *t, const ds_row *r, bool inside, bool *taken, ds_diag *d) {
  const char *name = r->more != NULL ? r->more->session : NULL;
  ds_session_state *s = NULL;
  if (name != NULL) {
    s = ds_sessions_of(&t->selected, name);
    if (s == NULL) return out_of_memory(t, d);
  }
  bool whole = s != NULL && t->w.whole_sessions;
  if (whole && s->rows > 0) inside = s->taken;
  if (s != NULL && s->rows++ == 0) s->taken = inside;
  *taken = inside;
  if (!inside) {
    t->report.outside_window++;
    return true;
  }
  if (t->w.share <= 0.0 || t->w.share >= 1.0) return true;
  uint64_t entity =
      name != NULL ? ds_hash_text(name) : ds_mix64(t->report.kept + t->report.thinned);
  ds_rng rng = ds_rng_stream(t->seed, PURPOSE_THIN, entity);
  *taken = ds_rng_unit(&rng) < t->w.share;
  t->report.thinned += !*taken;
  return true;
}

/* Its images. Where the row does not say where they stand, they come behind what the prompt shares with others: a named
 * prefix, or, in a later turn, all that was said before (the message that brings them is the last). */
static bool take_images(ds_trace *t, const ds_row *r, ds_request *out, ds_diag *d) {
  const ds_more *m = r->more;
  uint64_t n = r->images, tokens = r->image_tokens, at = r->image_at, input = r->input_tokens;
  bool last = !r->image_placed && m != NULL && m->session != NULL && (m->turn > 0 || m->has_after);
  if (t->w.ignore_images) return true;
  if (!r->image_placed && !last && m != NULL && m->prefix != NULL && m->prefix_tokens < input) at = m->prefix_tokens;
  if (n == 0) n = t->w.image_most > 0 ? (tokens + (uint64_t)t->w.image_most - 1) / (uint64_t)t->w.image_most : 1;
  if (r->image_tokens == 0) { /* how many, and not how large: as the scenario has it, as far as the input goes */
    uint64_t room = input - at;
    tokens = n * (uint64_t)t->w.image_each;
    t->report.smaller_images += tokens > room;
    if (tokens > room) tokens = room;
    if (tokens > 0 && n > tokens) n = tokens;
  } else if (at + tokens > input && !r->image_placed && tokens <= input) {
    at = input - tokens;
  }
  if (last && tokens <= input) at = input - tokens;
  if (at + tokens > input) {
    ds_diag_set(d, DS_EXIT_INPUT, file_of(t), r->line, 0, "%llu tokens of images from token %llu on, in an input of %llu",
                (unsigned long long)tokens, (unsigned long long)at, (unsigned long long)input);
    ds_diag_expected(d, "tokens of images among those of the input, which counts text and images");
    return false;
  }
  out->images = (uint32_t)n;
  out->image_tokens = (uint32_t)tokens;
  out->image_at = (uint32_t)at;
  return true;
}

/* Select, shift and scale one row. *taken false: it is outside. */
static inline bool emit(ds_trace *t, const ds_row *r, ds_request *out, bool *taken, ds_diag *d) {
  int64_t offset_ns = r->time_ns - (t->source->rebase ? t->earliest_ns : 0);
  bool inside =
      offset_ns >= t->w.window_from_ns && (t->w.window_to_ns <= 0 || offset_ns < t->w.window_to_ns);
  *taken = false;
  if (DS_UNLIKELY(t->w.whole_sessions || t->w.share > 0.0)) {
    if (!chosen(t, r, inside, taken, d)) return false;
    if (!*taken) return true;
  } else if (!inside) {
    t->report.outside_window++;
    return true;
  }
  *taken = false;
  offset_ns -= t->w.window_from_ns;
  if (t->scale != 1.0) {
    double scaled = (double)offset_ns * t->scale + 0.5;
    if (!(scaled < 9.2e18)) {
      ds_diag_set(d, DS_EXIT_INPUT, file_of(t), r->line, r->time_column,
                  "with time_scale %g this request arrives after more than 290 years", t->scale);
      ds_diag_expected(d, "a smaller time_scale");
      return false;
    }
    offset_ns = (int64_t)scaled;
  }
  *out = (ds_request){.arrival_ns = offset_ns,
                      .input_tokens = r->input_tokens,
                      .output_tokens = r->output_tokens,
                      .max_tokens = cap_of(&t->w, r, &t->report.raised_caps),
                      .priority = r->priority,
                      .tenant = r->tenant,
                      .stream = r->stream,
                      .after = r->after,
                      .think_ns = r->think_ns,
                      .spans = r->spans,
                      .n_spans = r->n_spans};
  if (DS_UNLIKELY(r->images > 0 || r->image_tokens > 0) && !take_images(t, r, out, d)) return false;
  if (DS_UNLIKELY(r->n_spans > 0) && !t->hold &&
      !ds_span_keep(&t->identity.room, &out->spans, r->n_spans))
    return out_of_memory(t, d);
  if (DS_UNLIKELY(r->more != NULL) && r->n_spans == 0 &&
      !ds_row_identify(&t->identity, r->more, out))
    return out_of_memory(t, d);
  *taken = true;
  return keep_names(t, r, d);
}

/* Count the rest of the file without looking into it: it is hashed, but what is not selected need
 * not be good. */
static bool count_rest(ds_trace *t, ds_diag *d) {
  t->selected_all = true;
  if (t->w.kind == DS_WORKLOAD_GENERATE) return true; /* what is not asked for does not exist */
  uint64_t rest = t->batch_n - t->batch_at + (t->all_n - t->all_at);
  t->report.rows_read += t->batch_n - t->batch_at;
  t->batch_at = t->batch_n;
  t->all_at = t->all_n;
  t->report.beyond_first += rest;
  if (t->input == NULL || t->source_ended) return true;
  if (t->source->documents) { /* a row is not a line there */
    while (!t->source_ended) {
      if (!refill(t, d)) return false;
      t->report.rows_read += t->batch_n;
      t->report.beyond_first += t->batch_n;
    }
    t->batch_at = t->batch_n = 0;
    return true;
  }
  t->source_ended = true;
  bool content = false; /* of the line that is being read */
  for (;;) {
    const char *p = t->input->at;
    for (; p < t->input->end; p++) {
      const char *end = memchr(p, '\n', (size_t)(t->input->end - p));
      const char *stop = end != NULL ? end : t->input->end;
      content = content || stop - p > 1 || (stop > p && *p != '\r');
      if (end == NULL) break;
      t->report.rows_read += content;
      t->report.beyond_first += content;
      content = false;
      p = end;
    }
    t->input->at = t->input->end;
    if (t->input->ended) break;
    if (!ds_input_fill(t->input, d)) return false;
  }
  t->report.rows_read += content;
  t->report.beyond_first += content;
  return true;
}

/* In a closed loop rows that are left out change the numbers of the others; who followed one of
 * them follows whom that one followed, or nobody. renumber[i]: 1 + the request that row i became.
 */
static bool follow(ds_trace *t, ds_request *r, bool taken, ds_diag *d) {
  if (t->renumber == NULL) {
    t->renumber = calloc(t->all_n + 1, sizeof *t->renumber);
    t->row_taken = calloc(t->all_n + 1, sizeof *t->row_taken);
    if (t->renumber == NULL || t->row_taken == NULL) return out_of_memory(t, d);
  }
  size_t row = t->all_at - 1; /* the row that was just taken from `all` */
  uint64_t after = t->all[row].after;
  uint64_t now = after == 0 ? 0 : t->renumber[after - 1];
  if (taken) r->after = now;
  if (taken && after != 0 && now == 0) r->think_ns = 0;
  t->renumber[row] = taken ? t->report.kept + 1 : now;
  t->row_taken[row] = taken;
  return true;
}

static bool read_on(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d) {
  if (t->hold && !t->held && !read_all(t, d)) return false;
  while (*n < cap) {
    if (t->w.select_first > 0 && t->report.kept >= (uint64_t)t->w.select_first) {
      if (t->more_out != NULL && *n > 0) break; /* what was handed out must stay where it is */
      if (!t->selected_all && !count_rest(t, d)) return false;
      break;
    }
    const ds_row *row;
    if (t->hold) {
      if (t->all_at == t->all_n) break;
      row = &t->all[t->all_at++];
    } else {
      if (t->batch_at == t->batch_n) {
        if (t->more_out != NULL && *n > 0) break; /* what was handed out must stay where it is */
        if (!refill(t, d)) return false;
        if (t->batch_n == 0) break;
      }
      ds_row *next = &t->batch[t->batch_at];
      verdict v = judge(t, next, d);
      if (DS_UNLIKELY(v == FAULT)) return false;
      t->batch_at++;
      if (v == LEAVE_OUT) continue;
      row = next;
    }
    bool taken;
    if (!emit(t, row, &r[*n], &taken, d)) return false;
    if (DS_UNLIKELY(t->more_out != NULL)) t->more_out[*n] = row->more;
    if (DS_UNLIKELY(t->closed) && !follow(t, &r[*n], taken, d)) return false;
    *n += taken;
    t->report.kept += taken;
  }
  return true;
}

bool ds_trace_read(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d) {
  *n = 0;
  if (t->failed)
    return ds_diag_set(d, DS_EXIT_RUNTIME, file_of(t), 0, 0, "read again after an error");
  if (!ds_trace_is_closed(t)) ds_span_forget(&t->identity.room); /* a closed loop is read whole */
  bool good = read_on(t, r, cap, n, d);
  if (good && cap > 0 && *n == 0 && t->report.kept == 0) good = nothing_left(t, d);
  if (!good) {
    t->failed = true;
    *n = 0;
  }
  return good;
}

bool ds_trace_read_more(ds_trace *t, ds_request *r, const ds_more **more, size_t cap, size_t *n,
                        ds_diag *d) {
  t->more_out = more;
  bool good = ds_trace_read(t, r, cap, n, d);
  t->more_out = NULL;
  return good;
}

bool ds_trace_joins(ds_trace *t, const ds_trace_join **out, size_t *n) {
  *out = NULL;
  *n = 0;
  if (t->joins.n == 0 || t->renumber == NULL) return true;
  free(t->join_out);
  t->join_out = malloc(t->joins.n * sizeof *t->join_out);
  if (t->join_out == NULL) return false;
  for (size_t i = 0; i < t->joins.n; i++) { /* who waited for one that was left out waits for whom that one followed */
    const ds_row_join *j = &t->joins.of[i];
    uint64_t on = t->renumber[j->on];
    if (!t->row_taken[j->row] || on == 0) continue;
    t->join_out[(*n)++] = (ds_trace_join){t->renumber[j->row] - 1, on - 1};
  }
  *out = t->join_out;
  return true;
}

/* ---- opening, closing, asking ---- */

bool ds_trace_file_open(const ds_workload *w, ds_input **in, ds_source **out, ds_diag *d) {
  const char *name = w->path_given[0] != '\0' ? w->path_given : w->path;
  const char *format;
  *out = NULL;
  if (!ds_input_open(w->path, name, in, d)) return false;
  if (!ds_trace_sniff(*in, w->format, &format, d)) return false;
  const ds_trace_reader *reader = ds_trace_reader_named(format);
  const char *idle = w->block_tokens > 0 && !reader->takes_size  ? "block_tokens"
                     : w->block_tail != 0 && !reader->takes_tail ? "block_tail"
                                                                 : NULL;
  if (idle != NULL) {
    ds_diag_set(d, DS_EXIT_INPUT, name, 0, 0,
                "import.%s does not apply to a trace in the format %s", idle, format);
    ds_diag_expected(d,
                     "it only where the format has block ids, and does not say their size itself");
    return false;
  }
  return reader->open(*in, w, out, d);
}

bool ds_trace_start(const ds_workload *w, ds_input *in, ds_source *source, ds_trace **out,
                    ds_diag *d) {
  ds_trace *t = calloc(1, sizeof *t);
  *out = t;
  if (t == NULL) {
    source->close(source);
    ds_input_close(in);
    return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  }
  t->w = *w;
  t->input = in;
  t->source = source;
  t->scale = w->time_scale > 0.0 ? w->time_scale : 1.0;
  bool file = w->kind == DS_WORKLOAD_TRACE;
  ds_repair unsorted = w->unsorted_given || !source->unsorted_normal ? w->unsorted : DS_REPAIR_SORT;
  t->zero = w->zero_given || !source->zeros_normal ? w->zero : DS_REPAIR_DROP;
  t->sort = unsorted == DS_REPAIR_SORT && file;
  t->closed = file && (w->closed_loop || (source->chained && !w->open_loop));
  if (t->closed && !w->open_loop) t->w.whole_sessions = true;
  t->hold = file && (t->sort || t->closed || w->dequantize_ns > 0);
  source->keep_more = t->hold;
  return true;
}

void ds_trace_close(ds_trace *t) {
  if (t == NULL) return;
  t->source->close(t->source);
  ds_input_close(t->input);
  free(t->all);
  free(t->ids);
  free(t->runs);
  free(t->renumber);
  free(t->row_taken);
  free(t->joins.of);
  free(t->join_out);
  ds_sessions_free(&t->sessions);
  ds_sessions_free(&t->selected);
  ds_seen_free(&t->seen);
  ds_arena_free(&t->joined);
  ds_span_room_free(&t->spans);
  ds_row_identity_free(&t->identity);
  free(t);
}
