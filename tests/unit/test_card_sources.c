// SPDX-License-Identifier: GPL-3.0-or-later
/* The cards that ship: every number has a source, a date and a grade, and the models add up. */
#include "cards.h"

#include <ctype.h>
#include <math.h>

static bool is_date(const char *t) { /* 2025-06 or 2025-06-30 */
  size_t n = strlen(t);
  if (n != 7 && n != 10) return false;
  for (size_t i = 0; i < n; i++)
    if (i == 4 || i == 7 ? t[i] != '-' : !isdigit((unsigned char)t[i])) return false;
  return true;
}

/* Is this scalar a number with its unit, or a flag: something that needs a source? */
static bool is_figure(const ds_node *n) {
  if (n->kind != DS_NODE_SCALAR || n->quoted) return false;
  return isdigit((unsigned char)n->text[0]) || n->text[0] == '.' || n->text[0] == '-' ||
         strcmp(n->text, "true") == 0 || strcmp(n->text, "false") == 0;
}

/* Walks a card: every figure lies in a mapping that carries source (a key of `sources`), date and
 * grade. */
static int count_sourced(const ds_node *map, const char *path, const ds_node *sources) {
  int n = 0;
  for (const ds_node *c = map->first; c != NULL; c = c->next) {
    if (strcmp(c->key, "date") == 0 || strcmp(c->key, "source") == 0) continue;
    if (c->kind == DS_NODE_MAP) {
      n += count_sourced(c, path, sources);
      continue;
    }
    if (!is_figure(c)) continue;
    const ds_node *source = ds_node_get(map, "source"), *date = ds_node_get(map, "date"),
                  *grade = ds_node_get(map, "grade");
    cr_assert(source != NULL && date != NULL && grade != NULL,
              "%s: %s has no source, date or grade", path, c->key);
    cr_assert_not_null(ds_node_get(sources, source->text), "%s: %s: source %s is not in sources",
                       path, c->key, source->text);
    cr_assert(is_date(date->text), "%s: %s: date %s", path, c->key, date->text);
    cr_assert(strcmp(grade->text, "measured") == 0 || strcmp(grade->text, "datasheet") == 0 ||
                  strcmp(grade->text, "estimate") == 0,
              "%s: %s: grade %s", path, c->key, grade->text);
    n++;
  }
  return n;
}

Test(cards, every_number_has_a_source_a_date_and_a_grade) {
  for (int kind = 0; kind < DS_CARD_KINDS; kind++) {
    char **names;
    size_t n;
    cr_assert(ds_card_names((ds_card_kind)kind, ".", &names, &n));
    const size_t at_least[DS_CARD_KINDS] = {60, 30, 7};
    const int figures[DS_CARD_KINDS] = {12, 35, 5}, dataflow = 12;
    cr_assert_geq(n, at_least[kind]);
    for (size_t i = 0; i < n; i++) {
      char path[256];
      snprintf(path, sizeof path, "%s/%s.yaml", ds_card_schemas[kind].folder, names[i]);
      ds_doc doc;
      ds_diag d = {0};
      cr_assert(ds_card_open((ds_card_kind)kind, path, &doc, NULL, &d), "%s: %s", path, d.text);
      const ds_node *sources = ds_node_get(doc.root, "sources");
      cr_assert(sources != NULL && sources->kind == DS_NODE_MAP, "%s: no sources", path);
      for (const ds_node *s = sources->first; s != NULL; s = s->next)
        cr_assert_geq(strlen(s->text), 10, "%s: %s", path, s->key);
      int count = 0;
      for (const ds_node *c = doc.root->first; c != NULL; c = c->next) {
        if (strcmp(c->key, "sources") == 0 || strcmp(c->key, "aliases") == 0) continue;
        if (c->kind == DS_NODE_MAP)
          count += count_sourced(c, path, sources);
        else
          cr_assert(!is_figure(c) || strcmp(c->key, ds_card_schemas[kind].noun) == 0 ||
                        strcmp(c->key, "date") == 0,
                    "%s: %s stands alone", path, c->key);
      }
      bool flow = ds_node_get(doc.root, "dataflow") != NULL;
      cr_assert_geq(count, flow ? dataflow : figures[kind], "%s: %d figures", path, count);
      if (kind != DS_CARD_MODEL)
        cr_assert_not_null(ds_node_get(doc.root, "calibrated_on"),
                           "%s does not say what it was calibrated on", path);
      const ds_node *name = ds_node_get(doc.root, "name");
      cr_assert(name != NULL && strcmp(name->text, names[i]) == 0, "%s: its name is not the file's",
                path);
      ds_doc_free(&doc);
    }
    ds_card_names_free(names, n);
  }
}

/* Names as they stand in published measurements and on Hugging Face lead to the cards. */
Test(cards, aliases_lead_to_them) {
  const struct {
    ds_card_kind kind;
    const char *name, *card;
  } cases[] = {{DS_CARD_HARDWARE, "H100-SXM-80GB", "h100-sxm"},
               {DS_CARD_HARDWARE, "H100", "h100-sxm"},
               {DS_CARD_HARDWARE, "H200-SXM-141GB", "h200-sxm"},
               {DS_CARD_HARDWARE, "b200-180gb", "b200-sxm"},
               {DS_CARD_HARDWARE, "MI300X", "mi300x"},
               {DS_CARD_HARDWARE, "A100", "a100-80-sxm"},
               {DS_CARD_HARDWARE, "A100-SXM-80GB", "a100-80-sxm"},
               {DS_CARD_HARDWARE, "A100-80GB", "a100-80-sxm"},
               {DS_CARD_MODEL, "meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"},
               {DS_CARD_MODEL, "meta-llama/Llama-2-7b-hf", "llama-2-7b"},
               {DS_CARD_MODEL, "qwen/qwen3-32b", "qwen3-32b"},
               {DS_CARD_MODEL, "codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"},
               {DS_CARD_HARDWARE, "Gaudi2", "gaudi2"},
               {DS_CARD_HARDWARE, "MI250", "mi250"},
               {DS_CARD_HARDWARE, "L40S", "l40s"},
               {DS_CARD_HARDWARE, "GH200", "gh200"},
               {DS_CARD_HARDWARE, "Max 1550", "max-1550"},
               {DS_CARD_HARDWARE, "Gaudi3", "gaudi3"},
               {DS_CARD_HARDWARE, "SN40L", "sn40l"},
               {DS_CARD_HARDWARE, "A100-PCIe-80GB", "a100-80-pcie"},
               {DS_CARD_HARDWARE, "H100-NVL", "h100-nvl"},
               {DS_CARD_HARDWARE, "Ascend 910B", "ascend-910b"},
               {DS_CARD_HARDWARE, "RTX 4090", "rtx-4090"},
               {DS_CARD_HARDWARE, "GB200", "gb200"},
               {DS_CARD_HARDWARE, "H100-PCIe", "h100-pcie"},
               {DS_CARD_HARDWARE, "NVIDIA Jetson AGX Orin 64G", "jetson-orin"},
               {DS_CARD_MODEL, "meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
               {DS_CARD_MODEL, "meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"},
               {DS_CARD_MODEL, "meta-llama/Llama-3.1-405B", "llama-3.1-405b"},
               {DS_CARD_MODEL, "meta-llama/Llama-2-70b", "llama-2-70b"},
               {DS_CARD_MODEL, "meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"},
               {DS_CARD_MODEL, "mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"},
               {DS_CARD_MODEL, "mistralai/Mistral-7B-Instruct", "mistral-7b-v0.1"},
               {DS_CARD_MODEL, "openai/gpt-oss-120b", "gpt-oss-120b"},
               {DS_CARD_MODEL, "mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
               {DS_CARD_MODEL, "mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
               {DS_CARD_MODEL, "Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
               {DS_CARD_MODEL, "Qwen/Qwen2-7B", "qwen2-7b"},
               {DS_CARD_MODEL, "Qwen/Qwen2-72B", "qwen2-72b"},
               {DS_CARD_MODEL, "Qwen/Qwen3-14B", "qwen3-14b"},
               {DS_CARD_MODEL, "bigscience/bloom", "bloom-176b"},
               {DS_CARD_MODEL, "MiniMaxAI/MiniMax-M2.5", "minimax-m2"},
               {DS_CARD_MODEL, "EleutherAI/gpt-j-6b", "gpt-j-6b"},
               {DS_CARD_MODEL, "tiiuae/falcon-180B", "falcon-180b"},
               {DS_CARD_MODEL, "meta-llama/Llama-4-Maverick-17B-128E-Instruct", "llama-4-maverick"},
               {DS_CARD_MODEL, "meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"},
               {DS_CARD_MODEL, "deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"},
               {DS_CARD_ENGINE, "vllm", "vllm-2026"}};
  const ds_data_dirs dirs = {{"."}, 1};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    const ds_node at = {
        .kind = DS_NODE_SCALAR, .file = "test", .text = cases[i].name, .key = "name"};
    char path[512], want[128];
    ds_diag d = {0};
    cr_assert(
        ds_card_find(cases[i].kind, cases[i].name, "tests", &dirs, &at, path, sizeof path, &d),
        "%s: %s", cases[i].name, d.text);
    snprintf(want, sizeof want, "%s/%s.yaml", ds_card_schemas[cases[i].kind].folder, cases[i].card);
    cr_assert_not_null(strstr(path, want), "%s leads to %s", cases[i].name, path);
  }
}

/* Published parameter counts, which leave no room for a wrong dimension. */
Test(cards, parameters_are_the_published_ones) {
  const struct {
    const char *model;
    double params_1e9, kv_bytes;
  } published[] = {{"llama-2-7b", 6.738, 524288},     {"llama-2-13b", 13.016, 819200},
                   {"llama-2-70b", 68.977, 327680},   {"llama-3.1-8b", 8.030, 131072},
                   {"llama-3.1-70b", 70.554, 327680}, {"llama-3.1-405b", 405.853, 516096},
                   {"llama-3.3-70b", 70.554, 327680}, {"llama-3.2-1b", 1.236, 32768},
                   {"codellama-34b", 33.744, 196608}, {"qwen2.5-7b", 7.616, 57344},
                   {"qwen2.5-72b", 72.706, 327680},   {"qwen3-8b", 8.191, 147456},
                   {"qwen3-32b", 32.762, 262144}};
  for (size_t i = 0; i < DS_ARRAY_LEN(published); i++) {
    ds_model m;
    card_read(DS_CARD_MODEL, published[i].model, &m);
    double params = ds_model_params(&m);
    cr_assert_leq(fabs(params / (published[i].params_1e9 * 1e9) - 1), 0.005, "%s: %.0f",
                  published[i].model, params);
    cr_assert_leq(fabs(params / m.published_params - 1), 1e-6, "%s: %.0f, card says %.0f",
                  published[i].model, params, m.published_params);
    cr_assert_float_eq(ds_model_kv_bytes_per_token(&m, 2), published[i].kv_bytes, 0);
  }
}

Test(cards, every_part_and_model_can_be_priced) {
  char **models, **parts, **engines;
  size_t n_models, n_parts, n_engines;
  cr_assert(ds_card_names(DS_CARD_MODEL, ".", &models, &n_models));
  cr_assert(ds_card_names(DS_CARD_HARDWARE, ".", &parts, &n_parts));
  cr_assert(ds_card_names(DS_CARD_ENGINE, ".", &engines, &n_engines));
  cr_assert_geq(n_models, 11);
  cr_assert_geq(n_parts, 5);
  cr_assert_geq(n_engines, 2);
  const ds_format kv[] = {DS_FMT_BF16, DS_FMT_FP16, DS_FMT_FP8, DS_FMT_INT8};
  for (size_t h = 0; h < n_parts; h++) {
    for (int f = 0; f < DS_FMT_N; f++) {
      for (size_t k = 0; k < DS_ARRAY_LEN(kv); k++) {
        ds_run run = run_of(models[(h + (size_t)f) % n_models], parts[h],
                            engines[(size_t)f % n_engines], (ds_format)f, kv[k], 1);
        for (int64_t tp = 1; tp <= 4; tp *= 2) {
          run.pool.tensor_parallel = tp;
          ds_error err = {0};
          bool ok = ds_run_validate(&run, &err) == DS_OK;
          if (tp > 1 && (strstr(err.text, "does not divide") != NULL ||
                         strstr(err.text, "scale_up_bandwidth") != NULL))
            continue; /* heads that 4 does not divide; a part that stands alone */
          cr_assert(ok, "%s on %s, %s: %s", run.model.name, parts[h], ds_format_name((ds_format)f),
                    err.text);
        }
      }
    }
  }
  ds_card_names_free(models, n_models);
  ds_card_names_free(parts, n_parts);
  ds_card_names_free(engines, n_engines);
}
