// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/warmup.h"

#include <stdlib.h>
#include <string.h>

#include "study/driver.h"

/* The k-th request by arrival. */
static const ds_record *record_at(const ds_result *r, const ds_by_arrival *view, size_t k) {
  return &r->records[view->index != NULL ? view->index[k] : k];
}

static size_t count_out(const ds_workload *w, const ds_result *r, const ds_by_arrival *view) {
  size_t n = 0;
  if (w->warmup_requests > 0) return (size_t)w->warmup_requests < r->n ? (size_t)w->warmup_requests : r->n;
  while (n < r->n && record_at(r, view, n)->arrival_ns - r->first_arrival_ns < w->warmup_ns) n++;
  return n;
}

/* As the engine has it: inclusive, and a single token passes TPOT and ITL. */
static void judge(const ds_slo_request *l, const ds_record *q, ds_result *out) {
  int64_t ttft_ns = q->first_token_ns - q->arrival_ns, e2e_ns = q->finish_ns - q->arrival_ns, more = (int64_t)q->output_tokens - 1;
  bool ttft = l->ttft_ns > 0 && ttft_ns > l->ttft_ns, e2e = l->e2e_ns > 0 && e2e_ns > l->e2e_ns;
  bool itl = l->itl_ns > 0 && q->max_itl_ns > l->itl_ns, tpot = false;
  if (l->tpot_ns > 0 && more > 0) tpot = (e2e_ns - ttft_ns) / more + ((e2e_ns - ttft_ns) % more > 0) > l->tpot_ns;
  out->miss_ttft += ttft;
  out->miss_tpot += tpot;
  out->miss_itl += itl;
  out->miss_e2e += e2e;
  out->good += !(ttft || tpot || itl || e2e);
}

static bool count_tokens(ds_warmup *w, int64_t begin_ns, int64_t at_ns, uint64_t tokens) {
  ds_second *s = ds_seconds_at(&w->seconds, (at_ns - begin_ns) / DS_NS_PER_S, &ds_heap);
  if (s != NULL) s->tokens += tokens;
  return s != NULL || w->seconds.overflow;
}

/* Its gaps, and the seconds in which its tokens came out. */
static bool add_gaps(ds_warmup *w, const ds_result *from, const ds_record *q, bool shown, bool exact) {
  int64_t at_ns = q->first_token_ns;
  if (!shown || q->n_chunks == 0) return count_tokens(w, from->begin_ns, q->finish_ns, q->output_tokens);
  if (!count_tokens(w, from->begin_ns, at_ns, 1)) return false;
  for (uint64_t i = q->itl_first; i < q->itl_first + q->n_chunks; i++) {
    int64_t gap_ns = from->gaps_ns[i];
    at_ns += gap_ns;
    ds_gaps_count(&w->gaps, gap_ns, 1);
    if (w->gaps.exact && ds_gaps_push_exact(&w->gaps, gap_ns, 1, exact, &ds_heap) != DS_OK) return false;
    if (!count_tokens(w, from->begin_ns, at_ns, from->chunk_tokens != NULL ? from->chunk_tokens[i] : 1)) return false;
  }
  return true;
}

static void add_request(const ds_slo_request *limits, const ds_record *q, ds_result *out) {
  if (q->finish_ns > out->last_finish_ns) out->last_finish_ns = q->finish_ns;
  if (q->failed) {
    out->timed_out += q->failed == DS_FAILED_TIMEOUT;
    out->turned_away += q->failed == DS_FAILED_TURNED_AWAY;
    return;
  }
  out->completed++;
  out->input_tokens += q->input_tokens;
  out->output_tokens += q->output_tokens;
  out->num_preemptions += q->preemptions;
  out->cached_tokens += q->cached_tokens;
  out->images += q->images;
  out->image_tokens += q->image_tokens;
  for (int c = 0; c < DS_CAUSE_N; c++) ds_wide_add(&out->blame_ns[c], (uint64_t)q->blame_ns[c]);
  judge(limits, q, out);
}

static void blank(ds_result *r, size_t n) {
  r->n -= n;
  r->submitted -= n;
  r->completed = r->timed_out = r->turned_away = r->good = r->miss_ttft = r->miss_tpot = r->miss_itl = r->miss_e2e = 0;
  r->input_tokens = r->output_tokens = r->num_preemptions = r->cached_tokens = 0;
  r->images = r->image_tokens = 0;
  r->last_finish_ns = 0;
  memset(r->blame_ns, 0, sizeof r->blame_ns);
  r->ttft_ns += n;
  r->e2e_ns += n;
  r->queue_ns += n;
  r->outputs += n;
  if (r->arrival_ns != NULL) r->arrival_ns += n;
}

/* The requests behind the first n that were answered: their gaps and tokens alone, for *r. */
static bool count_answered(const ds_workload *w, const ds_result *from, const ds_by_arrival *view, size_t n, bool exact,
                           ds_warmup *out, ds_result *r) {
  out->gaps.exact = true;
  out->seconds.last = -1;
  out->gaps.bucket = calloc(DS_GAPS_BUCKETS, sizeof *out->gaps.bucket);
  bool good = out->gaps.bucket != NULL;
  for (size_t k = n; k < from->n && good; k++) {
    const ds_record *q = record_at(from, view, k);
    good = q->failed || add_gaps(out, from, q, !w->no_stream, exact);
  }
  r->itl = &out->gaps;
  r->seconds = &out->seconds;
  return good;
}

bool ds_warmup_cut(const ds_workload *w, const ds_slo_request *limits, const ds_result *from, bool exact,
                   ds_by_arrival *view, ds_arrivals *a, ds_warmup *out) {
  const ds_result whole = *from;
  const size_t n = count_out(w, &whole, view);
  ds_result r = whole;
  bool good = count_answered(w, &whole, view, n, exact, out, &r);
  view->result = r;
  if (n == 0) return good;
  ds_arrivals fresh;
  memset(&fresh, 0, sizeof fresh);
  fresh.rtt_ns = a->rtt_ns;
  fresh.capped = a->capped;
  out->n = n;
  blank(&r, n);
  for (size_t k = n; k < whole.n && good; k++) {
    const ds_record *q = record_at(&whole, view, k);
    ds_request one = {.arrival_ns = q->arrival_ns, .input_tokens = q->input_tokens, .output_tokens = q->output_tokens};
    if (k == n) {
      out->until_ns = r.first_arrival_ns = q->arrival_ns;
      out->index = q->index;
    }
    add_request(limits, q, &r);
    good = ds_arrivals_add(&fresh, &one, 1);
  }
  view->result = r;
  ds_arrivals_free(a);
  *a = fresh;
  return good;
}

void ds_warmup_free(ds_warmup *w) {
  free(w->gaps.bucket);
  free(w->gaps.run);
  ds_seconds_free(&w->seconds, &ds_heap);
  memset(w, 0, sizeof *w);
}
