// SPDX-License-Identifier: GPL-3.0-or-later
/* Requests that the scenario states. */
#include "io/trace_source.h"

#include <stdlib.h>

typedef struct inline_source {
  ds_source source;
  const ds_request *requests; /* the caller's, as are the ids */
  char *const *ids;
  size_t n, next;
} inline_source;

static bool inline_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  inline_source *q = (inline_source *)s;
  (void)d;
  size_t left = q->n - q->next;
  *n = left < cap ? left : cap;
  for (size_t i = 0; i < *n; i++, q->next++) {
    const ds_request *r = &q->requests[q->next];
    bool named = q->ids != NULL && q->ids[q->next] != NULL;
    rows[i] = (ds_row){.time_ns = r->arrival_ns,
                       .line = 0,
                       .id = named ? (int64_t)q->next : DS_ROW_NO_ID,
                       .input_tokens = r->input_tokens,
                       .output_tokens = r->output_tokens,
                       .max_tokens = r->max_tokens,
                       .priority = r->priority,
                       .tenant = r->tenant,
                       .after = r->after,
                       .think_ns = r->think_ns,
                       .images = r->images,
                       .image_tokens = r->image_tokens,
                       .image_at = r->image_at,
                       .image_placed = true,
                       .n_spans = r->n_spans,
                       .spans = r->spans};
  }
  return true;
}

static const char *inline_id(const ds_source *s, int64_t id) {
  return ((const inline_source *)s)->ids[id];
}

static void inline_close(ds_source *s) { free(s); }

bool ds_inline_open(const ds_workload *w, ds_source **out, ds_diag *d) {
  inline_source *q = calloc(1, sizeof *q);
  *out = NULL;
  if (q == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  q->source = (ds_source){.format = "inline",
                          .time_name = "arrival_ns",
                          .input_name = "input_tokens",
                          .output_name = "output_tokens",
                          .input = NULL,
                          .rebase = true,
                          .rows = inline_rows,
                          .id = inline_id,
                          .close = inline_close};
  q->requests = w->inline_requests;
  q->ids = w->inline_ids;
  q->n = w->n_inline;
  *out = &q->source;
  return true;
}
