// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/measured.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

const double ds_window_s[DS_WINDOWS] = {1, 10, 60};

typedef struct counts {
  int64_t width_ns, window; /* being filled */
  double in_window, sum, squares;
} counts;

static void close_windows(counts *c, int64_t until) {
  for (; c->window < until; c->window++) {
    c->sum += c->in_window;
    c->squares += c->in_window * c->in_window;
    /* A long silence is many empty windows. */
    if (c->in_window == 0) {
      c->window = until;
      return;
    }
    c->in_window = 0;
  }
}

void ds_measured_of(const ds_arrivals *a, ds_measured *out) {
  memset(out, 0, sizeof *out);
  int64_t span_ns = a->last_ns - a->first_ns;
  if (a->n < 2 || span_ns <= 0) return;
  counts c[DS_WINDOWS];
  for (size_t k = 0; k < DS_WINDOWS; k++) c[k] = (counts){.width_ns = ds_ns_of_s(ds_window_s[k])};
  double mean_s = (double)span_ns * 1e-9 / (double)(a->n - 1), squares = 0;
  ds_arrival_walk w = {0, 0, 0};
  int64_t before = a->first_ns;
  for (size_t i = 0; i < a->n; i++) {
    int64_t t = ds_arrival_next(a, &w) - a->first_ns;
    double off = (double)(t + a->first_ns - before) * 1e-9 - mean_s;
    if (i > 0) squares += off * off;
    before = t + a->first_ns;
    for (size_t k = 0; k < DS_WINDOWS; k++) {
      close_windows(&c[k], t / c[k].width_ns);
      c[k].in_window++;
    }
  }
  out->rate_per_s = 1 / mean_s;
  out->cv = ds_sqrt(squares / (double)(a->n - 1)) / mean_s;
  for (size_t k = 0; k < DS_WINDOWS; k++) {
    int64_t windows = span_ns / c[k].width_ns; /* whole ones */
    double n = (double)windows, mean = c[k].sum / n;
    if (n >= 2 && mean > 0) out->dispersion[k] = (c[k].squares / n - mean * mean) / mean;
  }
}

static bool room(uint32_t **p, size_t *cap, uint64_t index) {
  if (index < *cap) return true;
  size_t more = *cap == 0 ? 1024 : 2 * *cap;
  while (more <= index) more *= 2;
  uint32_t *q = realloc(*p, more * sizeof *q);
  if (q == NULL) return false;
  memset(q + *cap, 0, (more - *cap) * sizeof *q);
  *p = q;
  *cap = more;
  return true;
}

bool ds_reuse_add(ds_reuse *u, const ds_generated *q) {
  uint32_t seen = 0;
  if (!room(&u->context, &u->cap_context, q->session) ||
      !room(&u->longest, &u->cap_longest, q->prefix_group))
    return false;
  if (q->session > 0) {
    uint32_t *context = &u->context[q->session];
    if (q->grows && q->turn > 0 && *context <= q->input_tokens) seen = *context;
    *context = q->input_tokens + q->output_tokens;
  }
  if (q->prefix_group > 0) {
    uint32_t *longest = &u->longest[q->prefix_group];
    uint32_t shared = *longest < q->prefix_tokens ? *longest : q->prefix_tokens;
    if (shared > seen) seen = shared;
    if (q->prefix_tokens > *longest) *longest = q->prefix_tokens;
  }
  u->reused_tokens += seen;
  u->input_tokens += q->input_tokens;
  return true;
}

void ds_reuse_free(ds_reuse *u) {
  free(u->context);
  free(u->longest);
  memset(u, 0, sizeof *u);
}
