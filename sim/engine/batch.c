// SPDX-License-Identifier: Apache-2.0
/* Requests between queue, running set and free: KV, counters. */
#include "engine/lists.h"
#include "engine/near.h"

#include <string.h>

ds_status ds_prefilling_insert(ds_sim *s, ds_replica *r, uint32_t slot) {
  if (DS_UNLIKELY(r->v.n_prefilling == r->cap_prefilling)) {
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->prefilling, &r->cap_prefilling, r->v.n_prefilling + 1u,
                         sizeof *r->prefilling));
  }
  uint32_t i = r->v.n_prefilling++;
  while (i > 0 && s->slot[r->prefilling[i - 1]].run_order > s->slot[slot].run_order) {
    r->prefilling[i] = r->prefilling[i - 1];
    i--;
  }
  r->prefilling[i] = slot;
  s->view[slot].phase = DS_PHASE_PREFILL;
  return DS_OK;
}

void ds_prefilling_remove(ds_replica *r, uint32_t slot) {
  uint32_t i = 0;
  while (r->prefilling[i] != slot) i++;
  r->v.n_prefilling--;
  if (i < r->v.n_prefilling) memmove(r->prefilling + i, r->prefilling + i + 1, (r->v.n_prefilling - i) * sizeof *r->prefilling);
}

ds_status ds_decode_enter(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  v->phase = DS_PHASE_DECODE;
  v->since = r->v.iteration;
  memcpy(q->ledger, r->ledger, sizeof q->ledger);
  q->since_ns = r->v.now_ns;
  r->v.n_decoding++;
  r->ctx_sum += v->prompt_tokens + v->emitted;
  if (!v->reserved) { /* a new block in every iteration before which its blocks are full */
    uint32_t ahead = s->block_tokens - v->computed % s->block_tokens; /* iterations until then, 1 to block_tokens */
    q->need_phase = r->phase + ahead < s->block_tokens ? r->phase + ahead : r->phase + ahead - s->block_tokens;
    r->need[q->need_phase]++;
  }
  if (DS_UNLIKELY(s->reach > 0)) {
    ds_near_count(s, r, v->since, (int64_t)v->prompt_tokens + v->emitted, v->since, true);
  }
  ds_wheel_put(&r->finish, s->link, slot, v->since + (q->output - v->emitted), r->v.iteration);
  return DS_OK;
}

/* End a stretch of contiguous decoding: bring the counters up to date, settle blame and gaps. */
ds_status ds_decode_leave(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  uint32_t gained = (uint32_t)(r->v.iteration - v->since);
  if (!v->reserved) {
    r->need[q->need_phase]--;
    v->blocks = ds_blocks_of(v->computed + gained, s->block_tokens);
  }
  ds_wheel_take(&r->finish, s->link, slot);
  ds_wide_add_wide(&r->totals.token_ns, ds_wide_mul((uint64_t)(r->v.now_ns - q->since_ns), v->computed + gained / 2));
  r->v.n_decoding--;
  v->emitted += gained;
  v->computed += gained;
  r->ctx_sum -= v->prompt_tokens + v->emitted;
  if (DS_UNLIKELY(s->reach > 0)) {
    ds_near_count(s, r, v->since, (int64_t)v->prompt_tokens + v->emitted, r->v.iteration, false);
  }
  q->blame_ns[DS_CAUSE_DECODE_MEMORY] += r->ledger[DS_PART_MEMORY] - q->ledger[DS_PART_MEMORY];
  q->blame_ns[DS_CAUSE_DECODE_COMPUTE] += r->ledger[DS_PART_COMPUTE] - q->ledger[DS_PART_COMPUTE];
  q->blame_ns[DS_CAUSE_COMMUNICATION] += r->ledger[DS_PART_COMM] - q->ledger[DS_PART_COMM];
  q->blame_ns[DS_CAUSE_HOST] += r->ledger[DS_PART_HOST] - q->ledger[DS_PART_HOST];
  q->blame_ns[DS_CAUSE_PREFILL_OTHERS] += r->ledger[DS_LEDGER_OTHERS] - q->ledger[DS_LEDGER_OTHERS];
  q->blame_ns[DS_CAUSE_TRANSFER] += r->ledger[DS_LEDGER_TRANSFER] - q->ledger[DS_LEDGER_TRANSFER];
  if (s->track_gap && gained > 0) {
    int64_t g = ds_maxgap_since(&r->maxgap, v->since);
    if (g > q->max_gap_ns) q->max_gap_ns = g;
  }
  if (s->opt.gaps && gained > 0) {
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&q->piece, &q->cap_piece, q->n_piece + 1, sizeof *q->piece));
    q->piece[q->n_piece++] = (ds_piece){v->since, r->v.iteration, -1};
  }
  if (gained > 0) q->last_token_ns = r->v.now_ns;
  return DS_OK;
}

/* Out of the running set, whatever becomes of its KV. */
static ds_status leave_running(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  if (v->phase == DS_PHASE_DECODE) DS_TRY(ds_decode_leave(s, r, slot));
  else ds_prefilling_remove(r, slot);
  ds_running_remove(s, r, slot);
  q->preemptions++;
  if (q->preempted_ns < 0) q->preempted_ns = r->v.now_ns;
  r->totals.preemptions++;
  v->admitted_before = 1;
  uint32_t left = q->output - v->emitted;
  if (left < r->pending_least) r->pending_least = left;
  return DS_OK;
}

/* Recompute preemption: KV freed, everything it had is computed again when it comes back. */
ds_status ds_preempt(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  DS_TRY(leave_running(s, r, slot));
  DS_TRY(ds_cache_give_back(s, r, slot, true));
  if (DS_UNLIKELY(v->images > 0)) ds_encoder_forget(s, r, slot);
  r->totals.recomputed_tokens += v->computed;
  v->computed = v->blocks = 0;
  v->reserved = 0;
  v->phase = DS_PHASE_WAITING;
  if (s->ranked) ds_queue_insert(s, r, slot);
  else ds_queue_push_front(s, r, slot);
  return DS_OK;
}

/* Preemption by swapping: the blocks go to host memory as they are. The caller has checked that they fit there. */
ds_status ds_swap_out(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  DS_TRY(leave_running(s, r, slot));
  DS_TRY(ds_cache_give_back(s, r, slot, false));
  r->v.host_free_blocks -= v->blocks;
  r->swap_blocks += v->blocks;
  v->phase = DS_PHASE_SWAPPED;
  ds_swapped_push(s, r, slot);
  return DS_OK;
}

/* Back again, to the end of the running set. The caller has checked that the blocks are free. */
ds_status ds_swap_in(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  ds_swapped_remove(s, r, slot);
  ds_running_push(s, r, slot);
  ds_kv_take(&r->kv, v->blocks);
  r->v.host_free_blocks += v->blocks;
  r->swap_blocks += v->blocks;
  return ds_prefilling_insert(s, r, slot);
}

/* Into a queue that is kept in the policy's order: behind those that rank alike and arrived before. */
void ds_queue_insert(ds_sim *s, ds_replica *r, uint32_t slot) {
  const void *config = r->v.config;
  ds_req_view *v = &s->view[slot];
  int64_t rank = s->sched->rank(config, v);
  uint32_t after = r->queue_tail;
  for (; after != DS_SLOT_NONE; after = s->view[after].prev) {
    const ds_req_view *o = &s->view[after];
    int64_t other = s->sched->rank(config, o);
    if (other != rank ? other < rank : o->arrival_ns != v->arrival_ns ? o->arrival_ns < v->arrival_ns : o->index < v->index) {
      break;
    }
  }
  if (after == DS_SLOT_NONE) {
    ds_queue_push_front(s, r, slot);
    return;
  }
  if (after == r->queue_tail) {
    ds_queue_push_back(s, r, slot);
    return;
  }
  v->prev = after;
  v->next = s->view[after].next;
  s->view[v->next].prev = slot;
  s->view[after].next = slot;
  r->v.n_queue++;
}
