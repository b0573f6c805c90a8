// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/json_writer.h"

#include "report/numbers.h"

void ds_json_quote(ds_outfile *out, const char *text) {
  ds_out_bytes(out, "\"", 1);
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\') {
      char pair[2] = {'\\', *c};
      ds_out_bytes(out, pair, 2);
    } else if ((unsigned char)*c < 0x20) {
      ds_out_printf(out, "\\u%04x", (unsigned)(unsigned char)*c);
    } else {
      ds_out_bytes(out, c, 1);
    }
  }
  ds_out_bytes(out, "\"", 1);
}

static void indent(ds_json *j) {
  ds_out_text(j->out, "\n");
  for (int i = 0; i < j->depth; i++) ds_out_text(j->out, "  ");
}

static void before(ds_json *j, const char *key) {
  if (j->more) ds_out_text(j->out, ",");
  if (j->depth > 0) indent(j);
  if (key != NULL) {
    ds_json_quote(j->out, key);
    ds_out_text(j->out, ": ");
  }
  j->more = true;
}

static void open_level(ds_json *j, const char *key, const char *bracket) {
  before(j, key);
  ds_out_text(j->out, bracket);
  j->depth++;
  j->more = false;
}

static void close_level(ds_json *j, const char *bracket) {
  j->depth--;
  if (j->more) indent(j);
  ds_out_text(j->out, bracket);
  j->more = true;
  if (j->depth == 0) ds_out_text(j->out, "\n");
}

void ds_json_object(ds_json *j, const char *key) { open_level(j, key, "{"); }
void ds_json_array(ds_json *j, const char *key) { open_level(j, key, "["); }
void ds_json_end_object(ds_json *j) { close_level(j, "}"); }
void ds_json_end_array(ds_json *j) { close_level(j, "]"); }

void ds_json_text(ds_json *j, const char *key, const char *value) {
  before(j, key);
  if (value == NULL)
    ds_out_text(j->out, "null");
  else
    ds_json_quote(j->out, value);
}

static void bare(ds_json *j, const char *key, const char *text, size_t n) {
  before(j, key);
  ds_out_bytes(j->out, text, n);
}

void ds_json_count(ds_json *j, const char *key, uint64_t value) {
  char text[DS_NUMBER_BYTES];
  size_t n = ds_put_u64(text, value);
  bare(j, key, text, n);
}

void ds_json_integer(ds_json *j, const char *key, int64_t value) {
  char text[DS_NUMBER_BYTES];
  size_t n = ds_put_i64(text, value);
  bare(j, key, text, n);
}

void ds_json_number(ds_json *j, const char *key, double value) {
  char text[DS_NUMBER_BYTES];
  size_t n = ds_put_double(text, value);
  bare(j, key, text, n);
}

void ds_json_bool(ds_json *j, const char *key, bool value) {
  if (value)
    bare(j, key, "true", 4);
  else
    bare(j, key, "false", 5);
}

void ds_json_null(ds_json *j, const char *key) { bare(j, key, "null", 4); }
