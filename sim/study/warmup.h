// SPDX-License-Identifier: GPL-3.0-or-later
/* The warm-up of a run: its first requests are simulated like the others, and then left out of every figure about
 * requests. Figures about the machine (busy time, batch, KV, prefix cache) are those of the whole run.
 * Requests that nobody waited for to the end have no latency: their gaps are left out in the same way. */
#ifndef DS_STUDY_WARMUP_H
#define DS_STUDY_WARMUP_H

#include "io/scenario.h"
#include "study/by_arrival.h"

typedef struct ds_warmup { /* zero before, free after */
  size_t n;           /* requests left out: the first so many by arrival, of one instant those with the lowest index */
  int64_t until_ns;   /* arrival of the first that counts */
  uint64_t index;     /* and its number as fed */
  ds_gaps gaps;
  ds_seconds seconds;
} ds_warmup;

/* *from is a complete result with records and every gap, as the client sees it; limits are the client's. view holds the
 * result without the warm-up, whose columns are parts of from's (view->result may be *from itself); *a is made anew if
 * there is a warm-up. exact: keep every gap, however many. False when out of memory. */
bool ds_warmup_cut(const ds_workload *w, const ds_slo_request *limits, const ds_result *from, bool exact,
                   ds_by_arrival *view, ds_arrivals *a, ds_warmup *out);
/* Was this request part of it? */
static inline bool ds_warmup_has(const ds_warmup *w, const ds_record *r) {
  return w->n > 0 && (r->arrival_ns < w->until_ns || (r->arrival_ns == w->until_ns && r->index < w->index));
}
void ds_warmup_free(ds_warmup *w);

#endif
