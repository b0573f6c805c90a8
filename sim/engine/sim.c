// SPDX-License-Identifier: Apache-2.0
/* Life of a simulation: made, fed, stepped, read, freed. */
#include "engine/replica.h"

#include <string.h>

static ds_status bind_times(ds_sim *s) {
  const ds_run *run = &s->run;
  bool real = run->cost_tier == DS_COST_ROOFLINE;
  s->api_request_ns = real ? ds_ns_of_s(run->pool.engine.api_per_request_s) : 0;
  s->api_image_token_s = real ? run->pool.engine.api_per_image_token_s : 0;
  s->api_token_ns = real ? ds_ns_of_s(run->pool.engine.api_per_token_s) : 0;
  s->tokenise_s = real ? run->pool.engine.tokenise_s : 0;
  s->late = real && run->pool.engine.plans_ahead && !s->overlap && s->group <= 1;
  if (s->overlap) {
    bool device_waits = !run->pool.engine.async_scheduling; /* else the card has it hidden already */
    bool linear = run->cost_tier == DS_COST_LINEAR;
    s->host_step_ns = ds_ns_of_s(linear ? run->linear.scheduling_s : real && device_waits ? run->pool.engine.per_iteration_s : 0);
    s->host_request_ns = real && device_waits ? ds_ns_of_s(run->pool.engine.per_request_s) : 0;
  }
  ds_shape one = {.prefill_tokens = 1, .prefill_chunks = 1, .prefill_pairs = 1, .prefill_kv_tokens = 1, .prefill_tiles = 1,
                  .prefill_near_pairs = 1, .prefill_near_kv = 1};
  ds_mixed_price m;
  ds_price_mixed(s->pricer, &one, &m);
  const ds_decode_price *price = ds_price_decode(s->pricer, 1);
  int64_t d = price->general ? ds_decode_general_ns(price, 1.0, 1.0) : ds_decode_ns(price, 1.0);
  int64_t least = (d < m.total_ns ? d : m.total_ns) - s->host_step_ns - s->host_request_ns;
  s->least_iteration_ns = (least > 0 ? least : 0) / 2; /* half: no rounding may break the bound */
  return DS_OK;
}

static ds_status init_replica(ds_sim *s, size_t i, ds_error *err) {
  ds_replica *r = &s->replica[i];
  r->index = (uint32_t)i;
  r->v.queue_head = r->queue_tail = r->v.running_head = r->v.running_tail = r->ended_head = DS_SLOT_NONE;
  r->v.swapped_head = r->swapped_tail = DS_SLOT_NONE;
  r->v.host_free_blocks = s->host_blocks;
  r->v.total_blocks = s->total_blocks;
  r->v.block_tokens = s->block_tokens;
  r->v.config = s->run.pool.scheduler_config.bytes;
  r->v.prefix_cache = s->run.pool.prefix_cache && !s->unlimited;
  r->v.cached_tokens = ds_cached_tokens;
  r->v.cached_hit = ds_cached_hit;
  r->v.common_tokens = ds_common_tokens;
  r->v.freed = ds_cache_freed;
  r->v.engine = s;
  r->v.encoder_budget = r->v.encoder_room = s->encoder_budget;
  ds_wheel_init(&r->finish);
  r->wake_ns = r->deadline_ns = DS_TIME_NEVER;
  r->second_end_ns = INT64_MIN;
  r->pending_least = UINT32_MAX;
  r->need = ds_alloc_zeroed(&s->alloc, s->block_tokens, sizeof *r->need);
  if (r->need == NULL) return DS_E_NOMEM;
  if (s->reach > 0) {
    r->near.ring = ds_alloc_zeroed(&s->alloc, (size_t)s->reach, sizeof *r->near.ring);
    if (r->near.ring == NULL) return DS_E_NOMEM;
  }
  r->cap_inbox = 64;
  r->inbox = ds_alloc_zeroed(&s->alloc, r->cap_inbox, sizeof *r->inbox);
  if (r->inbox == NULL) return DS_E_NOMEM;
  DS_TRY(ds_kv_init(&r->kv, s->total_blocks, r->v.prefix_cache, s->run.pool.eviction, &s->alloc));
  if (s->sched->state_bytes > 0) {
    r->policy = ds_alloc_zeroed(&s->alloc, 1, s->sched->state_bytes);
    if (r->policy == NULL) return DS_E_NOMEM;
  }
  return s->sched->init != NULL ? s->sched->init(r->policy, &s->run, err) : DS_OK;
}

#define HOST_BYTES 4294967296.0 /* vLLM's default for swap_space, each device */

static void bind_swap(ds_sim *s) {
  s->host_blocks = INT64_MAX;
  if (s->sched->swap == NULL) return;
  int64_t host_blocks = 0;
  s->sched->swap(s->run.pool.scheduler_config.bytes, &s->swap_block_ns, &host_blocks);
  double bytes = s->result.memory.kv_bytes_per_token * (double)s->block_tokens, link = s->run.pool.hw.host_bytes_per_s;
  if (bytes > 0.0) s->host_blocks = (int64_t)(HOST_BYTES / bytes);
  if (bytes > 0.0 && link > 0.0) s->swap_block_s = bytes / link; /* every device moves its own share at once */
  if (host_blocks > 0) s->host_blocks = host_blocks;
}

static ds_status init(ds_sim *s, ds_error *err) {
  DS_TRY(ds_run_validate(&s->run, err));
  const ds_pool *pool = &s->run.pool;
  s->block_tokens = (uint32_t)pool->kv_block_tokens;
  s->unlimited = pool->kv_blocks == DS_KV_UNLIMITED;
  if (s->run.cost_tier != DS_COST_LINEAR) DS_TRY(ds_memory_footprint(&s->run, &s->result.memory, err));
  else s->result.memory.kv_blocks = pool->kv_blocks;
  s->total_blocks = s->unlimited ? DS_KV_UNLIMITED : pool->kv_blocks > 0 ? pool->kv_blocks : s->result.memory.kv_blocks;
  s->use_index = pool->prefix_cache && !s->unlimited && !s->sched->reserves;
  if (s->total_blocks <= 0) return ds_error_begin(err, DS_E_INPUT, "no memory is left for the KV cache");
  int64_t tokens = pool->max_num_batched_tokens > 0 ? pool->max_num_batched_tokens : 8192;
  int64_t seqs = pool->max_num_seqs > 0 ? pool->max_num_seqs : 256;
  DS_TRY(ds_pricer_new(&s->run, tokens, seqs, &s->alloc, &s->pricer, err));
  if (s->run.patience.retries > 0 && !s->opt.closed_loop) {
    return ds_error_begin(err, DS_E_STATE, "clients that ask again make a closed loop");
  }
  s->overlap = s->sched->overlaps != NULL && s->sched->overlaps(pool->scheduler_config.bytes);
  /* Experts are shared by all groups of a replica, which go in lockstep for them; groups of a dense model do not meet. */
  bool meet = s->run.cost_tier == DS_COST_LINEAR || s->run.model.experts > 0;
  s->group = meet && !(pool->hw.dataflow.layer_s > 0) ? (size_t)pool->data_parallel : 1;
  if (s->overlap || s->group > 1) s->opt.no_lease = true;
  if (s->overlap && pool->speculative.method != DS_DRAFT_NONE) {
    return ds_error_begin(err, DS_E_INPUT, "speculative: asynchronous scheduling of drafts is not modelled, expected async_scheduling (sglang: overlap): false");
  }
  DS_TRY(bind_times(s));
  if (s->run.cost_tier != DS_COST_LINEAR) s->reach = ds_model_reach(&s->run.model);
  s->reach_chunked = s->run.model.chunked;

  s->encoder_budget = ds_encoder_budget(&s->run);
  if (pool->max_num_batched_tokens <= 0 && s->encoder_budget < tokens) s->encoder_budget = tokens;

  s->speculative = pool->speculative.method != DS_DRAFT_NONE;
  if (s->speculative && !s->sched->speculates) {
    ds_error_begin(err, DS_E_INPUT, "pools.");
    ds_error_text(err, pool->name[0] != '\0' ? pool->name : "main");
    ds_error_text(err, ".speculative: scheduler ");
    ds_error_text(err, s->sched->name);
    ds_error_text(err, " does not plan drafts");
    return DS_E_INPUT;
  }
  s->track_gap = s->opt.max_gap || s->opt.records || s->run.slo.request.itl_ns > 0;
  const ds_slo_request *limit = &s->run.slo.request;
  s->has_slo = limit->ttft_ns > 0 || limit->tpot_ns > 0 || limit->itl_ns > 0 || limit->e2e_ns > 0;
  /* Every attention group of a replica schedules for itself, like a replica. */
  s->n_replicas = (size_t)(pool->replicas * (pool->hw.dataflow.layer_s > 0 ? 1 : pool->data_parallel));
  s->replica = ds_alloc_zeroed(&s->alloc, s->n_replicas, sizeof *s->replica);
  s->totals = ds_alloc_zeroed(&s->alloc, s->n_replicas, sizeof *s->totals);
  s->outstanding = ds_alloc_zeroed(&s->alloc, s->n_replicas, sizeof *s->outstanding);
  s->due_key = ds_alloc_zeroed(&s->alloc, s->n_replicas, sizeof *s->due_key);
  s->tournament = ds_alloc_zeroed(&s->alloc, 2 * s->n_replicas, sizeof *s->tournament);
  s->itl.bucket = ds_alloc_zeroed(&s->alloc, DS_GAPS_BUCKETS, sizeof *s->itl.bucket);
  if (s->replica == NULL || s->totals == NULL || s->outstanding == NULL || s->due_key == NULL || s->tournament == NULL ||
      s->itl.bucket == NULL) {
    return DS_E_NOMEM;
  }
  if (s->speculative && pool->speculative.n_streams > 0) {
    s->stream_speculation = ds_alloc_zeroed(&s->alloc, (size_t)pool->speculative.n_streams, sizeof *s->stream_speculation);
    if (s->stream_speculation == NULL) return DS_E_NOMEM;
  }
  if (s->use_index) DS_TRY(ds_tiers_init(s, err));
  s->itl.exact = true;
  s->seconds.last = -1;
  s->free_slot = DS_SLOT_NONE;
  s->lease_until_ns = DS_TIME_NEVER;
  s->oracle = ds_sched_knows(s->sched, pool->scheduler_config.bytes);
  s->ranked = s->sched->rank != NULL && (s->sched->ranked == NULL || s->sched->ranked(pool->scheduler_config.bytes));
  s->turns_away = s->sched->turns_away != NULL && s->sched->turns_away(pool->scheduler_config.bytes);
  if (s->turns_away && s->group > 1) {
    return ds_error_begin(err, DS_E_INPUT, "data_parallel: ranks in lockstep that turn requests away are not modelled, expected 1, or options that turn nobody away");
  }
  bind_swap(s);
  s->plain = s->opt.no_lease && !s->in_order && !s->opt.steps && !s->opt.gaps && !s->track_gap && !s->opt.closed_loop && s->group == 1 &&
             !s->overlap && !s->speculative && s->reach == 0;
  for (size_t i = 0; i < s->n_replicas; i++) DS_TRY(init_replica(s, i, err));
  ds_route_init(s);
  if (s->route->state_bytes > 0) {
    s->route_state = ds_alloc_zeroed(&s->alloc, 1, s->route->state_bytes);
    if (s->route_state == NULL) return DS_E_NOMEM;
  }
  return DS_OK;
}

ds_status ds_sim_new(const ds_run *run, const ds_sched_ops *sched, const ds_route_ops *route, const ds_sim_options *opt,
                     const ds_alloc *a, ds_sim **out, ds_error *err) {
  *out = NULL;
  if (err != NULL) err->status = DS_OK;
  ds_sim *s = ds_alloc_zeroed(a, 1, sizeof *s);
  if (s == NULL) return ds_error_begin(err, DS_E_NOMEM, "out of memory");
  s->alloc = *a;
  s->run = *run;
  s->sched = sched;
  s->route = route;
  s->opt = *opt;
  if (s->opt.steps || s->opt.gaps) s->opt.no_lease = true;
  if (s->opt.steps) s->opt.eager = true;
  if (s->opt.gaps) s->opt.records = true;
  ds_status st = init(s, err);
  if (st != DS_OK) {
    if (st == DS_E_NOMEM) ds_error_begin(err, st, "out of memory");
    ds_sim_free(s);
    return st;
  }
  *out = s;
  return DS_OK;
}

void ds_sim_free(ds_sim *s) {
  if (s == NULL) return;
  const ds_alloc a = s->alloc;
  for (size_t i = 0; s->replica != NULL && i < s->n_replicas; i++) {
    ds_replica *r = &s->replica[i];
    ds_alloc_free(&a, r->need, s->block_tokens, sizeof *r->need);
    ds_alloc_free(&a, r->near.ring, (size_t)s->reach, sizeof *r->near.ring);
    ds_kv_free(&r->kv, &a);
    ds_alloc_free(&a, r->prefilling, r->cap_prefilling, sizeof *r->prefilling);
    ds_alloc_free(&a, r->plan.grants, r->cap_grants, sizeof *r->plan.grants);
    ds_alloc_free(&a, r->grant_decodes, r->cap_grant_decodes, sizeof *r->grant_decodes);
    ds_alloc_free(&a, r->plan.order, r->cap_order, sizeof *r->plan.order);
    ds_alloc_free(&a, r->plan.turned_away, r->cap_turned_away, sizeof *r->plan.turned_away);
    ds_alloc_free(&a, r->plan.spare, r->cap_spare, sizeof *r->plan.spare);
    ds_alloc_free(&a, r->plan.decode, r->cap_decode, sizeof *r->plan.decode);
    ds_alloc_free(&a, r->plan.preempt, r->cap_preempt, sizeof *r->plan.preempt);
    ds_alloc_free(&a, r->inbox, r->cap_inbox, sizeof *r->inbox);
    ds_alloc_free(&a, r->maxgap.e, r->maxgap.cap, sizeof *r->maxgap.e);
    ds_alloc_free(&a, r->gap_log, r->cap_gap_log, sizeof *r->gap_log);
    ds_alloc_free(&a, r->policy, 1, s->sched->state_bytes);
    ds_heap_free(&r->deadline, &a);
  }
  for (size_t i = 0; i < s->n_slots; i++) {
    ds_alloc_free(&a, s->slot[i].piece, s->slot[i].cap_piece, sizeof *s->slot[i].piece);
  }
  if (s->use_index) ds_tiers_free(s);
  if (s->pricer != NULL) ds_pricer_free(s->pricer);
  ds_heap_free(&s->due, &a);
  ds_heap_free(&s->released, &a);
  ds_heap_free(&s->give_up, &a);
  ds_alloc_free(&a, s->held, s->cap_held, sizeof *s->held);
  ds_alloc_free(&a, s->join, s->cap_join, sizeof *s->join);
  ds_alloc_free(&a, s->arrival_ns, s->cap_arrival, sizeof *s->arrival_ns);
  ds_alloc_free(&a, s->replica, s->n_replicas, sizeof *s->replica);
  ds_alloc_free(&a, s->totals, s->n_replicas, sizeof *s->totals);
  ds_alloc_free(&a, s->outstanding, s->n_replicas, sizeof *s->outstanding);
  ds_alloc_free(&a, s->due_key, s->n_replicas, sizeof *s->due_key);
  ds_alloc_free(&a, s->tournament, 2 * s->n_replicas, sizeof *s->tournament);
  ds_alloc_free(&a, s->route_state, 1, s->route->state_bytes);
  ds_alloc_free(&a, s->view, s->cap_view, sizeof *s->view);
  ds_alloc_free(&a, s->link, s->cap_link, sizeof *s->link);
  ds_alloc_free(&a, s->slot, s->cap_slots, sizeof *s->slot);
  ds_alloc_free(&a, s->image, s->cap_image, sizeof *s->image);
  ds_alloc_free(&a, s->pending, s->cap_pending, sizeof *s->pending);
  ds_alloc_free(&a, s->part, s->cap_part, sizeof *s->part);
  ds_alloc_free(&a, s->part_scratch, s->cap_part_scratch, sizeof *s->part_scratch);
  ds_alloc_free(&a, s->ttft_ns, s->cap_ttft, sizeof *s->ttft_ns);
  ds_alloc_free(&a, s->e2e_ns, s->cap_e2e, sizeof *s->e2e_ns);
  ds_alloc_free(&a, s->queue_ns, s->cap_queue, sizeof *s->queue_ns);
  ds_alloc_free(&a, s->outputs, s->cap_outputs, sizeof *s->outputs);
  ds_alloc_free(&a, s->records, s->cap_records, sizeof *s->records);
  ds_alloc_free(&a, s->gaps_ns, s->cap_gaps, sizeof *s->gaps_ns);
  ds_alloc_free(&a, s->stream_speculation, (size_t)s->run.pool.speculative.n_streams, sizeof *s->stream_speculation);
  ds_alloc_free(&a, s->chunk_tokens, s->cap_chunk_tokens, sizeof *s->chunk_tokens);
  ds_alloc_free(&a, s->itl.bucket, DS_GAPS_BUCKETS, sizeof *s->itl.bucket);
  ds_alloc_free(&a, s->itl.run, s->itl.cap_run, sizeof *s->itl.run);
  ds_seconds_free(&s->seconds, &a);
  ds_alloc_free(&a, s->log, s->cap_log, sizeof *s->log);
  ds_alloc_free(&a, s, 1, sizeof *s);
}

/* ---- requests in ---- */

ds_status ds_refuse(ds_error *err, uint64_t index, const char *what, int64_t found, const char *limit, int64_t at_most) {
  ds_error_begin(err, DS_E_INPUT, what);
  ds_error_int(err, found);
  ds_error_text(err, limit);
  ds_error_int(err, at_most);
  if (err != NULL) err->request = (int64_t)index;
  return DS_E_INPUT;
}

static ds_status check_request(const ds_sim *s, const ds_request *r, uint64_t index, ds_error *err) {
  if (r->input_tokens == 0 || r->output_tokens == 0) {
    return ds_refuse(err, index, "a request needs input and output tokens, found ", 0, ", at least ", 1);
  }
  int64_t whole = (int64_t)r->input_tokens + r->output_tokens;
  if (whole > INT32_MAX) return ds_refuse(err, index, "a request of ", whole, " tokens is beyond the limit of ", INT32_MAX);
  const ds_pool *pool = &s->run.pool;
  if (pool->max_model_len > 0 && whole > pool->max_model_len) {
    return ds_refuse(err, index, "a request of ", whole, " tokens (input and output) exceeds max_model_len ", pool->max_model_len);
  }
  int64_t most = whole - 1;
  if (s->speculative) most += pool->speculative.tokens + pool->speculative.lookahead; /* of its last verify step */
  int64_t blocks = ds_div_up(most, s->block_tokens);
  if (!s->unlimited && blocks > s->total_blocks) {
    return ds_refuse(err, index, "a request needs ", blocks, " KV blocks, more than the whole pool of ", s->total_blocks);
  }
  if (r->images > 0) DS_TRY(ds_encoder_check(s, r, index, err));
  if (s->sched->accepts != NULL) {
    ds_status st = s->sched->accepts(pool->scheduler_config.bytes, pool, s->total_blocks, r->input_tokens, r->output_tokens,
                                     r->max_tokens, err);
    if (st != DS_OK && err != NULL) err->request = (int64_t)index;
    return st;
  }
  return DS_OK;
}

static ds_status grow_columns(ds_sim *s, size_t n) {
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->ttft_ns, &s->cap_ttft, n, sizeof *s->ttft_ns));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->e2e_ns, &s->cap_e2e, n, sizeof *s->e2e_ns));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->queue_ns, &s->cap_queue, n, sizeof *s->queue_ns));
  DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->outputs, &s->cap_outputs, n, sizeof *s->outputs));
  if (s->opt.records) DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->records, &s->cap_records, n, sizeof *s->records));
  return DS_OK;
}

#define SPANS_AHEAD 8 /* what requests say of their tokens lies anywhere */

ds_status ds_sim_feed(ds_sim *s, const ds_request *r, size_t n, ds_error *err) {
  if (err != NULL) err->status = DS_OK;
  if (s->closed || s->failed) return ds_error_begin(err, DS_E_STATE, "requests fed to a run that is closed or has failed");
  if (s->pending_head > 0) {
    memmove(s->pending, s->pending + s->pending_head, s->n_pending * sizeof *s->pending);
    s->pending_head = 0;
  }
  s->failed = true; /* until all is well */
  if (s->opt.closed_loop && (s->started || s->n_fed + n > UINT32_MAX)) {
    return ds_error_begin(err, DS_E_STATE, "a closed loop takes all its requests before the first step");
  }
  if (s->opt.closed_loop && ds_closed_hold(s, r, n) != DS_OK) return ds_error_begin(err, DS_E_NOMEM, "out of memory");
  if (ds_alloc_grow(&s->alloc, (void **)&s->pending, &s->cap_pending, s->n_pending + n, sizeof *s->pending) != DS_OK ||
      grow_columns(s, (size_t)s->n_fed + n) != DS_OK) {
    return ds_error_begin(err, DS_E_NOMEM, "out of memory");
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t index = s->n_fed + i;
    DS_TRY(check_request(s, &r[i], index, err));
    if (index == 0) {
      s->start_ns = r[i].arrival_ns;
    } else if (s->opt.closed_loop) {
      if (r[i].after > index || r[i].think_ns < 0) {
        return ds_error_begin(err, DS_E_STATE, "a request can only follow one that was fed before it");
      }
    } else if (r[i].arrival_ns < s->result.last_arrival_ns) {
      ds_error_begin(err, DS_E_STATE, "requests must be fed in order of arrival");
      return DS_E_STATE;
    }
    s->result.last_arrival_ns = r[i].arrival_ns;
    s->result.identified += r[i].n_spans > 0;
    s->result.with_images |= r[i].images > 0;
  }
  if (!s->opt.closed_loop) {
    memcpy(s->pending + s->n_pending, r, n * sizeof *r);
    for (size_t i = 0; i < n; i++) {
      ds_request *p = &s->pending[s->n_pending + i];
      if (i + SPANS_AHEAD < n) DS_PREFETCH(p[SPANS_AHEAD].spans);
      if (DS_UNLIKELY(p->n_spans > 0) && ds_identity_take(s, p) != DS_OK) return ds_error_begin(err, DS_E_NOMEM, "out of memory");
      p->spans = NULL;
    }
    s->n_pending += n;
  }
  s->n_fed += n;
  s->failed = false;
  return DS_OK;
}

void ds_sim_close(ds_sim *s) { s->closed = true; }

/* ---- time ---- */

static ds_status stuck(ds_sim *s, const ds_replica *r) {
  const ds_req_view *v = &s->view[r->v.n_swapped > 0 ? r->v.swapped_head : r->v.queue_head];
  ds_error_begin(s->err, DS_E_STUCK, "request ");
  ds_error_int(s->err, (int64_t)v->index);
  ds_error_text(s->err, " waits for ever: the scheduler ");
  ds_error_text(s->err, s->sched->name);
  ds_error_text(s->err, r->v.n_swapped > 0 ? " does not swap it in although replica " : " does not admit it although replica ");
  ds_error_int(s->err, r->index);
  ds_error_text(s->err, " is idle with ");
  ds_error_int(s->err, r->kv.free_blocks);
  ds_error_text(s->err, " KV blocks free");
  if (s->err != NULL) s->err->request = (int64_t)v->index;
  return DS_E_STUCK;
}

static void finalise(ds_sim *s) {
  ds_result *out = &s->result;
  if (s->itl.exact && s->itl.count > DS_GAPS_EXACT_MAX && !s->opt.exact_itl) s->itl.exact = false;
  for (size_t i = 0; i < s->n_replicas; i++) {
    ds_replica *r = &s->replica[i];
    ds_replica_totals *t = &s->totals[i];
    *t = r->totals;
    t->cache.blocks = r->kv.stats;
    t->cache.resident_blocks = r->kv.shared_free;
    t->iterations = r->v.iteration;
    t->last_end_ns = r->v.now_ns;
    memcpy(t->part_ns, r->ledger, sizeof t->part_ns);
    r->work.decode_ctx = ds_wide_double(r->work_ctx);
    r->work.decode_near = ds_wide_double(r->work_near);
    if (r->v.iteration > 0) ds_price_work(s->pricer, &r->work, r->v.iteration, &t->flops, &t->bytes);
    ds_price_images_work(s->pricer, &r->encoded, t->encoder_runs, &t->flops, &t->bytes);
    t->images = r->encoded.images;
    t->image_tokens = (uint64_t)r->encoded.tokens;
    ds_price_drafting(s->pricer, &r->drafting, r->draft_passes, &t->flops, &t->bytes);
    out->iterations += t->iterations;
    out->decode_iterations += t->decode_iterations;
    out->leased_iterations += t->leased_iterations;
    out->recomputed_tokens += t->recomputed_tokens;
    out->wasted_decode_slots += t->wasted_decode_slots;
    ds_spec_totals *all = &out->speculation;
    all->drafts += t->speculation.drafts;
    all->draft_tokens += t->speculation.draft_tokens;
    all->accepted_tokens += t->speculation.accepted_tokens;
    for (int k = 0; k < DS_DRAFTS_MAX; k++) all->accepted_at[k] += t->speculation.accepted_at[k];
  }
  ds_blame_settle(s);
  out->submitted = s->n_fed;
  out->n = (size_t)s->n_fed;
  out->begin_ns = out->first_arrival_ns = s->start_ns;
  out->ttft_ns = s->ttft_ns;
  out->e2e_ns = s->e2e_ns;
  out->queue_ns = s->queue_ns;
  out->outputs = s->outputs;
  out->arrival_ns = s->opt.closed_loop ? s->arrival_ns : NULL;
  out->records = s->opt.records ? s->records : NULL;
  out->gaps_ns = s->opt.gaps ? s->gaps_ns : NULL;
  out->chunk_tokens = s->opt.gaps && s->speculative ? s->chunk_tokens : NULL;
  out->stream_speculation = s->stream_speculation;
  out->itl = &s->itl;
  out->seconds = &s->seconds;
  out->occupancy = s->opt.occupancy ? &s->occupancy : NULL;
  out->n_replicas = s->n_replicas;
  out->replicas = s->totals;
  s->done = true;
}

static ds_status run_on(ds_sim *s, bool *more) {
  *more = true;
  DS_TRY(ds_route_pending(s));
  if (s->n_pending > 0) return DS_OK; /* out of events for this call */
  *more = false;
  if (!s->closed) return DS_OK;
  if (s->opt.closed_loop) {
    DS_TRY(ds_closed_run(s));
  } else if (s->opt.eager) {
    DS_TRY(ds_advance_in_order(s, DS_TIME_NEVER));
  } else {
    for (size_t i = 0; i < s->n_replicas; i++) DS_TRY(ds_replica_advance(s, &s->replica[i], DS_TIME_NEVER));
  }
  if (s->events_left <= 0) {
    *more = true;
    return DS_OK;
  }
  for (size_t i = 0; i < s->n_replicas; i++) {
    if (s->replica[i].v.n_queue > 0 || s->replica[i].v.n_swapped > 0) return stuck(s, &s->replica[i]);
  }
  if (!s->done) finalise(s);
  return DS_OK;
}

ds_status ds_sim_step(ds_sim *s, uint64_t max_events, bool *more, ds_error *err) {
  *more = false;
  if (err != NULL) err->status = DS_OK;
  if (s->failed) return ds_error_begin(err, DS_E_STATE, "a run that has failed cannot go on");
  if (s->done) return DS_OK;
  s->err = err;
  s->events_left = max_events < (uint64_t)INT64_MAX ? (int64_t)max_events : INT64_MAX;
  ds_status st = run_on(s, more);
  s->err = NULL;
  if (st != DS_OK) {
    s->failed = true;
    if (st == DS_E_NOMEM) ds_error_begin(err, st, "out of memory");
  }
  return st;
}

const ds_result *ds_sim_result(const ds_sim *s) { return s->done ? &s->result : NULL; }
const ds_memory *ds_sim_memory(const ds_sim *s) { return &s->result.memory; }

void ds_sim_progress(const ds_sim *s, int64_t *now_ns, uint64_t *finished) {
  int64_t t = 0;
  for (size_t i = 0; i < s->n_replicas; i++) {
    if (s->replica[i].v.now_ns > t) t = s->replica[i].v.now_ns;
  }
  *now_ns = t;
  *finished = s->result.completed;
}
