// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/source_rules.h"

#include <stdlib.h>
#include <string.h>

#include "study/express.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* inference-sim/training, profiles: a system prompt, a question, an output of fixed length. In its records a hundred
 * prompts take turns (their lengths repeat with that period in every file), so that all but the first of each are found
 * in the prefix cache, which vLLM has on unless told otherwise. */
static const ds_profile_lengths blis_profiles[] = {
    {"reasoning", 0, 0, false, 0}, /* not published */
    {"codegen", 566, 247, false, 100},
    {"roleplay", 750, 251, false, 150},
    {"general", 547, 248, false, 100},
};

/* MLPerf: the mean input of the OpenOrca subset is not published; 150 lies in the range 120 to 300. */
static const ds_profile_lengths mlperf_profiles[] = {{"llama2-70b", 150, 294, true, 0}};

/* ShareGPT as vLLM's benchmark filters it: the means that gpustack's sibling pages state. */
static const ds_profile_lengths sharegpt_profiles[] = {{"hareGPT", 217.4, 201.6, true, 0}};

static const ds_source_rule sources[] = {
    {.prefix = "BLIS", .grade = 'A', .client_known = true, .year = 2026, .max_tokens = 2048,
     .profiles_win = true, .prompts = 100, .profile = blis_profiles, .n_profiles = LEN(blis_profiles)},
    {.prefix = "LSS", .grade = 'A', .client_known = true, .year = 2026, .in_process = true},
    {.prefix = "MLPERF", .grade = 'A', .client_known = true, .year = 2024, .data_set = true, .smallest_tp = true, .vendors_build = true,
     .profile = mlperf_profiles, .n_profiles = LEN(mlperf_profiles)},
    {.prefix = "ICXAIC", .grade = 'A', .client_known = true, .year = 2025, .kv_fp8 = true, .seats_are_slots = true,
     .max_tokens = 8192},
    {.prefix = "ICXBLOG", .grade = 'B', .client_known = true, .year = 2025, .kv_fp8 = true, .seats_are_slots = true,
     .max_tokens = 8192},
    {.prefix = "AICNV", .grade = 'C', .year = 2025},
    {.prefix = "TRTLLM", .grade = 'B', .client_known = true, .year = 2025},
    {.prefix = "AMD", .static_scales = true, .vendors_build = true, .grade = 'B', .client_known = true, .year = 2024},
    {.prefix = "GAUDI", .grade = 'C', .client_known = true, .year = 2024},
    {.prefix = "DSTACK", .grade = 'B', .client_known = true, .year = 2024},
    {.prefix = "GPUSTACK", .grade = 'B', .client_known = true, .year = 2025, .profile = sharegpt_profiles,
     .n_profiles = LEN(sharegpt_profiles)},
    {.prefix = "SPLITWISE", .grade = 'A', .client_known = true, .year = 2023},
    /* Runs on ALCF's machines. Polaris has A100 of 40 GB: no run of a 70B model on two of them, and waves of sequences where
     * its KV outgrows four. Four MI250 are eight devices: its scripts ask for tensor parallelism 8, Mixtral runs in one
     * (93 GB), Llama 2 70B in two, and Qwen2 7B, whose 28 heads do not divide by eight, not in four. */
    {.prefix = "ARGONNE", .grade = 'B', .client_known = true, .year = 2024, .part_said = "A100",
     .part_meant = "A100-40GB", .card_of_two = "MI250", .card_said = "trtllm-2024", .card_meant = "trtllm-run-2024"},
    {.prefix = "OTHER", .grade = 'C', .year = 2024, .profile = sharegpt_profiles, .n_profiles = LEN(sharegpt_profiles)},
};
static const ds_source_rule anyone = {.prefix = "", .grade = 'B', .client_known = true, .year = 2025};

const ds_source_rule *ds_source_rule_of(const char *source) {
  for (size_t i = 0; i < LEN(sources); i++)
    if (strcmp(source, sources[i].prefix) == 0) return &sources[i];
  return &anyone;
}

/* First match wins. */
static const ds_engine_rule engines[] = {
    {"vLLM-based", 0, 9999, 0, 9999, "eager-2023", "static", 0.9, false},
    {"vLLM-Ascend", 1, 0, 1, 0, NULL, NULL, 0, false},
    {"vLLM", 14, 99, 2026, 9999, "vllm-2026", "vllm-v1", 0.9, true},
    {"vLLM", 11, 13, 2025, 2025, "vllm-2025", "vllm-v1", 0.9, true},
    {"vLLM", 8, 10, 9999, 0, "vllm-2025", "vllm-v1", 0.9, false},
    {"vLLM", 0, 7, 0, 2024, "vllm-2024", "vllm-v1", 0.9, false},
    {"TensorRT-LLM", 1, 99, 0, 2024, "trtllm-2024", "trtllm", 0.95, false},
    {"TensorRT-LLM", 100, 9999, 2025, 9999, "trtllm-2025", "trtllm", 0.95, true},
    {"NVIDIA NIM", 0, 9999, 0, 9999, "trtllm-2024", "trtllm", 0.95, false},
    {"SGLang", 0, 9999, 0, 9999, "sglang-2025", "sglang", 0.88, true},
    {"Deepspeed", 0, 9999, 0, 9999, "static-2024", "static", 0.95, false},
    {"Optimum", 0, 9999, 0, 9999, "static-2024", "static", 0.95, false},
};
static const ds_engine_rule tuned = {"TensorRT-LLM", 0, 0, 0, 0, "tuned-2024", "trtllm", 0.95, false};
static const ds_engine_rule tuned_later = {"TensorRT-LLM", 0, 0, 0, 0, "tuned-2025", "trtllm", 0.95, false};
static const ds_engine_rule trtllm_rc = {"TensorRT-LLM", 100, 100, 0, 0, "trtllm-2025-mid", "trtllm", 0.95, true};

/* Launch scripts of InferenceX (benchmarks/70b_fp8_h200_trt_slurm.sh, 70b_fp8_b200_trt_slurm.sh, gptoss_fp4_h200_trt.sh,
 * gptoss_fp4_h100.sh, gptoss_fp4_h200.sh of 2025-10 to 2026-03). Nominal lengths of 1,024 are 921.6 in the mean. Chunked
 * contexts are off in TensorRT-LLM's llm_args.py unless asked for, which no script does. First match wins. */
#define ONE_K 921.6
static const ds_script_rule scripts[] = {
    {"ICX", "TensorRT", "lama", ONE_K, ONE_K, 8,
     "enable_chunked_context: false, max_num_tokens: 16384, batch_wait_timeout_iters: 20, batch_wait_max_tokens_ratio: 0.9", false},
    {"ICX", "TensorRT", "lama", 0, 0, 0, "enable_chunked_context: false, max_num_tokens: 16384", false},
    {"ICX", "TensorRT", "gpt-oss", 0, 0, 0, "enable_chunked_context: false, max_num_tokens: 20000", false},
    {"ICX", "vLLM", "gpt-oss", 0, 0, 0, NULL, true}, /* VLLM_MXFP4_USE_MARLIN=1 */
};

const ds_script_rule *ds_script_rule_of(const ds_measured_run *m, const char *source) {
  for (size_t i = 0; i < LEN(scripts); i++) {
    const ds_script_rule *s = &scripts[i];
    if (strncmp(source, s->source, strlen(s->source)) != 0) continue;
    if (strncmp(m->text[DS_RUN_ENGINE], s->engine, strlen(s->engine)) != 0) continue;
    if (strstr(m->text[DS_RUN_MODEL], s->model) == NULL) continue;
    if (s->input > 0 && m->number[DS_RUN_ISL] != s->input) continue;
    if (s->output > 0 && m->number[DS_RUN_OSL] != s->output) continue;
    if (s->tp_below > 0 && !(m->number[DS_RUN_TP] < s->tp_below)) continue;
    return s;
  }
  return NULL;
}

const char *ds_engine_card_on(const ds_source_rule *rule, const char *card, const char *vendor) {
  static const char *const other[][3] = {{"vllm-2024", "AMD", "vllm-rocm-2024"},
                                         {"vllm-2024", "Intel", "vllm-xpu-2024"},
                                         {"static-2024", "Intel", "habana-2024"}};
  if (rule->card_said != NULL && strcmp(card, rule->card_said) == 0) return rule->card_meant;
  for (size_t i = 0; i < LEN(other) && !rule->vendors_build; i++)
    if (strcmp(card, other[i][0]) == 0 && strcmp(vendor, other[i][1]) == 0) return other[i][2];
  return card;
}

const char *ds_part_of(const ds_measured_run *m) {
  char source[80];
  ds_measured_source(m, source, sizeof source);
  const ds_source_rule *rule = ds_source_rule_of(source);
  const char *part = m->text[DS_RUN_GPU];
  return rule->part_said != NULL && strcmp(part, rule->part_said) == 0 ? rule->part_meant : part;
}

bool ds_part_is_open(const ds_measured_run *m) {
  static const char *const several[] = {"A100", "H100", "H200"}; /* SXM, PCIe, NVL: up to 1.7 times apart */
  for (size_t i = 0; i < LEN(several); i++)
    if (strcmp(ds_part_of(m), several[i]) == 0) return true;
  return false;
}

/* The year that a note gives, as in "measured 2025-10-29". */
static int year_of(const ds_measured_run *m, int otherwise) {
  const char *at = strstr(m->text[DS_RUN_NOTES], "measured 20");
  if (at == NULL) return otherwise;
  int year = (int)strtol(at + 9, NULL, 10);
  return year > 2015 && year < 2100 ? year : otherwise;
}

/* The first MAJOR.MINOR of a text; *v then stands on it. */
static bool first_version(const char **v, int *major, int *minor) {
  for (const char *s = *v; *s != '\0';) {
    size_t n = strspn(s, "0123456789");
    if (n > 0 && s[n] == '.' && strspn(s + n + 1, "0123456789") > 0) {
      *v = s;
      *major = (int)strtol(s, NULL, 10);
      *minor = (int)strtol(s + n + 1, NULL, 10);
      return true;
    }
    s += n > 0 ? n : 1;
  }
  return false;
}

const ds_engine_rule *ds_engine_rule_of(const ds_measured_run *m, const ds_source_rule *rule, unsigned *blanks) {
  const char *engine = m->text[DS_RUN_ENGINE], *v = m->text[DS_RUN_VERSION];
  int whole = 0, minor = 0;
  bool stated = first_version(&v, &whole, &minor);
  /* Inference X writes the version of the runtime image into this column for TensorRT-LLM. */
  if (rule->kv_fp8 && strncmp(engine, "TensorRT", 8) == 0) stated = false;
  double version = stated ? whole * 100 + minor : -1;
  if (!stated && m->text[DS_RUN_VERSION][0] == '\0') *blanks |= DS_BLANK_VERSION;
  if (rule->smallest_tp && strncmp(engine, "TensorRT", 8) == 0) /* an audited submission */
    return strstr(m->text[DS_RUN_ID], "-v4.") != NULL ? &tuned : &tuned_later;
  if (strncmp(engine, "TensorRT", 8) == 0 && strncmp(v, "1.0.0rc", 7) == 0) return &trtllm_rc;
  int year = year_of(m, rule->year);
  for (size_t i = 0; i < LEN(engines); i++) {
    const ds_engine_rule *e = &engines[i];
    if (strncmp(engine, e->name, strlen(e->name)) != 0) continue;
    bool in = stated ? version >= e->from && version <= e->to : year >= e->year_from && year <= e->year_to;
    if (in) return e->card != NULL ? e : NULL;
    if (e->card == NULL) return NULL;
  }
  return NULL;
}
