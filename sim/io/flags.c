// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/flags.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/from_command.h"
#include "io/units.h"

const ds_option ds_flag_options[] = {
    {"--model", "MODEL", "a model card, a path, or a Hugging Face config.json"},
    {"--hardware", "[Nx]CARD", "an accelerator, and how many of them in all, e.g. 8xh100-sxm"},
    {"--tp", "N", "accelerators per replica (tensor parallel); default 1"},
    {"--weights", "FORMAT", "bf16 fp16 fp8 int8 int4 mxfp4 nvfp4; default: the card's"},
    {"--kv", "FORMAT", "KV cache: bf16 fp16 fp8 int8; default bf16"},
    {"--scheduler", "NAME", "default vllm-v1"},
    {"--rate", "RATE", "requests arrive at random (Poisson), e.g. 12/s"},
    {"--users", "N", "so many people, each with a turn a minute, instead of --rate"},
    {"--input", "TOKENS", "prompt length; default lognormal with mean 550 and p99 3000"},
    {"--output", "TOKENS", "output length; default 128"},
    {"--trace", "FILE", "replay a trace instead of --rate, --input and --output"},
    {"--slo", "LIMITS", "e.g. 'p99 ttft 2s, p99 tpot 100ms'"},
    {"--goodput", "LIMITS",
     "limits per request in milliseconds as vLLM writes them, e.g. ttft:2000 tpot:100"},
};
const size_t ds_n_flag_options = sizeof ds_flag_options / sizeof ds_flag_options[0];

#define GENERATED_REQUESTS 10000 /* enough for a steady p99, and done in a blink */

static bool usage(ds_diag *d, const char *flag, const char *value, const char *what,
                  const char *expected) {
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s '%.100s' %s", flag, value, what);
  ds_diag_expected(d, "%s", expected);
  return false;
}

/* --- limits -------------------------------------------------------------------------------- */

static const char *const metrics[] = {"ttft", "tpot", "itl", "e2e"};
#define N_METRICS  4
#define LIMITS_MAX 16

typedef struct limits {
  char request[N_METRICS][32]; /* times as text; empty: none */
  struct {
    char key[40], value[32];
  } run[LIMITS_MAX];
  size_t n_run;
  char attainment[24];
} limits;

static size_t metric_of(const char *word) {
  size_t i = 0;
  while (i < N_METRICS && strcmp(word, metrics[i]) != 0) ++i;
  return i == N_METRICS && strcmp(word, "e2el") == 0 ? 3 : i;
}

static bool time_text(const char *text, char *out, size_t cap) {
  ds_unit_error e;
  int64_t ns;
  if (!ds_time_parse(text, &ns, &e) || ns <= 0) return false;
  ds_time_format(ns, out, cap);
  return true;
}

/* The next word of *s, in lower case and without the comparison signs that people put between. */
static bool next_word(const char **s, char *out, size_t cap) {
  size_t n = 0;
  *s += strspn(*s, " \t<=:");
  while ((*s)[n] && !strchr(" \t<=:", (*s)[n])) ++n;
  if (n == 0 || n >= cap) return false;
  for (size_t i = 0; i < n; ++i) out[i] = (char)tolower((unsigned char)(*s)[i]);
  out[n] = '\0';
  *s += n;
  return true;
}

static bool percentile_word(const char *word) {
  double p;
  ds_unit_error e;
  if (strcmp(word, "mean") == 0) return true;
  return word[0] == 'p' && isdigit((unsigned char)word[1]) &&
         ds_quantity_parse(word + 1, DS_DIM_NUMBER, &p, &e) && p > 0 && p <= 100;
}

/* "p99 ttft 2s", "ttft 2 s" or "attainment 0.99". A limit on a percentile also says what a good
 * request is. */
static bool one_limit(const char *text, limits *l) {
  char first[32], metric[32], value[32];
  const char *s = text;
  if (!next_word(&s, first, sizeof first)) return false;
  if (strcmp(first, "attainment") == 0) {
    double x;
    ds_unit_error e;
    s += strspn(s, " \t<>=:");
    if (!ds_quantity_parse(s, DS_DIM_NUMBER, &x, &e) || x <= 0 || x > 1) return false;
    ds_quantity_format(x, DS_DIM_NUMBER, l->attainment, sizeof l->attainment);
    return true;
  }
  bool percentile = percentile_word(first);
  if (percentile && !next_word(&s, metric, sizeof metric)) return false;
  size_t m = metric_of(percentile ? metric : first);
  s += strspn(s, " \t<=:");
  if (m == N_METRICS || !time_text(s, value, sizeof value)) return false;
  if (l->request[m][0] == '\0' || !percentile) memcpy(l->request[m], value, sizeof value);
  if (!percentile) return true;
  if (l->n_run == LIMITS_MAX) return false;
  snprintf(l->run[l->n_run].key, sizeof l->run[0].key, "%s_%s", first, metrics[m]);
  memcpy(l->run[l->n_run++].value, value, sizeof value);
  return true;
}

static bool read_slo(const char *value, limits *l, ds_diag *d) {
  static const char expected[] =
      "limits such as 'p99 ttft 2s, p99 tpot 100ms'; metrics are ttft, tpot, itl and e2e";
  for (const char *s = value;;) {
    size_t n = strcspn(s, ",;");
    char part[96];
    if (n >= sizeof part) return usage(d, "--slo", value, "is not understood", expected);
    memcpy(part, s, n);
    part[n] = '\0';
    if (!one_limit(part, l)) return usage(d, "--slo", part, "is not understood", expected);
    if (s[n] == '\0') return true;
    s += n + 1;
  }
}

/* vLLM: --goodput ttft:2000 tpot:100, in milliseconds. */
static bool read_goodput(const char *value, limits *l, ds_diag *d) {
  static const char expected[] =
      "limits in milliseconds such as ttft:2000 tpot:100; metrics are ttft, tpot and e2el";
  for (const char *s = value + strspn(value, " ,"); *s; s += strspn(s, " ,")) {
    char part[64], ms[48];
    size_t n = strcspn(s, " ,"), name = strcspn(s, ":");
    if (n >= sizeof part - 4 || name >= n)
      return usage(d, "--goodput", value, "is not understood", expected);
    memcpy(part, s, name);
    part[name] = '\0';
    snprintf(ms, sizeof ms, "%.*s ms", (int)(n - name - 1), s + name + 1);
    size_t m = metric_of(part);
    if (m == N_METRICS || !time_text(ms, l->request[m], sizeof l->request[m]))
      return usage(d, "--goodput", value, "is not understood", expected);
    s += n;
  }
  return true;
}

/* --- writing ------------------------------------------------------------------------------- */

/* Quoted where YAML would see more than text. */
static void put_text(FILE *f, const char *s) {
  static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
  if (*s && *s != '-' && strspn(s, safe) == strlen(s) && strcmp(s, "null") != 0) {
    fputs(s, f);
    return;
  }
  fputc('"', f);
  for (; *s; ++s) {
    if (*s == '"' || *s == '\\') fputc('\\', f);
    fputc(*s, f);
  }
  fputc('"', f);
}

static void put_pair(FILE *f, const char *key, const char *value) {
  fprintf(f, "%s: ", key);
  put_text(f, value);
  fputc('\n', f);
}

static void put_slo(FILE *f, const limits *l) {
  const char *comma = "";
  bool request = false;
  for (size_t i = 0; i < N_METRICS; ++i) request = request || l->request[i][0];
  if (!request && l->n_run == 0 && !l->attainment[0]) return;
  fputs("slo:\n", f);
  if (request) fputs("  request: {", f);
  for (size_t i = 0; i < N_METRICS; ++i) {
    if (!l->request[i][0]) continue;
    fprintf(f, "%s%s: %s", comma, metrics[i], l->request[i]);
    comma = ", ";
  }
  if (request) fputs("}\n", f);
  if (l->n_run == 0 && !l->attainment[0]) return;
  fputs("  run: {", f);
  comma = "";
  for (size_t i = 0; i < l->n_run; ++i, comma = ", ")
    fprintf(f, "%s%s: %s", comma, l->run[i].key, l->run[i].value);
  if (l->attainment[0]) fprintf(f, "%sattainment: %s", comma, l->attainment);
  fputs("}\n", f);
}

typedef struct shorthand {
  const char *model, *card, *weights, *kv, *scheduler, *input, *output, *trace;
  int64_t devices, tp; /* devices 0: not said */
  int64_t users; /* 0: by rate */
  char rate[48];
  limits slo;
  const char *command, *startup;
  ds_engine_command engine; /* of the command; all zero without */
} shorthand;

static void put_law(FILE *f, const char *key, const char *value, const char *preset) {
  fprintf(f, "    %s: ", key);
  if (!value)
    fputs(preset, f);
  else if (value[0] == '{')
    fputs(value, f); /* a law, written out */
  else
    fprintf(f, "{law: fixed, value: %s}", value);
  fputc('\n', f);
}

/* What only an engine's command says. */
static void put_engine(FILE *f, const ds_engine_command *e) {
  if (e->pipeline_parallel > 0)
    fprintf(f, "    pipeline_parallel: %lld\n", (long long)e->pipeline_parallel);
  if (e->options[0]) fprintf(f, "    scheduler_options: {%s}\n", e->options);
  if (e->max_model_len > 0) fprintf(f, "    max_model_len: %lld\n", (long long)e->max_model_len);
  if (e->kv_blocks > 0) fprintf(f, "    kv_blocks: %lld\n", (long long)e->kv_blocks);
  if (e->kv_block_tokens > 0)
    fprintf(f, "    kv_block_tokens: %lld\n", (long long)e->kv_block_tokens);
  if (e->memory_utilization > 0)
    fprintf(f, "    gpu_memory_utilization: %g\n", e->memory_utilization);
  if (e->language_model_only) fprintf(f, "    language_model_only: true\n");
  if (e->encoder_by_image) fprintf(f, "    encoder_parallel: data\n");
  if (e->prefix_cache >= 0) fprintf(f, "    prefix_cache: %s\n", e->prefix_cache ? "true" : "false");
}

/* Of lines of 80 columns; one that goes on is indented. */
static void put_comment(FILE *f, const char *text) {
  int column = fprintf(f, "#");
  for (bool first = true; *text; first = false) {
    int n = (int)strcspn(text, " ");
    if (!first && column + 1 + n > 80) column = fprintf(f, "\n#  ") - 1;
    column += 1 + n;
    fputc(' ', f);
    for (; n > 0; --n, ++text) fputc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, f);
    text += strspn(text, " ");
  }
  fputc('\n', f);
}

static void put_scenario(FILE *f, const shorthand *s) {
  int64_t width = s->tp * (s->engine.pipeline_parallel > 0 ? s->engine.pipeline_parallel : 1);
  int64_t replicas = s->devices > 0           ? s->devices / width
                     : s->engine.replicas > 0 ? s->engine.replicas
                                              : 1;
  for (size_t i = 0; i < s->engine.n_notes; ++i) {
    put_comment(f, s->engine.notes[i]);
  }
  fputs("scenario: 1\n", f);
  put_pair(f, "model", s->model);
  if (s->weights) put_pair(f, "weights", s->weights);
  if (s->kv) put_pair(f, "kv_cache", s->kv);
  fputs("pools:\n  - name: main\n", f);
  put_pair(f, "    hardware", s->card);
  fprintf(f, "    replicas: %lld\n    tensor_parallel: %lld\n", (long long)replicas,
          (long long)s->tp);
  put_pair(f, "    scheduler", s->scheduler ? s->scheduler : "vllm-v1");
  if (s->command) put_engine(f, &s->engine);
  fputs("workload:\n", f);
  if (s->trace) {
    put_pair(f, "  trace", s->trace);
  } else {
    fprintf(f, "  generate:\n    requests: %d\n", GENERATED_REQUESTS);
    if (s->users > 0)
      fprintf(f, "    arrivals: {process: users, users: %lld, every: 1 min}\n", (long long)s->users);
    else
      fprintf(f, "    arrivals: {process: poisson, rate: %s}\n", s->rate);
    put_law(f, "input_tokens", s->input, "{law: lognormal, mean: 550, p99: 3000}");
    put_law(f, "output_tokens", s->output, "{law: fixed, value: 128}");
  }
  put_slo(f, &s->slo);
}

/* --- reading ------------------------------------------------------------------------------- */

static bool read_count(const char *flag, const char *value, int64_t max, int64_t *out, ds_diag *d) {
  ds_unit_error e;
  char expected[64];
  snprintf(expected, sizeof expected, "a whole number from 1 to %lld", (long long)max);
  if (ds_integer_parse(value, out, &e) && *out >= 1 && *out <= max) return true;
  return usage(d, flag, value, "is not a count", expected);
}

static bool read_hardware(const char *value, shorthand *s, ds_diag *d) {
  size_t digits = strspn(value, "0123456789");
  char count[16];
  s->card = value;
  if (digits == 0 || digits >= sizeof count || (value[digits] != 'x' && value[digits] != 'X'))
    return true;
  memcpy(count, value, digits);
  count[digits] = '\0';
  s->card = value + digits + 1;
  if (s->card[0] == '\0')
    return usage(d, "--hardware", value, "names no card",
                 "a number and a card, such as 8xh100-sxm");
  return read_count("--hardware", count, 65536000000, &s->devices, d);
}

static bool read_rate(const char *value, shorthand *s, ds_diag *d) {
  ds_unit_error e;
  double rate;
  if (!ds_quantity_parse(value, DS_DIM_RATE, &rate, &e)) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--rate: %s", e.text);
    ds_diag_expected(d, "%s", e.expected);
    if (e.hint[0]) ds_diag_hint(d, "%s", e.hint);
    return false;
  }
  if (rate <= 0 || rate > 1e9)
    return usage(d, "--rate", value, "is out of range", "a rate above 0, such as 12/s");
  ds_quantity_format(rate, DS_DIM_RATE, s->rate, sizeof s->rate);
  return true;
}

static bool read_tokens(const char *flag, const char *value, const char **out, ds_diag *d) {
  int64_t n;
  *out = value;
  if (value[0] == '{' && value[strlen(value) - 1] == '}' && !strpbrk(value, "\r\n")) return true;
  return read_count(flag, value, 1000000000, &n, d);
}

static bool read_flag(const ds_flag *f, shorthand *s, ds_diag *d) {
  const struct {
    const char *name;
    const char **to;
  } texts[] = {{"--model", &s->model},
               {"--weights", &s->weights},
               {"--kv", &s->kv},
               {"--scheduler", &s->scheduler},
               {"--trace", &s->trace}};
  if (strcmp(f->name, "--from-command") == 0 || strcmp(f->name, "--startup") == 0) {
    *(f->name[2] == 'f' ? &s->command : &s->startup) = f->value;
    return true;
  }
  if (f->value[0] == '\0') return usage(d, f->name, f->value, "is empty", "a value");
  for (const char *c = f->value; *c; ++c)
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      return usage(d, f->name, f->value, "has a control character", "one line of text");
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    if (strcmp(f->name, texts[i].name) == 0) {
      *texts[i].to = f->value;
      return true;
    }
  if (strcmp(f->name, "--hardware") == 0) return read_hardware(f->value, s, d);
  if (strcmp(f->name, "--tp") == 0) return read_count(f->name, f->value, 65536, &s->tp, d);
  if (strcmp(f->name, "--rate") == 0) return read_rate(f->value, s, d);
  if (strcmp(f->name, "--input") == 0) return read_tokens(f->name, f->value, &s->input, d);
  if (strcmp(f->name, "--output") == 0) return read_tokens(f->name, f->value, &s->output, d);
  if (strcmp(f->name, "--slo") == 0) return read_slo(f->value, &s->slo, d);
  if (strcmp(f->name, "--goodput") == 0) return read_goodput(f->value, &s->slo, d);
  if (strcmp(f->name, "--users") == 0)
    return read_count(f->name, f->value, 100000000, &s->users, d);
  return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "unknown flag %s", f->name);
}

static bool missing(ds_diag *d, const char *what, const char *expected) {
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s is missing", what);
  ds_diag_expected(d, "%s", expected);
  return false;
}

static bool check(const shorthand *s, ds_diag *d) {
  if (!s->model)
    return missing(d, "--model",
                   "--model llama-3.1-8b, or another that `dryserve list models` shows");
  if (!s->card)
    return missing(d, "--hardware",
                   "--hardware h100-sxm, or another that `dryserve list hardware` shows");
  if (s->users > 0 && s->rate[0]) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--users stands beside --rate");
    ds_diag_expected(d, "one of --users 500 and --rate 12/s");
    return false;
  }
  if (s->trace && (s->rate[0] || s->users > 0 || s->input || s->output)) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--trace stands beside %s",
                s->rate[0]     ? "--rate"
                : s->users > 0 ? "--users"
                : s->input     ? "--input"
                               : "--output");
    ds_diag_expected(d, "either --trace, or --rate with --input and --output");
    return false;
  }
  if (!s->trace && !s->rate[0] && s->users == 0)
    return missing(d, "the workload", "--rate 12/s, --users 500 or --trace FILE");
  int64_t pp = s->engine.pipeline_parallel > 0 ? s->engine.pipeline_parallel : 1;
  if (s->devices % (s->tp * pp) == 0) return true;
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0,
              "%lld x %.60s make no whole number of replicas with --tp %lld", (long long)s->devices,
              s->card, (long long)s->tp);
  ds_diag_expected(d, "a number of accelerators that --tp divides");
  return false;
}

/* Flags win over what the command says. */
static bool take_command(shorthand *s, ds_diag *d) {
  ds_engine_command *e = &s->engine;
  if (!s->command && s->startup)
    return missing(d, "--from-command", "--startup beside --from-command 'vllm serve ...'");
  if (!s->command) return true;
  if (!ds_engine_command_parse(s->command, s->startup, e, d)) return false;
  if (!s->model && e->model[0]) s->model = e->model;
  if (!s->weights && e->weights[0]) s->weights = e->weights;
  if (!s->kv && e->kv_cache[0]) s->kv = e->kv_cache;
  if (s->scheduler && strcmp(s->scheduler, e->scheduler) != 0) e->options[0] = '\0';
  if (!s->scheduler) s->scheduler = e->scheduler;
  if (s->tp == 0) s->tp = e->tensor_parallel;
  return true;
}

bool ds_flags_scenario(const ds_flag *flags, size_t n, char **text, ds_diag *d) {
  shorthand s;
  memset(&s, 0, sizeof s);
  *text = NULL;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j)
      if (strcmp(flags[i].name, flags[j].name) == 0 && strcmp(flags[i].name, "--goodput") != 0)
        return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s is given twice", flags[i].name);
    if (!read_flag(&flags[i], &s, d)) return false;
  }
  if (!take_command(&s, d)) return false;
  if (s.tp == 0) s.tp = 1;
  if (!check(&s, d)) return false;
  size_t bytes;
  FILE *f = open_memstream(text, &bytes);
  if (!f) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  put_scenario(f, &s);
  if (fclose(f) == 0) return true;
  free(*text);
  *text = NULL;
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}
