// SPDX-License-Identifier: Apache-2.0
/* What it takes to encode images: seconds, arithmetic and bytes of one run of the encoder over all images that an
 * iteration needs, from totals over them. */
#ifndef DS_COST_ENCODE_H
#define DS_COST_ENCODE_H

#include "cost/price.h"

/* Totals over the images of one run of the encoder, or of many runs. */
typedef struct ds_images_shape {
  uint64_t images;
  double tokens;       /* of the language model */
  double patches;      /* class tokens included */
  double pairs;        /* of patches that see each other in a layer that sees the whole picture (or tile) */
  double window_pairs; /* the same in a layer with windows */
  double tiles;        /* of 128 patches, by picture */
} ds_images_shape;

/* One more image of so many tokens. v is of a model with an encoder. */
void ds_images_add(ds_images_shape *s, const ds_vision *v, double tokens);

/* Seconds by operator. */
typedef struct ds_encoder_ops {
  double gemm, attention, elementwise, reduce, projector, launch;
} ds_encoder_ops;

/* One run; ops may be NULL. With the linear tier image_token_s of each token; 0 without an encoder. */
double ds_price_images_s(const ds_pricer *p, const ds_images_shape *s, ds_encoder_ops *ops);
/* Adds one device's FLOPs and bytes of so many runs, s their sum. */
void ds_price_images_work(const ds_pricer *p, const ds_images_shape *s, uint64_t runs, double *flops, double *bytes);

#endif
