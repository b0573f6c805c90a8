// SPDX-License-Identifier: Apache-2.0
/* Triton's dynamic batcher in front of a backend that runs each batch to its end.
 *
 * The batcher works on whole requests and decides when an execution slot is free: on an arrival, when the slot becomes
 * free, and when a timer runs out. It walks the queue up to max_batch_size and remembers the largest preferred size on the way.
 * If such a size is there and the oldest request has not waited for max_queue_delay, exactly that many go; if the queue holds
 * more than fit, or the largest preferred size, or the oldest is late, all that fit go; else it sets a timer. With a delay of
 * 0 the oldest is always late, so preferred sizes had no effect then until server pull request 3298 (August 2021); since, the
 * largest that is there goes (preferred_without_delay). No preferred size: max_batch_size counts as the one.
 * With priority_levels the queue is walked level by level, 1 first; a request whose priority is none of them has the
 * default level. Within a level first come first served, but who has waited longer than default_timeout stands behind those
 * who have not (timeout_action DELAY), or is answered with an error (REJECT). One model instance, one queue policy for all
 * levels. preserve_ordering changes nothing: one instance answers in order.
 * Who is turned away: at the door, who finds max_queue_size requests waiting in its own level, the expired among them; and
 * with REJECT the expired that the walk comes upon, so also those of the levels behind a full batch up to the next request
 * that is not expired, but nobody beyond. Their answers go out behind the batch. While the instance is busy the batcher wakes
 * every 500 ms at most and rejects the expired of all levels (core pull request 333, March 2024: here after the iteration
 * under way, so up to half a second before the code); before, only walks did (reject_while_busy: false). With a timeout or a
 * limit on the queue no batch is fetched ahead of its slot (support_prefetching_), so that a queue holds all who wait.
 * Source: triton-inference-server/core dynamic_batch_scheduler.cc (GetDynamicBatch, BatcherThread,
 * WaitForPayloadSlotAvailable), scheduler_utils.cc (PriorityQueue; PolicyQueue::Enqueue, ApplyPolicy,
 * RejectTimeoutRequests), infer_request.cc (SetPriority); server docs/user_guide/batcher.md. Read at core 05295b706ae4.
 * The backend takes KV for prompt and output cap of each row at the start, so KV cannot run out; what rows do after their
 * last token, and when answers become visible, are options of it. */
#include "engine/sched.h"

#include "base/num.h"

typedef struct config {
  int64_t max_batch_size, max_queue_delay_ns, emit, priority_levels, default_priority_level, default_timeout_ns, timeout_action, max_queue_size;
  ds_int_list preferred_batch_sizes;
  bool hold_finished_slots, reject_while_busy, preferred_without_delay;
} config;

enum { EMIT_STREAM, EMIT_BATCH_END };
static const char *const emit_choices[] = {"stream", "batch-end", NULL};
enum { TIMEOUT_DELAY, TIMEOUT_REJECT };
static const char *const timeout_choices[] = {"delay", "reject", NULL};

static const ds_param params[] = {
    {"max_batch_size", DS_PARAM_INT, offsetof(config, max_batch_size), 1, 1 << 20, 8, 8, NULL, "most requests in one batch", "requests"},
    {"preferred_batch_sizes", DS_PARAM_INTS, offsetof(config, preferred_batch_sizes), 1, 1 << 20, 0, 0, NULL,
     "sizes worth sending before the delay is over; none: max_batch_size", "requests"},
    {"max_queue_delay", DS_PARAM_TIME, offsetof(config, max_queue_delay_ns), 0, 3.6e12, 0, 0, NULL,
     "how long the oldest request may wait for a preferred size", NULL},
    {"preferred_without_delay", DS_PARAM_BOOL, offsetof(config, preferred_without_delay), 0, 0, 0, 0, NULL,
     "max_queue_delay 0: the largest preferred size that is there goes, as since August 2021; false: all that fit", NULL},
    {"priority_levels", DS_PARAM_INT, offsetof(config, priority_levels), 0, 1 << 20, 0, 0, NULL,
     "levels, 1 the most important; 0: none, priorities are not looked at", "levels"},
    {"default_priority_level", DS_PARAM_INT, offsetof(config, default_priority_level), 1, 1 << 20, 1, 1, NULL,
     "level of a request whose priority is none of 1 to priority_levels", "level"},
    {"default_timeout", DS_PARAM_TIME, offsetof(config, default_timeout_ns), 0, 3.6e12, 0, 0, NULL,
     "who has waited longer has expired, and timeout_action says what follows; 0: never", NULL},
    {"timeout_action", DS_PARAM_CHOICE, offsetof(config, timeout_action), 0, 0, TIMEOUT_DELAY, TIMEOUT_DELAY, timeout_choices,
     "the expired go behind the others of their level, or are answered with an error (Triton's own default)", NULL},
    {"reject_while_busy", DS_PARAM_BOOL, offsetof(config, reject_while_busy), 0, 0, 1, 1, NULL,
     "reject: also while a batch runs, as since March 2024; false: only when a batch is formed", NULL},
    {"max_queue_size", DS_PARAM_INT, offsetof(config, max_queue_size), 0, 1 << 20, 0, 0, NULL,
     "who finds so many waiting in its level is answered with an error at once; 0: no limit", "requests"},
    {"hold_finished_slots", DS_PARAM_BOOL, offsetof(config, hold_finished_slots), 0, 0, 0, 0, NULL,
     "rows that are finished go on costing until the batch ends; false: dropped from compute", NULL},
    {"emit", DS_PARAM_CHOICE, offsetof(config, emit), 0, 0, EMIT_BATCH_END, EMIT_BATCH_END, emit_choices,
     "tokens become visible one by one (decoupled model), or all with the response when the batch ends", NULL},
};

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  (void)st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  if (c->priority_levels > 0 && c->default_priority_level > c->priority_levels) {
    return ds_option_refused(err, "default_priority_level", c->default_priority_level, "at most priority_levels, which is ", c->priority_levels);
  }
  if (c->timeout_action == TIMEOUT_REJECT && c->default_timeout_ns == 0) {
    return ds_error_begin(err, DS_E_INPUT, "scheduler_options.timeout_action: is reject without a default_timeout, expected "
                                           "default_timeout: 10 s beside it: only who has waited longer is rejected");
  }
  for (int64_t i = 0; i < c->preferred_batch_sizes.n; i++) {
    if (c->preferred_batch_sizes.v[i] <= c->max_batch_size) continue;
    ds_error_begin(err, DS_E_INPUT, "scheduler_options.preferred_batch_sizes: has ");
    ds_error_int(err, c->preferred_batch_sizes.v[i]);
    ds_error_text(err, ", expected sizes up to max_batch_size, which is ");
    ds_error_int(err, c->max_batch_size);
    return DS_E_INPUT;
  }
  return DS_OK;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg;
  int64_t blocks = ds_div_up((int64_t)prompt + (max_tokens > output ? max_tokens : output), pool->kv_block_tokens);
  if (pool->kv_blocks == DS_KV_UNLIMITED || blocks <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "the backend reserves ");
  ds_error_int(err, blocks);
  ds_error_text(err, " KV blocks for a request (prompt and output cap), more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

static int64_t row_tokens(const ds_req_view *r) { return (int64_t)r->prompt_tokens + r->max_tokens; }

static bool preferred(const config *c, int64_t n) {
  if (c->preferred_batch_sizes.n == 0) return n == c->max_batch_size;
  for (int64_t i = 0; i < c->preferred_batch_sizes.n; i++) {
    if (c->preferred_batch_sizes.v[i] == n) return true;
  }
  return false;
}

static int64_t largest_preferred(const config *c) {
  int64_t most = c->preferred_batch_sizes.n > 0 ? 0 : c->max_batch_size;
  for (int64_t i = 0; i < c->preferred_batch_sizes.n; i++) {
    if (c->preferred_batch_sizes.v[i] > most) most = c->preferred_batch_sizes.v[i];
  }
  return most;
}

static int64_t level_of(const config *c, const ds_req_view *r) {
  if (c->priority_levels == 0) return 0;
  return r->priority >= 1 && r->priority <= c->priority_levels ? r->priority : c->default_priority_level;
}

/* The queue, which the engine keeps by level and arrival, in the order in which the batcher walks it. */
typedef struct walk {
  uint32_t first, at; /* of the level; where to look on */
  bool expired;
  ds_plan *out;       /* who is rejected on the way */
} walk;

static bool rejects(const config *c) { return c->timeout_action == TIMEOUT_REJECT; }

static bool expired(const config *c, const ds_sched_view *v, const ds_req_view *r) {
  return c->default_timeout_ns > 0 && v->now_ns - r->arrival_ns > c->default_timeout_ns;
}

static uint32_t next(const config *c, const ds_sched_view *v, walk *w) {
  while (w->first != DS_SLOT_NONE) {
    int64_t level = level_of(c, &v->req[w->first]);
    uint32_t slot = w->at;
    for (; slot != DS_SLOT_NONE && level_of(c, &v->req[slot]) == level; slot = v->req[slot].next) {
      if (expired(c, v, &v->req[slot]) != w->expired) {
        if (rejects(c) && w->out != NULL) w->out->turned_away[w->out->n_turned_away++] = slot;
        continue;
      }
      w->at = v->req[slot].next;
      return slot;
    }
    bool over = w->expired || c->default_timeout_ns == 0 || rejects(c);
    if (over) w->first = slot;
    w->at = w->first;
    w->expired = !over;
  }
  return DS_SLOT_NONE;
}

/* Once `arrival_ns` has waited longer than the timeout there is something to reject. */
static void wake_for_expiry(const config *c, int64_t arrival_ns, ds_plan *out) {
  int64_t at_ns = arrival_ns + c->default_timeout_ns + 1;
  if (at_ns < out->wake_ns) out->wake_ns = at_ns;
}

/* While a batch runs the expired are rejected wherever they stand. */
static void reject_all(const config *c, const ds_sched_view *v, ds_plan *out) {
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    if (expired(c, v, &v->req[slot])) out->turned_away[out->n_turned_away++] = slot;
    else wake_for_expiry(c, v->req[slot].arrival_ns, out);
    if (c->priority_levels == 0 && out->wake_ns != DS_TIME_NEVER) return; /* who stands behind came later */
  }
}

/* How many of the first requests go now; 0: none before *wake_ns. */
static int64_t decide(const config *c, const ds_sched_view *v, ds_plan *out) {
  int64_t pending = 0, best = 0, blocks = v->free_blocks, oldest_ns = INT64_MAX;
  bool send_now = false;
  walk w = {v->queue_head, v->queue_head, false, out};
  for (uint32_t slot = next(c, v, &w); slot != DS_SLOT_NONE; slot = next(c, v, &w)) {
    int64_t need = ds_div_up(row_tokens(&v->req[slot]), v->block_tokens);
    if (pending == c->max_batch_size || need > blocks) {
      send_now = true;
      break;
    }
    blocks -= need;
    pending++;
    if (v->req[slot].arrival_ns < oldest_ns) oldest_ns = v->req[slot].arrival_ns;
    if (preferred(c, pending)) best = pending;
  }
  if (pending == 0) return 0; /* all were rejected */
  bool late = v->now_ns - oldest_ns >= c->max_queue_delay_ns;
  if (best > 0 && (!late || (c->max_queue_delay_ns == 0 && c->preferred_without_delay))) return best;
  if (send_now || late || pending >= largest_preferred(c)) return pending;
  out->wake_ns = oldest_ns + c->max_queue_delay_ns;
  if (rejects(c)) wake_for_expiry(c, oldest_ns, out);
  return 0;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  (void)st;
  const config *c = v->config;
  out->decode_all = true;
  out->hold_finished = c->hold_finished_slots;
  out->emit_at_end = c->emit == EMIT_BATCH_END;
  if (v->n_running > 0) { /* the slot is taken */
    out->hold = true;
    out->blocked = v->n_queue > 0 ? DS_BLOCKED_OTHER : DS_BLOCKED_NO;
    if (rejects(c) && c->reject_while_busy) reject_all(c, v, out);
    return DS_OK;
  }
  int64_t n = decide(c, v, out);
  walk w = {v->queue_head, v->queue_head, false, NULL};
  for (; n > 0; n--) {
    uint32_t slot = next(c, v, &w);
    out->grants[out->n_grants++] = (ds_grant){
        .slot = slot, .tokens = v->req[slot].prompt_tokens, .reserve_tokens = row_tokens(&v->req[slot])};
  }
  return DS_OK;
}

static int64_t rank(const void *cfg, const ds_req_view *r) { return level_of(cfg, r); }
static bool ranked(const void *cfg) { return ((const config *)cfg)->priority_levels > 0; }

static bool turns_away(const void *cfg) {
  const config *c = cfg;
  return c->max_queue_size > 0 || rejects(c);
}

static bool refuses(const ds_sched_view *v, const ds_req_view *r) {
  const config *c = v->config;
  if (c->max_queue_size == 0 || v->n_queue < c->max_queue_size) return false;
  int64_t level = level_of(c, r), waiting = 0;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    if (level_of(c, &v->req[slot]) == level && ++waiting == c->max_queue_size) return true;
  }
  return false;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_batch_size; }

static const char *const versions[] = {
    "preferred_without_delay: true as since pull request 3298 of triton-inference-server/server (August 2021), false as before",
    "reject_while_busy: true as since pull request 333 of triton-inference-server/core (March 2024), false as before",
    NULL,
};

extern const ds_sched_ops ds_sched_triton_dynamic;
const ds_sched_ops ds_sched_triton_dynamic = {
    .name = "triton-dynamic",
    .summary = "Triton's dynamic batcher: preferred sizes and a queue delay, each batch to its end",
    .reference = "triton-inference-server/core dynamic_batch_scheduler.cc (GetDynamicBatch)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .reserves = true,
    .runs_to_end = true,
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .rank = rank,
    .ranked = ranked,
    .turns_away = turns_away,
    .refuses = refuses,
    .max_seqs = max_seqs,
};
