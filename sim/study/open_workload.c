// SPDX-License-Identifier: GPL-3.0-or-later
/* Opening a workload: a file or what the scenario states (io), or generated requests (gen). It
 * stands here, and not in io where its header is, because io and gen are neighbours that do not
 * know each other. */
#include "io/trace_source.h"
#include "study/generator.h"

#include <stdlib.h>

#define BATCH 256

typedef struct generated_source {
  ds_source source;
  ds_generator *generator;
  uint64_t seed;
  ds_generated batch[BATCH];
  ds_span span[BATCH][2];
} generated_source;

/* What the prompt begins with: the group's prefix, then the conversation so far and its answer to
 * come, which the next turn's prompt will hold. */
static uint32_t identify(const ds_generated *q, uint64_t seed, ds_span span[2]) {
  uint32_t n = 0, begun = 0;
  if (q->prefix_group > 0 && q->prefix_tokens > 0) {
    char name[48]; /* with the seed: what is generated beside it is something else */
    int bytes = snprintf(name, sizeof name, "%llu p%llu", (unsigned long long)seed,
                         (unsigned long long)q->prefix_group);
    span[n++] = (ds_span){ds_span_hash(name, (size_t)bytes), DS_SPACE_NAMED, q->prefix_tokens};
    begun = q->prefix_tokens;
  }
  uint32_t rest = q->input_tokens + q->output_tokens - begun;
  if (q->session > 0 && q->grows && rest > 0)
    span[n++] = (ds_span){(q->session << 16 | (q->epoch & 0xffff)) ^ seed * 0xd1342543de82ef95u,
                          DS_SPACE_FIRST, rest};
  return n;
}

static bool generated_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  generated_source *g = (generated_source *)s;
  *n = 0;
  size_t got = 0;
  if (!ds_generator_next(g->generator, g->batch, cap < BATCH ? cap : BATCH, &got, d)) return false;
  for (size_t i = 0; i < got; i++) {
    uint32_t n_spans = identify(&g->batch[i], g->seed, g->span[i]);
    rows[i] = (ds_row){.time_ns = g->batch[i].arrival_ns,
                       .line = 0,
                       .id = DS_ROW_NO_ID,
                       .input_tokens = g->batch[i].input_tokens,
                       .output_tokens = g->batch[i].output_tokens,
                       .after = g->batch[i].after,
                       .think_ns = g->batch[i].think_ns,
                       .images = g->batch[i].images,
                       .image_tokens = g->batch[i].image_tokens,
                       .image_at = g->batch[i].image_at,
                       .image_placed = true,
                       .n_spans = n_spans,
                       .spans = n_spans > 0 ? g->span[i] : NULL};
  }
  *n = got;
  return true;
}

static void generated_close(ds_source *s) {
  ds_generator_close(((generated_source *)s)->generator);
  free(s);
}

static bool generate_open(const ds_workload *w, uint64_t seed, ds_source **out, ds_diag *d) {
  *out = NULL;
  generated_source *g = calloc(1, sizeof *g);
  if (g == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  if (!ds_generator_open(w, seed, &g->generator, d)) {
    free(g);
    return false;
  }
  g->seed = seed;
  g->source = (ds_source){.format = "generated",
                          .time_name = "arrival_ns",
                          .input_name = "input_tokens",
                          .output_name = "output_tokens",
                          .input = NULL,
                          .rebase = false,
                          .rows = generated_rows,
                          .id = NULL,
                          .close = generated_close};
  *out = &g->source;
  return true;
}

bool ds_trace_open(const ds_workload *w, uint64_t seed, ds_trace **out, ds_diag *d) {
  ds_input *in = NULL;
  ds_source *source = NULL;
  bool good = false;
  *out = NULL;
  switch (w->kind) {
  case DS_WORKLOAD_TRACE:
    good = ds_trace_file_open(w, &in, &source, d);
    break;
  case DS_WORKLOAD_GENERATE:
    good = generate_open(w, seed, &source, d);
    break;
  case DS_WORKLOAD_INLINE:
    good = ds_inline_open(w, &source, d);
    break;
  case DS_WORKLOAD_MERGED:
    ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "several workloads have no trace of their own");
    break;
  }
  if (good) {
    if (!ds_trace_start(w, in, source, out, d)) return false;
    ds_trace_seed(*out, seed);
    return true;
  }
  ds_input_close(in);
  return false;
}
