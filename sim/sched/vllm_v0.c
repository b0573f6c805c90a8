// SPDX-License-Identifier: Apache-2.0
/* vLLM V0: prompts before decodes, and never both in one iteration (unless chunked prefill is on).
 *
 * Without chunked prefill: while nobody is swapped out, the queue is admitted first come first served, whole prompts, as
 * long as tokens, seats and KV last (1 % of the blocks stay free); if anybody was admitted, the iteration is prompts
 * only and every decode waits. Otherwise the running requests decode in order; each needs a free block, whether it starts
 * one or not, and while there is none the last of those not yet served is preempted, or the request itself: by recompute to the front of the
 * queue, or by swapping its blocks to host memory. When nobody had to go, swapped requests come back, first out first in, if
 * their blocks and one more fit, and decode in the same iteration. New requests keep behind survivors in the running list.
 * With enable_chunked_prefill: one token budget for the decodes, then prompts in progress, then swapped requests, then the
 * queue; a prompt's blocks are all taken when it is admitted. With max_num_partial_prefills above 1 several prompts share the
 * budget: each gets at most its even share, of as many as run or could be taken in now (those longer than
 * long_prefill_token_threshold at most max_long_partial_prefills at a time; others pass them in the queue). The running list
 * then is, as there: who got nothing, who was swapped in, decodes, prompts that are complete with this iteration, others, who
 * has just entered.
 * A swap that host memory has no room for ends the run, as it ends vLLM; one sequence a request.
 * Source: vllm-project/vllm vllm/core/scheduler.py @0054e1fa0f8a (_schedule_default, _schedule_chunked_prefill,
 * _schedule_running, _schedule_swapped, _schedule_prefills), core/block_manager_v1.py @00a456f1656e. The running list is
 * kept as newer versions of V0 do; older ones sorted it by arrival at each step. */
#include "engine/sched.h"

#include "base/num.h"
#include "sched/decode_holds.h"

typedef struct config {
  int64_t max_num_seqs, max_num_batched_tokens, watermark_blocks, preemption_mode, swap_block_ns, cpu_blocks;
  int64_t max_num_partial_prefills, max_long_partial_prefills, long_prefill_token_threshold;
  double watermark, delay_factor;
  bool enable_chunked_prefill;
} config;

enum { MODE_RECOMPUTE, MODE_SWAP };
static const char *const modes[] = {"recompute", "swap", NULL};

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 256, NULL,
     "most requests running at once", "requests"},
    {"max_num_batched_tokens", DS_PARAM_INT, offsetof(config, max_num_batched_tokens), 1, 1 << 24, 16384, 16384, NULL,
     "prompt tokens of one iteration (chunked prefill: all tokens). vLLM's default is the larger of 2048 and the model length", "tokens"},
    {"watermark_blocks", DS_PARAM_INT, offsetof(config, watermark_blocks), -1, 1 << 30, -1, -1, NULL,
     "blocks that must stay free when a request is admitted or swapped in; -1: by watermark", "blocks"},
    {"watermark", DS_PARAM_FRAC, offsetof(config, watermark), 0, 1, 0.01, 0.01, NULL,
     "the same as a fraction of all blocks, rounded down", NULL},
    {"preemption_mode", DS_PARAM_CHOICE, offsetof(config, preemption_mode), 0, 0, MODE_RECOMPUTE, MODE_RECOMPUTE, modes,
     "what becomes of the KV of a preempted request", NULL},
    {"swap_time_per_block", DS_PARAM_TIME, offsetof(config, swap_block_ns), 0, 1e9, 0, 0, NULL,
     "time to move one block to or from host memory; 0: its bytes over the host link, nothing with linear cost", NULL},
    {"cpu_blocks", DS_PARAM_INT, offsetof(config, cpu_blocks), 0, 1 << 30, 0, 0, NULL,
     "blocks that host memory takes; 0: 4 GiB a device (vLLM's swap_space), no limit with linear cost", "blocks"},
    {"enable_chunked_prefill", DS_PARAM_BOOL, offsetof(config, enable_chunked_prefill), 0, 0, 0, 0, NULL,
     "one budget for decodes and chunks of prompts", NULL},
    {"max_num_partial_prefills", DS_PARAM_INT, offsetof(config, max_num_partial_prefills), 1, 1 << 20, 1, 1, NULL,
     "prompts in progress that share the budget evenly; above 1 only with enable_chunked_prefill", "requests"},
    {"max_long_partial_prefills", DS_PARAM_INT, offsetof(config, max_long_partial_prefills), 1, 1 << 20, 1, 1, NULL,
     "of those, at most so many long ones", "requests"},
    {"long_prefill_token_threshold", DS_PARAM_INT, offsetof(config, long_prefill_token_threshold), 0, 1 << 24, 0, 0, NULL,
     "a prompt with more tokens to go is long; 0: 4 % of max_model_len, where several share", "tokens"},
    {"delay_factor", DS_PARAM_FRAC, offsetof(config, delay_factor), 0, 1000, 0, 0, NULL,
     "admit prompts only when the oldest has waited so many times as long as the last prompts took, or nothing runs", NULL},
};

typedef struct state {
  int64_t planned_ns, last_prompt_ns; /* when the last plan was made; how long the last prompts took */
  bool prompts;                       /* the last plan was one of prompts */
  int64_t long_tokens;                /* more of them to go make a long prompt */
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  s->long_tokens = c->long_prefill_token_threshold;
  if (c->max_num_partial_prefills == 1) return DS_OK;
  if (!c->enable_chunked_prefill) {
    return ds_option_refused(err, "max_num_partial_prefills", c->max_num_partial_prefills,
                             "enable_chunked_prefill: true beside it, or ", 1);
  }
  if (c->max_num_partial_prefills > c->max_num_batched_tokens) {
    return ds_option_refused(err, "max_num_partial_prefills", c->max_num_partial_prefills,
                             "at most max_num_batched_tokens, which they share, ", c->max_num_batched_tokens);
  }
  if (c->max_long_partial_prefills > c->max_num_partial_prefills) {
    return ds_option_refused(err, "max_long_partial_prefills", c->max_long_partial_prefills,
                             "at most max_num_partial_prefills, which is ", c->max_num_partial_prefills);
  }
  if (s->long_tokens > 0) return DS_OK;
  s->long_tokens = run->pool.max_model_len / 25; /* int(0.04 x length) in vLLM */
  if (s->long_tokens > 0) return DS_OK;
  return ds_error_begin(err, DS_E_INPUT,
                        "scheduler_options.long_prefill_token_threshold: is 0, which stands for 4 % of max_model_len, expected a count, or max_model_len in the pool");
}

static int64_t watermark(const config *c, int64_t total_blocks) {
  if (c->watermark_blocks >= 0) return c->watermark_blocks;
  return total_blocks < (int64_t)1 << 52 ? (int64_t)((double)total_blocks * c->watermark) : 0;
}

/* A prompt that can never be admitted is ignored by vLLM; so is one that has grown too long for it by recompute. */
static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  (void)max_tokens;
  int64_t longest = (int64_t)prompt + output - 1, need = ds_div_up(longest, pool->kv_block_tokens);
  if (!c->enable_chunked_prefill && longest > c->max_num_batched_tokens) {
    ds_error_begin(err, DS_E_INPUT, "without chunked prefill a request of ");
    ds_error_int(err, longest);
    ds_error_text(err, " tokens (prompt and what a recompute adds) exceeds max_num_batched_tokens ");
    ds_error_int(err, c->max_num_batched_tokens);
    return DS_E_INPUT;
  }
  int64_t keep = watermark(c, total_blocks);
  if (c->enable_chunked_prefill && keep == 0) keep = 1; /* a prompt in progress that held them all would preempt itself for ever */
  if (pool->kv_blocks == DS_KV_UNLIMITED || need + keep <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "a request needs ");
  ds_error_int(err, need);
  ds_error_text(err, " KV blocks beside the ");
  ds_error_int(err, keep);
  ds_error_text(err, " that vllm-v0 wants free, more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

/* What is left while a plan is made. */
typedef struct left {
  int64_t tokens, blocks, running, watermark;
  int64_t share;       /* of the tokens, for one prompt at most */
  int64_t longs, most_longs, long_tokens; /* long prompts in progress, and how many there may be */
} left;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t remaining(const ds_sched_view *v, uint32_t slot) {
  return (int64_t)ds_view_known(v, slot) - ds_view_computed(v, slot);
}

static int64_t blocks_for(const ds_sched_view *v, uint32_t slot, int64_t tokens) {
  int64_t more = ds_div_up((int64_t)ds_view_computed(v, slot) + tokens, v->block_tokens) - ds_view_blocks(v, slot);
  return more > 0 ? more : 0;
}

static void give(ds_plan *out, left *b, uint32_t slot, int64_t tokens, int64_t blocks) {
  out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)tokens};
  b->tokens -= tokens;
  b->blocks -= blocks;
}

/* ---- the queue ---- */

static bool delay_passed(const config *c, state *s, const ds_sched_view *v) {
  if (s->prompts) s->last_prompt_ns = v->now_ns - s->planned_ns;
  if (!(c->delay_factor > 0.0) || v->queue_head == DS_SLOT_NONE) return true;
  int64_t oldest = v->now_ns;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    oldest = least(oldest, v->req[slot].arrival_ns);
  }
  return v->n_running == 0 || (double)(v->now_ns - oldest) > c->delay_factor * (double)s->last_prompt_ns;
}

static void serve_queue(const config *c, const ds_sched_view *v, ds_plan *out, left *b) {
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t known = ds_view_known(v, slot), need = ds_div_up(known, v->block_tokens), n = known;
    if (known > b->long_tokens && b->longs >= b->most_longs) { /* others may pass */
      out->blocked = DS_BLOCKED_OTHER;
      continue;
    }
    if (c->enable_chunked_prefill) n = least(n, least(b->tokens, b->share));
    /* KV last: the reason may not change while a plan is held and blocks are used up. */
    out->blocked = b->running >= c->max_num_seqs     ? DS_BLOCKED_SEQS
                   : n > b->tokens || n <= 0         ? DS_BLOCKED_OTHER
                   : b->blocks - need < b->watermark ? DS_BLOCKED_KV
                                                     : DS_BLOCKED_NO;
    if (out->blocked != DS_BLOCKED_NO) return;
    give(out, b, slot, n, need);
    out->grants[out->n_grants - 1].ahead_tokens = known;
    b->running++;
    b->longs += known > b->long_tokens;
  }
}

/* ---- running requests ---- */

/* Make one block free for order[at]; those not yet served end at order[*n]. False: it had to go itself. */
static bool make_room(const ds_sched_view *v, const uint32_t *order, uint32_t at, uint32_t *n, ds_plan *out, left *b) {
  while (b->blocks < 1) {
    uint32_t victim = order[--*n];
    b->blocks += ds_view_blocks(v, victim);
    out->preempt[out->n_preempt++] = victim;
    if (*n == at) return false;
  }
  return true;
}

static bool in_progress(const ds_sched_view *v, uint32_t slot) {
  return ds_view_emitted(v, slot) == 0 || remaining(v, slot) > 1;
}

/* Prompts come after decodes, those that this iteration completes before others. */
static void add_served(const ds_sched_view *v, ds_plan *out, uint32_t served, uint32_t grants) {
  for (int pass = 0; pass < 3; pass++) {
    uint32_t g = 0;
    for (uint32_t i = 0; i < served; i++) {
      uint32_t slot = out->spare[i];
      int rank = 0;
      if (v->req[slot].phase != DS_PHASE_DECODE) { /* each has its grant, in this order */
        int64_t n = g < grants ? out->grants[g++].tokens : 0;
        if (in_progress(v, slot)) rank = n == remaining(v, slot) ? 1 : 2;
      }
      if (rank == pass) out->order[out->n_order++] = slot;
    }
  }
}

/* The running list as vLLM leaves it: who got nothing, who was swapped in, decodes, prompts, who has just entered. The first
 * `served` of out->spare were served, with the first `grants` grants; n of it are left. */
static void order_running(const ds_sched_view *v, ds_plan *out, uint32_t served, uint32_t n, uint32_t grants) {
  for (uint32_t i = served; i < n; i++) out->order[out->n_order++] = out->spare[i];
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = grants; i < out->n_grants; i++) {
      uint32_t slot = out->grants[i].slot;
      if (v->req[slot].phase == DS_PHASE_SWAPPED && in_progress(v, slot) == (pass == 1)) out->order[out->n_order++] = slot;
    }
  }
  add_served(v, out, served, grants);
  for (uint32_t i = grants; i < out->n_grants; i++) {
    if (v->req[out->grants[i].slot].phase == DS_PHASE_WAITING) out->order[out->n_order++] = out->grants[i].slot;
  }
}

/* The running list, one after the other; *n of it are left in out->spare. Returns how many were served. */
static uint32_t serve_in_order(const config *c, const ds_sched_view *v, ds_plan *out, left *b, uint32_t *n) {
  uint32_t *order = out->spare, i = 0;
  *n = 0;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) order[(*n)++] = slot;
  for (; i < *n; i++) {
    uint32_t slot = order[i];
    int64_t tokens = remaining(v, slot);
    if (c->enable_chunked_prefill) tokens = least(tokens, least(b->tokens, b->share));
    if (tokens <= 0) break; /* the budget is spent */
    if (!make_room(v, order, i, n, out, b)) break;
    int64_t need = blocks_for(v, slot, tokens);
    if (v->req[slot].phase == DS_PHASE_DECODE) {
      out->decode[out->n_decode++] = slot;
      b->tokens--;
      b->blocks -= need;
    } else {
      give(out, b, slot, tokens, need);
    }
  }
  out->decode_all = out->n_decode == v->n_decoding;
  return i;
}

/* Blocks and tokens are plenty: everybody goes on, in whatever order. */
static bool serve_all(const config *c, const ds_sched_view *v, ds_plan *out, left *b) {
  if (b->blocks < (int64_t)v->n_decoding + v->n_prefilling) return false;
  left rest = *b;
  rest.tokens -= v->n_decoding;
  rest.blocks -= v->decode_blocks;
  if (c->enable_chunked_prefill && (rest.tokens < 0 || v->n_prefilling > 0)) return false; /* who comes first matters */
  for (uint32_t i = 0; i < v->n_prefilling; i++) { /* rows that waited for prompts: one token each */
    give(out, &rest, v->prefilling[i], 1, blocks_for(v, v->prefilling[i], 1));
  }
  *b = rest;
  out->decode_all = true;
  return true;
}

static void swap_in(const config *c, const ds_sched_view *v, ds_plan *out, left *b) {
  for (uint32_t slot = v->swapped_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t held = v->req[slot].blocks, n = remaining(v, slot);
    if (c->enable_chunked_prefill) n = least(n, b->tokens);
    if (b->blocks - (held + 1) < b->watermark || b->running >= c->max_num_seqs || n <= 0) return;
    give(out, b, slot, n, held + blocks_for(v, slot, n));
    b->running++;
  }
}

/* The share of a prompt, and the long ones among those that run. */
static void share_budget(const config *c, const state *s, const ds_sched_view *v, left *b) {
  int64_t prompts = 0, longs = 0;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i];
    if (!in_progress(v, slot)) continue;
    prompts++;
    longs += remaining(v, slot) > s->long_tokens;
  }
  b->longs = longs;
  b->most_longs = c->max_long_partial_prefills;
  b->long_tokens = s->long_tokens;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE && prompts < c->max_num_partial_prefills; slot = v->req[slot].next) {
    bool is_long = ds_view_known(v, slot) > s->long_tokens;
    if (is_long && longs >= c->max_long_partial_prefills) continue;
    longs += is_long;
    prompts++;
  }
  if (prompts > c->max_num_partial_prefills) prompts = c->max_num_partial_prefills;
  if (prompts > 0) b->share = c->max_num_batched_tokens / prompts;
}

static ds_status plan_chunked(const config *c, const ds_sched_view *v, const state *s, ds_plan *out, left *b) {
  if (c->max_num_partial_prefills > 1) share_budget(c, s, v, b);
  uint32_t n = 0, served = 0, grants = 0;
  bool all = serve_all(c, v, out, b);
  if (!all) served = serve_in_order(c, v, out, b, &n);
  grants = out->n_grants;
  b->running -= out->n_preempt;
  if (out->n_preempt == 0) swap_in(c, v, out, b);
  serve_queue(c, v, out, b); /* those that have just been preempted are not in it yet */
  if (all && grants < out->n_grants && v->req[out->grants[grants].slot].phase == DS_PHASE_SWAPPED) {
    for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) out->spare[n++] = slot;
    served = n; /* nobody's place changes, but that the swapped come first */
    all = false;
  }
  if (!all) order_running(v, out, served, n, grants);
  return DS_OK;
}

static ds_status plan_default(const config *c, state *s, const ds_sched_view *v, ds_plan *out, left *b) {
  bool may = delay_passed(c, s, v);
  if (v->n_swapped == 0 && may) serve_queue(c, v, out, b);
  else if (v->n_queue > 0) out->blocked = v->n_swapped > 0 ? DS_BLOCKED_KV : DS_BLOCKED_OTHER;
  s->prompts = out->n_grants > 0;
  s->planned_ns = v->now_ns;
  if (s->prompts) return DS_OK; /* prompts only; decode_all stays false, so every decode waits */
  b->tokens = v->n_running + v->n_swapped;
  uint32_t n;
  if (!serve_all(c, v, out, b)) serve_in_order(c, v, out, b, &n);
  if (out->n_preempt == 0) swap_in(c, v, out, b);
  return DS_OK;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  left b = {c->max_num_batched_tokens, v->free_blocks, v->n_running, watermark(c, v->total_blocks), INT64_MAX, 0, 1, INT64_MAX};
  out->swap_out = c->preemption_mode == MODE_SWAP;
  DS_TRY(c->enable_chunked_prefill ? plan_chunked(c, v, st, out, &b) : plan_default(c, st, v, out, &b));
  if (out->n_preempt > 0) out->blocked = DS_BLOCKED_KV;
  /* A queue that waits for blocks, seats or budget goes on waiting while the batch only decodes; one that waits for time
   * does not. */
  bool timed = c->delay_factor > 0.0 && v->n_queue > 0;
  out->hold = out->decode_all && out->n_grants == 0 && v->n_prefilling == 0 && !timed && v->free_blocks >= v->n_decoding;
  out->hold_steps = ds_decode_holds(v);
  return DS_OK;
}

static void swap(const void *cfg, int64_t *block_ns, int64_t *host_blocks) {
  *block_ns = ((const config *)cfg)->swap_block_ns;
  *host_blocks = ((const config *)cfg)->cpu_blocks;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }
static int64_t max_batch_tokens(const void *cfg) { return ((const config *)cfg)->max_num_batched_tokens; }

static const char *const versions[] = {
    "preemption_mode: recompute is V0's own choice for one sequence a request; swap is its preemption_mode=swap",
    "enable_chunked_prefill: false is V0's default, true its --enable-chunked-prefill",
    "max_num_partial_prefills: above 1 is V0 from 0.7.4 on; V1 refuses it",
    NULL,
};

extern const ds_sched_ops ds_sched_vllm_v0;
const ds_sched_ops ds_sched_vllm_v0 = {
    .name = "vllm-v0",
    .summary = "vLLM V0: whole prompts before decodes, preemption by recompute or swap",
    .reference = "vllm-project/vllm vllm/core/scheduler.py (V0)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .engine = "vllm",
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .reorders = true,
    .swap = swap,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
