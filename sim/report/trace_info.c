// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/trace_info.h"

#include <stdio.h>
#include <string.h>

#include "report/json_writer.h"
#include "report/numbers.h"

static const char *count(char *b, uint64_t v) {
  ds_put_count(b, v);
  return b;
}

static const char *seconds(char *b, int64_t ns) {
  ds_put_decimal(b, ns, 9);
  return b;
}

static const char *number(char *b, double v) {
  ds_put_short(b, v);
  return b;
}

static double share(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* Text in lines of at most 80 columns, the first behind a label of 10. */
static void paragraph(ds_outfile *out, const char *label, const char *text) {
  size_t column = 10;
  ds_out_printf(out, "%-9s", label);
  column = 9;
  while (*text != '\0') {
    size_t n = strcspn(text, " ");
    if (column + 1 + n > 80 && column > 9) {
      ds_out_text(out, "\n         ");
      column = 9;
    }
    ds_out_text(out, " ");
    ds_out_bytes(out, text, n);
    column += n + 1;
    text += n;
    while (*text == ' ') text++;
  }
  ds_out_text(out, "\n");
}

static void length_line(ds_outfile *out, const char *what, const ds_length_stats *l) {
  char a[DS_NUMBER_BYTES], b[5][DS_NUMBER_BYTES], c[DS_NUMBER_BYTES], d[DS_NUMBER_BYTES];
  for (int i = 0; i < 5; i++) number(b[i], l->pct[i]);
  ds_out_printf(out, "%-7s %8s %6s %7s %7s %7s %7s %7s %14s\n", what, number(a, l->stats.mean),
                number(d, l->stats.min), b[0], b[1], b[2], b[3], b[4], count(c, l->sum));
}

static void reuse(ds_outfile *out, const ds_trace_stats *s) {
  char line[700], a[DS_NUMBER_BYTES], b[DS_NUMBER_BYTES];
  if (s->with_blocks == 0) {
    if (s->with_prefix > 0) {
      snprintf(line, sizeof line,
               "%.2f %% of prompt tokens were there before, in a cache that holds everything; %s "
               "requests "
               "name the prefix that they share",
               share(s->named_hits, s->named_input), count(a, s->with_prefix));
      paragraph(out, "reuse", line);
    } else {
      paragraph(out, "reuse", "not known: the trace does not say what the prompts hold");
    }
    return;
  }
  if (s->block_tokens == 0) {
    paragraph(out, "reuse", "not counted: blocks of several sizes");
    return;
  }
  snprintf(
      line, sizeof line,
      "%.2f %% of blocks and %.2f %% of prompt tokens were there before, in a cache that holds "
      "everything; %s blocks of %u, %s of them different",
      share(s->hit_blocks, s->blocks), share(s->hit_tokens, s->block_input), count(a, s->blocks),
      s->block_tokens, count(b, s->unique_blocks));
  paragraph(out, "reuse", line);
  size_t n = 0;
  line[0] = '\0';
  for (size_t i = 0; i < s->n_sizes && s->size[i].blocks > 0; i++)
    n += (size_t)snprintf(line + n, sizeof line - n, "%s%.2f %% of %u-token blocks",
                          n > 0 ? ", " : "", share(s->size[i].hits, s->size[i].blocks),
                          s->size[i].tokens);
  if (n > 0) paragraph(out, "", line);
  n = 0;
  for (int i = 0; i < DS_TRACE_LRU; i++)
    n +=
        (size_t)snprintf(line + n, sizeof line - n, "%s%.2f %% (%uk)",
                         n > 0 ? ", " : "LRU of so many blocks: ", share(s->lru_hits[i], s->blocks),
                         (unsigned)(ds_trace_lru_blocks[i] / 1000));
  paragraph(out, "", line);
}

static void images(ds_outfile *out, const ds_trace_stats *s) {
  char line[300], a[DS_NUMBER_BYTES], b[DS_NUMBER_BYTES], c[DS_NUMBER_BYTES];
  if (s->with_images == 0) return;
  if (s->image_tokens > 0)
    snprintf(line, sizeof line, "%s in %s requests, %s tokens of the input", count(a, s->images), count(b, s->with_images), count(c, s->image_tokens));
  else
    snprintf(line, sizeof line, "%s in %s requests, of a size that the trace does not say: workload.images does", count(a, s->images), count(b, s->with_images));
  paragraph(out, "images", line);
}

static void oddities(ds_outfile *out, const ds_trace *t, const ds_trace_stats *s) {
  char line[400], a[DS_NUMBER_BYTES], b[DS_NUMBER_BYTES];
  const ds_trace_report *p = &s->report;
  bool any = false;
#define ODD(...)                                                                                   \
  do {                                                                                             \
    snprintf(line, sizeof line, __VA_ARGS__);                                                      \
    paragraph(out, any ? "" : "odd", line);                                                        \
    any = true;                                                                                    \
  } while (0)
  if (s->n > 20 && s->ties * 2 > s->n && s->tick_ns > 0 && !ds_trace_is_closed(t)) {
    char tick[DS_NUMBER_BYTES];
    ds_put_duration(tick, s->tick_ns);
    ODD("%.1f %% of requests arrive together with the one before, in ticks of about %s: if the "
        "clock was that "
        "coarse, `import: {dequantize: %s}` spreads them",
        share(s->ties, s->n), tick, tick);
  }
  if (s->copies > 0)
    ODD("%s rows say the same as one before; `import: {duplicates: drop}` leaves them out",
        count(a, s->copies));
  if (s->input.at_max > 20 && s->input.at_max * 500 > s->n)
    ODD("%s inputs have exactly the largest length, %s: cut at a limit?", count(a, s->input.at_max),
        count(b, (uint64_t)s->input.stats.max));
  if (s->output.at_max > 20 && s->output.at_max * 500 > s->n)
    ODD("%s outputs have exactly the largest length, %s: cut at a limit?",
        count(a, s->output.at_max), count(b, (uint64_t)s->output.stats.max));
  if (p->looks_incremental * 2 > s->in_sessions && p->looks_incremental > 1)
    ODD("in %s turns the input is smaller than what the turn before left: if inputs hold only what "
        "is new, "
        "`import: {session_input: delta}` adds them up",
        count(a, p->looks_incremental));
  if (s->broken > 0)
    ODD("%s turns do not begin with the blocks of the turn before", count(a, s->broken));
  if (ds_trace_note(t) != NULL) ODD("%s", ds_trace_note(t));
#undef ODD
}

void ds_trace_info(ds_outfile *out, const char *name, ds_trace *t, const ds_trace_stats *s) {
  char line[700], a[DS_NUMBER_BYTES], b[DS_NUMBER_BYTES], c[DS_NUMBER_BYTES];
  double span_s = (double)(s->last_ns - s->first_ns) / 1e9;
  snprintf(line, sizeof line, "%.400s (%s)", name, ds_trace_format(t));
  paragraph(out, "trace", line);
  ds_trace_account(t, line, sizeof line);
  paragraph(out, "rows", line);
  snprintf(line, sizeof line, "%s requests in %s s%s", count(a, s->n),
           seconds(b, s->last_ns - s->first_ns),
           ds_trace_is_closed(t) ? " (as far as they do not wait for others)" : "");
  if (span_s > 0) {
    size_t n = strlen(line);
    snprintf(line + n, sizeof line - n, ", %s a second, at most %s in one",
             number(b, (double)(s->n - 1) / span_s), count(c, s->peak_per_s));
  }
  paragraph(out, "load", line);
  size_t n = 0;
  if (s->gap_cv > 0)
    n = (size_t)snprintf(line, sizeof line, "CV of gaps %.3f (Poisson 1)", s->gap_cv);
  static const int bins[3] = {1, 10, 60};
  for (int i = 0; i < 3; i++)
    if (s->dispersion[i] > 0)
      n += (size_t)snprintf(line + n, sizeof line - n, "%s%.3g in %d s",
                            i == 0 ? "; index of dispersion " : ", ", s->dispersion[i], bins[i]);
  if (n > 0) paragraph(out, "bursts", line);
  if (s->sessions > 0) {
    char mean[DS_NUMBER_BYTES];
    snprintf(line, sizeof line, "%s with %s requests, at most %s turns, %s on average",
             count(a, s->sessions), count(b, s->in_sessions), count(c, s->max_turns),
             number(mean, (double)s->in_sessions / (double)s->sessions));
    paragraph(out, "sessions", line);
  }
  ds_out_printf(out, "\n%-7s %8s %6s %7s %7s %7s %7s %7s %14s\n", "tokens", "mean", "min", "p50",
                "p90", "p95", "p99", "max", "sum");
  length_line(out, "input", &s->input);
  length_line(out, "output", &s->output);
  ds_out_text(out, "\n");
  images(out, s);
  reuse(out, s);
  oddities(out, t, s);
}

void ds_import_json(ds_json *j, const char *key, const ds_trace *t) {
  const ds_trace_report *p = ds_trace_report_of(t);
  const char *reason, *what;
  uint64_t n;
  bool dropped;
  ds_json_object(j, key);
  ds_json_text(j, "format", ds_trace_format(t));
  ds_json_count(j, "rows_read", p->rows_read);
  ds_json_count(j, "kept", p->kept);
  for (int round = 0; round < 2; round++) {
    ds_json_object(j, round == 0 ? "dropped" : "repaired");
    for (size_t i = 0; ds_trace_reason(p, i, &reason, &what, &n, &dropped); i++)
      if (dropped == (round == 0) && n > 0) ds_json_count(j, reason, n);
    ds_json_end_object(j);
  }
  ds_json_text(j, "note", ds_trace_note(t));
  ds_json_end_object(j);
}

static void length_json(ds_json *j, const char *key, const ds_length_stats *l) {
  static const char *const names[5] = {"p50", "p90", "p95", "p99", "max"};
  ds_json_object(j, key);
  ds_json_count(j, "sum", l->sum);
  ds_json_number(j, "mean", l->stats.mean);
  ds_json_number(j, "std", l->stats.std);
  ds_json_number(j, "min", l->stats.min);
  for (int i = 0; i < 5; i++) ds_json_number(j, names[i], l->pct[i]);
  ds_json_count(j, "at_max", l->at_max);
  ds_json_end_object(j);
}

static void reuse_json(ds_json *j, const ds_trace_stats *s) {
  char key[24];
  ds_json_object(j, "prefix");
  ds_json_count(j, "block_tokens", s->block_tokens);
  ds_json_count(j, "blocks", s->blocks);
  ds_json_count(j, "unique_blocks", s->unique_blocks);
  ds_json_count(j, "prefix_hit_blocks", s->hit_blocks);
  ds_json_count(j, "prefix_hit_tokens", s->hit_tokens);
  ds_json_count(j, "full_hit_requests", s->full_hits);
  ds_json_object(j, "lru");
  for (int i = 0; i < DS_TRACE_LRU; i++) {
    snprintf(key, sizeof key, "%u", (unsigned)ds_trace_lru_blocks[i]);
    ds_json_count(j, key, s->lru_hits[i]);
  }
  ds_json_end_object(j);
  ds_json_object(j, "coarser");
  for (size_t i = 0; i < s->n_sizes; i++) {
    snprintf(key, sizeof key, "%u", s->size[i].tokens);
    ds_json_object(j, key);
    ds_json_count(j, "blocks", s->size[i].blocks);
    ds_json_count(j, "hits", s->size[i].hits);
    ds_json_end_object(j);
  }
  ds_json_end_object(j);
  ds_json_end_object(j);
}

void ds_trace_info_json(ds_outfile *out, const char *name, ds_trace *t, const ds_trace_stats *s) {
  ds_json j = {out, 0, false};
  ds_json_object(&j, NULL);
  ds_json_text(&j, "trace", name);
  ds_json_text(&j, "sha256", ds_trace_sha256(t));
  ds_import_json(&j, "import", t);
  ds_json_count(&j, "requests", s->n);
  ds_json_integer(&j, "span_ns", s->last_ns - s->first_ns);
  double span_s = (double)(s->last_ns - s->first_ns) / 1e9;
  bool spread = span_s > 0; /* else nothing is known of the pace */
  if (spread) ds_json_number(&j, "rate_per_s", (double)(s->n - 1) / span_s);
  else ds_json_null(&j, "rate_per_s");
  ds_json_integer(&j, "min_gap_ns", s->min_gap_ns);
  ds_json_integer(&j, "max_gap_ns", s->max_gap_ns);
  if (spread) ds_json_number(&j, "gap_cv", s->gap_cv);
  else ds_json_null(&j, "gap_cv");
  ds_json_array(&j, "dispersion_1_10_60_s");
  for (int i = 0; i < 3; i++) {
    if (s->dispersion[i] > 0) ds_json_number(&j, NULL, s->dispersion[i]);
    else ds_json_null(&j, NULL);
  }
  ds_json_end_array(&j);
  ds_json_count(&j, "peak_per_s", s->peak_per_s);
  ds_json_count(&j, "equal_arrivals", s->ties);
  ds_json_count(&j, "copies", s->copies);
  ds_json_count(&j, "max_context", s->max_context);
  ds_json_count(&j, "sessions", s->sessions);
  ds_json_count(&j, "in_sessions", s->in_sessions);
  ds_json_count(&j, "max_turns", s->max_turns);
  ds_json_count(&j, "broken_chains", s->broken);
  ds_json_count(&j, "looks_incremental", s->report.looks_incremental);
  length_json(&j, "input", &s->input);
  length_json(&j, "output", &s->output);
  if (s->with_images > 0) {
    ds_json_count(&j, "with_images", s->with_images);
    ds_json_count(&j, "images", s->images);
    ds_json_count(&j, "image_tokens", s->image_tokens);
  }
  ds_json_count(&j, "named_prefix_hit_tokens", s->named_hits);
  if (s->with_blocks > 0) reuse_json(&j, s);
  ds_json_end_object(&j);
}
