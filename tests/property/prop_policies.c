// SPDX-License-Identifier: GPL-3.0-or-later
/* The simulation against tests/naive/naive_policies.c: the same iterations and the same token times
 * under orca, sarathi, vllm-v0 and triton-dynamic, on thousands of tiny random scenarios with linear
 * cost and KV of 4 to 40 blocks, and a few of them as the command line writes them. The scenario of
 * a difference is kept as <policy>-<seed>.yaml. */
#include "../naive/naive_library.h"
#include "inside.h"

typedef struct tiny {
  FILE *f;
  i64 max_model_len;
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
    static const char *const kinds[] = {"cap", "max-model-len", "pow2", "oracle"};
    i64 kind = chance(s, 40) ? 0 : between(s, 1, 3);
    fprintf(t->f, ", \"reservation\": \"%s\"", kinds[kind]);
    if (kind == 2) t->most = (t->most + 1) / 2; /* room for rounding up */
    if (kind == 1) t->most = t->max_model_len = between(s, 4 < t->most ? 4 : t->most, t->most);
  } else if (!strcmp(t->policy, "triton-dynamic")) {
    i64 max = between(s, 1, 8);
    fprintf(t->f, "\"max_batch_size\": %lld, \"max_queue_delay\": \"%lld ns\"", (long long)max,
            chance(s, 30) ? 0LL : (long long)(between(s, 1, 60) * t->grain));
    if (chance(s, 60))
      fprintf(t->f, ", \"preferred_batch_sizes\": [%lld, %lld]", (long long)between(s, 1, max),
              (long long)between(s, 1, max));
    fprintf(t->f, ", \"hold_finished_slots\": %s, \"emit\": \"%s\"",
            chance(s, 50) ? "true" : "false", chance(s, 50) ? "stream" : "batch-end");
    if (chance(s, 50)) {
      i64 levels = between(s, 1, 4);
      option(t, "priority_levels", levels);
      option(t, "default_priority_level", between(s, 1, levels));
    }
    if (chance(s, 50))
      fprintf(t->f, ", \"default_timeout\": \"%lld ns\"%s%s", (long long)(between(s, 1, 60) * t->grain),
              chance(s, 60) ? ", \"timeout_action\": \"reject\"" : "", chance(s, 40) ? ", \"reject_while_busy\": false" : "");
    if (chance(s, 50)) fprintf(t->f, ", \"preferred_without_delay\": true");
    if (chance(s, 40)) option(t, "max_queue_size", between(s, 1, 6));
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
    if (v0 && chunked && budget > 1 && chance(s, 60)) {
      i64 partials = between(s, 2, budget < 5 ? budget : 5);
      option(t, "max_num_partial_prefills", partials);
      option(t, "max_long_partial_prefills", between(s, 1, partials));
      if (chance(s, 70)) option(t, "long_prefill_token_threshold", between(s, 1, 60));
      else t->max_model_len = 400;
    }
    if (!v0 && chance(s, 50)) {
      i64 low = chance(s, 50) ? 32 * between(s, 1, 2) : between(s, 1, 40), stages = between(s, 1, 6);
      fprintf(t->f, ", \"enable_dynamic_chunking_schedule\": true");
      option(t, "low_chunk_size", low);
      option(t, "high_chunk_size", low + between(s, 0, 120));
      option(t, "chunk_schedule_stages", stages);
      option(t, "chunk_schedule_max_tokens", 260 / (chance(s, 50) ? 1 : stages) * stages + stages);
    }
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
            "%lld, \"max_tokens\": %lld, \"priority\": %lld}",
            i ? ",\n" : "", i, (long long)now, (long long)p, (long long)o, (long long)cap,
            (long long)between(s, -1, 5));
  }
}

/* The text of a scenario; the caller frees it. */
static char *write_tiny(uint64_t seed, const char *policy) {
  char *scenario = NULL;
  size_t n;
  tiny t = {.f = open_memstream(&scenario, &n), .s = seed * 7919 + 4711, .policy = policy};
  if (!t.f) bail("out of memory");
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
  fputc('}', t.f);
  if (t.max_model_len) fprintf(t.f, ", \"max_model_len\": %lld", (long long)t.max_model_len);
  fprintf(t.f,
          "}], \"router\": {\"policy\": \"round-robin\"},\n\"cost\": {\"model\": \"linear\", "
          "\"step\": \"%lld ns\", \"prefill_token\": \"%lld ns\", \"decode_sequence\": \"%lld "
          "ns\"},\n\"workload\": {\"requests\": [\n",
          (long long)(between(s, 1, 10) * t.grain), (long long)(between(s, 0, 1) * t.grain),
          (long long)(between(s, 0, 2) * t.grain));
  write_requests(&t);
  fputs("\n]}}\n", t.f);
  fclose(t.f);
  return scenario;
}

typedef struct tally {
  i64 iterations, preemptions, with_preemptions, stuck, turned_away;
} tally;

static bool agree(const char *scenario, tally *all) {
  static text steps, requests;
  char why[2][300] = {"", ""}, *naive_steps = NULL, *naive_requests = NULL;
  int expected = inside_naive(naive_policies_run, scenario, &naive_steps, &naive_requests, why[0], sizeof why[0]);
  int rc = inside_run(scenario, &steps, &requests, why[1], sizeof why[1]);
  bool good = rc == expected && (rc == 0 || rc == 5); /* 5: both say that somebody waits for ever */
  if (!good) note("status %d (%s), naive %d (%s)", rc, why[1], expected, why[0]);
  if (good && rc == 5) all->stuck++;
  if (good && rc == 0)
    good = inside_same("iteration", steps.s, naive_steps) && inside_same("request", requests.s, naive_requests);
  i64 preemptions = inside_preemptions(naive_requests);
  all->iterations += inside_count(naive_steps, "\n");
  all->preemptions += preemptions;
  all->with_preemptions += preemptions > 0;
  all->turned_away += inside_count(naive_requests, "turned_away");
  free(naive_steps), free(naive_requests);
  return good;
}

/* As the command line writes it. */
static bool agree_outside(const char *scenario) {
  static text steps, requests;
  char why[300];
  FILE *f = fopen(at("s.yaml"), "w");
  if (!f || fputs(scenario, f) < 0 || fclose(f)) bail("cannot write in %s", work_dir);
  int inside = inside_run(scenario, &steps, &requests, why, sizeof why);
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--steps", at("steps.jsonl"), "--requests", at("requests.jsonl"));
  if (inside == 5 && rc == 3) return true;
  if (inside || rc) {
    note("exit status %d, inside %d", rc, inside);
    return false;
  }
  char *s = slurp(at("steps.jsonl"), NULL);
  bool good = s && inside_same("iteration", s, steps.s);
  json_t *r = load_lines(at("requests.jsonl"));
  text a = {0}, b = {0};
  put(&b, "%s", ""), put(&a, "%s", "");
  size_t i = 0;
  for (char *line = requests.s; good && *line; i++) {
    size_t k = strcspn(line, "\n");
    json_t *q = json_loadb(line, k, 0, NULL);
    a.n = b.n = 0;
    put_program_request(&a, json_array_get(r, i));
    put_naive_request(&b, q);
    json_decref(q);
    if (strcmp(a.s, b.s)) note("request %zu: %.200s, inside %.200s", i, a.s, b.s), good = false;
    line += k + 1;
  }
  free(s), free(a.s), free(b.s);
  json_decref(r);
  return good;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int rounds, preempts; /* one case in so many at least; 0: KV cannot run out */
  } policy[] = {{"orca", 2000, 0}, {"sarathi", 2500, 4}, {"vllm-v0", 3000, 4}, {"triton-dynamic", 1000, 0}};
  harness_begin("policies");
  for (size_t p = 0; p < sizeof policy / sizeof policy[0]; p++) {
    if (argc > 1 && strcmp(argv[1], policy[p].name)) continue;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int n = argc > 3 ? atoi(argv[3]) : argc > 2 ? 1 : rounds(policy[p].rounds), bad = 0, outside = 0, n_outside = n > 12 ? 12 : n;
    tally all = {0};
    for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
      char *scenario = write_tiny(seed, policy[p].name), name[64];
      bool good = agree(scenario, &all), too = seed - first >= (uint64_t)n_outside || agree_outside(scenario);
      outside += too && seed - first < (uint64_t)n_outside;
      bad += !good;
      if (!good || !too) {
        note("seed %llu of %s", (unsigned long long)seed, policy[p].name);
        snprintf(name, sizeof name, "%s-%llu.yaml", policy[p].name, (unsigned long long)seed);
        FILE *f = fopen(at("s.yaml"), "w");
        if (f) fputs(scenario, f), fclose(f);
        keep(at("s.yaml"), name);
      }
      free(scenario);
    }
    tap(bad == 0,
        "%s: %d of %d random scenarios go step by step as the naive simulator has them (%lld iterations; in %lld both "
        "say who starves)",
        policy[p].name, n - bad, n, (long long)all.iterations, (long long)all.stuck);
    tap(outside == n_outside, "%s: %d of %d of them through the command line, too", policy[p].name, outside, n_outside);
    if (!strcmp(policy[p].name, "triton-dynamic"))
      tap(argc > 1 || all.turned_away >= n, "%s: %lld requests turned away", policy[p].name, (long long)all.turned_away);
    if (policy[p].preempts > 0)
      tap(argc > 1 || policy[p].preempts * all.with_preemptions >= n, "%s: %lld preemptions, in %lld of them",
          policy[p].name, (long long)all.preemptions, (long long)all.with_preemptions);
  }
  return tap_end();
}
