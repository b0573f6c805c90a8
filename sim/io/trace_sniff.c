// SPDX-License-Identifier: GPL-3.0-or-later
/* What kind of file is this? By content, never by name: users rename files, and public traces are
 * often a Git LFS pointer or an error page where the data should be. */
#include "io/trace_formats.h"
#include "io/trace_rows.h"

#include <string.h>

#define LOOK_BYTES 16384

static const char wanted[] =
    "an Azure CSV, native JSONL or another format of `dryserve list formats`";

typedef struct sign {
  const char *text;   /* found anywhere in the first line */
  const char *format; /* who reads it; NULL: nobody, it is `what` */
  const char *what;
} sign;

/* In this order: the first that is found decides. Of a CSV file, whole names of columns. */
static const sign csv_columns[] = {
    {"ContextTokens", "azure", NULL},      {"GeneratedTokens", "azure", NULL},
    {"Request tokens", "burstgpt", NULL},  {"arrival_time_us", "tracev2", NULL},
    {"num_prefill_tokens", "vidur", NULL}, {"arrived_at", "vidur", NULL},
    {"prompt_size", "splitwise", NULL}};
static const sign csv_signs[] = {{"ContextTokens", "azure", NULL}, /* even where no comma parts them */
                                 {"Request tokens", "burstgpt", NULL},
                                 {"trace_version:", "tracev2", NULL},
                                 {",Gamma,", "servegen", NULL},
                                 {",Weibull,", "servegen", NULL}};
static const sign json_signs[] = {
    {"\"arrival_ns\"", "jsonl", NULL},
    {"\"chat_id\"", "bailian", NULL},
    {"dynamo.request.trace", "dynamo", NULL},
    {"\"sub_requests\"", "llmservingsim", NULL},
    {"\"input_toks\"", "llmservingsim", NULL},
    {"\"sys_prompt\"", "ragpulse", NULL},
    {"\"hash_id_scope\"", "weka", NULL},
    {"\"input_tokens_total\"", NULL, "a TraceLab trace (key input_tokens_total)"},
    {"\"input_lens\"", "bench", NULL},
    {"\"ttfts\"", "bench", NULL},
    {"\"request_throughput\"", "bench", NULL},
    {"\"resourceSpans\"", "otel", NULL},
    {"\"spans\"", "otel", NULL},
    {"\"prompt_tokens\"", "litellm", NULL},
    {"\"conversations\"", NULL,
     "a ShareGPT file (key conversations): texts without lengths or times"},
    {"\"input_length\"", "mooncake", NULL},
    {"\"hash_ids\"", "mooncake", NULL},
    {"\"input_tokens\": \"{", NULL,
     "the lengths of a ServeGen client (NAME-trace.csv beside it is the trace)"},
    {"\"created_time\"", "mooncake", NULL},
    {"\"text_input\"", "mooncake", NULL},
    {"\"output_length\"", "mooncake", NULL}}; /* whose input_length is misspelt */
static const struct {
  const char *magic;
  size_t bytes, offset;
  const char *what;
} binaries[] = {{"PK\x03\x04", 4, 0, "a zip archive"},
                {"PAR1", 4, 0, "a Parquet file"},
                {"SQLite format 3", 15, 0, "an SQLite file"},
                {"BZh", 3, 0, "a bzip2 file"},
                {"\xfd"
                 "7zXZ",
                 5, 0, "an xz file"},
                {"7z\xbc\xaf", 4, 0, "a 7-Zip archive"},
                {"\x7f"
                 "ELF",
                 4, 0, "a program"},
                {"%PDF", 4, 0, "a PDF file"},
                {"\x89PNG", 4, 0, "a picture"},
                {"\x1f\x8b", 2, 0, "gzip data inside gzip data"},
                {"\xff\xfe", 2, 0, "UTF-16 text"},
                {"\xfe\xff", 2, 0, "UTF-16 text"}};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool contains(const char *s, size_t n, const char *text) {
  size_t m = strlen(text);
  for (size_t i = 0; i + m <= n; i++) {
    size_t j = 0;
    while (j < m && lower(s[i + j]) == lower(text[j])) j++;
    if (j == m) return true;
  }
  return false;
}

ds_excerpt ds_excerpt_of(const char *s, size_t bytes) {
  ds_excerpt e;
  size_t n = 0, keep = bytes > 40 ? 37 : bytes;
  e.text[n++] = '"';
  for (size_t i = 0; i < keep; i++) e.text[n++] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
  if (keep < bytes) {
    memcpy(e.text + n, "...", 3);
    n += 3;
  }
  e.text[n++] = '"';
  e.text[n] = '\0';
  return e;
}

static bool refuse(const ds_input *in, ds_diag *d, const char *what, const char *expected) {
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0, "%s", what);
  ds_diag_expected(d, "%s", expected);
  return false;
}

/* A known format, but none that is read. */
static bool refuse_format(const ds_input *in, ds_diag *d, const char *what) {
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0, "%s: this version does not read it", what);
  ds_diag_expected(d, "%s", wanted);
  return false;
}

/* Files that are no text, and text that stands where data should be. */
static bool no_trace_at_all(const ds_input *in, const char *s, size_t n, ds_diag *d) {
  if (n == 0) return refuse(in, d, "the file is empty", wanted);
  for (size_t i = 0; i < DS_ARRAY_LEN(binaries); i++) {
    size_t end = binaries[i].offset + binaries[i].bytes;
    if (n >= end && memcmp(s + binaries[i].offset, binaries[i].magic, binaries[i].bytes) == 0) {
      return refuse(in, d, binaries[i].what, wanted);
    }
  }
  size_t odd = 0;
  for (size_t i = 0; i < n; i++)
    odd += (unsigned char)s[i] < ' ' && s[i] != '\n' && s[i] != '\r' && s[i] != '\t';
  if (memchr(s, '\0', n) != NULL || odd * 20 > n) return refuse(in, d, "a binary file", wanted);
  static const char lfs[] = "version https://git-lfs.github.com/spec/";
  if (n >= sizeof lfs - 1 && memcmp(s, lfs, sizeof lfs - 1) == 0) {
    refuse(in, d, "a Git LFS pointer, not the data itself",
           "the file that it points to (git lfs pull)");
    return false;
  }
  return true;
}

static const sign *look_up(const sign *signs, size_t n_signs, const char *s, size_t n) {
  for (size_t i = 0; i < n_signs; i++) {
    if (contains(s, n, signs[i].text)) return &signs[i];
  }
  return NULL;
}

static bool settle(const ds_input *in, const sign *by, const char **found, ds_diag *d) {
  *found = by->format;
  return by->format != NULL || refuse_format(in, d, by->what);
}

static bool sniff_json(const ds_input *in, const char *s, size_t n, size_t line, const char **found,
                       ds_diag *d) {
  const sign *by = look_up(json_signs, DS_ARRAY_LEN(json_signs), s, line);
  /* One object over many lines: its keys are further down. */
  if (by == NULL && line < n && !contains(s, line, "}")) {
    by = look_up(json_signs, DS_ARRAY_LEN(json_signs), s, n);
    if (by == NULL)
      return refuse(in, d, "a JSON document over several lines", "one JSON object a line");
  }
  if (by != NULL) return settle(in, by, found, d);
  *found = contains(s, line, "\"input_tokens\"") && contains(s, line, "\"timestamp\"") ? "mooncake"
                                                                                       : "jsonl";
  return true;
}

static bool column_is(const char *s, size_t n, const char *name) {
  while (n > 0 && (*s == ' ' || *s == '\t' || *s == '"')) s++, n--;
  while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '"')) n--;
  return n == strlen(name) && contains(s, n, name);
}

/* The next column of a header: false behind the last. */
static bool next_column(const char *s, size_t line, size_t *at, const char **column, size_t *n) {
  if (*at > line) return false;
  const char *comma = memchr(s + *at, ',', line - *at);
  *column = s + *at;
  *n = comma != NULL ? (size_t)(comma - *column) : line - *at;
  *at += *n + 1;
  return true;
}

static const sign *by_column(const char *s, size_t line) {
  const char *column;
  for (size_t i = 0; i < DS_ARRAY_LEN(csv_columns); i++)
    for (size_t at = 0, n; next_column(s, line, &at, &column, &n);)
      if (column_is(column, n, csv_columns[i].text)) return &csv_columns[i];
  return NULL;
}

/* Two columns or more, each a name: any flat CSV. The names go to text. */
static bool flat_header(const char *s, size_t line, char *text, size_t room) {
  const char *column;
  size_t columns = 0, used = 0;
  text[0] = '\0';
  for (size_t at = 0, n; next_column(s, line, &at, &column, &n); columns++) {
    bool letters = false;
    for (size_t i = 0; i < n; i++) {
      letters = letters || (lower(column[i]) >= 'a' && lower(column[i]) <= 'z');
      if (column[i] < ' ' || column[i] > '~') return false;
    }
    if (!letters) return false;
    if (used + n + 8 < room)
      used += (size_t)snprintf(text + used, room - used, "%s%.*s", columns > 0 ? ", " : "", (int)n, column);
    else if (used + 6 < room && strcmp(text + used - (used > 3 ? 3 : used), "...") != 0)
      used += (size_t)snprintf(text + used, room - used, ", ...");
  }
  return columns > 1;
}

static bool sniff_csv(const ds_input *in, const char *s, size_t line, const char **found,
                      ds_diag *d) {
  const sign *by = by_column(s, line);
  if (by == NULL) by = look_up(csv_signs, DS_ARRAY_LEN(csv_signs), s, line);
  if (by != NULL) return settle(in, by, found, d);
  if (line >= 7 && memcmp(s, "0,0,0,,0", 8) == 0) { /* a ServeGen client that is idle at first */
    *found = "servegen";
    return true;
  }
  *found = "azure";
  int64_t ns;
  ds_excerpt e = ds_excerpt_of(s, line);
  if (line >= 16 && ds_stamp_minute(s, &ns) == NULL) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, 1, 1, "no header line: the file begins with %s",
                e.text);
    ds_diag_expected(d, "the header TIMESTAMP,ContextTokens,GeneratedTokens");
    return false;
  }
  char columns[200];
  if (flat_header(s, line, columns, sizeof columns)) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, 1, 1,
                "a flat CSV in no known format, with the columns %s", columns);
    ds_diag_expected(d, "`map: {arrival: COLUMN:UNIT, input_tokens: COLUMN, output_tokens: COLUMN}` "
                        "beside it (units: s, ms, us, ns, stamp)");
    return false;
  }
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 1, 1, "not a trace in a known format: it begins with %s",
              e.text);
  ds_diag_expected(
      d, "the CSV header TIMESTAMP,ContextTokens,GeneratedTokens, another format of `dryserve list "
         "formats`, or `map:` with the names of the columns");
  return false;
}

static bool known_format(const ds_input *in, const char *format, const char **found, ds_diag *d) {
  const char *names[64];
  size_t n = 0;
  for (; n < ds_n_trace_readers && n < DS_ARRAY_LEN(names); n++)
    names[n] = ds_trace_readers[n].name;
  const ds_trace_reader *reader = ds_trace_reader_named(format);
  if (reader != NULL) {
    *found = reader->name;
    return true;
  }
  ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0, "unknown trace format \"%.31s\"", format);
  ds_diag_expected(d, "a format of `dryserve list formats`, such as azure or jsonl");
  const char *near = ds_nearest(format, names, n);
  if (near != NULL) ds_diag_hint(d, "did you mean %s?", near);
  return false;
}

bool ds_trace_sniff(ds_input *in, const char *format, const char **found, ds_diag *d) {
  *found = NULL;
  const char *stated = NULL;
  if (format[0] != '\0' && !known_format(in, format, &stated, d)) return false;
  if (!ds_input_peek(in, LOOK_BYTES, d)) return false;
  if (in->end - in->at >= 3 && memcmp(in->at, "\xef\xbb\xbf", 3) == 0) in->at += 3;
  size_t n = (size_t)(in->end - in->at);
  if (n > LOOK_BYTES) n = LOOK_BYTES;
  const char *s = in->at;
  if (ds_is_tar(s, n)) { /* the one format of which an archive makes a trace */
    *found = "weka";
    if (stated == NULL || strcmp(stated, "weka") == 0) return true;
    return refuse(in, d, "a tar archive, or a folder", "a single file");
  }
  if (!no_trace_at_all(in, s, n, d)) return false;
  while (n > 0 && (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n')) {
    s++;
    n--;
  }
  if (n == 0) return refuse(in, d, "nothing but blank lines", wanted);
  if (*s == '<') {
    bool html = contains(s, n, "<html") || contains(s, n, "<!doctype html");
    return refuse(in, d, html ? "an HTML page, not a trace" : "an XML document, not a trace",
                  "the raw file itself, not the page that shows it");
  }
  if (stated != NULL) {
    *found = stated;
    return true;
  }
  const char *end = memchr(s, '\n', n);
  size_t line = end != NULL ? (size_t)(end - s) : n;
  if (line > 0 && s[line - 1] == '\r') line--;
  if (*s == '[') {
    const sign *by = look_up(json_signs, DS_ARRAY_LEN(json_signs), s, n);
    if (by != NULL && by->format != NULL && strcmp(by->format, "otel") == 0)
      return settle(in, by, found, d);
    return by != NULL && by->format == NULL
               ? refuse_format(in, d, by->what)
               : refuse(in, d, "a JSON array", "one JSON object a line");
  }
  return *s == '{' ? sniff_json(in, s, n, line, found, d) : sniff_csv(in, s, line, found, d);
}
