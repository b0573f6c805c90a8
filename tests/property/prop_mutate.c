// SPDX-License-Identifier: GPL-3.0-or-later
/* Thousands of damaged scenarios, cards, flags and --set values, made from good ones with fixed
 * seeds: each is either accepted, and then its effective values are accepted too, or refused with a
 * complaint that says something. Under the sanitizers this also finds leaks and stray accesses. */
#include "harness.h"

#include <time.h>

#include "io/card.h"
#include "io/flags.h"
#include "io/scenario.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ROOM 16384

static const ds_data_dirs here = {{"."}, 1};

static const char *const scenarios[] = {
    "# a comment\nscenario: 1\ntitle: Chat traffic on four H200\nmodel: llama-3.1-70b\nweights: "
    "fp8\nkv_cache: bf16\npools:\n  - name: main\n    role: unified\n"
    "    hardware: {base: h200-sxm, memory_bandwidth: 6 TB/s}\n    engine: vllm-2025\n    "
    "replicas: 2\n    tensor_parallel: 2\n    scheduler: vllm-v1\n"
    "    scheduler_options: {max_num_seqs: 256, max_num_batched_tokens: 8192}\n    max_model_len: "
    "32768\n    kv_blocks: auto\n    gpu_memory_utilization: 0.90\n"
    "router: {policy: least-outstanding}\nworkload:\n  trace: ../traces/t.csv\n  select: {first: "
    "1000, window: 0 s .. 600 s}\n  time_scale: 1.0\n  class: chat\n"
    "  max_tokens: {times: 4}\nslo:\n  request: {ttft: 2 s, tpot: 100 ms}\n  run: {p99_ttft: 2 s, "
    "p99.9_tpot: 60 ms, attainment: 0.99}\n  window: 5 min\ncost: roofline\nseed: 1\n",
    "{\"scenario\": 1, \"title\": \"S5 \\u00e9\", \"pools\": [{\"name\": \"main\", \"scheduler\": "
    "\"static\", \"kv_blocks\": 8, \"kv_block_tokens\": 4,\n"
    "\t\"scheduler_options\": {\"max_batch_size\": 2, \"preferred_batch_sizes\": [2, 4], "
    "\"max_queue_delay\": \"3 ms\"}}],\n"
    " \"cost\": {\"model\": \"linear\", \"step\": \"10 ms\", \"prefill_token\": \"0.1 ms\"},\n"
    " \"workload\": {\"requests\": [{\"id\": \"R1\", \"arrival_ns\": 0, \"input_tokens\": 10, "
    "\"output_tokens\": 4}, {\"arrival\": \"5 ms\", \"input_tokens\": 2, \"output_tokens\": 1, "
    "\"priority\": -2}]}}",
    "scenario: 1\nmodel: qwen3-8b\npools: [{hardware: H100, price: 3}]\nworkload:\n  generate:\n   "
    " requests: 100\n    arrivals: {process: poisson, rate: 12 /s}\n"
    "    input_tokens: {law: lognormal, mean: 550, p99: 3000}\n    output_tokens: {law: fixed, "
    "value: 128}\nslo: {ttft: 2 s}\n",
};

static const char *const words[] = {"null",
                                    "~",
                                    "\"",
                                    "'",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ": ",
                                    "- ",
                                    "\n",
                                    "\n  ",
                                    "\t",
                                    "#",
                                    "&a ",
                                    "*a",
                                    "!!int ",
                                    "? ",
                                    "---\n",
                                    "...",
                                    "%",
                                    "|\n",
                                    ">-\n",
                                    "\\",
                                    "\\u0000",
                                    "\xff",
                                    "\xc3\xa9",
                                    "\xef\xbb\xbf",
                                    "0",
                                    "-1",
                                    "1e999",
                                    ".nan",
                                    "9223372036854775808",
                                    " s",
                                    "ms",
                                    "GB",
                                    "a.b",
                                    "<<",
                                    "trace",
                                    "requests",
                                    "duration",
                                    "model",
                                    "linear",
                                    "speed-of-light",
                                    "base",
                                    "{times: 2}",
                                    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                                    "x: {y: {z: ",
                                    "true",
                                    "unlimited",
                                    ".."};

/* A few random changes; the result is at most ROOM - 1 bytes. */
static size_t damage(uint64_t *s, const char *from, char *out) {
  size_t n = strlen(from);
  memcpy(out, from, n + 1);
  for (i64 k = between(s, 1, 4); k > 0; k--) {
    size_t at_byte = n ? (size_t)between(s, 0, (i64)n - 1) : 0, len = (size_t)between(s, 1, 12);
    const char *w = words[between(s, 0, (i64)LEN(words) - 1)];
    switch (between(s, 0, 6)) {
    case 0:
      if (n) out[at_byte] = (char)between(s, 0, 255);
      break;
    case 1:
      if (n) out[at_byte] = (char)(out[at_byte] ^ (1 << between(s, 0, 7)));
      break;
    case 2: /* remove a piece */
      if (at_byte + len > n) len = n - at_byte;
      memmove(out + at_byte, out + at_byte + len, n - at_byte - len);
      n -= len;
      break;
    case 3: /* repeat a piece */
      if (at_byte + len > n) len = n - at_byte;
      if (n + len >= ROOM) break;
      memmove(out + at_byte + len, out + at_byte, n - at_byte);
      n += len;
      break;
    case 4:
      if (chance(s, 20)) n = at_byte;
      break; /* cut the end off */
    default: /* put a word in */
      len = strlen(w);
      if (n + len >= ROOM) break;
      memmove(out + at_byte + len, out + at_byte, n - at_byte);
      memcpy(out + at_byte, w, len);
      n += len;
    }
  }
  return n;
}

static bool sensible(const ds_diag *d, const char *what) {
  bool good = (d->exit == DS_EXIT_USAGE || d->exit == DS_EXIT_INPUT) && d->text[0] != '\0' &&
              strlen(d->text) < 700;
  for (const char *c = d->text; *c; c++) good = good && (unsigned char)*c >= 0x20;
  if (!good) note("%s: exit %d, '%s'", what, (int)d->exit, d->text);
  return good;
}

/* What it means, written as --set over an empty scenario. */
static bool reads_back(const ds_scenario *a) {
  ds_scenario b;
  ds_diag d;
  if (a->workload.n_inline > 8 || a->n_settings > 150) return true;
  char text[512];
  int n = snprintf(text, sizeof text, "{pools: [{name: %s}]", a->run.pool.name);
  for (size_t i = 0; i < a->workload.n_inline; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s{}", i ? ", " : ", workload: {requests: [");
  snprintf(text + n, sizeof text - (size_t)n, "%s}", a->workload.n_inline ? "]}" : "");
  char *sets[150];
  for (size_t i = 0; i < a->n_settings; i++) {
    size_t m = strlen(a->settings[i].key) + strlen(a->settings[i].value) + 2;
    sets[i] = malloc(m);
    snprintf(sets[i], m, "%s=%s", a->settings[i].key, a->settings[i].value);
  }
  bool good = ds_scenario_parse(text, strlen(text), "again.yaml", "", (const char *const *)sets,
                                a->n_settings, &here, &b, &d);
  if (!good) note("does not read back: %s: %s", d.file, d.text);
  if (good && a->n_settings != b.n_settings)
    note("reads back to %zu settings, not %zu", b.n_settings, a->n_settings), good = false;
  for (size_t i = 0; good && i < a->n_settings; i++)
    if (strcmp(a->settings[i].value, b.settings[i].value) != 0)
      note("%s reads back as %s, not %s", a->settings[i].key, b.settings[i].value,
           a->settings[i].value),
          good = false;
  if (good && memcmp(&a->run, &b.run, sizeof a->run) != 0)
    note("reads back to another run"), good = false;
  if (strcmp(d.text, "") == 0) ds_scenario_free(&b);
  for (size_t i = 0; i < a->n_settings; i++) free(sets[i]);
  return good;
}

static void damaged_scenarios(void) {
  char text[ROOM];
  int accepted = 0, wrong = 0, shown = 0, n = rounds(6000);
  for (int i = 0; i < n; i++) {
    uint64_t s = 1000 + (uint64_t)i;
    size_t bytes = damage(&s, scenarios[i % (int)LEN(scenarios)], text);
    ds_scenario sc;
    ds_diag d;
    bool ok = ds_scenario_parse(text, bytes, "s.yaml", "", NULL, 0, &here, &sc, &d);
    if (ok) {
      accepted++;
      wrong += !reads_back(&sc);
      ds_scenario_free(&sc);
    } else {
      wrong += !sensible(&d, "scenario");
    }
    if (wrong > shown && wrong < 4) note("seed %d: %.*s", 1000 + i, (int)bytes, text);
    shown = wrong;
  }
  tap(wrong == 0,
      "%d damaged scenarios, %d still good: accepted with values that read back, or refused with a "
      "reason",
      n, accepted);
  tap(accepted > n / 100 && accepted < n / 2, "both happen often enough to mean something");
}

static void damaged_cards(void) {
  static const struct {
    ds_card_kind kind;
    const char *path;
  } cards[] = {{DS_CARD_MODEL, "models/llama-3.1-8b.yaml"},
               {DS_CARD_HARDWARE, "hwprofiles/h200-sxm.yaml"},
               {DS_CARD_ENGINE, "models/engines/vllm-2025.yaml"}};
  static const char config[] =
      "{\n \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, "
      "\"num_hidden_layers\": 32, \"num_attention_heads\": 32,\n"
      "\t\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256, "
      "\"rope_theta\": 500000.0, \"sliding_window\": null, \"torch_dtype\": \"bfloat16\"}";
  char text[2 * ROOM];
  int wrong = 0, n = rounds(1500);
  for (int i = 0; i < n; i++) {
    uint64_t s = 50000 + (uint64_t)i;
    size_t k = (size_t)i % (LEN(cards) + 1);
    char *from = k < LEN(cards) ? slurp(cards[k].path, NULL) : strdup(config);
    if (!from || strlen(from) > ROOM - 512)
      bail("cannot use %s", k < LEN(cards) ? cards[k].path : "config");
    size_t bytes = damage(&s, from, text);
    free(from);
    ds_doc doc;
    ds_diag d = {0};
    bool ok = ds_doc_parse(text, bytes, "c.yaml", &doc, &d);
    ds_model m;
    ds_hw hw;
    ds_engine_card e;
    if (ok) {
      ds_card_kind kind = k < LEN(cards) ? cards[k].kind : DS_CARD_MODEL;
      ok = kind == DS_CARD_MODEL      ? ds_card_model(&doc, &m, &d)
           : kind == DS_CARD_HARDWARE ? ds_card_hardware(&doc, &hw, &d)
                                      : ds_card_engine(&doc, &e, &d);
    }
    ds_doc_free(&doc);
    if (!ok) wrong += !sensible(&d, "card");
  }
  tap(wrong == 0, "%d damaged cards: accepted, or refused with a reason", n);
}

static void damaged_sets(void) {
  static const char *const sets[] = {"pools.main.replicas=8",
                                     "slo.ttft=1 s",
                                     "slo.run.p99.9_ttft=2 s",
                                     "pools.main.hardware.memory_bandwidth=6 TB/s",
                                     "router.policy=round-robin",
                                     "workload.select={first: 3}",
                                     "title='a = b'",
                                     "pools.0.kv_blocks=900",
                                     "cost.model=linear",
                                     "workload.trace=x.csv"};
  char text[ROOM];
  int wrong = 0, n = rounds(3000);
  for (int i = 0; i < n; i++) {
    uint64_t s = 90000 + (uint64_t)i;
    text[damage(&s, sets[i % (int)LEN(sets)], text)] = '\0';
    const char *const one[] = {text};
    ds_scenario sc;
    ds_diag d;
    if (ds_scenario_parse(scenarios[0], strlen(scenarios[0]), "s.yaml", "", one, 1, &here, &sc,
                          &d)) {
      wrong += !reads_back(&sc);
      ds_scenario_free(&sc);
    } else {
      wrong += !sensible(&d, text);
    }
  }
  tap(wrong == 0, "%d damaged --set: accepted with values that read back, or refused with a reason",
      n);
}

static void damaged_flags(void) {
  static const ds_flag good[] = {{"--model", "llama-3.1-8b"},
                                 {"--hardware", "2xh100-sxm"},
                                 {"--tp", "2"},
                                 {"--weights", "fp8"},
                                 {"--rate", "12/s"},
                                 {"--input", "550"},
                                 {"--output", "128"},
                                 {"--slo", "p99 ttft 2s, mean tpot 100ms, attainment 0.9"},
                                 {"--goodput", "ttft:2000 tpot:100"}};
  char text[ROOM];
  int wrong = 0, n = rounds(2000);
  for (int i = 0; i < n; i++) {
    uint64_t s = 120000 + (uint64_t)i;
    ds_flag flags[LEN(good)];
    memcpy(flags, good, sizeof good);
    size_t k = (size_t)between(&s, 0, (i64)LEN(good) - 1);
    text[damage(&s, good[k].value, text)] = '\0';
    flags[k].value = text;
    char *yaml = NULL;
    ds_diag d = {0};
    if (!ds_flags_scenario(flags, LEN(flags), &yaml, &d)) {
      wrong += !sensible(&d, flags[k].name);
      continue;
    }
    ds_scenario sc;
    bool ok = ds_scenario_parse(yaml, strlen(yaml), "flags", "", NULL, 0, &here, &sc, &d);
    if (ok)
      ds_scenario_free(&sc);
    else if (!sensible(&d, flags[k].name))
      wrong++;
    free(yaml);
  }
  tap(wrong == 0, "%d damaged flags: understood, or refused with a reason", n);
}

/* Sizes that would show a quadratic or recursive way of reading. */
static void large_ones(void) {
  static const struct {
    const char *what, *before, *piece, *after;
    size_t times;
  } cases[] = {{"lists in lists", "", "[", "", 100000},
               {"mappings in mappings", "", "{a: ", "", 100000},
               {"block lists in lists", "", "- ", "x", 100000},
               {"a long list", "[", "1,", "1]", 300000},
               {"many empty mappings", "[", "{},", "{}]", 200000},
               {"a long text", "title: \"", "aaaaaaaa", "\"", 400000},
               {"many lines", "", "# nothing\n", "scenario: 1\n", 100000},
               {"percent signs", "title: ", "%", "\n", 100000},
               {"indentation", "a:", "\n", " b", 100000},
               {"open quotes", "", "\"", "", 99999},
               {"question marks", "", "? ", "", 100000},
               {"colons", "", ": ", "", 100000}};
  for (size_t i = 0; i < LEN(cases); i++) {
    size_t piece = strlen(cases[i].piece), n = 0;
    char *text =
        malloc(strlen(cases[i].before) + piece * cases[i].times + strlen(cases[i].after) + 1);
    n += (size_t)sprintf(text, "%s", cases[i].before);
    for (size_t k = 0; k < cases[i].times; k++, n += piece) memcpy(text + n, cases[i].piece, piece);
    n += (size_t)sprintf(text + n, "%s", cases[i].after);
    ds_doc doc;
    ds_diag d = {0};
    clock_t start = clock();
    bool ok = ds_doc_parse(text, n, "big.yaml", &doc, &d), good = ok || sensible(&d, cases[i].what);
    double s = (double)(clock() - start) / CLOCKS_PER_SEC;
    ds_doc_free(&doc);
    free(text);
    tap(good && s < 20, "%s: %zu bytes in %.2f s", cases[i].what, n, s);
  }
}

int main(void) {
  harness_begin("mutate");
  alarm(deep() ? 3600 : 240); /* an endless loop ends the test */
  damaged_scenarios();
  damaged_cards();
  damaged_sets();
  damaged_flags();
  large_ones();
  return tap_end();
}
