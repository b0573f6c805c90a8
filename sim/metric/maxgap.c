// SPDX-License-Identifier: Apache-2.0
#include "metric/maxgap.h"

#include <string.h>

ds_status ds_maxgap_push(ds_maxgap *m, uint64_t iteration, int64_t gap_ns, const ds_alloc *a) {
  while (m->n > 0 && m->e[m->n - 1].gap_ns <= gap_ns) m->n--;
  DS_TRY(ds_alloc_grow(a, (void **)&m->e, &m->cap, m->n + 1, sizeof *m->e));
  m->e[m->n++] = (ds_maxgap_entry){iteration, gap_ns};
  return DS_OK;
}

static size_t first_at_or_after(const ds_maxgap *m, uint64_t iteration) {
  size_t lo = 0, hi = m->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (m->e[mid].iteration >= iteration) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

int64_t ds_maxgap_since(const ds_maxgap *m, uint64_t since) {
  size_t i = first_at_or_after(m, since);
  return i < m->n ? m->e[i].gap_ns : 0;
}

void ds_maxgap_forget(ds_maxgap *m, uint64_t oldest) {
  size_t i = first_at_or_after(m, oldest);
  memmove(m->e, m->e + i, (m->n - i) * sizeof *m->e);
  m->n -= i;
}
