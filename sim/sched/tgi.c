// SPDX-License-Identifier: Apache-2.0
/* Text Generation Inference: a running batch that takes a batch of new prompts in when that is worth its stop.
 *
 * New prompts run alone, in an iteration of their own, while the running batch waits; one decode of all together
 * follows. They are taken in when at least waiting_served_ratio x the running requests can be, or, after
 * max_waiting_tokens iterations without any, however few there are. KV for a prompt and its output cap is taken at
 * admission, so it cannot run out and nobody is preempted. First come first served; the head of the queue blocks.
 * Source: huggingface/text-generation-inference backends/v3/src/{backend,queue,block_allocator}.rs, 2.2 to 2.4, without
 * chunked prompts (docs/tgi.md has the rules and their places). */
#include "engine/sched.h"

#include "base/num.h"

typedef struct config {
  int64_t max_batch_prefill_tokens, max_batch_total_tokens, max_waiting_tokens, max_batch_size;
  double waiting_served_ratio;
} config;

static const ds_param params[] = {
    {"max_batch_prefill_tokens", DS_PARAM_INT, offsetof(config, max_batch_prefill_tokens), 1, 1 << 24, 4096, 4096, NULL,
     "prompt tokens of one batch of new requests", "tokens"},
    {"max_batch_total_tokens", DS_PARAM_INT, offsetof(config, max_batch_total_tokens), 0, 1 << 30, 0, 0, NULL,
     "prompts and output caps of everybody running; 0: what the KV cache holds", "tokens"},
    {"waiting_served_ratio", DS_PARAM_FRAC, offsetof(config, waiting_served_ratio), 0, 1000, 0.3, 0.3, NULL,
     "new requests that are worth a stop, as a share of the running ones", NULL},
    {"max_waiting_tokens", DS_PARAM_INT, offsetof(config, max_waiting_tokens), 0, 1 << 24, 20, 20, NULL,
     "iterations after which any number of new requests is worth it", "iterations"},
    {"max_batch_size", DS_PARAM_INT, offsetof(config, max_batch_size), 0, 1 << 20, 0, 0, NULL,
     "most requests running at once; 0: no limit", "requests"},
};

typedef struct state {
  int64_t waited;   /* iterations since the last new requests, theirs included */
  bool decoding;    /* the last plan was a decode iteration */
  bool must_decode; /* new requests have just joined a running batch */
} state;

static int64_t padded(const config *c, int64_t block_tokens) {
  return ds_div_up(c->max_batch_prefill_tokens, block_tokens) * block_tokens;
}

static ds_status too_large(ds_error *err, const char *what, int64_t found, const char *limit, int64_t most) {
  ds_error_begin(err, DS_E_INPUT, what);
  ds_error_int(err, found);
  ds_error_text(err, limit);
  ds_error_int(err, most);
  return DS_E_INPUT;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  int64_t cap = max_tokens > output ? max_tokens : output, most = padded(c, pool->kv_block_tokens);
  if (prompt > most) return too_large(err, "a prompt of ", prompt, " tokens exceeds max_batch_prefill_tokens ", most);
  bool limited = pool->kv_blocks != DS_KV_UNLIMITED;
  if (!limited && c->max_batch_total_tokens == 0) return DS_OK;
  int64_t total = c->max_batch_total_tokens > 0 ? c->max_batch_total_tokens : total_blocks * pool->kv_block_tokens;
  if (prompt + cap > total) {
    return too_large(err, "prompt and output cap of ", prompt + cap, " tokens exceed the batch's total of ", total);
  }
  int64_t blocks = ds_div_up(prompt + cap - 1, pool->kv_block_tokens);
  if (!limited || blocks <= total_blocks) return DS_OK;
  return too_large(err, "TGI reserves ", blocks, " KV blocks for a request, more than the whole pool of ", total_blocks);
}

/* Tokens that those who run may come to, in whole blocks. */
static int64_t held_tokens(const ds_sched_view *v) {
  int64_t blocks = 0;
  for (uint32_t slot = v->running_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) blocks += v->req[slot].blocks;
  return blocks * v->block_tokens;
}

typedef enum outcome { TAKEN, TOO_FEW, NO_ROOM } outcome;

/* New requests from the head of the queue, at least `fewest` of them or none at all. */
static outcome next_batch(const config *c, const ds_sched_view *v, ds_plan *out, int64_t fewest) {
  if (v->n_queue < fewest) return TOO_FEW;
  bool unlimited = v->total_blocks == DS_KV_UNLIMITED;
  int64_t total = c->max_batch_total_tokens, prompts = 0, caps = 0, blocks = v->free_blocks, running = v->n_running;
  if (total == 0) total = unlimited ? INT64_MAX : v->total_blocks * v->block_tokens;
  if (total < INT64_MAX) total -= held_tokens(v);
  out->blocked = DS_BLOCKED_NO;
  for (uint32_t slot = v->queue_head; slot != DS_SLOT_NONE; slot = v->req[slot].next) {
    const ds_req_view *r = &v->req[slot];
    if (c->max_batch_size > 0 && running >= c->max_batch_size) {
      out->blocked = DS_BLOCKED_SEQS;
      break;
    }
    prompts += r->prompt_tokens;
    caps += r->max_tokens;
    if (prompts > padded(c, v->block_tokens)) {
      out->blocked = DS_BLOCKED_OTHER;
      break;
    }
    int64_t reserve = (int64_t)r->prompt_tokens + r->max_tokens - 1, need = ds_div_up(reserve, v->block_tokens);
    if (prompts + caps > total || (!unlimited && need > blocks)) {
      out->blocked = DS_BLOCKED_KV;
      break;
    }
    blocks -= unlimited ? 0 : need;
    running++;
    out->grants[out->n_grants++] = (ds_grant){.slot = slot, .tokens = r->prompt_tokens, .reserve_tokens = reserve};
  }
  if (out->n_grants > 0 && out->n_grants >= fewest) return TAKEN;
  bool room = out->n_grants > 0;
  out->n_grants = 0;
  return room ? TOO_FEW : NO_ROOM;
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  state *s = st;
  const config *c = v->config;
  outcome what = NO_ROOM;
  if (s->decoding) s->waited += (int64_t)v->steps;
  s->decoding = false;
  if (v->n_running == 0) s->must_decode = false; /* all their clients are gone */
  if (v->n_queue > 0 && !s->must_decode) {
    bool any = v->n_running == 0 || s->waited >= c->max_waiting_tokens;
    int64_t fewest = any ? 0 : (int64_t)((float)v->n_running * (float)c->waiting_served_ratio);
    what = next_batch(c, v, out, fewest);
    if (what == TAKEN) {
      s->must_decode = v->n_running > 0;
      s->waited = 1;
      return DS_OK;
    }
  }
  if (v->n_queue > 0 && out->blocked == DS_BLOCKED_NO) out->blocked = DS_BLOCKED_OTHER;
  out->decode_all = true;
  for (uint32_t i = 0; i < v->n_prefilling; i++) {
    out->grants[out->n_grants++] = (ds_grant){.slot = v->prefilling[i], .tokens = 1};
  }
  s->decoding = true;
  /* Whoever has no room now has none until somebody leaves; too few may be enough after a while. */
  out->hold = out->n_grants == 0 && (v->n_queue == 0 || (what == NO_ROOM && !s->must_decode));
  s->must_decode = false;
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_batch_size; }
static int64_t max_batch_tokens(const void *cfg) { return ((const config *)cfg)->max_batch_prefill_tokens; }

extern const ds_sched_ops ds_sched_tgi;
const ds_sched_ops ds_sched_tgi = {
    .name = "tgi",
    .summary = "Text Generation Inference: new prompts in batches of their own, when worth a stop",
    .reference = "huggingface/text-generation-inference backends/v3/src/queue.rs, backend.rs (2.2 to 2.4)",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .reserves = true,
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
    .max_batch_tokens = max_batch_tokens,
};
