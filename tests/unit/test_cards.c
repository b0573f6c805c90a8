// SPDX-License-Identifier: GPL-3.0-or-later
/* Reading cards: names and where they lead, config.json files of Hugging Face, hardware that does
 * not exist, and that a wrong card is refused where it is wrong. What the shipped cards say is
 * tested in test_card_sources.c. */
#include "cards.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/scenario.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

static void make_dir(void) {
  snprintf(dir, sizeof dir, "/tmp/dryserve-cards-XXXXXX");
  cr_assert_not_null(mkdtemp(dir));
}

static void remove_dir(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", dir);
  cr_assert_eq(system(command), 0);
}

/* --- Hugging Face -------------------------------------------------------------------------- */

static bool read_config(const char *text, ds_model *m, ds_diag *d) {
  ds_doc doc;
  memset(d, 0, sizeof *d);
  bool ok = ds_doc_parse(text, strlen(text), "hub/my-model/config.json", &doc, d) &&
            ds_is_config_json(doc.root) && ds_config_json_model(&doc, m, d);
  ds_doc_free(&doc);
  return ok;
}

#define DIMS(layers, hidden, heads, ffn, vocab)                                                    \
  "\"num_hidden_layers\": " #layers ", \"hidden_size\": " #hidden                                  \
  ", \"num_attention_heads\": " #heads ", \"intermediate_size\": " #ffn                            \
  ", \"vocab_size\": " #vocab

/* Parameter counts as published on the models' pages (safetensors metadata): an independent sum
 * over all dimensions. */
Test(config_json, dense_models_have_their_published_parameters) {
  static const struct {
    const char *text;
    double params;
    ds_format weights;
    int64_t max_positions;
    bool qkv_bias, qk_norm, tied;
  } cases[] = {
      {"{\n\t\"architectures\": [\"LlamaForCausalLM\"], " DIMS(
           32, 4096, 32, 14336,
           128256) ", \"num_key_value_heads\": 8, \"rope_scaling\": {\"factor\": 8.0, "
                   "\"rope_type\": \"llama3\"}, "
                   "\"rms_norm_eps\": 1e-05, \"torch_dtype\": \"bfloat16\", "
                   "\"max_position_embeddings\": 131072, \"tie_word_embeddings\": false, "
                   "\"attention_bias\": false}",
       8030261248, DS_FMT_BF16, 131072, false, false, false},
      {"{\"model_type\": \"llama\", " DIMS(32, 4096, 32, 11008,
                                           32000) ", \"torch_dtype\": \"float16\"}",
       6738415616, DS_FMT_FP16, 0, false, false, false},
      {"{\"architectures\": [\"Qwen2ForCausalLM\"], " DIMS(
           28, 3584, 28, 18944,
           152064) ", \"num_key_value_heads\": 4, \"sliding_window\": 131072, "
                   "\"use_sliding_window\": false, "
                   "\"max_position_embeddings\": 32768, \"dtype\": \"bfloat16\"}",
       7615616512, DS_FMT_BF16, 32768, true, false, false},
      {"{\"architectures\": [\"Qwen3ForCausalLM\"], " DIMS(
           64, 5120, 64, 25600,
           151936) ", \"num_key_value_heads\": 8, \"head_dim\": 128, \"sliding_window\": null, "
                   "\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": "
                   "[128, 128]}}",
       32762123264, DS_FMT_FP8_BLOCK, 0, false, true, false},
      {"{\"architectures\": [\"LlamaForCausalLM\"], " DIMS(
           16, 2048, 32, 8192,
           128256) ", \"num_key_value_heads\": 8, \"head_dim\": 64, \"tie_word_embeddings\": true}",
       1235814400, DS_FMT_BF16, 0, false, false, true},
      {"{\"architectures\": [\"MistralForCausalLM\"], " DIMS(
           32, 4096, 32, 14336,
           32768) ", \"num_key_value_heads\": 8, \"sliding_window\": null, "
                  "\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}}",
       7248023552, DS_FMT_INT4, 0, false, false, false},
  };
  for (size_t i = 0; i < LEN(cases); i++) {
    ds_model m;
    ds_diag d;
    cr_assert(read_config(cases[i].text, &m, &d), "%zu: %lld:%lld %s", i, (long long)d.line,
              (long long)d.column, d.text);
    cr_assert_eq(ds_model_params(&m), cases[i].params, "%zu: %.0f", i, ds_model_params(&m));
    cr_assert_eq(m.weights, cases[i].weights);
    cr_assert_eq(m.max_positions, cases[i].max_positions);
    cr_assert(m.qkv_bias == cases[i].qkv_bias && m.qk_norm == cases[i].qk_norm &&
              m.tied_embeddings == cases[i].tied);
    cr_assert_str_eq(m.name, "my-model"); /* the folder's, as models are kept on disk */
  }
}

Test(config_json, what_is_not_priced_is_refused_by_name) {
#define LLAMA "{\"architectures\": [\"LlamaForCausalLM\"], " DIMS(32, 4096, 32, 14336, 128256)
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"{\"architectures\": [\"MambaForCausalLM\"], \"num_hidden_layers\": 8}", "MambaForCausalLM"},
      {"{\"architectures\": [\"DeepseekV3ForCausalLM\"]}", "num_hidden_layers"},
      {"{\"model_type\": \"gpt_9\"}", "gpt_9"},
      {LLAMA ", \"num_local_experts\": 8}", "mixtures of experts"},
      {LLAMA ", \"kv_lora_rank\": 512}", "latent attention"},
      {LLAMA ", \"text_config\": {}}", "several parts"},
      {LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "sliding windows"},
      {LLAMA ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}",
       "quantization_config"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096}", "num_hidden_layers"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], " DIMS(32, 4095, 32, 14336, 128256) "}",
       "hidden_size (4095) is no multiple"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], " DIMS(32, "4096", 32, 14336, 128256) "}",
       "hidden_size is '4096'"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], " DIMS(0, 4096, 32, 14336, 128256) "}",
       "num_hidden_layers is 0"},
      {"{\"architectures\": []}", "neither an architecture nor a model_type"},
  };
  for (size_t i = 0; i < LEN(cases); i++) {
    ds_model m;
    ds_diag d;
    cr_assert(!read_config(cases[i].text, &m, &d), "%zu is accepted", i);
    cr_assert(strstr(d.text, cases[i].why) != NULL, "%zu: %s", i, d.text);
    cr_assert(d.exit == DS_EXIT_INPUT && d.line > 0 && d.column > 0 && d.expected[0] != '\0', "%zu",
              i);
  }
}

/* --- names --------------------------------------------------------------------------------- */

static const char card_text[] =
    "model: 1\nname: tiny\naliases: [\n  Org/Tiny-1, # first\n  'Tiny One'\n]\nsources: {A: nobody "
    "has such a model}\n"
    "dimensions: {layers: 2, hidden: 64, heads: 4, kv_heads: 2, head_dim: 16, ffn: 128, "
    "mlp_matrices: 3, vocab: 100, source: A, date: 2026-01, grade: estimate}\n"
    "weights: bf16\n";

static bool find(ds_card_kind kind, const char *name, const char *data, char *path, ds_diag *d) {
  ds_data_dirs dirs = {{data}, 1};
  ds_node at = {.file = "s.yaml", .line = 3, .column = 8};
  memset(d, 0, sizeof *d);
  return ds_card_find(kind, name, dir, &dirs, &at, path, 1024, d);
}

Test(cards, names_lead_to_files_in_the_documented_order) {
  char path[1024], sub[128], scenario[] = "scenario: 1\nmodel: tiny\n";
  ds_diag d;
  make_dir();
  snprintf(sub, sizeof sub, "%s/models", dir);
  cr_assert_eq(mkdir(sub, 0777), 0);
  write_file("models/tiny.yaml", card_text);
  write_file("tiny.yaml", scenario); /* the scenario has the same name as the card: it is no card */
  write_file("mine.yml", card_text);
  write_file("models/config.json", "{}");
  static const struct {
    const char *name, *tail;
  } good[] = {{"tiny", "/models/tiny.yaml"},
              {"TINY", "/models/tiny.yaml"},
              {"org/tiny-1", "/models/tiny.yaml"},
              {"tiny one", "/models/tiny.yaml"},
              {"mine.yml", "/mine.yml"},
              {"./models/tiny.yaml", "/./models/tiny.yaml"},
              {"models/tiny.yaml", "/models/tiny.yaml"},
              {"models/", "/models/config.json"},
              {"llama-3.1-8b", "./models/llama-3.1-8b.yaml"},
              {"meta-llama/Llama-3.1-8B-Instruct", "./models/llama-3.1-8b.yaml"}};
  for (size_t i = 0; i < LEN(good); i++) {
    cr_assert(find(DS_CARD_MODEL, good[i].name, ".", path, &d), "%s: %s", good[i].name, d.text);
    cr_assert_str_eq(
        path + (strlen(path) < strlen(good[i].tail) ? 0 : strlen(path) - strlen(good[i].tail)),
        good[i].tail, "%s leads to %s", good[i].name, path);
  }
  write_file("tiny.yaml", card_text); /* now it is one, and nearer */
  cr_assert(find(DS_CARD_MODEL, "tiny", ".", path, &d));
  cr_assert_null(strstr(path, "models"), "%s", path);
  static const char *const bad[] = {"tinny", "./nothing.yaml", "nothing.json", "/nonexistent",
                                    "org/other"};
  for (size_t i = 0; i < LEN(bad); i++) {
    cr_assert(!find(DS_CARD_MODEL, bad[i], ".", path, &d), "%s leads to %s", bad[i], path);
    cr_assert(strstr(d.text, bad[i]) && strcmp(d.file, "s.yaml") == 0 && d.line == 3 &&
                  d.column == 8,
              "%s", d.text);
  }
  cr_assert(!find(DS_CARD_MODEL, "tinny", ".", path, &d));
  cr_assert_str_eq(d.hint, "did you mean tiny?");
  remove_dir();
}

Test(cards, a_family_leads_to_its_newest_engine) {
  char path[1024], sub[128];
  ds_diag d;
  make_dir();
  snprintf(sub, sizeof sub, "%s/models", dir);
  cr_assert_eq(mkdir(sub, 0777), 0);
  snprintf(sub, sizeof sub, "%s/models/engines", dir);
  cr_assert_eq(mkdir(sub, 0777), 0);
  write_file("models/engines/x-old.yaml", "engine: 1\nname: x-old\nfamily: x\ndate: 2024-01\n");
  write_file("models/engines/x-new.yaml", "engine: 1\nname: x-new\nfamily: x\ndate: 2026-01\n");
  write_file("models/engines/x-mid.yaml", "engine: 1\nname: x-mid\nfamily: x\ndate: 2025-01\n");
  cr_assert(find(DS_CARD_ENGINE, "x", ".", path, &d), "%s", d.text);
  cr_assert_not_null(strstr(path, "x-new.yaml"), "%s", path);
  cr_assert(find(DS_CARD_ENGINE, "x-old", ".", path, &d));
  cr_assert_not_null(strstr(path, "x-old.yaml"), "%s", path);
  remove_dir();
}

/* --- hardware that does not exist ---------------------------------------------------------- */

static bool changed(const char *flow, bool has_base, ds_hw *hw, ds_diag *d) {
  ds_doc doc;
  memset(d, 0, sizeof *d);
  bool ok = ds_doc_parse(flow, strlen(flow), "s.yaml", &doc, d) &&
            ds_hardware_override(doc.root, "hardware", has_base, hw, d);
  ds_doc_free(&doc);
  return ok;
}

Test(cards, any_value_of_a_part_can_be_changed) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_HARDWARE];
  ds_hw base;
  ds_diag d;
  card_read(DS_CARD_HARDWARE, "h100-sxm", &base);
  for (size_t i = 0; i < s->n_fields; i++) {
    const ds_card_field *f = &s->fields[i];
    /* 2 is in range everywhere that 1 is not, and allowed as an exponent */
    double want = f->max <= 1 ? 0.125 : strstr(f->path, "memory") ? 2e9 : 2, got;
    if (f->dim == DS_DIM_FLOPS_PER_S || f->dim == DS_DIM_BYTES_PER_S) want = 2e12;
    char value[64], flow[256];
    ds_quantity_format(want, f->dim, value, sizeof value);
    /* a.b.c: value becomes {a: {b: {c: value}}} */
    size_t n = 0, depth = 1;
    n += (size_t)snprintf(flow + n, sizeof flow - n, "{");
    for (const char *p = f->path; *p; p++) {
      if (*p == '.')
        n += (size_t)snprintf(flow + n, sizeof flow - n, ": {"), depth++;
      else
        flow[n++] = *p;
    }
    n += (size_t)snprintf(flow + n, sizeof flow - n, ": %s", value);
    while (depth--) flow[n++] = '}';
    flow[n] = '\0';
    ds_hw hw = base, expect = base;
    cr_assert(changed(flow, true, &hw, &d), "%s: %s", flow, d.text);
    memcpy(&got, (const char *)&hw + f->offset, sizeof got);
    cr_assert_eq(got, want, "%s: %.17g", flow, got);
    /* nothing else moved, but for what follows from it */
    memcpy((char *)&expect + f->offset, &want, sizeof want);
    memcpy(expect.name, hw.name, sizeof hw.name);
    memcpy(expect.price_date, hw.price_date, sizeof hw.price_date);
    expect.grade = hw.grade;
    expect.big_default = hw.big_default;
    if (strncmp(f->path, "price", 5) == 0) continue;
    cr_assert_arr_eq(&hw, &expect, sizeof hw, "%s changed something else", flow);
    cr_assert_eq(hw.grade, DS_GRADE_ESTIMATE);
    cr_assert_str_eq(hw.name, "h100-sxm (changed)");
  }
  ds_hw hw = base;
  cr_assert(changed("{price: 1.25 USD/h}", true, &hw, &d));
  cr_assert(hw.price_usd_per_h == 1.25 && hw.price_low_usd_per_h == 1.25 &&
            hw.price_high_usd_per_h == 1.25);
  cr_assert_eq(hw.grade, base.grade); /* another price is not another part */
}

/* An exponent is 1, 2 or 4, for everybody's kernels and for one library's. */
Test(cards, exponents_are_checked_wherever_they_stand) {
  ds_hw hw;
  ds_diag d;
  static const char *const bad[] = {"{efficiencies: {attn_decode_kv16: {p: 3}}}", "{efficiencies: {mla_decode_kv8: {p: 3}}}",
                                    "{libraries: {vllm: {attn_decode_kv16: {p: 3}}}}",
                                    "{libraries: {trtllm: {attn_decode_kv8_mha: {p: 3}}}}"};
  for (size_t i = 0; i < LEN(bad); i++) {
    card_read(DS_CARD_HARDWARE, "h100-sxm", &hw);
    cr_assert(!changed(bad[i], true, &hw, &d), "%s is accepted", bad[i]);
    cr_assert(strstr(d.text, ".p is '3'"), "%s: %s", bad[i], d.text);
  }
}

/* --- wrong cards --------------------------------------------------------------------------- */

Test(cards, a_wrong_card_is_refused_where_it_is_wrong) {
  static const struct {
    const char *from, *to;
    int64_t line, column;
    const char *why;
  } cases[] = {
      {"model: 1", "model: 2", 1, 8, "2"},
      {"model: 1", "hardware: 1", 1, 1, "no model card"},
      {"name: tiny", "nam: tiny", 2, 1, "'nam'"},
      {"layers: 2", "layers: 0", 8, 22, "dimensions.layers is 0"},
      {"layers: 2", "layers: two", 8, 22, "'two'"},
      {"layers: 2, ", "", 8, 13, "dimensions.layers is missing"},
      {"layers: 2", "layer: 2", 8, 14, "'layer' in dimensions"},
      {"weights: bf16", "weights: b16", 9, 10, "'b16'"},
      {"weights: bf16", "", 1, 1, "weights is missing"},
      {"weights: bf16", "weights: bf16\npublished_parameters: {value: 5 GB}", 10, 31, "'5 GB'"},
  };
  for (size_t i = 0; i < LEN(cases); i++) {
    char text[2048];
    const char *hit = strstr(card_text, cases[i].from);
    cr_assert_not_null(hit);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(hit - card_text), card_text, cases[i].to,
             hit + strlen(cases[i].from));
    char path[128];
    make_dir();
    write_file("c.yaml", text);
    snprintf(path, sizeof path, "%s/c.yaml", dir);
    ds_doc doc;
    ds_diag d = {0};
    ds_model m;
    bool ok = ds_card_open(DS_CARD_MODEL, path, &doc, NULL, &d);
    if (ok) {
      ok = ds_card_model(&doc, &m, &d);
      ds_doc_free(&doc);
    }
    cr_assert(!ok, "%s is accepted", cases[i].to);
    cr_assert(strstr(d.text, cases[i].why) && d.line == cases[i].line &&
                  d.column == cases[i].column,
              "%s: %lld:%lld: %s", cases[i].to, (long long)d.line, (long long)d.column, d.text);
    remove_dir();
  }
}
