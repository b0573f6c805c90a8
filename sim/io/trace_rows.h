// SPDX-License-Identifier: GPL-3.0-or-later
/* What the readers of trace formats share: memory for the rows of one call, texts kept once, JSON
 * rows with their places in the file, complaints. */
#ifndef DS_IO_TRACE_ROWS_H
#define DS_IO_TRACE_ROWS_H

#include "io/json_pull.h"
#include "io/trace_source.h"

#define DS_LINE_BYTES_MAX  (64u << 20) /* an agent's request with 4 million block ids */
#define DS_VALUE_BYTES_MAX (1u << 30)  /* one JSON document */

typedef struct ds_arena {
  struct ds_arena_part *part; /* newest first */
  size_t used;
} ds_arena;

typedef struct ds_rows { /* the beginning of a reader */
  ds_source source;
  ds_arena rows;     /* what the rows of the last call point to */
  ds_arena texts;    /* kept */
  const char **text; /* open addressing */
  size_t n_texts, text_room;
  bool failed; /* out of memory: no further rows */
  /* The JSON value that is being read */
  const char *value;
  size_t value_bytes;
  int64_t value_line;
  bool value_is_line;
  char member[128];    /* of an archive; empty: no archive */
  size_t next_unlined; /* up to here lines were counted */
  int64_t lined;
} ds_rows;

/* Zeroed memory of at least `bytes` for a reader, which begins with a ds_rows. NULL: *d says so. */
void *ds_rows_new(size_t bytes, const ds_source *source, ds_diag *d);
void ds_rows_free(ds_rows *r);
/* The next rows of a queue of n of which *at are gone, at most cap of them; returns how many. */
size_t ds_rows_hand_out(ds_row *rows, size_t cap, const ds_row *queue, size_t n, size_t *at);
/* Begin a call of rows(): forget what the last one gave out unless it is kept. */
void ds_rows_begin(ds_rows *r);

/* Zeroed; NULL when out of memory. */
void *ds_arena_take(ds_arena *a, size_t bytes);
/* Make the piece that was taken last longer, moving it if need be. */
void *ds_arena_grow(ds_arena *a, void *old, size_t old_bytes, size_t bytes);
void ds_arena_free(ds_arena *a);

/* The one copy of a text; NULL when out of memory. */
const char *ds_rows_keep(ds_rows *r, const char *s, size_t n);
ds_more *ds_rows_more(ds_rows *r);
/* Handle of an id for ds_row.id; ds_rows_id gives it back. */
int64_t ds_rows_id_of(ds_rows *r, const char *s, size_t n);
const char *ds_rows_id(const ds_source *s, int64_t id);

/* One line that is not blank, to be read as JSON; *p.at == NULL at the end of the file. */
bool ds_rows_line(ds_rows *r, ds_pull *p, ds_diag *d);
/* The next JSON value, over as many lines as it has; *p.at == NULL at the end of the file. */
bool ds_rows_value(ds_rows *r, ds_pull *p, ds_diag *d);

/* The same from a tar archive: each member whose name ends so is a value. */
bool ds_rows_member(ds_rows *r, const char *suffix, ds_pull *p, ds_diag *d);
bool ds_is_tar(const char *s, size_t n);

/* Complaints; all return false. at: where in the value, NULL: its beginning. */
bool ds_rows_bad(ds_rows *r, const char *at, ds_diag *d, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool ds_rows_not_json(ds_rows *r, const ds_pull *p, ds_diag *d);
bool ds_rows_no_memory(ds_rows *r, ds_diag *d);
uint32_t ds_rows_column(const ds_rows *r, const char *at);
int64_t ds_rows_line_of(ds_rows *r, const char *at);

/* Typed values with complaints: name is the key for messages. null counts as not given (*given
 * false). */
bool ds_rows_tokens(ds_rows *r, ds_pull *p, const char *name, bool *given, uint32_t *out,
                    ds_diag *d);
bool ds_rows_count(ds_rows *r, ds_pull *p, const char *name, uint64_t max, bool *given,
                   uint64_t *out, ds_diag *d);
bool ds_rows_integer(ds_rows *r, ds_pull *p, const char *name, bool *given, int64_t *out,
                     ds_diag *d);
/* A number, or one in quotes. */
bool ds_rows_time(ds_rows *r, ds_pull *p, const char *name, int64_t unit_ns, bool *given,
                  int64_t *out_ns, ds_diag *d);
/* A stamp in quotes, or a number of seconds since 1970. */
bool ds_rows_stamp(ds_rows *r, ds_pull *p, const char *name, bool *given, int64_t *out_ns,
                   ds_diag *d);
/* A text or a number, kept; NULL when not given. */
bool ds_rows_text(ds_rows *r, ds_pull *p, const char *name, const char **out, ds_diag *d);
/* [u64, ...] */
bool ds_rows_blocks(ds_rows *r, ds_pull *p, const char *name, const uint64_t **out, uint64_t *n,
                    ds_diag *d);
/* Ids as blocks of block_tokens: as many as ceil or floor of the input. *tail: it was ceil. Another
 * number is a complaint that names the size that would fit. */
bool ds_rows_check_blocks(ds_rows *r, const char *at, uint32_t input, uint64_t n,
                          uint32_t block_tokens, int tail_rule, bool *tail, ds_diag *d);

/* A name as a number: its own where it is one; 0 for none. */
uint32_t ds_tenant_number(const char *name);
uint64_t ds_mix64(uint64_t x);
uint64_t ds_hash_text(const char *s);

#endif
