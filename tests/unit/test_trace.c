// SPDX-License-Identifier: GPL-3.0-or-later
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "io/trace.h"
#include "io/trace_source.h"

#define HEADER "TIMESTAMP,ContextTokens,GeneratedTokens\n"

static char folder[64];

static void make_folder(void) {
  strcpy(folder, "/tmp/dryserve-trace-XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void) {
  char command[80];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  cr_assert_eq(system(command), 0);
}

TestSuite(trace, .init = make_folder, .fini = remove_folder);

static const char *file_with(const void *bytes, size_t n) {
  static char path[96];
  snprintf(path, sizeof path, "%s/t", folder);
  FILE *f = fopen(path, "wb");
  cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
  return path;
}

static ds_workload workload(const char *path) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1.0;
  snprintf(w.path, sizeof w.path, "%s", path);
  strcpy(w.path_given, "given.csv");
  return w;
}

typedef struct outcome {
  bool good;
  ds_diag d;
  ds_request r[64];
  size_t n;
  ds_trace_report report;
  char format[16], sha256[65];
  char id[64][24];
  bool has_ids;
  int64_t line[64];
} outcome;

/* Read it all, `chunk` at a time. */
static outcome *read_workload(const ds_workload *w, size_t chunk) {
  static outcome o;
  ds_trace *t;
  memset(&o, 0, sizeof o);
  o.good = ds_trace_open(w, 1, &t, &o.d);
  if (!o.good) {
    cr_assert(t == NULL);
    return &o;
  }
  for (size_t got = 1; o.good && got > 0; o.n += got) {
    cr_assert_leq(o.n + chunk, 64u);
    o.good = ds_trace_read(t, o.r + o.n, chunk, &got, &o.d);
  }
  o.report = *ds_trace_report_of(t);
  strcpy(o.format, ds_trace_format(t));
  strcpy(o.sha256, ds_trace_sha256(t));
  o.has_ids = ds_trace_has_ids(t);
  for (size_t i = 0; i < o.n; i++) {
    snprintf(o.id[i], sizeof o.id[i], "%s", ds_trace_id(t, i));
    o.line[i] = ds_trace_line(t, i);
  }
  if (o.good) cr_assert_eq(ds_trace_line(t, o.n), 0);
  ds_trace_close(t);
  return &o;
}

static outcome *read_text(const char *text) {
  ds_workload w = workload(file_with(text, strlen(text)));
  return read_workload(&w, 5);
}

typedef struct want {
  const char *text;
  size_t n;
  struct {
    int64_t ns;
    uint32_t in, out;
    int64_t line;
  } r[8];
} want;

static void expect(const outcome *o, const want *w, const char *label) {
  cr_assert(o->good, "%s: %s (line %lld) in %s", label, o->d.text, (long long)o->d.line, w->text);
  cr_assert_eq(o->n, w->n, "%s: %zu requests of %s", label, o->n, w->text);
  for (size_t i = 0; i < w->n; i++) {
    cr_assert_eq(o->r[i].arrival_ns, w->r[i].ns, "%s %zu: at %lld of %s", label, i,
                 (long long)o->r[i].arrival_ns, w->text);
    cr_assert_eq(o->r[i].input_tokens, w->r[i].in);
    cr_assert_eq(o->r[i].output_tokens, w->r[i].out);
    cr_assert_eq(o->r[i].max_tokens, w->r[i].out);
    cr_assert_eq(o->line[i], w->r[i].line, "%s %zu: line %lld of %s", label, i,
                 (long long)o->line[i], w->text);
  }
}

/* Forms of the Azure file that are all right. */
Test(trace, azure_forms_are_read) {
  static const want good[] = {
      /* 2023: CR LF, seven digits, no newline at the end; equal times keep their order */
      {"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 "
       "18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n2023-11-16 "
       "18:15:50.9951690,1,2",
       3,
       {{0, 374, 44, 2}, {4314579000, 396, 109, 3}, {4314579000, 1, 2, 4}}},
      /* 2024: offsets; a byte order mark */
      {"\xef\xbb\xbf" HEADER "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 "
                             "00:00:01+00:00,10,16\n2024-05-10T02:00:02+02:00,7,8\n2024-05-09T19:"
                             "30:03.5-0430,9,10\n2024-05-10T00:00:04Z,1,1\n",
       5,
       {{0, 2162, 5, 2},
        {990070000, 10, 16, 3},
        {1990070000, 7, 8, 4},
        {3490070000, 9, 10, 5},
        {3990070000, 1, 1, 6}}},
      /* 0 to 9 fraction digits */
      {HEADER "2024-02-29 23:59:59,1,1\n2024-02-29 23:59:59.1,2,1\n2024-02-29 "
              "23:59:59.123456789,3,1\n2024-03-01 00:00:00.000000001,4,1\n",
       4,
       {{0, 1, 1, 2}, {100000000, 2, 1, 3}, {123456789, 3, 1, 4}, {1000000001, 4, 1, 5}}},
      /* names in another order and case, further columns, quotes, doubled quotes, a line end in a
         cell, blanks, blank lines */
      {"generatedtokens , ContextTOKENS,note,timestamp\r\n\r\n7,8,\"a, \"\"b\"\"\n "
       "c\",2023-11-16T18:15:46\r\n   \n9,\"10\", z ,2023-11-16T18:15:46.5Z\n\n",
       2,
       {{0, 8, 7, 3}, {500000000, 10, 9, 6}}},
      {HEADER "\n2023-12-31 23:59:59,1,2\n\"2024-01-01 00:00:00\",\"3\" , \"4\"\n\n\n 2024-01-01 "
              "00:00:01 , 5 , 6 \n2024-01-01 00:00:02,0007,8\n",
       4,
       {{0, 1, 2, 3}, {1000000000, 3, 4, 4}, {2000000000, 5, 6, 7}, {3000000000, 7, 8, 8}}},
      {"\n\n" HEADER "2023-11-16 18:15:46,1000000000,1\r\n", 1, {{0, 1000000000, 1, 4}}},
      {HEADER "1970-01-01 00:00:00,1,1\n2261-12-31 23:59:59.999999999,2,2\n",
       2,
       {{0, 1, 1, 2}, {9214646399999999999, 2, 2, 3}}},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(good); i++) {
    const outcome *o = read_text(good[i].text);
    expect(o, &good[i], "azure");
    cr_assert_str_eq(o->format, "azure");
    cr_assert_not(o->has_ids);
    cr_assert_str_eq(o->id[0], "0");
    cr_assert_eq(o->report.rows_read, good[i].n);
    cr_assert_eq(o->report.kept, good[i].n);
  }
}

Test(trace, native_lines_are_read) {
  static const want good[] = {
      {"{\"id\":\"a\",\"arrival_ns\":5,\"input_tokens\":1,\"output_tokens\":2}\r\n\n  "
       "{\"output_tokens\": 4, \"input_tokens\": 3, \"arrival_ns\": 7, \"id\": 12}",
       2,
       {{0, 1, 2, 1}, {2, 3, 4, 3}}},
      {"\xef\xbb\xbf{\"arrival_ns\":9000000000000000000,\"input_tokens\":1,\"output_tokens\":2,"
       "\"priority\":-3,\"tenant\":\"t\",\"session\":8,\"turn\":0,"
       "\"think_ns\":0,\"class\":\"chat\",\"block_tokens\":1,\"blocks\":[0, 18446744073709551615 "
       ",7],\"prefix\":[\"system\",512]}\n",
       1,
       {{0, 1, 2, 1}}},
      {"{\"arrival_ns\":0,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":[],\"class\":\"a]},{"
       "\\\"\"}\n{\"arrival_ns\":0,\"blocks\" : [ 1 ] ,\"block_tokens\":16,\"input_tokens\":1,\"output_tokens\":1}\n",
       2,
       {{0, 1, 2, 1}, {0, 1, 1, 2}}},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(good); i++) {
    const outcome *o = read_text(good[i].text);
    expect(o, &good[i], "jsonl");
    cr_assert_str_eq(o->format, "jsonl");
    cr_assert_eq(o->has_ids, i == 0);
    if (i == 0) cr_assert(strcmp(o->id[0], "a") == 0 && strcmp(o->id[1], "12") == 0);
    if (i == 1) cr_assert_eq(o->r[0].priority, -3);
  }
  /* Ids that start late: the index stands in for the missing ones. */
  const outcome *o =
      read_text("{\"arrival_ns\":0,\"input_tokens\":1,\"output_tokens\":2}\n{\"arrival_ns\":0,"
                "\"input_tokens\":1,\"output_tokens\":2,\"id\":\"x\"}\n"
                "{\"arrival_ns\":0,\"input_tokens\":1,\"output_tokens\":2}\n");
  cr_assert(o->has_ids && strcmp(o->id[0], "0") == 0 && strcmp(o->id[1], "x") == 0 &&
            strcmp(o->id[2], "2") == 0);
}

/* Bad files: exit status, place, what the message shows and expects. */
Test(trace, bad_files_are_refused_with_place_and_reason) {
#define ROW  "2023-11-16 18:15:46.68,5,6\n"
#define LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2}\n"
  static const struct {
    const char *text;
    int64_t line, column;
    const char *found, *expected;
  } bad[] = {
      {"", 0, 0, "empty", "Azure CSV"},
      {"\n \r\n", 0, 0, "blank lines", "Azure CSV"},
      {HEADER, 0, 0, "a header and nothing else", "at least one request"},
      {HEADER "\n\n", 0, 0, "a header and nothing else", "at least one request"},
      {ROW, 1, 1, "no header line", "TIMESTAMP,ContextTokens"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 0, 0,
       "Git LFS pointer", "git lfs pull"},
      {"<!DOCTYPE html><html></html>\n", 0, 0, "HTML page", "raw file"},
      {"\n  <html>", 0, 0, "HTML page", "raw file"},
      {"<?xml version=\"1.0\"?>", 0, 0, "XML document", "raw file"},
      {"PK\x03\x04zzzz", 0, 0, "zip archive", "Azure CSV"},
      {"PAR1\x15", 0, 0, "Parquet", "Azure CSV"},
      {"\x01\x02\x03\x04 abc", 0, 0, "binary file", "Azure CSV"},
      {"\xff\xfeT", 0, 0, "UTF-16", "Azure CSV"},
      {"hello\n", 1, 1, "\"hello\"", "CSV header"},
      {"a,b,c\r\n1,2,3\n", 1, 1, "columns a, b, c", "map:"},
      {"0,1.5,1.1,Gamma,0.8,0.9\n", 0, 0, "ServeGen", "dataset.json"},
      {"{\n  \"a\": 3\n}\n", 0, 0, "several lines", "one JSON object a line"},
      {"[{\"id\": 1}]\n", 0, 0, "JSON array", "one JSON object a line"},
      {"TIMESTAMP;ContextTokens;GeneratedTokens\n" ROW, 1, 1, "no column TIMESTAMP",
       "separated by commas"},
      {"TIMESTAMP,Context,GeneratedTokens\n" ROW, 1, 1, "no column ContextTokens", "ContextTokens"},
      {"TIMESTAMP,ContextTokens,contexttokens,GeneratedTokens\n", 1, 1,
       "ContextTokens appears twice", "one column of each name"},
      {HEADER ROW "2023-11-16 18:15:46.68,abc,4\n", 3, 24, "ContextTokens is not a number: \"abc\"",
       "a whole number"},
      {HEADER ROW "2023-11-16 18:15:47,-5,4\n", 3, 21, "ContextTokens is negative: \"-5\"",
       "a whole number"},
      {HEADER ROW "2023-11-16 18:15:47,5,\n", 3, 23, "GeneratedTokens is empty", "a whole number"},
      {HEADER ROW "2023-11-16 18:15:47,5,91.0\n", 3, 23, "not a whole number: \"91.0\"",
       "a whole number"},
      {HEADER ROW "2023-11-16 18:15:47,1e3,9\n", 3, 21, "not a whole number: \"1e3\"",
       "a whole number"},
      {HEADER ROW "2023-11-16 18:15:47,1000000001,9\n", 3, 21, "too large: \"1000000001\"",
       "1000000000"},
      {HEADER ROW "2023-11-16 18:15:47,4294967296,9\n", 3, 21, "too large", "1000000000"},
      {HEADER ROW "2023-11-16 18:15:47,99999999999999999999999999,9\n", 3, 21, "too large",
       "1000000000"},
      {HEADER ROW "2023-11-16 18:15:47,5\n", 3, 21, "a row of 2 cells", "3 cells"},
      {HEADER ROW "2023-11-16 18:15:47,5,6,7\n", 3, 25, "a row of 4 cells", "3 cells"},
      {HEADER ROW "x\n", 3, 1, "a row of 1 cell", "3 cells"},
      {HEADER "2023-11-16 18:15:4x,5,6\n", 2, 1, "not a time", "YYYY-MM-DD"},
      {HEADER "1700158546.68,5,6\n", 2, 1, "not a time", "YYYY-MM-DD"},
      {HEADER ",5,6\n", 2, 1, "TIMESTAMP is empty", "YYYY-MM-DD"},
      {HEADER "2023-02-29 18:15:46,5,6\n", 2, 1, "no such day", "YYYY-MM-DD"},
      {HEADER "2023-13-01 18:15:46,5,6\n", 2, 1, "no such month", "YYYY-MM-DD"},
      {HEADER "2023-12-01 24:15:46,5,6\n", 2, 1, "no such time of day", "YYYY-MM-DD"},
      {HEADER "2023-12-01 23:15:60,5,6\n", 2, 1, "no such time of day", "YYYY-MM-DD"},
      {HEADER "2262-01-01 00:00:00,5,6\n", 2, 1, "year out of range", "YYYY-MM-DD"},
      {HEADER "2023-12-01 23:15:46.1234567890,5,6\n", 2, 1, "more than 9 fraction digits",
       "YYYY-MM-DD"},
      {HEADER "2023-12-01 23:15:46.,5,6\n", 2, 1, "no digits behind the point", "YYYY-MM-DD"},
      {HEADER "2023-12-01 23:15:46+25:00,5,6\n", 2, 1, "offset", "YYYY-MM-DD"},
      {HEADER "2023-12-01 23:15:46 UTC,5,6\n", 2, 1, "not a time", "YYYY-MM-DD"},
      {HEADER ROW "\"2023-11-16 18:15:47\",\"x\",6\n", 3, 23,
       "ContextTokens is not a number: \"x\"", "a whole number"},
      {HEADER ROW "\"2023-11-16 18:15:47,5,6\n" ROW, 3, 0, "a quoted cell that does not end",
       "closing quote"},
      {HEADER ROW "2023-11-16 18:1\"5:47,5,6\n", 3, 16, "a stray quote",
       "quotes around a whole cell"},
      {HEADER ROW "2023-11-16 18:15:47,5\r6,7\n", 3, 22, "carriage return", "LF or CR LF"},
      {HEADER ROW "2023-11-16 18:15:47,5,0\n", 3, 23, "GeneratedTokens is 0", "zero: drop"},
      {HEADER ROW "2023-11-16 18:15:47,0,5\n2023-11-16 18:15:48,3,0\n2023-11-16 18:15:49,0,0\n", 3,
       21, "ContextTokens is 0 (and 2 more rows with zero tokens)", "zero: drop"},
      {HEADER ROW "2023-11-16 18:15:46.58,5,6\n" ROW "2023-11-16 18:15:46.38,5,6", 3, 1,
       "TIMESTAMP is 0.100000000 s earlier than in a row before (and 1 more row out of order)",
       "unsorted: sort"},
      {HEADER ROW "a,5,6\n" ROW "2023-11-16 18:15:47,b,6\nc\n" ROW, 3, 1,
       "(and 2 more rows that cannot be read)", "YYYY-MM-DD"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1}\n", 2, 0, "without output_tokens",
       "arrival_ns, input_tokens and output_tokens"},
      {LINE "{\"arrival\":1,\"input_tokens\":1,\"output_tokens\":2}\n", 2, 2,
       "unknown key \"arrival\"", "arrival_ns"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"priorty\":3}\n", 2, 52,
       "unknown key \"priorty\"", "priority"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1.5,\"output_tokens\":2}\n", 2, 32,
       "input_tokens is not a whole number: 1.5", "from 1 to 1000000000"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":\"7\",\"output_tokens\":2}\n", 2, 32,
       "input_tokens is not a number: \"7\"", "from 1 to"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":-7,\"output_tokens\":2}\n", 2, 32,
       "input_tokens is negative: -7", "from 1 to"},
      {LINE "{\"arrival_ns\":-1,\"input_tokens\":7,\"output_tokens\":2}\n", 2, 15,
       "arrival_ns is negative: -1", "from 0 to"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":7,\"output_tokens\":4294967296}\n", 2, 50,
       "output_tokens is too large: 4294967296", "1000000000"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":7,\"output_tokens\":0}\n", 2, 50,
       "output_tokens is 0", "zero: drop"},
      {LINE "{\"arrival_ns\":0,\"input_tokens\":7,\"output_tokens\":1}\n", 2, 15,
       "arrival_ns is 0.000000001 s earlier", "unsorted: sort"},
      {LINE "{\"arrival_ns\":99999999999999999999,\"input_tokens\":7,\"output_tokens\":1}\n", 2, 15,
       "not JSON", "one JSON object a line"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"max_tokens\":0}\n", 2, 65,
       "max_tokens is too small: 0", "from 1 to"},
      {LINE "{\"arrival_ns\":1,\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2}\n", 2, 28,
       "a key appears twice", "each key once"},
      {LINE "{\"arrival_ns\":1,\"input_tok", 2, 26, "ends inside its JSON object",
       "one JSON object a line"},
      {LINE "{\"arrival_ns\":1} {}\n", 2, 18, "something follows", "one JSON object a line"},
      {LINE "7\n", 2, 1, "not", "one JSON object a line"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":[1,-2]}\n", 2, 64,
       "blocks holds \"-2\"", "18446744073709551615"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":["
            "18446744073709551616]}\n",
       2, 62, "blocks holds", "18446744073709551615"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":[1,[2]]}\n", 2, 64,
       "blocks holds \"[2]\"", "18446744073709551615"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":[1,]}\n", 2, 61,
       "not JSON", "one JSON object a line"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"blocks\":{}}\n", 2, 61,
       "blocks is not a list", "[id, id, ...]"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"prefix\":[\"a\"]}\n", 2, 61,
       "prefix is not a name and a count", "[name, tokens]"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"class\":7}\n", 2, 60,
       "class is not a text: 7", "a text"},
      {LINE "{\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2,\"id\":\"\"}\n", 2, 57,
       "id is empty", "a text"},
      {"{\"id\":\"a\",\"arrival_ns\":1,\"input_tokens\":1,\"output_tokens\":2}\n\n{\"arrival_ns\":"
       "1,\"id\":\"a\",\"input_tokens\":1,\"output_tokens\":2}\n",
       3, 22, "id appears a second time: \"a\"", "line 1 has this one"},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(bad); i++) {
    const outcome *o = read_text(bad[i].text);
    cr_assert_not(o->good, "case %zu was read: %s", i, bad[i].text);
    cr_assert_eq(o->d.exit, DS_EXIT_INPUT, "case %zu: exit %d", i, (int)o->d.exit);
    cr_assert_str_eq(o->d.file, "given.csv");
    cr_assert(strstr(o->d.text, bad[i].found) != NULL, "case %zu: \"%s\" lacks \"%s\"", i,
              o->d.text, bad[i].found);
    cr_assert(strstr(o->d.expected, bad[i].expected) != NULL, "case %zu: \"%s\" lacks \"%s\"", i,
              o->d.expected, bad[i].expected);
    cr_assert(o->d.line == bad[i].line && o->d.column == bad[i].column,
              "case %zu: at %lld:%lld, not %lld:%lld: %s", i, (long long)o->d.line,
              (long long)o->d.column, (long long)bad[i].line, (long long)bad[i].column, o->d.text);
  }
  cr_assert(strstr(read_text(LINE "{\"arival_ns\":1}\n")->d.hint, "arrival_ns") != NULL);
}

Test(trace, files_that_cannot_be_opened) {
  ds_workload w = workload("/nonexistent/x.csv");
  const outcome *o = read_workload(&w, 5);
  cr_assert(!o->good && o->d.exit == DS_EXIT_INPUT && strstr(o->d.text, "No such file") != NULL);
  w = workload(folder);
  o = read_workload(&w, 5);
  cr_assert(!o->good && o->d.exit == DS_EXIT_INPUT && strstr(o->d.text, "is a directory") != NULL,
            "%s", o->d.text);
  w = workload(file_with(HEADER ROW, strlen(HEADER ROW)));
  strcpy(w.format, "azur");
  o = read_workload(&w, 5);
  cr_assert(!o->good && strstr(o->d.text, "\"azur\"") != NULL &&
            strstr(o->d.hint, "azure") != NULL);
  strcpy(w.format, "jsonl");
  o = read_workload(&w, 5);
  cr_assert(!o->good && o->d.line == 1 && strstr(o->d.text, "not JSON") != NULL, "%s", o->d.text);
  strcpy(w.format, "azure");
  cr_assert(read_workload(&w, 5)->good);
}

/* import, select and time_scale. Rows at 0, 1, 2, 2, 3.5 s; the second has no output, the fourth no
 * input. */
Test(trace, repairs_and_selection) {
  static const char text[] =
      HEADER "2024-01-01 00:00:00,10,1\n2024-01-01 00:00:01,11,0\n2024-01-01 "
             "00:00:02,12,3\n2024-01-01 00:00:02,0,4\n2024-01-01 00:00:03.5,14,5\n";
  ds_workload w = workload(file_with(text, strlen(text)));
  w.zero = DS_REPAIR_DROP;
  const outcome *o = read_workload(&w, 3);
  expect(o, &(want){text, 3, {{0, 10, 1, 2}, {2000000000, 12, 3, 4}, {3500000000, 14, 5, 6}}},
         "drop");
  cr_assert(o->report.rows_read == 5 && o->report.kept == 3 && o->report.dropped_zero == 2);
  w.zero = DS_REPAIR_CLAMP;
  o = read_workload(&w, 3);
  expect(o,
         &(want){text,
                 5,
                 {{0, 10, 1, 2},
                  {1000000000, 11, 1, 3},
                  {2000000000, 12, 3, 4},
                  {2000000000, 1, 4, 5},
                  {3500000000, 14, 5, 6}}},
         "clamp");
  cr_assert(o->report.kept == 5 && o->report.clamped_zero == 2);
  /* [1 s, 3.5 s): half open, times count from its start */
  w.window_from_ns = 1000000000;
  w.window_to_ns = 3500000000;
  o = read_workload(&w, 2);
  expect(o, &(want){text, 3, {{0, 11, 1, 3}, {1000000000, 12, 3, 4}, {1000000000, 1, 4, 5}}},
         "window");
  cr_assert(o->report.outside_window == 2 && o->report.rows_read == 5);
  /* Of the window the first two; a half and a third of the time, rounded to the nanosecond */
  w.select_first = 2;
  w.time_scale = 0.5;
  o = read_workload(&w, 2);
  expect(o, &(want){text, 2, {{0, 11, 1, 3}, {500000000, 12, 3, 4}}}, "first");
  cr_assert(o->report.kept == 2 && o->report.outside_window == 1 && o->report.beyond_first == 2 &&
            o->report.rows_read == 5);
  w.time_scale = 1.0 / 3;
  expect(read_workload(&w, 5), &(want){text, 2, {{0, 11, 1, 3}, {333333333, 12, 3, 4}}}, "scale");
  w.window_from_ns = 4000000000;
  w.window_to_ns = 5000000000;
  o = read_workload(&w, 5);
  cr_assert(!o->good && strstr(o->d.text, "no request is left of 5: 5 outside the window") != NULL,
            "%s", o->d.text);
  /* A bad row beyond the selection is only counted. */
  static const char tail[] = HEADER "2024-01-01 00:00:00,10,1\nnonsense\n\nmore nonsense\r\nlast";
  w = workload(file_with(tail, strlen(tail)));
  w.select_first = 1;
  o = read_workload(&w, 5);
  cr_assert(o->good && o->n == 1 && o->report.beyond_first == 3 && o->report.rows_read == 4, "%s",
            o->d.text);
}

Test(trace, unsorted_files_are_sorted_on_request) {
  static const char text[] = HEADER "2024-01-01 00:00:02,1,1\n2024-01-01 00:00:01,2,1\n2024-01-01 "
                                    "00:00:03,3,1\n2024-01-01 00:00:01,4,1\n";
  ds_workload w = workload(file_with(text, strlen(text)));
  w.unsorted = DS_REPAIR_SORT;
  const outcome *o = read_workload(&w, 2);
  expect(
      o,
      &(want){text, 4, {{0, 2, 1, 3}, {0, 4, 1, 5}, {1000000000, 1, 1, 2}, {2000000000, 3, 1, 4}}},
      "sort");
  w.select_first = 3;
  o = read_workload(&w, 2);
  cr_assert(o->good && o->n == 3 && o->report.beyond_first == 1 && o->report.rows_read == 4);
  static const char lines[] =
      "{\"id\":\"late\",\"arrival_ns\":9,\"input_tokens\":1,\"output_tokens\":1}\n{\"id\":\"soon\","
      "\"arrival_ns\":4,\"input_tokens\":2,\"output_tokens\":1}\n";
  w = workload(file_with(lines, strlen(lines)));
  w.unsorted = DS_REPAIR_SORT;
  o = read_workload(&w, 2);
  expect(o, &(want){lines, 2, {{0, 2, 1, 2}, {5, 1, 1, 1}}}, "sort jsonl");
  cr_assert(strcmp(o->id[0], "soon") == 0 && strcmp(o->id[1], "late") == 0);
}

Test(trace, max_tokens_is_what_a_scheduler_may_believe) {
  static const char text[] =
      "{\"arrival_ns\":0,\"input_tokens\":1,\"output_tokens\":100,\"max_tokens\":300}\n"
      "{\"arrival_ns\":0,\"input_tokens\":1,\"output_tokens\":100,\"max_tokens\":30}\n{\"arrival_"
      "ns\":0,\"input_tokens\":1,\"output_tokens\":7}\n";
  static const struct {
    int64_t fixed;
    double times;
    uint32_t want[3];
  } rule[] = {{0, 0, {300, 100, 7}},
              {128, 0, {128, 128, 128}},
              {50, 0, {100, 100, 50}},
              {0, 4, {400, 400, 28}},
              {0, 1.5, {150, 150, 11}},
              {0, 0.5, {100, 100, 7}},
              {0, 1e9, {1000000000, 1000000000, 1000000000}}};
  for (size_t i = 0; i < DS_ARRAY_LEN(rule); i++) {
    ds_workload w = workload(file_with(text, strlen(text)));
    w.max_tokens_fixed = rule[i].fixed;
    w.max_tokens_times = rule[i].times;
    w.max_tokens_is_output = rule[i].fixed == 0 && rule[i].times == 0;
    const outcome *o = read_workload(&w, 3);
    for (size_t k = 0; k < 3; k++)
      cr_assert_eq(o->r[k].max_tokens, rule[i].want[k], "rule %zu, request %zu: %u", i, k,
                   o->r[k].max_tokens);
  }
}

Test(trace, inline_requests_keep_order_and_ids) {
  ds_request r[3] = {
      {.arrival_ns = 4, .input_tokens = 5, .output_tokens = 6, .max_tokens = 9, .priority = 2},
      {.arrival_ns = 4, .input_tokens = 7, .output_tokens = 8},
      {.arrival_ns = 10, .input_tokens = 1, .output_tokens = 1}};
  char name[] = "first", *ids[3] = {NULL, name, NULL};
  ds_workload w = workload("");
  w.kind = DS_WORKLOAD_INLINE;
  w.inline_requests = r;
  w.inline_ids = ids;
  w.n_inline = 3;
  const outcome *o = read_workload(&w, 2);
  cr_assert(o->good && o->n == 3 && strcmp(o->format, "inline") == 0 && o->sha256[0] == '\0');
  cr_assert(o->r[0].arrival_ns == 0 && o->r[1].arrival_ns == 0 && o->r[2].arrival_ns == 6 &&
            o->r[0].max_tokens == 9 && o->r[0].priority == 2 && o->r[1].max_tokens == 8);
  cr_assert(o->has_ids && strcmp(o->id[0], "0") == 0 && strcmp(o->id[1], "first") == 0 &&
            strcmp(o->id[2], "2") == 0);
  w.select_first = 1;
  w.inline_ids = NULL;
  o = read_workload(&w, 2);
  cr_assert(o->good && o->n == 1 && !o->has_ids && o->report.beyond_first == 2);
  w.n_inline = 0;
  o = read_workload(&w, 2);
  cr_assert(!o->good && o->d.exit == DS_EXIT_INPUT);
}

/* A file of two members or frames, unpacked by how it begins; the hash is of the packed bytes.
 * Damage is noticed. */
Test(trace, packed_files_are_read) {
  static const char text[] = HEADER ROW "2023-11-16 18:15:47.68,7,8\n";
  static const want all = {text, 2, {{0, 5, 6, 2}, {1000000000, 7, 8, 3}}};
  size_t half = sizeof HEADER + 3, whole = strlen(text), n = 0;
  unsigned char packed[1000];
  for (int part = 0; part < 2; part++) {
    z_stream z = {0};
    cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)(part == 0 ? text : text + half);
    z.avail_in = (uInt)(part == 0 ? half : whole - half);
    z.next_out = packed + n;
    z.avail_out = (uInt)(sizeof packed - n);
    cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    n += z.total_out;
    deflateEnd(&z);
  }
  ds_workload w = workload(file_with(packed, n));
  expect(read_workload(&w, 3), &all, "gzip");
  w = workload(file_with(packed, n - 9));
  const outcome *o = read_workload(&w, 3);
  cr_assert(!o->good && o->d.exit == DS_EXIT_INPUT &&
                strstr(o->d.text, "damaged gzip data: it ends too early") != NULL,
            "%s", o->d.text);
  packed[n - 6] ^= 1;
  w = workload(file_with(packed, n));
  o = read_workload(&w, 3);
  cr_assert(!o->good && strstr(o->d.text, "damaged gzip data") != NULL, "%s", o->d.text);
  n = ZSTD_compress(packed, sizeof packed, text, half, 3);
  n += ZSTD_compress(packed + n, sizeof packed - n, text + half, whole - half, 3);
  w = workload(file_with(packed, n));
  expect(read_workload(&w, 3), &all, "zstd");
  w = workload(file_with(packed, n - 3));
  o = read_workload(&w, 3);
  cr_assert(!o->good && strstr(o->d.text, "damaged zstd data: it ends too early") != NULL, "%s",
            o->d.text);
  packed[n - 10] ^= 0x55;
  w = workload(file_with(packed, n));
  cr_assert_not(read_workload(&w, 3)->good);
}

/* The sum is what sha256sum says of the same bytes. */
Test(trace, hash_is_of_the_whole_file) {
  static const char text[] =
      HEADER "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
  ds_workload w = workload(file_with(text, strlen(text)));
  static const char sum[] = "d1bf8cf732dd67468bc40d949828881cb2c5815963283e8990353926662b43b5";
  cr_assert_str_eq(read_workload(&w, 5)->sha256, sum);
  w.select_first = 1;
  const outcome *o = read_workload(&w, 5);
  cr_assert_str_eq(o->sha256, sum);
  cr_assert_eq(o->n, 1u);
}

/* A trace much larger than any buffer, with blank lines and a quoted row now and then: nothing is
 * lost, lines are right. */
Test(trace, long_files_stream) {
  char path[96];
  snprintf(path, sizeof path, "%s/long", folder);
  FILE *f = fopen(path, "w");
  cr_assert(f != NULL);
  fputs(HEADER, f);
  const int rows = 60000;
  int64_t line = 1;
  static int64_t line_of[60000];
  for (int i = 0; i < rows; i++) {
    if (i % 977 == 5) {
      fputs("\r\n", f);
      line++;
    }
    fprintf(f,
            i % 1009 == 7 ? "\"2024-01-01 %02d:%02d:%02d.%03d\",%d,\"%d\"\r\n"
                          : "2024-01-01 %02d:%02d:%02d.%03d,%d,%d\r\n",
            i / 3600000, i / 60000 % 60, i / 1000 % 60, i % 1000, i % 5000 + 1, i % 700 + 1);
    line_of[i] = ++line;
  }
  cr_assert_eq(fclose(f), 0);
  ds_workload w = workload(path);
  ds_diag d;
  ds_trace *t;
  cr_assert(ds_trace_open(&w, 1, &t, &d));
  int i = 0;
  for (;;) {
    static ds_request r[4096];
    size_t got;
    cr_assert(ds_trace_read(t, r, 4096, &got, &d), "%s", d.text);
    if (got == 0) break;
    for (size_t k = 0; k < got; k++, i++) {
      cr_assert(r[k].arrival_ns == i * 1000000LL && r[k].input_tokens == (uint32_t)(i % 5000 + 1) &&
                    r[k].output_tokens == (uint32_t)(i % 700 + 1),
                "row %d", i);
    }
  }
  cr_assert_eq(i, rows);
  for (i = 0; i < rows; i++)
    cr_assert_eq(ds_trace_line(t, (uint64_t)i), line_of[i], "request %d: line %lld", i,
                 (long long)ds_trace_line(t, (uint64_t)i));
  uint64_t done, total;
  struct stat st;
  ds_trace_progress(t, &done, &total);
  cr_assert(stat(path, &st) == 0 && done == (uint64_t)st.st_size && total == done);
  ds_trace_close(t);
}
