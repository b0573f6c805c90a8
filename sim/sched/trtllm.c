// SPDX-License-Identifier: Apache-2.0
/* TensorRT-LLM in-flight batching: first who may hold KV, then whose tokens run.
 *
 * The capacity pass walks the requests in order. guaranteed-no-evict admits one only when its prompt and its whole
 * output cap fit beside what the others may still write, so nobody is ever paused; static does the same, but only when
 * nothing is in progress; max-utilization looks one iteration ahead, and when a running request does not fit it pauses
 * the one that started last, which begins again later. The micro-batch pass then takes generating requests first, and
 * fills max_num_tokens with prompts: first come first served (a chunk that was cut is a multiple of chunk_unit) or one
 * unit each in turn (equal-progress). KV for a whole prompt is taken with its first chunk. With block reuse a waiting request
 * whose first new block somebody computes already, or was chosen to, is passed over (not by static): it will find it.
 * With batch waiting (off unless asked for) the prompts so chosen are held back while others generate, until the iteration
 * would be full enough or so many iterations went by without them. What counts is whole prompts, not their chunks.
 * Source: NVIDIA/TensorRT-LLM batch_manager/capacityScheduler.cpp, microBatchScheduler.cpp, in snapshots of 2025;
 * _torch/pyexecutor/py_executor.py, _waiting_requests, of 2025-10. */
#include "engine/sched.h"

#include "base/num.h"

typedef struct config {
  int64_t capacity_policy, max_batch_size, max_num_tokens, chunk_unit, chunking, batch_wait_iters;
  double batch_wait_ratio;
  bool enable_chunked_context;
} config;

enum { NO_EVICT, MAX_UTILIZATION, STATIC_BATCH };
enum { FIRST_COME, EQUAL_PROGRESS };
static const char *const capacities[] = {"guaranteed-no-evict", "max-utilization", "static", NULL};
static const char *const chunkings[] = {"fcfs", "equal-progress", NULL};

static const ds_param params[] = {
    {"capacity_policy", DS_PARAM_CHOICE, offsetof(config, capacity_policy), 0, 0, NO_EVICT, NO_EVICT, capacities,
     "who may hold KV: room to the end of each, room for the next iteration, or one batch at a time", NULL},
    {"max_batch_size", DS_PARAM_INT, offsetof(config, max_batch_size), 1, 1 << 20, 2048, 2048, NULL,
     "most requests in progress", "requests"},
    {"max_num_tokens", DS_PARAM_INT, offsetof(config, max_num_tokens), 1, 1 << 24, 8192, 8192, NULL,
     "tokens of one iteration, generation and context together", "tokens"},
    {"enable_chunked_context", DS_PARAM_BOOL, offsetof(config, enable_chunked_context), 0, 0, 1, 1, NULL,
     "split prompts over iterations; false: each must fit whole", NULL},
    {"chunk_unit", DS_PARAM_INT, offsetof(config, chunk_unit), 0, 1 << 20, 0, 0, NULL,
     "a chunk that was cut is a multiple of so many tokens; 0: kv_block_tokens", "tokens"},
    {"chunking", DS_PARAM_CHOICE, offsetof(config, chunking), 0, 0, FIRST_COME, FIRST_COME, chunkings,
     "who gets the tokens left for prompts", NULL},
    {"batch_wait_timeout_iters", DS_PARAM_INT, offsetof(config, batch_wait_iters), 0, 1 << 20, 0, 0, NULL,
     "hold prompts back, while others generate, for at most so many iterations", "iterations"},
    {"batch_wait_max_tokens_ratio", DS_PARAM_FRAC, offsetof(config, batch_wait_ratio), 0, 1, 0, 0, NULL,
     "held back no longer when the iteration would have this share of max_num_tokens", NULL},
};

typedef struct state {
  int64_t promised; /* blocks to completion of everybody admitted; not kept with max-utilization */
  int64_t block_tokens;
  int64_t ahead; /* drafts and lookahead of a request */
  bool keeps; /* promises */
  bool waits; /* the last plan held prompts back */
  int64_t waited; /* iterations without them */
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  s->block_tokens = run->pool.kv_block_tokens;
  s->ahead = run->pool.speculative.tokens + run->pool.speculative.lookahead;
  s->keeps = c->capacity_policy != MAX_UTILIZATION;
  int64_t unit = c->chunk_unit > 0 ? c->chunk_unit : s->block_tokens;
  if (c->enable_chunked_context && unit > c->max_num_tokens) {
    return ds_option_refused(err, "max_num_tokens", c->max_num_tokens, "at least a chunk (chunk_unit, or kv_block_tokens), which is ", unit);
  }
  if (run->pool.speculative.method != DS_DRAFT_NONE && c->max_num_tokens <= run->pool.speculative.tokens) {
    return ds_option_refused(err, "max_num_tokens", c->max_num_tokens, "more than speculative.tokens, which is ", run->pool.speculative.tokens);
  }
  return DS_OK;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  bool pauses = c->capacity_policy == MAX_UTILIZATION; /* who is paused computes what it wrote again, as a prompt */
  int64_t cap = max_tokens > output ? max_tokens : output, longest = (int64_t)prompt + (pauses ? output - 1 : 0);
  if (!c->enable_chunked_context && longest > c->max_num_tokens) {
    ds_error_begin(err, DS_E_INPUT, "without chunked context a request of ");
    ds_error_int(err, longest);
    ds_error_text(err, pauses ? " tokens (prompt and what a pause adds) exceeds max_num_tokens " : " prompt tokens exceeds max_num_tokens ");
    ds_error_int(err, c->max_num_tokens);
    return DS_E_INPUT;
  }
  if (pool->kv_blocks == DS_KV_UNLIMITED || c->capacity_policy == MAX_UTILIZATION) return DS_OK;
  int64_t ahead = pool->speculative.tokens + pool->speculative.lookahead;
  int64_t blocks = ds_div_up(prompt + cap + ahead, pool->kv_block_tokens);
  if (blocks <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "TensorRT-LLM promises ");
  ds_error_int(err, blocks);
  ds_error_text(err, " KV blocks to a request (prompt and output cap), more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

static int64_t to_completion(const state *s, const ds_req_view *r) {
  return ds_div_up((int64_t)r->prompt_tokens + r->max_tokens + s->ahead, s->block_tokens);
}

static int64_t next_blocks(const ds_sched_view *v, uint32_t slot) {
  const ds_req_view *r = &v->req[slot];
  if (!ds_view_decodes(r)) return 0; /* its prompt's blocks are all there */
  int64_t all = (int64_t)ds_view_computed(v, slot) + 1 + v->drafts + v->lookahead;
  int64_t more = ds_div_up(all, v->block_tokens) - ds_view_blocks(v, slot);
  return more > 0 ? more : 0; /* what rejected drafts took is kept */
}

typedef struct room {
  int64_t blocks, tokens;
  uint32_t last; /* running request behind which nobody goes on */
} room;

/* Pause from the end until everybody who is left has room for the next iteration. */
static void pause_some(const ds_sched_view *v, ds_plan *out, room *m) {
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t need = next_blocks(v, slot);
    bool self = false;
    while (need > m->blocks && !self) {
      self = m->last == slot;
      m->blocks += ds_view_freed(v, m->last, out);
      out->preempt[out->n_preempt++] = m->last;
      m->last = v->req[m->last].prev;
    }
    if (self) return;
    m->blocks -= need;
    if (slot == m->last) return;
  }
}

/* Generating requests, one token each, while the budget lasts. */
static void take_generating(const ds_sched_view *v, ds_plan *out, room *m) {
  if (m->last == DS_SLOT_NONE) return;
  for (uint32_t slot = v->running_head;; slot = v->req[slot].next) {
    if (ds_view_decodes(&v->req[slot])) {
      if (m->tokens < 1 + (int64_t)v->drafts) break;
      m->tokens -= 1 + (int64_t)v->drafts;
      ds_grant g = {.slot = slot, .tokens = 1, .drafts = v->drafts};
      if (v->lookahead > 0) g.ahead_tokens = (int64_t)ds_view_computed(v, slot) + 1 + v->drafts + v->lookahead;
      if (v->req[slot].phase == DS_PHASE_DECODE) out->decode[out->n_decode++] = slot;
      else out->grants[out->n_grants++] = g;
    }
    if (slot == m->last) break;
  }
  out->decode_all = out->n_preempt == 0 && out->n_decode == v->n_decoding;
}

/* Is the first block that this waiting request would have to compute the next one of somebody before it? */
static bool worth_waiting(const ds_sched_view *v, const ds_plan *out, uint32_t slot, int64_t hit) {
  for (uint32_t i = 0; i < out->n_grants; i++) {
    const ds_grant *g = &out->grants[i];
    const ds_req_view *r = &v->req[g->slot];
    if (ds_view_decodes(r)) continue;
    int64_t done = r->phase == DS_PHASE_WAITING ? g->cached_tokens : r->computed / v->block_tokens * v->block_tokens;
    if (done == hit && (int64_t)v->common_tokens(v->engine, slot, g->slot) > hit) return true;
  }
  return false;
}

/* Candidates for context tokens, with none yet: those that began, then those of the queue that capacity admits. */
static void add_contexts(const state *s, const config *c, const ds_sched_view *v, ds_plan *out, room *m) {
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i];
    bool paused = false;
    for (uint32_t k = 0; k < out->n_preempt && !paused; k++) paused = out->preempt[k] == slot;
    if (!paused && !ds_view_decodes(&v->req[slot])) out->grants[out->n_grants++] = (ds_grant){.slot = slot};
  }
  if (out->n_preempt > 0) {
    out->blocked = DS_BLOCKED_KV;
    return;
  }
  if (c->capacity_policy == STATIC_BATCH && v->n_running > 0) {
    out->blocked = v->n_queue > 0 ? DS_BLOCKED_OTHER : DS_BLOCKED_NO;
    return;
  }
  bool unlimited = v->total_blocks == DS_KV_UNLIMITED;
  int64_t running = v->n_running, promised = s->promised, taken = v->free_blocks - m->blocks; /* by those who generate */
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    int64_t known = ds_view_known(v, slot), hit = 0, now = ds_div_up(known, v->block_tokens);
    uint32_t held = 0; /* cached tokens in blocks that others hold: those cost nothing now */
    if (v->prefix_cache) hit = v->cached_hit(v->engine, slot, out, taken, &held);
    if (v->prefix_cache && c->capacity_policy != STATIC_BATCH && worth_waiting(v, out, slot, hit)) {
      out->blocked = DS_BLOCKED_OTHER;
      continue;
    }
    if (running >= c->max_batch_size) {
      out->blocked = DS_BLOCKED_SEQS;
      return;
    }
    int64_t need = now - held / v->block_tokens;
    int64_t whole = to_completion(s, &v->req[slot]);
    bool fits = c->capacity_policy == MAX_UTILIZATION ? need <= m->blocks : promised + whole <= v->total_blocks;
    if (!unlimited && !fits) {
      out->blocked = DS_BLOCKED_KV;
      return;
    }
    m->blocks -= unlimited ? 0 : need;
    promised += whole;
    taken += now - hit / v->block_tokens;
    running++;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .cached_tokens = (uint32_t)hit, .ahead_tokens = known};
    if (m->tokens < 1) break; /* nobody behind it can get any either */
  }
}

static int64_t left_of(const ds_sched_view *v, const ds_grant *g) {
  const ds_req_view *r = &v->req[g->slot];
  int64_t done = r->phase == DS_PHASE_WAITING ? g->cached_tokens : r->computed;
  return (int64_t)ds_view_known(v, g->slot) - done;
}

static void share_first_come(const config *c, const ds_sched_view *v, ds_plan *out, uint32_t from, int64_t unit, int64_t tokens) {
  for (uint32_t i = from; i < out->n_grants; i++) {
    int64_t left = left_of(v, &out->grants[i]), n = left < tokens ? left : tokens;
    if (n < left) n = c->enable_chunked_context ? n / unit * unit : 0;
    if (n == 0) return;
    out->grants[i].tokens = (uint32_t)n;
    tokens -= n;
  }
}

/* A unit each in turn, as long as the sum fits. */
static void share_equally(const ds_sched_view *v, ds_plan *out, uint32_t from, int64_t unit, int64_t tokens) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = from; i < out->n_grants; i++) {
      ds_grant *g = &out->grants[i];
      int64_t left = left_of(v, g) - g->tokens, n = left < unit ? left : unit;
      if (n < 1 || n > tokens) continue;
      g->tokens += (uint32_t)n;
      tokens -= n;
      more = true;
    }
  }
}

/* Are the prompts that were chosen held back? Without anybody who generates there is nothing to wait for. */
static bool hold_back(state *s, const config *c, const ds_sched_view *v, const ds_plan *out, uint32_t from) {
  int64_t contexts = 0, generating = out->n_decode, tokens;
  for (uint32_t i = 0; i < from; i++) generating += 1 + (int64_t)out->grants[i].drafts;
  tokens = generating;
  for (uint32_t i = from; i < out->n_grants; i++) {
    if (out->grants[i].tokens == 0) continue;
    contexts++;
    tokens += (int64_t)ds_view_known(v, out->grants[i].slot) - out->grants[i].cached_tokens;
  }
  if (contexts == 0 || generating == 0) return false;
  if (s->waited < c->batch_wait_iters && (double)tokens < c->batch_wait_ratio * (double)c->max_num_tokens) return true;
  s->waited = 0;
  return false;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  state *s = st;
  const config *c = v->config;
  if (s->waits) s->waited += (int64_t)v->steps;
  s->waits = false;
  if (v->n_queue == 0 && v->n_prefilling == 0 && v->n_decoding <= c->max_num_tokens && v->decode_blocks <= v->free_blocks) {
    out->decode_all = out->hold = true;
    return DS_OK;
  }
  room m = {v->free_blocks, c->max_num_tokens, v->running_tail};
  if (v->n_running > 0) pause_some(v, out, &m);
  take_generating(v, out, &m);
  uint32_t from = out->n_grants;
  add_contexts(s, c, v, out, &m);
  int64_t unit = c->chunk_unit > 0 ? c->chunk_unit : v->block_tokens;
  if (c->chunking == EQUAL_PROGRESS && c->enable_chunked_context) share_equally(v, out, from, unit, m.tokens);
  else share_first_come(c, v, out, from, unit, m.tokens);
  uint32_t kept = from;
  bool candidates = out->n_grants > from;
  if (c->batch_wait_iters > 0 && hold_back(s, c, v, out, from)) {
    s->waits = true;
    out->n_grants = from;
    out->blocked = v->n_queue > 0 ? DS_BLOCKED_OTHER : DS_BLOCKED_NO;
  }
  for (uint32_t i = from; i < out->n_grants; i++) {
    if (out->grants[i].tokens == 0) continue;
    const ds_req_view *r = &v->req[out->grants[i].slot];
    if (r->phase == DS_PHASE_WAITING && s->keeps) s->promised += to_completion(s, r);
    out->grants[kept++] = out->grants[i];
  }
  if (kept < out->n_grants && out->blocked == DS_BLOCKED_NO) out->blocked = DS_BLOCKED_OTHER;
  out->n_grants = kept;
  /* What blocks the queue's head goes on blocking it. One that capacity admits, and that only lacks tokens, may come to lack KV. */
  bool same = v->n_queue == 0 || c->capacity_policy != MAX_UTILIZATION || !candidates;
  out->hold = out->decode_all && out->n_grants == 0 && v->n_prefilling == 0 && same;
  if (s->waits) out->hold_steps = (uint64_t)(c->batch_wait_iters - s->waited);
  return DS_OK;
}

static void on_finish(void *st, const ds_req_view *r) {
  state *s = st;
  if (s->keeps) s->promised -= to_completion(s, r);
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_batch_size; }
static int64_t max_batch_tokens(const void *cfg) { return ((const config *)cfg)->max_num_tokens; }

static const char *const versions[] = {
    "capacity_policy: guaranteed-no-evict is the engine's default; max-utilization and static are its other two",
    NULL,
};

extern const ds_sched_ops ds_sched_trtllm;
const ds_sched_ops ds_sched_trtllm = {
    .name = "trtllm",
    .summary = "TensorRT-LLM: capacity first (no eviction, utilization or static), then a micro-batch",
    .reference = "NVIDIA/TensorRT-LLM batch_manager/capacityScheduler.cpp, microBatchScheduler.cpp (2025)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .engine = "trtllm",
    .caches_at_end = true,
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .speculates = true,
    .finds_prefixes = true,
    .on_finish = on_finish,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
