// SPDX-License-Identifier: GPL-3.0-or-later
/* From a format's rows to the requests of a run: what to do with odd rows, which rows to take, and
 * their times. */
#include "io/trace.h"

#include <stdlib.h>
#include <string.h>

#include "io/span_room.h"
#include "io/trace_source.h"

#define BATCH         256
#define LINE_RUNS_MAX 65536 /* of a streamed file; a few blank lines need a few */

typedef struct line_run { /* requests from `index` on stand on consecutive lines from `line` on */
  uint64_t index;
  int64_t line;
} line_run;

typedef enum fault { FAULT_FORM, FAULT_ZERO, FAULT_ORDER } fault;

struct ds_trace {
  ds_workload w; /* shallow: the inline arrays stay the caller's */
  ds_input *input;
  ds_source *source;
  ds_trace_report report;
  double scale;
  /* Rows read but not handed out */
  ds_row batch[BATCH];
  size_t batch_at, batch_n;
  bool source_ended, failed, selected_all;
  /* Times */
  bool any_row;
  int64_t earliest_ns, latest_ns; /* of the rows so far */
  /* unsorted: sort keeps everything */
  bool sort, sorted;
  ds_row *all;
  size_t all_n, all_room, all_at;
  /* What the request with an index was */
  int64_t *ids; /* handles by index; NULL while no request has had an id */
  size_t ids_room;
  line_run *runs;
  size_t runs_n, runs_room;
  uint64_t lines_known; /* requests whose line the runs tell */
  bool lines_lost;
  char number[24];
  ds_span_room spans; /* of the requests handed out last; when sorting, of all */
};

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
      more += first == FAULT_ZERO ? has_zero(r) : first == FAULT_ORDER && r->time_ns < latest;
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
  ds_diag_expected(d, "a selection with at least one request");
  return false;
}

/* ---- rows in order of the file ---- */

typedef enum verdict { TAKE, LEAVE_OUT, FAULT } verdict;

/* The row as the import rules have it. */
static inline verdict judge(ds_trace *t, ds_row *r, ds_diag *d) {
  t->report.rows_read++;
  if (DS_UNLIKELY(!t->any_row)) {
    t->any_row = true;
    t->earliest_ns = t->latest_ns = t->source->rebase ? r->time_ns : 0;
  }
  if (DS_UNLIKELY(r->time_ns < t->latest_ns)) {
    if (!t->sort) {
      order_fault(t, r, d);
      return FAULT;
    }
    if (r->time_ns < t->earliest_ns) t->earliest_ns = r->time_ns;
  } else {
    t->latest_ns = r->time_ns;
  }
  if (DS_LIKELY(!has_zero(r))) return TAKE;
  if (t->w.zero == DS_REPAIR_DROP) {
    t->report.dropped_zero++;
    return LEAVE_OUT;
  }
  if (t->w.zero != DS_REPAIR_CLAMP) {
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
  if (!t->source->rows(t->source, t->batch, BATCH, &t->batch_n, d)) {
    t->batch_n = 0;
    add_count(t, FAULT_FORM, d);
    return false;
  }
  if (t->batch_n == 0) t->source_ended = true;
  return true;
}

static int by_time(const void *a, const void *b) {
  const ds_row *x = a, *y = b;
  if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
  return x->line < y->line
             ? -1
             : x->line > y->line; /* lines are distinct: equal times keep the order of the file */
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
  if (t->all_n > 0) qsort(t->all, t->all_n, sizeof *t->all, by_time);
  t->sorted = true;
  return true;
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
static uint32_t cap_of(const ds_workload *w, const ds_row *r) {
  uint64_t cap = r->max_tokens;
  if (w->max_tokens_fixed > 0) {
    cap = (uint64_t)w->max_tokens_fixed;
  } else if (w->max_tokens_times > 0.0) {
    double x = (double)r->output_tokens * w->max_tokens_times;
    cap = x < (double)DS_TOKENS_MAX ? (uint64_t)x : DS_TOKENS_MAX;
    if ((double)cap < x && cap < DS_TOKENS_MAX) cap++; /* up to the next whole token */
  }
  if (cap > DS_TOKENS_MAX) cap = DS_TOKENS_MAX;
  return cap < r->output_tokens ? r->output_tokens : (uint32_t)cap;
}

/* Select, shift and scale one row. *taken false: it is outside. */
static inline bool emit(ds_trace *t, const ds_row *r, ds_request *out, bool *taken, ds_diag *d) {
  int64_t offset_ns = r->time_ns - (t->source->rebase ? t->earliest_ns : 0);
  *taken = false;
  if (offset_ns < t->w.window_from_ns ||
      (t->w.window_to_ns > 0 && offset_ns >= t->w.window_to_ns)) {
    t->report.outside_window++;
    return true;
  }
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
                      .max_tokens = cap_of(&t->w, r),
                      .priority = r->priority,
                      .tenant = r->tenant,
                      .spans = r->spans,
                      .n_spans = r->n_spans};
  if (DS_UNLIKELY(r->n_spans > 0) && !t->sort && !ds_span_keep(&t->spans, &out->spans, r->n_spans))
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

static bool read_on(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d) {
  if (t->sort && !t->sorted && !read_all(t, d)) return false;
  while (*n < cap) {
    if (t->w.select_first > 0 && t->report.kept >= (uint64_t)t->w.select_first) {
      if (!t->selected_all && !count_rest(t, d)) return false;
      break;
    }
    const ds_row *row;
    if (t->sort) {
      if (t->all_at == t->all_n) break;
      row = &t->all[t->all_at++];
    } else {
      if (t->batch_at == t->batch_n) {
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
    *n += taken;
    t->report.kept += taken;
  }
  return true;
}

bool ds_trace_read(ds_trace *t, ds_request *r, size_t cap, size_t *n, ds_diag *d) {
  *n = 0;
  if (t->failed)
    return ds_diag_set(d, DS_EXIT_RUNTIME, file_of(t), 0, 0, "read again after an error");
  if (!t->sort) ds_span_forget(&t->spans);
  bool good = read_on(t, r, cap, n, d);
  if (good && cap > 0 && *n == 0 && t->report.kept == 0) good = nothing_left(t, d);
  if (!good) {
    t->failed = true;
    *n = 0;
  }
  return good;
}

/* ---- opening, closing, asking ---- */

bool ds_trace_file_open(const ds_workload *w, ds_input **in, ds_source **out, ds_diag *d) {
  const char *name = w->path_given[0] != '\0' ? w->path_given : w->path;
  const char *format;
  *out = NULL;
  if (!ds_input_open(w->path, name, in, d)) return false;
  if (!ds_trace_sniff(*in, w->format, &format, d)) return false;
  return strcmp(format, "azure") == 0 ? ds_azure_open(*in, out, d) : ds_jsonl_open(*in, out, d);
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
  t->sort = w->unsorted == DS_REPAIR_SORT && w->kind == DS_WORKLOAD_TRACE;
  return true;
}

void ds_trace_close(ds_trace *t) {
  if (t == NULL) return;
  t->source->close(t->source);
  ds_input_close(t->input);
  free(t->all);
  free(t->ids);
  free(t->runs);
  ds_span_room_free(&t->spans);
  free(t);
}

const char *ds_trace_id(const ds_trace *t, uint64_t index) {
  if (index < t->ids_room && t->ids[index] != DS_ROW_NO_ID)
    return t->source->id(t->source, t->ids[index]);
  /* The buffer is the trace's, and the next call may use it again, as the header says. */
  ds_trace *mutable = (ds_trace *)(uintptr_t)t;
  snprintf(mutable->number, sizeof mutable->number, "%llu", (unsigned long long)index);
  return t->number;
}

bool ds_trace_has_ids(const ds_trace *t) { return t->ids != NULL; }

int64_t ds_trace_line(const ds_trace *t, uint64_t index) {
  if (t->runs_n == 0 || index < t->runs[0].index || index >= t->lines_known) return 0;
  size_t low = 0, high = t->runs_n;
  while (high - low > 1) {
    size_t mid = low + (high - low) / 2;
    if (t->runs[mid].index <= index)
      low = mid;
    else
      high = mid;
  }
  return t->runs[low].line + (int64_t)(index - t->runs[low].index);
}

const ds_trace_report *ds_trace_report_of(const ds_trace *t) { return &t->report; }

const char *ds_trace_sha256(ds_trace *t) {
  return t->input != NULL ? ds_input_sha256(t->input) : "";
}

const char *ds_trace_format(const ds_trace *t) { return t->source->format; }

void ds_trace_progress(const ds_trace *t, uint64_t *done, uint64_t *total) {
  *done = *total = 0;
  if (t->input != NULL) ds_input_progress(t->input, done, total);
}
