// SPDX-License-Identifier: GPL-3.0-or-later
/* The program against tests/naive/naive_policies.c: the same iterations and the same token times
 * under orca, sarathi, vllm-v0 and triton-dynamic, on tiny random scenarios with linear cost and KV
 * of 4 to 40 blocks. The scenario of a difference is kept as <seed>.yaml. */
#include "outputs.h"

static const char *naive(void) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/naive_policies", setting("BUILD", "build/release"));
  return path;
}

typedef struct tiny {
  FILE *f;
  uint64_t s;
  i64 kv_blocks, block_tokens, most, keep, grain;
  const char *policy;
} tiny;

static void option(tiny *t, const char *name, i64 value) {
  fprintf(t->f, ", \"%s\": %lld", name, (long long)value);
}

/* Options; t->most becomes the most KV tokens of one request, t->keep the watermark. */
static void write_options(tiny *t) {
  uint64_t *s = &t->s;
  i64 pool = t->kv_blocks * t->block_tokens;
  t->most = pool;
  if (!strcmp(t->policy, "orca")) {
    fprintf(t->f, "\"max_batch_size\": %lld", (long long)between(s, 1, 10));
    i64 slots = chance(s, 50) ? between(s, 4, pool) : 0;
    if (slots) option(t, "kv_slots", slots), t->most = slots;
  } else if (!strcmp(t->policy, "triton-dynamic")) {
    i64 max = between(s, 1, 8);
    fprintf(t->f, "\"max_batch_size\": %lld, \"max_queue_delay\": \"%lld ns\"", (long long)max,
            chance(s, 30) ? 0LL : (long long)(between(s, 1, 60) * t->grain));
    if (chance(s, 60))
      fprintf(t->f, ", \"preferred_batch_sizes\": [%lld, %lld]", (long long)between(s, 1, max),
              (long long)between(s, 1, max));
    fprintf(t->f, ", \"hold_finished_slots\": %s, \"emit\": \"%s\"",
            chance(s, 50) ? "true" : "false", chance(s, 50) ? "stream" : "batch-end");
  } else {
    bool v0 = !strcmp(t->policy, "vllm-v0"), chunked = !v0 || chance(s, 40);
    t->keep = chance(s, 60) ? 0 : between(s, 0, 2);
    fprintf(t->f, "\"max_num_seqs\": %lld", (long long)between(s, 1, 12));
    if (chance(s, 50)) option(t, "watermark_blocks", t->keep);
    else t->keep = t->kv_blocks / 100;
    i64 budget = chance(s, 50) ? between(s, 1, 24) : between(s, 8, 300);
    if (v0) {
      if (!chunked && budget < t->most) budget = t->most;
      fprintf(t->f, ", \"enable_chunked_prefill\": %s", chunked ? "true" : "false");
      if (chance(s, 50)) {
        fprintf(t->f, ", \"preemption_mode\": \"swap\", \"swap_time_per_block\": \"%lld ns\"",
                (long long)(between(s, 0, 3) * t->grain));
        if (chance(s, 10)) option(t, "cpu_blocks", between(s, 1, 40));
      }
      if (!chunked && chance(s, 25)) fprintf(t->f, ", \"delay_factor\": %.1f", uniform(s) * 2);
    }
    option(t, v0 ? "max_num_batched_tokens" : "chunk_size", budget);
    t->most = (t->kv_blocks - (t->keep > 0 || !v0 || !chunked ? t->keep : 1)) * t->block_tokens;
  }
}

static void write_requests(tiny *t) {
  uint64_t *s = &t->s;
  int n = (int)(chance(s, 10) ? between(s, 1, 3) : between(s, 3, 32));
  i64 now = 0, most = t->most < 200 ? t->most : 200, gap = between(s, 0, 30);
  for (int i = 0; i < n; i++) {
    i64 p, o, cap;
    do {
      p = chance(s, 15) ? 1 : between(s, 1, chance(s, 60) ? 16 : 120);
      o = chance(s, 15) ? 1 : between(s, 1, chance(s, 60) ? 12 : 60);
      cap = o + (chance(s, 30) ? between(s, 0, 12) : 0);
    } while (p + cap > most && p + o > 2);
    if (p + cap > most) p = o = cap = 1;
    if (i && !chance(s, 30)) now += between(s, 0, gap) * t->grain;
    fprintf(t->f,
            "%s{\"id\": \"q%d\", \"arrival_ns\": %lld, \"input_tokens\": %lld, \"output_tokens\": "
            "%lld, \"max_tokens\": %lld}",
            i ? ",\n" : "", i, (long long)now, (long long)p, (long long)o, (long long)cap);
  }
}

static void write_tiny(uint64_t seed, const char *policy, const char *path) {
  tiny t = {.f = fopen(path, "w"), .s = seed * 7919 + 4711, .policy = policy};
  if (!t.f) bail("cannot write %s", path);
  uint64_t *s = &t.s;
  t.kv_blocks = between(s, 4, 40);
  t.block_tokens = between(s, 1, 16);
  t.grain = chance(s, 50) ? 1000000 : 1000003;
  fprintf(t.f,
          "{\"scenario\": 1, \"pools\": [{\"scheduler\": \"%s\", \"replicas\": %lld, "
          "\"kv_blocks\": %lld, \"kv_block_tokens\": %lld, \"prefix_cache\": false, "
          "\"scheduler_options\": {",
          policy, (long long)(chance(s, 70) ? 1 : between(s, 2, 3)), (long long)t.kv_blocks,
          (long long)t.block_tokens);
  write_options(&t);
  fprintf(t.f,
          "}}], \"router\": {\"policy\": \"round-robin\"},\n\"cost\": {\"model\": \"linear\", "
          "\"step\": \"%lld ns\", \"prefill_token\": \"%lld ns\", \"decode_sequence\": \"%lld "
          "ns\"},\n\"workload\": {\"requests\": [\n",
          (long long)(between(s, 1, 10) * t.grain), (long long)(between(s, 0, 1) * t.grain),
          (long long)(between(s, 0, 2) * t.grain));
  write_requests(&t);
  fputs("\n]}}\n", t.f);
  if (fclose(t.f)) bail("cannot write %s", path);
}

static bool same_line(const char *what, size_t i, const text *a, const text *b) {
  if (!strcmp(a->s, b->s)) return true;
  note("%s %zu", what, i);
  note("  program: %.300s", a->s);
  note("  naive:   %.300s", b->s);
  return false;
}

static bool same(const char *what, const json_t *program_lines, const json_t *naive_lines,
                 bool requests) {
  size_t n = json_array_size(program_lines), m = json_array_size(naive_lines);
  text a = {0}, b = {0};
  bool good = true;
  for (size_t i = 0; good && (i < n || i < m); i++) {
    a.n = b.n = 0;
    put(&a, "%s", ""), put(&b, "%s", "");
    const json_t *x = json_array_get(program_lines, i), *y = json_array_get(naive_lines, i);
    if (x && requests) put_program_request(&a, x);
    if (x && !requests) put_step(&a, x, true);
    if (y && requests) put_naive_request(&b, y);
    if (y && !requests) put_step(&b, y, true);
    good = same_line(what, i, &a, &b);
  }
  free(a.s), free(b.s);
  return good;
}

typedef struct tally {
  i64 iterations, preemptions, stuck;
} tally;

static bool agree(uint64_t seed, const char *policy, tally *all) {
  write_tiny(seed, policy, at("s.yaml"));
  int expected = RUN(naive(), at("s.yaml"), "--steps", at("naive-steps.jsonl"), "--requests",
                     at("naive-requests.jsonl"));
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--steps", at("steps.jsonl"),
               "--requests", at("requests.jsonl"));
  if (expected == 5 && rc == 3) { /* both say that somebody waits for ever */
    all->stuck++;
    return true;
  }
  if (expected || rc) {
    note("exit status %d, naive %d", rc, expected);
    say_stderr();
    return false;
  }
  json_t *s = load_lines(at("steps.jsonl")), *ns = load_lines(at("naive-steps.jsonl"));
  json_t *r = load_lines(at("requests.jsonl")), *nr = load_lines(at("naive-requests.jsonl"));
  bool good = s && ns && r && nr && same("iteration", s, ns, false) && same("request", r, nr, true);
  all->iterations += (i64)json_array_size(ns);
  for (size_t i = 0; i < json_array_size(nr); i++)
    all->preemptions += get_int(json_array_get(nr, i), "preemptions");
  json_decref(s), json_decref(ns), json_decref(r), json_decref(nr);
  return good;
}

int main(int argc, char **argv) {
  static const char *const policies[] = {"orca", "sarathi", "vllm-v0", "triton-dynamic"};
  harness_begin("policies");
  if (access(naive(), X_OK)) bail("no naive simulator at %s", naive());
  for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
    if (argc > 1 && strcmp(argv[1], policies[p])) continue;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int n = argc > 3 ? atoi(argv[3]) : argc > 2 ? 1 : rounds(80), bad = 0;
    tally all = {0};
    for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
      if (agree(seed, policies[p], &all)) continue;
      note("seed %llu of %s", (unsigned long long)seed, policies[p]);
      char name[64];
      snprintf(name, sizeof name, "%s-%llu.yaml", policies[p], (unsigned long long)seed);
      keep(at("s.yaml"), name);
      bad++;
    }
    tap(bad == 0,
        "%s: %d of %d random scenarios agree with the naive simulator step by step (%lld "
        "iterations, %lld preemptions; in %lld both say who starves)",
        policies[p], n - bad, n, (long long)all.iterations, (long long)all.preemptions,
        (long long)all.stuck);
  }
  return tap_end();
}
