// SPDX-License-Identifier: GPL-3.0-or-later
/* Scenarios into values: defaults, presets by hardware, both slo forms, workloads, --set,
 * provenance, and values that read back to the same run. Tests run in the repository root. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/registry.h"
#include "io/flags.h"
#include "io/scenario.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const ds_data_dirs here = {{"."}, 1};

static bool parse(const char *text, const char *const *sets, size_t n, ds_scenario *sc,
                  ds_diag *d) {
  return ds_scenario_parse(text, strlen(text), "dir/s.yaml", "dir", sets, n, &here, sc, d);
}

static ds_scenario good(const char *text) {
  ds_scenario sc;
  ds_diag d;
  cr_assert(parse(text, NULL, 0, &sc, &d), "%s:%lld:%lld: %s; expected %s", d.file,
            (long long)d.line, (long long)d.column, d.text, d.expected);
  return sc;
}

static const ds_setting *setting(const ds_scenario *sc, const char *key) {
  for (size_t i = 0; i < sc->n_settings; i++)
    if (strcmp(sc->settings[i].key, key) == 0) return &sc->settings[i];
  return NULL;
}

static void is_setting(const ds_scenario *sc, const char *key, const char *value,
                       const char *from) {
  const ds_setting *s = setting(sc, key);
  cr_assert_not_null(s, "no %s", key);
  cr_assert_str_eq(s->value, value, "%s is %s", key, s->value);
  if (from) cr_assert_str_eq(s->from, from, "%s comes from %s", key, s->from);
}

#define HEAD "scenario: 1\nmodel: llama-3.1-8b\n"
#define BURST                                                                                      \
  "workload: {generate: {requests: 5, arrivals: {process: burst-at-zero}, input_tokens: 7, "       \
  "output_tokens: 3}}\n"

/* --- defaults ------------------------------------------------------------------------------ */

Test(scenario, the_shortest_one_has_the_documented_defaults) {
  ds_scenario sc = good(HEAD "pools: [{hardware: h100-sxm}]\n" BURST);
  const ds_run *r = &sc.run;
  cr_assert_str_eq(r->pool.name, "main");
  cr_assert_eq(r->pool.role, DS_ROLE_UNIFIED);
  cr_assert_str_eq(r->pool.scheduler, "vllm-v1");
  cr_assert_str_eq(r->pool.engine.name, "vllm-2026"); /* the newest of vLLM's */
  cr_assert_str_eq(r->router, "round-robin");
  cr_assert_eq(r->pool.replicas, 1);
  cr_assert_eq(r->pool.tensor_parallel, 1);
  cr_assert_eq(r->pool.pipeline_parallel, 1);
  cr_assert_eq(r->pool.kv_blocks, 0);
  cr_assert_eq(r->pool.kv_block_tokens, 16);
  cr_assert_eq(r->pool.memory_utilization, 0.90);
  cr_assert(r->pool.prefix_cache);
  cr_assert_eq(r->pool.max_model_len, 0);
  cr_assert_eq(r->weights, DS_FMT_BF16);
  cr_assert_eq(r->kv_cache, DS_FMT_BF16);
  cr_assert_eq(r->cost_tier, DS_COST_ROOFLINE);
  cr_assert_eq(r->seed, 1u);
  cr_assert_eq(r->slo.n_run, 0);
  cr_assert(sc.workload.max_tokens_is_output);
  cr_assert_eq(sc.workload.time_scale, 1.0);
  cr_assert_str_eq(sc.model_title, "Llama 3.1 8B");
  is_setting(&sc, "pools.main.replicas", "1", "default");
  is_setting(&sc, "weights", "bf16", NULL);
  cr_assert_eq(strncmp(setting(&sc, "weights")->from, "models/llama-3.1-8b.yaml:", 25), 0);
  cr_assert_eq(sc.n_inputs, 3u); /* model, hardware and engine cards */
  for (size_t i = 0; i < sc.n_inputs; i++) cr_assert_eq(strlen(sc.inputs[i].sha256), 64u);
  ds_scenario_free(&sc);
}

/* The documentation: 1024 and 8192 on parts of 70 GiB or more other than A100, else 256 and 2048.
 */
Test(scenario, vllm_limits_depend_on_the_part) {
  static const struct {
    const char *hardware;
    int64_t seqs, tokens;
  } cases[] = {{"h100-sxm", 1024, 8192},
               {"h200-sxm", 1024, 8192},
               {"mi300x", 1024, 8192},
               {"a100-80-sxm", 256, 2048},
               {"{base: h100-sxm, memory: 70 GiB}", 1024, 8192},
               {"{base: h100-sxm, memory: 69.9 GiB}", 256, 2048},
               {"{base: a100-80-sxm, memory: 160 GiB}", 256, 2048}};
  for (size_t i = 0; i < LEN(cases); i++) {
    char text[512];
    snprintf(text, sizeof text, HEAD "pools: [{hardware: %s}]\n" BURST, cases[i].hardware);
    ds_scenario sc = good(text);
    cr_assert_eq(sc.run.pool.max_num_seqs, cases[i].seqs, "%s", cases[i].hardware);
    cr_assert_eq(sc.run.pool.max_num_batched_tokens, cases[i].tokens, "%s", cases[i].hardware);
    ds_scenario_free(&sc);
  }
}

Test(scenario, a_falling_chunk_limit_is_a_budget_as_it_is_rounded) {
  ds_scenario sc = good(HEAD "pools:\n  - hardware: h100-sxm\n    scheduler: sarathi\n"
                             "    scheduler_options: {enable_dynamic_chunking_schedule: true, low_chunk_size: 40,\n"
                             "                        high_chunk_size: 50}\n" BURST);
  cr_assert_eq(sc.run.pool.max_num_batched_tokens, 64); /* 50 to the nearest multiple of 32 */
  ds_scenario_free(&sc);
}

Test(scenario, settings_keep_the_order_of_the_documentation) {
  static const char *const order[] = {"scenario",
                                      "title",
                                      "model",
                                      "weights",
                                      "kv_cache",
                                      "pools.main.name",
                                      "pools.main.role",
                                      "pools.main.hardware",
                                      "pools.main.engine",
                                      "pools.main.replicas",
                                      "pools.main.tensor_parallel",
                                      "pools.main.scheduler",
                                      "pools.main.scheduler_options.max_num_seqs",
                                      "pools.main.kv_blocks",
                                      "router.policy",
                                      "workload.trace",
                                      "workload.time_scale",
                                      "slo.request.ttft",
                                      "cost",
                                      "seed"};
  ds_scenario sc = good("seed: 3\ncost: speed-of-light\nslo: {ttft: 2 s}\nworkload: {trace: "
                        "t.csv}\npools: [{hardware: h100-sxm}]\n"
                        "model: llama-3.1-8b\ntitle: \"a: b\"\nscenario: 1\n");
  size_t k = 0;
  for (size_t i = 0; i < sc.n_settings && k < LEN(order); i++)
    k += strcmp(sc.settings[i].key, order[k]) == 0;
  cr_assert_eq(k, LEN(order), "%s is missing or out of order", order[k < LEN(order) ? k : 0]);
  is_setting(&sc, "title", "\"a: b\"", "dir/s.yaml:7");
  is_setting(&sc, "seed", "3", "dir/s.yaml:1");
  ds_scenario_free(&sc);
}

/* --- sections ------------------------------------------------------------------------------ */

Test(scenario, both_slo_forms) {
  ds_scenario sc =
      good(HEAD "pools: [{hardware: h100-sxm}]\n" BURST "slo: {ttft: 2 s, e2e: 1 min}\n");
  cr_assert_eq(sc.run.slo.request.ttft_ns, 2000000000);
  cr_assert_eq(sc.run.slo.request.e2e_ns, 60000000000);
  cr_assert_eq(sc.run.slo.request.tpot_ns, 0);
  is_setting(&sc, "slo.request.ttft", "2 s", "dir/s.yaml:5");
  ds_scenario_free(&sc);
  sc = good(HEAD "pools: [{hardware: h100-sxm}]\n" BURST
                 "slo:\n  request: {tpot: 100 ms}\n  run: {p99_ttft: 2 s, mean_tpot: 60 ms, "
                 "p99.9_itl: 1 s, attainment: 0.99}\n  window: 5 min\n");
  const ds_slo *s = &sc.run.slo;
  cr_assert_eq(s->request.tpot_ns, 100000000);
  cr_assert_eq(s->n_run, 3);
  cr_assert(s->run[0].metric == DS_METRIC_TTFT && s->run[0].percentile == 99 &&
            s->run[0].limit_ns == 2000000000);
  cr_assert(s->run[1].metric == DS_METRIC_TPOT && s->run[1].percentile == 0 &&
            s->run[1].limit_ns == 60000000);
  cr_assert(s->run[2].metric == DS_METRIC_ITL && s->run[2].percentile == 99.9 &&
            s->run[2].limit_ns == 1000000000);
  cr_assert_eq(s->attainment, 0.99);
  cr_assert_eq(s->window_ns, 300000000000);
  ds_scenario_free(&sc);
}

Test(scenario, linear_cost_needs_neither_model_nor_hardware) {
  ds_scenario sc =
      good("scenario: 1\npools: [{scheduler: vllm-v1, kv_blocks: 100, kv_block_tokens: 4, "
           "prefix_cache: false}]\n" BURST "cost: {model: linear, step: 10 ms, prefill_token: 0.1 "
           "ms, decode_sequence: 1 ms, draft_token: 0.5 ms}\n");
  cr_assert_eq(sc.run.cost_tier, DS_COST_LINEAR);
  cr_assert_eq(sc.run.linear.step_s, 0.01);
  cr_assert_eq(sc.run.linear.prefill_token_s, 1e-4);
  cr_assert_eq(sc.run.linear.decode_sequence_s, 1e-3);
  cr_assert_eq(sc.run.linear.draft_token_s, 5e-4);
  cr_assert_eq(sc.run.pool.kv_blocks, 100);
  cr_assert_eq(sc.run.pool.max_num_seqs, 256); /* no part, so the smaller presets */
  cr_assert_eq(sc.run.pool.engine.api_per_request_s, 0);
  ds_scenario_free(&sc);
  sc = good("scenario: 1\npools: [{scheduler: static}]\n" BURST
            "cost: {model: linear, step: 10 ms}\n");
  cr_assert_eq(sc.run.pool.kv_blocks, DS_KV_UNLIMITED);
  cr_assert(!sc.run.pool.prefix_cache);
  ds_scenario_free(&sc);
}

Test(scenario, workloads) {
  ds_scenario sc = good(HEAD "pools: [{hardware: h100-sxm}]\nworkload:\n  trace: ../t.csv\n  "
                             "format: azure\n  select: {first: 1000, window: 1.5 s .. 10 min}\n"
                             "  time_scale: 0.5\n  class: chat\n  max_tokens: {times: 4}\n  "
                             "import: {zero: clamp, unsorted: sort, oversize: truncate}\n");
  const ds_workload *w = &sc.workload;
  cr_assert_eq(w->kind, DS_WORKLOAD_TRACE);
  cr_assert_str_eq(w->path_given, "../t.csv");
  cr_assert_str_eq(w->path, "dir/../t.csv"); /* relative to the file that names it */
  cr_assert_str_eq(w->format, "azure");
  cr_assert_eq(w->select_first, 1000);
  cr_assert_eq(w->window_from_ns, 1500000000);
  cr_assert_eq(w->window_to_ns, 600000000000);
  cr_assert_eq(w->time_scale, 0.5);
  cr_assert_str_eq(w->class_name, "chat");
  cr_assert_eq(w->max_tokens_times, 4);
  cr_assert(!w->max_tokens_is_output);
  cr_assert(w->zero == DS_REPAIR_CLAMP && w->unsorted == DS_REPAIR_SORT &&
            w->oversize == DS_REPAIR_TRUNCATE);
  ds_scenario_free(&sc);

  sc = good(HEAD "pools: [{hardware: h100-sxm}]\nworkload:\n  generate:\n    duration: 600 s\n    "
                 "arrivals: {process: constant, rate: 90 /min}\n"
                 "    input_tokens: {law: lognormal, mean: 550, p99: 3000, max: 8000}\n    "
                 "output_tokens: {law: fixed, value: 128}\n  max_tokens: 512\n");
  cr_assert_eq(w->kind, DS_WORKLOAD_GENERATE);
  cr_assert_eq(w->requests, 0);
  cr_assert_eq(w->duration_ns, 600000000000);
  cr_assert_eq(w->process, DS_ARRIVAL_CONSTANT);
  cr_assert_eq(w->rate_per_s, 1.5);
  cr_assert(w->input.law == DS_LAW_LOGNORMAL && w->input.mean == 550 && w->input.p99 == 3000 &&
            w->input.median == 0 && w->input.max == 8000);
  cr_assert(w->output.law == DS_LAW_FIXED && w->output.value == 128);
  cr_assert_eq(w->max_tokens_fixed, 512);
  ds_scenario_free(&sc);

  sc = good(HEAD "pools: [{hardware: h100-sxm}]\nworkload: {requests: [{id: late, arrival: 5 ms, "
                 "input_tokens: 9, output_tokens: 2, max_tokens: 8, priority: -3},\n"
                 "  {arrival_ns: 7, input_tokens: 1, output_tokens: 1}, {id: 0, arrival_ns: 7, "
                 "input_tokens: 2, output_tokens: 1}]}\n");
  cr_assert_eq(w->kind, DS_WORKLOAD_INLINE);
  cr_assert_eq(w->n_inline, 3u);
  cr_assert(w->inline_requests[0].input_tokens == 1 && w->inline_requests[1].input_tokens == 2,
            "equal times keep their order");
  cr_assert_null(w->inline_ids[0]);
  cr_assert_str_eq(w->inline_ids[1], "0");
  cr_assert_str_eq(w->inline_ids[2], "late");
  const ds_request *q = &w->inline_requests[2];
  cr_assert(q->arrival_ns == 5000000 && q->input_tokens == 9 && q->output_tokens == 2 &&
            q->max_tokens == 8 && q->priority == -3);
  ds_scenario_free(&sc);
}

/* --- the command line ---------------------------------------------------------------------- */

Test(scenario, set_changes_any_value) {
  static const char *const sets[] = {"pools.main.replicas=8",
                                     "slo.ttft = 1 s",
                                     "pools.main.hardware.memory_bandwidth=6 TB/s",
                                     "router.policy=least-outstanding",
                                     "pools.main.scheduler_options={max_num_seqs: 7}",
                                     "title='x = y'",
                                     "workload.trace=z.csv",
                                     "seed=9",
                                     "seed=10"};
  ds_scenario sc;
  ds_diag d;
  cr_assert(parse(HEAD "pools: [{hardware: h100-sxm, replicas: 2, scheduler_options: "
                       "{max_num_seqs: 5}}]\nrouter: round-robin\nworkload: {trace: t.csv}\n",
                  sets, LEN(sets), &sc, &d),
            "%s: %s", d.file, d.text);
  cr_assert_eq(sc.run.pool.replicas, 8);
  cr_assert_eq(sc.run.slo.request.ttft_ns, 1000000000);
  cr_assert_eq(sc.run.pool.hw.memory_bytes_per_s, 6e12);
  cr_assert_eq(sc.run.pool.hw.grade, DS_GRADE_ESTIMATE); /* nobody has measured it */
  cr_assert_str_eq(sc.run.router, "least-outstanding");
  cr_assert_eq(sc.run.pool.max_num_seqs, 7);
  cr_assert_str_eq(sc.title, "x = y");
  cr_assert_str_eq(sc.workload.path,
                   "z.csv"); /* what the command line names is relative to the working folder */
  cr_assert_eq(sc.run.seed, 10u);
  is_setting(&sc, "pools.main.replicas", "8", "command line");
  is_setting(&sc, "pools.main.hardware.base", "h100-sxm", "dir/s.yaml:3");
  is_setting(&sc, "pools.main.hardware.memory_bandwidth", "6 TB/s", "command line");
  ds_scenario_free(&sc);
}

/* --set works with whichever form of slo the file uses. */
Test(scenario, set_knows_both_slo_forms) {
  static const struct {
    const char *slo, *set;
    int64_t ttft, tpot, p99;
  } cases[] = {
      {"{ttft: 2 s}", "slo.tpot=50 ms", 2000000000, 50000000, 0},
      {"{ttft: 2 s}", "slo.run.p99_ttft=3 s", 2000000000, 0, 3000000000},
      {"{ttft: 2 s}", "slo.request.tpot=50 ms", 2000000000, 50000000, 0},
      {"{request: {ttft: 2 s}, run: {p99_ttft: 4 s}}", "slo.ttft=1 s", 1000000000, 0, 4000000000},
      {"{run: {p99_ttft: 4 s}}", "slo.tpot=50 ms", 0, 50000000, 4000000000},
      {"{run: {p99_ttft: 4 s}}", "slo.run.p99_ttft=5 s", 0, 0, 5000000000},
      {"{}", "slo.run.p99_ttft=5 s", 0, 0, 5000000000}};
  for (size_t i = 0; i < LEN(cases); i++) {
    char text[512];
    ds_scenario sc;
    ds_diag d;
    const char *const sets[] = {cases[i].set};
    snprintf(text, sizeof text, HEAD "pools: [{hardware: h100-sxm}]\n" BURST "slo: %s\n",
             cases[i].slo);
    cr_assert(parse(text, sets, 1, &sc, &d), "%zu: %s: %s", i, d.file, d.text);
    cr_assert_eq(sc.run.slo.request.ttft_ns, cases[i].ttft, "%zu", i);
    cr_assert_eq(sc.run.slo.request.tpot_ns, cases[i].tpot, "%zu", i);
    cr_assert_eq(sc.run.slo.n_run > 0 ? sc.run.slo.run[0].limit_ns : 0, cases[i].p99, "%zu", i);
    ds_scenario_free(&sc);
  }
}

/* A name means the same wherever it is written; a path on the command line does not. */
Test(scenario, set_finds_a_card_beside_the_scenario) {
  char dir[] = "/tmp/dryserve-scenario-XXXXXX", card[128], file[128];
  cr_assert_not_null(mkdtemp(dir));
  snprintf(card, sizeof card, "%s/my.own-1.yaml", dir);
  snprintf(file, sizeof file, "%s/s.yaml", dir);
  FILE *f = fopen(card, "w");
  fputs("model: 1\nname: my.own-1\ndimensions: {layers: 2, hidden: 64, heads: 4, kv_heads: 2, "
        "head_dim: 16, ffn: 128, mlp_matrices: 3, vocab: 100}\nweights: fp8\n",
        f);
  fclose(f);
  f = fopen(file, "w");
  fputs(HEAD "pools: [{hardware: h100-sxm}]\n" BURST, f);
  fclose(f);
  static const char *const by_name[] = {"model=my.own-1"}, *const by_path[] = {
                                                               "model=my.own-1.yaml"};
  ds_scenario sc;
  ds_diag d;
  cr_assert(ds_scenario_load(file, by_name, 1, &here, &sc, &d), "%s", d.text);
  cr_assert_eq(sc.run.model.layers, 2);
  cr_assert_eq(sc.run.weights, DS_FMT_FP8); /* the card's own */
  cr_assert_str_eq(sc.inputs[0].path, file);
  ds_scenario_free(&sc);
  cr_assert(!ds_scenario_load(file, by_path, 1, &here, &sc, &d));
  cr_assert_str_eq(d.file, "command line --set model");
  remove(card);
  remove(file);
  remove(dir);
}

Test(scenario, flags_only_write_a_scenario) {
  static const ds_flag flags[] = {{"--model", "llama-3.1-70b"},
                                  {"--hardware", "8xH200"},
                                  {"--tp", "2"},
                                  {"--weights", "fp8"},
                                  {"--rate", "12/s"},
                                  {"--input", "550"},
                                  {"--output", "128"},
                                  {"--slo", "p99 ttft 2s, mean tpot <= 100ms, e2e 1 min"},
                                  {"--goodput", "tpot:80"}};
  ds_diag d = {0};
  char *text;
  cr_assert(ds_flags_scenario(flags, LEN(flags), &text, &d), "%s", d.text);
  ds_scenario sc;
  cr_assert(ds_scenario_parse(text, strlen(text), "flags", "", NULL, 0, &here, &sc, &d), "%s\n%s",
            d.text, text);
  free(text);
  cr_assert_eq(sc.run.pool.replicas, 4); /* eight parts, two to a replica */
  cr_assert_eq(sc.run.pool.tensor_parallel, 2);
  cr_assert_eq(sc.run.weights, DS_FMT_FP8);
  cr_assert_eq(sc.workload.rate_per_s, 12);
  cr_assert_eq(sc.workload.input.value, 550);
  cr_assert_eq(sc.workload.output.value, 128);
  cr_assert_eq(sc.run.slo.n_run, 2);
  cr_assert(sc.run.slo.run[0].percentile == 99 && sc.run.slo.run[0].limit_ns == 2000000000);
  cr_assert(sc.run.slo.run[1].percentile == 0 && sc.run.slo.run[1].metric == DS_METRIC_TPOT);
  cr_assert_eq(sc.run.slo.request.ttft_ns,
               2000000000); /* a good request keeps the limit of the percentile */
  cr_assert_eq(sc.run.slo.request.tpot_ns, 80000000);
  cr_assert_eq(sc.run.slo.request.e2e_ns, 60000000000);
  ds_scenario_free(&sc);
}

/* --- values read back ---------------------------------------------------------------------- */

static const char *const round_trips[] = {
    HEAD
    "title: \"Quotes \\\" and \\\\ and: # colons\"\nkv_cache: fp8\npools:\n  - {name: a-b_1, "
    "hardware: h200-sxm, replicas: 3, tensor_parallel: 2, max_model_len: 32768, kv_blocks: 5000}\n"
    "router: least-outstanding\nworkload: {trace: ../x y/t.csv, select: {first: 10, window: 0 s .. "
    "1.000000001 s}, max_tokens: {times: 1.25}, class: chat}\n"
    "slo: {request: {ttft: 1.5 s}, run: {p99.9_ttft: 2 s, mean_e2e: 7 s, attainment: 0.975}, "
    "window: 90 s}\nseed: 9223372036854775807\n",
    HEAD "pools: [{hardware: {base: h100-sxm, memory: 93.1 GiB, price: {value: 2.22 USD/h, low: 1 "
         "USD/h}, efficiencies: {gemm_bf16: {ec: 0.777, t0: 1.2345678 us}}}, "
         "scheduler: static, scheduler_options: {preferred_batch_sizes: [4, 8], max_queue_delay: 3 "
         "ms, emit: batch-end}}]\n"
         "workload: {generate: {requests: 7, arrivals: {rate: 0.1 /s}, input_tokens: {law: "
         "lognormal, mean: 550.5, median: 300}, output_tokens: 9}, time_scale: 0.3}\n",
    "scenario: 1\npools: [{scheduler: vllm-v1, kv_blocks: 9}]\nworkload: {requests: [{id: 'a \"b', "
    "arrival: 3 ms, input_tokens: 1, output_tokens: 2},"
    "{arrival_ns: 5, input_tokens: 3, output_tokens: 4, max_tokens: 6, priority: 2}]}\ncost: "
    "{model: linear, step: 1.5 ms, prefill_token: 3.3 us}\n",
    HEAD "pools: [{hardware: {name: mine, memory: 80 GB, memory_bandwidth: 3 TB/s, peak: {bf16: 1 "
         "PFLOP/s}, units: 132}}]\n" BURST "cost: speed-of-light\n",
};

Test(scenario, effective_values_read_back_to_the_same_run) {
  for (size_t i = 0; i < LEN(round_trips); i++) {
    ds_scenario a = good(round_trips[i]), b;
    ds_diag d;
    char **sets = calloc(a.n_settings, sizeof *sets), text[256];
    for (size_t k = 0; k < a.n_settings; k++) {
      size_t n = strlen(a.settings[k].key) + strlen(a.settings[k].value) + 2;
      sets[k] = malloc(n);
      snprintf(sets[k], n, "%s=%s", a.settings[k].key, a.settings[k].value);
    }
    snprintf(text, sizeof text, "{pools: [{name: %s}]%s}", a.run.pool.name,
             a.workload.n_inline ? ", workload: {requests: [{}, {}]}" : "");
    cr_assert(parse(text, (const char *const *)sets, a.n_settings, &b, &d),
              "%zu: %s: %s; expected %s", i, d.file, d.text, d.expected);
    cr_assert_eq(a.n_settings, b.n_settings);
    for (size_t k = 0; k < a.n_settings; k++) {
      cr_assert_str_eq(a.settings[k].key, b.settings[k].key);
      cr_assert_str_eq(a.settings[k].value, b.settings[k].value, "%s", a.settings[k].key);
      free(sets[k]);
    }
    free(sets);
    cr_assert_arr_eq(&a.run, &b.run, sizeof a.run, "%zu: the runs differ", i);
    cr_assert_eq(a.workload.n_inline, b.workload.n_inline);
    if (a.workload.n_inline > 0)
      cr_assert_arr_eq(a.workload.inline_requests, b.workload.inline_requests,
                       a.workload.n_inline * sizeof(ds_request));
    cr_assert_eq(a.workload.window_to_ns, b.workload.window_to_ns);
    cr_assert_arr_eq(&a.workload.input, &b.workload.input, sizeof a.workload.input);
    ds_scenario_free(&a);
    ds_scenario_free(&b);
  }
}

/* --- complaints of the core ---------------------------------------------------------------- */

Test(scenario, complaints_of_the_core_find_their_line) {
  ds_scenario sc = good(HEAD "pools:\n  - hardware: h100-sxm\n    kv_blocks: 30\n" BURST);
  static const struct {
    const char *text, *file;
    int64_t line, column;
  } cases[] = {{"pools.main.kv_blocks: too few", "dir/s.yaml", 5, 16},
               {"pools.main.hardware: no such thing", "dir/s.yaml", 4, 15},
               {"pools.main.hardware.memory: too little", "dir/s.yaml", 4, 15}, /* what holds it */
               {"model: wrong", "dir/s.yaml", 2, 8},
               {"seed: a default has no line", "dir/s.yaml", 0, 0},
               {"request 5: not a key", "dir/s.yaml", 0, 0}};
  for (size_t i = 0; i < LEN(cases); i++) {
    ds_error err = {DS_E_INPUT, -1, ""};
    ds_diag d = {0};
    snprintf(err.text, sizeof err.text, "%s", cases[i].text);
    cr_assert(!ds_scenario_complain(&sc, &err, &d));
    cr_assert_eq(d.exit, DS_EXIT_INPUT);
    cr_assert_str_eq(d.text, cases[i].text);
    cr_assert_str_eq(d.file, cases[i].file);
    cr_assert(d.line == cases[i].line && d.column == cases[i].column, "%s at %lld:%lld", d.text,
              (long long)d.line, (long long)d.column);
  }
  ds_scenario_free(&sc);
}

/* --- suggestions --------------------------------------------------------------------------- */

Test(scenario, the_nearest_name_is_suggested_when_it_is_near) {
  static const char *const names[] = {"llama-3.1-8b",    "llama-3.1-70b", "h100-sxm", "h200-sxm",
                                      "tensor_parallel", "ttft",          "tpot"};
  static const struct {
    const char *word, *nearest;
  } cases[] = {{"lama-3.1-8b", "llama-3.1-8b"},
               {"Llama-3.1-70B", "llama-3.1-70b"},
               {"h100_sxm", "h100-sxm"},
               {"tensor_paralell", "tensor_parallel"},
               {"tftt", "ttft"},
               {"h100", "h100-sxm"},
               {"gpt-oss-120b", NULL},
               {"x", NULL},
               {"", NULL}};
  for (size_t i = 0; i < LEN(cases); i++) {
    const char *near = ds_nearest(cases[i].word, names, LEN(names));
    cr_assert((near == NULL) == (cases[i].nearest == NULL) &&
                  (!near || strcmp(near, cases[i].nearest) == 0),
              "%s: %s", cases[i].word, near ? near : "nothing");
  }
}

/* --- speed --------------------------------------------------------------------------------- */

#if defined(__OPTIMIZE__) && !defined(DS_CHECKING)
Test(scenario, loading_one_takes_less_than_3_ms) {
  double best = 1;
  for (int i = 0; i < 30; i++) { /* the least of thirty, so that a busy machine does not matter */
    clock_t start = clock();
    ds_scenario sc =
        good(HEAD "pools: [{hardware: h200-sxm, engine: vllm}]\n" BURST "slo: {ttft: 2 s}\n");
    double s = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (s < best) best = s;
    ds_scenario_free(&sc);
  }
  cr_assert_lt(best, 3e-3, "%.2f ms", best * 1e3);
  cr_log_info("%.2f ms", best * 1e3);
}
#endif
