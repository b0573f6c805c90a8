// SPDX-License-Identifier: Apache-2.0
/* Orca: iteration-level scheduling with selective batching.
 *
 * Requests are taken first come first served. One enters the batch when there is a seat and when the KV slots of its whole
 * sequence (prompt and output cap) can be reserved; the first that cannot stops the selection, so nobody overtakes.
 * Whole prompts run in the same iteration as the decodes of others. A reservation is held until the request finishes, so KV
 * cannot run out and nobody is ever preempted; pressure shows as queueing.
 * Source: Yu et al., Orca (OSDI 2022), Algorithm 1 and sections 3 and 4; one worker (no pipeline of batches in flight).
 * `reservation` selects the baseline: cap is the paper's own (max_tokens of each request); the others are those of Kwon et
 * al. (SOSP 2023): max-model-len is Orca (Max), which sarathi-serve's orca_scheduler.py reserves, too; pow2 is Orca (Pow2),
 * room for the true output rounded up to a power of two; oracle is Orca (Oracle), room for the true output alone. */
#include "engine/sched.h"

#include "base/num.h"

typedef struct config {
  int64_t max_batch_size, kv_slots, reservation;
} config;

enum { RESERVE_CAP, RESERVE_MODEL_LEN, RESERVE_POW2, RESERVE_ORACLE };
static const char *const reservations[] = {"cap", "max-model-len", "pow2", "oracle", NULL};

static const ds_param params[] = {
    {"max_batch_size", DS_PARAM_INT, offsetof(config, max_batch_size), 1, 1 << 20, 256, 256, NULL,
     "most requests in one iteration", "requests"},
    {"kv_slots", DS_PARAM_INT, offsetof(config, kv_slots), 0, 1e12, 0, 0, NULL,
     "tokens of KV that may be reserved in all; 0: as many as the KV blocks hold", "tokens"},
    {"reservation", DS_PARAM_CHOICE, offsetof(config, reservation), 0, 0, RESERVE_CAP, RESERVE_CAP, reservations,
     "what a request reserves: its prompt and output cap; max_model_len of the pool; its prompt and its true output, rounded up to "
     "a power of two, or as it is",
     NULL},
};

typedef struct state {
  const config *config;
  int64_t max_model_len;
  int64_t reserved_tokens; /* by those in the batch */
} state;

static ds_status init(void *st, const ds_run *run, ds_error *err) {
  state *s = st;
  const config *c = (const config *)(const void *)run->pool.scheduler_config.bytes;
  s->config = c;
  if (c->reservation == RESERVE_MODEL_LEN) {
    s->max_model_len = run->pool.max_model_len;
    if (s->max_model_len == 0) {
      return ds_error_begin(err, DS_E_INPUT, "scheduler_options.reservation: is max-model-len, expected max_model_len in the pool beside it");
    }
  }
  return DS_OK;
}

/* KV tokens that a request of this length reserves; output: the true one. */
static int64_t reserved(const config *c, int64_t max_model_len, int64_t prompt, int64_t cap, int64_t output) {
  if (c->reservation == RESERVE_MODEL_LEN) return max_model_len;
  if (c->reservation == RESERVE_CAP) return prompt + cap;
  if (c->reservation == RESERVE_ORACLE) return prompt + output;
  int64_t power = 1;
  while (power < output) power *= 2;
  return prompt + power;
}

static int64_t whole(const state *s, const ds_req_view *r) {
  return reserved(s->config, s->max_model_len, r->prompt_tokens, r->max_tokens, r->true_output);
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  const config *c = cfg;
  uint32_t cap = max_tokens > output ? max_tokens : output;
  int64_t tokens = reserved(c, pool->max_model_len, prompt, cap, output);
  int64_t blocks = ds_div_up(tokens, pool->kv_block_tokens);
  bool slots = c->kv_slots > 0 && tokens > c->kv_slots;
  if (!slots && (pool->kv_blocks == DS_KV_UNLIMITED || blocks <= total_blocks)) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, "orca reserves ");
  ds_error_int(err, slots ? tokens : blocks);
  ds_error_text(err, slots ? " tokens of KV for a request (reservation), more than kv_slots "
                           : " KV blocks for a request (reservation), more than the whole pool of ");
  ds_error_int(err, slots ? c->kv_slots : total_blocks);
  return DS_E_INPUT;
}

static void on_finish(void *st, const ds_req_view *r) {
  state *s = st;
  s->reserved_tokens -= whole(s, r);
}

static ds_status plan(void *st, const ds_sched_view *v, ds_plan *out) {
  state *s = st;
  const config *c = v->config;
  int64_t seats = c->max_batch_size - v->n_running, blocks = v->free_blocks;
  uint32_t slot = v->queue_head;
  out->decode_all = true;
  for (; slot != DS_SLOT_NONE && seats > 0; slot = v->req[slot].next, seats--) {
    int64_t tokens = whole(s, &v->req[slot]), need = ds_div_up(tokens, v->block_tokens);
    if (need > blocks || (c->kv_slots > 0 && s->reserved_tokens + tokens > c->kv_slots)) {
      out->blocked = DS_BLOCKED_KV;
      break;
    }
    s->reserved_tokens += tokens;
    blocks -= need;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .tokens = v->req[slot].prompt_tokens, .reserve_tokens = tokens};
  }
  if (slot != DS_SLOT_NONE && seats == 0) out->blocked = DS_BLOCKED_SEQS;
  out->hold = out->n_grants == 0; /* nobody can enter before somebody leaves */
  return DS_OK;
}

static bool knows(const void *cfg) { return ((const config *)cfg)->reservation >= RESERVE_POW2; }
static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_batch_size; }

static const char *const versions[] = {
    "reservation: cap is the rule of the OSDI 2022 paper; max-model-len, pow2 and oracle are Orca (Max), (Pow2) and (Oracle) of the "
    "vLLM paper, SOSP 2023, the first also of sarathi-serve's orca_scheduler.py",
    NULL,
};

extern const ds_sched_ops ds_sched_orca;
const ds_sched_ops ds_sched_orca = {
    .name = "orca",
    .summary = "Orca: iteration-level batching, first come first served, KV reserved for the whole sequence",
    .reference = "Yu et al., Orca: A Distributed Serving System for Transformer-Based Generative Models (OSDI 2022)",
    .versions = versions,
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .state_bytes = sizeof(state),
    .reserves = true,
    .knows = knows,
    .init = init,
    .accepts = accepts,
    .plan = plan,
    .on_finish = on_finish,
    .max_seqs = max_seqs,
};
