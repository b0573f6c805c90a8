// SPDX-License-Identifier: Apache-2.0
/* SGLang: new prompts before decodes, admission by a discounted future, retraction when KV runs out.
 *
 * Each turn first tries to build a batch of prompts; only when none can be built does everybody decode. A prompt is
 * admitted when it and its own output cap fit beside what the running requests are expected to write yet: their caps
 * times the new-token ratio, which starts high, falls with every decode iteration and is set anew after a retraction.
 * A prompt longer than the chunk size runs in chunks, one such request at a time, and with enable_mixed_chunk the
 * decodes ride along. When a decode iteration does not fit, requests with the fewest outputs (of equals the longest
 * prompt) give their KV back and go to the end of the queue.
 *
 * The queue is served first come first served; or longest cached prefix first (lpm), where of requests that find little
 * but begin alike all but one go last, so that the one warms the cache for them; or depth first along the cached branches,
 * the most wanted first, of branches wanted alike the one that was asked for first (dfs-weight). What a prompt computes
 * is found by others once its batch is over. The page is kv_block_tokens, also for what waiting requests have in common.
 *
 * Source: sgl-project/sglang managers/scheduler.py, schedule_policy.py (SchedulePolicy, PrefillAdder) and
 * schedule_batch.py (retract_decode), read in commits of 2025 and 2026. Memory that a radix tree could evict counts as
 * free. Retraction stops as soon as the rest fits (2026; earlier versions free 20 steps ahead).
 * Overlap of batches: engine/overlap.c. */
#include "engine/sched.h"

#include "base/num.h"

#define CLIP_NEW_TOKENS 4096   /* no request is expected to write more */
#define LPM_QUEUE_MAX   128    /* a longer queue is served first come first served */
#define ORDER_MAX       256    /* of a longer queue dfs-weight orders the first ones */
#define RETRACT_STEPS   20
#define UNLIMITED       INT64_MAX

typedef struct config {
  int64_t max_running_requests, max_prefill_tokens, chunked_prefill_size, schedule_policy;
  int64_t in_batch_check, in_batch_deprioritize;
  double schedule_conservativeness, init_new_token_ratio, min_new_token_ratio, new_token_ratio_decay;
  bool enable_mixed_chunk, overlap;
} config;

enum { FCFS, LPM, DFS_WEIGHT, LOF };
static const char *const policies[] = {"fcfs", "lpm", "dfs-weight", "lof", NULL};

static const ds_param params[] = {
    {"max_running_requests", DS_PARAM_INT, offsetof(config, max_running_requests), 1, 1 << 20, 2048, 2048, NULL,
     "most requests running at once", "requests"},
    {"max_prefill_tokens", DS_PARAM_INT, offsetof(config, max_prefill_tokens), 1, 1 << 24, 16384, 16384, NULL,
     "prompt tokens of one batch; without chunks its first prompt may be longer", "tokens"},
    {"chunked_prefill_size", DS_PARAM_INT, offsetof(config, chunked_prefill_size), -1, 1 << 24, 2048, 8192, NULL,
     "prompt tokens of one batch, longer prompts are split; -1: never split", "tokens"},
    {"enable_mixed_chunk", DS_PARAM_BOOL, offsetof(config, enable_mixed_chunk), 0, 0, 0, 0, NULL,
     "running requests decode along with a batch of prompts", NULL},
    {"schedule_policy", DS_PARAM_CHOICE, offsetof(config, schedule_policy), 0, 0, FCFS, FCFS, policies,
     "order of the queue: first come, longest cached prefix, cached branches first, longest output cap", NULL},
    {"in_batch_prefix_caching_check_threshold", DS_PARAM_INT, offsetof(config, in_batch_check), -1, 1 << 24, 32, 32, NULL,
     "lpm: a request with no more cached tokens than this goes last when another that waits begins alike; -1: never", "tokens"},
    {"in_batch_prefix_caching_deprioritize_threshold", DS_PARAM_INT, offsetof(config, in_batch_deprioritize), 1, 1 << 24, 32,
     32, NULL, "lpm: so many tokens alike, at least", "tokens"},
    {"schedule_conservativeness", DS_PARAM_FRAC, offsetof(config, schedule_conservativeness), 0, 10, 1, 1, NULL,
     "scales the default of init_new_token_ratio", NULL},
    {"init_new_token_ratio", DS_PARAM_FRAC, offsetof(config, init_new_token_ratio), 0, 1, 0, 0, NULL,
     "share of their caps that running requests are expected to write, at first; 0: 0.7 x conservativeness", NULL},
    {"min_new_token_ratio", DS_PARAM_FRAC, offsetof(config, min_new_token_ratio), 0, 1, 0, 0, NULL,
     "the least it falls to; 0: 0.14 x init_new_token_ratio", NULL},
    {"new_token_ratio_decay", DS_PARAM_FRAC, offsetof(config, new_token_ratio_decay), 0, 1, 0, 0, NULL,
     "what it falls by in a decode iteration; 0: from first to least in 600", NULL},
    {"overlap", DS_PARAM_BOOL, offsetof(config, overlap), 0, 0, 0, 0, NULL,
     "plan a batch while the one before runs: hides host time, sees an end one iteration late", NULL},
};

typedef struct state {
  double first, least, decay; /* of the ratio */
  double ratio;               /* when it was last set, and how often it fell since */
  uint64_t falls;
  bool prefilling;            /* the last plan was a batch of prompts */
  bool decoding;              /* the last plan was a decode iteration */
  bool full;                  /* nobody is admitted until somebody leaves */
  bool was_full_of_kv;
  bool chunking;
  uint32_t chunked;           /* the request whose prompt is in chunks, when chunking */
  uint32_t order[ORDER_MAX], hits[ORDER_MAX];    /* of the queue: slots, and their cached tokens */
  uint32_t spare[ORDER_MAX], spare_hits[ORDER_MAX], group[ORDER_MAX], size[ORDER_MAX];
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  double first = c->init_new_token_ratio > 0 ? c->init_new_token_ratio : 0.7 * c->schedule_conservativeness;
  s->first = first < 1 ? first : 1;
  s->least = c->min_new_token_ratio > 0 ? c->min_new_token_ratio : 0.14 * s->first;
  if (s->least > s->first) {
    return ds_error_begin(err, DS_E_INPUT, "scheduler_options.min_new_token_ratio: is above the first ratio, expected at most init_new_token_ratio");
  }
  if (c->chunked_prefill_size == 0) {
    return ds_option_refused(err, "chunked_prefill_size", 0, "a count, or for no chunks ", -1);
  }
  if (c->chunked_prefill_size > 0 && c->chunked_prefill_size < run->pool.kv_block_tokens) {
    return ds_option_refused(err, "chunked_prefill_size", c->chunked_prefill_size, "at least a page, kv_block_tokens, which is ",
                             run->pool.kv_block_tokens);
  }
  s->decay = c->new_token_ratio_decay > 0 ? c->new_token_ratio_decay : (s->first - s->least) / 600;
  s->ratio = s->first;
  return DS_OK;
}

/* The engine cuts an output cap so that the request fits an empty pool; what is really written must fit, too. */
static int64_t largest_output(int64_t total_tokens, int64_t prompt, int64_t page) {
  return total_tokens - prompt - page - 1;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg, (void)max_tokens;
  if (pool->kv_blocks == DS_KV_UNLIMITED) return DS_OK;
  int64_t page = pool->kv_block_tokens;
  if (output <= largest_output(total_blocks * page, prompt, page)) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "SGLang admits a request only with room for its prompt, output and a page: ");
  ds_error_int(err, (int64_t)prompt + output + page + 1);
  ds_error_text(err, " tokens, more than the whole pool of ");
  ds_error_int(err, total_blocks * page);
  return DS_E_INPUT;
}

static double ratio_now(const state *s) {
  double r = s->ratio - (double)s->falls * s->decay;
  return r > s->least ? r : s->least;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t cap_of(const ds_sched_view *v, uint32_t slot) {
  const ds_req_view *r = &v->req[slot];
  int64_t cap = r->max_tokens;
  if (v->total_blocks == DS_KV_UNLIMITED) return cap;
  return at_most(cap, largest_output(v->total_blocks * v->block_tokens, r->prompt_tokens, v->block_tokens));
}

static int64_t future_of(const ds_sched_view *v, uint32_t slot) {
  int64_t left = cap_of(v, slot) - ds_view_emitted(v, slot);
  return left < 0 ? 0 : at_most(left, CLIP_NEW_TOKENS);
}

static int64_t whole_pages(const ds_sched_view *v, int64_t tokens) {
  return ds_div_up(tokens, v->block_tokens) * v->block_tokens;
}

static bool is_chunked(const state *s, uint32_t slot) { return s->chunking && s->chunked == slot; }

/* Blocks that a running request holds after its next decode, drafts included. */
static int64_t next_end(const ds_sched_view *v, uint32_t slot) {
  return ds_div_up((int64_t)ds_view_computed(v, slot) + 1 + v->drafts + v->lookahead, v->block_tokens);
}

/* Blocks that one more token for every running request takes, the one in chunks apart. */
static int64_t decode_need(const state *s, const ds_sched_view *v) {
  int64_t need = v->decode_blocks;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i];
    if (is_chunked(s, slot)) continue;
    int64_t more = next_end(v, slot) - v->req[slot].blocks;
    if (more > 0) need += more; /* what rejected drafts took is kept */
  }
  return need;
}

/* ---- order of the queue ---- */

typedef struct walk { /* through the queue, in the order of the policy */
  uint32_t slot, at, n;
  uint32_t rest; /* of the queue, behind the n that are in order */
  int64_t cap; /* of the last one, for longest output first */
  uint64_t index;
} walk;

/* Cached tokens of a waiting request, and how many of them lie in memory that others hold: those cost nothing. */
static uint32_t hit_of(const ds_sched_view *v, uint32_t slot, const ds_plan *out, int64_t new_blocks, uint32_t *held) {
  *held = 0;
  return v->prefix_cache ? v->cached_hit(v->engine, slot, out, new_blocks, held) : 0;
}

/* Does it begin like one of those n? */
static bool begins_alike(const ds_sched_view *v, uint32_t slot, const uint32_t *seen, uint32_t n, int64_t tokens) {
  uint32_t i = 0;
  while (i < n && v->common_tokens(v->engine, slot, seen[i]) < tokens) i++;
  return i < n;
}

/* Longest prefix match. Of those that find little, but begin alike, one goes first and warms the cache for the others,
 * which go last. */
static void sort_by_prefix(state *s, const config *c, const ds_sched_view *v, const ds_plan *out, walk *w) {
  uint32_t n_seen = 0, n_late = 0, *seen = s->spare, *late = s->group;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    uint32_t held, hit = hit_of(v, slot, out, 0, &held), i = w->n;
    if ((int64_t)hit <= c->in_batch_check) {
      if (begins_alike(v, slot, seen, n_seen, c->in_batch_deprioritize)) {
        late[n_late++] = slot;
        continue;
      }
      seen[n_seen++] = slot;
    }
    w->n++;
    for (; i > 0 && s->hits[i - 1] < hit; i--) {
      s->order[i] = s->order[i - 1];
      s->hits[i] = s->hits[i - 1];
    }
    s->order[i] = slot;
    s->hits[i] = hit;
  }
  for (uint32_t i = 0; i < n_late; i++) s->order[w->n++] = late[i];
}

/* How far two of the queue go along the same branch of what is cached. */
static uint32_t branch_of(const state *s, const ds_sched_view *v, uint32_t i, uint32_t k) {
  uint32_t common = v->common_tokens(v->engine, s->order[i], s->order[k]);
  if (common > s->hits[i]) common = s->hits[i];
  return common < s->hits[k] ? common : s->hits[k];
}

/* Those of order[from..to) that go beyond depth together get the same group; of the others the group is n_groups. */
static uint32_t group_branches(state *s, const ds_sched_view *v, uint32_t from, uint32_t to, uint32_t depth) {
  uint32_t n = 0, *first = s->spare;
  for (uint32_t i = from; i < to; i++) {
    uint32_t g = 0;
    if (s->hits[i] <= depth) {
      s->group[i] = UINT32_MAX;
      continue;
    }
    while (g < n && branch_of(s, v, i, first[g]) <= depth) g++;
    if (g == n) {
      first[n] = i;
      s->size[n++] = 0;
    }
    s->group[i] = g;
    s->size[g]++;
  }
  return n;
}

/* Depth first, branches with more waiting requests first, and who ends at a fork behind its branches. */
static void arrange(state *s, const ds_sched_view *v, uint32_t from, uint32_t to, uint32_t depth) {
  uint32_t n_groups = group_branches(s, v, from, to, depth), at = 0;
  for (uint32_t k = 0; k <= n_groups; k++) {
    uint32_t best = UINT32_MAX; /* at last: those of no branch */
    for (uint32_t g = 0; g < n_groups; g++) {
      if (s->size[g] > 0 && (best == UINT32_MAX || s->size[g] > s->size[best])) best = g;
    }
    for (uint32_t i = from; i < to; i++) {
      if (s->group[i] != best) continue;
      s->spare[at] = s->order[i];
      s->spare_hits[at++] = s->hits[i];
    }
    if (best != UINT32_MAX) s->size[best] = 0;
  }
  for (uint32_t i = 0; i < at; i++) {
    s->order[from + i] = s->spare[i];
    s->hits[from + i] = s->spare_hits[i];
  }
  while (from < to && s->hits[from] > depth) { /* branch by branch */
    uint32_t end = from + 1, fork = s->hits[from];
    for (; end < to && s->hits[end] > depth; end++) {
      uint32_t common = branch_of(s, v, from, end);
      if (common <= depth) break;
      if (common < fork) fork = common;
    }
    if (end - from > 1) arrange(s, v, from, end, fork);
    from = end;
  }
}

static void sort_by_branch(state *s, const ds_sched_view *v, const ds_plan *out, walk *w) {
  uint32_t slot = v->queue_head, held;
  for (; slot != DS_SLOT_NONE && w->n < ORDER_MAX; slot = v->req[slot].next, w->n++) {
    s->order[w->n] = slot;
    s->hits[w->n] = hit_of(v, slot, out, 0, &held);
  }
  w->rest = slot;
  arrange(s, v, 0, w->n, 0);
}

/* The longest cap that comes after the last one; equals in order of the queue. */
static uint32_t next_longest(const ds_sched_view *v, walk *w) {
  uint32_t best = DS_SLOT_NONE, at = 0, best_at = 0;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next, at++) {
    int64_t cap = cap_of(v, slot);
    bool later = cap < w->cap || (cap == w->cap && at >= w->at);
    if (later && (best == DS_SLOT_NONE || cap > cap_of(v, best))) {
      best = slot;
      best_at = at;
    }
  }
  if (best != DS_SLOT_NONE) {
    w->cap = cap_of(v, best);
    w->at = best_at + 1;
  }
  return best;
}

static uint32_t step(const state *s, const config *c, const ds_sched_view *v, walk *w, uint32_t from) {
  if (c->schedule_policy == LOF) return next_longest(v, w);
  if (w->n == 0) return from == DS_SLOT_NONE ? v->queue_head : v->req[from].next;
  if (w->at < w->n) return s->order[w->at++];
  uint32_t slot = w->rest;
  if (slot != DS_SLOT_NONE) w->rest = v->req[slot].next;
  return slot;
}

/* ---- a batch of prompts ---- */

typedef struct budget {
  double total;         /* tokens that may be promised */
  int64_t chunk, input; /* prompt tokens of this batch */
  int64_t blocks;       /* free for it */
  int64_t admitted;
} budget;

static void charge(budget *b, const ds_sched_view *v, int64_t tokens, int64_t future) {
  int64_t pages = whole_pages(v, tokens);
  b->total -= (double)(pages + future + v->block_tokens);
  if (b->chunk != UNLIMITED) b->chunk -= pages;
  b->input -= pages;
  b->admitted++;
}

/* The next chunk of a prompt that has begun; false when there is no room for any of it. */
static bool continue_chunked(state *s, const ds_sched_view *v, ds_plan *out, budget *b) {
  const ds_req_view *r = &v->req[s->chunked];
  int64_t left = (int64_t)r->prompt_tokens + r->emitted - r->computed, n = at_most(left, b->chunk);
  int64_t page = v->block_tokens;
  int64_t room = b->blocks == UNLIMITED ? left : (r->blocks + b->blocks) * page - r->computed;
  if (n > room) n = room;
  if (n < left) n = n / page * page;
  if (n <= 0) return false;
  out->grants[out->n_grants++] = (ds_grant){.slot = s->chunked, .tokens = (uint32_t)n};
  int64_t more = ds_div_up((int64_t)r->computed + n, page) - r->blocks;
  if (b->blocks != UNLIMITED) b->blocks -= more;
  s->chunking = n < left;
  charge(b, v, n, s->chunking ? 0 : at_most(cap_of(v, s->chunked), CLIP_NEW_TOKENS));
  return true;
}

/* Admit one, whole or its first chunk; false: stop here. */
static bool admit(state *s, const ds_sched_view *v, ds_plan *out, budget *b, uint32_t slot, int64_t *taken) {
  int64_t page = v->block_tokens, known = ds_view_known(v, slot);
  uint32_t held;
  int64_t hit = hit_of(v, slot, out, *taken, &held);
  int64_t extend = known - hit, pages = whole_pages(v, extend);
  if ((double)(extend + future_of(v, slot) + page) >= b->total - (double)(hit - held)) {
    s->full = s->was_full_of_kv = true;
    return false;
  }
  if (b->chunk == UNLIMITED && b->admitted > 0 && extend >= b->input) return false;
  int64_t n = extend;
  if (b->chunk != UNLIMITED && pages > b->chunk) n = b->chunk / page * page;
  if (n <= 0) return false;
  int64_t blocks = ds_div_up(hit + n, page) - held / page; /* blocks of a hit that nobody holds are free ones */
  if (b->blocks != UNLIMITED) {
    if (blocks > b->blocks) {
      s->full = s->was_full_of_kv = true;
      return false;
    }
    b->blocks -= blocks;
  }
  out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = (uint32_t)n, .cached_tokens = (uint32_t)hit};
  *taken += blocks - (hit - held) / page;
  b->total -= (double)(hit - held);
  if (n < extend) {
    s->chunking = true;
    s->chunked = slot;
    charge(b, v, n, 0);
    return false;
  }
  charge(b, v, n, at_most(cap_of(v, slot), CLIP_NEW_TOKENS));
  if (b->total <= 0) s->full = s->was_full_of_kv = true;
  return b->total > 0 && b->chunk > 0 && b->input > 0;
}

static budget budget_of(const state *s, const config *c, const ds_sched_view *v, int64_t mixed, int64_t mixed_blocks) {
  bool unlimited = v->total_blocks == DS_KV_UNLIMITED;
  budget b = {.chunk = c->chunked_prefill_size > 0 ? c->chunked_prefill_size - mixed : UNLIMITED,
              .input = c->max_prefill_tokens - mixed,
              .blocks = unlimited ? UNLIMITED : v->free_blocks - mixed_blocks,
              .total = unlimited ? 1e18 : (double)(v->free_blocks * v->block_tokens)};
  double expected = 0, ratio = ratio_now(s);
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE && !unlimited; slot = v->req[slot].next) {
    if (!is_chunked(s, slot)) expected += (double)future_of(v, slot);
  }
  b.total -= expected * ratio + (double)mixed;
  return b;
}

/* Everybody who runs takes one token: those that were left out of the last batch of prompts by a grant. */
static void decode_along(const state *s, const ds_sched_view *v, ds_plan *out, uint32_t chunk_slot) {
  out->decode_all = true;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    uint32_t slot = v->prefilling[i];
    if (slot == chunk_slot || is_chunked(s, slot)) continue;
    bool leaves = false;
    for (uint32_t k = 0; k < out->n_preempt && !leaves; k++) leaves = out->preempt[k] == slot;
    if (leaves) continue;
    ds_grant g = {.slot = slot, .tokens = 1};
    if (ds_view_decodes(&v->req[slot])) g.drafts = v->drafts;
    if (v->lookahead > 0) g.ahead_tokens = (int64_t)v->req[slot].computed + 1 + v->drafts + v->lookahead;
    out->grants[out->n_grants++] = g;
  }
}

static bool prefill(state *s, const config *c, const ds_sched_view *v, ds_plan *out) {
  bool chunk = s->chunking;
  uint32_t chunk_slot = chunk ? s->chunked : DS_SLOT_NONE;
  if ((s->full || v->n_queue == 0) && !chunk) return false;
  int64_t running = (int64_t)v->n_running - chunk;
  if (running >= c->max_running_requests && !chunk) {
    s->full = true;
    s->was_full_of_kv = false;
    return false;
  }
  int64_t mixed = c->enable_mixed_chunk ? running : 0, mixed_blocks = mixed > 0 ? decode_need(s, v) : 0;
  if (mixed_blocks > v->free_blocks) return false;
  budget b = budget_of(s, c, v, mixed, mixed_blocks);
  if (chunk && !continue_chunked(s, v, out, &b)) return false;
  walk w = {.slot = DS_SLOT_NONE, .rest = DS_SLOT_NONE, .cap = INT64_MAX};
  bool cached = v->prefix_cache; /* else both are first come first served */
  if (cached && c->schedule_policy == LPM && v->n_queue <= LPM_QUEUE_MAX) sort_by_prefix(s, c, v, out, &w);
  if (cached && c->schedule_policy == DFS_WEIGHT) sort_by_branch(s, v, out, &w);
  int64_t taken = b.blocks == UNLIMITED ? 0 : v->free_blocks - b.blocks; /* by decodes and by the chunk */
  for (uint32_t slot = DS_SLOT_NONE; v->n_queue > 0;) {
    slot = step(s, c, v, &w, slot);
    if (slot == DS_SLOT_NONE) break;
    if (running + b.admitted >= c->max_running_requests) {
      s->full = true;
      s->was_full_of_kv = false;
      break;
    }
    if (!admit(s, v, out, &b, slot, &taken)) break;
  }
  if (out->n_grants == 0) return false;
  if (mixed > 0) decode_along(s, v, out, chunk_slot);
  return true;
}

/* ---- decode, and who gives way for it ---- */

/* b leaves before a: fewer outputs, then the longer prompt; of equals the later one, which the walk decides. */
static bool leaves_before(const ds_sched_view *v, uint32_t b, uint32_t a) {
  uint32_t x = ds_view_emitted(v, b), y = ds_view_emitted(v, a);
  if (x != y) return x < y;
  return v->req[b].prompt_tokens >= v->req[a].prompt_tokens;
}

static bool chosen(const ds_plan *out, uint32_t slot) {
  for (uint32_t i = 0; i < out->n_preempt; i++) {
    if (out->preempt[i] == slot) return true;
  }
  return false;
}

static void retract(state *s, const ds_sched_view *v, ds_plan *out, int64_t need) {
  int64_t left = (int64_t)v->n_running - s->chunking, free = v->free_blocks;
  int64_t stay = v->n_held > 0 ? 0 : 1; /* one alone always fits, but not beside rows that ended unseen */
  while (need > free && left > stay) {
    uint32_t victim = DS_SLOT_NONE;
    for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
      if (is_chunked(s, slot) || chosen(out, slot)) continue;
      /* With drafts the last of the batch leaves. */
      if (victim == DS_SLOT_NONE || v->drafts > 0 || leaves_before(v, slot, victim)) victim = slot;
    }
    int64_t more = next_end(v, victim) - ds_view_blocks(v, victim);
    if (more > 0) need -= more;
    free += ds_view_freed(v, victim, out); /* not what others hold, too */
    out->preempt[out->n_preempt++] = victim;
    left--;
  }
  if (need > free && s->chunking) { /* nor beside a prompt half done */
    out->preempt[out->n_preempt++] = s->chunked;
    s->chunking = false;
  }
  double written = 0, caps = 0;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    if (is_chunked(s, slot) || chosen(out, slot)) continue;
    written += (double)ds_view_emitted(v, slot) + RETRACT_STEPS;
    caps += (double)cap_of(v, slot);
  }
  double ratio = left > 0 ? written / (caps + 1) : s->ratio;
  s->ratio = ratio < 1 ? ratio : 1;
  s->falls = 0;
  s->full = false;
  out->preempt_to_back = true;
}

static void decode(state *s, const ds_sched_view *v, ds_plan *out) {
  int64_t need = decode_need(s, v);
  if (need > v->free_blocks) {
    uint32_t chunk_slot = s->chunking ? s->chunked : DS_SLOT_NONE;
    retract(s, v, out, need);
    decode_along(s, v, out, chunk_slot);
    out->blocked = DS_BLOCKED_KV;
    return;
  }
  decode_along(s, v, out, DS_SLOT_NONE);
  s->decoding = true;
  out->hold = out->n_grants == 0 && v->n_prefilling == 0 && (v->n_queue == 0 || s->full);
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  state *s = st;
  const config *c = v->config;
  if (s->decoding) s->falls += v->steps;
  s->decoding = false;
  if (v->n_running == 0 && v->iteration > 0 && v->now_ns > v->last_end_ns) {
    s->ratio = s->first;
    s->falls = 0;
  }
  bool prompts = prefill(s, c, v, out);
  if (!prompts) decode(s, v, out);
  out->no_overlap = prompts && s->prefilling; /* the first prompts' tokens are not to wait */
  s->prefilling = prompts;
  if (v->n_queue > 0 && out->blocked == DS_BLOCKED_NO) {
    out->blocked = !s->full ? DS_BLOCKED_OTHER : s->was_full_of_kv ? DS_BLOCKED_KV : DS_BLOCKED_SEQS;
  }
  return DS_OK;
}

static void on_finish(void *st, const ds_req_view *r) {
  (void)r;
  ((state *)st)->full = false;
}

static void on_abort(void *st, uint32_t slot, const ds_req_view *r) {
  state *s = st;
  if (r->phase != DS_PHASE_WAITING) s->full = false;
  if (is_chunked(s, slot)) s->chunking = false;
}

static bool overlaps(const void *cfg) { return ((const config *)cfg)->overlap; }
static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_running_requests; }
static int64_t max_batch_tokens(const void *cfg) {
  const config *c = cfg;
  return c->chunked_prefill_size > 0 ? c->chunked_prefill_size : 0; /* a first prompt may be of any length */
}

static const char *const versions[] = {
    "schedule_policy: fcfs is the default of recent versions, lpm of those before",
    "overlap: true is SGLang unless it is started with disable_overlap_schedule",
    "chunked_prefill_size: 2048 and 8192 are the defaults by memory; -1 is chunking off",
    NULL,
};

extern const ds_sched_ops ds_sched_sglang;
const ds_sched_ops ds_sched_sglang = {
    .name = "sglang",
    .summary = "SGLang: prompts before decodes, admission by a new-token ratio, retraction",
    .reference = "sgl-project/sglang managers/scheduler.py, schedule_policy.py (2025-2026)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .engine = "sglang",
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .overlaps = overlaps,
    .speculates = true,
    .finds_prefixes = true,
    .caches_at_end = true,
    .on_finish = on_finish,
    .on_abort = on_abort,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
