// SPDX-License-Identifier: Apache-2.0
/* Weights of an encoder, and how many tokens a picture becomes.
 *
 * Pictures of their own size: each side to the nearest multiple of patch x merge; beyond max_pixels (below min_pixels)
 * both sides shrink (grow) alike and are rounded down (up). Source: smart_resize in image_processing_qwen2_vl.py of
 * huggingface/transformers. With max_side instead: no side longer than that, and what is left of a patch counts as one
 * (image_processing_pixtral.py there); the tokens that end a row of it are text to the engine and not counted.
 * Pictures in tiles: the grid of at most max_tiles whose shape is nearest to the picture's; of equals the larger one,
 * where the picture has more than half its pixels (dynamic_preprocess of OpenGVLab/InternVL). Llama 4 chooses among the
 * grids by another rule, which may take more of them. */
#include "spec/vision.h"

#include "base/num.h"

static ds_status wrong(ds_error *err, const char *what, int64_t found, const char *against, int64_t other) {
  ds_error_begin(err, DS_E_INPUT, what);
  ds_error_int(err, found);
  ds_error_text(err, against);
  ds_error_int(err, other);
  return DS_E_INPUT;
}

ds_status ds_vision_check(const ds_vision *v, int64_t hidden, ds_error *err) {
  if (v->layers <= 0) return DS_OK;
  int64_t unit = v->patch * v->merge, last = v->n_projector > 0 ? v->projector[v->n_projector - 1] : 0;
  if (v->hidden < 1 || v->heads < 1 || v->head_dim < 1 || v->ffn < 1 || v->patch < 1 || v->merge < 1 || v->n_projector < 2)
    return ds_error_begin(err, DS_E_INPUT, "vision: its dimensions must be positive counts");
  if (v->mlp_matrices != 2 && v->mlp_matrices != 3)
    return wrong(err, "vision.mlp_matrices is ", v->mlp_matrices, ", not 3 gated or 2 plain; layers: ", v->layers);
  if (last != hidden) return wrong(err, "vision.projector ends with ", last, ", and the language model is as wide as ", hidden);
  if (v->full_layers > v->layers) return wrong(err, "vision.full_layers is ", v->full_layers, ", and all layers are ", v->layers);
  if (v->image_size > 0 && v->image_size < unit)
    return wrong(err, "vision.image_size is ", v->image_size, ", less than the side of a token, ", unit);
  if (v->image_size == 0 && ds_vision_most_tokens(v) < 1)
    return wrong(err, "vision.max_pixels is ", v->max_pixels, ", less than one token of side ", unit);
  if (v->min_pixels > v->max_pixels && v->max_pixels > 0)
    return wrong(err, "vision.min_pixels is ", v->min_pixels, ", more than max_pixels, ", v->max_pixels);
  return DS_OK;
}

double ds_vision_params(const ds_vision *v) {
  if (v->layers <= 0) return 0;
  double h = (double)v->hidden, row = (double)v->heads * (double)v->head_dim, f = (double)v->ffn;
  double gated = v->mlp_matrices == 3 ? 2 : 1, norm = h * (v->norm_bias ? 2 : 1);
  double layer = h * 3 * row + row * h + (gated + 1) * h * f + 2 * norm;
  if (v->bias) layer += 3 * row + h + gated * f + h;
  double frames = v->frames > 1 ? (double)v->frames : 1, projector = 0;
  for (int64_t i = 0; i + 1 < v->n_projector; i++) {
    double to = (double)v->projector[i + 1];
    projector += (double)v->projector[i] * to + (v->projector_bias ? to : 0);
  }
  return (double)v->layers * layer + 3 * (double)(v->patch * v->patch) * frames * h +
         ((double)v->positions + (v->class_token ? 1 : 0)) * h +
         projector * (v->projectors > 1 ? (double)v->projectors : 1) + (double)v->extra_params;
}

int64_t ds_vision_tile_tokens(const ds_vision *v) {
  int64_t side = v->image_size / (v->patch * v->merge);
  return side * side;
}

static int64_t at_least(int64_t n, int64_t least) { return n > least ? n : least; }

static int64_t of_own_side(const ds_vision *v, int64_t width, int64_t height) {
  double unit = (double)(v->patch * v->merge), w = (double)width, h = (double)height;
  if (v->max_side > 0) {
    double longest = (w > h ? w : h) / (double)v->max_side;
    if (longest > 1) {
      w = ds_floor(w / longest);
      h = ds_floor(h / longest);
    }
    return at_least((int64_t)ds_ceil(w / unit), 1) * at_least((int64_t)ds_ceil(h / unit), 1);
  }
  int64_t across = at_least((int64_t)ds_floor(w / unit + 0.5), 1), down = at_least((int64_t)ds_floor(h / unit + 0.5), 1);
  double pixels = (double)across * (double)down * unit * unit;
  if (v->max_pixels > 0 && pixels > (double)v->max_pixels) {
    double shrink = ds_sqrt(w * h / (double)v->max_pixels);
    across = at_least((int64_t)ds_floor(w / shrink / unit), 1);
    down = at_least((int64_t)ds_floor(h / shrink / unit), 1);
  } else if (v->min_pixels > 0 && pixels < (double)v->min_pixels) {
    double grow = ds_sqrt((double)v->min_pixels / (w * h));
    across = (int64_t)ds_ceil(w * grow / unit);
    down = (int64_t)ds_ceil(h * grow / unit);
  }
  return across * down;
}

/* Tiles of the grid that suits this shape best, in order of their number. */
static int64_t tiles_of(const ds_vision *v, int64_t width, int64_t height) {
  double shape = (double)width / (double)height, area = (double)width * (double)height;
  double tile = (double)v->image_size * (double)v->image_size, nearest = -1;
  int64_t best = 1;
  for (int64_t n = 1; n <= v->max_tiles; n++) {
    for (int64_t across = 1; across <= n; across++) {
      if (n % across != 0) continue;
      int64_t down = n / across;
      double off = shape - (double)across / (double)down;
      if (off < 0) off = -off;
      bool larger = off == nearest && area > 0.5 * tile * (double)n;
      if (nearest >= 0 && off >= nearest && !larger) continue;
      nearest = off;
      best = n;
    }
  }
  return best;
}

int64_t ds_vision_tokens(const ds_vision *v, int64_t width, int64_t height) {
  if (v->image_size == 0) return of_own_side(v, width, height);
  int64_t tiles = v->max_tiles > 1 ? tiles_of(v, width, height) : 1;
  return ds_vision_tile_tokens(v) * (tiles + (tiles > 1 && v->thumbnail ? 1 : 0));
}

int64_t ds_vision_most_tokens(const ds_vision *v) {
  int64_t unit = v->patch * v->merge;
  if (v->image_size > 0) {
    int64_t tiles = v->max_tiles > 1 ? v->max_tiles : 1;
    return ds_vision_tile_tokens(v) * (tiles + (tiles > 1 && v->thumbnail ? 1 : 0));
  }
  if (v->max_side > 0) return ds_div_up(v->max_side, unit) * ds_div_up(v->max_side, unit);
  return v->max_pixels / (unit * unit);
}
