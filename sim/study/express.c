// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/express.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/dist.h"
#include "core/registry.h"
#include "spec/arith.h"
#include "study/source_rules.h"
#include "study/trtllm_bench.h"

#define WHY(...) (snprintf(why, cap, __VA_ARGS__), false)

typedef struct cached {
  char word[128], path[1200];
  bool found;
  ds_model model;
  ds_hw hw;
} cached;

struct ds_card_cache {
  cached *card[2]; /* by kind: models, hardware */
  size_t n[2];
  const ds_engine_card *engine;
};

static cached *find(const ds_card_cache *c, int kind, const char *word) {
  for (size_t i = 0; i < c->n[kind]; i++)
    if (strcmp(c->card[kind][i].word, word) == 0) return &c->card[kind][i];
  return NULL;
}

#define CAPPED " (power capped)"

/* The name without a remark that its power was capped. */
static void plain_part(const char *word, char *out, size_t cap) {
  const char *remark = strstr(word, CAPPED);
  size_t n = remark != NULL ? (size_t)(remark - word) : strlen(word);
  snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), word);
}

static void add(ds_card_cache *c, int kind, const char *word, const ds_data_dirs *dirs) {
  if (find(c, kind, word) != NULL) return;
  cached *grown = realloc(c->card[kind], (c->n[kind] + 1) * sizeof *grown);
  if (grown == NULL) return;
  c->card[kind] = grown;
  cached *k = &grown[c->n[kind]++];
  memset(k, 0, sizeof *k);
  snprintf(k->word, sizeof k->word, "%s", word);
  ds_card_kind what = kind == 0 ? DS_CARD_MODEL : DS_CARD_HARDWARE;
  ds_diag d = {.exit = DS_EXIT_OK};
  char plain[128];
  plain_part(word, plain, sizeof plain);
  ds_node at = {.kind = DS_NODE_SCALAR, .file = "", .text = plain};
  ds_doc doc;
  if (word[0] == '\0' || !ds_card_find(what, plain, ".", dirs, &at, k->path, sizeof k->path, &d)) return;
  if (!ds_card_open(what, k->path, &doc, NULL, &d)) return;
  k->found = kind == 0 ? ds_card_model(&doc, &k->model, &d) : ds_card_hardware(&doc, &k->hw, &d);
  ds_doc_free(&doc);
}

ds_card_cache *ds_card_cache_new(const ds_measured_runs *runs, const ds_data_dirs *dirs) {
  ds_card_cache *c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  for (size_t i = 0; i < runs->n; i++) {
    add(c, 0, runs->run[i].text[DS_RUN_MODEL], dirs);
    add(c, 1, ds_part_of(&runs->run[i]), dirs);
  }
  return c;
}

void ds_card_cache_free(ds_card_cache *c) {
  if (c == NULL) return;
  free(c->card[0]);
  free(c->card[1]);
  free(c);
}

void ds_card_cache_hardware(ds_card_cache *c, const char *gpu, const ds_hw *hw, const char *path) {
  cached *k = find(c, 1, gpu);
  if (k == NULL) return;
  k->hw = *hw;
  k->found = true;
  snprintf(k->path, sizeof k->path, "%s", path);
}

void ds_card_cache_engine(ds_card_cache *c, const ds_engine_card *engine) { c->engine = engine; }

const ds_hw *ds_card_cache_part(const ds_card_cache *c, const char *gpu) {
  const cached *k = find(c, 1, gpu);
  return k != NULL && k->found ? &k->hw : NULL;
}

const char *ds_model_class(const ds_model *m) {
  if (m->experts > 0) return "moe";
  return m->kv_lora > 0 ? "mla" : "dense";
}

/* --- formats ------------------------------------------------------------------------------------ */

static bool starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static const char *weights_of(const ds_measured_run *m, const ds_source_rule *rule, const ds_hw *hw, const ds_model *model,
                              unsigned *blanks) {
  const char *w = m->text[DS_RUN_WEIGHTS];
  bool oss = strstr(m->text[DS_RUN_MODEL], "gpt-oss") != NULL;
  if (w[0] == '\0') {
    *blanks |= DS_BLANK_WEIGHTS;
    return ds_format_names[model->weights];
  }
  if (strcmp(w, "fp16") == 0 || strcmp(w, "bf16") == 0) return "bf16";
  if (oss && strncmp(w, "int", 3) != 0) return "mxfp4"; /* there is no other checkpoint: "FP8" in a table is its cache or a habit */
  /* Checkpoints that ModelOpt or Quark made carry the scales of activations. */
  bool made = starts(m->text[DS_RUN_ENGINE], "TensorRT") || rule->static_scales || strstr(w, "static") != NULL;
  if (starts(w, "fp8") && model->weights == DS_FMT_FP8_BLOCK) return "fp8-block"; /* as published; DeepSeek's is served so */
  if (starts(w, "fp8")) return made && strstr(w, "dynamic") == NULL && strstr(m->text[DS_RUN_NOTES], "fp8_block") == NULL ? "fp8-static" : "fp8";
  if (strcmp(w, "mxfp4") == 0) return "mxfp4";
  if (starts(w, "fp4") || starts(w, "nvfp4"))
    return strcmp(hw->vendor, "AMD") == 0 || !(hw->peak_flops_per_s[DS_MATH_4] > 0) ? "mxfp4" : "nvfp4";
  if (starts(w, "int4")) return "int4";
  if (strcmp(w, "w8a8") == 0 || strcmp(w, "int8") == 0) return "int8";
  if (starts(w, "int8-gptq") || strcmp(w, "int8-wo") == 0) return "int8-wo";
  return NULL;
}

/* MXFP4 experts take 8-bit activations where TensorRT-LLM finds a part of Blackwell's kind, else 16-bit ones
 * (NVIDIA/TensorRT-LLM _torch/model_config.py, get_mxfp4_quant_algo). */
static bool narrow_activations(const ds_measured_run *m, const ds_hw *hw, const char *weights) {
  return strcmp(weights, "mxfp4") == 0 && starts(m->text[DS_RUN_ENGINE], "TensorRT") && hw->peak_flops_per_s[DS_MATH_4] > 0;
}

static const char *kv_of(const ds_measured_run *m, const ds_source_rule *rule, const ds_hw *hw, const char *weights,
                         unsigned *blanks) {
  const char *k = m->text[DS_RUN_KV];
  if (k[0] == '\0' && strcmp(weights, "mxfp4") == 0 && hw->peak_flops_per_s[DS_MATH_4] > 0 &&
      strstr(m->text[DS_RUN_NOTES], "fp8 per llm_options for DeepSeek and for gpt-oss on Blackwell") != NULL)
    return "fp8";
  if (starts(k, "fp8")) return "fp8";
  if (k[0] != '\0') return "bf16";
  bool narrow = strcmp(weights, "bf16") != 0;
  if (narrow) *blanks |= DS_BLANK_KV; /* with 16-bit weights there is no other habit */
  bool fp8 = narrow && strncmp(weights, "int", 3) != 0 && strcmp(weights, "mxfp4") != 0 &&
             (rule->kv_fp8 || starts(m->text[DS_RUN_ENGINE], "TensorRT"));
  return fp8 ? "fp8" : "bf16";
}

/* --- lengths ------------------------------------------------------------------------------------ */

typedef struct lengths {
  double mean, spread; /* of a uniform law */
  bool lognormal;
  ds_lognormal law;
} lengths;

static bool lengths_of(double mean, double std, bool data_set, lengths *out) {
  *out = (lengths){.mean = mean};
  if (std > 0) out->spread = std * sqrt(3.0);
  if (std >= 0 || !data_set) return true;
  double s2 = log(1 + 0.8 * 0.8);
  out->lognormal = true;
  return ds_lognormal_from(mean, 0.5, mean / exp(s2 / 2), 1, mean * 8, &out->law) == DS_FIT_OK;
}

static uint32_t draw(const lengths *l, ds_purpose what, uint64_t i) {
  ds_rng g = ds_rng_stream(1, what, i);
  double x = l->lognormal ? ds_draw_lognormal(&g, &l->law)
             : l->spread > 0 ? ds_draw_uniform(&g, l->mean - l->spread, l->mean + l->spread)
                             : l->mean;
  return x < 1 ? 1 : (uint32_t)(x + 0.5);
}

static const ds_profile_lengths *profile_in(const ds_source_rule *rule, const char *text) {
  for (size_t i = 0; i < rule->n_profiles; i++)
    if (strstr(text, rule->profile[i].word) != NULL) return &rule->profile[i];
  return NULL;
}

/* Lengths that a source describes in words. */
static bool known_lengths(const ds_measured_run *m, const ds_source_rule *rule, double *in, double *out, double *shared,
                          unsigned *blanks) {
  *in = m->number[DS_RUN_ISL];
  *out = m->number[DS_RUN_OSL];
  const ds_profile_lengths *p = profile_in(rule, m->text[DS_RUN_ID]);
  if (p == NULL) p = profile_in(rule, m->text[DS_RUN_NOTES]); /* which may speak of several */
  if (p != NULL) {
    if (*in < 0) *in = p->input;
    if (rule->profiles_win || *out < 0) *out = p->output;
    *shared = p->shared;
    if (p->guessed) *blanks |= DS_BLANK_LENGTHS;
  }
  return *in > 0 && *out > 0;
}

/* --- the scenario ------------------------------------------------------------------------------- */

typedef struct text {
  char s[4096];
  size_t n;
} text;

static void put(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *fmt, ...) {
  va_list a;
  va_start(a, fmt);
  int k = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, a);
  va_end(a);
  if (k > 0 && t->n + (size_t)k < sizeof t->s) t->n += (size_t)k;
}

static double positive(double x, double otherwise) { return x > 0 ? x : otherwise; }

/* What Splitwise caps its machines to (arXiv 2311.18677, section 6). */
#define SHARE_CAPPED 0.7

/* How a model is spread: tp x pp devices a copy. */
typedef struct spread {
  int64_t tp, pp, dp, ep, copies;
} spread;

static ds_format format_of(const char *name) {
  for (int i = 0; i < DS_FMT_N; i++)
    if (strcmp(name, ds_format_names[i]) == 0) return (ds_format)i;
  return DS_FMT_BF16;
}

static double weight_bytes(const char *format, const ds_model *m) {
  return ds_model_params(m) * ds_format_weight_bytes(format_of(format));
}

static bool spread_of(const ds_measured_run *m, const ds_source_rule *rule, const cached *model, const cached *hw,
                      const char *weights, spread *s, unsigned *blanks, char *why, size_t cap) {
  if (strstr(m->text[DS_RUN_SCHED_NOTES], "isaggregated") != NULL)
    return WHY("prefill and decode on different devices");
  bool two = rule->card_of_two != NULL && strcmp(m->text[DS_RUN_GPU], rule->card_of_two) == 0;
  int64_t each = two ? 2 : 1, gpus = each * (int64_t)positive(m->number[DS_RUN_N_GPUS], 1);
  s->pp = (int64_t)positive(m->number[DS_RUN_PP], 1);
  s->dp = (int64_t)positive(m->number[DS_RUN_DP], 1);
  s->ep = (int64_t)positive(m->number[DS_RUN_EP], 1);
  if (m->number[DS_RUN_TP] > 0) {
    s->tp = each * (int64_t)m->number[DS_RUN_TP];
  } else {
    *blanks |= DS_BLANK_PARALLEL;
    s->tp = gpus / s->pp;
    double bytes = weight_bytes(weights, &model->model);
    for (int64_t t = 1; rule->smallest_tp && t < s->tp; t *= 2)
      if (gpus % t == 0 && bytes / (double)t <= 0.7 * hw->hw.memory_bytes) s->tp = t;
  }
  bool dense = strcmp(ds_model_class(&model->model), "dense") == 0;
  /* TensorRT-LLM's tables of 2025 give devices as tensor parallelism and say beside them that attention is data parallel.
   * Their command for mixtures gives expert parallelism, too, and the same page of a release later, with the same figures
   * for some rows, calls such runs DEP: as many ranks of each. */
  if (!dense && s->dp == 1 && strstr(m->text[DS_RUN_NOTES], "enable attention-DP") != NULL) {
    *blanks |= DS_BLANK_PARALLEL;
    s->dp = s->tp;
    if (m->number[DS_RUN_EP] < 0) s->ep = s->tp;
    s->tp = 1;
  }
  if (dense) s->dp = s->ep = 1;
  int64_t devices = s->tp * s->pp * s->dp;
  if (devices > gpus) s->dp = 1, devices = s->tp * s->pp;
  s->copies = gpus / (devices > 0 ? devices : 1);
  if (s->copies < 1 || s->copies * devices != gpus) return WHY("tensor parallelism and device count do not agree");
  return true;
}

/* Ran by trtllm-bench on the PyTorch backend without limits of its own. */
static bool by_trtllm_bench(const ds_measured_run *m, const ds_engine_rule *e) {
  return e->current && strcmp(e->scheduler, "trtllm") == 0 && m->number[DS_RUN_MAX_SEQS] < 0 &&
         strstr(m->text[DS_RUN_SCHED_NOTES], "PyTorch backend, trtllm-bench throughput") != NULL;
}

static ds_bench_limits bench_limits(const cached *model, const cached *hw, const spread *s, const char *weights,
                                    const char *kv, double input, double output) {
  ds_run run = {.model = model->model, .weights = format_of(weights), .kv_cache = format_of(kv)};
  run.expert_weights = run.weights;
  run.pool.hw = hw->hw;
  run.pool.tensor_parallel = s->tp;
  run.pool.data_parallel = s->dp;
  run.pool.pipeline_parallel = s->pp;
  return ds_trtllm_bench_limits(&run, input, output);
}

static void scheduler_text(text *t, const ds_measured_run *m, const ds_source_rule *rule, const ds_engine_rule *e,
                           const ds_expressed *x, const ds_bench_limits *bench) {
  double c = m->number[DS_RUN_CONCURRENCY], seqs = m->number[DS_RUN_MAX_SEQS], tokens = m->number[DS_RUN_MAX_TOKENS];
  bool batch = x->protocol == DS_PROTOCOL_STATIC;
  if (seqs < 0 && (rule->seats_are_slots || batch) && c > 0) seqs = c;
  if (tokens < 0 && rule->max_tokens > 0 && strcmp(e->scheduler, "vllm-v1") == 0) tokens = rule->max_tokens;
  put(t, "    scheduler: %s\n", e->scheduler);
  if (strcmp(e->scheduler, "static") == 0) {
    put(t, "    scheduler_options: {max_batch_size: %.0f}\n", positive(c, 8));
    return;
  }
  const char *s = strcmp(e->scheduler, "trtllm") == 0   ? "max_batch_size"
                  : strcmp(e->scheduler, "sglang") == 0 ? "max_running_requests"
                                                        : "max_num_seqs";
  const char *b = strcmp(e->scheduler, "trtllm") == 0   ? "max_num_tokens"
                  : strcmp(e->scheduler, "sglang") == 0 ? "chunked_prefill_size"
                                                        : "max_num_batched_tokens";
  if (bench != NULL) {
    put(t, "    scheduler_options: {max_batch_size: %lld, max_num_tokens: %lld, enable_chunked_context: false}\n",
        (long long)bench->max_batch_size, (long long)bench->max_num_tokens);
    return;
  }
  char source[80];
  ds_measured_source(m, source, sizeof source);
  const ds_script_rule *script = ds_script_rule_of(m, source);
  if (script != NULL && script->options == NULL) script = NULL;
  if (script != NULL) tokens = -1; /* it says so itself */
  if (seqs < 0 && tokens < 0 && script == NULL) return;
  put(t, "    scheduler_options: {");
  if (seqs > 0) put(t, "%s: %.0f", s, seqs);
  if (tokens > 0) put(t, "%s%s: %.0f", seqs > 0 ? ", " : "", b, tokens > seqs ? tokens : seqs);
  if (script != NULL) put(t, "%s%s", seqs > 0 || tokens > 0 ? ", " : "", script->options);
  put(t, "}\n");
}

static bool scenario_of(const ds_measured_run *m, const ds_source_rule *rule, const ds_engine_rule *e,
                        const cached *model, const cached *hw, const spread *s, const char *weights, const char *kv,
                        const ds_bench_limits *bench, const ds_engine_card *fitted, const ds_data_dirs *dirs, ds_expressed *x, char *why, size_t cap) {
  text t = {"", 0};
  /* Copies share what arrives; at the edge of its limits each is there, and one is enough. */
  bool open = (x->protocol == DS_PROTOCOL_OPEN && !x->at_its_edge) || x->protocol == DS_PROTOCOL_CLOSED;
  x->copies = open ? 1 : s->copies;
  put(&t, "scenario: 1\nmodel: '%s'\n", model->path);
  if (narrow_activations(m, &hw->hw, weights)) put(&t, "expert_weights: mxfp4-a8\n");
  put(&t, "weights: %s\nkv_cache: %s\npools:\n  - name: main\n    hardware: '%s'\n    engine: %s\n",
      weights, kv, hw->path, ds_engine_card_on(rule, e->card, hw->hw.vendor));
  put(&t, "    replicas: %lld\n    tensor_parallel: %lld\n", (long long)(open ? s->copies : 1), (long long)s->tp);
  if (s->pp > 1) put(&t, "    pipeline_parallel: %lld\n", (long long)s->pp);
  if (s->dp > 1) put(&t, "    data_parallel: %lld\n", (long long)s->dp);
  if (s->ep > 1) put(&t, "    expert_parallel: %lld\n", (long long)s->ep);
  bool of_free = strcmp(e->scheduler, "trtllm") == 0; /* TensorRT-LLM takes its share of what everything else leaves */
  put(&t, "    gpu_memory_utilization: %g\n", of_free ? 0.99 : e->memory);
  if (strcmp(e->scheduler, "static") != 0) put(&t, "    prefix_cache: %s\n", rule->prompts > 0 ? "true" : "false");
  if (strstr(m->text[DS_RUN_GPU], CAPPED) != NULL) put(&t, "    power_cap: %.0f W\n", SHARE_CAPPED * hw->hw.power_w);
  scheduler_text(&t, m, rule, e, x, bench);
  put(&t, "workload:\n  generate:\n    requests: 1\n    arrivals: {process: constant, rate: 1 /s}\n"
          "    input_tokens: {law: fixed, value: 1}\n    output_tokens: {law: fixed, value: 1}\nseed: 1\n");
  ds_diag d = {.exit = DS_EXIT_OK};
  x->scenario = calloc(1, sizeof *x->scenario);
  if (x->scenario == NULL) return WHY("out of memory");
  if (!ds_scenario_parse(t.s, t.n, "command line", ".", NULL, 0, dirs, x->scenario, &d)) {
    free(x->scenario);
    x->scenario = NULL;
    return WHY("%s", d.text);
  }
  ds_run *run = &x->scenario->run;
  run->pool.hw = hw->hw; /* a card that is being fitted */
  if (fitted != NULL && strcmp(fitted->name, run->pool.engine.name) == 0) run->pool.engine = *fitted;
  bool http = x->protocol == DS_PROTOCOL_OPEN || x->protocol == DS_PROTOCOL_CLOSED;
  if (!http || rule->in_process) run->pool.engine.api_per_request_s = run->pool.engine.api_per_token_s = run->pool.engine.tokenise_s = 0;
  if (rule->in_process) run->pool.engine.plans_ahead = false;
  char source[80];
  ds_measured_source(m, source, sizeof source);
  const ds_script_rule *script = ds_script_rule_of(m, source);
  if (script != NULL && script->marlin) run->pool.engine.mxfp4_marlin = true;
  run->pool.attention_8bit = ds_attention_8bit_of(&run->pool.hw, &run->pool.engine);
  if (bench != NULL) ds_trtllm_bench_graphs(&run->pool.engine, bench->max_batch_size);
  if (of_free) ds_trtllm_kv_share(run, e->memory);
  return true;
}

/* --- requests ----------------------------------------------------------------------------------- */

#define MOST_REQUESTS 60000

/* Prompts that take turns: a beginning that all share, and the rest of each. */
static bool repeat_prompts(const ds_source_rule *rule, double shared, ds_expressed *x) {
  x->spans = calloc(2 * x->n, sizeof *x->spans);
  if (x->spans == NULL) return false;
  for (size_t i = 0; i < x->n; i++) {
    ds_request *r = &x->request[i];
    ds_span *s = &x->spans[2 * i];
    uint32_t front = (uint32_t)shared < r->input_tokens ? (uint32_t)shared : 0;
    if (front > 0) s[r->n_spans++] = (ds_span){0, DS_SPACE_NAMED, front};
    s[r->n_spans++] = (ds_span){1 + i % (size_t)rule->prompts, DS_SPACE_NAMED, r->input_tokens - front};
    r->spans = s;
  }
  return true;
}

static bool requests_of(const ds_measured_run *m, double input, double output, bool data_set, ds_expressed *x,
                        char *why, size_t cap) {
  lengths in, out;
  if (!lengths_of(input, m->number[DS_RUN_ISL_STD], data_set, &in) ||
      !lengths_of(output, m->number[DS_RUN_OSL_STD], data_set, &out))
    return WHY("lengths without a law");
  if (in.lognormal || out.lognormal) x->blanks |= DS_BLANK_LENGTHS;
  double c = m->number[DS_RUN_CONCURRENCY], rate = m->number[DS_RUN_RATE], n = m->number[DS_RUN_REQUESTS];
  if (n <= 0 && x->protocol != DS_PROTOCOL_STATIC) x->blanks |= DS_BLANK_REQUESTS;
  if (x->protocol == DS_PROTOCOL_STATIC) n = c;
  else if (x->protocol == DS_PROTOCOL_CLOSED) n = positive(n, 10 * c);
  else if (x->protocol == DS_PROTOCOL_OPEN) n = positive(n, rate * 600);
  else n = positive(n, 3000);
  n = n / (double)x->copies;
  if (n > MOST_REQUESTS) n = MOST_REQUESTS; /* long after ramps stopped to matter: 30 batches of 2,048 */
  x->n = n < 1 ? 1 : (size_t)n;
  x->request = calloc(x->n, sizeof *x->request);
  if (x->request == NULL) return WHY("out of memory");
  ds_rng gaps = ds_rng_stream(1, DS_PURPOSE_ARRIVAL, 0);
  double at = 0, sum = 0;
  bool poisson = strcmp(m->text[DS_RUN_KIND], "poisson") == 0;
  for (size_t i = 0; i < x->n; i++) {
    ds_request *r = &x->request[i];
    r->input_tokens = draw(&in, DS_PURPOSE_INPUT_TOKENS, i);
    r->output_tokens = r->max_tokens = draw(&out, DS_PURPOSE_OUTPUT_TOKENS, i);
    sum += r->output_tokens;
    if (x->protocol != DS_PROTOCOL_OPEN) continue;
    r->arrival_ns = (int64_t)(at * 1e9);
    at += (poisson ? ds_draw_exponential(&gaps, 1 / rate) : 1 / rate) * (double)x->copies;
  }
  x->mean_output = sum / (double)x->n;
  if (x->protocol == DS_PROTOCOL_CLOSED) {
    x->options.closed_loop = true;
    x->options.concurrency = (uint64_t)c;
  }
  return true;
}

static bool protocol_of(const ds_measured_run *m, ds_protocol *out, char *why, size_t cap) {
  const char *kind = m->text[DS_RUN_KIND];
  bool seats = m->number[DS_RUN_CONCURRENCY] > 0;
  if (strcmp(kind, "offline") == 0) {
    *out = seats ? DS_PROTOCOL_STATIC : DS_PROTOCOL_OFFLINE;
    return true;
  }
  if (strcmp(kind, "concurrency") == 0) {
    *out = DS_PROTOCOL_CLOSED;
    return seats || WHY("a closed loop without its concurrency");
  }
  if (strcmp(kind, "poisson") == 0 || strcmp(kind, "fixed_rate") == 0) {
    *out = DS_PROTOCOL_OPEN;
    return m->number[DS_RUN_RATE] > 0 || WHY("an open loop without its rate");
  }
  return WHY("workload_kind '%.40s'", kind);
}

/* "latency constraint ttft 2000ms / tpot 200ms": the rate was raised until one of them was met no more. */
static void read_limits(const ds_measured_run *m, ds_expressed *x) {
  const char *ttft = strstr(m->text[DS_RUN_NOTES], "latency constraint ttft "), *tpot = ttft != NULL ? strstr(ttft, "ms / tpot ") : NULL;
  if (tpot == NULL || x->protocol != DS_PROTOCOL_OPEN) return;
  x->limit_ttft_ms = strtod(ttft + strlen("latency constraint ttft "), NULL);
  x->limit_tpot_ms = strtod(tpot + strlen("ms / tpot "), NULL);
  x->at_its_edge = x->limit_ttft_ms > 0 && x->limit_tpot_ms > 0;
}

static bool speculates(const ds_measured_run *m) {
  const char *s = m->text[DS_RUN_SCHED_NOTES], *n = m->text[DS_RUN_NOTES];
  return strstr(s, "EAGLE") != NULL || strstr(s, "peculative") != NULL || strstr(n, "peculative") != NULL;
}

bool ds_express(const ds_measured_run *m, const ds_card_cache *cards, const ds_data_dirs *dirs, ds_expressed *x,
                char *why, size_t cap) {
  memset(x, 0, sizeof *x);
  char source[80];
  ds_measured_source(m, source, sizeof source);
  const ds_source_rule *rule = ds_source_rule_of(source);
  const cached *model = find(cards, 0, m->text[DS_RUN_MODEL]), *hw = find(cards, 1, ds_part_of(m));
  double input, output, shared = 0;
  if (strstr(m->text[DS_RUN_NOTES], "CAUTION") != NULL) return WHY("its file says CAUTION");
  if (hw == NULL || !hw->found) return WHY("no hardware card for %.60s", m->text[DS_RUN_GPU]);
  if (model == NULL || !model->found) return WHY("no model card for %.60s", m->text[DS_RUN_MODEL]);
  if (speculates(m)) return WHY("speculative decoding");
  const ds_engine_rule *e = ds_engine_rule_of(m, rule, &x->blanks);
  if (e == NULL) return WHY("engine %.60s", m->text[DS_RUN_ENGINE]);
  if (ds_part_is_open(m)) x->blanks |= DS_BLANK_PART;
  const char *weights = weights_of(m, rule, &hw->hw, &model->model, &x->blanks);
  if (weights == NULL) return WHY("weight format %.40s", m->text[DS_RUN_WEIGHTS]);
  if (!known_lengths(m, rule, &input, &output, &shared, &x->blanks)) return WHY("lengths not published");
  spread s;
  if (!protocol_of(m, &x->protocol, why, cap) ||
      !spread_of(m, rule, model, hw, weights, &s, &x->blanks, why, cap))
    return false;
  read_limits(m, x);
  const char *kv = kv_of(m, rule, &hw->hw, weights, &x->blanks);
  bool data_set = rule->data_set || strstr(m->text[DS_RUN_NOTES], "hareGPT") != NULL ||
                  strstr(m->text[DS_RUN_NOTES], "sharegpt") != NULL;
  bool bench = by_trtllm_bench(m, e);
  ds_bench_limits limits = {0, 0};
  if (bench) limits = bench_limits(model, hw, &s, weights, kv, input, output);
  if (!scenario_of(m, rule, e, model, hw, &s, weights, kv, bench ? &limits : NULL, cards->engine, dirs, x, why, cap) ||
      !requests_of(m, input, output, data_set, x, why, cap)) {
    ds_expressed_free(x);
    return false;
  }
  if (rule->prompts > 0 && !repeat_prompts(rule, shared, x)) {
    ds_expressed_free(x);
    return WHY("out of memory");
  }
  char grade = m->text[DS_RUN_GRADE][0] != '\0' ? m->text[DS_RUN_GRADE][0] : rule->grade;
  x->client_known = rule->client_known;
  x->engine_current = e->current && (x->blanks & DS_BLANK_VERSION) == 0;
  bool dense = strcmp(ds_model_class(&model->model), "dense") == 0;
  x->stratum = hw->hw.grade != DS_GRADE_MEASURED || !e->current || grade == 'C' ? DS_STRATUM_C
               : dense                                                        ? DS_STRATUM_A
                                                                              : DS_STRATUM_B;
  return true;
}

void ds_expressed_free(ds_expressed *x) {
  if (x->scenario != NULL) ds_scenario_free(x->scenario);
  free(x->scenario);
  free(x->request);
  free(x->spans);
  x->spans = NULL;
  x->scenario = NULL;
  x->request = NULL;
}
