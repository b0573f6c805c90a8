// SPDX-License-Identifier: GPL-3.0-or-later
#include "gen/process.h"

#include "base/dist.h"
#include "base/num.h"

#define LAST_S 9.2e9 /* a little below 2^63 ns */

int64_t ds_process_next(ds_process *p) {
  uint64_t i = p->index++;
  if (p->kind == DS_PROCESS_BURST) return 0;
  if (p->time_ns == DS_TIME_NEVER) return DS_TIME_NEVER;
  if (p->kind == DS_PROCESS_CONSTANT) {
    double s = (double)(i + 1) / p->rate_per_s;
    p->time_ns = s < LAST_S ? ds_ns_of_s(s) : DS_TIME_NEVER;
    return p->time_ns;
  }
  ds_rng r = ds_rng_stream(p->seed, DS_PURPOSE_ARRIVAL, i);
  double gap_s = ds_draw_exponential(&r, 1.0 / p->rate_per_s);
  /* Each gap is rounded by itself and the sum is exact, so an hour's last arrival is as sharp as
   * its first. */
  int64_t gap_ns = gap_s < LAST_S ? ds_ns_of_s(gap_s) : DS_TIME_NEVER;
  p->time_ns = gap_ns < DS_TIME_NEVER - p->time_ns ? p->time_ns + gap_ns : DS_TIME_NEVER;
  return p->time_ns;
}
