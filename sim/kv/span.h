// SPDX-License-Identifier: Apache-2.0
/* What a request's tokens are: enough to say which prompts begin alike, without the text.
 *
 * The identity of a request is a list of spans: so many tokens of this stream, then so many of that one. Two requests
 * share their tokens up to position p exactly when their spans agree up to p. It does not depend on any block size.
 * Spans may go on beyond the prompt: then they say what the generated tokens will be, so that a later turn of a
 * conversation, whose prompt holds them, finds them. Tokens beyond the last span are the request's own.
 *
 * Hash ids of blocks (each names its whole prefix) become spans by stream = id - index of the block: ids that count up
 * stay in one span, which is the run-length code. Streams of one space are comparable, those of different spaces never:
 * a reader gives each scope (file, session, size of block) a space of its own. */
#ifndef DS_KV_SPAN_H
#define DS_KV_SPAN_H

#include "base/types.h"

typedef struct ds_span {
  uint64_t stream;
  uint32_t space;  /* DS_SPACE_...; a reader's own ones from DS_SPACE_FIRST on */
  uint32_t tokens; /* >= 1 */
} ds_span;

enum {
  DS_SPACE_OWN,    /* the engine's: tokens of one request alone */
  DS_SPACE_MIXED,  /* the engine's: a block that several spans meet in */
  DS_SPACE_NAMED,  /* stream: ds_span_hash of a name */
  DS_SPACE_FIRST   /* a reader's: DS_SPACE_FIRST + anything */
};

/* FNV-1a, finished so that near names are far apart. */
static inline uint64_t ds_span_hash(const char *s, size_t n) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
  h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

/* Append block `index` with this id, of `tokens` tokens (block_tokens but for a partial last one), to spans[*n], which
 * has room for one more. */
static inline void ds_span_block(ds_span *spans, uint32_t *n, uint32_t space, uint64_t id, uint32_t index, uint32_t tokens) {
  uint64_t stream = id - index;
  if (*n > 0 && spans[*n - 1].stream == stream && spans[*n - 1].space == space) {
    spans[*n - 1].tokens += tokens;
    return;
  }
  spans[(*n)++] = (ds_span){stream, space, tokens};
}

#endif
