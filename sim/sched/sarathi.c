// SPDX-License-Identifier: Apache-2.0
/* Sarathi-Serve: stall-free batching with chunked prefills.
 *
 * Decodes go first, all of them, and count against the token budget of the iteration (chunk_size); then the prompts in
 * progress, then new ones, take what is left of it. Running requests are served in order of arrival. A decode needs a
 * free KV block whether or not its last one has room: while there is none, the running request that arrived last among
 * those not yet served is preempted (recompute), or the decode itself. A new request must get the blocks of its whole
 * prompt, with 1 % of all blocks left free; after a preemption nobody enters in that step.
 * Source: microsoft/sarathi-serve sarathi/core/scheduler/sarathi_scheduler.py (_schedule) and
 * core/block_space_manager/sarathi_block_space_manager.py @96f9911790ec; Agrawal et al. (OSDI 2024).
 *
 * With enable_dynamic_chunking_schedule (off there, too, unless asked for) the limit of an iteration is another for each
 * prompt: it falls with what that prompt has computed, from high_chunk_size to low_chunk_size in chunk_schedule_stages
 * even steps, of chunk_schedule_max_tokens prompt tokens in all; each step is rounded to a multiple of 32 (a half to the
 * even one), or of low_chunk_size where that is less. A longer prompt is refused, as it ends that engine. */
#include "engine/sched.h"

#include "base/num.h"
#include "sched/decode_holds.h"

#define STAGES_MAX 64

typedef struct config {
  int64_t chunk_size, max_num_seqs, watermark_blocks, low_chunk_size, high_chunk_size, stages, schedule_tokens;
  bool dynamic;
} config;

static const ds_param params[] = {
    {"chunk_size", DS_PARAM_INT, offsetof(config, chunk_size), 1, 1 << 24, 512, 512, NULL,
     "tokens of one iteration, decodes included; decodes are never held back by it", "tokens"},
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 128, 128, NULL,
     "most requests running at once", "requests"},
    {"watermark_blocks", DS_PARAM_INT, offsetof(config, watermark_blocks), -1, 1 << 30, -1, -1, NULL,
     "blocks that must stay free when a request is admitted; -1: 1 % of all, rounded down", "blocks"},
    {"enable_dynamic_chunking_schedule", DS_PARAM_BOOL, offsetof(config, dynamic), 0, 0, 0, 0, NULL,
     "the limit falls as a prompt goes on, instead of chunk_size", NULL},
    {"low_chunk_size", DS_PARAM_INT, offsetof(config, low_chunk_size), 1, 1 << 20, 128, 128, NULL,
     "limit at the end of the schedule (sarathi-serve has no default, for the next three neither)", "tokens"},
    {"high_chunk_size", DS_PARAM_INT, offsetof(config, high_chunk_size), 1, 1 << 20, 1024, 1024, NULL,
     "limit at its start", "tokens"},
    {"chunk_schedule_stages", DS_PARAM_INT, offsetof(config, stages), 1, STAGES_MAX, 8, 8, NULL, "steps of it", "steps"},
    {"chunk_schedule_max_tokens", DS_PARAM_INT, offsetof(config, schedule_tokens), 1, 1 << 24, 131072, 131072, NULL,
     "prompt tokens of all its steps, and the longest prompt", "tokens"},
};

typedef struct state {
  int64_t size[STAGES_MAX], stage_tokens; /* the limit of each step; prompt tokens of one */
} state;

/* x / unit to the nearest whole number, a half to the even one, times unit. */
static int64_t round_to(int64_t x, int64_t unit) {
  int64_t n = x / unit, twice = 2 * (x % unit);
  return (twice > unit || (twice == unit && n % 2 != 0) ? n + 1 : n) * unit;
}

static int64_t unit_of(const config *c) { return c->low_chunk_size < 32 ? c->low_chunk_size : 32; }

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  if (!c->dynamic) return DS_OK;
  if (c->low_chunk_size > c->high_chunk_size) {
    return ds_option_refused(err, "low_chunk_size", c->low_chunk_size, "at most high_chunk_size, which is ", c->high_chunk_size);
  }
  int64_t unit = unit_of(c), last = c->stages - 1;
  for (int64_t i = 0; i <= last; i++) { /* whole numbers, as they are before they are rounded; one step alone is the low one */
    int64_t above = last > 0 ? (c->high_chunk_size - c->low_chunk_size) * (last - i) / last : 0;
    s->size[i] = round_to(c->low_chunk_size + above, unit);
  }
  s->stage_tokens = ds_div_up(c->schedule_tokens, c->stages);
  return DS_OK;
}

/* Tokens of the iteration that this prompt may fill up, having computed so many. */
static int64_t limit_of(const config *c, const state *s, int64_t computed) {
  return c->dynamic ? s->size[computed / s->stage_tokens] : c->chunk_size;
}

static int64_t watermark(const config *c, int64_t total_blocks) {
  return c->watermark_blocks >= 0 ? c->watermark_blocks : total_blocks / 100;
}

/* A request that is admitted again covers what it has emitted, too. */
static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  (void)max_tokens;
  int64_t longest = (int64_t)prompt + output - 1;
  if (c->dynamic && longest > ds_div_up(c->schedule_tokens, c->stages) * c->stages) {
    ds_error_begin(err, DS_E_INPUT, "a request of ");
    ds_error_int(err, longest);
    ds_error_text(err, " tokens (prompt and what a recompute adds) is beyond chunk_schedule_max_tokens ");
    ds_error_int(err, c->schedule_tokens);
    return DS_E_INPUT;
  }
  if (pool->kv_blocks == DS_KV_UNLIMITED) return DS_OK;
  int64_t need = ds_div_up((int64_t)prompt + output - 1, pool->kv_block_tokens), keep = watermark(cfg, total_blocks);
  if (need + keep <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "a request needs ");
  ds_error_int(err, need);
  ds_error_text(err, " KV blocks beside the ");
  ds_error_int(err, keep);
  ds_error_text(err, " that sarathi keeps free, more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

static bool earlier(const ds_req_view *a, const ds_req_view *b) {
  return a->arrival_ns != b->arrival_ns ? a->arrival_ns < b->arrival_ns : a->index < b->index;
}

/* The running requests in order of arrival, into out->decode; admission is nearly that already. */
static uint32_t sort_running(const ds_sched_view *v, uint32_t *order) {
  uint32_t n = 0;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    uint32_t i = n++;
    for (; i > 0 && earlier(&v->req[slot], &v->req[order[i - 1]]); i--) order[i] = order[i - 1];
    order[i] = slot;
  }
  return n;
}

static int64_t block_for_token(const ds_sched_view *v, uint32_t slot) {
  return ds_view_computed(v, slot) % v->block_tokens == 0;
}

typedef struct left {
  int64_t used, blocks; /* tokens of the iteration that are given; free blocks */
} left;

/* Decodes, one after the other; prompts in progress are gathered as grants of no tokens yet. */
static void serve_decodes(const ds_sched_view *v, ds_plan *out, left *b) {
  const uint32_t *order = out->decode; /* room to sort in: whoever is not preempted decodes */
  uint32_t n = sort_running(v, out->decode);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t slot = order[i];
    if (v->req[slot].phase == DS_PHASE_PREFILL) {
      out->grants[out->n_grants++] = (ds_grant){.slot = slot};
      continue;
    }
    bool self = false;
    while (b->blocks < 1 && !self) {
      self = n == i + 1;
      uint32_t victim = order[--n];
      b->blocks += ds_view_blocks(v, victim);
      out->preempt[out->n_preempt++] = victim;
    }
    if (self) break;
    b->blocks -= block_for_token(v, slot);
    b->used++;
  }
}

/* The same when blocks are plenty: the order decides nothing. */
static void serve_all_decodes(const ds_sched_view *v, ds_plan *out, left *b) {
  b->used += v->n_decoding;
  b->blocks -= v->decode_blocks;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i], k = out->n_grants++;
    for (; k > 0 && earlier(&v->req[slot], &v->req[out->grants[k - 1].slot]); k--) out->grants[k] = out->grants[k - 1];
    out->grants[k] = (ds_grant){.slot = slot};
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void serve_prompts(const config *c, const state *s, const ds_sched_view *v, ds_plan *out, left *b) {
  uint32_t n = out->n_grants;
  out->n_grants = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t slot = out->grants[i].slot;
    int64_t computed = ds_view_computed(v, slot);
    int64_t tokens = least(ds_view_known(v, slot) - computed, limit_of(c, s, computed) - b->used);
    if (tokens <= 0) continue;
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)tokens};
    b->used += tokens;
  }
}

static void serve_queue(const config *c, const state *s, const ds_sched_view *v, ds_plan *out, left *b) {
  int64_t most = limit_of(c, s, 0);
  int64_t running = v->n_running, keep = watermark(c, v->total_blocks);
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t known = ds_view_known(v, slot), need = ds_div_up(known, v->block_tokens);
    /* KV last: the reason may not change while a plan is held and blocks are used up. */
    out->blocked = running >= c->max_num_seqs     ? DS_BLOCKED_SEQS
                   : b->used >= most              ? DS_BLOCKED_OTHER
                   : b->blocks - need < keep      ? DS_BLOCKED_KV
                                                  : DS_BLOCKED_NO;
    if (out->blocked != DS_BLOCKED_NO) return;
    int64_t tokens = least(known, most - b->used);
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)tokens, .ahead_tokens = known};
    b->used += tokens;
    b->blocks -= need;
    running++;
  }
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  const state *s = st;
  left b = {0, v->free_blocks};
  bool plenty = v->free_blocks >= v->n_decoding;
  out->decode_all = true;
  if (plenty) serve_all_decodes(v, out, &b);
  else serve_decodes(v, out, &b);
  serve_prompts(c, s, v, out, &b);
  if (out->n_preempt > 0) out->blocked = DS_BLOCKED_KV;
  else serve_queue(c, s, v, out, &b);
  out->hold = plenty && v->n_prefilling == 0 && out->n_grants == 0;
  out->hold_steps = ds_decode_holds(v);
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }
static int64_t max_batch_tokens(const void *cfg) {
  const config *c = cfg;
  return c->dynamic ? round_to(c->high_chunk_size, unit_of(c)) : c->chunk_size; /* its first step: no other is larger */
}

static const char *const versions[] = {
    "enable_dynamic_chunking_schedule: false is sarathi-serve unless it is asked for, and the OSDI 2024 paper",
    NULL,
};

extern const ds_sched_ops ds_sched_sarathi;
const ds_sched_ops ds_sched_sarathi = {
    .name = "sarathi",
    .summary = "Sarathi-Serve: decodes first, prompts in chunks of what the budget leaves",
    .reference = "microsoft/sarathi-serve core/scheduler/sarathi_scheduler.py; Agrawal et al. (OSDI 2024)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .init = init,
    .engine = "vllm",
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
