// SPDX-License-Identifier: GPL-3.0-or-later
/* workload.protocol: what a benchmark tool would send, in one line. Each tool's rules become a
 * `generate` section, which is read like any other; --explain-config shows it. */
#include <stdlib.h>
#include <string.h>

#include "io/protocols.h"
#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define TOKENS_MAX 1000000000
#define COUNT_MAX  1000000000

const ds_protocol ds_protocols[] = {
    {"vllm-bench",
     "vllm bench serve, random data: a rate (all at once without one), gaps of gamma shape "
     "`burstiness`, all gaps scaled so that the last request is sent at requests / rate; "
     "max_concurrency caps what is in flight; lengths are uniform in L (1 -+ range_ratio). Warm-up "
     "requests are not part of the run.",
     "requests (1000), rate, burstiness (1), max_concurrency, input_tokens (1024), output_tokens "
     "(128), range_ratio (0)",
     "vllm/benchmarks: serve.py get_request, datasets/arg_utils.py @237145ea, RandomDataset"},
    {"sglang-bench",
     "sglang bench_serving, random data: a Poisson rate (all at once without one), "
     "max_concurrency; "
     "lengths are uniform from L range_ratio to L, the same name with another sense than vLLM's.",
     "requests (1000), rate, max_concurrency, input_tokens (1024), output_tokens (1024), "
     "range_ratio "
     "(0)",
     "sglang/bench_serving.py"},
    {"inferencex",
     "SemiAnalysis InferenceX (InferenceMAX): `concurrency` clients without pause, 10 requests for "
     "each; lengths uniform from 0.8 L to L. Its 2 warm-up requests for each client are not part "
     "of "
     "the run.",
     "concurrency, input_tokens (1024), output_tokens (1024), requests (10 x concurrency), "
     "range_ratio "
     "(0.8)",
     "SemiAnalysisAI/InferenceX benchmarks/benchmark_lib.sh and README of InferenceMAX"},
    {"genai-perf",
     "GenAI-Perf: `concurrency` clients without pause, or a constant rate; normal lengths with "
     "these "
     "deviations, drawn again where below 1.",
     "requests, concurrency (1) or rate, input_tokens (550), input_sd (0), output_tokens, "
     "output_sd (0)",
     "NVIDIA perf_analyzer, genai-perf"},
    {"aiperf",
     "AIPerf: `concurrency` clients without pause, or a Poisson rate (gamma with `smoothness`), "
     "with "
     "a cap if both are given; normal lengths with these deviations, drawn again where below 1.",
     "requests, concurrency (1), rate, smoothness, input_tokens (550), input_sd (0), "
     "output_tokens, "
     "output_sd (0)",
     "ai-dynamo/aiperf docs/cli-options.md @003fc0f1"},
    {"llmperf",
     "LLMPerf: `concurrency` clients without pause; normal lengths, drawn again until above 0 and "
     "cut "
     "to whole numbers, so half a token shorter than asked. Its README's examples set output_sd 10.",
     "requests (10), concurrency (10), input_tokens (550), input_sd (150), output_tokens (150), "
     "output_sd (80)",
     "ray-project/llmperf token_benchmark_ray.py @004d3afb (defaults of its parser)"},
    {"guidellm",
     "GuideLLM: synchronous, concurrent, throughput, constant or poisson, or a sweep of several "
     "runs: synchronous, throughput, and constant rates evenly between what those reached (`rates` "
     "runs in all), of which the highest that holds the slo is looked into; `at` picks one run. "
     "`warmup` below 1 is a share of the requests, else a count; they are left out of the figures. "
     "`max_seconds` in place of requests, with constant and poisson: sending ends then; what is in "
     "flight is awaited.",
     "strategy, requests or max_seconds, concurrency or rate, rates (10), at, warmup (0), "
     "input_tokens, input_sd (0), output_tokens, output_sd (0)",
     "vllm-project/guidellm benchmark/profiles/sweep.py, schemas/base.py @14ffe9c6"},
    {"mlperf",
     "MLPerf LoadGen: offline (all at once), server (Poisson at `rate`), interactive (server with "
     "the "
     "tighter limits), single-stream (one after the other). At least the samples of the data set "
     "and "
     "600 s of arrivals, or, offline, 660 s at the `rate` expected; a run of less than 600 s says "
     "so. With lengths: {rows: FILE} each sample equally often in shuffled order. "
     "Server limits on p99 TTFT and TPOT become the slo unless the scenario has one. `rate: find` is "
     "LoadGen's search: doubled from 1 /s until invalid, then halved to a tenth.",
     "scenario, benchmark, rate, requests, input_tokens and output_tokens or lengths",
     "mlcommons/inference loadgen/mlperf.conf @ 001712e9, find_peak_performance.h, test_settings.h"},
};
const size_t ds_n_protocols = LEN(ds_protocols);

/* p99 limits in milliseconds (server, interactive; 0: no such scenario) and samples of the data
 * set. Source: mlperf.conf, round v5.x; gpt-oss has no sample count there that we know. */
static const struct {
  const char *name;
  int64_t ttft_ms, tpot_ms, fast_ttft_ms, fast_tpot_ms, samples;
} mlperf[] = {
    {"llama2-70b", 2000, 200, 450, 40, 24576},    {"mixtral-8x7b", 2000, 200, 0, 0, 15000},
    {"llama3.1-405b", 6000, 175, 4500, 80, 8313}, {"llama3.1-8b", 2000, 100, 500, 30, 13368},
    {"deepseek-r1", 2000, 80, 1500, 15, 4388},
};

static const char *const all_keys[] = {
    "tool",       "requests",     "rate",          "burstiness", "max_concurrency", "concurrency",
    "smoothness", "input_tokens", "output_tokens", "input_sd",   "output_sd",       "range_ratio",
    "strategy",   "scenario",     "benchmark",     "lengths",    "rates",           "at",
    "warmup",     "max_seconds"};
static const char *const keys_of[][14] = {
    {"tool", "requests", "rate", "burstiness", "max_concurrency", "input_tokens", "output_tokens",
     "range_ratio"},
    {"tool", "requests", "rate", "max_concurrency", "input_tokens", "output_tokens", "range_ratio"},
    {"tool", "requests", "concurrency", "input_tokens", "output_tokens", "range_ratio"},
    {"tool", "requests", "concurrency", "rate", "input_tokens", "input_sd", "output_tokens",
     "output_sd"},
    {"tool", "requests", "concurrency", "rate", "smoothness", "input_tokens", "input_sd",
     "output_tokens", "output_sd"},
    {"tool", "requests", "concurrency", "input_tokens", "input_sd", "output_tokens", "output_sd"},
    {"tool", "strategy", "requests", "concurrency", "rate", "input_tokens", "input_sd",
     "output_tokens", "output_sd", "rates", "at", "warmup", "max_seconds"},
    {"tool", "scenario", "benchmark", "rate", "requests", "input_tokens", "output_tokens",
     "lengths"},
};
#define MLPERF_LEAST_S 600
enum { VLLM, SGLANG, INFERENCEX, GENAI_PERF, AIPERF, LLMPERF, GUIDELLM, MLPERF };

typedef struct protocol {
  ds_reader *r;
  const ds_node *map;
  FILE *f; /* the generate section being written */
  int64_t requests, concurrency;
  double rate, burstiness, ratio, input_sd, output_sd;
  double seconds; /* that requests are sent for, in place of a number; 0: not said */
  int64_t input, output; /* tokens; 0: not said */
} protocol;

static bool missing(const protocol *p, const char *key, const char *expected) {
  ds_complain(p->r->d, p->map, "%s is missing", ds_name(p->r, key));
  ds_diag_expected(p->r->d, "%s", expected);
  return false;
}

static bool count(protocol *p, const char *key, int64_t preset, int64_t *out) {
  const ds_node *n = ds_node_get(p->map, key);
  *out = preset;
  if (!n) return preset > 0 || missing(p, key, "a count, such as 1000");
  return ds_want_integer(n, ds_name(p->r, key), 1, COUNT_MAX, out, p->r->d);
}

static bool number(protocol *p, const char *key, double min, double max, double preset,
                   double *out) {
  const ds_node *n = ds_node_get(p->map, key);
  *out = preset;
  return !n || ds_want_number(n, ds_name(p->r, key), min, max, out, p->r->d);
}

/* 0: not given, or inf. */
static bool rate(protocol *p) {
  const ds_node *n = ds_node_get(p->map, "rate");
  p->rate = 0;
  if (!n || (n->kind == DS_NODE_SCALAR && strcmp(n->text, "inf") == 0)) return true;
  return ds_want_quantity(n, ds_name(p->r, "rate"), DS_DIM_RATE, 1e-9, 1e9, &p->rate, p->r->d);
}

static void put_rate(protocol *p, const char *process, const char *more) {
  fprintf(p->f, "arrivals: {process: %s, rate: %.17g /s%s", process, p->rate, more);
  if (p->concurrency > 0) fprintf(p->f, ", max_concurrency: %lld", (long long)p->concurrency);
  fputs("}\n", p->f);
}

/* Clients without pause, or all at once. */
static void put_closed(protocol *p) {
  if (p->concurrency > 0)
    fprintf(p->f, "arrivals: {process: closed-loop, concurrency: %lld}\n",
            (long long)p->concurrency);
  else
    fputs("arrivals: {process: burst-at-zero}\n", p->f);
}

static void put_between(protocol *p, const char *key, int64_t low, int64_t high) {
  if (low < 1) low = 1;
  if (low == high)
    fprintf(p->f, "%s: %lld\n", key, (long long)high);
  else
    fprintf(p->f, "%s: {law: uniform, min: %lld, max: %lld}\n", key, (long long)low,
            (long long)high);
}

static void put_normal(protocol *p, const char *law, const char *key, int64_t mean, double sd) {
  if (sd > 0)
    fprintf(p->f, "%s: {law: %s, mean: %lld, sd: %.17g}\n", key, law, (long long)mean, sd);
  else
    fprintf(p->f, "%s: %lld\n", key, (long long)mean);
}

static bool lengths(protocol *p, int64_t input, int64_t output) {
  return count(p, "input_tokens", input, &p->input) &&
         count(p, "output_tokens", output, &p->output);
}

static bool normal_lengths(protocol *p, int64_t input, double input_sd, int64_t output,
                           double output_sd, const char *law) {
  if (!lengths(p, input, output) || !number(p, "input_sd", 0, 1e9, input_sd, &p->input_sd) ||
      !number(p, "output_sd", 0, 1e9, output_sd, &p->output_sd))
    return false;
  put_normal(p, law, "input_tokens", p->input, p->input_sd);
  put_normal(p, law, "output_tokens", p->output, p->output_sd);
  return true;
}

/* --- the tools ----------------------------------------------------------------------------- */

static bool capped(protocol *p, const char *key) {
  p->concurrency = 0;
  return !ds_node_get(p->map, key) || count(p, key, 0, &p->concurrency);
}

static bool vllm(protocol *p) {
  char more[64];
  if (!count(p, "requests", 1000, &p->requests) || !rate(p) || !capped(p, "max_concurrency") ||
      !number(p, "burstiness", 1e-3, 1e4, 1, &p->burstiness) ||
      !number(p, "range_ratio", 0, 0.999999, 0, &p->ratio) || !lengths(p, 1024, 128))
    return false;
  snprintf(more, sizeof more, ", burstiness: %.17g, exact: true", p->burstiness);
  if (p->rate > 0)
    put_rate(p, p->burstiness == 1 ? "poisson" : "gamma",
             p->burstiness == 1 ? ", exact: true" : more);
  else
    put_closed(p);
  const double r = p->ratio;
  put_between(p, "input_tokens", (int64_t)((double)p->input * (1 - r)),
              (int64_t)((double)p->input * (1 + r)));
  put_between(p, "output_tokens", (int64_t)((double)p->output * (1 - r)),
              (int64_t)((double)p->output * (1 + r)));
  return true;
}

static bool from_ratio(protocol *p) {
  put_between(p, "input_tokens", (int64_t)((double)p->input * p->ratio), p->input);
  put_between(p, "output_tokens", (int64_t)((double)p->output * p->ratio), p->output);
  return true;
}

static bool sglang(protocol *p) {
  if (!count(p, "requests", 1000, &p->requests) || !rate(p) || !capped(p, "max_concurrency") ||
      !number(p, "range_ratio", 0, 1, 0, &p->ratio) || !lengths(p, 1024, 1024))
    return false;
  if (p->rate > 0)
    put_rate(p, "poisson", "");
  else
    put_closed(p);
  return from_ratio(p);
}

static bool inferencex(protocol *p) {
  if (!count(p, "concurrency", 0, &p->concurrency) ||
      !count(p, "requests", 10 * p->concurrency, &p->requests) ||
      !number(p, "range_ratio", 0, 1, 0.8, &p->ratio) || !lengths(p, 1024, 1024))
    return false;
  put_closed(p);
  return from_ratio(p);
}

static bool nvidia(protocol *p, bool aiperf) {
  double smoothness;
  char more[64];
  if (!count(p, "requests", 0, &p->requests) || !rate(p) || !capped(p, "concurrency") ||
      !number(p, "smoothness", 1e-3, 1e4, 0, &smoothness))
    return false;
  const ds_node *both = ds_node_get(p->map, "concurrency");
  if (!aiperf && p->rate > 0 && both) {
    ds_complain_key(p->r->d, both, "%s stands beside rate", ds_name(p->r, "concurrency"));
    ds_diag_expected(p->r->d, "one of concurrency: 16 and rate: 8 /s");
    return false;
  }
  snprintf(more, sizeof more, ", burstiness: %.17g", smoothness);
  if (p->rate == 0 && p->concurrency == 0) p->concurrency = 1;
  if (p->rate == 0)
    put_closed(p);
  else if (smoothness > 0)
    put_rate(p, "gamma", more);
  else
    put_rate(p, aiperf ? "poisson" : "constant", "");
  return normal_lengths(p, 550, 0, 0, 0, "normal");
}

static bool llmperf(protocol *p) {
  if (!count(p, "requests", 10, &p->requests) || !count(p, "concurrency", 10, &p->concurrency))
    return false;
  put_closed(p);
  return normal_lengths(p, 550, 150, 150, 80, "normal-tool");
}

/* A share of the requests below 1, else a count. */
static bool guidellm_warmup(protocol *p, ds_workload *w) {
  double warmup;
  if (!number(p, "warmup", 0, (double)COUNT_MAX, 0, &warmup)) return false;
  const ds_node *n = ds_node_get(p->map, "warmup");
  if (n && p->seconds > 0 && warmup < 1) {
    ds_complain_key(p->r->d, n, "%s is a share, beside max_seconds", ds_name(p->r, "warmup"));
    ds_diag_expected(p->r->d, "a count of requests, such as warmup: 20");
    return false;
  }
  w->warmup_requests = (int64_t)(warmup < 1 ? warmup * (double)p->requests : warmup);
  return true;
}

/* In place of a number of requests: how long they are sent, at a rate. */
static bool max_seconds(protocol *p, bool has_rate) {
  const ds_node *n = ds_node_get(p->map, "max_seconds");
  if (!n) return true;
  const bool both = ds_node_get(p->map, "requests") != NULL;
  if (both || !has_rate) {
    ds_complain_key(p->r->d, n, "%s stands %s", ds_name(p->r, "max_seconds"),
                    both ? "beside requests" : "without a rate");
    ds_diag_expected(p->r->d, both ? "one of requests: 1000 and max_seconds: 60"
                                   : "max_seconds beside strategy: constant or poisson");
    return false;
  }
  return number(p, "max_seconds", 1e-3, 1e7, 0, &p->seconds);
}

/* A sweep is several runs; without `at` its first stands for all until they are made. */
static bool guidellm_sweep(protocol *p, ds_workload *w) {
  static const char *const others[] = {"concurrency", "rate"};
  const ds_node *at = ds_node_get(p->map, "at");
  for (size_t i = 0; i < LEN(others); ++i) {
    const ds_node *given = ds_node_get(p->map, others[i]);
    if (!given) continue;
    ds_complain_key(p->r->d, given, "%s stands beside strategy: sweep", ds_name(p->r, others[i]));
    ds_diag_expected(p->r->d, "rates: 10, the runs of a sweep, which finds its rates itself");
    return false;
  }
  if (!max_seconds(p, false) || !count(p, "requests", 0, &p->requests) || !count(p, "rates", 10, &w->series_runs)) return false;
  if (w->series_runs < 3 || w->series_runs > 60) {
    ds_complain(p->r->d, ds_node_get(p->map, "rates"), "%s is %lld", ds_name(p->r, "rates"),
                (long long)w->series_runs);
    ds_diag_expected(p->r->d, "3 to 60 runs, synchronous and throughput among them");
    return false;
  }
  bool all_at_once = at && at->kind == DS_NODE_SCALAR && strcmp(at->text, "throughput") == 0;
  bool one = !at || (at->kind == DS_NODE_SCALAR && strcmp(at->text, "synchronous") == 0);
  p->concurrency = one ? 1 : 0;
  if (!at) w->series = DS_SERIES_SWEEP;
  if (one || all_at_once) {
    put_closed(p);
  } else {
    if (!ds_want_quantity(at, ds_name(p->r, "at"), DS_DIM_RATE, 1e-9, 1e9, &p->rate, p->r->d)) {
      ds_diag_expected(p->r->d, "synchronous, throughput, or a rate such as 8 /s");
      return false;
    }
    put_rate(p, "constant", "");
  }
  return normal_lengths(p, 0, 0, 0, 0, "normal") && guidellm_warmup(p, w);
}

static bool guidellm(protocol *p, ds_workload *w) {
  static const char *const strategies[] = {"synchronous", "concurrent", "throughput", "constant",
                                           "poisson"};
  const ds_node *n = ds_node_get(p->map, "strategy");
  size_t k;
  if (!n) return missing(p, "strategy", "strategy: constant, beside rate: 8 /s");
  if (n->kind == DS_NODE_SCALAR && strcmp(n->text, "sweep") == 0) return guidellm_sweep(p, w);
  static const char *const of_sweep[] = {"rates", "at"};
  for (size_t i = 0; i < LEN(of_sweep); ++i) {
    const ds_node *given = ds_node_get(p->map, of_sweep[i]);
    if (!given) continue;
    ds_complain_key(p->r->d, given, "%s stands without strategy: sweep", ds_name(p->r, of_sweep[i]));
    ds_diag_expected(p->r->d, "strategy: sweep beside it");
    return false;
  }
  if (!ds_want_choice(n, ds_name(p->r, "strategy"), strategies, LEN(strategies), &k, p->r->d) ||
      !max_seconds(p, k > 2) || (p->seconds == 0 && !count(p, "requests", 0, &p->requests)) ||
      !rate(p))
    return false;
  static const char *const needs[] = {"", "concurrency", "", "rate", "rate"};
  const char *const extra[] = {"concurrency", "rate"};
  for (size_t i = 0; i < LEN(extra); ++i) {
    const ds_node *given = ds_node_get(p->map, extra[i]);
    bool needed = strcmp(needs[k], extra[i]) == 0;
    if (needed && !given) return missing(p, extra[i], i == 0 ? "concurrency: 16" : "rate: 8 /s");
    if (needed || !given) continue;
    ds_complain_key(p->r->d, given, "%s stands beside strategy: %s", ds_name(p->r, extra[i]),
                    strategies[k]);
    ds_diag_expected(p->r->d, needs[k][0] ? "only %s" : "neither concurrency nor rate%s",
                     needs[k][0] ? needs[k] : "");
    return false;
  }
  if (!capped(p, "concurrency")) return false;
  if (k == 0) p->concurrency = 1;
  if (k < 3)
    put_closed(p);
  else
    put_rate(p, strategies[k], "");
  return normal_lengths(p, 0, 0, 0, 0, "normal") && guidellm_warmup(p, w);
}

static bool loadgen(protocol *p, ds_workload *w) {
  static const char *const scenarios[] = {"offline", "server", "interactive", "single-stream"};
  const char *names[LEN(mlperf)];
  const ds_node *n = ds_node_get(p->map, "scenario"), *b = ds_node_get(p->map, "benchmark"),
                *rows = ds_node_get(p->map, "lengths");
  size_t k, m;
  for (m = 0; m < LEN(mlperf); ++m) names[m] = mlperf[m].name;
  if (!n) return missing(p, "scenario", "scenario: server, beside rate: 20 /s");
  if (!b) return missing(p, "benchmark", "benchmark: llama2-70b");
  if (!ds_want_choice(n, ds_name(p->r, "scenario"), scenarios, LEN(scenarios), &k, p->r->d) ||
      !ds_want_choice(b, ds_name(p->r, "benchmark"), names, LEN(mlperf), &m, p->r->d))
    return false;
  const ds_node *asked = ds_node_get(p->map, "rate");
  bool server = k == 1 || k == 2, find = asked && asked->kind == DS_NODE_SCALAR && strcmp(asked->text, "find") == 0;
  if (!find && !rate(p)) return false;
  if (find) p->rate = 1; /* where the search begins */
  if (find && server) w->series = DS_SERIES_SEARCH;
  if (server && p->rate == 0) return missing(p, "rate", "rate: 20 /s, the target of the server, or rate: find");
  if (!server && p->rate > 0 && (find || k == 3)) {
    ds_complain_key(p->r->d, ds_node_get(p->map, "rate"), "%s stands beside scenario: %s",
                    ds_name(p->r, "rate"), scenarios[k]);
    ds_diag_expected(p->r->d, k == 3 ? "a rate only beside server, interactive and offline"
                                     : "rate: 40 /s, the samples a second that are expected");
    return false;
  }
  if (k == 2 && mlperf[m].fast_ttft_ms == 0) {
    ds_complain(p->r->d, n, "%s has no interactive scenario", names[m]);
    ds_diag_expected(p->r->d, "server or offline");
    return false;
  }
  /* Both minima: the samples of the data set, and 600 s: of arrivals, or, offline, a tenth more
   * than that at the rate expected (kSlack of loadgen/test_settings_internal.cc). */
  int64_t least = mlperf[m].samples;
  const double of_rate = p->rate * MLPERF_LEAST_S * (server ? 1 : 1.1);
  if (of_rate > (double)least) least = (int64_t)(of_rate + 0.999999);
  if (!server) w->least_ns = (int64_t)MLPERF_LEAST_S * DS_NS_PER_S;
  if (!count(p, "requests", k == 3 ? 0 : least, &p->requests)) return false;
  if (k < 3 && p->requests < least) {
    ds_complain(p->r->d, ds_node_get(p->map, "requests"), "%s is %lld", ds_name(p->r, "requests"),
                (long long)p->requests);
    ds_diag_expected(p->r->d, "at least %lld: the rules ask for all samples%s", (long long)least,
                     p->rate > 0 ? " and 600 s" : "");
    return false;
  }
  p->concurrency = k == 3;
  if (server)
    put_rate(p, "poisson", "");
  else
    put_closed(p);
  if (server) {
    w->limit_ttft_ns = (k == 2 ? mlperf[m].fast_ttft_ms : mlperf[m].ttft_ms) * 1000000;
    w->limit_tpot_ns = (k == 2 ? mlperf[m].fast_tpot_ms : mlperf[m].tpot_ms) * 1000000;
  }
  if (!rows) {
    if (!lengths(p, 0, 0)) return false;
    fprintf(p->f, "input_tokens: %lld\noutput_tokens: %lld\n", (long long)p->input,
            (long long)p->output);
    return true;
  }
  const ds_node *file = ds_node_get(rows, "rows");
  static const char *const row_keys[] = {"rows"};
  char path[1024];
  if (!ds_want_keys(rows, ds_name(p->r, "lengths"), row_keys, 1, p->r->d)) return false;
  if (!file) return missing(p, "lengths.rows", "lengths: {rows: FILE}, a trace");
  if (!ds_want_text(file, ds_name(p->r, "lengths.rows"), path, sizeof path, p->r->d)) return false;
  fprintf(p->f, "lengths: {rows: \"");
  for (const char *c = path; *c; ++c)
    fprintf(p->f, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
  fputs("\", order: equal}\n", p->f);
  return true;
}

/* --- all ----------------------------------------------------------------------------------- */

static bool write_generate(protocol *p, size_t tool, ds_workload *w) {
  switch (tool) {
  case VLLM:
    return vllm(p);
  case SGLANG:
    return sglang(p);
  case INFERENCEX:
    return inferencex(p);
  case GENAI_PERF:
  case AIPERF:
    return nvidia(p, tool == AIPERF);
  case LLMPERF:
    return llmperf(p);
  case GUIDELLM:
    return guidellm(p, w);
  default:
    return loadgen(p, w);
  }
}

static bool check_keys(ds_reader *r, const ds_node *map, size_t tool) {
  for (const ds_node *c = map->first; c; c = c->next) {
    bool known = false;
    for (size_t i = 0; i < LEN(all_keys); ++i) known = known || strcmp(all_keys[i], c->key) == 0;
    if (!known) return ds_want_keys(map, ds_name(r, ""), all_keys, LEN(all_keys), r->d);
  }
  size_t n = 0;
  while (n < LEN(keys_of[0]) && keys_of[tool][n]) ++n;
  return ds_want_keys(map, ds_name(r, ""), keys_of[tool], n, r->d);
}

bool ds_read_protocol(ds_reader *r, const ds_node *map, ds_workload *w) {
  const char *names[LEN(ds_protocols)];
  size_t tool, bytes;
  char *text = NULL, file[64];
  snprintf(r->prefix, sizeof r->prefix, "%s.protocol", r->root);
  if (!ds_want_map(map, ds_name(r, ""), r->d)) return false;
  protocol p = {.r = r, .map = map};
  const ds_node *name = ds_node_get(map, "tool");
  for (size_t i = 0; i < LEN(ds_protocols); ++i) names[i] = ds_protocols[i].name;
  if (!name) return missing(&p, "tool", "tool: vllm-bench; `dryserve list protocols` has more");
  if (!ds_want_choice(name, ds_name(r, "tool"), names, LEN(names), &tool, r->d) ||
      !check_keys(r, map, tool) || !ds_note(r, "tool", name, "", "%s", names[tool]))
    return false;
  snprintf(w->protocol, sizeof w->protocol, "%s", names[tool]);
  p.f = open_memstream(&text, &bytes);
  if (!p.f) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  bool ok = write_generate(&p, tool, w);
  if (p.seconds > 0)
    fprintf(p.f, "duration: %.9f s\n", p.seconds);
  else
    fprintf(p.f, "requests: %lld\n", (long long)p.requests);
  ok = fclose(p.f) == 0 && ok;
  ds_doc doc;
  snprintf(file, sizeof file, "protocol %s", names[tool]);
  if (ok && ds_doc_parse(text, bytes, file, &doc, r->d)) {
    ok = ds_read_generate(r, doc.root, w);
    ds_doc_free(&doc);
  } else {
    ok = false;
  }
  free(text);
  return ok;
}
