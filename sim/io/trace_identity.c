// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_identity.h"

#include <stdlib.h>
#include <string.h>

#include "io/span_ids.h"

static bool grow(ds_row_identity *t, size_t n) {
  if (n <= t->cap) return true;
  size_t cap = 2 * n;
  ds_span *span = realloc(t->span, cap * sizeof *span);
  if (span != NULL) t->span = span;
  uint64_t *id = realloc(t->id, cap * sizeof *id);
  if (id != NULL) t->id = id;
  if (span == NULL || id == NULL) return false;
  t->cap = cap;
  return true;
}

/* Ids of one scope are moved by a number of its own: those that count up still do. */
static const uint64_t *in_scope(ds_row_identity *t, const ds_more *m, size_t n) {
  if (m->scope == 0) return m->blocks;
  for (size_t i = 0; i < n; i++) t->id[i] = m->blocks[i] + m->scope;
  return t->id;
}

bool ds_row_identify(ds_row_identity *t, const ds_more *m, ds_request *out) {
  bool named = m->n_blocks == 0 && m->prefix != NULL && m->prefix_tokens > 0;
  if ((m->n_blocks == 0 || m->block_tokens == 0) && !named) return true;
  size_t most =
      named ? 1 : ds_spans_most_ids(m->block_tokens, out->input_tokens, out->output_tokens);
  size_t n = m->n_blocks < most ? (size_t)m->n_blocks : most;
  if (!grow(t, n + 1)) return false;
  out->n_spans = named ? ds_spans_of_prefix(m->prefix, strlen(m->prefix), m->prefix_tokens,
                                            out->input_tokens, out->output_tokens, t->span)
                       : ds_spans_of_ids(in_scope(t, m, n), n, m->block_tokens, m->scope != 0,
                                         out->input_tokens, out->output_tokens, t->span);
  out->spans = out->n_spans > 0 ? t->span : NULL;
  return ds_span_keep(&t->room, &out->spans, out->n_spans);
}

void ds_row_identity_free(ds_row_identity *t) {
  ds_span_room_free(&t->room);
  free(t->span);
  free(t->id);
}
