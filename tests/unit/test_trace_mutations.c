// SPDX-License-Identifier: GPL-3.0-or-later
/* Thousands of damaged traces, the same ones every time: none may crash, hang or leak (the
 * sanitizer build runs this too), what is accepted keeps the promises of a request, and the two
 * ways to read an Azure row never disagree. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/trace.h"
#include "io/trace_source.h"

#define TEXT_MAX 4096

typedef struct text {
  char s[TEXT_MAX];
  size_t n;
} text;

static void put(text *t, const char *s) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n && t->n < TEXT_MAX; i++) t->s[t->n++] = s[i];
}

#define PICK(r, list) (list)[ds_rng_below((r), DS_ARRAY_LEN(list))]

static const char *const ends[] = {"\n",       "\n", "\n",  "\r\n",   "\r\n", "\n\n",
                                   "\r\n\r\n", "\r", " \n", "\r\r\n", ""};
static const char *const stamps[] = {"2023-11-16 18:15:46.6805900",
                                     "2023-11-16 18:15:46.6805901",
                                     "2023-11-16 18:15:47",
                                     "2023-11-16T18:15:48.5",
                                     "2023-11-16 18:16:00.25+00:00",
                                     "2023-11-16 18:16:00.25Z",
                                     "2023-11-16 18:16:01-0100",
                                     "2023-11-16 18:15:46.",
                                     "2023-11-16 18:15:60",
                                     "2023-11-31 18:15:46",
                                     "2024-02-29 00:00:00.123456789",
                                     "2023-11-16 18:15:46.1234567890",
                                     "",
                                     "x",
                                     "2023-11-16",
                                     "\"2023-11-16 18:15:46\"",
                                     " 2023-11-16 18:15:46 ",
                                     "2023-11-16 18:15:46+00:0",
                                     "2023-11-16 18:15"};
static const char *const counts[] = {
    "1",      "374",        "44",   "1000000000", "1000000001", "0",
    "007",    "-5",         "91.0", "abc",        "",           " 12 ",
    "\"12\"", "\"1\"\"2\"", "12\"", "\"12",       "4294967296", "99999999999999999999",
    "+7",     "1e3"};
static const char *const headers[] = {
    "TIMESTAMP,ContextTokens,GeneratedTokens", "TIMESTAMP,ContextTokens,GeneratedTokens",
    "TIMESTAMP,ContextTokens,GeneratedTokens", "timestamp,\"contexttokens\",GENERATEDTOKENS",
    "GeneratedTokens,TIMESTAMP,ContextTokens", "TIMESTAMP,ContextTokens,GeneratedTokens,note"};

/* Mostly good rows, so that one oddity does not hide another. */
static void make_csv(ds_rng *r, text *t) {
  t->n = 0;
  const char *header = PICK(r, headers);
  put(t, header);
  put(t, ds_rng_below(r, 2) ? "\n" : "\r\n");
  size_t rows = ds_rng_below(r, 30), one_in = ds_rng_below(r, 2) ? 4 : 60;
  for (size_t i = 0; i < rows; i++) {
    bool odd = ds_rng_below(r, one_in) == 0;
    put(t, odd ? PICK(r, stamps) : stamps[ds_rng_below(r, 5)]);
    put(t, ",");
    put(t, odd ? PICK(r, counts) : counts[ds_rng_below(r, 3)]);
    put(t, odd && ds_rng_below(r, 8) == 0 ? ";" : ",");
    put(t, odd ? PICK(r, counts) : counts[ds_rng_below(r, 3)]);
    if (header[0] == 'T' && header[strlen(header) - 1] == 'e') put(t, ",note");
    put(t, odd ? PICK(r, ends) : "\n");
  }
}

static const char *const values[] = {"1",
                                     "374",
                                     "0",
                                     "-1",
                                     "1.5",
                                     "1e3",
                                     "null",
                                     "true",
                                     "\"a\"",
                                     "\"\"",
                                     "[]",
                                     "[1,2]",
                                     "[1,",
                                     "{}",
                                     "{\"a\":[{}]}",
                                     "18446744073709551615",
                                     "9223372036854775808",
                                     "\"\\u0000\"",
                                     "\"\\ud800\"",
                                     "[18446744073709551615,0]",
                                     "[\"x\",5]",
                                     "nan",
                                     "\"\xff\"",
                                     "01",
                                     ""};
static const char *const names[] = {
    "id",      "arrival_ns", "input_tokens", "output_tokens", "max_tokens",   "priority", "tenant",
    "session", "turn",       "think_ns",     "class",         "block_tokens", "blocks",   "prefix",
    "blocs",   "",           "\\u0069d"};

static void make_jsonl(ds_rng *r, text *t) {
  t->n = 0;
  size_t rows = 1 + ds_rng_below(r, 12);
  for (size_t i = 0; i < rows; i++) {
    char line[160];
    snprintf(line, sizeof line, "{\"arrival_ns\": %zu, \"input_tokens\": 5, \"output_tokens\": 6",
             i);
    put(t, line);
    if (ds_rng_below(r, 3) == 0) {
      size_t more = 1 + ds_rng_below(r, 3);
      for (size_t k = 0; k < more; k++) {
        put(t, ", \"");
        put(t, PICK(r, names));
        put(t, "\": ");
        put(t, PICK(r, values));
      }
    }
    put(t, "}");
    put(t, PICK(r, ends));
  }
}

/* A few bytes changed, dropped, doubled or moved; perhaps cut off. */
static void damage(ds_rng *r, text *t) {
  static const char special[] = "\",\n\r:-+.0123456789TZ{}[]\\ \0\x7f\xef\xbb\xbf\xff;e";
  size_t times = ds_rng_below(r, 4);
  for (size_t i = 0; i < times && t->n > 0; i++) {
    size_t at = ds_rng_below(r, t->n), run = 1 + ds_rng_below(r, 6);
    if (run > t->n - at) run = t->n - at;
    switch (ds_rng_below(r, 5)) {
    case 0:
      t->s[at] = special[ds_rng_below(r, sizeof special)];
      break;
    case 1:
      t->s[at] = (char)ds_rng_below(r, 256);
      break;
    case 2:
      memmove(t->s + at, t->s + at + run, t->n - at - run);
      t->n -= run;
      break;
    case 3:
      if (t->n + run > TEXT_MAX) break;
      memmove(t->s + at + run, t->s + at, t->n - at);
      t->n += run;
      break;
    default:
      t->n = ds_rng_below(r, 8) == 0 ? at : t->n;
      break;
    }
  }
}

static char path[64];
static FILE *file;

static void make_file(void) {
  strcpy(path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/dryserve-mutations-XXXXXX"
                                             : "/tmp/dryserve-mutations-XXXXXX");
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  file = fdopen(fd, "w");
  cr_assert(file != NULL);
}

static void remove_file(void) {
  fclose(file);
  unlink(path);
}

TestSuite(trace_mutations, .init = make_file, .fini = remove_file);

static void write_text(const text *t) {
  cr_assert_eq(ftruncate(fileno(file), 0), 0);
  rewind(file);
  cr_assert_eq(fwrite(t->s, 1, t->n, file), t->n);
  cr_assert_eq(fflush(file), 0);
}

/* Read with some import rule; every request that comes out is one that the simulator takes. Returns
 * how many. */
static size_t read_through(ds_rng *r, bool *good) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = ds_rng_below(r, 4) == 0 ? 0.37 : 1.0;
  strcpy(w.path, path);
  static const ds_repair zero[] = {DS_REPAIR_ERROR, DS_REPAIR_DROP, DS_REPAIR_CLAMP};
  w.zero = PICK(r, zero);
  w.unsorted = ds_rng_below(r, 2) ? DS_REPAIR_SORT : DS_REPAIR_ERROR;
  w.select_first = ds_rng_below(r, 4) == 0 ? 3 : 0;
  w.max_tokens_times = ds_rng_below(r, 4) == 0 ? 2.5 : 0.0;
  ds_diag d;
  ds_trace *t;
  memset(&d, 0, sizeof d);
  *good = ds_trace_open(&w, 1, &t, &d);
  size_t n = 0, got = 1;
  int64_t last = 0;
  while (*good && got > 0) {
    ds_request q[7];
    *good = ds_trace_read(t, q, 7, &got, &d);
    for (size_t i = 0; *good && i < got; i++) {
      cr_assert(q[i].arrival_ns >= last && q[i].input_tokens >= 1 && q[i].output_tokens >= 1 &&
                q[i].input_tokens <= DS_TOKENS_MAX && q[i].output_tokens <= DS_TOKENS_MAX);
      cr_assert(q[i].max_tokens >= q[i].output_tokens && q[i].max_tokens <= DS_TOKENS_MAX);
      last = q[i].arrival_ns;
      cr_assert_gt(ds_trace_line(t, n + i), 0);
      cr_assert_gt(strlen(ds_trace_id(t, n + i)), 0u);
    }
    n += *good ? got : 0;
  }
  if (*good) {
    const ds_trace_report *p = ds_trace_report_of(t);
    cr_assert_eq(p->kept, n);
    cr_assert_eq(p->rows_read, p->kept + p->dropped_zero + p->outside_window + p->beyond_first);
    cr_assert_gt(n, 0u);
  } else {
    cr_assert_eq(d.exit, DS_EXIT_INPUT);
    cr_assert(d.text[0] != '\0' && d.expected[0] != '\0', "%s", d.text);
    cr_assert_eq(strcmp(d.file, path), 0);
  }
  ds_trace_close(t);
  return n;
}

Test(trace_mutations, damaged_files_are_read_or_refused) {
  ds_rng r = ds_rng_stream(20260105, DS_PURPOSE_TEST, 0);
  size_t read[2] = {0, 0}, refused[2] = {0, 0};
  for (int k = 0; k < 6000; k++) {
    text t;
    bool good;
    if (k % 2 == 0)
      make_csv(&r, &t);
    else
      make_jsonl(&r, &t);
    damage(&r, &t);
    write_text(&t);
    read_through(&r, &good);
    if (good)
      read[k % 2]++;
    else
      refused[k % 2]++;
  }
  /* The files are neither all hopeless nor all fine. */
  for (int i = 0; i < 2; i++)
    cr_assert(read[i] > 100 && refused[i] > 1000, "kind %d: %zu read, %zu refused", i, read[i],
              refused[i]);
}

/* All rows and complaints of a file, one after the other, with or without the short way. */
typedef struct story {
  ds_row row[64];
  ds_diag d[64];
  size_t rows, complaints;
  bool opened;
} story;

static void tell(story *s, bool library_only) {
  memset(s, 0, sizeof *s);
  ds_input *in;
  ds_source *source;
  const char *format;
  if (!ds_input_open(path, NULL, &in, &s->d[0])) cr_assert_fail("%s", s->d[0].text);
  s->opened =
      ds_trace_sniff(in, "azure", &format, &s->d[0]) && ds_azure_open(in, &source, &s->d[0]);
  if (s->opened) {
    if (library_only) ds_azure_use_library_only(source);
    for (size_t n = 1; n > 0;) {
      cr_assert(s->rows < 60 && s->complaints < 60);
      if (source->rows(source, s->row + s->rows, 3, &n, &s->d[s->complaints])) {
        s->rows += n;
      } else {
        cr_assert_eq(n, 0u);
        s->complaints++;
        n = 1;
      }
    }
    source->close(source);
  }
  ds_input_close(in);
}

static bool same_row(const ds_row *a, const ds_row *b) {
  return a->time_ns == b->time_ns && a->line == b->line && a->id == b->id &&
         a->input_tokens == b->input_tokens && a->output_tokens == b->output_tokens &&
         a->max_tokens == b->max_tokens && a->priority == b->priority &&
         a->time_column == b->time_column && a->input_column == b->input_column &&
         a->output_column == b->output_column;
}

Test(trace_mutations, short_way_reads_what_libcsv_reads) {
  ds_rng r = ds_rng_stream(20260106, DS_PURPOSE_TEST, 0);
  size_t rows = 0, complaints = 0;
  for (int k = 0; k < 5000; k++) {
    static story a, b;
    text t;
    make_csv(&r, &t);
    if (ds_rng_below(&r, 2)) damage(&r, &t);
    write_text(&t);
    tell(&a, false);
    tell(&b, true);
    cr_assert_eq(a.opened, b.opened);
    cr_assert(a.rows == b.rows && a.complaints == b.complaints,
              "file %d: %zu rows and %zu complaints, by libcsv %zu and %zu: %.*s", k, a.rows,
              a.complaints, b.rows, b.complaints, (int)t.n, t.s);
    for (size_t i = 0; i < a.rows; i++)
      cr_assert(same_row(&a.row[i], &b.row[i]), "file %d, row %zu: %.*s", k, i, (int)t.n, t.s);
    for (size_t i = 0; i < a.complaints; i++) {
      cr_assert(a.d[i].exit == b.d[i].exit && a.d[i].line == b.d[i].line &&
                    a.d[i].column == b.d[i].column && strcmp(a.d[i].text, b.d[i].text) == 0 &&
                    strcmp(a.d[i].expected, b.d[i].expected) == 0,
                "file %d: \"%s\" and \"%s\": %.*s", k, a.d[i].text, b.d[i].text, (int)t.n, t.s);
    }
    rows += a.rows;
    complaints += a.complaints;
  }
  cr_assert(rows > 20000 && complaints > 5000, "%zu rows, %zu complaints", rows, complaints);
}
