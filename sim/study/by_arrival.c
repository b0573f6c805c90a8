// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/by_arrival.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
  int64_t arrival_ns;
  size_t index;
} place;

static int by_time(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->arrival_ns != y->arrival_ns) return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static bool add_arrivals(const place *order, const ds_request *r, size_t n, ds_arrivals *a) {
  for (size_t i = 0; i < n; i++) {
    ds_request q = r[order[i].index];
    q.arrival_ns = order[i].arrival_ns;
    if (!ds_arrivals_add(a, &q, 1)) return false;
  }
  return true;
}

bool ds_by_arrival_of(const ds_result *from, const ds_request *r, ds_by_arrival *out,
                      ds_arrivals *a) {
  size_t n = from->n;
  place *order = malloc((n + 1) * sizeof *order);
  out->time = malloc((4 * n + 1) * sizeof *out->time);
  out->outputs = malloc((n + 1) * sizeof *out->outputs);
  out->index = malloc((n + 1) * sizeof *out->index);
  bool good = order != NULL && out->time != NULL && out->outputs != NULL && out->index != NULL;
  if (good) {
    for (size_t i = 0; i < n; i++) order[i] = (place){from->arrival_ns[i], i};
    qsort(order, n, sizeof *order, by_time);
    int64_t *ttft = out->time, *e2e = ttft + n, *queue = e2e + n, *arrival = queue + n;
    for (size_t i = 0; i < n; i++) {
      size_t k = order[i].index;
      ttft[i] = from->ttft_ns[k];
      e2e[i] = from->e2e_ns[k];
      queue[i] = from->queue_ns[k];
      arrival[i] = order[i].arrival_ns;
      out->outputs[i] = from->outputs[k];
      out->index[i] = k;
    }
    out->result = *from;
    out->result.ttft_ns = ttft;
    out->result.e2e_ns = e2e;
    out->result.queue_ns = queue;
    out->result.arrival_ns = arrival;
    out->result.outputs = out->outputs;
    out->result.last_arrival_ns = n > 0 ? arrival[n - 1] : 0;
    good = add_arrivals(order, r, n, a);
  }
  free(order);
  return good;
}

void ds_by_arrival_free(ds_by_arrival *b) {
  free(b->time);
  free(b->outputs);
  free(b->index);
  free(b->records);
  free(b->bucket);
  memset(b, 0, sizeof *b);
}
