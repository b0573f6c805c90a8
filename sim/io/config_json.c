// SPDX-License-Identifier: GPL-3.0-or-later
/* A Hugging Face config.json in place of a model card: dense Llama-, Mistral-, Qwen2- and
 * Qwen3-shaped models. What the cost model does not price is refused by its name, never read as
 * something else. */
#include <string.h>

#include "io/card.h"

typedef struct family {
  const char *model_type, *architecture;
  bool qkv_bias, qk_norm,
      window_by_default; /* a sliding_window counts without use_sliding_window */
} family;

static const family families[] = {
    {"llama", "LlamaForCausalLM", false, false, false},
    {"mistral", "MistralForCausalLM", false, false, true},
    {"qwen2", "Qwen2ForCausalLM", true, false, false},
    {"qwen3", "Qwen3ForCausalLM", false, true, false},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

bool ds_is_config_json(const ds_node *root) {
  return root->kind == DS_NODE_MAP && !ds_node_get(root, "model") &&
         (ds_node_get(root, "architectures") || ds_node_get(root, "model_type"));
}

/* A key's scalar, NULL where it is absent or null. */
static const ds_node *given(const ds_node *root, const char *key) {
  const ds_node *n = ds_node_get(root, key);
  return n && !ds_node_is_null(n) ? n : NULL;
}

static bool find_family(const ds_node *root, const family **out, ds_diag *d) {
  const ds_node *list = ds_node_get(root, "architectures"), *type = given(root, "model_type");
  const ds_node *name = list && list->kind == DS_NODE_LIST && list->n > 0 ? list->first : type;
  if (!name || name->kind != DS_NODE_SCALAR) {
    ds_complain(d, root, "config.json names neither an architecture nor a model_type");
    ds_diag_expected(d, "\"architectures\": [\"LlamaForCausalLM\"] or the like");
    return false;
  }
  for (size_t i = 0; i < N_FAMILIES; ++i) {
    if (strcmp(name->text, families[i].architecture) != 0 &&
        strcmp(name->text, families[i].model_type) != 0)
      continue;
    *out = &families[i];
    return true;
  }
  ds_complain(d, name, "this version does not price the architecture '%.80s'", name->text);
  ds_diag_expected(
      d,
      "a dense model: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM");
  return false;
}

static bool refuse(const ds_node *n, const char *what, ds_diag *d) {
  ds_complain_key(d, n, "this version does not price %s ('%.60s')", what, n->key);
  ds_diag_expected(d, "a dense model with full attention");
  return false;
}

static bool check_shape(const ds_node *root, const family *f, ds_diag *d) {
  static const char *const experts[] = {"num_local_experts", "n_routed_experts", "num_experts",
                                        "moe_intermediate_size"};
  static const char *const nested[] = {"text_config", "vision_config", "audio_config",
                                       "llm_config"};
  const ds_node *n;
  for (size_t i = 0; i < sizeof experts / sizeof experts[0]; ++i)
    if ((n = given(root, experts[i])) && strcmp(n->text, "0") != 0 && strcmp(n->text, "1") != 0)
      return refuse(n, "mixtures of experts", d);
  for (size_t i = 0; i < sizeof nested / sizeof nested[0]; ++i)
    if ((n = given(root, nested[i]))) return refuse(n, "models of several parts", d);
  if ((n = given(root, "kv_lora_rank"))) return refuse(n, "latent attention (MLA)", d);
  if ((n = given(root, "layer_types")) && n->kind == DS_NODE_LIST)
    for (const ds_node *c = n->first; c; c = c->next)
      if (c->kind == DS_NODE_SCALAR && strcmp(c->text, "full_attention") != 0)
        return refuse(n, "sliding windows", d);
  const ds_node *window = given(root, "sliding_window"), *use = given(root, "use_sliding_window");
  bool used = f->window_by_default;
  if (use && !ds_want_bool(use, "use_sliding_window", &used, d)) return false;
  const ds_node *longest = given(root, "max_position_embeddings");
  int64_t w, most;
  if (!window || !used) return true;
  if (!ds_want_integer(window, "sliding_window", 0, INT64_MAX, &w, d)) return false;
  if (longest && !ds_want_integer(longest, "max_position_embeddings", 1, INT64_MAX, &most, d))
    return false;
  return (longest && w >= most) || w == 0 || refuse(window, "sliding windows", d);
}

/* A count, or its default (0: required). */
static bool count(const ds_node *root, const char *key, int64_t preset, int64_t *out, ds_diag *d) {
  const ds_node *n = given(root, key);
  *out = preset;
  if (n) return ds_want_integer(n, key, 1, 2147483647, out, d);
  if (preset > 0) return true;
  ds_complain(d, root, "config.json has no %s", key);
  ds_diag_expected(d, "the config.json of a dense model, with its %s", key);
  return false;
}

static bool flag(const ds_node *root, const char *key, bool preset, bool *out, ds_diag *d) {
  const ds_node *n = given(root, key);
  *out = preset;
  return !n || ds_want_bool(n, key, out, d);
}

static bool word_is(const ds_node *n, const char *word) {
  return n && n->kind == DS_NODE_SCALAR && strcmp(n->text, word) == 0;
}

/* The checkpoint's own format: what an engine would serve when told nothing. */
static bool read_format(const ds_node *root, ds_format *out, ds_diag *d) {
  const ds_node *type = given(root, "torch_dtype"), *quant = given(root, "quantization_config");
  if (!type) type = given(root, "dtype");
  *out = word_is(type, "float16") ? DS_FMT_FP16
                                  : DS_FMT_BF16; /* float32 checkpoints are served in 16 bit */
  if (!quant) return true;
  const ds_node *method = ds_node_get(quant, "quant_method"), *bits = ds_node_get(quant, "bits");
  if (word_is(method, "fp8"))
    *out = DS_FMT_FP8;
  else if ((word_is(method, "awq") || word_is(method, "gptq")) && word_is(bits, "4"))
    *out = DS_FMT_INT4;
  else if (word_is(method, "gptq") && word_is(bits, "8"))
    *out = DS_FMT_INT8_WO;
  else if (word_is(method, "mxfp4"))
    *out = DS_FMT_MXFP4;
  else {
    ds_complain_key(d, quant, "this version does not know the quantization_config of this model");
    ds_diag_expected(d, "quant_method fp8, awq or gptq with 4 bits, gptq with 8 bits, or mxfp4");
    ds_diag_hint(d, "without quantization_config the scenario's `weights` says the format");
    return false;
  }
  return true;
}

/* The name: the file's, or its folder's for a file called config.json. */
static void name_of(const char *file, char *out, size_t cap) {
  const char *end = file + strlen(file), *slash = strrchr(file, '/');
  if (slash && strcmp(slash, "/config.json") == 0) end = slash;
  const char *start = end;
  while (start > file && start[-1] != '/') --start;
  if (end - start > 5 && strncmp(end - 5, ".json", 5) == 0) end -= 5;
  snprintf(out, cap, "%.*s", end - start < 60 ? (int)(end - start) : 60, start);
  if (out[0] == '\0' || out[0] == '.') snprintf(out, cap, "model");
}

bool ds_config_json_model(const ds_doc *doc, ds_model *out, ds_diag *d) {
  const ds_node *root = doc->root;
  const family *f = NULL;
  memset(out, 0, sizeof *out);
  name_of(doc->file, out->name, sizeof out->name);
  if (!find_family(root, &f, d) || !check_shape(root, f, d) ||
      !count(root, "num_hidden_layers", 0, &out->layers, d) ||
      !count(root, "hidden_size", 0, &out->hidden, d) ||
      !count(root, "num_attention_heads", 0, &out->heads, d) ||
      !count(root, "num_key_value_heads", out->heads, &out->kv_heads, d) ||
      !count(root, "intermediate_size", 0, &out->ffn, d) ||
      !count(root, "vocab_size", 0, &out->vocab, d) || !read_format(root, &out->weights, d) ||
      !flag(root, "tie_word_embeddings", false, &out->tied_embeddings, d) ||
      !flag(root, "attention_bias", f->qkv_bias, &out->qkv_bias, d))
    return false;
  if (!given(root, "head_dim") && out->hidden % out->heads != 0) {
    ds_complain(d, root, "hidden_size (%lld) is no multiple of num_attention_heads (%lld)",
                (long long)out->hidden, (long long)out->heads);
    ds_diag_expected(d, "a head_dim, or a hidden_size that the heads divide");
    return false;
  }
  if (!count(root, "head_dim", out->hidden / out->heads, &out->head_dim, d)) return false;
  const ds_node *longest = given(root, "max_position_embeddings");
  if (longest &&
      !ds_want_integer(longest, "max_position_embeddings", 1, 2147483647, &out->max_positions, d))
    return false;
  out->qk_norm = f->qk_norm;
  out->mlp_matrices = 3; /* all four families have gated feed-forward layers */
  return true;
}
