// SPDX-License-Identifier: GPL-3.0-or-later
/* The vision_config of a Hugging Face config.json as an encoder. A file leaves out what its family's configuration class
 * has as default (huggingface/transformers, models/NAME/configuration_NAME.py): the presets here. Limits of a picture's
 * size stand in another file (preprocessor_config.json) and are the families' published ones. */
#include <string.h>

#include "io/config_vision.h"

typedef enum projector { MERGER, POOLED, ADAPTER, PIXTRAL, SHUFFLED, GATED_MERGER } projector;

typedef struct rules {
  const char *model_type;
  projector projector;
  ds_vision preset;
} rules;

#define QWEN3                                                                                      \
  {                                                                                                \
    .layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304, .mlp_matrices = 2, .bias = true,       \
    .norm_bias = true, .patch = 16, .frames = 2, .positions = 2304, .merge = 2,                    \
    .min_pixels = 65536, .max_pixels = 16777216, .projector_bias = true                            \
  }
#define INTERN                                                                                     \
  {                                                                                                \
    .layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .mlp_matrices = 2, .bias = true,       \
    .norm_bias = true, .patch = 14, .class_token = true, .merge = 2, .image_size = 448,            \
    .max_tiles = 12, .thumbnail = true, .projector_bias = true                                     \
  }

static const rules families[] = {
    {"qwen2_vl", MERGER,
     {.layers = 32, .hidden = 1280, .heads = 16, .mlp_matrices = 2, .bias = true, .norm_bias = true,
      .patch = 14, .frames = 2, .merge = 2, .min_pixels = 3136, .max_pixels = 12845056,
      .projector_bias = true}},
    {"qwen2_5_vl", MERGER,
     {.layers = 32, .hidden = 1280, .heads = 16, .ffn = 3420, .mlp_matrices = 3, .bias = true,
      .patch = 14, .frames = 2, .merge = 2, .window = 64, .full_layers = 4, .min_pixels = 3136,
      .max_pixels = 12845056, .projector_bias = true}},
    {"qwen3_vl", MERGER, QWEN3},
    {"qwen3_vl_moe", MERGER, QWEN3},
    {"qwen3_5_moe", MERGER, QWEN3},
    {"gemma3", POOLED,
     {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304, .mlp_matrices = 2, .bias = true,
      .norm_bias = true, .patch = 14, .merge = 4, .image_size = 896}},
    {"llama4", ADAPTER,
     {.layers = 34, .hidden = 1408, .heads = 16, .ffn = 5632, .mlp_matrices = 2, .bias = true,
      .norm_bias = true, .patch = 14, .class_token = true, .merge = 2, .image_size = 336,
      .max_tiles = 16, .thumbnail = true}},
    {"mistral3", PIXTRAL,
     {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .mlp_matrices = 3, .patch = 14,
      .merge = 2, .max_side = 1540}},
    {"internvl_chat", SHUFFLED, INTERN},
    {"internvl", SHUFFLED, INTERN},
    {"glm4v_moe", GATED_MERGER,
     {.layers = 24, .hidden = 1536, .heads = 12, .ffn = 4096, .mlp_matrices = 3, .patch = 14,
      .frames = 2, .merge = 2, .positions = 576, .min_pixels = 12544, .max_pixels = 9633792}},
};

static const rules *rules_of(const char *model_type) {
  for (size_t i = 0; i < sizeof families / sizeof families[0]; ++i)
    if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
  return NULL;
}

/* A count where the file has it, under one of two names; of a list, its first. */
static bool count(const ds_node *map, const char *key, const char *other, int64_t *out, ds_diag *d) {
  const ds_node *n = ds_node_get(map, key);
  if (!n && other) n = ds_node_get(map, other);
  if (!n || ds_node_is_null(n)) return true;
  if (n->kind == DS_NODE_LIST && n->first) n = n->first;
  char name[96];
  snprintf(name, sizeof name, "vision_config.%s", n->key ? n->key : key);
  return ds_want_integer(n, name, 1, 2147483647, out, d);
}

static bool ratio(const ds_node *map, const char *key, int64_t *merge, ds_diag *d) {
  const ds_node *n = ds_node_get(map, key);
  double x;
  if (!n) return true;
  if (!ds_want_number(n, key, 1e-3, 1, &x, d)) return false;
  *merge = (int64_t)(1 / x + 0.5);
  return true;
}

static bool read_patches(const ds_node *v, const ds_node *root, const rules *r, ds_vision *out, ds_diag *d) {
  int64_t window = 0, ratio_of_mlp = 4, given = 0;
  const ds_node *full = ds_node_get(v, "fullatt_block_indexes");
  bool embed = ds_node_get(v, "embed_dim") != NULL; /* Qwen2-VL: its hidden_size is what comes out */
  if (!count(v, embed ? "embed_dim" : "hidden_size", NULL, &out->hidden, d) ||
      !count(v, "depth", "num_hidden_layers", &out->layers, d) ||
      !count(v, "num_heads", "num_attention_heads", &out->heads, d) ||
      !count(v, "mlp_ratio", NULL, &ratio_of_mlp, d) ||
      !count(v, "intermediate_size", NULL, &given, d) ||
      !count(v, "patch_size", "spatial_patch_size", &out->patch, d) ||
      !count(v, "temporal_patch_size", NULL, &out->frames, d) ||
      !count(v, "num_position_embeddings", NULL, &out->positions, d) ||
      !count(r->projector == PIXTRAL ? root : v, "spatial_merge_size", NULL, &out->merge, d))
    return false;
  if (out->ffn == 0) out->ffn = ratio_of_mlp * out->hidden;
  if (given > 0 && r->projector != GATED_MERGER) out->ffn = given;
  out->head_dim = out->hidden / out->heads;
  if (out->image_size > 0 && !count(v, "image_size", NULL, &out->image_size, d)) return false;
  if (out->max_side > 0 && !count(v, "image_size", NULL, &out->max_side, d)) return false;
  if (out->window == 0) return true;
  if (!count(v, "window_size", NULL, &window, d)) return false;
  if (window > 0) out->window = (window / out->patch) * (window / out->patch);
  if (full && full->kind == DS_NODE_LIST) out->full_layers = (int64_t)full->n;
  return true;
}

/* Widths of the projector, and the weights that no table names. */
static bool read_projector(const ds_node *v, const ds_node *root, const rules *r, int64_t text_hidden,
                           ds_vision *o, ds_diag *d) {
  int64_t h = o->hidden, wide, inside = 4096, tokens = 256, last = text_hidden, gated = 10944;
  const ds_node *taps = ds_node_get(v, "deepstack_visual_indexes");
  int64_t deep = taps && taps->kind == DS_NODE_LIST ? (int64_t)taps->n : strncmp(r->model_type, "qwen3_vl", 8) == 0 ? 3 : 0;
  int64_t *to = o->projector, patches = (o->image_size / o->patch) * (o->image_size / o->patch);
  if (!ratio(v, "pixel_shuffle_ratio", &o->merge, d) || !ratio(root, "downsample_ratio", &o->merge, d)) return false;
  switch (r->projector) {
  case MERGER:
    wide = h * o->merge * o->merge;
    to[0] = to[1] = wide;
    to[2] = last;
    o->n_projector = 3;
    o->extra_params = h * (o->norm_bias ? 2 : 1) + (o->positions > 0 ? h : 0) + deep * 2 * wide;
    if (deep > 0) o->projectors = 1 + deep;
    return true;
  case POOLED:
    if (!count(root, "mm_tokens_per_image", NULL, &tokens, d)) return false;
    for (o->merge = 1; o->merge * o->merge * tokens < patches;) ++o->merge;
    to[0] = h;
    to[1] = last;
    o->n_projector = 2;
    o->positions = patches;
    o->extra_params = 4 * h;
    return true;
  case ADAPTER:
    if (!count(v, "projector_input_dim", NULL, &inside, d)) return false;
    to[0] = h * o->merge * o->merge;
    to[1] = to[2] = inside;
    if (!count(v, "projector_output_dim", NULL, &to[2], d)) return false;
    to[3] = last;
    o->n_projector = 4;
    o->positions = patches + 1;
    o->extra_params = 4 * h;
    return true;
  case PIXTRAL:
    to[0] = h * o->merge * o->merge;
    to[1] = h;
    to[2] = to[3] = last;
    o->n_projector = 4;
    o->extra_params = 2 * h;
    return true;
  case SHUFFLED:
    to[0] = h * o->merge * o->merge;
    to[1] = to[2] = last;
    o->n_projector = 3;
    o->positions = patches + 1;
    o->extra_params = o->layers * 2 * h + h + 2 * to[0];
    return count(root, "max_dynamic_patch", NULL, &o->max_tiles, d);
  case GATED_MERGER:
    if (!count(v, "out_hidden_size", NULL, &o->ffn, d) || !count(v, "intermediate_size", NULL, &gated, d)) return false;
    to[0] = h * o->merge * o->merge;
    to[1] = to[2] = to[4] = last;
    to[3] = gated * 3 / 2; /* gate, up and down: as many weights as two products so wide */
    o->n_projector = 5;
    o->extra_params = last + 2 * last + 3 * h;
    return true;
  }
  return false;
}

bool ds_config_json_vision(const ds_node *root, const char *model_type, ds_model *m, ds_diag *d) {
  const ds_node *v = ds_node_get(root, "vision_config");
  const rules *r = rules_of(model_type);
  if (!r || !v || ds_node_is_null(v)) return true;
  if (!ds_want_map(v, "vision_config", d)) return false;
  m->vision = r->preset;
  if (!read_patches(v, root, r, &m->vision, d) || !read_projector(v, root, r, m->hidden, &m->vision, d)) return false;
  ds_error err = {DS_OK, -1, ""};
  if (ds_vision_check(&m->vision, m->hidden, &err) == DS_OK) return true;
  ds_complain_key(d, v, "vision_config: %s", err.text);
  ds_diag_expected(d, "the vision_config of the family's published form, or a model card");
  return false;
}
