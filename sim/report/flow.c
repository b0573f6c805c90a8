// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/flow.h"

#include <stdlib.h>
#include <string.h>

#define SATURATED_SHARE      0.05
#define SATURATED_SIGMAS     2.0
#define SATURATED_WAIT_RATIO 1.25
#define SATURATED_WAIT_SHARE 0.0125 /* of the arrival window */

/* The most requests at a time, exactly, without sorting every finish: time is cut into bins, and
 * only bins whose upper bound (in the system at their start, plus all that arrive in them) beats
 * what some bin boundary already has need their finishes in order. */
#define BINS_MAX         65536
#define REQUESTS_PER_BIN 16

typedef struct bins {
  int64_t from_ns;
  int shift; /* a bin is 2^shift ns wide */
  size_t n;
  uint32_t *arrived, *finished, *place;
} bins;

static size_t bin_of(const bins *b, int64_t t_ns) {
  return (size_t)((uint64_t)(t_ns - b->from_ns) >> b->shift);
}

static bool bins_new(bins *b, int64_t from_ns, int64_t to_ns, size_t requests) {
  memset(b, 0, sizeof *b);
  size_t want = requests / REQUESTS_PER_BIN + 1;
  if (want > BINS_MAX) want = BINS_MAX;
  b->from_ns = from_ns;
  while (((uint64_t)(to_ns - from_ns) >> b->shift) >= want) b->shift++;
  b->n = bin_of(b, to_ns) + 1;
  b->arrived = calloc(3 * b->n, sizeof *b->arrived);
  if (b->arrived == NULL) return false;
  b->finished = b->arrived + b->n;
  b->place = b->finished + b->n;
  return true;
}

static int by_time(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Which bins must be looked into; place[bin] becomes the first index of its finishes in one array,
 * or UINT32_MAX. */
static size_t choose_bins(bins *b, uint64_t *best) {
  uint64_t in_system = 0;
  for (size_t i = 0; i < b->n; i++) {
    in_system += b->arrived[i];
    in_system -= b->finished[i];
    if (in_system > *best) *best = in_system;
  }
  size_t total = 0;
  in_system = 0;
  for (size_t i = 0; i < b->n; i++) {
    bool open = in_system + b->arrived[i] > *best;
    b->place[i] = open ? (uint32_t)total : UINT32_MAX;
    if (open) total += b->finished[i];
    in_system += b->arrived[i];
    in_system -= b->finished[i];
  }
  return total;
}

static bool sweep(const ds_arrivals *a, const int64_t *e2e_ns, bins *b, uint64_t *best) {
  *best = a->n > 0;
  size_t total = choose_bins(b, best);
  int64_t *finish = malloc((total + 1) * sizeof *finish);
  uint32_t *filled = calloc(b->n, sizeof *filled);
  bool good = finish != NULL && filled != NULL;
  ds_arrival_walk w = {0, 0, 0};
  for (size_t i = 0; good && i < a->n; i++) {
    int64_t at = ds_arrival_next(a, &w) + e2e_ns[i];
    size_t bin = bin_of(b, at);
    if (b->place[bin] != UINT32_MAX) finish[b->place[bin] + filled[bin]++] = at;
  }
  uint64_t in_system = 0;
  size_t bin = 0, gone = 0; /* gone: finishes of this bin that are behind us */
  bool sorted = false;
  memset(&w, 0, sizeof w);
  for (size_t i = 0; good && i < a->n; i++) {
    int64_t now = ds_arrival_next(a, &w);
    size_t here = bin_of(b, now);
    while (bin < here) {
      in_system -= b->finished[bin++] - gone;
      gone = 0;
      sorted = false;
    }
    if (b->place[bin] != UINT32_MAX) {
      int64_t *f = finish + b->place[bin];
      if (!sorted) qsort(f, b->finished[bin], sizeof *f, by_time);
      sorted = true;
      while (gone < b->finished[bin] && f[gone] <= now) {
        gone++;
        in_system--;
      }
    }
    in_system++;
    if (b->place[bin] != UINT32_MAX && in_system > *best) *best = in_system;
  }
  free(finish);
  free(filled);
  return good;
}

bool ds_flow_of(const ds_arrivals *a, const int64_t *e2e_ns, const int64_t *queue_ns,
                int64_t last_finish_ns, ds_flow *out) {
  memset(out, 0, sizeof *out);
  out->requests = a->n;
  if (a->n == 0) return true;
  int64_t first = a->first_ns, last = a->last_ns;
  out->window_ns = last - first;
  int64_t half = first + out->window_ns / 2, late = first + out->window_ns / 4 * 3,
          early = first + out->window_ns / 4;
  out->drain_ns = last_finish_ns - last;
  bins b;
  if (!bins_new(&b, first, last_finish_ns, a->n)) return false;
  uint64_t arrived_half = 0, arrived_late = 0, n_early = 0, gone_half = 0, gone_late = 0,
           gone_end = 0;
  double sum = 0, sum_early = 0, sum_late = 0;
  ds_arrival_walk w = {0, 0, 0};
  for (size_t i = 0; i < a->n; i++) {
    int64_t at = ds_arrival_next(a, &w), finish = at + e2e_ns[i];
    double queue_s = (double)queue_ns[i] * 1e-9;
    b.arrived[bin_of(&b, at)]++;
    b.finished[bin_of(&b, finish)]++;
    sum += (double)e2e_ns[i] * 1e-9;
    if (at <= half) {
      arrived_half++;
      if (at > early) {
        n_early++;
        sum_early += queue_s;
      }
    }
    if (at <= late)
      arrived_late++;
    else
      sum_late += queue_s;
    gone_half += finish <= half;
    gone_late += finish <= late;
    gone_end += finish <= last;
  }
  out->in_system_half = arrived_half - gone_half;
  out->in_system_late = arrived_late - gone_late;
  out->in_system_end = a->n - gone_end;
  out->arrived_second_half = a->n - arrived_half;
  out->e2e_mean_s = sum / (double)a->n;
  out->queue_early_s = n_early > 0 ? sum_early / (double)n_early : 0;
  out->queue_late_s = a->n > arrived_late ? sum_late / (double)(a->n - arrived_late) : 0;
  bool good = sweep(a, e2e_ns, &b, &out->max_concurrent);
  free(b.arrived);
  return good;
}

bool ds_flow_saturated(const ds_flow *f) {
  if (f->window_ns <= 0 || f->in_system_late <= f->in_system_half ||
      f->in_system_end <= f->in_system_late)
    return false;
  double growth = (double)(f->in_system_end - f->in_system_half),
         came = (double)f->arrived_second_half;
  if (growth < SATURATED_SHARE * came ||
      growth * growth < SATURATED_SIGMAS * SATURATED_SIGMAS * came)
    return false;
  double more_s = f->queue_late_s - f->queue_early_s;
  return f->queue_late_s >= SATURATED_WAIT_RATIO * f->queue_early_s &&
         more_s >= SATURATED_WAIT_SHARE * (double)f->window_ns * 1e-9;
}

ds_settling ds_flow_settled(const ds_flow *f) {
  if (f->window_ns <= 0) return DS_SETTLED_NOT_BATCH;
  if ((double)f->window_ns * 1e-9 < DS_SETTLE_LATENCIES * f->e2e_mean_s)
    return DS_SETTLED_NOT_SHORT;
  return f->requests < DS_SETTLE_REQUESTS ? DS_SETTLED_NOT_FEW : DS_SETTLED;
}
