// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/arrivals.h"

#include <stdlib.h>

#include "metric/gaps.h"

static bool grow(void **p, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return true;
  size_t want = *cap == 0 ? 1024 : *cap;
  while (want < need) {
    if (want > SIZE_MAX / 2 / size) return false;
    want *= 2;
  }
  void *q = realloc(*p, want * size);
  if (q == NULL) return false;
  *p = q;
  *cap = want;
  return true;
}

static void add_length(ds_lengths *l, uint32_t tokens) {
  if (tokens < l->min) l->min = tokens;
  if (tokens > l->max) l->max = tokens;
  l->sum += tokens;
  l->bucket[ds_gap_bucket((int64_t)tokens)]++;
}

static void add_lengths(ds_arrivals *a, const ds_request *r, size_t n) {
  if (a->n == 0) {
    a->input.min = r[0].input_tokens;
    a->output.min = r[0].output_tokens;
  }
  double pairs = 0, context = 0;
  for (size_t i = 0; i < n; i++) {
    add_length(&a->input, r[i].input_tokens);
    add_length(&a->output, r[i].output_tokens);
    double p = (double)r[i].input_tokens, more = (double)r[i].output_tokens - 1;
    pairs += p * (p + 1) / 2;
    /* Token k after the first reads the prompt, the k tokens before it and itself. */
    context += more * (p + 1) + more * (more - 1) / 2;
  }
  a->input.count += n;
  a->output.count += n;
  a->prefill_pairs += pairs;
  a->decode_context += context;
}

static bool add_far(ds_arrivals *a, size_t index, int64_t gap_ns) {
  void *far = a->far;
  bool good = grow(&far, &a->cap_far, a->n_far + 1, sizeof *a->far);
  a->far = far;
  if (good) a->far[a->n_far++] = (ds_far_gap){index, gap_ns};
  return good;
}

bool ds_arrivals_add(ds_arrivals *a, const ds_request *r, size_t n) {
  if (n == 0) return true;
  if (n > SIZE_MAX - a->n) return false;
  void *gaps = a->gap_ns;
  bool good = grow(&gaps, &a->cap, a->n + n, sizeof *a->gap_ns);
  a->gap_ns = gaps;
  if (!good) return false;
  if (a->n == 0) a->first_ns = a->last_ns = r[0].arrival_ns;
  add_lengths(a, r, n);
  int64_t last_ns = a->last_ns;
  uint32_t *to = a->gap_ns + a->n;
  for (size_t i = 0; i < n; i++) {
    int64_t gap = r[i].arrival_ns - last_ns;
    last_ns = r[i].arrival_ns;
    bool far = gap >= (int64_t)UINT32_MAX;
    to[i] = far ? UINT32_MAX : (uint32_t)gap;
    if (far && !add_far(a, a->n + i, gap)) return false;
  }
  a->n += n;
  a->last_ns = last_ns;
  return true;
}

void ds_arrivals_free(ds_arrivals *a) {
  free(a->gap_ns);
  free(a->far);
  a->gap_ns = NULL;
  a->far = NULL;
  a->n = a->cap = a->n_far = a->cap_far = 0;
}

int64_t ds_arrival_next(const ds_arrivals *a, ds_arrival_walk *w) {
  if (w->i == 0) w->now_ns = a->first_ns;
  uint32_t gap = a->gap_ns[w->i++];
  w->now_ns += gap == UINT32_MAX ? a->far[w->far++].gap_ns : (int64_t)gap;
  return w->now_ns;
}

uint32_t ds_lengths_percentile(const ds_lengths *l, double pct) {
  double need = (double)l->count * pct / 100;
  uint64_t below = 0;
  for (uint32_t b = 0; b < DS_LENGTH_BUCKETS; b++) {
    below += l->bucket[b];
    if (below == 0 || (double)below < need) continue;
    uint32_t low = (uint32_t)ds_gap_bucket_low(b);
    return low < l->min ? l->min : low > l->max ? l->max : low;
  }
  return l->max;
}
