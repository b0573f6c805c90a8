// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/from_command.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "io/units.h"

#define LEN(a)    (sizeof(a) / sizeof((a)[0]))
#define WORDS_MAX 256

enum { VLLM = 1, SGLANG = 2, TRTLLM = 4 };
typedef enum target {
  MODEL,
  TP,
  PP,
  REPLICAS,
  KV_FORMAT,
  QUANTIZATION,
  DTYPE,
  MAX_LEN,
  MEMORY,
  FREE_MEMORY,
  BLOCK,
  KV_BLOCKS,
  KV_TOKENS,
  PREFIX_ON,
  PREFIX_OFF,
  TEXT_ONLY,  /* without the encoder of images */
  ENCODER_TP, /* weights or data */
  OPTION,     /* of the scheduler, under `option`, with the value as it is */
  OPTION_ON,  /* without a value */
  OPTION_OFF, /* the same, off */
  NO_EFFECT,  /* a value, about the front end */
  NO_EFFECT_FLAG
} target;

/* Names as the engines write them, with hyphens. */
static const struct {
  const char *name;
  int engines;
  target to;
  const char *option;
} known[] = {
    {"model", VLLM | TRTLLM, MODEL, NULL},
    {"model-path", SGLANG, MODEL, NULL},
    {"model", SGLANG, MODEL, NULL},
    {"tensor-parallel-size", VLLM | SGLANG, TP, NULL},
    {"tp", VLLM | SGLANG, TP, NULL},
    {"tp-size", SGLANG | TRTLLM, TP, NULL},
    {"pipeline-parallel-size", VLLM | SGLANG, PP, NULL},
    {"pp", VLLM, PP, NULL},
    {"pp-size", SGLANG | TRTLLM, PP, NULL},
    {"data-parallel-size", VLLM | SGLANG, REPLICAS, NULL},
    {"dp", VLLM | SGLANG, REPLICAS, NULL},
    {"dp-size", SGLANG, REPLICAS, NULL},
    {"kv-cache-dtype", VLLM | SGLANG | TRTLLM, KV_FORMAT, NULL},
    {"quantization", VLLM | SGLANG, QUANTIZATION, NULL},
    {"q", VLLM, QUANTIZATION, NULL},
    {"dtype", VLLM | SGLANG, DTYPE, NULL},
    {"max-model-len", VLLM, MAX_LEN, NULL},
    {"context-length", SGLANG, MAX_LEN, NULL},
    {"max-seq-len", TRTLLM, MAX_LEN, NULL},
    {"gpu-memory-utilization", VLLM, MEMORY, NULL},
    {"mem-fraction-static", SGLANG, MEMORY, NULL},
    {"kv-cache-free-gpu-memory-fraction", TRTLLM, FREE_MEMORY, NULL},
    {"free-gpu-memory-fraction", TRTLLM, FREE_MEMORY, NULL},
    {"block-size", VLLM, BLOCK, NULL},
    {"page-size", SGLANG, BLOCK, NULL},
    {"num-gpu-blocks-override", VLLM, KV_BLOCKS, NULL},
    {"max-total-tokens", SGLANG, KV_TOKENS, NULL},
    {"enable-prefix-caching", VLLM, PREFIX_ON, NULL},
    {"no-enable-prefix-caching", VLLM, PREFIX_OFF, NULL},
    {"disable-radix-cache", SGLANG, PREFIX_OFF, NULL},
    {"language-model-only", VLLM, TEXT_ONLY, NULL},
    {"mm-encoder-tp-mode", VLLM, ENCODER_TP, NULL},
    {"max-num-seqs", VLLM, OPTION, "max_num_seqs"},
    {"max-num-batched-tokens", VLLM, OPTION, "max_num_batched_tokens"},
    {"long-prefill-token-threshold", VLLM, OPTION, "long_prefill_token_threshold"},
    {"scheduling-policy", VLLM, OPTION, "scheduling_policy"},
    {"enable-chunked-prefill", VLLM, OPTION_ON, "enable_chunked_prefill"},
    {"no-enable-chunked-prefill", VLLM, OPTION_OFF, "enable_chunked_prefill"},
    {"async-scheduling", VLLM, OPTION_ON, "async_scheduling"},
    {"no-async-scheduling", VLLM, OPTION_OFF, "async_scheduling"},
    {"max-running-requests", SGLANG, OPTION, "max_running_requests"},
    {"max-prefill-tokens", SGLANG, OPTION, "max_prefill_tokens"},
    {"chunked-prefill-size", SGLANG, OPTION, "chunked_prefill_size"},
    {"schedule-policy", SGLANG, OPTION, "schedule_policy"},
    {"schedule-conservativeness", SGLANG, OPTION, "schedule_conservativeness"},
    {"enable-mixed-chunk", SGLANG, OPTION_ON, "enable_mixed_chunk"},
    {"disable-overlap-schedule", SGLANG, OPTION_OFF, "overlap"},
    {"max-batch-size", TRTLLM, OPTION, "max_batch_size"},
    {"max-num-tokens", TRTLLM, OPTION, "max_num_tokens"},
    {"host", VLLM | SGLANG | TRTLLM, NO_EFFECT, NULL},
    {"port", VLLM | SGLANG | TRTLLM, NO_EFFECT, NULL},
    {"api-key", VLLM | SGLANG, NO_EFFECT, NULL},
    {"served-model-name", VLLM | SGLANG, NO_EFFECT, NULL},
    {"tokenizer", VLLM | TRTLLM, NO_EFFECT, NULL},
    {"tokenizer-path", SGLANG, NO_EFFECT, NULL},
    {"download-dir", VLLM | SGLANG, NO_EFFECT, NULL},
    {"chat-template", VLLM | SGLANG, NO_EFFECT, NULL},
    {"seed", VLLM, NO_EFFECT, NULL},
    {"random-seed", SGLANG, NO_EFFECT, NULL},
    {"trust-remote-code", VLLM | SGLANG | TRTLLM, NO_EFFECT_FLAG, NULL},
    {"disable-log-requests", VLLM, NO_EFFECT_FLAG, NULL},
    {"disable-log-stats", VLLM, NO_EFFECT_FLAG, NULL},
    {"no-enable-log-requests", VLLM, NO_EFFECT_FLAG, NULL},
};

/* Where an engine's scheduler is not there, vllm-v1's limits of the same meaning. */
static const struct {
  const char *option, *vllm;
} instead[] = {{"max_running_requests", "max_num_seqs"},
               {"chunked_prefill_size", "max_num_batched_tokens"},
               {"max_batch_size", "max_num_seqs"},
               {"max_num_tokens", "max_num_batched_tokens"}};

typedef struct command {
  ds_engine_command *out;
  int engine;
  bool other_scheduler; /* vllm-v1 stands in */
  char *word[WORDS_MAX];
  size_t n;
  char ignored[380];
  char free_memory[110]; /* the flag that gives a share of what the weights leave free */
  int64_t kv_tokens;
  ds_diag *d;
} command;

static bool refuse(ds_diag *d, const char *expected, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(ds_diag *d, const char *expected, const char *fmt, ...) {
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--from-command: %s", text);
  ds_diag_expected(d, "%s", expected);
  return false;
}

static void note(ds_engine_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(ds_engine_command *c, const char *fmt, ...) {
  if (c->n_notes == LEN(c->notes)) return;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->notes[c->n_notes++], sizeof c->notes[0], fmt, ap);
  va_end(ap);
}

/* --- words, as a shell would split them ---------------------------------------------------- */

/* The first command of s into words; *s then stands behind it. buffer has room for all. */
static bool split(command *c, const char **s, char *buffer) {
  const char *p = *s;
  for (;;) {
    while (*p == ' ' || *p == '\t' || *p == '\r' || (*p == '\\' && p[1] == '\n'))
      p += *p == '\\' ? 2 : 1;
    if (*p == '\n' && c->n == 0) {
      ++p;
      continue;
    }
    if (*p == '\0' || *p == '\n' || *p == '&' || *p == ';' || *p == '|' || *p == '#') break;
    if (c->n == WORDS_MAX)
      return refuse(c->d, "one command of an engine", "more than %d words", WORDS_MAX);
    c->word[c->n++] = buffer;
    char quote = '\0';
    for (; *p; ++p) {
      if (quote == '\0' && strchr(" \t\r\n&;|", *p)) break;
      if (*p == '\\' && p[1] == '\n' && quote != '\'') {
        ++p;
        continue;
      }
      if (*p == quote) {
        quote = '\0';
      } else if (quote == '\0' && (*p == '\'' || *p == '"')) {
        quote = *p;
      } else {
        if (*p == '\\' && quote != '\'' && p[1]) ++p;
        *buffer++ = *p;
      }
    }
    if (quote) return refuse(c->d, "quotes in pairs", "a quote %c is not closed", quote);
    *buffer++ = '\0';
  }
  *s = p;
  return true;
}

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && strcmp(s + n - m, tail) == 0;
}

/* Which engine, and where its arguments begin. Variables and wrappers may stand before. */
static bool find_engine(command *c, size_t *first) {
  for (size_t i = 0; i < c->n; ++i) {
    const char *w = c->word[i];
    bool next_serve = i + 1 < c->n && strcmp(c->word[i + 1], "serve") == 0;
    c->engine = (ends_with(w, "vllm") && next_serve) ||
                        strstr(w, "vllm.entrypoints.openai.api_server") != NULL
                    ? VLLM
                : strcmp(w, "sglang.launch_server") == 0 || (ends_with(w, "sglang") && next_serve)
                    ? SGLANG
                : ends_with(w, "trtllm-serve") ? TRTLLM
                                               : 0;
    if (c->engine == 0) continue;
    *first = i + 1 + (next_serve ? 1 : 0);
    static const char *const names[] = {[VLLM] = "vllm", [SGLANG] = "sglang", [TRTLLM] = "trtllm"};
    c->out->engine = names[c->engine];
    return true;
  }
  return refuse(
      c->d, "vllm serve MODEL ..., python -m sglang.launch_server ... or trtllm-serve MODEL ...",
      "no engine's command in '%.60s'", c->n > 0 ? c->word[0] : "");
}

/* --- values -------------------------------------------------------------------------------- */

static bool count_of(command *c, const char *flag, const char *value, int64_t *out) {
  ds_unit_error e;
  double x;
  char digits[24];
  size_t n = strlen(value);
  double times = 1; /* vLLM: 8k is 8000, 8K is 8192 */
  if (n > 1 && n < sizeof digits && isdigit((unsigned char)value[n - 2]) &&
      isalpha((unsigned char)value[n - 1])) {
    static const struct {
      char letter;
      double times;
    } units[] = {{'k', 1e3}, {'K', 1024}, {'m', 1e6}, {'M', 1048576}};
    for (size_t i = 0; i < LEN(units); ++i)
      if (units[i].letter == value[n - 1]) times = units[i].times;
    if (times > 1) --n;
  }
  if (n < sizeof digits) {
    memcpy(digits, value, n);
    digits[n] = '\0';
    if (ds_quantity_parse(digits, DS_DIM_NUMBER, &x, &e) && x * times >= 1 && x * times < 1e12 &&
        x * times == (double)(int64_t)(x * times)) {
      *out = (int64_t)(x * times);
      return true;
    }
  }
  return refuse(c->d, "a whole number", "--%.40s '%.60s' is not a count", flag, value);
}

static bool share_of(command *c, const char *flag, const char *value, double *out) {
  ds_unit_error e;
  if (ds_quantity_parse(value, DS_DIM_NUMBER, out, &e) && *out > 0 && *out <= 1) return true;
  return refuse(c->d, "a share of the memory, such as 0.9", "--%.40s '%.60s' is no share", flag,
                value);
}

/* A flag that changes nothing here, or one that is misspelt: then the nearest that does. */
static void ignore(command *c, const char *flag, const char *value) {
  const char *names[LEN(known)];
  size_t n = strlen(c->ignored), n_names = 0;
  for (size_t k = 0; k < LEN(known); ++k)
    if ((known[k].engines & c->engine) && strlen(known[k].name) > 3) names[n_names++] = known[k].name;
  const char *nearest = strlen(flag) > 3 ? ds_nearest(flag, names, n_names) : NULL;
  snprintf(c->ignored + n, sizeof c->ignored - n, "%s--%.60s%s%.60s%s%s%s", n > 0 ? ", " : "", flag,
           value ? " " : "", value ? value : "", nearest ? " (did you mean --" : "",
           nearest ? nearest : "", nearest ? "?)" : "");
}

static void set_weights(command *c, const char *flag, const char *value) {
  static const struct {
    const char *value, *weights;
  } is[] = {
      {"fp8", "fp8"},      {"fbgemm_fp8", "fp8"},     {"awq", "int4"},       {"awq_marlin", "int4"},
      {"gptq", "int4"},    {"gptq_marlin", "int4"},   {"w8a8_int8", "int8"}, {"w8a8_fp8", "fp8"},
      {"modelopt", "fp8"}, {"modelopt_fp4", "nvfp4"}, {"mxfp4", "mxfp4"},    {"bfloat16", "bf16"},
      {"float16", "fp16"}, {"half", "fp16"}};
  if (strcmp(value, "auto") == 0) return;
  for (size_t i = 0; i < LEN(is); ++i)
    if (strcmp(is[i].value, value) == 0) {
      bool plain = strcmp(flag, "dtype") == 0;
      if (plain && c->out->weights[0]) return; /* the format of what is not quantized */
      snprintf(c->out->weights, sizeof c->out->weights, "%s", is[i].weights);
      return;
    }
  ignore(c, flag, value);
}

static void set_kv(command *c, const char *flag, const char *value) {
  if (strcmp(value, "auto") == 0) return;
  const char *kv = strncmp(value, "fp8", 3) == 0                                  ? "fp8"
                   : strcmp(value, "bfloat16") == 0 || strcmp(value, "bf16") == 0 ? "bf16"
                   : strcmp(value, "float16") == 0                                ? "fp16"
                   : strcmp(value, "int8") == 0                                   ? "int8"
                                                                                  : NULL;
  if (kv)
    snprintf(c->out->kv_cache, sizeof c->out->kv_cache, "%s", kv);
  else
    ignore(c, flag, value);
}

static bool set_option(command *c, const char *flag, const char *option, const char *value) {
  bool plain = value[0] != '\0' &&
               strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789.-_kKmM") == strlen(value);
  if (c->other_scheduler) {
    const char *other = NULL;
    for (size_t i = 0; i < LEN(instead); ++i)
      if (strcmp(instead[i].option, option) == 0) other = instead[i].vllm;
    if (!other || value[0] == '-') {
      ignore(c, flag, value);
      return true;
    }
    option = other;
  }
  char text[32];
  if (isdigit((unsigned char)value[0]) && strchr(value, '.') == NULL) {
    int64_t n = 0;
    if (!count_of(c, flag, value, &n)) return false;
    snprintf(text, sizeof text, "%lld", (long long)n);
    value = text;
  }
  size_t n = strlen(c->out->options);
  if (!plain)
    return refuse(c->d, "a number or a word", "--%.40s '%.60s' is not understood", flag, value);
  snprintf(c->out->options + n, sizeof c->out->options - n, "%s%s: %.40s", n > 0 ? ", " : "",
           option, value);
  return true;
}

static bool apply(command *c, size_t k, const char *flag, const char *value) {
  ds_engine_command *o = c->out;
  switch (known[k].to) {
  case MODEL:
    snprintf(o->model, sizeof o->model, "%s", value);
    return true;
  case TP:
    return count_of(c, flag, value, &o->tensor_parallel);
  case PP:
    return count_of(c, flag, value, &o->pipeline_parallel);
  case REPLICAS:
    return count_of(c, flag, value, &o->replicas);
  case KV_FORMAT:
    set_kv(c, flag, value);
    return true;
  case QUANTIZATION:
  case DTYPE:
    set_weights(c, flag, value);
    return true;
  case MAX_LEN:
    return count_of(c, flag, value, &o->max_model_len);
  case MEMORY:
    return share_of(c, flag, value, &o->memory_utilization);
  case FREE_MEMORY:
    snprintf(c->free_memory, sizeof c->free_memory, "--%.60s %.40s", flag, value);
    return true;
  case BLOCK:
    return count_of(c, flag, value, &o->kv_block_tokens);
  case KV_BLOCKS:
    return count_of(c, flag, value, &o->kv_blocks);
  case KV_TOKENS:
    return count_of(c, flag, value, &c->kv_tokens);
  case PREFIX_ON:
  case PREFIX_OFF:
    o->prefix_cache = known[k].to == PREFIX_ON;
    return true;
  case TEXT_ONLY:
    o->language_model_only = true;
    return true;
  case ENCODER_TP:
    o->encoder_by_image = strcmp(value, "data") == 0;
    if (o->encoder_by_image || strcmp(value, "weights") == 0) return true;
    return refuse(c->d, "weights or data", "--%.40s '%.60s' is not understood", flag, value);
  case OPTION:
    return set_option(c, flag, known[k].option, value);
  case OPTION_ON:
  case OPTION_OFF:
    return set_option(c, flag, known[k].option, known[k].to == OPTION_ON ? "true" : "false");
  case NO_EFFECT:
  case NO_EFFECT_FLAG:
    break;
  }
  return true;
}

static bool has_value(target t) {
  return t != PREFIX_ON && t != PREFIX_OFF && t != TEXT_ONLY && t != OPTION_ON && t != OPTION_OFF &&
         t != NO_EFFECT_FLAG;
}

static bool take_flag(command *c, size_t *i) {
  char flag[80];
  const char *word = c->word[*i] + strspn(c->word[*i], "-"), *equals = strchr(word, '=');
  size_t n = equals ? (size_t)(equals - word) : strlen(word), k = 0;
  if (n >= sizeof flag) n = sizeof flag - 1;
  for (size_t j = 0; j < n; ++j) flag[j] = word[j] == '_' ? '-' : word[j];
  flag[n] = '\0';
  while (k < LEN(known) && !((known[k].engines & c->engine) && strcmp(known[k].name, flag) == 0))
    ++k;
  const char *next = *i + 1 < c->n ? c->word[*i + 1] : NULL;
  bool next_is_flag = next && next[0] == '-' && !isdigit((unsigned char)next[1]);
  if (k == LEN(known)) {
    const char *value = equals ? equals + 1 : next && !next_is_flag ? next : NULL;
    ignore(c, flag, value);
    *i += !equals && value ? 1 : 0;
    return true;
  }
  if (!has_value(known[k].to)) return apply(c, k, flag, equals ? equals + 1 : "");
  const char *value = equals ? equals + 1 : next_is_flag ? NULL : next;
  if (!value) return refuse(c->d, "a value", "--%s has no value", flag);
  *i += equals ? 0 : 1;
  return apply(c, k, flag, value);
}

/* --- what the engine printed --------------------------------------------------------------- */

/* The number behind `before`, which may have thousands separated; 0: not there. */
static int64_t number_after(const char *text, const char *before) {
  const char *s = strstr(text, before);
  int64_t n = 0;
  if (!s) return 0;
  for (s += strlen(before); *s && !isdigit((unsigned char)*s) && *s != '\n'; ++s) {}
  for (; isdigit((unsigned char)*s) || (*s == ',' && isdigit((unsigned char)s[1])); ++s)
    if (*s != ',' && n < (int64_t)1 << 50) n = 10 * n + (*s - '0');
  return n;
}

static int64_t number_before(const char *text, const char *after) {
  const char *s = strstr(text, after);
  if (!s) return 0;
  const char *end = s;
  while (end > text && end[-1] == ' ') --end;
  const char *from = end;
  while (from > text && (isdigit((unsigned char)from[-1]) || from[-1] == ',')) --from;
  int64_t n = 0;
  for (; from < end; ++from)
    if (*from != ',' && n < (int64_t)1 << 50) n = 10 * n + (*from - '0');
  return n;
}

static bool read_startup(command *c, const char *text) {
  if (text[strspn(text, " \t\r\n")] == '\0') return true;
  static const char *const tokens_after[] = {
      "GPU KV cache size:", "max_total_num_tokens=", "KV Cache is allocated. #tokens:",
      "max tokens in paged KV cache ("};
  int64_t blocks = number_after(text, "GPU blocks:");
  if (blocks == 0) blocks = number_after(text, "num_gpu_blocks is:");
  int64_t tokens = 0;
  for (size_t i = 0; i < LEN(tokens_after) && tokens == 0; ++i)
    tokens = number_after(text, tokens_after[i]);
  if (tokens == 0) tokens = number_before(text, "tokens in paged KV cache");
  if (blocks > 0) c->out->kv_blocks = blocks;
  if (blocks == 0 && tokens > 0) c->kv_tokens = tokens;
  if (blocks > 0 || tokens > 0) return true;
  return refuse(c->d, "a line such as 'GPU KV cache size: 643,232 tokens'",
                "no KV size in what the engine printed, '%.60s'", text + strspn(text, " \t\r\n"));
}

static void finish(command *c) {
  ds_engine_command *o = c->out;
  if (o->kv_block_tokens == 0)
    o->kv_block_tokens = c->engine == SGLANG ? 1 : c->engine == TRTLLM ? 32 : 16;
  if (c->other_scheduler && c->engine == SGLANG) o->kv_block_tokens = 16; /* vllm-v1's own */
  if (c->kv_tokens > 0) o->kv_blocks = c->kv_tokens / o->kv_block_tokens;
  if (c->free_memory[0] && o->kv_blocks == 0)
    note(o,
         "%s is a share of what the weights leave free; give the engine's start-up line or "
         "kv_blocks for its exact KV size",
         c->free_memory);
  if (c->ignored[0]) note(o, "ignored: %.380s", c->ignored);
}

bool ds_engine_command_parse(const char *text, const char *startup, ds_engine_command *out,
                             ds_diag *d) {
  command c = {.out = out, .d = d};
  memset(out, 0, sizeof *out);
  out->prefix_cache = -1;
  char *buffer = malloc(strlen(text) + 2);
  if (!buffer) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  const char *rest = text;
  size_t i = 0;
  bool ok = split(&c, &rest, buffer) && find_engine(&c, &i);
  if (ok) {
    const char *want = c.engine == VLLM ? "vllm-v1" : out->engine;
    c.other_scheduler = ds_scheduler_find(want) == NULL;
    snprintf(out->scheduler, sizeof out->scheduler, "%s", c.other_scheduler ? "vllm-v1" : want);
    if (c.other_scheduler)
      note(out, "this version has no scheduler of %s: vllm-v1 stands in, with its limits",
           out->engine);
  }
  for (; ok && i < c.n; ++i) {
    if (c.word[i][0] == '-')
      ok = take_flag(&c, &i);
    else if (out->model[0] == '\0')
      snprintf(out->model, sizeof out->model, "%s", c.word[i]);
    else
      ok = refuse(d, "flags, and one model", "'%.60s' comes after the model", c.word[i]);
  }
  ok = ok && read_startup(&c, rest) && (!startup || read_startup(&c, startup));
  if (ok) finish(&c);
  free(buffer);
  return ok;
}
