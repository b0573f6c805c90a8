// SPDX-License-Identifier: Apache-2.0
/* vLLM V1: one token budget for everybody, running requests first, then the queue.
 *
 * Every request simply needs its known tokens less its computed ones: one for a decode, a chunk for a prompt. Running
 * requests are served in order of admission; when KV runs short the last running one is preempted by recompute and goes
 * to the front of the queue; a step that preempted admits nobody. The queue is served first come first served, and its
 * head blocks. With scheduling_policy: priority both go by the priority of requests, ties by arrival: the queue serves the
 * most important one first, and the least important running one is preempted, even if it was served already in this step. Source: vllm-project/vllm v1/core/sched/scheduler.py (schedule, _preempt_request),
 * v1/core/kv_cache_manager.py (allocate_slots), read in commits of 2026. Images: image_budget.h; a request that is preempted in the
 * step that granted it something does not give back what its images took of the encoder's budget. Options that changed between versions:
 * full_sequence_must_fit (false: before late 2026), watermark_blocks, long_prefill_token_threshold, prefix cache. */
#include "sched/image_budget.h"

#include "base/num.h"

typedef struct config {
  int64_t max_num_seqs, max_num_batched_tokens, long_prefill_token_threshold, watermark_blocks, scheduling_policy;
  bool enable_chunked_prefill, full_sequence_must_fit, async_scheduling;
} config;

enum { POLICY_FCFS, POLICY_PRIORITY };
static const char *const policies[] = {"fcfs", "priority", NULL};

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 1024, NULL,
     "most requests running at once", "requests"},
    {"max_num_batched_tokens", DS_PARAM_INT, offsetof(config, max_num_batched_tokens), 1, 1 << 24, 2048, 8192, NULL,
     "tokens of one iteration, prompt and decode together", "tokens"},
    {"enable_chunked_prefill", DS_PARAM_BOOL, offsetof(config, enable_chunked_prefill), 0, 0, 1, 1, NULL,
     "split prompts that exceed the budget over several iterations", NULL},
    {"long_prefill_token_threshold", DS_PARAM_INT, offsetof(config, long_prefill_token_threshold), 0, 1 << 24, 0, 0, NULL,
     "most prompt tokens of one request in one iteration; 0: no limit", "tokens"},
    {"full_sequence_must_fit", DS_PARAM_BOOL, offsetof(config, full_sequence_must_fit), 0, 0, 1, 1, NULL,
     "admit only when the whole known sequence fits in free KV (late 2026), not just its first chunk", NULL},
    {"watermark_blocks", DS_PARAM_INT, offsetof(config, watermark_blocks), 0, 1 << 30, 0, 0, NULL,
     "blocks that must stay free when a request is admitted beside others", "blocks"},
    {"scheduling_policy", DS_PARAM_CHOICE, offsetof(config, scheduling_policy), 0, 0, 0, 0, policies,
     "order of the queue: of arrival, or by the priority of each request (lower first), which also chooses the victim", NULL},
    {"async_scheduling", DS_PARAM_BOOL, offsetof(config, async_scheduling), 0, 0, 0, 0, NULL,
     "plan the next iteration while one runs: hides host time, sees an end one iteration late", NULL},
};

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  (void)pool, (void)total_blocks, (void)max_tokens;
  int64_t longest = (int64_t)prompt + output - 1; /* a recompute covers what was emitted, too */
  if (c->enable_chunked_prefill || longest <= c->max_num_batched_tokens) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "without chunked prefill a request of ");
  ds_error_int(err, longest);
  ds_error_text(err, " tokens (prompt and what a recompute adds) exceeds max_num_batched_tokens ");
  ds_error_int(err, c->max_num_batched_tokens);
  return DS_E_INPUT;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* What is left while a plan is made. */
typedef struct budget {
  int64_t tokens, blocks;
  ds_image_budget images;
} budget;

static int64_t wanted(const config *c, const ds_sched_view *v, uint32_t slot) {
  int64_t n = (int64_t)ds_view_known(v, slot) - ds_view_computed(v, slot);
  if (v->drafts > 0 && ds_view_decodes(&v->req[slot])) n += v->drafts;
  if (c->long_prefill_token_threshold > 0) n = least(n, c->long_prefill_token_threshold);
  return n;
}

/* The same within a budget of tokens, and of images. */
static int64_t allowed(const config *c, const ds_sched_view *v, uint32_t slot, int64_t tokens, ds_image_budget *images) {
  return ds_images_allow(v, slot, ds_view_computed(v, slot), least(wanted(c, v, slot), tokens), images);
}

static int64_t blocks_for(const ds_sched_view *v, uint32_t slot, int64_t tokens) {
  int64_t all = (int64_t)ds_view_computed(v, slot) + tokens + v->lookahead;
  int64_t more = (int64_t)ds_blocks_of((uint32_t)all, v->block_tokens) - ds_view_blocks(v, slot);
  return more > 0 ? more : 0; /* what rejected drafts took is kept */
}

/* A grant to a running request: its drafts are among the tokens, its lookahead is not. */
static ds_grant grant_of(const ds_sched_view *v, uint32_t slot, int64_t tokens) {
  ds_grant g = {.slot = slot, .tokens = (uint32_t)tokens};
  if (v->drafts > 0 && ds_view_decodes(&v->req[slot])) {
    g.tokens = 1;
    g.drafts = (uint32_t)tokens - 1;
  }
  if (v->lookahead > 0) g.ahead_tokens = (int64_t)ds_view_computed(v, slot) + tokens + v->lookahead;
  return g;
}

static void give(const ds_sched_view *v, ds_plan *out, budget *b, uint32_t slot, int64_t tokens, int64_t blocks) {
  out->grants[out->n_grants++] = grant_of(v, slot, tokens);
  b->tokens -= tokens;
  b->blocks -= blocks;
}

/* Everybody gets what they want, so the order of the running list does not matter. False: it may. */
static bool serve_all(const config *c, const ds_sched_view *v, ds_plan *out, budget *b) {
  int64_t tokens = b->tokens - v->n_decoding, blocks = b->blocks - v->decode_blocks;
  ds_image_budget images = b->images;
  if (tokens < 0 || blocks < 0) return false;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i];
    int64_t n = wanted(c, v, slot);
    bool last = slot == v->running_tail; /* nobody behind it could miss what it takes */
    if (last && n > tokens) n = tokens;
    if (n <= tokens) n = ds_images_allow(v, slot, ds_view_computed(v, slot), n, &images);
    int64_t need = n > 0 ? blocks_for(v, slot, n) : 0;
    if (n > tokens || need > blocks) {
      out->n_grants = 0;
      return false;
    }
    if (n == 0) continue;
    out->grants[out->n_grants++] = grant_of(v, slot, n);
    tokens -= n;
    blocks -= need;
  }
  *b = (budget){tokens, blocks, images};
  out->decode_all = true;
  return true;
}

/* Only KV is short and everybody decodes: the last ones leave until the rest fits. */
static bool shrink(const ds_sched_view *v, ds_plan *out, budget *b) {
  if (v->n_prefilling > 0 || v->n_decoding > b->tokens) return false;
  int64_t need = v->decode_blocks, blocks = b->blocks, n = v->n_decoding;
  for (uint32_t slot = v->running_tail; need > blocks; slot = v->req[slot].prev) {
    need -= blocks_for(v, slot, 1);
    blocks += ds_view_freed(v, slot, out);
    out->preempt[out->n_preempt++] = slot;
    n--;
  }
  b->tokens -= n;
  b->blocks = blocks - need;
  out->decode_all = true;
  return true;
}

/* The loop as the engine has it: one request after the other, in order of admission. */
static void serve_in_order(const config *c, const ds_sched_view *v, ds_plan *out, budget *b) {
  uint32_t tail = v->running_tail; /* last one not preempted */
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE && b->tokens > 0; slot = v->req[slot].next) {
    bool decodes = v->req[slot].phase == DS_PHASE_DECODE;
    ds_image_budget images = b->images;
    int64_t n = decodes ? 1 : allowed(c, v, slot, b->tokens, &images);
    int64_t need = blocks_for(v, slot, n);
    bool self = false;
    if (n == 0) { /* its next image must wait */
      if (slot == tail) break;
      continue;
    }
    while (need > b->blocks && !self) {
      self = tail == slot;
      b->blocks += ds_view_freed(v, tail, out);
      out->preempt[out->n_preempt++] = tail;
      tail = v->req[tail].prev;
    }
    if (self) break;
    if (decodes) {
      out->decode[out->n_decode++] = slot;
      b->tokens--;
      b->blocks -= need;
    } else {
      give(v, out, b, slot, n, need);
      b->images = images;
    }
    if (slot == tail) break;
  }
  out->decode_all = out->n_preempt == 0 && out->n_decode == v->n_decoding;
}

/* ---- by priority ---- */

static bool worse(const ds_req_view *a, const ds_req_view *b) { /* a goes before b does */
  if (a->priority != b->priority) return a->priority > b->priority;
  return a->arrival_ns != b->arrival_ns ? a->arrival_ns > b->arrival_ns : a->index > b->index;
}

static bool preempted(const ds_plan *p, uint32_t slot) {
  uint32_t i = 0;
  while (i < p->n_preempt && p->preempt[i] != slot) i++;
  return i < p->n_preempt;
}

/* The least important running request goes; what it was granted in this step comes back to the budget. */
static uint32_t preempt_worst(const ds_sched_view *v, ds_plan *out, budget *b) {
  uint32_t worst = DS_SLOT_NONE;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    if (!preempted(out, slot) && (worst == DS_SLOT_NONE || worse(&v->req[slot], &v->req[worst]))) worst = slot;
  }
  b->blocks += ds_view_freed(v, worst, out);
  out->preempt[out->n_preempt++] = worst;
  for (uint32_t i = 0; i < out->n_decode; i++) {
    if (out->decode[i] != worst) continue;
    b->tokens++;
    b->blocks += blocks_for(v, worst, 1);
    for (out->n_decode--; i < out->n_decode; i++) out->decode[i] = out->decode[i + 1];
  }
  for (uint32_t i = 0; i < out->n_grants; i++) {
    if (out->grants[i].slot != worst) continue;
    int64_t n = (int64_t)out->grants[i].tokens + out->grants[i].drafts;
    b->tokens += n;
    b->blocks += blocks_for(v, worst, n);
    for (out->n_grants--; i < out->n_grants; i++) out->grants[i] = out->grants[i + 1];
  }
  return worst;
}

static void serve_by_priority(const config *c, const ds_sched_view *v, ds_plan *out, budget *b) {
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE && b->tokens > 0; slot = v->req[slot].next) {
    if (preempted(out, slot)) continue;
    bool decodes = v->req[slot].phase == DS_PHASE_DECODE, self = false;
    ds_image_budget images = b->images;
    int64_t n = decodes ? 1 : allowed(c, v, slot, b->tokens, &images), need = blocks_for(v, slot, n);
    if (n == 0) continue;
    while (need > b->blocks && !self) self = preempt_worst(v, out, b) == slot;
    if (self) break;
    if (decodes) {
      out->decode[out->n_decode++] = slot;
      b->tokens--;
      b->blocks -= need;
    } else {
      give(v, out, b, slot, n, need);
      b->images = images;
    }
  }
  out->decode_all = out->n_preempt == 0 && out->n_decode == v->n_decoding;
}

static int64_t rank(const void *cfg, const ds_req_view *r) {
  (void)cfg;
  return r->priority;
}
static bool ranked(const void *cfg) { return ((const config *)cfg)->scheduling_policy == POLICY_PRIORITY; }

/* ---- the queue ---- */

typedef struct state {
  bool drops_last; /* a drafter that reads hidden states: use_eagle() of vLLM's SpeculativeConfig */
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  (void)err;
  s->drops_last = run->pool.speculative.method == DS_DRAFT_EAGLE || run->pool.speculative.method == DS_DRAFT_MTP;
  return DS_OK;
}

static void serve_queue(const config *c, const state *s, const ds_sched_view *v, ds_plan *out, budget *b) {
  int64_t running = v->n_running, hits = 0; /* blocks taken back so far */
  uint32_t slot = v->queue_head;
  for (; slot != DS_SLOT_NONE && b->tokens > 0 && running < c->max_num_seqs; slot = v->req[slot].next) {
    int64_t known = ds_view_known(v, slot);
    int64_t hit = 0, hit_blocks = 0, shared = 0; /* shared: of the hit, blocks that others hold */
    if (v->prefix_cache) {
      uint32_t held = 0;
      hit = v->cached_hit(v->engine, slot, out, v->free_blocks - b->blocks - hits, &held);
      /* Hidden states are not cached, so the last block of a hit is computed again (find_longest_cache_hit). */
      if (s->drops_last && hit > 0) hit -= v->block_tokens;
      hit_blocks = hit / v->block_tokens;
      shared = least(held / v->block_tokens, hit_blocks);
    }
    int64_t n = known - hit;
    if (c->long_prefill_token_threshold > 0) n = least(n, c->long_prefill_token_threshold);
    if (!c->enable_chunked_prefill && n > b->tokens) {
      out->blocked = DS_BLOCKED_OTHER;
      return;
    }
    ds_image_budget images = b->images;
    n = ds_images_allow(v, slot, hit, least(n, b->tokens), &images);
    if (n == 0) break; /* its image must wait, and who is behind it */
    /* Other blocks of a hit are free ones: taking them back costs as much as new ones. */
    int64_t need = (int64_t)ds_blocks_of((uint32_t)(hit + n), v->block_tokens) - shared;
    int64_t test = c->full_sequence_must_fit ? (int64_t)ds_blocks_of((uint32_t)known, v->block_tokens) - shared : need;
    int64_t keep = running > 0 ? c->watermark_blocks : 0;
    if (test + keep > b->blocks) {
      out->blocked = DS_BLOCKED_KV;
      return;
    }
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)n, .cached_tokens = (uint32_t)hit};
    b->tokens -= n;
    b->blocks -= need;
    b->images = images;
    hits += hit_blocks - shared;
    running++;
  }
  if (slot != DS_SLOT_NONE) out->blocked = running >= c->max_num_seqs ? DS_BLOCKED_SEQS : DS_BLOCKED_OTHER;
}

static DS_APART ds_status plan_in_full(const state *s, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  budget b = {c->max_num_batched_tokens, v->free_blocks, {v->encoder_budget, v->encoder_room}};
  if (!serve_all(c, v, out, &b)) {
    if (ranked(c)) serve_by_priority(c, v, out, &b);
    else if (!shrink(v, out, &b)) serve_in_order(c, v, out, &b);
  }
  if (out->n_preempt > 0) {
    out->blocked = DS_BLOCKED_KV;
    return DS_OK;
  }
  if (v->n_queue > 0) serve_queue(c, s, v, out, &b);
  /* Whatever blocks the queue (KV, seats, budget) goes on blocking it while the batch only decodes. */
  out->hold = out->decode_all && out->n_grants == 0 && v->n_prefilling == 0;
  out->hold_past_arrival = out->blocked != DS_BLOCKED_NO && !ranked(c);
  return DS_OK;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  if (v->n_queue == 0 && v->n_prefilling == 0 && v->n_decoding <= c->max_num_batched_tokens && v->decode_blocks <= v->free_blocks) {
    out->decode_all = out->hold = out->hold_past_finish = true; /* by far the usual case */
    return DS_OK;
  }
  return plan_in_full(st, v, out);
}

static bool overlaps(const void *cfg) { return ((const config *)cfg)->async_scheduling; }
static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }
static int64_t max_batch_tokens(const void *cfg) { return ((const config *)cfg)->max_num_batched_tokens; }

static const char *const versions[] = {
    "full_sequence_must_fit: true is vLLM of late 2026 (scheduler_reserve_full_isl); false the versions before, which tested the first chunk only",
    "watermark_blocks: 0 is every version unless told otherwise; late-2026 vLLM has a watermark option",
    "async_scheduling: true is the default of recent vLLM; false that of 2025",
    NULL,
};

extern const ds_sched_ops ds_sched_vllm_v1;
const ds_sched_ops ds_sched_vllm_v1 = {
    .name = "vllm-v1",
    .summary = "vLLM V1: one token budget, running first, chunked prefill, preemption by recompute",
    .reference = "vllm-project/vllm v1/core/sched/scheduler.py (2026)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .engine = "vllm",
    .speculates = true,
    .finds_prefixes = true,
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .overlaps = overlaps,
    .rank = rank,
    .ranked = ranked,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
