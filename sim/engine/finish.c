// SPDX-License-Identifier: Apache-2.0
/* What a finished request leaves behind: columns, counters, its record. */
#include "engine/replica.h"

#include <string.h>

const char *ds_cause_name(ds_cause c) {
  static const char *const name[DS_CAUSE_N] = {
      "client", "api", "admission", "retry", "cold_start", "queue", "kv_wait", "kv_load",
      "prefill_own", "prefill_others", "decode_memory", "decode_compute", "communication", "host",
      "preempted", "transfer", "encoder"};
  return (unsigned)c < DS_CAUSE_N ? name[c] : "unknown";
}

/* Move to the second that a token emitted at end_ns is counted in. */
ds_status ds_count_second(ds_sim *s, ds_replica *r, int64_t end_ns) {
  if (r->second != NULL && r->second_in_page + 1 < DS_SECONDS_PAGE && end_ns < r->second_end_ns + DS_NS_PER_S) {
    r->second++; /* the usual case: the very next second, on the same page */
    r->second_in_page++;
    r->second_end_ns += DS_NS_PER_S;
    ds_seconds_touch(&s->seconds, (r->second_end_ns + s->api_token_ns - s->start_ns) / DS_NS_PER_S - 1);
    return DS_OK;
  }
  int64_t second = (end_ns + s->api_token_ns - s->start_ns) / DS_NS_PER_S;
  r->second_in_page = (uint32_t)(second % DS_SECONDS_PAGE);
  r->second = ds_seconds_at(&s->seconds, second, &s->alloc);
  if (r->second == NULL && !s->seconds.overflow) return DS_E_NOMEM;
  r->second_end_ns = s->start_ns + (second + 1) * DS_NS_PER_S - s->api_token_ns;
  return DS_OK;
}

/* An iteration of dt_ns has ended in which so many blocks were in use, and whose rows read ctx tokens: was it under way at
 * a full second? */
void ds_kv_read(ds_sim *s, const ds_replica *r, int64_t dt_ns, int64_t end_ns, int64_t blocks, int64_t ctx) {
  int64_t zero = s->start_ns - s->api_token_ns, from = (end_ns - dt_ns - zero) / DS_NS_PER_S + 1, to = (end_ns - zero) / DS_NS_PER_S;
  if (from > to) return;
  int64_t tokens = ctx - r->v.n_decoding - r->v.n_held; /* what a row makes has no KV yet */
  for (uint32_t i = 0; i < r->v.n_prefilling; i++) tokens += s->view[r->prefilling[i]].computed;
  ds_occupancy_add(&s->occupancy, from, to, blocks, tokens > 0 ? tokens : 0);
}

/* A gap that is not the duration of one iteration: after a preemption, or after iterations that left the row out. */
ds_status ds_request_odd_gap(ds_sim *s, ds_slot *q, int64_t gap_ns) {
  ds_gaps_count(&s->itl, gap_ns, 1);
  if (s->itl.exact) DS_TRY(ds_gaps_push_exact(&s->itl, gap_ns, 1, s->opt.exact_itl, &s->alloc));
  if (gap_ns > q->max_gap_ns) q->max_gap_ns = gap_ns;
  if (s->opt.gaps) {
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&q->piece, &q->cap_piece, q->n_piece + 1, sizeof *q->piece));
    q->piece[q->n_piece++] = (ds_piece){1, 0, gap_ns};
  }
  return DS_OK;
}

/* Move the running sums of blame to the result, before they can overflow: each is at most the sum of latencies. */
void ds_blame_settle(ds_sim *s) {
  for (int i = 0; i < DS_CAUSE_N; i++) {
    ds_wide_add(&s->result.blame_ns[i], (uint64_t)s->blame_ns[i]);
    s->blame_ns[i] = 0;
  }
  s->blamed_ns = 0;
}

static ds_status store_gaps(ds_sim *s, const ds_replica *r, const ds_slot *q, ds_record *rec) {
  rec->itl_first = s->n_gaps;
  for (size_t i = 0; i < q->n_piece; i++) {
    const ds_piece *p = &q->piece[i];
    size_t n = p->gap_ns >= 0 ? 1 : (size_t)(p->until - p->since);
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->gaps_ns, &s->cap_gaps, s->n_gaps + n, sizeof *s->gaps_ns));
    if (s->speculative) {
      DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->chunk_tokens, &s->cap_chunk_tokens, s->n_gaps + n,
                           sizeof *s->chunk_tokens));
      s->chunk_tokens[s->n_gaps] = (uint32_t)p->since;
    }
    if (p->gap_ns >= 0) s->gaps_ns[s->n_gaps] = p->gap_ns;
    else memcpy(s->gaps_ns + s->n_gaps, r->gap_log + p->since, n * sizeof *s->gaps_ns);
    s->n_gaps += n;
  }
  rec->n_chunks = (uint32_t)(s->n_gaps - rec->itl_first);
  return DS_OK;
}

static ds_status store_record(ds_sim *s, const ds_replica *r, uint32_t slot, int64_t finish_ns) {
  const ds_req_view *v = &s->view[slot];
  const ds_slot *q = &s->slot[slot];
  ds_record *rec = &s->records[v->index];
  rec->index = v->index;
  rec->arrival_ns = q->arrival_ns;
  rec->scheduled_ns = q->scheduled_ns;
  rec->first_token_ns = q->first_token_ns;
  rec->finish_ns = finish_ns;
  rec->max_itl_ns = q->max_gap_ns;
  rec->input_tokens = v->prompt_tokens;
  rec->output_tokens = q->output;
  rec->cached_tokens = q->cached_tokens;
  rec->preemptions = q->preemptions;
  rec->replica = q->replica;
  rec->itl_first = s->n_gaps;
  rec->n_chunks = 0;
  rec->images = v->images > 0 ? s->image[v->images - 1].count : 0;
  rec->image_tokens = v->images > 0 ? s->image[v->images - 1].tokens : 0;
  rec->failed = DS_FAILED_NOT;
  rec->retries = s->opt.closed_loop ? s->held[v->index].retries : 0;
  memcpy(rec->blame_ns, q->blame_ns, sizeof rec->blame_ns);
  if (s->opt.gaps && !r->cur.emit_at_end) DS_TRY(store_gaps(s, r, q, rec));
  return DS_OK;
}

/* Count it against the limits of one request: all inclusive, and a single token passes TPOT and ITL. */
static void judge(ds_sim *s, const ds_slot *q, int64_t ttft_ns, int64_t e2e_ns) {
  const ds_slo_request *l = &s->run.slo.request;
  ds_result *out = &s->result;
  bool ttft = l->ttft_ns > 0 && ttft_ns > l->ttft_ns, e2e = l->e2e_ns > 0 && e2e_ns > l->e2e_ns;
  bool itl = l->itl_ns > 0 && q->max_gap_ns > l->itl_ns, tpot = false;
  if (l->tpot_ns > 0 && q->output > 1) {
    ds_wide limit = ds_wide_mul((uint64_t)l->tpot_ns, q->output - 1u);
    tpot = limit.hi == 0 && (uint64_t)(e2e_ns - ttft_ns) > limit.lo;
  }
  out->miss_ttft += ttft;
  out->miss_tpot += tpot;
  out->miss_itl += itl;
  out->miss_e2e += e2e;
  out->good += !(ttft || tpot || itl || e2e);
}

/* It is no longer in flight. */
void ds_slot_free(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_slot *q = &s->slot[slot];
  r->outstanding--;
  if (DS_UNLIKELY(s->view[slot].images > 0)) ds_encoder_free(s, r, slot);
  if (q->piece != NULL) {
    ds_alloc_free(&s->alloc, q->piece, q->cap_piece, sizeof *q->piece);
    q->piece = NULL;
    q->n_piece = q->cap_piece = 0;
  }
  /* A later attempt needs it again. */
  if (s->run.patience.retries == 0) ds_identity_free(s, q->part_at, q->n_parts);
  s->view[slot].next = s->free_slot;
  s->free_slot = slot;
  if (DS_UNLIKELY(s->run.patience.timeout_ns > 0)) {
    q->deadline_ns = DS_TIME_NEVER;
    ds_deadline_refresh(s, r);
  }
}

ds_status ds_request_finish(ds_sim *s, ds_replica *r, uint32_t slot, int64_t end_ns) {
  const ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  ds_result *out = &s->result;
  int64_t finish_ns = end_ns + s->api_token_ns;
  if (DS_UNLIKELY(s->run.patience.timeout_ns > 0) && ds_finishes_late(s, q, finish_ns)) return ds_finish_late(s, r, slot);
  int64_t ttft_ns = q->first_token_ns - q->arrival_ns, e2e_ns = finish_ns - q->arrival_ns;
  q->blame_ns[DS_CAUSE_API] = q->api_ns + s->api_token_ns;
  if (DS_UNLIKELY(v->images > 0)) {
    s->blame_ns[DS_CAUSE_ENCODER] += q->blame_ns[DS_CAUSE_ENCODER];
    out->images += s->image[v->images - 1].count;
    out->image_tokens += s->image[v->images - 1].tokens;
  }
  for (int i = 0; i < DS_CAUSE_OF_TEXT; i += 4) { /* spelled out: no loop is left */
    s->blame_ns[i] += q->blame_ns[i];
    s->blame_ns[i + 1] += q->blame_ns[i + 1];
    s->blame_ns[i + 2] += q->blame_ns[i + 2];
    s->blame_ns[i + 3] += q->blame_ns[i + 3];
  }
  s->blamed_ns += e2e_ns;
  if (DS_UNLIKELY(s->blamed_ns > INT64_MAX / 4)) ds_blame_settle(s);
#ifdef DS_CHECKING
  int64_t sum = 0;
  for (int i = 0; i < DS_CAUSE_N; i++) sum += q->blame_ns[i];
  DS_ASSERT(sum == e2e_ns);
#endif
  s->ttft_ns[v->index] = ttft_ns;
  s->e2e_ns[v->index] = e2e_ns;
  s->queue_ns[v->index] = q->scheduled_ns - v->arrival_ns;
  s->outputs[v->index] = q->output;
  out->completed++;
  out->input_tokens += v->prompt_tokens;
  out->output_tokens += q->output;
  out->num_preemptions += q->preemptions;
  out->cached_tokens += q->cached_tokens;
  if (finish_ns > out->last_finish_ns) out->last_finish_ns = finish_ns;
  if (r->second != NULL) r->second->finished++;
  if (s->has_slo) judge(s, q, ttft_ns, e2e_ns);
  else out->good++;
  if (s->opt.records) DS_TRY(store_record(s, r, slot, finish_ns));
  ds_slot_free(s, r, slot);
  return s->opt.closed_loop ? ds_closed_finished(s, v->index, finish_ns) : DS_OK;
}
