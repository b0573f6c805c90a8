// SPDX-License-Identifier: Apache-2.0
/* Sarathi-Serve: stall-free batching with chunked prefills.
 *
 * Decodes go first, all of them, and count against the token budget of the iteration (chunk_size); then the prompts in
 * progress, then new ones, take what is left of it. Running requests are served in order of arrival. A decode needs a
 * free KV block whether or not its last one has room: while there is none, the running request that arrived last among
 * those not yet served is preempted (recompute), or the decode itself. A new request must get the blocks of its whole
 * prompt, with 1 % of all blocks left free; after a preemption nobody enters in that step.
 * Source: microsoft/sarathi-serve sarathi/core/scheduler/sarathi_scheduler.py (_schedule) and
 * core/block_space_manager/sarathi_block_space_manager.py @96f9911790ec; Agrawal et al. (OSDI 2024). The dynamic chunk
 * schedule of that file (off there, too, unless asked for) is not modelled. */
#include "engine/sched.h"

#include "base/num.h"
#include "sched/decode_holds.h"

typedef struct config {
  int64_t chunk_size, max_num_seqs, watermark_blocks;
} config;

static const ds_param params[] = {
    {"chunk_size", DS_PARAM_INT, offsetof(config, chunk_size), 1, 1 << 24, 512, 512, NULL,
     "tokens of one iteration, decodes included; decodes are never held back by it", "tokens"},
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 128, 128, NULL,
     "most requests running at once", "requests"},
    {"watermark_blocks", DS_PARAM_INT, offsetof(config, watermark_blocks), -1, 1 << 30, -1, -1, NULL,
     "blocks that must stay free when a request is admitted; -1: 1 % of all, rounded down", "blocks"},
};

static int64_t watermark(const config *c, int64_t total_blocks) {
  return c->watermark_blocks >= 0 ? c->watermark_blocks : total_blocks / 100;
}

/* A request that is admitted again covers what it has emitted, too. */
static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)max_tokens;
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
  int64_t tokens, blocks;
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
    b->tokens--;
  }
}

/* The same when blocks are plenty: the order decides nothing. */
static void serve_all_decodes(const ds_sched_view *v, ds_plan *out, left *b) {
  b->tokens -= v->n_decoding;
  b->blocks -= v->decode_blocks;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i], k = out->n_grants++;
    for (; k > 0 && earlier(&v->req[slot], &v->req[out->grants[k - 1].slot]); k--) out->grants[k] = out->grants[k - 1];
    out->grants[k] = (ds_grant){.slot = slot};
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void serve_prompts(const ds_sched_view *v, ds_plan *out, left *b) {
  uint32_t n = out->n_grants;
  out->n_grants = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t slot = out->grants[i].slot;
    int64_t tokens = least((int64_t)ds_view_known(v, slot) - ds_view_computed(v, slot), b->tokens);
    if (tokens <= 0) continue;
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)tokens};
    b->tokens -= tokens;
  }
}

static void serve_queue(const config *c, const ds_sched_view *v, ds_plan *out, left *b) {
  int64_t running = v->n_running, keep = watermark(c, v->total_blocks);
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t known = ds_view_known(v, slot), need = ds_div_up(known, v->block_tokens);
    /* KV last: the reason may not change while a plan is held and blocks are used up. */
    out->blocked = running >= c->max_num_seqs     ? DS_BLOCKED_SEQS
                   : b->tokens <= 0               ? DS_BLOCKED_OTHER
                   : b->blocks - need < keep      ? DS_BLOCKED_KV
                                                  : DS_BLOCKED_NO;
    if (out->blocked != DS_BLOCKED_NO) return;
    int64_t tokens = least(known, b->tokens);
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)tokens, .ahead_tokens = known};
    b->tokens -= tokens;
    b->blocks -= need;
    running++;
  }
}

static ds_status plan(void *state, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  left b = {c->chunk_size, v->free_blocks};
  (void)state;
  bool plenty = v->free_blocks >= v->n_decoding;
  out->decode_all = true;
  if (plenty) serve_all_decodes(v, out, &b);
  else serve_decodes(v, out, &b);
  serve_prompts(v, out, &b);
  if (out->n_preempt > 0) out->blocked = DS_BLOCKED_KV;
  else serve_queue(c, v, out, &b);
  out->hold = plenty && v->n_prefilling == 0 && out->n_grants == 0;
  out->hold_steps = ds_decode_holds(v);
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }
static int64_t max_batch_tokens(const void *cfg) { return ((const config *)cfg)->chunk_size; }

extern const ds_sched_ops ds_sched_sarathi;
const ds_sched_ops ds_sched_sarathi = {
    .name = "sarathi",
    .summary = "Sarathi-Serve: decodes first, prompts in chunks of what the budget leaves",
    .reference = "microsoft/sarathi-serve core/scheduler/sarathi_scheduler.py; Agrawal et al. (OSDI 2024)",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .engine = "vllm",
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
