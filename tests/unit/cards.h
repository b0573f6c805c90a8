// SPDX-License-Identifier: GPL-3.0-or-later
/* For tests that price: runs made from the cards in the tree, and a plain allocator. Tests run in
 * the repository root. */
#ifndef TESTS_UNIT_CARDS_H
#define TESTS_UNIT_CARDS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/price.h"
#include "io/card.h"

static inline void *plain_resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque;
  (void)old_bytes;
  if (new_bytes == 0) {
    free(old);
    return NULL;
  }
  return realloc(old, new_bytes);
}
static const ds_alloc plain_alloc = {plain_resize, NULL};

static inline void card_read(ds_card_kind kind, const char *name, void *out) {
  ds_diag d = {0};
  ds_doc doc;
  char path[256];
  snprintf(path, sizeof path, "%s/%s.yaml", ds_card_schemas[kind].folder, name);
  bool ok = ds_card_open(kind, path, &doc, NULL, &d);
  if (ok) {
    if (kind == DS_CARD_MODEL) ok = ds_card_model(&doc, out, &d);
    if (kind == DS_CARD_HARDWARE) ok = ds_card_hardware(&doc, out, &d);
    if (kind == DS_CARD_ENGINE) ok = ds_card_engine(&doc, out, &d);
    ds_doc_free(&doc);
  }
  cr_assert(ok, "%s: %s", path, d.text);
}

/* One replica of a model on a part, priced by the roofline; options as vLLM has them on an H100 of
 * its benchmarks. */
static inline ds_run run_of(const char *model, const char *hardware, const char *engine,
                            ds_format weights, ds_format kv, int64_t tensor_parallel) {
  ds_run r;
  memset(&r, 0, sizeof r);
  card_read(DS_CARD_MODEL, model, &r.model);
  card_read(DS_CARD_HARDWARE, hardware, &r.pool.hw);
  card_read(DS_CARD_ENGINE, engine, &r.pool.engine);
  r.weights = r.expert_weights = weights;
  r.kv_cache = kv;
  r.cost_tier = DS_COST_ROOFLINE;
  strcpy(r.pool.name, "main");
  r.pool.replicas = r.pool.pipeline_parallel = r.pool.data_parallel = r.pool.expert_parallel = 1;
  r.pool.tensor_parallel = tensor_parallel;
  r.pool.kv_block_tokens = 16;
  r.pool.memory_utilization = 0.9;
  r.pool.max_num_seqs = 128;
  r.pool.max_num_batched_tokens = 2048;
  return r;
}

static inline ds_pricer *pricer_of(const ds_run *run, int64_t max_tokens, int64_t max_seqs) {
  ds_error err = {0};
  ds_pricer *p = NULL;
  ds_status s = ds_pricer_new(run, max_tokens, max_seqs, &plain_alloc, &p, &err);
  cr_assert_eq(s, DS_OK, "%s", err.text);
  return p;
}

/* Add a prefill chunk of `fresh` tokens after `cached` ones. */
static inline void shape_add_chunk(ds_shape *s, int64_t fresh, int64_t cached, bool finished) {
  double f = (double)fresh, c = (double)cached;
  s->prefill_tokens += fresh;
  s->prefill_chunks++;
  s->finished_chunks += finished;
  s->prefill_pairs += f * c + f * (f + 1) / 2;
  s->prefill_kv_tokens += f + c;
  s->prefill_tiles += (fresh + 127) / 128;
}

static inline ds_shape shape_of(int64_t seqs, double ctx) {
  ds_shape s;
  memset(&s, 0, sizeof s);
  s.decode_seqs = seqs;
  s.decode_ctx = ctx;
  return s;
}

#endif
