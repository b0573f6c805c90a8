// SPDX-License-Identifier: GPL-3.0-or-later
/* JSON as a stream: objects and arrays opened and closed in order, two spaces a level, numbers by
 * report/numbers.h. */
#ifndef DS_REPORT_JSON_WRITER_H
#define DS_REPORT_JSON_WRITER_H

#include <stdint.h>

#include "io/outfile.h"

typedef struct ds_json {
  ds_outfile *out;
  int depth;
  bool more; /* a value came before at this level */
} ds_json;

/* key is NULL inside arrays and for the outermost value. */
void ds_json_object(ds_json *j, const char *key);
void ds_json_array(ds_json *j, const char *key);
void ds_json_end_object(ds_json *j);
void ds_json_end_array(ds_json *j);
void ds_json_text(ds_json *j, const char *key, const char *value); /* NULL gives null */
void ds_json_count(ds_json *j, const char *key, uint64_t value);
void ds_json_integer(ds_json *j, const char *key, int64_t value);
void ds_json_number(ds_json *j, const char *key, double value);
void ds_json_bool(ds_json *j, const char *key, bool value);
void ds_json_null(ds_json *j, const char *key);
/* A string with its quotes, escaped; UTF-8 passes through. */
void ds_json_quote(ds_outfile *out, const char *text);

#endif
