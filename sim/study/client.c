// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/client.h"

#include <stdlib.h>
#include <string.h>

static void shorten(int64_t *limit_ns, int64_t by_ns) {
  if (*limit_ns > 0) *limit_ns = *limit_ns > by_ns ? *limit_ns - by_ns : 1; /* 1: nobody */
}

ds_patience ds_client_patience(const ds_workload *w) {
  ds_patience p = w->patience;
  p.notice_ns = w->rtt_ns;
  if (p.timeout_ns > 0) p.timeout_ns -= w->rtt_ns;
  return p;
}

void ds_client_limits(const ds_workload *w, ds_slo_request *q) {
  if (w->no_stream) { /* the first content that is seen is the last */
    if (q->ttft_ns > 0 && (q->e2e_ns == 0 || q->ttft_ns < q->e2e_ns)) q->e2e_ns = q->ttft_ns;
    q->ttft_ns = q->tpot_ns = q->itl_ns = 0;
  }
  shorten(&q->ttft_ns, w->rtt_ns);
  shorten(&q->e2e_ns, w->rtt_ns);
}

static bool copy_columns(const ds_result *from, ds_by_arrival *view) {
  size_t n = from->n;
  view->time = malloc((4 * n + 1) * sizeof *view->time);
  view->outputs = malloc((n + 1) * sizeof *view->outputs);
  if (view->time == NULL || view->outputs == NULL) return false;
  view->result = *from;
  if (n > 0) {
    memcpy(view->time, from->ttft_ns, n * sizeof *view->time);
    memcpy(view->time + n, from->e2e_ns, n * sizeof *view->time);
    memcpy(view->time + 2 * n, from->queue_ns, n * sizeof *view->time);
    memcpy(view->outputs, from->outputs, n * sizeof *view->outputs);
  }
  view->result.ttft_ns = view->time;
  view->result.e2e_ns = view->time + n;
  view->result.queue_ns = view->time + 2 * n;
  view->result.outputs = view->outputs;
  return true;
}

static bool copy_records(const ds_workload *w, const ds_result *from, ds_by_arrival *view) {
  if (from->records == NULL) return true;
  size_t bytes = from->n * sizeof *view->records;
  view->records = malloc(bytes + 1);
  if (view->records == NULL) return false;
  memcpy(view->records, from->records, bytes);
  for (size_t i = 0; i < from->n; i++) {
    ds_record *q = &view->records[i];
    if (q->failed == DS_FAILED_TURNED_AWAY) q->finish_ns += w->rtt_ns;
    if (q->failed) continue;
    q->scheduled_ns += w->rtt_ns / 2;
    q->first_token_ns += w->rtt_ns;
    q->finish_ns += w->rtt_ns;
    q->blame_ns[DS_CAUSE_CLIENT] += w->rtt_ns;
    if (w->no_stream) {
      q->first_token_ns = q->finish_ns;
      q->max_itl_ns = 0;
    }
  }
  view->result.records = view->records;
  return true;
}

bool ds_client_view(const ds_workload *w, const ds_result *from, ds_by_arrival *view) {
  if (view->time == NULL && !copy_columns(from, view)) return false;
  size_t n = from->n;
  for (size_t i = 0; i < n; i++) {
    if (view->time[i] == DS_TTFT_TURNED_AWAY) view->time[n + i] += w->rtt_ns;
    if (view->outputs[i] == 0) continue; /* given up: by the client's clock already */
    view->time[n + i] += w->rtt_ns;
    view->time[i] = w->no_stream ? view->time[n + i] : view->time[i] + w->rtt_ns;
  }
  ds_wide_add(&view->result.blame_ns[DS_CAUSE_CLIENT],
              (uint64_t)w->rtt_ns * view->result.completed);
  view->result.last_finish_ns += w->rtt_ns;
  if (w->no_stream) { /* no gaps are seen */
    view->bucket = calloc(DS_GAPS_BUCKETS, sizeof *view->bucket);
    if (view->bucket == NULL) return false;
    view->no_gaps.bucket = view->bucket;
    view->no_gaps.exact = true;
    view->result.itl = &view->no_gaps;
  }
  return copy_records(w, from, view);
}
