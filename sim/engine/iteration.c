// SPDX-License-Identifier: Apache-2.0
/* Begin one iteration as planned, and end it: tokens come out, requests finish, time is put to its causes. */
#include "engine/lists.h"
#include "engine/near.h"

#include <string.h>

static DS_APART ds_status broken(ds_sim *s, uint32_t slot, const char *rule) {
  ds_status st = ds_error_begin(s->err, DS_E_POLICY, "scheduler ");
  ds_error_text(s->err, s->sched->name);
  ds_error_text(s->err, " broke a rule: ");
  ds_error_text(s->err, rule);
  if (slot != DS_SLOT_NONE && slot < s->n_slots && s->err != NULL) s->err->request = (int64_t)s->view[slot].index;
  return st;
}

/* Rows that decode but were left out of this iteration wait with one token to go, like an unfinished prompt. */
static ds_status set_aside_others(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  for (uint32_t i = 0; i < plan->n_decode; i++) {
    uint32_t slot = plan->decode[i];
    if (slot >= s->n_slots || s->view[slot].phase != DS_PHASE_DECODE) {
      return broken(s, slot, "decodes a request that is not decoding");
    }
    s->slot[slot].last_grant = (uint32_t)r->v.iteration;
  }
  for (uint32_t slot = r->v.running_head; slot != DS_SLOT_NONE; slot = s->view[slot].next) {
    if (s->view[slot].phase != DS_PHASE_DECODE || s->slot[slot].last_grant == (uint32_t)r->v.iteration) continue;
    DS_TRY(ds_decode_leave(s, r, slot));
    DS_TRY(ds_prefilling_insert(s, r, slot));
    uint32_t left = s->slot[slot].output - s->view[slot].emitted;
    if (left < r->pending_least) r->pending_least = left;
  }
  return DS_OK;
}

static void first_schedule(ds_replica *r, ds_req_view *v, ds_slot *q) {
  if (v->admitted_before) return;
  int64_t waited = r->v.now_ns - v->arrival_ns, for_kv = ds_kv_wait_at(r, r->v.now_ns) - q->kv_wait_before + q->aside_kv_ns;
  q->scheduled_ns = r->v.now_ns;
  q->first_token_ns = q->last_token_ns = q->max_gap_ns = 0;
  q->preempted_ns = -1;
  q->preemptions = q->cached_tokens = q->verify_steps = 0;
  for (int c = 0; c < DS_CAUSE_OF_TEXT / 2; c++) q->blame_ns[c] = 0; /* in two parts, which become single stores */
  for (int c = DS_CAUSE_OF_TEXT / 2; c < DS_CAUSE_OF_TEXT; c++) q->blame_ns[c] = 0;
  q->blame_ns[DS_CAUSE_ENCODER] = 0;
  q->blame_ns[DS_CAUSE_RETRY] = v->arrival_ns - q->api_ns - q->arrival_ns; /* since the first attempt */
  q->blame_ns[DS_CAUSE_KV_WAIT] = for_kv;
  q->blame_ns[DS_CAUSE_KV_LOAD] = q->aside_load_ns;
  q->blame_ns[DS_CAUSE_QUEUE] = waited - for_kv - q->aside_load_ns;
}

static ds_status take_hit(ds_sim *s, ds_replica *r, const ds_grant *g) {
  ds_status st = g->cached_tokens % s->block_tokens == 0 ? ds_cache_take_hit(s, r, g->slot, g->cached_tokens) : DS_E_STATE;
  return st == DS_E_STATE ? broken(s, g->slot, "claims more cached tokens than the prefix cache holds") : st;
}

/* Where something else than age decides what is evicted, hits are safe before anything is handed out. */
static ds_status take_hits_first(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  for (uint32_t i = 0; i < plan->n_grants; i++) {
    const ds_grant *g = &plan->grants[i];
    if (g->slot >= s->n_slots || s->slot[g->slot].replica != r->index) continue; /* complained about later */
    const ds_req_view *v = &s->view[g->slot];
    /* What an earlier grant of this plan computes is there only then. */
    uint32_t now = g->cached_tokens == 0 ? 0 : ds_cached_tokens(s, g->slot, NULL, 0);
    if (v->phase == DS_PHASE_WAITING && v->computed == 0 && now > 0 && now >= g->cached_tokens) DS_TRY(take_hit(s, r, g));
  }
  return DS_OK;
}

static ds_status admit(ds_sim *s, ds_replica *r, const ds_grant *g) {
  ds_req_view *v = &s->view[g->slot];
  ds_slot *q = &s->slot[g->slot];
  if (DS_UNLIKELY(r->v.n_queue > DS_QUEUE_LONG)) ds_queue_fetch(s, g->slot);
  ds_queue_remove(s, r, g->slot);
  ds_running_push(s, r, g->slot);
  DS_TRY(ds_prefilling_insert(s, r, g->slot));
  first_schedule(r, v, q);
  if (v->computed == 0 && (g->cached_tokens > 0 || q->kv_run != DS_KV_NO_RUN)) DS_TRY(take_hit(s, r, g));
  if (v->admitted_before) r->totals.recomputed_tokens -= v->computed;
  else if (r->v.prefix_cache) ds_cache_count(s, r, g->slot);
  return DS_OK;
}

static ds_status grant(ds_sim *s, ds_replica *r, const ds_grant *g, uint32_t at, ds_shape *shape) {
  if (g->slot >= s->n_slots) return broken(s, g->slot, "names a request that does not exist");
  ds_req_view *v = &s->view[g->slot];
  ds_slot *q = &s->slot[g->slot];
  if (q->replica != r->index) return broken(s, g->slot, "names a request of another replica");
  bool fresh = v->phase == DS_PHASE_WAITING;
  if (fresh) {
    DS_TRY(admit(s, r, g));
  } else if (v->phase == DS_PHASE_SWAPPED) {
    if (v->blocks > r->kv.free_blocks) return broken(s, g->slot, "needs more KV blocks than are free");
    DS_TRY(ds_swap_in(s, r, g->slot));
  } else if (v->phase != DS_PHASE_PREFILL) {
    return broken(s, g->slot, "grants prompt tokens to a request that is not prefilling");
  }
  if (!fresh && q->last_grant == (uint32_t)r->v.iteration) return broken(s, g->slot, "grants the same request twice");
  uint32_t left = v->prompt_tokens + v->emitted - v->computed;
  if (g->tokens == 0 || g->tokens > left) return broken(s, g->slot, "grants no tokens, or more than are left");

  int64_t whole = (int64_t)v->computed + g->tokens;
  if (fresh && g->reserve_tokens > 0) {
    v->reserved = 1;
    whole = g->reserve_tokens > whole ? g->reserve_tokens : whole;
  }
  if (g->drafts > 0) {
    if (g->drafts > r->v.drafts || v->emitted == 0 || left != 1) return broken(s, g->slot, "adds drafts where there are none");
    whole += g->drafts;
    shape->draft_tokens += g->drafts;
    shape->draft_rows++;
  }
  if (g->ahead_tokens > whole) whole = g->ahead_tokens;
  int64_t more = (whole <= UINT32_MAX ? (int64_t)ds_blocks_of((uint32_t)whole, s->block_tokens)
                                      : ds_div_up(whole, s->block_tokens)) - v->blocks;
  if (more > 0) {
    if (more > r->kv.free_blocks) return broken(s, g->slot, "needs more KV blocks than are free");
    ds_kv_take(&r->kv, more);
    v->blocks += (uint32_t)more;
  }
  q->last_grant = (uint32_t)r->v.iteration;
  r->grant_decodes[at] = v->emitted > 0 && left == 1;
  if (r->grant_decodes[at]) {
    shape->decode_seqs++;
    shape->decode_ctx += (double)(v->prompt_tokens + v->emitted);
    if (s->reach > 0) {
      shape->decode_near += (double)ds_attention_near((int64_t)v->prompt_tokens + v->emitted, s->reach, s->reach_chunked);
    }
    return DS_OK;
  }
  if (DS_UNLIKELY(v->images > 0)) ds_encoder_grant(s, r, g->slot, g->tokens);
  if (q->identity > q->shared) DS_TRY(ds_cache_computed(s, r, g->slot, (uint64_t)v->computed + g->tokens));
  double n = (double)g->tokens, c = (double)v->computed;
  shape->prefill_tokens += g->tokens;
  shape->prefill_chunks++;
  shape->finished_chunks += g->tokens == left;
  shape->prefill_pairs += n * c + n * (n + 1.0) * 0.5;
  shape->prefill_kv_tokens += n + c;
  shape->prefill_tiles += (g->tokens + 127u) / 128u;
  if (s->reach > 0) {
    shape->prefill_near_pairs += ds_attention_pairs(n, c, (double)s->reach, s->reach_chunked);
    shape->prefill_near_kv += ds_attention_kv(n, c, (double)s->reach, s->reach_chunked);
  }
  return DS_OK;
}

/* Most iterations are followed by some with the same rows, each a token on: their prices are begun here, where nothing
 * waits for them, because a square root takes as long as a hundred other instructions, and several at once as long as one. */
static int64_t price_ahead(ds_current *c, const ds_decode_price *d, int64_t rows, double ctx) {
  bool known = c->ahead_left > 0 && c->ahead_rows == rows && c->ahead_ctx == ctx;
  int64_t ns = known ? c->ahead_ns[DS_AHEAD - c->ahead_left] : ds_decode_ns(d, ctx);
  double step = (double)rows;
  c->ahead_ctx = ctx + step;
  if (known && --c->ahead_left > 0) return ns;
  c->ahead_rows = rows;
  c->ahead_left = DS_AHEAD;
  for (int i = 0; i < DS_AHEAD; i++) c->ahead_ns[i] = ds_decode_ns(d, ctx + step * (double)(i + 1));
  return ns;
}

/* The price of so many rows, its constants in *c. */
static DS_ALWAYS_INLINE const ds_decode_price *price_of(ds_sim *s, ds_current *c, int64_t rows) {
  if (DS_LIKELY(c->price != NULL && c->price_rows == rows)) return c->price;
  const ds_decode_price *d = ds_price_decode(s->pricer, rows);
  c->price = d->ready ? d : NULL; /* one that is not kept is overwritten by the next */
  c->price_rows = rows;
  for (int p = 0; p < DS_PART_N; p++) c->fixed_ns[p] = d->fixed_ns[p];
  c->attention_part = d->attention_part;
  return d;
}

/* What the decode rows cost alone. */
static void price_rows(ds_sim *s, ds_replica *r, int64_t rows, double ctx, double near) {
  ds_current *c = &r->cur;
  const ds_decode_price *d = price_of(s, c, rows);
  c->rows = (uint32_t)rows;
  if (DS_UNLIKELY(d->general)) c->alone_ns = ds_decode_general_ns(d, ctx, near);
  else c->alone_ns = s->opt.no_lease ? price_ahead(c, d, rows, ctx) : ds_decode_ns(d, ctx);
  r->work.decode_seqs += rows;
  ds_wide_add(&r->work_ctx, (uint64_t)(int64_t)ctx);
  if (DS_UNLIKELY(s->reach > 0)) ds_wide_add(&r->work_near, (uint64_t)(int64_t)near);
}

static void price_mixed(ds_sim *s, ds_replica *r, const ds_shape *shape) {
  ds_current *c = &r->cur;
  c->dt_ns = ds_price_mixed_ns(s->pricer, shape);
  if (c->alone_ns > c->dt_ns) c->alone_ns = c->dt_ns;
  r->work.prefill_tokens += shape->prefill_tokens;
  r->work.prefill_chunks += shape->prefill_chunks;
  r->work.finished_chunks += shape->finished_chunks;
  r->work.prefill_pairs += shape->prefill_pairs;
  r->work.prefill_kv_tokens += shape->prefill_kv_tokens;
  r->work.prefill_tiles += shape->prefill_tiles;
  r->work.prefill_near_pairs += shape->prefill_near_pairs;
  r->work.prefill_near_kv += shape->prefill_near_kv;
}

/* Serve the plan's grants; the batch's totals go to *shape. */
static ds_status serve_grants(ds_sim *s, ds_replica *r, const ds_plan *plan, ds_shape *shape) {
  for (uint32_t i = 0; i < plan->n_grants; i++) DS_TRY(grant(s, r, &plan->grants[i], i, shape));
  r->cur.own_tokens = shape->prefill_tokens;
  shape->prefill_tokens += plan->padded_prefill_tokens;
  r->cur.prefill_tokens = shape->prefill_tokens;
  r->cur.chunks = (uint32_t)shape->prefill_chunks;
  return DS_OK;
}

static ds_status give_way(ds_sim *s, ds_replica *r, uint32_t slot, bool swap) {
  if (!swap) return ds_preempt(s, r, slot);
  if (s->sched->swap == NULL) return broken(s, slot, "swaps without saying what a swap costs");
  int64_t blocks = ds_view_blocks(&r->v, slot);
  if (blocks > r->v.host_free_blocks) {
    ds_error_begin(s->err, DS_E_STUCK, "request ");
    ds_error_int(s->err, (int64_t)s->view[slot].index);
    ds_error_text(s->err, " must be swapped out with ");
    ds_error_int(s->err, blocks);
    ds_error_text(s->err, " KV blocks, but host memory has room for ");
    ds_error_int(s->err, r->v.host_free_blocks);
    if (s->err != NULL) s->err->request = (int64_t)s->view[slot].index;
    return DS_E_STUCK;
  }
  return ds_swap_out(s, r, slot);
}

static ds_status make_way(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  for (uint32_t i = 0; i < plan->n_preempt; i++) {
    uint32_t slot = plan->preempt[r->n_made_way + i];
    if (slot >= s->n_slots || s->slot[slot].replica != r->index ||
        (s->view[slot].phase != DS_PHASE_DECODE && s->view[slot].phase != DS_PHASE_PREFILL)) {
      return broken(s, slot, "preempts a request that is not running");
    }
    DS_TRY(give_way(s, r, slot, plan->swap_out));
    if (plan->preempt_to_back) {
      ds_queue_remove(s, r, slot);
      ds_queue_push_back(s, r, slot);
    }
  }
  return plan->decode_all ? DS_OK : set_aside_others(s, r, plan);
}

/* The running list in the plan's order. */
static ds_status reorder(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  const uint32_t unseen = DS_SLOT_NONE - 1;
  uint32_t before = DS_SLOT_NONE;
  if (plan->n_order != r->v.n_running) return broken(s, DS_SLOT_NONE, "orders more or fewer requests than run");
  for (uint32_t slot = r->v.running_head; slot != DS_SLOT_NONE; slot = s->view[slot].next) s->view[slot].prev = unseen;
  for (uint32_t i = 0; i < plan->n_order; i++) {
    uint32_t slot = plan->order[i];
    if (slot >= s->n_slots || s->view[slot].prev != unseen) return broken(s, slot, "orders a request that does not run, or twice");
    s->view[slot].prev = before;
    if (before == DS_SLOT_NONE) r->v.running_head = slot;
    else s->view[before].next = slot;
    before = slot;
  }
  r->v.running_tail = before;
  if (before != DS_SLOT_NONE) s->view[before].next = DS_SLOT_NONE;
  return DS_OK;
}

static int64_t swap_ns(const ds_sim *s, int64_t blocks) {
  return s->swap_block_ns > 0 ? s->swap_block_ns * blocks : ds_ns_of_s(s->swap_block_s * (double)blocks);
}

/* The iteration is priced: off it goes. */
static DS_ALWAYS_INLINE ds_status start(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  ds_current *c = &r->cur;
  if (DS_UNLIKELY(r->swap_blocks > 0)) {
    c->swap_ns = swap_ns(s, r->swap_blocks);
    c->dt_ns += c->swap_ns;
    r->swap_blocks = 0;
  }
  c->start_ns = r->v.now_ns;
  c->wait_ns = 0;
  if (DS_UNLIKELY(s->overlap)) ds_overlap_begin(s, r, plan);
  c->n_grants = plan->n_grants;
  c->hold_finished = plan->hold_finished;
  c->emit_at_end = plan->emit_at_end;
  r->end_ns = r->v.now_ns + c->dt_ns;
  r->in_flight = true;
  return DS_UNLIKELY(s->opt.steps) && s->group == 1 ? ds_log_step(s, r, plan) : DS_OK;
}

/* Prompts, or rows that resume, beside those that decode anyway. */
static ds_status begin_granted(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  ds_current *c = &r->cur;
  ds_shape shape; /* clearing it takes as long as all of an iteration without grants */
  ds_shape_of_rows(&shape, (int64_t)r->v.n_decoding + r->v.n_held, (double)r->ctx_sum, (double)r->near.sum);
  DS_TRY(serve_grants(s, r, plan, &shape));
  if (DS_UNLIKELY(plan->n_order > 0)) DS_TRY(reorder(s, r, plan));
  if (shape.decode_seqs == 0 && c->prefill_tokens == 0) return DS_OK; /* nothing to run */
  if (shape.draft_tokens > 0) ds_spec_price(s, r, &shape);
  else if (shape.decode_seqs > 0) price_rows(s, r, shape.decode_seqs, shape.decode_ctx, shape.decode_near);
  c->dt_ns = c->alone_ns;
  c->encode_ns = 0;
  if (c->prefill_tokens > 0) price_mixed(s, r, &shape);
  if (DS_UNLIKELY(r->encoding.images > 0)) ds_encoder_price(s, r);
  return start(s, r, plan);
}

ds_status ds_iteration_begin(ds_sim *s, ds_replica *r, const ds_plan *plan) {
  if (DS_UNLIKELY(plan->n_preempt > 0 || !plan->decode_all)) DS_TRY(make_way(s, r, plan));
  if (DS_UNLIKELY(r->kv.eviction != DS_EVICT_LRU) && plan->n_grants > 0) DS_TRY(take_hits_first(s, r, plan));
  int64_t need = r->need[r->phase];
  if (DS_UNLIKELY(need > r->kv.free_blocks)) {
    return broken(s, DS_SLOT_NONE, "decodes with fewer free KV blocks than the batch needs");
  }
  ds_kv_take(&r->kv, need);
  ds_current *c = &r->cur;
  c->prefill_tokens = c->own_tokens = c->chunks = c->rows = 0;
  c->alone_ns = c->swap_ns = 0;
  if (plan->n_grants > 0) return begin_granted(s, r, plan);
  if (DS_UNLIKELY(plan->n_order > 0)) DS_TRY(reorder(s, r, plan));
  int64_t rows = (int64_t)r->v.n_decoding + r->v.n_held;
  if (rows == 0) return DS_OK; /* nothing to run */
  price_rows(s, r, rows, (double)r->ctx_sum, (double)r->near.sum);
  c->dt_ns = c->alone_ns;
  return start(s, r, plan);
}

/* floor(a x b / c) without overflow for 0 <= b <= c. */
static int64_t share(int64_t a, int64_t b, int64_t c) { return b == 0 ? 0 : a / c * b + a % c * b / c; }

/* Put the iteration's time to causes, as a request that decodes in it sees it. */
static void charge_ledger(ds_replica *r) {
  const ds_current *c = &r->cur;
  int64_t dt_ns = c->dt_ns - c->swap_ns;
  r->ledger[DS_LEDGER_TRANSFER] += c->swap_ns;
  if (c->rows == 0) {
    r->totals.prefill_ns += dt_ns - c->encode_ns;
    return;
  }
  int64_t left = c->alone_ns;
  if (c->prefill_tokens == 0) { /* never shorter than its constant part */
    ds_ledger_rows(r->ledger, c->fixed_ns, c->attention_part, left, 1);
    return;
  }
  for (int p = 0; p < DS_PART_N; p++) {
    int64_t x = c->fixed_ns[p] < left ? c->fixed_ns[p] : left;
    r->ledger[p] += x;
    left -= x;
  }
  r->ledger[c->attention_part] += left;
  r->ledger[DS_LEDGER_OTHERS] += dt_ns - c->alone_ns;
  r->totals.prefill_ns += dt_ns - c->alone_ns - c->encode_ns;
}

/* The same for a request whose prompt (or recompute) is in progress; granted 0: it got nothing this time. */
static void charge_prefill(const ds_replica *r, ds_slot *q, int64_t granted, int64_t own_encoded) {
  const ds_current *c = &r->cur;
  if (q->preempted_ns >= 0) return; /* all of it is settled when it emits again */
  int64_t dt_ns = c->dt_ns - c->swap_ns;
  q->blame_ns[DS_CAUSE_TRANSFER] += c->swap_ns;
  if (granted == 0) {
    q->blame_ns[DS_CAUSE_PREFILL_OTHERS] += dt_ns;
    return;
  }
  int64_t wait = c->rows == 0 ? c->wait_ns : 0; /* else it is among alone_ns */
  int64_t encode = c->encode_ns, own = encode > 0 ? share(encode, own_encoded, c->encode_tokens) : 0;
  int64_t others = share(dt_ns - wait - c->alone_ns - encode, c->prefill_tokens - granted, c->prefill_tokens);
  q->blame_ns[DS_CAUSE_PREFILL_OTHERS] += others + (encode - own);
  q->blame_ns[DS_CAUSE_COMMUNICATION] += wait;
  q->blame_ns[DS_CAUSE_ENCODER] += own;
  q->blame_ns[DS_CAUSE_PREFILL_OWN] += dt_ns - wait - others - encode;
}

/* A row that resumed with its last missing token: it decoded, only not as part of the contiguous set. */
static void charge_resumed(const ds_replica *r, ds_slot *q, const int64_t *before) {
  if (q->preempted_ns >= 0) return;
  q->blame_ns[DS_CAUSE_DECODE_MEMORY] += r->ledger[DS_PART_MEMORY] - before[DS_PART_MEMORY];
  q->blame_ns[DS_CAUSE_DECODE_COMPUTE] += r->ledger[DS_PART_COMPUTE] - before[DS_PART_COMPUTE];
  q->blame_ns[DS_CAUSE_COMMUNICATION] += r->ledger[DS_PART_COMM] - before[DS_PART_COMM];
  q->blame_ns[DS_CAUSE_HOST] += r->ledger[DS_PART_HOST] - before[DS_PART_HOST];
  q->blame_ns[DS_CAUSE_PREFILL_OTHERS] += r->ledger[DS_LEDGER_OTHERS] - before[DS_LEDGER_OTHERS];
  q->blame_ns[DS_CAUSE_TRANSFER] += r->ledger[DS_LEDGER_TRANSFER] - before[DS_LEDGER_TRANSFER];
}

static ds_status row_done(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  if (v->phase == DS_PHASE_DECODE) DS_TRY(ds_decode_leave(s, r, slot));
  ds_running_remove(s, r, slot);
  if (r->cur.hold_finished) {
    r->v.n_held++;
    r->held_blocks += v->blocks;
    r->ctx_sum += v->prompt_tokens + v->emitted;
    if (s->reach > 0) {
      ds_near_count(s, r, r->v.iteration, (int64_t)v->prompt_tokens + v->emitted, r->v.iteration, true);
    }
  } else if (s->overlap && s->reach == 0 && v->emitted < v->max_tokens) { /* nobody knew: it is in the next iteration already */
    r->v.n_held++;
    uint32_t own;
    DS_TRY(ds_cache_leave(s, r, slot, &own));
    r->held_blocks += own;
    r->held_ctx += v->prompt_tokens + v->emitted;
    r->ctx_sum += v->prompt_tokens + v->emitted;
  } else {
    DS_TRY(ds_cache_give_back(s, r, slot, false));
  }
  v->phase = DS_PHASE_DONE;
  if (s->sched->on_finish != NULL) s->sched->on_finish(r->policy, v);
  if (r->cur.emit_at_end) {
    s->slot[slot].last_token_ns = r->v.now_ns;
    v->next = r->ended_head;
    r->ended_head = slot;
    return DS_OK;
  }
  return ds_request_finish(s, r, slot, r->v.now_ns);
}

/* A prompt (or recompute) is complete: it emits one token, and with it what was accepted of `drafts` more. */
static ds_status emit_after_prefill(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t drafts) {
  ds_req_view *v = &s->view[slot];
  ds_slot *q = &s->slot[slot];
  int64_t t = r->v.now_ns;
  uint32_t extra = 0;
  if (drafts > 0) DS_TRY(ds_spec_verify(s, r, slot, drafts, &extra));
  if (q->preempted_ns >= 0) {
    q->blame_ns[DS_CAUSE_PREEMPTED] += t - q->preempted_ns;
    q->preempted_ns = -1;
  }
  if (v->emitted == 0) q->first_token_ns = t + s->api_token_ns;
  else if (!r->cur.emit_at_end) DS_TRY(ds_request_odd_gap(s, q, t - q->last_token_ns));
  q->last_token_ns = t;
  v->emitted++;
  if (r->second != NULL && !r->cur.emit_at_end) r->second->tokens++;
  if (extra > 0) {
    v->emitted += extra;
    v->computed += extra;
    if (r->second != NULL && !r->cur.emit_at_end) r->second->tokens += extra;
    if (s->opt.gaps && q->n_piece > 0) q->piece[q->n_piece - 1].since += extra;
  }
  if (s->speculative && v->emitted < q->output) return DS_OK; /* one token to compute, as before */
  ds_prefilling_remove(r, slot);
  return v->emitted < q->output ? ds_decode_enter(s, r, slot) : DS_OK; /* else it finishes with the others, in their order */
}

#define GRANT_DONE (-1) /* in ahead_tokens of a grant that is served: its request has all its tokens */

static ds_status end_grants(ds_sim *s, ds_replica *r, const int64_t *ledger_before) {
  uint64_t iteration = r->v.iteration - 1; /* the one that has just ended */
  for (uint32_t i = 0; i < r->v.n_prefilling; i++) {
    ds_slot *q = &s->slot[r->prefilling[i]];
    if (q->last_grant != (uint32_t)iteration) charge_prefill(r, q, 0, 0);
  }
  for (uint32_t i = 0; i < r->cur.n_grants; i++) {
    uint32_t slot = r->plan.grants[i].slot;
    ds_req_view *v = &s->view[slot];
    if (r->grant_decodes[i]) charge_resumed(r, &s->slot[slot], ledger_before);
    else charge_prefill(r, &s->slot[slot], r->plan.grants[i].tokens, v->images > 0 ? s->image[v->images - 1].now_tokens : 0);
    v->computed += r->plan.grants[i].tokens;
    if (DS_UNLIKELY(v->images > 0)) ds_encoder_computed(s, r, slot);
    ds_wide_add_wide(&r->totals.token_ns, ds_wide_mul((uint64_t)r->cur.dt_ns, v->computed));
    if (v->computed == v->prompt_tokens + v->emitted) {
      DS_TRY(emit_after_prefill(s, r, slot, r->plan.grants[i].drafts));
      bool done = v->emitted == s->slot[slot].output;
      r->plan.grants[i].ahead_tokens = done ? GRANT_DONE : 0;
      r->n_done += done;
    }
  }
  return DS_OK;
}

/* The decoding request that is done now and was admitted first; DS_WHEEL_NONE. */
static uint32_t first_decoded(const ds_sim *s, ds_replica *r) {
  uint32_t slot = ds_wheel_done(&r->finish, s->link, r->v.iteration);
  for (uint32_t other = slot == DS_WHEEL_NONE ? slot : s->link[slot].next; other != DS_WHEEL_NONE; other = s->link[other].next) {
    if (s->slot[other].run_order < s->slot[slot].run_order) slot = other;
  }
  return slot;
}

/* Everybody who is done with this iteration, in order of admission: their blocks are freed in this order. */
static ds_status end_finished(ds_sim *s, ds_replica *r) {
  for (;;) {
    uint32_t slot = first_decoded(s, r), at = 0, granted = UINT32_MAX;
    for (; r->n_done > 0 && at < r->cur.n_grants; at++) {
      const ds_grant *g = &r->plan.grants[at];
      if (g->ahead_tokens != GRANT_DONE) continue;
      if (granted == UINT32_MAX || s->slot[g->slot].run_order < s->slot[r->plan.grants[granted].slot].run_order) granted = at;
    }
    if (granted != UINT32_MAX) {
      ds_grant *g = &r->plan.grants[granted];
      if (slot == DS_WHEEL_NONE || s->slot[g->slot].run_order < s->slot[slot].run_order) {
        slot = g->slot;
        g->ahead_tokens = 0;
        r->n_done--;
      }
    }
    if (slot == DS_WHEEL_NONE) return DS_OK;
    DS_TRY(row_done(s, r, slot));
  }
}

/* The whole static batch is finished: held rows leave, withheld tokens come out. */
static DS_APART ds_status end_batch(ds_sim *s, ds_replica *r) {
  if (r->held_blocks > 0) DS_TRY(ds_kv_give(&r->kv, r->held_blocks, &s->alloc));
  r->held_blocks = r->held_ctx = 0;
  r->v.n_held = 0;
  r->ctx_sum = 0;
  if (s->reach > 0) ds_near_clear(s, r);
  while (r->ended_head != DS_SLOT_NONE) {
    uint32_t slot = r->ended_head;
    ds_slot *q = &s->slot[slot];
    r->ended_head = s->view[slot].next;
    q->blame_ns[DS_CAUSE_QUEUE] += r->v.now_ns - q->last_token_ns;
    q->first_token_ns = r->v.now_ns + s->api_token_ns;
    if (r->second != NULL) r->second->tokens += q->output;
    DS_TRY(ds_request_finish(s, r, slot, r->v.now_ns));
  }
  return DS_OK;
}

/* What only some runs keep of a gap. */
static DS_APART ds_status keep_gap(ds_sim *s, ds_replica *r) {
  const ds_current *c = &r->cur;
  if (s->opt.gaps) {
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&r->gap_log, &r->cap_gap_log, (size_t)r->v.iteration + 1, sizeof *r->gap_log));
    r->gap_log[r->v.iteration] = c->dt_ns;
  }
  if (r->v.n_decoding == 0 || c->emit_at_end) return DS_OK;
  if (s->itl.exact) DS_TRY(ds_gaps_push_exact(&s->itl, c->dt_ns, r->v.n_decoding, s->opt.exact_itl, &s->alloc));
  if (!s->track_gap) return DS_OK;
  DS_TRY(ds_maxgap_push(&r->maxgap, r->v.iteration, c->dt_ns, &s->alloc));
  if (r->maxgap.n < 4096) return DS_OK;
  uint64_t oldest = r->v.iteration;
  for (uint32_t i = r->v.running_head; i != DS_SLOT_NONE; i = s->view[i].next) {
    if (s->view[i].phase == DS_PHASE_DECODE && s->view[i].since < oldest) oldest = s->view[i].since;
  }
  ds_maxgap_forget(&r->maxgap, oldest);
  return DS_OK;
}

static DS_ALWAYS_INLINE ds_status count_gaps(ds_sim *s, ds_replica *r) {
  const ds_current *c = &r->cur;
  if (DS_UNLIKELY(s->opt.gaps || s->itl.exact || s->track_gap)) DS_TRY(keep_gap(s, r));
  if (r->v.n_decoding == 0 || c->emit_at_end) return DS_OK;
  ds_gaps_count(&s->itl, c->dt_ns, r->v.n_decoding);
  if (r->second != NULL) r->second->tokens += r->v.n_decoding;
  return DS_OK;
}

/* Sums over a replica's iterations. */
static DS_ALWAYS_INLINE void add_totals(ds_replica *r, int64_t dt_ns, int64_t prefill_tokens, uint32_t rows, uint32_t chunks) {
  ds_replica_totals *t = &r->totals;
  t->busy_ns += dt_ns;
  t->prefill_tokens += (uint64_t)prefill_tokens;
  t->decode_tokens += rows;
  t->decode_iterations += prefill_tokens == 0;
  ds_wide_add_wide(&t->batch_ns, ds_wide_mul((uint64_t)dt_ns, rows + chunks));
  int64_t used = r->kv.total_blocks - r->kv.free_blocks;
  ds_wide_add_wide(&t->kv_block_ns, ds_wide_mul((uint64_t)dt_ns, (uint64_t)used));
  if (used > t->kv_peak_blocks) t->kv_peak_blocks = used;
}

static DS_ALWAYS_INLINE void count_iteration(const ds_sim *s, ds_replica *r) {
  r->v.iteration++;
  if (++r->phase == s->block_tokens) r->phase = 0;
}

/* An iteration has ended in a new second; contexts are still those that it read. */
static DS_APART ds_status new_second(ds_sim *s, ds_replica *r, int64_t dt_ns) {
  if (s->opt.occupancy) ds_kv_read(s, r, dt_ns, r->v.now_ns, r->kv.total_blocks - r->kv.free_blocks, r->ctx_sum);
  return ds_count_second(s, r, r->v.now_ns);
}

/* Everything that an iteration's duration is put to. */
static DS_ALWAYS_INLINE ds_status settle(ds_sim *s, ds_replica *r) {
  const ds_current *c = &r->cur;
  if (DS_UNLIKELY(r->v.now_ns >= r->second_end_ns)) DS_TRY(new_second(s, r, c->dt_ns));
  DS_TRY(count_gaps(s, r));
  charge_ledger(r);
  add_totals(r, c->dt_ns, c->prefill_tokens, c->rows, c->chunks);
  r->ctx_sum += (int64_t)r->v.n_decoding + r->v.n_held;
  if (DS_UNLIKELY(s->reach > 0)) ds_near_step(s, &r->near, r->v.iteration, r->v.n_decoding + (s->overlap ? 0 : r->v.n_held));
  count_iteration(s, r);
  return DS_UNLIKELY(s->overlap) ? ds_overlap_drop(s, r) : DS_OK;
}

/* The same with prompts in progress. */
static ds_status settle_prompts(ds_sim *s, ds_replica *r) {
  int64_t before[DS_LEDGER_N];
  for (int p = 0; p < DS_LEDGER_N; p++) before[p] = r->ledger[p];
  DS_TRY(settle(s, r));
  return end_grants(s, r, before);
}

ds_status ds_iteration_end(ds_sim *s, ds_replica *r) {
  r->v.now_ns = r->end_ns;
  r->in_flight = false;
  r->plan_due = true;
  if (r->finish_due) r->finish_due = false;
  else if (r->cur.n_grants > 0 || r->v.n_prefilling > 0) DS_TRY(settle_prompts(s, r));
  else DS_TRY(settle(s, r));
  if (r->n_done > 0 || ds_wheel_done(&r->finish, s->link, r->v.iteration) != DS_WHEEL_NONE) DS_TRY(end_finished(s, r));
#ifdef DS_CHECKING
  ds_cache_check(s, r);
#endif
  return r->v.n_running == 0 ? end_batch(s, r) : DS_OK;
}

/* The usual iteration: everybody decodes, nobody is granted anything, nobody sees anything before its end and nothing
 * special is kept of it. What ds_iteration_begin and ds_iteration_end do then, with nothing to be remembered between. */
ds_status ds_iteration_plain(ds_sim *s, ds_replica *r, int64_t until_ns, bool *did) {
  ds_current *c = &r->cur;
  const uint32_t rows = r->v.n_decoding;
  const int64_t need = r->need[r->phase];
  *did = false;
  if (r->v.n_prefilling > 0 || r->v.n_held > 0 || rows == 0 || s->itl.exact || r->swap_blocks > 0 || need > r->kv.free_blocks) {
    return DS_OK;
  }
  const ds_decode_price *d = price_of(s, c, rows);
  if (DS_UNLIKELY(d->general)) return DS_OK;
  const int64_t dt_ns = price_ahead(c, d, rows, (double)r->ctx_sum), end_ns = r->v.now_ns + dt_ns;
  if (end_ns > until_ns) return DS_OK;
  *did = true;
  ds_kv_take(&r->kv, need);
  c->start_ns = r->v.now_ns; /* plans that are made ahead ask for it */
  r->v.now_ns = r->end_ns = end_ns;
  r->plan_due = true;
  if (DS_UNLIKELY(end_ns >= r->second_end_ns)) DS_TRY(new_second(s, r, dt_ns));
  ds_gaps_count(&s->itl, dt_ns, rows);
  if (r->second != NULL) r->second->tokens += rows;
  ds_ledger_rows(r->ledger, c->fixed_ns, c->attention_part, dt_ns, 1);
  add_totals(r, dt_ns, 0, rows, 0);
  r->work.decode_seqs += rows;
  ds_wide_add(&r->work_ctx, (uint64_t)r->ctx_sum);
  r->ctx_sum += rows;
  count_iteration(s, r);
  if (ds_wheel_done(&r->finish, s->link, r->v.iteration) == DS_WHEEL_NONE) return DS_OK;
  c->hold_finished = c->emit_at_end = false;
  return end_finished(s, r);
}
