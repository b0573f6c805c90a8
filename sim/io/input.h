// SPDX-License-Identifier: GPL-3.0-or-later
/* A file or standard input as a stream of lines: hashed (SHA-256) as it is read, unpacked when it
 * begins like gzip or zstd. Memory: one buffer, as long as the longest line asked for. One stream
 * belongs to one thread. */
#ifndef DS_IO_INPUT_H
#define DS_IO_INPUT_H

#include "io/diag.h"

#define DS_INPUT_PAD                                                                               \
  64 /* readable zero bytes behind `end`, so that a scanner may look ahead without asking */

typedef struct ds_input {
  char *at, *end;   /* bytes read (and unpacked) but not consumed yet; the reader moves `at` */
  bool ended;       /* nothing comes after `end` */
  int64_t line;     /* number of lines consumed; whoever moves `at` over a line's end counts it */
  const char *name; /* for messages */
  struct ds_input_state *state;
} ds_input;

/* Open path ("-": standard input) and read its beginning. name: what to call it in messages (NULL:
 * path); copied. */
bool ds_input_open(const char *path, const char *name, ds_input **out, ds_diag *d);
void ds_input_close(ds_input *in);

/* Read on behind `end`, moving the unconsumed bytes if need be. Pointers into the buffer are then
 * invalid. */
bool ds_input_fill(ds_input *in, ds_diag *d);
/* Fill until `want` bytes are there or the stream ends. */
bool ds_input_peek(ds_input *in, size_t want, ds_diag *d);
/* Consume one line, with its "\n" if it has one; *bytes 0 at the end. Longer than max_bytes is an
 * error. The line may be changed in place; valid until the next call. */
bool ds_input_line(ds_input *in, size_t max_bytes, char **line, size_t *bytes, ds_diag *d);

/* Lower-case hex of the raw bytes read so far: of the whole file once `ended`. */
const char *ds_input_sha256(ds_input *in);
/* Raw bytes read, and the file's size (0 when it has none, as a pipe). */
void ds_input_progress(const ds_input *in, uint64_t *done, uint64_t *total);

#endif
