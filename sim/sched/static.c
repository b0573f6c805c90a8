// SPDX-License-Identifier: Apache-2.0
/* Request-level static batching, as FasterTransformer does it: a batch is formed, runs until its last row is finished,
 * and only then is the next one formed. KV for the longest possible sequence is taken at the start, so it cannot run
 * out. Formation is at once, or by preferred sizes and a queue delay as Triton's dynamic batcher decides.
 * Source: NVIDIA/FasterTransformer ParallelGpt.cc (the generation loop ends when every row's finished flag is set);
 * triton-inference-server/core dynamic_batch_scheduler.cc (GetDynamicBatch). */
#include "engine/sched.h"

#include "base/num.h"

typedef struct config {
  int64_t max_batch_size, max_queue_delay_ns, emit;
  ds_int_list preferred_batch_sizes;
  bool hold_finished_slots, pad;
} config;

enum { EMIT_STREAM, EMIT_BATCH_END };
static const char *const emit_choices[] = {"stream", "batch-end", NULL};

static const ds_param params[] = {
    {"max_batch_size", DS_PARAM_INT, offsetof(config, max_batch_size), 1, 1 << 20, 8, 8, NULL, "most requests in one batch", "requests"},
    {"hold_finished_slots", DS_PARAM_BOOL, offsetof(config, hold_finished_slots), 0, 0, 1, 1, NULL,
     "rows that are finished go on costing until the batch ends (FasterTransformer); false: dropped from compute", NULL},
    {"pad", DS_PARAM_BOOL, offsetof(config, pad), 0, 0, 0, 0, NULL, "every prompt is padded to the longest of its batch", NULL},
    {"emit", DS_PARAM_CHOICE, offsetof(config, emit), 0, 0, EMIT_STREAM, EMIT_STREAM, emit_choices,
     "tokens become visible one by one, or all when the batch ends", NULL},
    {"max_queue_delay", DS_PARAM_TIME, offsetof(config, max_queue_delay_ns), 0, 3.6e12, 0, 0, NULL,
     "how long the oldest request may wait for a better batch", NULL},
    {"preferred_batch_sizes", DS_PARAM_INTS, offsetof(config, preferred_batch_sizes), 1, 1 << 20, 0, 0, NULL,
     "sizes worth dispatching before the delay is over", "requests"},
};

/* KV tokens of one row, from start to end. */
static int64_t reserve_tokens(const ds_pool *pool, uint32_t prompt, uint32_t max_tokens) {
  return pool->max_model_len > 0 ? pool->max_model_len : (int64_t)prompt + max_tokens;
}

typedef struct state {
  int64_t max_model_len;
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  s->max_model_len = run->pool.max_model_len;
  for (int64_t i = 0; i < c->preferred_batch_sizes.n; i++) {
    if (c->preferred_batch_sizes.v[i] > c->max_batch_size) {
      ds_error_begin(err, DS_E_INPUT, "scheduler_options.preferred_batch_sizes: has ");
      ds_error_int(err, c->preferred_batch_sizes.v[i]);
      ds_error_text(err, ", expected sizes up to max_batch_size, which is ");
      ds_error_int(err, c->max_batch_size);
      return DS_E_INPUT;
    }
  }
  return DS_OK;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg, (void)output;
  if (pool->kv_blocks == DS_KV_UNLIMITED) return DS_OK;
  int64_t tokens = reserve_tokens(pool, prompt, max_tokens > output ? max_tokens : output);
  int64_t blocks = ds_div_up(tokens, pool->kv_block_tokens);
  if (blocks <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "static batching reserves ");
  ds_error_int(err, blocks);
  ds_error_text(err, " KV blocks for a request, more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

static int64_t row_tokens(const state *s, const ds_req_view *r) {
  return s->max_model_len > 0 ? s->max_model_len : (int64_t)r->prompt_tokens + r->max_tokens;
}

/* How many of the queue's first requests to dispatch now; 0: wait until *wake_ns. */
static uint32_t decide(const config *c, const ds_sched_view *v, uint32_t fit, bool full, int64_t *wake_ns) {
  const ds_int_list *preferred = &c->preferred_batch_sizes;
  int64_t largest = preferred->n > 0 ? 0 : c->max_batch_size, best = 0;
  for (int64_t i = 0; i < preferred->n; i++) {
    if (preferred->v[i] > largest) largest = preferred->v[i];
    if (preferred->v[i] <= fit && preferred->v[i] > best) best = preferred->v[i];
  }
  int64_t age = v->now_ns - v->req[v->queue_head].arrival_ns;
  bool late = age >= c->max_queue_delay_ns;
  if (best > 0 && !late) return (uint32_t)best;
  if (full || fit >= largest || late) return fit;
  *wake_ns = v->req[v->queue_head].arrival_ns + c->max_queue_delay_ns;
  return 0;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  const state *s = st;
  const config *c = v->config;
  out->hold_finished = c->hold_finished_slots;
  out->emit_at_end = c->emit == EMIT_BATCH_END;
  if (v->n_running > 0) {
    out->decode_all = out->hold = out->hold_past_finish = true;
    out->blocked = v->n_queue > 0 ? DS_BLOCKED_OTHER : DS_BLOCKED_NO;
    return DS_OK;
  }
  uint32_t fit = 0, slot = v->queue_head;
  int64_t blocks = v->free_blocks;
  for (; slot != DS_SLOT_NONE && fit < c->max_batch_size; slot = v->req[slot].next, fit++) {
    int64_t need = ds_div_up(row_tokens(s, &v->req[slot]), v->block_tokens);
    if (need > blocks) break;
    blocks -= need;
  }
  bool full = slot != DS_SLOT_NONE; /* one more would not go in */
  uint32_t n = decide(c, v, fit, full, &out->wake_ns);
  uint32_t longest = 0, sum = 0;
  slot = v->queue_head;
  for (uint32_t i = 0; i < n; i++, slot = v->req[slot].next) {
    uint32_t prompt = v->req[slot].prompt_tokens;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .tokens = prompt, .reserve_tokens = row_tokens(s, &v->req[slot])};
    if (prompt > longest) longest = prompt;
    sum += prompt;
  }
  if (c->pad) out->padded_prefill_tokens = longest * n - sum;
  out->decode_all = true;
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_batch_size; }

static const char *const versions[] = {
    "hold_finished_slots: true is FasterTransformer's generation loop; false is sarathi-serve's faster_transformer_scheduler.py",
    NULL,
};

extern const ds_sched_ops ds_sched_static;
const ds_sched_ops ds_sched_static = {
    .name = "static",
    .summary = "request-level static batching: a batch runs until its last row is finished",
    .reference = "NVIDIA/FasterTransformer ParallelGpt.cc; triton-inference-server/core dynamic_batch_scheduler.cc",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .reserves = true,
    .runs_to_end = true,
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
};
