// SPDX-License-Identifier: GPL-3.0-or-later
/* Small random scenarios that bring out the awkward cases: KV of a few blocks, budgets smaller than
 * the batch, arrivals at the instant an iteration ends, one-token requests, long idle gaps, equal
 * arrival times. */
#ifndef TESTS_PROPERTY_WORLDS_H
#define TESTS_PROPERTY_WORLDS_H

#include "harness.h"

typedef struct world_request {
  i64 arrival_ns, input, output, max_tokens, priority;
  /* what its tokens are: prefix_tokens of family `family`, or n_ids block ids of id_tokens each, of
   * which the first `common` are the family's */
  i64 family, prefix_tokens, id_tokens, n_ids, common;
} world_request;

typedef struct world {
  bool linear, is_static;
  i64 step_ns, prefill_ns, decode_ns;
  const char *model, *hardware, *tier;
  i64 tensor_parallel;
  i64 replicas, kv_blocks /* -1: left out */, block_tokens, max_model_len /* 0: left out */;
  bool prefix_cache, least_outstanding, named;
  i64 max_num_seqs, budget, threshold, watermark;
  bool chunked, full_must_fit, by_priority;
  i64 max_batch, max_delay_ns, preferred[4], n_preferred;
  bool hold, pad, batch_end;
  const char *tiers, *eviction, *initial_cache; /* NULL: left out */
  world_request r[128];
  int n;
  char client[160];           /* of the workload, with a comma behind it, or empty */
} world;

static bool world_priority; /* the program schedules by priority: set by world_begin */

enum { WORLD_LINEAR = 1, WORLD_ROOFLINE = 2, WORLD_ANY = 3 };

static inline void world_begin(const char *driver) {
  harness_begin(driver);
  world_priority = schedules_by_priority();
  if (!world_priority) tap_skip("scheduling by priority", "this version does not have it");
}

static inline i64 world_length(uint64_t *s, i64 most) {
  i64 n = chance(s, 15) ? 1 : chance(s, 60) ? between(s, 1, 24) : between(s, 1, 160);
  return n < most ? n : most;
}

static inline void world_costs(world *w, uint64_t *s, int kinds, i64 *grain_ns) {
  static const char *const models[] = {"llama-3.1-8b", "llama-2-7b", "qwen2.5-7b"};
  static const char *const parts[] = {"h100-sxm", "a100-80-sxm", "h200-sxm", "mi300x"};
  w->linear = kinds == WORLD_LINEAR || (kinds == WORLD_ANY && chance(s, 60));
  if (!w->linear) {
    w->model = models[between(s, 0, 2)];
    w->hardware = parts[between(s, 0, 3)];
    w->tensor_parallel = between(s, 1, 2);
    w->tier = chance(s, 20) ? "speed-of-light" : "roofline";
    *grain_ns = chance(s, 50) ? 1 : 1000000;
  } else if (chance(s, 50)) { /* a coarse grid: arrivals and ends of iterations meet often */
    *grain_ns = 1000000;
    w->step_ns = between(s, 1, 10) * *grain_ns;
    w->prefill_ns = between(s, 0, 1) * *grain_ns;
    w->decode_ns = between(s, 0, 2) * *grain_ns;
  } else {
    *grain_ns = 1;
    w->step_ns = between(s, 50000, 20000000);
    w->prefill_ns = between(s, 0, 200000);
    w->decode_ns = between(s, 0, 1500000);
  }
}

static inline void world_memory(world *w, uint64_t *s) {
  bool tight = chance(s, 50);
  w->block_tokens = chance(s, 30) ? 16 : between(s, 1, 32);
  w->kv_blocks = tight ? between(s, 4, 40) : between(s, 300, 3000);
  if (!tight && w->is_static && w->linear && chance(s, 50)) w->kv_blocks = -1;
}

static inline void world_policy(world *w, uint64_t *s, i64 grain_ns) {
  w->prefix_cache = chance(s, 50);
  w->max_num_seqs = chance(s, 20) ? 1 : between(s, 1, 24);
  w->budget = chance(s, 50) ? between(s, 1, 40) : between(s, 16, 2048);
  w->threshold = chance(s, 30) ? between(s, 1, 24) : 0;
  w->watermark = chance(s, 30) ? between(s, 1, 4) : 0;
  w->full_must_fit = chance(s, 50);
  w->chunked = chance(s, 75);
  if (!w->chunked && chance(s, 70)) w->budget = 1; /* grows to the longest request, no further */
  w->by_priority = chance(s, 15) && world_priority;
  w->max_batch = between(s, 1, 10);
  w->hold = chance(s, 50);
  w->pad = chance(s, 30);
  w->batch_end = chance(s, 30);
  if (chance(s, 50))
    w->max_delay_ns = grain_ns > 1 ? between(s, 1, 60) * grain_ns : between(s, 1, 200000000);
  if (chance(s, 50))
    for (w->n_preferred = 0; w->n_preferred < between(s, 1, 3); w->n_preferred++)
      w->preferred[w->n_preferred] = between(s, 1, w->max_batch);
}

/* Whether a request of p + o tokens can run at all. */
static inline bool world_fits(const world *w, i64 p, i64 o, i64 max_tokens) {
  i64 tokens = w->is_static ? (w->max_model_len ? w->max_model_len : p + max_tokens) : p + o - 1;
  return w->kv_blocks < 0 || (tokens + w->block_tokens - 1) / w->block_tokens <= w->kv_blocks;
}

static inline void world_requests(world *w, uint64_t *s, i64 grain_ns) {
  bool is_long = chance(s, 6); /* answers of thousands of tokens, over many blocks */
  i64 most = w->kv_blocks < 0 ? 4000 : w->kv_blocks * w->block_tokens;
  if (most > (is_long ? 4000 : 400)) most = is_long ? 4000 : 400;
  if (w->max_model_len && w->max_model_len < most) most = w->max_model_len;
  i64 now = chance(s, 30) ? between(s, 1, 50) * grain_ns : 0;
  double mean_gap_ns = (w->linear ? (double)w->step_ns : 8e6) * (chance(s, 50) ? 0.5 : 6);
  w->n = (int)(chance(s, 10) ? between(s, 1, 3) : between(s, 4, 48));
  for (int i = 0; i < w->n; i++) {
    world_request *r = &w->r[i];
    if (i && !chance(s, 30))
      now += (i64)(exponential(s) * mean_gap_ns / (double)grain_ns) * grain_ns;
    if (i && chance(s, 4)) now += 20000000000;
    r->arrival_ns = now;
    do {
      r->input = world_length(s, most - 1);
      r->output = chance(s, 15) ? 1 : world_length(s, most - r->input);
      if (is_long && chance(s, 10)) r->output = between(s, 1, most - r->input);
      r->max_tokens = w->is_static && chance(s, 40) ? r->output + between(s, 0, 20) : r->output;
      if (w->max_model_len && r->input + r->max_tokens > w->max_model_len)
        r->max_tokens = r->output;
    } while (!world_fits(w, r->input, r->output, r->max_tokens));
    r->priority = w->by_priority ? between(s, 0, 3) : 0;
    if (!w->is_static && !w->chunked && w->budget < r->input + r->output)
      w->budget = r->input + r->output;
  }
}

/* Prompts that begin alike, in three families; some know what they will generate, too. */
static inline void world_identities(world *w, uint64_t seed) {
  uint64_t stream = seed * 104729 + 7, *s = &stream;
  if (w->is_static || chance(s, 30)) return;
  i64 sizes[] = {w->block_tokens, 2 * w->block_tokens, (w->block_tokens + 1) / 2, 3};
  for (int i = 0; i < w->n; i++) {
    world_request *r = &w->r[i];
    i64 whole = r->input + r->output;
    r->family = between(s, 0, 2);
    if (chance(s, 40)) {
      r->prefix_tokens = chance(s, 30) ? whole : between(s, 0, whole);
    } else if (chance(s, 80)) {
      r->id_tokens = sizes[chance(s, 60) ? 0 : between(s, 0, 3)];
      i64 most = (whole + r->id_tokens - 1) / r->id_tokens,
          of_prompt = (r->input + r->id_tokens - 1) / r->id_tokens;
      r->n_ids = chance(s, 60) ? of_prompt : between(s, 0, most);
      if (r->n_ids > 256) r->n_ids = 256; /* a scenario holds no more */
      r->common = chance(s, 50) ? r->n_ids : between(s, 0, r->n_ids);
    }
  }
}

/* What the naive simulator does not know: other orders of eviction, warm caches, tiers. */
static inline void world_caches(world *w, uint64_t seed) {
  static const char *const orders[] = {"lru", "lfu", "fifo"},
                          *const linear[] = {
                              "{\"blocks\": 200, \"load_time_per_block\": \"300 us\"}",
                              "{\"blocks\": 30, \"load_time_per_block\": \"10 us\", \"latency\": "
                              "\"1 ms\", \"fetch\": \"always\"}, {\"name\": \"disk\", \"scope\": "
                              "\"cluster\", \"blocks\": 900, \"load_time_per_block\": \"2 ms\"}",
                              ("{\"blocks\": 500, \"load_time_per_block\": \"50 us\", "
                               "\"store_time_per_block\": \"4 ms\"}"),
                              "{\"blocks\": 1, \"load_time_per_block\": \"0 s\", \"scope\": \"node\"}"},
                          *const real[] = {
                              "{\"capacity\": \"1 GB\", \"bandwidth\": \"20 GB/s\"}",
                              "{\"name\": \"pool\", \"scope\": \"node\", \"capacity\": \"9 GB\", "
                              "\"bandwidth\": \"3 GB/s\", \"latency\": \"50 us\", \"fetch\": \"always\"}",
                              "{\"capacity\": \"2 GB\", \"bandwidth\": \"50 GB/s\", "
                              "\"write_bandwidth\": \"300 MB/s\"}",
                              "{\"scope\": \"cluster\", \"capacity\": \"9 GB\", \"bandwidth\": "
                              "\"1 GB/s\", \"write_bandwidth\": \"100 GB/s\"}"};
  uint64_t stream = seed * 15485863 + 3, *s = &stream;
  if (w->is_static || !w->prefix_cache) return;
  if (chance(s, 50)) w->eviction = orders[between(s, 0, 2)];
  if (chance(s, 30)) w->initial_cache = "warm";
  if (chance(s, 50) && w->kv_blocks >= 0) w->tiers = (w->linear ? linear : real)[between(s, 0, 3)];
}

static inline void world_make(world *w, uint64_t seed, int kinds) {
  uint64_t stream = seed * 7919 + 12345, *s = &stream;
  i64 grain_ns;
  *w = (world){.is_static = chance(s, 30), .kv_blocks = -1};
  world_costs(w, s, kinds, &grain_ns);
  w->replicas = chance(s, 40) ? 1 : between(s, 1, 5);
  w->least_outstanding = chance(s, 50);
  w->named = chance(s, 50);
  world_memory(w, s);
  world_policy(w, s, grain_ns);
  if (w->is_static && chance(s, 25)) {
    i64 room = w->kv_blocks < 0 ? 400 : w->kv_blocks * w->block_tokens;
    w->max_model_len = between(s, room < 8 ? room : 8, room < 400 ? room : 400);
    if (w->max_model_len < 2) w->max_model_len = 0;
  }
  world_requests(w, s, grain_ns);
  world_identities(w, seed);
}

static inline const char *yes(bool b) { return b ? "true" : "false"; }

static inline void world_write_policy(const world *w, FILE *f) {
  if (!w->is_static) {
    fprintf(f,
            "\"max_num_seqs\": %lld, \"max_num_batched_tokens\": %lld, "
            "\"long_prefill_token_threshold\": %lld, \"watermark_blocks\": %lld, ",
            (long long)w->max_num_seqs, (long long)w->budget, (long long)w->threshold,
            (long long)w->watermark);
    fprintf(f,
            "\"enable_chunked_prefill\": %s, \"full_sequence_must_fit\": %s, "
            "\"scheduling_policy\": \"%s\"",
            yes(w->chunked), yes(w->full_must_fit), w->by_priority ? "priority" : "fcfs");
    return;
  }
  fprintf(f,
          "\"max_batch_size\": %lld, \"hold_finished_slots\": %s, \"pad\": %s, \"emit\": \"%s\", "
          "\"max_queue_delay\": \"%lld ns\"",
          (long long)w->max_batch, yes(w->hold), yes(w->pad), w->batch_end ? "batch-end" : "stream",
          (long long)w->max_delay_ns);
  for (i64 i = 0; i < w->n_preferred; i++)
    fprintf(f, "%s%lld", i ? ", " : ", \"preferred_batch_sizes\": [", (long long)w->preferred[i]);
  if (w->n_preferred) fputc(']', f);
}

static inline void world_write_request(const world *w, int i, FILE *f) {
  const world_request *r = &w->r[i];
  fputc('{', f);
  if (w->named) fprintf(f, "\"id\": \"q%d\", ", 3 * i + 1);
  fprintf(f, "\"arrival_ns\": %lld, \"input_tokens\": %lld, \"output_tokens\": %lld",
          (long long)r->arrival_ns, (long long)r->input, (long long)r->output);
  if (r->max_tokens != r->output) fprintf(f, ", \"max_tokens\": %lld", (long long)r->max_tokens);
  if (w->by_priority) fprintf(f, ", \"priority\": %lld", (long long)r->priority);
  if (r->prefix_tokens)
    fprintf(f, ", \"prefix\": [\"family %lld\", %lld]", (long long)r->family,
            (long long)r->prefix_tokens);
  if (r->n_ids) fprintf(f, ", \"block_tokens\": %lld, \"blocks\": [", (long long)r->id_tokens);
  for (i64 k = 0; k < r->n_ids; k++)
    fprintf(f, "%s%lld", k ? ", " : "",
            (long long)(k + (k < r->common ? r->family * 1000 : 10000 * (i + 1))));
  if (r->n_ids) fputc(']', f);
  fputc('}', f);
}

typedef enum world_form { FORM_JSONL, FORM_AZURE_2023, FORM_AZURE_2024 } world_form;

/* The requests as a trace file. The forms of Azure hold 100 ns or 1 us and no names, caps or
 * priorities: w is made so. */
static inline void world_write_trace(world *w, world_form form, const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) bail("cannot write %s", path);
  if (form == FORM_AZURE_2023) fputs("\xef\xbb\xbf", f);
  if (form != FORM_JSONL)
    fputs(form == FORM_AZURE_2023 ? "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                  : "TIMESTAMP,ContextTokens,GeneratedTokens\n",
          f);
  for (int i = 0; i < w->n; i++) {
    world_request *r = &w->r[i];
    if (form == FORM_JSONL) {
      world_write_request(w, i, f);
      fputc('\n', f);
      continue;
    }
    w->named = w->by_priority = false;
    r->max_tokens = r->output;
    r->prefix_tokens = r->n_ids = 0;
    r->arrival_ns -= r->arrival_ns % (form == FORM_AZURE_2023 ? 100 : 1000);
    i64 t = r->arrival_ns / 1000000000 + 23 * 3600 + 59 * 60 + 40,
        ns = r->arrival_ns % 1000000000; /* across midnight of a leap day */
    int day = 28 + (int)(t / 86400), hour = (int)(t / 3600 % 24), minute = (int)(t / 60 % 60),
        second = (int)(t % 60);
    fprintf(f, "2024-%02d-%02d %02d:%02d:%02d.", day > 29 ? 3 : 2, day > 29 ? day - 29 : day, hour,
            minute, second);
    fprintf(f, form == FORM_AZURE_2023 ? "%07lld" : "%06lld+00:00",
            (long long)(ns / (form == FORM_AZURE_2023 ? 100 : 1000)));
    fprintf(f, ",%lld,%lld%s", (long long)r->input, (long long)r->output,
            i + 1 == w->n             ? ""
            : form == FORM_AZURE_2023 ? "\r\n"
                                      : "\n");
  }
  if (fclose(f)) bail("cannot write %s", path);
}

/* As YAML that is also JSON, so that the naive simulator can read it. The requests inline, or from
 * a trace. */
static inline void world_write_with(const world *w, const char *path, const char *trace) {
  FILE *f = fopen(path, "w");
  if (!f) bail("cannot write %s", path);
  fputs("{\"scenario\": 1,\n", f);
  if (!w->linear) fprintf(f, "\"model\": \"%s\",\n", w->model);
  fprintf(f,
          "\"pools\": [{\"name\": \"main\", \"replicas\": %lld, \"scheduler\": \"%s\", "
          "\"kv_block_tokens\": %lld, \"prefix_cache\": %s,\n",
          (long long)w->replicas, w->is_static ? "static" : "vllm-v1", (long long)w->block_tokens,
          yes(w->prefix_cache && !w->is_static));
  if (!w->linear)
    fprintf(f, "\"hardware\": \"%s\", \"tensor_parallel\": %lld, ", w->hardware,
            (long long)w->tensor_parallel);
  if (w->kv_blocks >= 0) fprintf(f, "\"kv_blocks\": %lld, ", (long long)w->kv_blocks);
  if (w->max_model_len) fprintf(f, "\"max_model_len\": %lld, ", (long long)w->max_model_len);
  if (w->eviction) fprintf(f, "\"cache_eviction\": \"%s\", ", w->eviction);
  if (w->initial_cache) fprintf(f, "\"initial_cache\": \"%s\", ", w->initial_cache);
  fputs("\"scheduler_options\": {", f);
  world_write_policy(w, f);
  fprintf(f, "}}],\n\"router\": {\"policy\": \"%s\"},\n",
          w->least_outstanding ? "least-outstanding" : "round-robin");
  if (w->linear)
    fprintf(f,
            "\"cost\": {\"model\": \"linear\", \"step\": \"%lld ns\", \"prefill_token\": \"%lld "
            "ns\", \"decode_sequence\": \"%lld ns\"},\n",
            (long long)w->step_ns, (long long)w->prefill_ns, (long long)w->decode_ns);
  else
    fprintf(f, "\"cost\": \"%s\",\n", w->tier);
  if (w->tiers) fprintf(f, "\"tiers\": [%s],\n", w->tiers);
  if (trace) {
    fprintf(f, "\"workload\": {%s\"trace\": \"%s\"}}\n", w->client, trace);
  } else {
    fprintf(f, "\"workload\": {%s\"requests\": [\n", w->client);
    for (int i = 0; i < w->n; i++) {
      world_write_request(w, i, f);
      fputs(i + 1 < w->n ? ",\n" : "\n", f);
    }
    fputs("]}}\n", f);
  }
  if (fclose(f)) bail("cannot write %s", path);
}
static inline void world_write(const world *w, const char *path) {
  world_write_with(w, path, NULL);
}

#endif
