// SPDX-License-Identifier: GPL-3.0-or-later
/* The short cuts of the simulation change no byte of --json and --requests, on random scenarios:
 * many iterations at once (leases) against one at a time, and replicas advanced only when someone
 * looks against all of them in order of time (which --steps needs for its log). The scenario of a
 * difference is kept as <seed>.yaml. */
#include "worlds.h"

typedef enum mode { USUAL, NO_LEASE, STEPS, N_MODES } mode;
static const char *const names[N_MODES] = {"usual", "no-lease", "steps"};

static int once(mode m, bool jsonl) {
  const char *json = at("%s.json", names[m]),
             *requests = at("%s.%s", names[m], jsonl ? "jsonl" : "csv");
  remove(json), remove(requests);
  const char *argv[] = {program(),    "run",    at("s.yaml"), "--quiet", "--json", json,
                        "--requests", requests, NULL,         NULL,      NULL};
  if (m == NO_LEASE) argv[8] = "--no-lease";
  if (m == STEPS) argv[8] = "--steps", argv[9] = at("log.jsonl");
  return run(argv);
}

static bool runs(uint64_t seed, mode m, bool jsonl) {
  int rc = once(m, jsonl);
  if (rc) {
    note("seed %llu: exit status %d (%s)", (unsigned long long)seed, rc, names[m]);
    say_stderr();
  }
  return rc == 0;
}

static bool same_outputs(uint64_t seed, mode m, bool jsonl) {
  if (!runs(seed, m, jsonl)) return false;
  const char *ext = jsonl ? "jsonl" : "csv";
  int line = differ(at("usual.%s", ext), at("%s.%s", names[m], ext));
  if (!line) line = differ(at("usual.json"), at("%s.json", names[m]));
  if (line) note("seed %llu: --%s gives other bytes", (unsigned long long)seed, names[m]);
  return !line;
}

/* A model whose windows start anew every 24 tokens, and one that sees 24 tokens back. */
static void write_card(const char *name, bool chunked) {
  FILE *f = fopen(at("%s.yaml", name), "w");
  fprintf(f,
          "model: 1\nname: %s\nsources: {A: a model of this test}\ndimensions:\n  {layers: 8, "
          "hidden: 2048, heads: 16, kv_heads: 4, head_dim: 128, ffn: 8192, mlp_matrices: 3, vocab: "
          "32000,\n   window: 24, full_layers: 2, chunked: %s}\nweights: bf16\n",
          name, chunked ? "true" : "false");
  fclose(f);
}

/* Every other priced world has layers that read a part of the context, or latent ones. */
static void other_model(world *w, uint64_t seed) {
  static const char *const models[] = {"./chunked.yaml", "gpt-oss-20b", "./sliding.yaml",
                                       "deepseek-v2-lite"};
  if (w->linear || seed % 2) return;
  w->model = models[seed / 2 % 4];
}

/* In every third world clients give up, and half of those ask again. */
static void impatient(char *client, size_t room, uint64_t seed) {
  uint64_t stream = seed * 31 + 7, *s = &stream;
  if (seed % 3 != 0) return;
  int n = snprintf(client, room, "client: {timeout: %lld ms", (long long)(between(s, 1, 9) << between(s, 0, 9)) + 20);
  if (chance(s, 30)) n += snprintf(client + n, room - (size_t)n, ", rtt: %lld ms", (long long)between(s, 1, 20));
  if (chance(s, 50))
    n += snprintf(client + n, room - (size_t)n, ", retries: %lld, backoff: %lld ms, backoff_factor: 2, jitter: 0.25",
                  (long long)between(s, 1, 3), (long long)between(s, 0, 300));
  snprintf(client + n, room - (size_t)n, "}, ");
}

/* A closed loop of like requests on several replicas: many iterations end, and arrivals come, at
 * one instant, and where an arrival goes depends on who has finished by then. */
static void write_closed(uint64_t *s, const char *path) {
  static const char *const schedulers[] = {"fcfs-no-batch", "static",  "triton-dynamic", "orca",
                                           "vllm-v0",       "vllm-v1", "sarathi",        "sglang",
                                           "trtllm",        "tgi",     "vtc-fair",       "edf"};
  static const char *const loops[] = {"process: closed-loop, concurrency: 7",
                                      "process: closed-loop, concurrency: 24",
                                      "process: closed-loop, concurrency: 5, think: 11 ms",
                                      "process: users, users: 9, every: 1 s, gaps: constant"};
  char client[160] = "";
  impatient(client, sizeof client, *s);
  const char *scheduler = schedulers[between(s, 0, 11)];
  char options[160] = "";
  if (!strcmp(scheduler, "triton-dynamic") && *s % 3 != 0)
    snprintf(options, sizeof options, ", scheduler_options: {max_queue_size: %lld%s}", (long long)between(s, 0, 8),
             *s % 2 ? "" : ", timeout_action: reject, default_timeout: 60 ms");
  FILE *f = fopen(path, "w");
  if (!f) bail("cannot write %s", path);
  fprintf(f,
          "scenario: 1\npools: [{name: main, scheduler: %s%s, replicas: %lld, kv_blocks: %lld, "
          "kv_block_tokens: 16}]\n",
          scheduler, options, (long long)between(s, 2, 4), (long long)between(s, 14, 80));
  fprintf(f, "router: {policy: %s}\n", chance(s, 70) ? "least-outstanding" : "round-robin");
  fprintf(f,
          "cost: {model: linear, step: %lld ms, prefill_token: 0.1 ms, decode_sequence: %lld ms}\n",
          (long long)between(s, 1, 10), (long long)between(s, 0, 1));
  fprintf(f,
          "workload: {%sgenerate: {requests: 80, arrivals: {%s},\n    input_tokens: %lld, "
          "output_tokens: {law: uniform, min: %lld, max: 33}}}\n", client,
          loops[between(s, 0, 3)], (long long)between(s, 1, 160), (long long)between(s, 30, 33));
  if (fclose(f)) bail("cannot write %s", path);
}

enum { FIRST_CLOSED = 200001 };

static int closed_loops(int rounds_of) {
  int bad = 0;
  for (uint64_t seed = FIRST_CLOSED; seed < FIRST_CLOSED + (uint64_t)rounds_of; seed++) {
    uint64_t s = seed;
    write_closed(&s, at("s.yaml"));
    bool good = runs(seed, USUAL, false) && same_outputs(seed, NO_LEASE, false);
    char name[32];
    snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed);
    if (!good) bad++, keep(at("s.yaml"), name);
  }
  return bad;
}

int main(int argc, char **argv) {
  world_begin("lease");
  write_card("chunked", true);
  write_card("sliding", false);
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 100001;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(500), bad[N_MODES] = {0};
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    world w;
    world_make(&w, seed, WORLD_ANY);
    other_model(&w, seed);
    world_caches(&w, seed);
    impatient(w.client, sizeof w.client, seed);
    world_write(&w, at("s.yaml"));
    bool jsonl = seed % 2, good = runs(seed, USUAL, jsonl);
    bad[USUAL] += !good;
    for (mode m = NO_LEASE; good && m < N_MODES; m++)
      if (!same_outputs(seed, m, jsonl)) bad[m]++, good = false;
    char name[32];
    snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed);
    if (!good) keep(at("s.yaml"), name);
  }
  tap(bad[USUAL] == 0, "%d of %d random scenarios run", n - bad[USUAL], n);
  tap(bad[NO_LEASE] == 0, "%d of %d give the same bytes one iteration at a time", n - bad[NO_LEASE],
      n);
  tap(bad[STEPS] == 0, "%d of %d give the same bytes with every iteration in order of time",
      n - bad[STEPS], n);
  if (argc <= 1) {
    int loops = rounds(200), differ_in = closed_loops(loops);
    tap(differ_in == 0, "%d of %d closed loops give the same bytes one iteration at a time",
        loops - differ_in, loops);
  }
  return tap_end();
}
