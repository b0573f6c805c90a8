// SPDX-License-Identifier: GPL-3.0-or-later
/* How fast the simulation is where the KV cache is at work, as ratios to the same requests without it, measured in one
 * run: conversations of several turns that share prefixes (16-token blocks, some 130 blocks a request), and a pool so
 * small that more than three million strangers are preempted half a million times: at the edge of what it can serve,
 * where a queue forms and goes again, and beyond it, where a queue of hundreds of thousands outgrows every cache.
 *   bench_kv [REQUESTS [COPIES_OF_THE_MEASUREMENT]] */
#include "azure_conv.h"
#include "io/scenario.h"
#include "study/driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct outcome {
  double s;
  ds_cache_totals cache;
  uint64_t iterations, tokens, preemptions, blocks;
} outcome;

static bool simulate(const char *text, const ds_request *r, size_t n, outcome *best) {
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  if (!ds_scenario_parse(text, strlen(text), "bench", ".", NULL, 0, &dirs, &sc, &d)) {
    ds_diag_print(&d, stderr);
    return false;
  }
  ds_error err = {0};
  ds_sim *s = NULL;
  ds_sim_options opt = {0};
  double start = cpu_s();
  bool ok = ds_sim_new(&sc.run, sc.sched, sc.route, &opt, &ds_heap, &s, &err) == DS_OK, more = true;
  for (size_t i = 0; ok && i < n; i += 4096) {
    ok = ds_sim_feed(s, r + i, n - i < 4096 ? n - i : 4096, &err) == DS_OK;
    for (more = true; ok && more;) ok = ds_sim_step(s, 1 << 20, &more, &err) == DS_OK;
  }
  if (ok) ds_sim_close(s);
  for (more = true; ok && more;) ok = ds_sim_step(s, 1 << 20, &more, &err) == DS_OK;
  double seconds = cpu_s() - start;
  if (!ok) fprintf(stderr, "bench_kv: %s\n", err.text);
  if (ok && seconds < best->s) {
    const ds_result *res = ds_sim_result(s);
    *best = (outcome){seconds, {0}, res->iterations, res->output_tokens, res->num_preemptions, 0};
    for (size_t k = 0; k < res->n_replicas; k++) {
      best->cache.hit_blocks += res->replicas[k].cache.hit_blocks;
      best->cache.asked_blocks += res->replicas[k].cache.asked_blocks;
      best->cache.blocks.evicted += res->replicas[k].cache.blocks.evicted;
    }
  }
  if (s != NULL) ds_sim_free(s);
  ds_scenario_free(&sc);
  return ok;
}

/* ---- workloads ---- */

static int by_arrival(const void *a, const void *b) {
  const ds_request *x = a, *y = b;
  return x->arrival_ns < y->arrival_ns ? -1 : x->arrival_ns > y->arrival_ns;
}

/* Conversations of ten turns, a minute apart; each prompt holds all that was said before. */
static ds_request *conversations(size_t n, ds_span *span) {
  enum { TURNS = 10 };
  ds_request *r = malloc(n * sizeof *r);
  double t_s = 0;
  for (size_t i = 0; r != NULL && i < n;) {
    ds_rng rng = ds_rng_stream(2, DS_PURPOSE_ARRIVAL, i);
    t_s += ds_draw_exponential(&rng, 5.0);
    uint32_t said = 400;
    double at_s = t_s;
    uint64_t who = i;
    for (int turn = 0; turn < TURNS && i < n; turn++, i++) {
      uint32_t input = said + 100 + (uint32_t)(ds_rng_unit(&rng) * 300), output = 20 + (uint32_t)(ds_rng_unit(&rng) * 220);
      span[i] = (ds_span){who, DS_SPACE_FIRST, input + output};
      r[i] = (ds_request){.arrival_ns = (int64_t)(at_s * 1e9), .input_tokens = input, .output_tokens = output,
                          .max_tokens = output, .spans = &span[i], .n_spans = 1};
      said = input + output;
      at_s += 60 + 30 * ds_rng_unit(&rng);
    }
  }
  if (r != NULL) qsort(r, n, sizeof *r, by_arrival);
  return r;
}

static ds_request *strangers(size_t n, double rate_per_s) {
  ds_request *r = malloc(n * sizeof *r);
  double t_s = 0.0;
  for (size_t i = 0; r != NULL && i < n; i++) {
    ds_rng arrival = ds_rng_stream(1, DS_PURPOSE_ARRIVAL, i), in = ds_rng_stream(1, DS_PURPOSE_INPUT_TOKENS, i),
           out = ds_rng_stream(1, DS_PURPOSE_OUTPUT_TOKENS, i);
    t_s += ds_draw_exponential(&arrival, 1.0 / rate_per_s);
    uint32_t o = azure_conv_tokens(azure_conv_output, ds_rng_unit(&out));
    r[i] = (ds_request){.arrival_ns = (int64_t)(t_s * 1e9), .input_tokens = azure_conv_tokens(azure_conv_input, ds_rng_unit(&in)),
                        .output_tokens = o, .max_tokens = o};
  }
  return r;
}

#define SCENARIO(pool, options)                                                                                                 \
  "scenario: 1\nmodel: llama-3.1-70b\nweights: bf16\nkv_cache: bf16\npools:\n"                                        \
  "  - {name: main, hardware: a100-80-sxm, tensor_parallel: 4, scheduler: vllm-v1, " pool ",\n"                        \
  "     scheduler_options: {max_num_seqs: 256, max_num_batched_tokens: 2048" options "}}\n"                                      \
  "router: {policy: round-robin}\n"                                                                                   \
  "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}\n"

static void line(const char *what, const outcome *o, size_t n) {
  printf("%-27s %10.0f requests per CPU second; %.1f iterations a request, %.1f ns each; %llu preemptions\n", what,
         (double)n / o->s, (double)o->iterations / (double)n, o->s * 1e9 / (double)o->iterations,
         (unsigned long long)o->preemptions);
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000, many = n / 3 * 10;
  int copies = argc > 2 ? atoi(argv[2]) : 3;
  ds_span *span = malloc(n * sizeof *span);
  ds_request *turns = span != NULL ? conversations(n, span) : NULL, *edge = strangers(many, 0.9 * AZURE_CONV_RATE_PER_S),
             *beyond = strangers(3 * n, AZURE_CONV_RATE_PER_S);
  if (turns == NULL || edge == NULL || beyond == NULL) return 1;
  outcome off = {.s = 1e30}, on = {.s = 1e30}, roomy = {.s = 1e30}, starved = {.s = 1e30}, overrun = {.s = 1e30};
  for (int i = 0; i < copies; i++) {
    if (!simulate(SCENARIO("replicas: 1, kv_blocks: 40000, prefix_cache: false", ""), turns, n, &off) ||
        !simulate(SCENARIO("replicas: 1, kv_blocks: 40000, prefix_cache: true", ""), turns, n, &on) ||
        !simulate(SCENARIO("replicas: 4, kv_blocks: 40000, prefix_cache: false", ""), edge, many, &roomy) ||
        !simulate(SCENARIO("replicas: 4, kv_blocks: 1000, prefix_cache: false", ""), edge, many, &starved) ||
        !simulate(SCENARIO("replicas: 4, kv_blocks: 1000, prefix_cache: false", ""), beyond, 3 * n, &overrun))
      return 1;
  }
  double input = 0;
  for (size_t i = 0; i < n; i++) input += turns[i].input_tokens;
  printf("%zu requests in conversations, %.0f blocks of 16 a prompt\n", n, input / 16 / (double)n);
  line("prefix cache off", &off, n);
  line("prefix cache on", &on, n);
  printf("hits                        %10.1f %% of blocks; %.1f blocks evicted a request\n",
         100.0 * (double)on.cache.hit_blocks / (double)on.cache.asked_blocks,
         (double)on.cache.blocks.evicted / (double)n);
  printf("ratio on to off             %10.2f\n", off.s / on.s);
  line("room for all", &roomy, many);
  line("starved of KV", &starved, many);
  line("the same, and overloaded", &overrun, 3 * n);
  printf("ratio starved to room       %10.2f\n", roomy.s / starved.s);
  free(span);
  free(turns);
  free(edge);
  free(beyond);
  return 0;
}
