// SPDX-License-Identifier: GPL-3.0-or-later
/* What a prefix cache could find: by hand, against a cache that is walked block by block, and on the
 * public Mooncake trace where it is at hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "io/span_ids.h"
#include "study/driver.h"
#include "study/prefix_study.h"

typedef struct rows {
  ds_request *r;
  uint64_t **ids;
  size_t *n_ids, n;
} rows;

static void add_row(rows *t, const uint64_t *ids, size_t n, uint32_t block, uint32_t input) {
  t->r = realloc(t->r, (t->n + 1) * sizeof *t->r);
  t->ids = realloc(t->ids, (t->n + 1) * sizeof *t->ids);
  t->n_ids = realloc(t->n_ids, (t->n + 1) * sizeof *t->n_ids);
  ds_span *spans = malloc((n + 1) * sizeof *spans);
  t->ids[t->n] = malloc((n + 1) * sizeof **t->ids);
  memcpy(t->ids[t->n], ids, n * sizeof *ids);
  t->n_ids[t->n] = n;
  t->r[t->n++] = (ds_request){.input_tokens = input,
                              .output_tokens = 1,
                              .spans = spans,
                              .n_spans = ds_spans_of_ids(ids, n, block, 0, input, 1, spans)};
}

static void free_rows(rows *t) {
  for (size_t i = 0; i < t->n; i++) {
    void *spans;
    memcpy(&spans, &t->r[i].spans, sizeof spans);
    free(spans);
    free(t->ids[i]);
  }
  free(t->r);
  free(t->ids);
  free(t->n_ids);
}

static ds_prefix_study *study(const rows *t, uint32_t block, bool partial) {
  ds_prefix_study *s;
  cr_assert(ds_prefix_study_new(block, partial, &s));
  cr_assert(ds_prefix_study_add(s, t->r, t->n));
  cr_assert(ds_prefix_study_close(s));
  return s;
}

/* A cache of single ids, most recent first. */
static uint64_t walked_lru(const rows *t, size_t capacity) {
  uint64_t *list = malloc((capacity + 600) * sizeof *list), hits = 0;
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++) {
    for (size_t k = 0; k < t->n_ids[i]; k++) {
      size_t at = 0;
      while (at < n && list[at] != t->ids[i][k]) at++;
      if (at == n) break;
      hits++;
    }
    for (size_t k = t->n_ids[i]; k-- > 0;) {
      size_t at = 0;
      while (at < n && list[at] != t->ids[i][k]) at++;
      if (at == n) n++;
      memmove(list + 1, list, at * sizeof *list);
      list[0] = t->ids[i][k];
    }
    if (n > capacity) n = capacity;
  }
  free(list);
  return hits;
}

Test(prefix_study, a_small_example) {
  /* Three turns of one conversation, a stranger with the same first block, and a repetition. */
  static const uint64_t a[] = {0, 1}, b[] = {0, 1, 2, 3}, c[] = {0, 9, 10}, d[] = {0, 1, 2, 3, 4};
  rows t = {0};
  add_row(&t, a, 2, 16, 30);
  add_row(&t, b, 4, 16, 64);
  add_row(&t, c, 3, 16, 48);
  add_row(&t, d, 5, 16, 70);
  add_row(&t, a, 2, 16, 30);
  ds_prefix_study *s = study(&t, 16, true);
  const ds_prefix_found *f = ds_prefix_study_found(s);
  cr_assert_eq(f->blocks, 16);
  cr_assert_eq(f->unique, 7);
  cr_assert_eq(f->hit_blocks, 0 + 2 + 1 + 4 + 2);
  cr_assert_eq(f->hit_tokens, 32 + 16 + 64 + 30, "a partial block is no more than its tokens");
  cr_assert_eq(f->full_hits, 1);
  for (size_t capacity = 1; capacity < 9; capacity++) {
    uint64_t bound;
    cr_assert_eq(ds_prefix_study_lru(s, capacity), walked_lru(&t, capacity));
    cr_assert(ds_prefix_study_bound(s, capacity, &bound));
    cr_assert_geq(bound, walked_lru(&t, capacity));
    if (capacity >= 7) cr_assert_eq(bound, f->hit_blocks);
  }
  ds_prefix_study_free(s);
  /* Sixteen tokens each in blocks of four, whole ones only. */
  s = study(&t, 4, false);
  cr_assert_eq(ds_prefix_study_found(s)->hit_tokens, 28 + 16 + 64 + 28);
  ds_prefix_study_free(s);
  free_rows(&t);
}

Test(prefix_study, random_conversations) {
  uint64_t x = 88172645463325252u, fresh = 1;
  rows t = {0};
  static uint64_t history[20][64];
  static size_t length[20];
  for (int i = 0; i < 400; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    size_t who = x % 20, more = 1 + x / 32 % 5;
    if (length[who] + more > 60) length[who] = 0;
    for (size_t k = 0; k < more; k++) history[who][length[who]++] = fresh++;
    add_row(&t, history[who], length[who], 16, (uint32_t)length[who] * 16);
  }
  ds_prefix_study *s = study(&t, 16, true);
  uint64_t last = 0;
  for (size_t capacity = 1; capacity < 1500; capacity += 1 + capacity / 3) {
    uint64_t bound, hits = ds_prefix_study_lru(s, capacity);
    cr_assert_eq(hits, walked_lru(&t, capacity), "a cache of %zu", capacity);
    cr_assert(ds_prefix_study_bound(s, capacity, &bound));
    cr_assert(bound >= hits && hits >= last);
    last = hits;
  }
  ds_prefix_study_free(s);
  free_rows(&t);
}

Test(prefix_study, mooncake_conversations) {
  const char *shared = getenv("DRYSERVE_SHARED");
  char path[1024];
  snprintf(path, sizeof path, "%s/data/traces/mooncake/conversation_trace.jsonl",
           shared != NULL ? shared : "../shared");
  FILE *f = fopen(path, "r");
  if (f == NULL) cr_skip_test("the public trace is not at hand");
  rows t = {0};
  static char line[1 << 16];
  while (fgets(line, sizeof line, f) != NULL) {
    uint64_t ids[1024];
    size_t n = 0;
    char *input = strstr(line, "\"input_length\":"), *at = strstr(line, "\"hash_ids\":");
    cr_assert(input != NULL && at != NULL);
    for (at = strchr(at, '[') + 1; *at != ']' && n < 1024; at += *at == ',' || *at == ' ')
      ids[n++] = strtoull(at, &at, 10);
    add_row(&t, ids, n, 512, (uint32_t)strtoul(input + 15, NULL, 10));
  }
  fclose(f);
  ds_prefix_study *s = study(&t, 512, true);
  const ds_prefix_found *found = ds_prefix_study_found(s);
  cr_assert_eq(found->blocks, 288500);
  cr_assert_eq(found->unique, 182790);
  cr_assert_eq(found->hit_blocks, 105710);
  cr_assert_eq(found->hit_tokens, 54098411);
  cr_assert_eq(found->full_hits, 118);
  static const uint64_t lru[][2] = {{1000, 12847},  {3000, 18850},  {10000, 61046},
                                    {30000, 93978}, {50000, 102290}, {100000, 104924}};
  for (size_t i = 0; i < 6; i++) {
    uint64_t bound;
    cr_assert_eq(ds_prefix_study_lru(s, lru[i][0]), lru[i][1]);
    cr_assert(ds_prefix_study_bound(s, lru[i][0], &bound));
    cr_assert(bound >= lru[i][1] && bound <= 105710);
  }
  ds_prefix_study_free(s);
  free_rows(&t);
}

/* Alone, one after the other, with room for everything: the run finds what the study says. */
Test(prefix_study, a_run_agrees) {
  uint64_t x = 2463534242u, fresh = 1;
  rows t = {0};
  uint64_t history[6][40];
  size_t length[6] = {0};
  for (int i = 0; i < 200; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    size_t who = x % 6, more = x / 32 % 4;
    if (length[who] + more > 40) length[who] = x % 3;
    for (size_t k = 0; k < more; k++) history[who][length[who]++] = fresh++;
    /* One token more than its blocks hold, so that whole blocks may be found to the last. */
    add_row(&t, history[who], length[who], 64, (uint32_t)length[who] * 64 + 1);
    t.r[t.n - 1].arrival_ns = i * DS_NS_PER_S;
    t.r[t.n - 1].output_tokens = t.r[t.n - 1].max_tokens = 1 + (uint32_t)(x % 50);
  }
  ds_prefix_study *s = study(&t, 16, false);
  const ds_prefix_found *found = ds_prefix_study_found(s);
  ds_run run = {.cost_tier = DS_COST_LINEAR,
                .linear = {.step_s = 1e-3},
                .pool = {.name = "main",
                         .scheduler = "vllm-v1",
                         .replicas = 1,
                         .tensor_parallel = 1,
                         .pipeline_parallel = 1,
                         .data_parallel = 1,
                         .expert_parallel = 1,
                         .kv_blocks = 100000,
                         .kv_block_tokens = 16,
                         .memory_utilization = 0.9,
                         .prefix_cache = true}};
  const ds_sched_ops *sched = ds_scheduler_find("vllm-v1");
  for (size_t i = 0; i < sched->n_params; i++) {
    const ds_param *p = &sched->params[i];
    unsigned char *at = run.pool.scheduler_config.bytes + p->offset;
    bool flag = p->preset != 0;
    int64_t value = (int64_t)p->preset;
    if (p->type == DS_PARAM_BOOL) memcpy(at, &flag, sizeof flag);
    if (p->type == DS_PARAM_INT) memcpy(at, &value, sizeof value);
  }
  run.pool.max_num_seqs = 256;
  run.pool.max_num_batched_tokens = 2048;
  ds_error err = {0};
  ds_sim *sim;
  ds_sim_options opt = {0};
  bool more = true;
  cr_assert_eq(ds_sim_new(&run, sched, ds_router_find("round-robin"), &opt, &ds_heap, &sim, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_sim_feed(sim, t.r, t.n, &err), DS_OK, "%s", err.text);
  ds_sim_close(sim);
  while (more) cr_assert_eq(ds_sim_step(sim, 1000, &more, &err), DS_OK, "%s", err.text);
  const ds_cache_totals *c = &ds_sim_result(sim)->replicas[0].cache;
  cr_assert_eq(c->hit_blocks, found->hit_blocks);
  cr_assert_eq(c->hit_tokens, found->hit_tokens);
  cr_assert_eq(c->asked_blocks, found->blocks);
  cr_assert_eq(c->asked_tokens, found->input_tokens);
  cr_assert_gt(c->hit_blocks, 1000);
  ds_sim_free(sim);
  ds_prefix_study_free(s);
  free_rows(&t);
}
