// SPDX-License-Identifier: GPL-3.0-or-later
#include "gen/lengths.h"

static uint32_t whole_tokens(double x) {
  if (!(x >= 1.5)) return 1;
  if (x >= (double)DS_LENGTH_MAX) return DS_LENGTH_MAX;
  return (uint32_t)(x + 0.5);
}

ds_length ds_length_fixed(double value) {
  ds_length l = {.fixed = true, .tokens = whole_tokens(value)};
  return l;
}

ds_lognormal_fit ds_length_lognormal(double mean, double p, double value, double min, double max,
                                     ds_length *out) {
  out->fixed = false;
  out->tokens = 0;
  return ds_lognormal_from(mean, p, value, min, max, &out->law);
}

uint32_t ds_length_draw(const ds_length *l, uint64_t seed, ds_purpose purpose, uint64_t index) {
  if (l->fixed) return l->tokens;
  ds_rng r = ds_rng_stream(seed, purpose, index);
  return whole_tokens(ds_draw_lognormal(&r, &l->law));
}
