// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/rate_search.h"

#include "base/num.h"

static bool near_enough(const ds_rate_search *s, double low, double high) {
  return ds_floor(low * s->per_unit) + 1 >= ds_floor(high * s->per_unit) || high - low <= s->share * low;
}

bool ds_rate_find(const ds_rate_search *s, ds_rate_probe probe, void *user, double *best, double *broken, ds_diag *d) {
  double rate = s->start;
  *best = *broken = 0;
  for (int left = s->most; left > 0; left--) {
    bool holds;
    if (!probe(user, rate, &holds, d)) return false;
    if (holds) *best = rate;
    else *broken = rate;
    if (*broken <= 0) {
      rate *= 2;
    } else if (*best <= 0) {
      rate /= 2;
      if (rate * s->per_unit < 1) break;
    } else if (near_enough(s, *best, *broken)) {
      break;
    } else {
      rate = *best + (*broken - *best) / 2;
    }
  }
  return true;
}
