// SPDX-License-Identifier: Apache-2.0
/* The encoder of images beside a language model: a dense transformer over patches, without KV, and the projector that
 * makes tokens of the language model from what it yields. Widths in values, pictures in pixels. */
#ifndef DS_SPEC_VISION_H
#define DS_SPEC_VISION_H

#include "base/status.h"
#include "base/types.h"

#define DS_PROJECTOR_MAX 8

typedef struct ds_vision {
  int64_t layers;        /* 0: the model has no encoder, and nothing else is set */
  int64_t hidden, heads, head_dim, ffn;
  int64_t mlp_matrices;  /* 3 gated, 2 plain */
  bool bias, norm_bias;  /* of projections; norms with a gain and a bias (LayerNorm) */
  int64_t patch, frames; /* side of a patch; frames that one patch covers (0: one) */
  int64_t positions;     /* rows of a learned table; 0: none */
  bool class_token;      /* one more token beside the patches of a picture */
  int64_t merge;         /* patches on the side of a square that becomes one token of the language model */
  int64_t window;        /* patches that a patch sees in layers with windows; 0: no such layers */
  int64_t full_layers;   /* layers that see the whole picture, where others have a window */
  /* How large a picture is. A fixed side (every picture, or tile of one, is scaled to it), or its own, between these
   * limits. */
  int64_t image_size;    /* 0: its own */
  int64_t max_tiles;     /* a picture is cut into at most so many; 0 or 1: it is not cut */
  bool thumbnail;        /* beside several tiles goes the whole picture as one more */
  int64_t min_pixels, max_pixels, max_side; /* 0: no such limit */
  /* Widths of the projector, from what it reads to what it gives: each product leads from one to the next. */
  int64_t projector[DS_PROJECTOR_MAX], n_projector;
  int64_t projectors;    /* so many of them side by side (one per depth of the encoder that is tapped); 0: one */
  bool projector_bias;
  int64_t extra_params;  /* what else it holds: its first bias, norms outside layers, scales */
  int32_t weights;       /* ds_format; an encoder usually stays in 16 bit where the language model is narrow */
} ds_vision;

/* DS_E_INPUT with the reason where an encoder does not hold together beside a language model of this width. */
ds_status ds_vision_check(const ds_vision *v, int64_t hidden, ds_error *err);
/* Weights in all. */
double ds_vision_params(const ds_vision *v);
/* Patches of which one token is made. */
static inline int64_t ds_vision_patches_per_token(const ds_vision *v) { return v->merge * v->merge; }
/* Tokens of the picture or tile of fixed side; 0 where pictures keep their own. */
int64_t ds_vision_tile_tokens(const ds_vision *v);
/* Tokens of a picture of this resolution, and of the largest that it takes. */
int64_t ds_vision_tokens(const ds_vision *v, int64_t width, int64_t height);
int64_t ds_vision_most_tokens(const ds_vision *v);

#endif
