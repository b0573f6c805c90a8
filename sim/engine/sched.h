// SPDX-License-Identifier: Apache-2.0
/* The scheduler seam: one file in sim/sched exports one const ds_sched_ops.
 *
 * When a replica is free the engine asks the policy for a plan: which requests get how many tokens in the next
 * iteration. The policy sees a read-only view; the engine checks the plan and applies it, so a wrong policy yields an
 * error that names the broken rule, never corrupt accounting. A policy never sees the true output length unless its
 * ops say `oracle`, and then every report says so.
 *
 * Decode leases: a plan that says `hold` is kept for as many iterations as nothing changes (no arrival at this replica,
 * no finish, no shortage of KV); the policy is asked again afterwards, and `steps` tells how many iterations went by. */
#ifndef DS_ENGINE_SCHED_H
#define DS_ENGINE_SCHED_H

#include "base/status.h"
#include "spec/param.h"
#include "spec/run.h"

#define DS_SLOT_NONE UINT32_MAX

typedef enum ds_phase {
  DS_PHASE_WAITING,  /* in the queue; no KV */
  DS_PHASE_PREFILL,  /* running, prompt (or recompute) not complete */
  DS_PHASE_DECODE,   /* running, needs exactly one new token an iteration */
  DS_PHASE_HELD,     /* finished, but its row stays in the batch (static batching) */
  DS_PHASE_DONE,
  DS_PHASE_SWAPPED   /* preempted; its KV waits in host memory */
} ds_phase;

/* What a policy may know of a request. `slot` names it in plans. Read the counters of a decoding request through the
 * ds_view_ functions: they advance with the replica's iterations and are not rewritten one by one. */
typedef struct ds_req_view {
  int64_t arrival_ns;      /* when it entered this replica's queue */
  uint64_t index;          /* order of arrival in the trace */
  uint64_t since;          /* PHASE_DECODE: the iteration from which the counters below advance by one each */
  uint32_t prompt_tokens;
  uint32_t max_tokens;     /* cap on its output, as far as a scheduler may believe */
  uint32_t emitted;        /* output tokens so far */
  uint32_t computed;       /* tokens whose KV is resident */
  uint32_t blocks;         /* KV blocks held; PHASE_SWAPPED: in host memory */
  int32_t priority;        /* lower first */
  uint32_t tenant;         /* whose request it is: any number; 0 where the trace names nobody */
  uint32_t images;         /* 1 + place of what is known of its images in the view's `image`; 0: it has none */
  uint32_t true_output;    /* 0 unless the policy declares an oracle */
  uint32_t next, prev;     /* neighbours in the queue, the swapped or the running list; DS_SLOT_NONE at the ends */
  uint8_t phase;           /* ds_phase */
  uint8_t admitted_before; /* it was running once and was preempted */
  uint8_t reserved;        /* its blocks were all taken at admission */
} ds_req_view;

/* The images of a prompt: count of them, one behind the other from token `at` on, of `tokens` tokens in all. */
typedef struct ds_image_view {
  uint32_t count, at, tokens;
  uint32_t encoded; /* of them so many need no encoding (any more) */
  uint32_t done;    /* and of these so many are held no longer, since their tokens have KV */
  uint32_t now_tokens; /* the engine's: of those that its last grant had encoded */
} ds_image_view;
/* First token of image i; of image `count`: the token behind all. */
static inline uint32_t ds_image_start(const ds_image_view *m, uint32_t i) {
  return m->at + (uint32_t)((uint64_t)m->tokens * i / m->count);
}

struct ds_plan;

typedef struct ds_sched_view {
  int64_t now_ns;
  uint64_t steps;              /* iterations since the last plan of this replica */
  const ds_req_view *req;      /* by slot */
  uint32_t queue_head;         /* first waiting; follow .next */
  uint32_t running_head, running_tail; /* in order of admission; prefilling and decoding mixed */
  const uint32_t *prefilling;  /* slots in PHASE_PREFILL, in running order */
  uint32_t n_queue, n_running, n_prefilling, n_decoding;
  uint32_t n_held;             /* rows of finished requests still in the batch */
  uint32_t swapped_head, n_swapped; /* KV in host memory, in the order in which they left */
  int64_t host_free_blocks;    /* room for more of them */
  int64_t free_blocks, total_blocks;
  uint32_t block_tokens;
  int64_t decode_blocks;       /* new blocks that one token for every decoding request takes now */
  int64_t last_end_ns;         /* when the last iteration ended: earlier than now after an idle time */
  uint64_t iteration;          /* of this replica: decoding requests' counters advance with it */
  const void *config;          /* the policy's own options */
  /* Speculation: drafts that every request which has begun its output may add to its grant now, and the further tokens
   * for which it takes KV beyond them (with any grant but the one that admits it). Such requests stay in PHASE_PREFILL. */
  uint32_t drafts, lookahead;
  /* Images: tokens of them that an iteration may encode, and that can be held beside those that are. */
  const ds_image_view *image;
  int64_t encoder_budget, encoder_room;
  bool prefix_cache;
  /* Tokens of a waiting request that the prefix cache will still hold, whole blocks, at most known - 1, once the
   * grants of `so_far` have taken their cached tokens back and `new_blocks` other blocks have been handed out. */
  uint32_t (*cached_tokens)(const void *engine, uint32_t slot, const struct ds_plan *so_far, int64_t new_blocks);
  /* The same, and how many of those tokens lie in blocks that somebody holds (or will, by so_far): these cost no free
   * block, the others one each. */
  uint32_t (*cached_hit)(const void *engine, uint32_t slot, const struct ds_plan *so_far, int64_t new_blocks,
                         uint32_t *held_tokens);
  /* Tokens that two requests of this replica are known to have in common from the start, whole blocks. */
  uint32_t (*common_tokens)(const void *engine, uint32_t a, uint32_t b);
  /* Blocks that become free when this running request is preempted after those that `so_far` preempts: not those that
   * others hold, too. ds_view_freed. */
  int64_t (*freed)(const void *engine, uint32_t slot, const struct ds_plan *so_far);
  const void *engine;
} ds_sched_view;

typedef struct ds_grant {
  uint32_t slot;
  uint32_t tokens;         /* prefill tokens; a waiting request is admitted by this, a swapped one comes back */
  uint32_t cached_tokens;  /* of its known tokens, found in the prefix cache: computed starts there */
  int64_t reserve_tokens;  /* > 0: hold KV for that many tokens from admission to finish; 0: grow block by block */
  uint32_t drafts;         /* speculation: tokens verified beside the one of a request that decodes */
  int64_t ahead_tokens;    /* > 0: take KV for at least so many tokens now; it grows block by block beyond */
} ds_grant;

typedef enum ds_blocked { DS_BLOCKED_NO, DS_BLOCKED_KV, DS_BLOCKED_SEQS, DS_BLOCKED_OTHER } ds_blocked;

/* Filled by the policy. The engine owns the arrays and their room (n_running + n_swapped + n_queue entries each; of the queue
 * no more than max_seqs). */
typedef struct ds_plan { /* what is blank before each plan stands together, so that a few stores clear it */
  bool decode_all;      /* every decoding request takes one token; else exactly those of `decode` */
  bool hold;            /* keep this plan while nothing changes; only with decode_all and no grants */
  bool hold_past_arrival; /* with hold: who arrives waits behind a queue that is blocked whoever arrives, and changes nothing */
  bool hold_past_finish; /* with hold: a finish changes nothing either, as long as the queue is empty */
  bool hold_finished;   /* rows that finish stay in the batch until all are finished */
  bool emit_at_end;     /* tokens become visible when the whole batch is finished */
  bool no_overlap;      /* asynchronous scheduling: the host's time of this iteration is not hidden */
  bool preempt_to_back; /* the preempted go to the back of the queue instead of its front */
  bool swap_out;        /* the preempted keep their KV in host memory instead, and wait in the swapped list */
  uint32_t n_grants, n_decode, n_preempt, n_order;
  uint32_t n_turned_away; /* read only where the policy turns_away */
  uint32_t padded_prefill_tokens; /* extra prompt tokens computed as padding, priced but owned by nobody */
  uint64_t hold_steps;  /* with hold: for at most so many iterations; 0: no such limit */
  int64_t wake_ns;      /* with nothing to run: ask again at this time; DS_TIME_NEVER. Where the policy turns_away also with hold:
                           ask again after the iteration under way then */
  ds_blocked blocked;   /* why the head of the queue was not admitted: for the blame ledger */
  ds_grant *grants;     /* in the order in which the policy served them */
  uint32_t *decode;
  uint32_t *order;      /* of a policy that reorders: n_order > 0: the running list from now on, everybody in it once */
  uint32_t *spare;      /* and room for as many, for its own use */
  uint32_t *preempt;    /* applied first, in this order, each to the front of the queue; KV freed, recomputed later */
  uint32_t *turned_away; /* waiting, never admitted: answered with an error now, before anything else of the plan. Room: n_queue */
} ds_plan;

/* Running, and one token from its next output: what a policy of phases calls a decode. */
static inline bool ds_view_decodes(const ds_req_view *r) {
  return r->phase == DS_PHASE_DECODE ||
         (r->phase == DS_PHASE_PREFILL && r->emitted > 0 && r->prompt_tokens + r->emitted - r->computed == 1);
}
/* Output tokens so far; tokens that exist (prompt and emitted); tokens with KV; blocks held. */
static inline uint32_t ds_view_emitted(const ds_sched_view *v, uint32_t slot) {
  const ds_req_view *r = &v->req[slot];
  return r->phase == DS_PHASE_DECODE ? r->emitted + (uint32_t)(v->iteration - r->since) : r->emitted;
}
static inline uint32_t ds_view_known(const ds_sched_view *v, uint32_t slot) {
  return v->req[slot].prompt_tokens + ds_view_emitted(v, slot);
}
static inline uint32_t ds_view_computed(const ds_sched_view *v, uint32_t slot) {
  const ds_req_view *r = &v->req[slot];
  return r->phase == DS_PHASE_DECODE ? r->computed + (uint32_t)(v->iteration - r->since) : r->computed;
}
static inline uint32_t ds_view_blocks(const ds_sched_view *v, uint32_t slot) {
  const ds_req_view *r = &v->req[slot];
  if (r->phase != DS_PHASE_DECODE || r->reserved) return r->blocks;
  return (ds_view_computed(v, slot) + v->block_tokens - 1) / v->block_tokens;
}

/* Blocks that preempting this one frees, after those that `so_far` preempts. */
static inline int64_t ds_view_freed(const ds_sched_view *v, uint32_t slot, const ds_plan *so_far) {
  return v->prefix_cache ? v->freed(v->engine, slot, so_far) : ds_view_blocks(v, slot);
}

typedef struct ds_sched_ops {
  const char *name, *summary, *reference; /* reference: the paper or source file whose behaviour it follows */
  const ds_param *params;
  size_t n_params, config_bytes, state_bytes;
  const char *const *versions; /* which option (or key of the pool) selects which version's behaviour; NULL-terminated,
                                  or NULL where all that was read agree */
  bool oracle;             /* sees true output lengths */
  bool (*knows)(const void *config); /* does it with these options? Optional */
  bool speculates;         /* plans drafts */
  bool finds_prefixes;     /* asks the prefix cache what it holds of a prompt */
  bool reorders;           /* its plans may change the order of the running list, with grants or without decode_all */
  bool reserves;           /* KV cannot run out after admission */
  bool caches_at_end;      /* others find what a prompt computes once its iteration is over; else as soon as it is granted */
  bool runs_to_end;        /* a batch cannot lose a row: whoever runs goes on although its client is gone */
  const char *engine;      /* engine card (or family) that it runs with when the scenario names none */
  /* Once per replica, on zeroed state; optional. May complain about options that do not go together. */
  ds_status (*init)(void *state, const ds_run *run, ds_error *err);
  /* Can this request ever run on an otherwise empty replica? DS_E_INPUT with the reason if not. Optional. */
  ds_status (*accepts)(const void *config, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                       uint32_t max_tokens, ds_error *err);
  void (*on_arrival)(void *state, const ds_req_view *r); /* optional */
  ds_status (*plan)(void *state, const ds_sched_view *v, ds_plan *out);
  void (*on_finish)(void *state, const ds_req_view *r);  /* optional */
  /* The client is gone: this request is taken out of where r->phase says that it is. NULL: on_finish, unless it waits. */
  void (*on_abort)(void *state, uint32_t slot, const ds_req_view *r);
  /* The queue in an order of the policy's own, smallest first, ties by arrival, instead of first come first served
   * with the preempted in front. The number may not change while a request waits. Optional; `ranked` says whether the
   * options ask for it (NULL: always). */
  int64_t (*rank)(const void *config, const ds_req_view *r);
  bool (*ranked)(const void *config);
  /* May requests be turned away with these options: by `refuses`, or by a plan? Optional. */
  bool (*turns_away)(const void *config);
  /* Is this one, which arrives now, answered with an error at once? Of the view only the queue is of now. Optional. */
  bool (*refuses)(const ds_sched_view *v, const ds_req_view *r);
  /* Of a policy that swaps: time to move one block to or from host memory (0: as the hardware's host link has it) and
   * how many blocks that memory takes (0: vLLM's default of 4 GiB a device, or no limit where bytes are unknown). */
  void (*swap)(const void *config, int64_t *block_ns, int64_t *host_blocks);
  /* Does it plan the next iteration while one runs? Optional; not with speculation. */
  bool (*overlaps)(const void *config);
  /* Where the policy's limits live in its config, for the memory footprint and the memo tables; 0 if it has none. */
  int64_t (*max_seqs)(const void *config);
  int64_t (*max_batch_tokens)(const void *config);
} ds_sched_ops;

/* For init: an option has a value that does not go with another one. Found and expected are for the reader. */
static inline ds_status ds_option_refused(ds_error *err, const char *option, int64_t found, const char *expected, int64_t limit) {
  ds_error_begin(err, DS_E_INPUT, "scheduler_options.");
  ds_error_text(err, option);
  ds_error_text(err, ": is ");
  ds_error_int(err, found);
  ds_error_text(err, ", expected ");
  ds_error_text(err, expected);
  ds_error_int(err, limit);
  return DS_E_INPUT;
}

/* Does a policy with these options see true output lengths? */
static inline bool ds_sched_knows(const ds_sched_ops *ops, const void *config) {
  return ops->oracle || (ops->knows != NULL && ops->knows(config));
}

#endif
