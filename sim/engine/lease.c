// SPDX-License-Identifier: Apache-2.0
/* A decode lease: while a plan of "everyone decodes, nobody enters" holds, iterations differ only in the sum of
 * contexts. They run here without asking the policy, and add up to the same bits as one at a time. */
#include "engine/near.h"

/* Durations below this, and no more of them in a row than that, keep every sum of one block in 64 bits:
 * squares 2^(26+26+12), block integrals 2^(26+12) x blocks (so at most 2^25 blocks). */
#define SHORT_NS (1 << 26)
#define BLOCK_ITERATIONS 4096
#define MANY_BLOCKS (1 << 25)

typedef struct lease {
  int64_t now_ns, horizon_ns;
  int64_t last_ns;   /* where one iteration more may begin, of a plan that does not see who has arrived by the horizon */
  int64_t ctx;       /* exact integer; double inside the loop */
  int64_t free_blocks;
  uint32_t phase;
  uint64_t most;     /* iterations at most */
  uint32_t emitting; /* rows whose token becomes visible at once: none when a static batch emits at its end */
  /* sums over the iterations run */
  uint64_t n, sum_ns, sum_sq;
  uint64_t kv_block_ns, near_sum;
  int64_t longest_ns;
  bool stop_kv;      /* the next iteration lacks blocks: ask the policy */
  bool stop_long;    /* the next iteration is too long for these sums */
} lease;

/* Iterations [from, to) of a block ended in the second at hand. */
static inline void count_tokens(const ds_replica *r, const lease *l, uint64_t from, uint64_t to) {
  if (r->second != NULL) r->second->tokens += (to - from) * l->emitting;
}

/* One block of iterations, up to `most`. p (the overlap exponent), exact (every gap is kept) and general (layers that
 * are not plain attention over everything) are constant where this is inlined. What is rare (a new histogram bucket, a new second, the horizon) is tested by two comparisons. */
static DS_ALWAYS_INLINE ds_status run_block(ds_sim *s, ds_replica *r, lease *l, const ds_decode_price *price,
                                            uint32_t rows, int64_t p, bool exact, bool general) {
  const uint32_t *const need = r->need;
  const uint32_t block_tokens = s->block_tokens;
  uint64_t most = l->most;
  const double step = (double)rows;
  double ctx = (double)l->ctx;
  int64_t t = l->now_ns, dt = 0, free_blocks = l->free_blocks;
  int64_t t_stop = l->horizon_ns < r->second_end_ns ? l->horizon_ns : r->second_end_ns, d_stop = 0;
  uint32_t phase = l->phase, bucket = 0;
  uint64_t n = 0, sq = 0, free_ns = 0, bucket_from = 0, second_from = 0;
  const ds_decode_price constant = {.base_s = price->base_s, .layers = price->layers, .mem_per_ctx_s = price->mem_per_ctx_s,
                                    .mem_fixed_s = price->mem_fixed_s, .work_s = price->work_s}; /* in registers */
  ds_near near = r->near;
  uint64_t near_sum = 0;
  const bool bounded = general && s->reach > 0;
  ds_status st = DS_OK;
  while (n < most) {
    int64_t take = need[phase];
    if (DS_UNLIKELY(take > free_blocks)) {
      l->stop_kv = true;
      break;
    }
    int64_t d = general ? ds_decode_general_ns(price, ctx, (double)near.sum) : ds_ns_of_s(ds_decode_with_s(&constant, ctx, p));
    if (DS_UNLIKELY(d >= d_stop)) {
      if (d >= SHORT_NS) {
        l->stop_long = true;
        break;
      }
      s->itl.bucket[bucket] += (n - bucket_from) * l->emitting;
      bucket = ds_gap_bucket(d);
      bucket_from = n;
      d_stop = ds_gap_bucket_high(bucket);
      if (d_stop > SHORT_NS) d_stop = SHORT_NS;
    }
    if (exact && l->emitting > 0) {
      st = ds_gaps_push_exact(&s->itl, d, l->emitting, s->opt.exact_itl, &s->alloc);
      if (st != DS_OK) break;
    }
    dt = d;
    free_blocks -= take;
    free_ns += (uint64_t)free_blocks * (uint64_t)d;
    sq += (uint64_t)d * (uint64_t)d;
    t += d;
    ctx += step;
    if (bounded) {
      int64_t before = near.sum;
      near_sum += (uint64_t)before;
      ds_near_step(s, &near, r->v.iteration + n, rows);
      if (near.sum < before) most = n + 1; /* the next one may be shorter: another block */
    }
    phase = phase + 1 == block_tokens ? 0 : phase + 1;
    n++;
    if (DS_UNLIKELY(t >= t_stop)) {
      if (t >= r->second_end_ns) { /* this iteration's tokens belong to a new second */
        count_tokens(r, l, second_from, n - 1);
        second_from = n - 1;
        if (s->opt.occupancy) ds_kv_read(s, r, d, t, r->kv.total_blocks - free_blocks, (int64_t)(ctx - step));
        st = ds_count_second(s, r, t);
        if (st != DS_OK) break;
      }
      if (t >= l->horizon_ns) { /* somebody arrives, or may, before this iteration is over */
        if (t >= l->last_ns) break;
        l->last_ns = 0;
        l->horizon_ns = t; /* the next one ends it */
      }
      t_stop = l->horizon_ns < r->second_end_ns ? l->horizon_ns : r->second_end_ns;
    }
  }
  s->itl.bucket[bucket] += (n - bucket_from) * l->emitting;
  count_tokens(r, l, second_from, n);
  l->sum_ns = (uint64_t)(t - l->now_ns);
  l->now_ns = t;
  l->ctx += (int64_t)(n * rows);
  l->free_blocks = free_blocks;
  l->phase = phase;
  l->n = n;
  l->sum_sq = sq;
  l->kv_block_ns = (uint64_t)r->kv.total_blocks * l->sum_ns - free_ns; /* right even where a product wraps around */
  l->longest_ns = dt;
  l->near_sum = near_sum;
  if (bounded) r->near = near;
  return st;
}

static ds_status run_exact(ds_sim *s, ds_replica *r, lease *l, const ds_decode_price *price, uint32_t rows) {
  if (DS_UNLIKELY(price->general)) return run_block(s, r, l, price, rows, price->p, true, true);
  return run_block(s, r, l, price, rows, price->p, true, false);
}
static ds_status run_fast(ds_sim *s, ds_replica *r, lease *l, const ds_decode_price *price, uint32_t rows) {
  if (DS_UNLIKELY(price->general)) return run_block(s, r, l, price, rows, price->p, false, true);
  if (price->p == 1) return run_block(s, r, l, price, rows, 1, false, false);
  if (price->p == 2) return run_block(s, r, l, price, rows, 2, false, false);
  return run_block(s, r, l, price, rows, 4, false, false);
}

/* The same sums that ds_iteration_end makes, for n iterations at once. */
static ds_status settle(ds_sim *s, ds_replica *r, const lease *l, const ds_decode_price *price, uint32_t rows) {
  ds_replica_totals *t = &r->totals;
  ds_ledger_rows(r->ledger, price->fixed_ns, price->attention_part, (int64_t)l->sum_ns, (int64_t)l->n);
  if (l->emitting > 0) {
    s->itl.count += l->n * l->emitting;
    ds_wide_add_wide(&s->itl.sum, ds_wide_mul(l->sum_ns, l->emitting));
    ds_wide_add_wide(&s->itl.sum_sq, ds_wide_mul(l->sum_sq, l->emitting));
    if (l->longest_ns > s->itl.max_ns) s->itl.max_ns = l->longest_ns;
  }
  t->busy_ns += (int64_t)l->sum_ns;
  t->decode_tokens += l->n * rows;
  t->decode_iterations += l->n;
  t->leased_iterations += l->n;
  ds_wide_add_wide(&t->batch_ns, ds_wide_mul(l->sum_ns, rows));
  ds_wide_add(&t->kv_block_ns, l->kv_block_ns);
  int64_t used = r->kv.total_blocks - l->free_blocks;
  if (used > t->kv_peak_blocks) t->kv_peak_blocks = used;
  r->work.decode_seqs += (int64_t)(l->n * rows);
  uint64_t first_ctx = (uint64_t)l->ctx - l->n * rows;
  ds_wide_add(&r->work_ctx, first_ctx * l->n + rows * (l->n * (l->n - 1) / 2));
  if (s->reach > 0) ds_wide_add(&r->work_near, l->near_sum);
  if (r->kv.free_blocks > l->free_blocks) ds_kv_take(&r->kv, r->kv.free_blocks - l->free_blocks);
  r->v.iteration += l->n;
  r->phase = l->phase;
  r->ctx_sum = l->ctx;
  r->v.now_ns = l->now_ns;
  r->cur.start_ns = l->now_ns - l->longest_ns; /* of the last */
  if (s->track_gap && l->emitting > 0) DS_TRY(ds_maxgap_push(&r->maxgap, r->v.iteration - 1, l->longest_ns, &s->alloc));
  return DS_OK;
}

/* Iterations of one batch until somebody is done (then r->v.iteration is `done`), or something else ends the lease. */
static ds_status run_batch(ds_sim *s, ds_replica *r, const ds_plan *plan, uint64_t done, uint64_t limit, int64_t horizon_ns,
                           int64_t last_ns, bool *ended) {
  const uint32_t rows = r->v.n_decoding + r->v.n_held;
  const ds_decode_price *price = ds_price_decode(s->pricer, rows);
  const uint64_t cap = s->unlimited || r->kv.total_blocks < MANY_BLOCKS ? BLOCK_ITERATIONS : 64;
  *ended = true;
  for (;;) {
    uint64_t most = (done < limit ? done : limit) - r->v.iteration;
    lease l = {.now_ns = r->v.now_ns, .horizon_ns = horizon_ns, .last_ns = last_ns, .ctx = r->ctx_sum,
               .free_blocks = r->kv.free_blocks,
               .phase = r->phase, .most = most < cap ? most : cap, .emitting = plan->emit_at_end ? 0 : r->v.n_decoding};
    ds_status st = s->itl.exact ? run_exact(s, r, &l, price, rows) : run_fast(s, r, &l, price, rows);
    DS_TRY(st);
    if (l.n > 0) DS_TRY(settle(s, r, &l, price, rows));
    if (r->v.iteration == done) {
      *ended = false;
      return DS_OK;
    }
    if (l.stop_kv || r->v.now_ns >= horizon_ns || r->v.iteration == limit || (l.stop_long && r->need[r->phase] > r->kv.free_blocks)) {
      r->plan_due = true; /* the policy decides who gives way, or who enters */
      return DS_OK;
    }
    if (l.stop_long) return ds_iteration_begin(s, r, plan);
  }
}

/* May the plan go on, now that somebody has finished? */
static bool goes_on(const ds_sim *s, const ds_replica *r, const ds_plan *plan, int64_t horizon_ns) {
  return plan->hold_past_finish && r->v.n_queue == 0 && r->v.n_decoding > 0 && r->v.now_ns < horizon_ns &&
         !s->opt.closed_loop && r->need[r->phase] <= r->kv.free_blocks;
}

ds_status ds_lease_run(ds_sim *s, ds_replica *r, const ds_plan *plan, int64_t until_ns, int64_t horizon_ns) {
  const uint64_t limit = plan->hold_steps > 0 ? r->v.iteration + plan->hold_steps : UINT64_MAX;
  int64_t last_ns = 0;
  if (s->late && !s->opt.closed_loop) last_ns = r->deadline_ns < until_ns ? r->deadline_ns : until_ns;
  r->totals.leases++;
  r->cur.hold_finished = plan->hold_finished;
  r->cur.emit_at_end = plan->emit_at_end;
  do {
    bool ended;
    DS_TRY(run_batch(s, r, plan, ds_wheel_next(&r->finish, s->link, r->v.iteration), limit, horizon_ns, last_ns, &ended));
    if (ended) return DS_OK;
    /* The last iteration finishes somebody, which others must not see before its end. */
    r->end_ns = r->v.now_ns;
    r->finish_due = true;
    /* In a closed loop others end at `until` too, and everybody's ends come in order. */
    r->in_flight = r->end_ns > until_ns || (s->opt.closed_loop && r->end_ns == until_ns);
    if (r->in_flight) return DS_OK;
    DS_TRY(ds_iteration_end(s, r));
  } while (goes_on(s, r, plan, horizon_ns));
  return DS_OK;
}
