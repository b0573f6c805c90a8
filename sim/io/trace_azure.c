// SPDX-License-Identifier: GPL-3.0-or-later
/* Azure LLM inference traces (CSV, 2023 and 2024 forms): TIMESTAMP, ContextTokens, GeneratedTokens
 * by name.
 *
 * The grammar is libcsv's, in strict mode. Almost every row of the real files has one plain form,
 * though: three unquoted cells in the usual order, no blanks. Such a row is read here without
 * libcsv, which alone would take 0.1 s of CPU for a million rows, most of the time that reading may
 * take. Anything else about a row (quotes, blanks, other columns, a bad cell, the end of the file)
 * sends it through libcsv, and a test holds the two ways together. */
#include "io/trace_source.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES_MAX (1u << 20)
#define MINUTE_BYTES  16
#define ROW_LOOKAHEAD 160 /* longest plain row, generously */

enum { CELL_TIME, CELL_INPUT, CELL_OUTPUT, CELL_N };
static const char *const cell_name[CELL_N] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};

typedef struct azure {
  ds_source source;
  struct csv_parser csv;
  bool csv_open, plain_order, library_only;
  bool at_row_start;    /* libcsv holds no part of a row */
  int64_t row_line;     /* where the row in libcsv began */
  size_t row_bytes;     /* physical bytes of it so far */
  const char *row_text; /* its line, when it is all on one */
  size_t row_text_bytes;
  /* Header */
  bool header_done;
  size_t n_columns, where[CELL_N]; /* column of each cell; SIZE_MAX: not found */
  char twice[40], header_cells[256];
  size_t where_images; /* column NumImages of the multimodal trace; SIZE_MAX: none */
  /* The row in libcsv */
  size_t n_cells;
  bool row_done, row_ready;
  ds_row row;
  bool bad;
  int bad_cell;
  char bad_text[96];
  ds_excerpt bad_excerpt;
  /* Plain rows: the date and minute of the row before */
  bool minute_known;
  char minute_text[MINUTE_BYTES];
  int64_t minute_ns;
} azure;

/* Tokens of a cell: digits only. NULL when good. */
static const char *tokens_of(const char *s, size_t n, uint32_t *tokens) {
  if (n == 0) return "is empty";
  uint64_t v = 0;
  size_t i = 0;
  for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
    if (v <= DS_TOKENS_MAX) v = v * 10 + (uint64_t)(s[i] - '0');
  }
  if (i < n) {
    bool sign = s[0] == '-' && n > 1 && s[1] >= '0' && s[1] <= '9';
    if (sign) return "is negative";
    if (i > 0 && (s[i] == '.' || s[i] == 'e' || s[i] == 'E')) return "is not a whole number";
    return "is not a number";
  }
  if (v > DS_TOKENS_MAX) return "is too large";
  *tokens = (uint32_t)v;
  return NULL;
}

static bool same_name(const char *s, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++) {
    char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];
    char m = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    if (c != m) return false; /* also where the name is shorter */
  }
  return name[n] == '\0';
}

static void header_cell(azure *z, const char *s, size_t n) {
  ds_excerpt e = ds_excerpt_of(s, n);
  size_t have = strlen(z->header_cells), room = sizeof z->header_cells - have;
  if (strlen(e.text) + 3 < room)
    snprintf(z->header_cells + have, room, "%s%s", have > 0 ? ", " : "", e.text);
  for (int i = 0; i < CELL_N; i++) {
    if (!same_name(s, n, cell_name[i])) continue;
    if (z->where[i] != SIZE_MAX) memcpy(z->twice, cell_name[i], strlen(cell_name[i]) + 1);
    z->where[i] = z->n_columns;
  }
  if (same_name(s, n, "NumImages")) z->where_images = z->n_columns;
  z->n_columns++;
}

static void body_cell(azure *z, const char *s, size_t n) {
  size_t column = z->n_cells++;
  if (z->bad) return;
  const char *wrong = NULL;
  int cell = CELL_TIME;
  if (column == z->where[CELL_TIME]) {
    wrong = ds_stamp_parse(s, n, &z->row.time_ns);
  } else if (column == z->where[CELL_INPUT]) {
    cell = CELL_INPUT;
    wrong = tokens_of(s, n, &z->row.input_tokens);
  } else if (column == z->where[CELL_OUTPUT]) {
    cell = CELL_OUTPUT;
    wrong = tokens_of(s, n, &z->row.output_tokens);
  } else if (column == z->where_images) {
    cell = CELL_N;
    wrong = tokens_of(s, n, &z->row.images);
  }
  if (wrong == NULL) return;
  z->bad = true;
  z->bad_cell = cell;
  strncpy(z->bad_text, wrong, sizeof z->bad_text - 1);
  z->bad_excerpt = ds_excerpt_of(s, n);
}

static void on_cell(void *s, size_t n, void *data) {
  azure *z = data;
  if (z->header_done)
    body_cell(z, s, n);
  else
    header_cell(z, s, n);
}

static void on_row(int terminator, void *data) {
  azure *z = data;
  (void)terminator;
  z->row_done = true;
  z->row_ready = true;
}

/* Byte at which cell `index` of a row on one line begins, 1-based; 0 when the row is not on one
 * line. */
static uint32_t column_of(const azure *z, size_t index) {
  if (z->row_text == NULL) return 0;
  bool quoted = false;
  size_t seen = 0, i = 0;
  for (; i < z->row_text_bytes && seen < index; i++) {
    if (z->row_text[i] == '"') quoted = !quoted;
    if (z->row_text[i] == ',' && !quoted) seen++;
  }
  return (uint32_t)(i + 1);
}

/* Give the parser some bytes. */
static bool feed(azure *z, const char *s, size_t n, ds_diag *d) {
  size_t took = csv_parse(&z->csv, s, n, on_cell, on_row, z);
  if (took == n) return true;
  int why = csv_error(&z->csv);
  if (why != CSV_EPARSE)
    return ds_diag_set(d, DS_EXIT_RUNTIME, z->source.input->name, z->row_line, 0, "%s",
                       csv_strerror(why));
  int64_t column = z->row_text == s ? (int64_t)took + 1 : 0;
  ds_diag_set(d, DS_EXIT_INPUT, z->source.input->name, z->row_line, column, "a stray quote");
  ds_diag_expected(d, "quotes around a whole cell, and doubled inside it");
  return false;
}

static bool parser_start(azure *z) {
  z->csv_open = csv_init(&z->csv, CSV_STRICT | CSV_STRICT_FINI) == 0;
  z->at_row_start = true;
  return z->csv_open;
}

static void row_reset(azure *z) {
  z->n_cells = 0;
  z->bad = false;
  z->row_ready = false;
}

/* After a parse error: forget the row and start over with the next line. */
static void parser_restart(azure *z) {
  csv_free(&z->csv);
  parser_start(z);
  row_reset(z);
}

static bool unclosed(azure *z, ds_diag *d) {
  ds_diag_set(d, DS_EXIT_INPUT, z->source.input->name, z->row_line, 0,
              "a quoted cell that does not end");
  ds_diag_expected(d, "a closing quote for every opening one");
  return false;
}

/* A line without its end, then the end: the row is over when the line's end, and not something
 * before it, ended it, since a quoted cell may hold line ends. */
static bool feed_parts(azure *z, const char *line, size_t n, ds_diag *d) {
  size_t end = n;
  if (end > 0 && line[end - 1] == '\n') end--;
  while (end > 0 && line[end - 1] == '\r') end--;
  z->row_done = false;
  if (!feed(z, line, end, d)) return false;
  if (z->row_done) {
    const char *stray = z->row_text != NULL ? memchr(line, '\r', end) : NULL;
    ds_diag_set(d, DS_EXIT_INPUT, z->source.input->name, z->row_line,
                stray != NULL ? stray - line + 1 : 0, "a carriage return in the middle of a line");
    ds_diag_expected(d, "lines that end in LF or CR LF");
    return false;
  }
  if (!feed(z, line + end, n - end, d)) return false;
  bool last = n == 0 || line[n - 1] != '\n';
  return !last || csv_fini(&z->csv, on_cell, on_row, z) == 0 || unclosed(z, d);
}

static bool only_blanks(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') return false;
  }
  return true;
}

/* One line into libcsv; *more false at the end of the file. A row that it completes sets row_ready.
 */
static bool feed_line(azure *z, bool *more, ds_diag *d) {
  ds_input *in = z->source.input;
  char *line;
  size_t n;
  if (!ds_input_line(in, ROW_BYTES_MAX, &line, &n, d)) return false;
  *more = n > 0;
  bool fresh = z->at_row_start;
  if (fresh) {
    z->row_line = in->line;
    z->row_bytes = 0;
  }
  z->row_text = fresh ? line : NULL;
  z->row_text_bytes = n;
  z->row_bytes += n;
  bool good = feed_parts(z, line, n, d);
  if (good && z->row_bytes > ROW_BYTES_MAX) good = unclosed(z, d);
  if (!good) {
    parser_restart(z);
    return false;
  }
  z->at_row_start = z->row_done || (fresh && only_blanks(line, n));
  return true;
}

/* The row that libcsv has completed, checked. */
static bool finish_row(azure *z, ds_row *row, ds_diag *d) {
  const char *file = z->source.input->name;
  bool good = true;
  if (z->n_cells != z->n_columns) {
    good = ds_diag_set(d, DS_EXIT_INPUT, file, z->row_line,
                       column_of(z, z->n_cells < z->n_columns ? z->n_cells - 1 : z->n_columns),
                       "a row of %zu cell%s", z->n_cells, z->n_cells == 1 ? "" : "s");
    ds_diag_expected(d, "%zu cells, as in the header", z->n_columns);
  } else if (z->bad) {
    bool images = z->bad_cell == CELL_N;
    good = ds_diag_set(d, DS_EXIT_INPUT, file, z->row_line,
                       column_of(z, images ? z->where_images : z->where[z->bad_cell]), "%s %s: %s",
                       images ? "NumImages" : cell_name[z->bad_cell], z->bad_text, z->bad_excerpt.text);
    if (z->bad_cell == CELL_TIME) {
      ds_diag_expected(
          d,
          "YYYY-MM-DD hh:mm:ss, up to 9 fraction digits, then nothing, Z or an offset like +00:00");
    } else if (images) {
      ds_diag_expected(d, "how many images, 0 or more");
    } else {
      ds_diag_expected(d, "a whole number of tokens, 1 to %d", DS_TOKENS_MAX);
    }
  }
  *row = z->row;
  row->line = z->row_line;
  row->time_column = column_of(z, z->where[CELL_TIME]);
  row->input_column = column_of(z, z->where[CELL_INPUT]);
  row->output_column = column_of(z, z->where[CELL_OUTPUT]);
  row_reset(z);
  return good;
}

/* Digits up to a count of at most DS_TOKENS_MAX; NULL when it is anything else. */
static inline const char *plain_tokens(const char *p, uint32_t *tokens) {
  const char *start = p;
  uint64_t v = 0;
  unsigned digit;
  while ((digit = (unsigned)(unsigned char)*p - '0') <= 9 && p - start < 10) {
    v = v * 10 + digit;
    p++;
  }
  if (p == start || v > DS_TOKENS_MAX) return NULL;
  *tokens = (uint32_t)v;
  return p;
}

/* A row in the plain form at p, which may be followed by anything but is readable for ROW_LOOKAHEAD
 * bytes or up to a zero byte with DS_INPUT_PAD more. Returns what follows the row, or NULL when it
 * is not plain. */
static inline const char *plain_row(azure *z, const char *p, ds_row *row) {
  static const int64_t unit[10] = {1000000000, 100000000, 10000000, 1000000, 100000,
                                   10000,      1000,      100,      10,      1};
  const char *start = p;
  if (!z->minute_known || memcmp(p, z->minute_text, MINUTE_BYTES) != 0) {
    z->minute_known = ds_stamp_minute(p, &z->minute_ns) == NULL;
    if (!z->minute_known) return NULL;
    memcpy(z->minute_text, p, MINUTE_BYTES);
  }
  p += MINUTE_BYTES;
  unsigned tens = (unsigned)(unsigned char)p[1] - '0', ones = (unsigned)(unsigned char)p[2] - '0';
  if (p[0] != ':' || tens > 5 || ones > 9) return NULL;
  int64_t ns = z->minute_ns + (int64_t)(tens * 10 + ones) * DS_NS_PER_S;
  p += 3;
  if (*p == '.') {
    const char *first = ++p;
    int64_t fraction = 0;
    unsigned digit;
    while ((digit = (unsigned)(unsigned char)*p - '0') <= 9 && p - first < 9) {
      fraction = fraction * 10 + (int64_t)digit;
      p++;
    }
    if (p == first) return NULL;
    ns += fraction * unit[p - first];
  }
  if (*p == '+' && memcmp(p, "+00:00", 6) == 0) p += 6;
  if (*p++ != ',') return NULL;
  row->time_ns = ns;
  row->input_column = (uint32_t)(p - start) + 1;
  p = plain_tokens(p, &row->input_tokens);
  if (p == NULL || *p++ != ',') return NULL;
  row->output_column = (uint32_t)(p - start) + 1;
  p = plain_tokens(p, &row->output_tokens);
  if (p == NULL) return NULL;
  if (*p == '\r') p++;
  return *p == '\n' ? p + 1 : NULL;
}

/* As many plain rows as come in a row from the buffer. */
static size_t plain_rows(azure *z, ds_row *rows, size_t cap) {
  ds_input *in = z->source.input;
  size_t n = 0;
  const char *p = in->at;
  int64_t line = in->line;
  while (n < cap && in->end > p) {
    ds_row *row = &rows[n];
    const char *next = plain_row(z, p, row);
    if (next == NULL || next > in->end) break;
    row->line = ++line;
    row->id = DS_ROW_NO_ID;
    row->max_tokens = 0;
    row->after = 0;
    row->think_ns = 0;
    row->more = NULL;
    row->n_spans = 0;
    row->spans = NULL;
    row->priority = 0;
    row->time_column = 1;
    p = next;
    n++;
  }
  in->at += p - in->at;
  in->line = line;
  return n;
}

static bool azure_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  azure *z = (azure *)s;
  ds_input *in = s->input;
  *n = 0;
  bool more = true;
  while (more) {
    if (z->at_row_start && z->plain_order && !z->library_only) {
      if (!ds_input_peek(in, ROW_LOOKAHEAD, d)) return false;
      *n += plain_rows(z, rows + *n, cap - *n);
      if (*n == cap) return true;
    }
    if (*n > 0) return true; /* hand over what is good before a row that may not be */
    if (!feed_line(z, &more, d)) return false;
    if (z->row_ready) {
      if (!finish_row(z, &rows[0], d)) return false;
      *n = 1;
      if (z->library_only || !z->plain_order) return true;
    }
  }
  return true;
}

static void azure_close(ds_source *s) {
  azure *z = (azure *)s;
  if (z->csv_open) csv_free(&z->csv);
  free(z);
}

void ds_azure_use_library_only(ds_source *s) { ((azure *)s)->library_only = true; }

static bool check_header(azure *z, ds_diag *d) {
  const char *file = z->source.input->name;
  for (int i = 0; i < CELL_N; i++) {
    if (z->where[i] != SIZE_MAX) continue;
    ds_diag_set(d, DS_EXIT_INPUT, file, z->row_line, 1, "no column %s among %s", cell_name[i],
                z->header_cells);
    ds_diag_expected(d, "the header TIMESTAMP,ContextTokens,GeneratedTokens%s",
                     z->n_columns == 1 ? ", separated by commas" : ", in any order and case");
    ds_diag_hint_misspelt(d, cell_name, CELL_N, (size_t)i, z->header_cells,
                          strlen(z->header_cells), 0);
    return false;
  }
  if (z->twice[0] != '\0') {
    ds_diag_set(d, DS_EXIT_INPUT, file, z->row_line, 1, "column %s appears twice", z->twice);
    ds_diag_expected(d, "one column of each name");
    return false;
  }
  return true;
}

static bool read_header(azure *z, ds_diag *d) {
  bool more = true;
  while (more && !z->row_ready) {
    if (!feed_line(z, &more, d)) return false;
  }
  if (!z->row_ready) {
    ds_diag_set(d, DS_EXIT_INPUT, z->source.input->name, 0, 0, "the file is empty");
    ds_diag_expected(d, "the header TIMESTAMP,ContextTokens,GeneratedTokens and a row per request");
    return false;
  }
  if (!check_header(z, d)) return false;
  z->header_done = true;
  row_reset(z);
  z->plain_order = z->n_columns == CELL_N;
  for (size_t i = 0; i < CELL_N; i++) z->plain_order = z->plain_order && z->where[i] == i;
  return true;
}

bool ds_azure_open(ds_input *in, ds_source **out, ds_diag *d) {
  *out = NULL;
  azure *z = calloc(1, sizeof *z);
  if (z == NULL || !parser_start(z)) {
    free(z);
    return ds_diag_set(d, DS_EXIT_RUNTIME, in->name, 0, 0, "out of memory");
  }
  z->source = (ds_source){.format = "azure",
                          .time_name = cell_name[CELL_TIME],
                          .input_name = cell_name[CELL_INPUT],
                          .output_name = cell_name[CELL_OUTPUT],
                          .input = in,
                          .rebase = true,
                          .rows = azure_rows,
                          .id = NULL,
                          .close = azure_close};
  z->row.id = DS_ROW_NO_ID;
  z->where_images = SIZE_MAX;
  for (int i = 0; i < CELL_N; i++) z->where[i] = SIZE_MAX;
  if (!read_header(z, d)) {
    azure_close(&z->source);
    return false;
  }
  *out = &z->source;
  return true;
}
