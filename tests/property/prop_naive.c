// SPDX-License-Identifier: GPL-3.0-or-later
/* vllm-v1 and static against the naive simulator of tests/naive: the same iterations and the same
 * token times, on thousands of random scenarios with linear cost, half of them with KV of 4 to 40
 * blocks; the first of them, and those that read a trace, through the command line. The scenario of
 * a difference is kept as <seed>.yaml. */
#include "../naive/naive_library.h"
#include "inside.h"
#include "worlds.h"

static const char *naive(void) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/naive", setting("BUILD", "build/release"));
  return setting("NAIVE", path);
}

/* Compare line by line; the first difference is printed. */
static bool alike(uint64_t seed, const char *what, const json_t *program_lines,
                  const json_t *naive_lines, void (*program_text)(text *, const json_t *),
                  void (*naive_text)(text *, const json_t *)) {
  size_t n = json_array_size(program_lines), m = json_array_size(naive_lines);
  text a = {0}, b = {0};
  bool same = true;
  for (size_t i = 0; same && (i < n || i < m); i++) {
    a.n = b.n = 0;
    if (i < n)
      program_text(&a, json_array_get(program_lines, i));
    else
      put(&a, "nothing");
    if (i < m)
      naive_text(&b, json_array_get(naive_lines, i));
    else
      put(&b, "nothing");
    if (strcmp(a.s, b.s)) {
      note("seed %llu, %s %zu of %zu", (unsigned long long)seed, what, i, m);
      note("  program: %.400s", a.s);
      note("  naive:   %.400s", b.s);
      same = false;
    }
  }
  free(a.s), free(b.s);
  return same;
}

/* Both write the lines of --steps in the same form, so that the bytes are alike as well. */
static bool same_bytes(const char *a, const char *b) {
  size_t n = 0, m = 0;
  char *x = slurp(a, &n), *y = slurp(b, &m);
  bool same = x && y && n == m && !memcmp(x, y, n);
  free(x), free(y);
  return same;
}

static void step_text(text *t, const json_t *step) { put_step(t, step, true); }

typedef struct tally {
  i64 iterations, preemptions, with_preemptions, of_v1;
} tally;

/* In this process. */
static bool agree_inside(uint64_t seed, tally *all) {
  static text steps, requests;
  char why[2][300] = {"", ""}, *naive_steps = NULL, *naive_requests = NULL;
  world w;
  world_make(&w, seed, WORLD_LINEAR);
  world_write_with(&w, at("s.yaml"), NULL);
  char *scenario = slurp(at("s.yaml"), NULL);
  int expected = inside_naive(naive_run, scenario, &naive_steps, &naive_requests, why[0], sizeof why[0]);
  int rc = inside_run(scenario, &steps, &requests, why[1], sizeof why[1]);
  bool good = rc == 0 && expected == 0;
  if (!good) note("seed %llu: status %d (%s), naive %d (%s)", (unsigned long long)seed, rc, why[1], expected, why[0]);
  good = good && inside_same("iteration", steps.s, naive_steps) && inside_same("request", requests.s, naive_requests);
  i64 preemptions = inside_preemptions(naive_requests);
  all->iterations += inside_count(naive_steps, "\n");
  all->preemptions += preemptions;
  all->with_preemptions += preemptions > 0;
  all->of_v1 += !w.is_static;
  free(scenario), free(naive_steps), free(naive_requests);
  return good;
}

/* Every tenth scenario takes its requests from a trace, in one of three forms. */
static void write_inputs(uint64_t seed) {
  static const char *const names[] = {"trace.jsonl", "trace-2023.csv", "trace-2024.csv"};
  world w;
  world_make(&w, seed, WORLD_LINEAR);
  int form = seed % 10 ? -1 : (int)(seed / 10 % 3);
  if (form >= 0) world_write_trace(&w, (world_form)form, at("%s", names[form]));
  world_write_with(&w, at("s.yaml"), form < 0 ? NULL : names[form]);
}

static i64 lines_in(const char *path) {
  char *s = slurp(path, NULL);
  i64 n = 0;
  for (const char *c = s; c && *c; c++) n += *c == '\n';
  free(s);
  return n;
}

/* Run both on s.yaml and compare. */
static bool agree(uint64_t seed, i64 *iterations, i64 *preemptions) {
  const char *steps = at("steps.jsonl"), *naive_steps = at("naive-steps.jsonl");
  const char *requests = at("requests.jsonl"), *naive_requests = at("naive-requests.jsonl");
  remove(steps), remove(requests), remove(naive_steps), remove(naive_requests);
  if (RUN(naive(), at("s.yaml"), "--steps", naive_steps, "--requests", naive_requests)) {
    note("seed %llu: the naive simulator refuses", (unsigned long long)seed);
    say_stderr();
    return false;
  }
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--steps", steps, "--requests", requests);
  if (rc) {
    note("seed %llu: exit status %d", (unsigned long long)seed, rc);
    say_stderr();
    return false;
  }
  bool same = true;
  if (!same_bytes(steps, naive_steps)) { /* say where */
    json_t *s = load_lines(steps), *ns = load_lines(naive_steps);
    same = s && ns && alike(seed, "iteration", s, ns, step_text, step_text);
    json_decref(s), json_decref(ns);
  }
  json_t *r = load_lines(requests), *nr = load_lines(naive_requests);
  same = same && r && nr && alike(seed, "request", r, nr, put_program_request, put_naive_request);
  *iterations += lines_in(naive_steps);
  for (size_t i = 0; i < json_array_size(nr); i++)
    *preemptions += get_int(json_array_get(nr, i), "preemptions");
  json_decref(r), json_decref(nr);
  return same;
}

/* The sample of chat traffic in traces/, starved of KV, with room, and in static batches. */
static void sample_trace(void) {
  static const char *const pools[] = {
      "\"scheduler\": \"vllm-v1\", \"replicas\": 1, \"kv_blocks\": 900, \"prefix_cache\": true, "
      "\"scheduler_options\": {\"max_num_seqs\": 256, \"max_num_batched_tokens\": 512, "
      "\"full_sequence_must_fit\": false}",
      "\"scheduler\": \"vllm-v1\", \"replicas\": 3, \"kv_blocks\": 4000, \"prefix_cache\": false, "
      "\"scheduler_options\": {\"max_num_seqs\": 48, \"max_num_batched_tokens\": 2048}",
      "\"scheduler\": \"static\", \"replicas\": 4, \"kv_blocks\": 1900, \"scheduler_options\": "
      "{\"max_batch_size\": 16, \"hold_finished_slots\": false, \"max_queue_delay\": \"200 ms\", "
      "\"preferred_batch_sizes\": [4, 8]}"};
  const char *trace = "traces/azure-conv-sample.csv";
  char here[2048];
  if (access(trace, R_OK) || !getcwd(here, sizeof here)) {
    tap_skip("the sample of chat traffic", "run from the top of the tree");
    return;
  }
  for (size_t i = 0; i < (few() ? 1 : sizeof pools / sizeof pools[0]); i++) {
    FILE *f = fopen(at("s.yaml"), "w");
    if (!f) bail("cannot write in %s", work_dir);
    fprintf(f,
            "{\"scenario\": 1, \"pools\": [{\"name\": \"main\", \"kv_block_tokens\": 16, %s}],\n"
            "\"router\": {\"policy\": \"least-outstanding\"},\n\"cost\": {\"model\": \"linear\", "
            "\"step\": \"12 ms\", \"prefill_token\": \"50 us\", \"decode_sequence\": \"0.2 ms\"},\n"
            "\"workload\": {\"trace\": \"%s/%s\"}}\n",
            pools[i], here, trace);
    fclose(f);
    i64 iterations = 0, preemptions = 0;
    bool same = agree(0, &iterations, &preemptions);
    tap(same && iterations > 10000,
        "the sample of chat traffic, pool %zu: %lld iterations and %lld preemptions alike", i + 1,
        (long long)iterations, (long long)preemptions);
  }
}

static void keep_seed(uint64_t seed) {
  char name[32];
  snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed);
  keep(at("s.yaml"), name);
}

int main(int argc, char **argv) {
  world_begin("naive");
  if (access(naive(), X_OK)) bail("no naive simulator at %s", naive());
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(4000), bad = 0, out = n < rounds(60) ? n : rounds(60);
  i64 iterations = 0, preemptions = 0;
  tally all = {0};
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    if (agree_inside(seed, &all)) continue;
    note("seed %llu", (unsigned long long)seed);
    bad++;
    keep_seed(seed);
  }
  tap(bad == 0, "%d of %d random scenarios go step by step as the naive simulator has them", n - bad, n);
  if (argc < 2)
    tap(all.iterations > 20 * n && 8 * all.with_preemptions > all.of_v1,
        "they hold %lld iterations; %lld are of vllm-v1, and %lld of these hold %lld preemptions", (long long)all.iterations,
        (long long)all.of_v1, (long long)all.with_preemptions, (long long)all.preemptions);
  bad = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)out; seed++) {
    write_inputs(seed);
    if (agree(seed, &iterations, &preemptions)) continue;
    bad++;
    keep_seed(seed);
  }
  tap(bad == 0, "%d of %d through the command line and from traces, too", out - bad, out);
  if (argc < 2) sample_trace();
  return tap_end();
}
