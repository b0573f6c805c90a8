// SPDX-License-Identifier: Apache-2.0
/* Inside of the engine: one replica's state, and the steps of its life. Not for policies, not for users of the core.
 *
 * A replica is either between iterations (it may plan) or in one (in_flight, until end_ns). Everything that changes by
 * one per iteration for every decoding request is kept once: a request that decodes since iteration s has gained
 * iteration - s tokens; it finishes at a known iteration; it needs a new KV block when (iteration - s + computed) is a
 * multiple of the block size. So an iteration costs the same however large the batch is. */
#ifndef DS_ENGINE_REPLICA_H
#define DS_ENGINE_REPLICA_H

#include "base/heap.h"
#include "cost/encode.h"
#include "engine/sim.h"
#include "engine/wheel.h"
#include "kv/prefix.h"
#include "metric/maxgap.h"

/* Time of decoding requests by cause, summed over a replica's iterations; differences give a request's share. */
enum { DS_LEDGER_OTHERS = DS_PART_N, DS_LEDGER_TRANSFER, DS_LEDGER_N };

/* A stretch of contiguous decoding, or one odd gap: only kept when every gap was asked for. */
typedef struct ds_piece {
  uint64_t since, until; /* of an odd gap: since is the tokens that came out at its end */
  int64_t gap_ns; /* >= 0: one gap of this length instead of a stretch */
} ds_piece;

/* A long queue is far larger than the caches, and who comes next has not been touched since it arrived. So an admission
 * fetches what the one so many places later will need. */
#define DS_QUEUE_AHEAD 8
#define DS_QUEUE_LONG 256

/* What the engine knows of a request in flight, beside its ds_req_view. First what an arrival writes and its turn in the
 * queue reads; the rest holds from its first admission on. */
typedef struct ds_slot {
  int64_t arrival_ns;
  int64_t api_ns;         /* from its arrival (of this attempt) to the queue */
  int64_t kv_wait_before; /* the replica's kv_wait clock when it was queued */
  int64_t aside_kv_ns, aside_load_ns; /* how long it was set aside, or waited before that, with its cause */
  uint64_t kv_run;        /* its blocks in the free queue after a preemption */
  uint32_t kv_run_full;   /* how many of them were full */
  uint32_t part_at, n_parts, identity; /* what its tokens are: a list in ds_sim.part, and how many blocks that says */
  uint32_t shared, leaf;  /* so many of its first blocks are in the prefix index; the last run of its path there */
  uint32_t output;        /* true output tokens */
  uint32_t replica;
  uint32_t last_grant;    /* low bits of the last iteration that worked on its prompt */
  uint32_t ahead;         /* who was queued DS_QUEUE_AHEAD places behind it; a hint, and itself where there is none */
  uint32_t load_to;       /* blocks that a load will bring it to */
  uint32_t stream;        /* speculation: whose chances it has */
  uint8_t look;           /* in the tiers: DS_LOOK_... */
  bool in_inbox, gone;    /* not yet in the queue; its client has given up */
  int64_t deadline_ns;    /* when the server hears that its client has given up; DS_TIME_NEVER */

  int64_t scheduled_ns, first_token_ns, last_token_ns;
  int64_t preempted_ns;   /* when the preemption began that it has not recovered from; -1: none */
  int64_t max_gap_ns;
  int64_t since_ns;       /* when its stretch of decoding began */
  int64_t ledger[DS_LEDGER_N]; /* the replica's ledger when its stretch of decoding began */
  int64_t blame_ns[DS_CAUSE_N];
  uint32_t run_order;     /* rank in order of admission at this replica */
  uint32_t preemptions, cached_tokens;
  uint32_t need_phase;    /* while decoding: where it is counted in the replica's `need` */
  uint32_t verify_steps;  /* speculation: so far */
  ds_piece *piece;
  size_t n_piece, cap_piece;
} ds_slot;

enum { DS_LOOK_DONE, DS_LOOK_DUE, DS_LOOK_LOADING, DS_LOOK_PUT_OFF }; /* put off: until another load is over */

typedef struct ds_held { /* a request of a closed loop */
  ds_request request;
  uint64_t first_follower, next_follower; /* indices; UINT64_MAX: none */
  uint32_t retries;  /* so far */
  uint32_t waits;    /* for so many requests */
  uint32_t first_join; /* of those that wait for it beside another: 1 + place in ds_sim.join; 0: none */
  int64_t ready_ns;  /* when the last of those that it waited for was finished, so far */
} ds_held;

typedef struct ds_join {
  uint32_t follower, next; /* next: as first_join */
} ds_join;

typedef struct ds_inbox_entry {
  int64_t time_ns;
  uint32_t slot;
} ds_inbox_entry;

enum { DS_AHEAD = 4 };
typedef struct ds_current { /* the iteration in flight */
  int64_t start_ns, dt_ns;
  int64_t alone_ns;           /* what its decode rows alone would take; dt_ns less swap_ns when nothing is prefilled */
  int64_t swap_ns;            /* of dt_ns: moving KV to and from host memory first */
  uint32_t rows;              /* decode rows priced: decoding, held, resumed */
  int64_t fixed_ns[DS_PART_N]; /* of those rows: the part that context does not change, by cause */
  ds_part attention_part;     /* and the cause of the rest */
  const ds_decode_price *price; /* where both are from, while they are as there; NULL: another price */
  int64_t price_rows;
  int64_t ahead_ns[DS_AHEAD];   /* the last ahead_left of them: prices of ahead_rows at ahead_ctx, a token a row on, ... */
  int64_t ahead_rows;
  double ahead_ctx;
  uint32_t ahead_left;
  uint32_t n_grants, chunks;    /* chunks: grants that are prompt tokens */
  int64_t prefill_tokens;     /* padding included */
  int64_t own_tokens;         /* padding excluded */
  int64_t encode_ns, encode_tokens; /* of dt_ns: images, and how many tokens of them; only where prompts are in it */
  int64_t wait_ns;            /* of dt_ns: for other ranks of a group in lockstep */
  bool hold_finished, emit_at_end;
} ds_current;

typedef struct ds_near { /* near.h */
  int64_t sum;      /* over the decode rows: what they will read within reach in the next iteration */
  uint32_t growing; /* rows whose part of it grows by one */
  uint32_t *ring;   /* by iteration modulo the reach; NULL when the model has no layers of bounded reach */
} ds_near;

typedef struct ds_replica {
  uint32_t index;
  bool in_flight, plan_due;
  bool finish_due; /* the iteration in flight is settled but for the requests that it finishes */
  ds_sched_view v;       /* clock, counters and lists: kept in the form in which a policy sees them */
  ds_plan plan;          /* the policy's last one; its arrays grow in make_room */
  int64_t end_ns, wake_ns;
  int64_t tokenised_ns;  /* when the last prompt that came was tokenised */
  uint64_t planned_at;   /* iterations completed at the last plan */
  uint32_t queue_tail, swapped_tail;
  uint32_t recent[DS_QUEUE_AHEAD], n_recent; /* the last that were queued */
  int64_t swap_blocks;   /* to be moved before the next iteration */
  uint32_t n_made_way;   /* preempted at this instant by plans that then ran nothing */
  uint32_t phase;        /* iteration modulo block_tokens */
  uint32_t *need;        /* by phase: decoding requests that need a new block */
  int64_t ctx_sum;       /* KV tokens that the decode rows will read in the next iteration */
  ds_near near;
  ds_kv_pool kv;
  ds_wheel finish;       /* of decoding requests, by the iteration at which they are done */
  uint32_t *prefilling;  /* slots in running order */
  size_t cap_prefilling;
  uint32_t next_order, n_done; /* n_done: grants of the iteration that has ended whose requests have all their tokens */
  ds_current cur;
  bool *grant_decodes;   /* by grant of the plan: it is a decode row, one token left and output already begun */
  size_t cap_grant_decodes, cap_decode, cap_preempt, cap_grants, cap_order, cap_spare, cap_turned_away; /* room of it and of the plan's arrays */
  int64_t deadline_ns;   /* the first at which it must drop a request; DS_TIME_NEVER */
  ds_heap deadline;      /* of its requests, by slot; stale ones are skipped */
  /* inbox: routed, not yet in the queue */
  ds_inbox_entry *inbox;
  size_t inbox_head, n_inbox, cap_inbox;
  /* static batching: rows that are finished but still in the batch, and those that wait for its end to emit */
  int64_t held_blocks;
  int64_t held_ctx;      /* asynchronous scheduling: KV tokens of the rows that are kept by mistake, when they were */
  uint32_t ended_head;
  /* blame */
  int64_t ledger[DS_LEDGER_N];
  int64_t kv_wait_ns, kv_wait_since;
  bool kv_blocked;
  ds_maxgap maxgap;
  /* second of the run that the next token falls into */
  int64_t second_end_ns;
  ds_second *second;
  uint32_t second_in_page;
  int64_t *gap_log;      /* duration of every iteration, when every gap was asked for */
  size_t cap_gap_log;
  ds_replica_totals totals;
  ds_shape work;         /* sums over all iterations, for FLOPs, bytes and energy; contexts apart, exactly: */
  ds_wide work_ctx, work_near;
  ds_images_shape encoding, encoded; /* images of the iteration that begins, and of all */
  ds_shape drafting;      /* the same over the drafter's passes */
  uint64_t draft_passes;
  int64_t loading_blocks; /* that loads under way will bring */
  uint32_t claims_seen, leaving_seen; /* grants of the plan being made whose hits are claimed; preemptions noted */
  uint32_t outstanding, pending_least; /* for routing; least output among requests not yet decoding */
  void *policy;
} ds_replica;

typedef struct ds_tier_write { /* blocks from..to of a path are on their way, and there at ready_ns */
  int64_t ready_ns;
  uint32_t part_at, n_parts, from, to;
} ds_tier_write;
typedef struct ds_tier_store { /* one store of a tier, and the link to it, whose directions do not disturb each other */
  ds_kv_pool pool; /* with what is on its way */
  int64_t free_at_ns, written_at_ns; /* the link, of what was asked so far, and of what was sent */
  ds_tier_write *write; /* in order of ready_ns */
  size_t first_write, n_writes, cap_writes;
} ds_tier_store;
typedef struct ds_tier_state {
  int64_t blocks, block_ns, write_block_ns; /* of a store; time to load a block, and to copy one out */
  int64_t replicas, n;      /* that share a store; stores */
  ds_tier_store *store;
} ds_tier_state;

struct ds_sim {
  ds_run run;
  const ds_sched_ops *sched;
  const ds_route_ops *route;
  ds_sim_options opt;
  ds_alloc alloc;
  ds_pricer *pricer;
  ds_error *err; /* where the call in progress wants its message */
  bool closed, failed, done;
  uint32_t block_tokens;
  int64_t total_blocks;
  bool unlimited;
  int64_t reach;         /* of layers that read the nearest tokens only; 0: none */
  bool reach_chunked;
  bool oracle;           /* the policy sees true output lengths */
  bool ranked;           /* the queue is in the policy's order */
  bool turns_away;       /* the policy may turn requests away */
  int64_t swap_block_ns, host_blocks; /* swap_block_ns 0: by bytes */
  double swap_block_s;
  bool late;             /* a plan is made one iteration ahead: it does not see who arrives meanwhile */
  int64_t api_request_ns, api_token_ns;
  double tokenise_s;     /* per prompt token; a replica's front end does one prompt after the other */
  int64_t least_iteration_ns; /* no iteration is shorter */
  bool track_gap, has_slo;
  bool speculative;
  bool plain;            /* iterations may end as soon as they begin, and nothing special is kept of each */
  bool overlap;          /* the next iteration is planned while one runs */
  int64_t host_step_ns, host_request_ns; /* what that hides, per iteration and per row */
  ds_replica *replica;
  size_t n_replicas, group; /* ranks count as replicas; group of them go in lockstep */
  void *route_state;
  uint32_t *outstanding, *tournament;
  ds_heap due;           /* key: earliest time at which a replica's outstanding count may fall; id: replica */
  uint64_t *due_key;     /* the live key of each replica in it */
  /* requests in flight */
  ds_req_view *view;
  ds_slot *slot;
  ds_wheel_link *link;
  size_t cap_link, cap_view, cap_slots, n_slots;
  uint32_t free_slot;    /* list through view.next */
  ds_image_view *image;  /* of requests in flight that have any; the place of the next free one is in `at` */
  size_t n_image, cap_image;
  uint32_t free_image;   /* 1 + place; 0: none */
  int64_t encoder_budget;
  double api_image_token_s; /* before the queue: decoding a picture, scaling it, cutting it into patches */
  ds_tier_state tier[DS_TIERS_MAX];
  bool in_order;         /* replicas see what others do, and when: no event of one before an earlier one of another */
  /* prefix cache: identities of requests fed and not finished */
  bool use_index;
  ds_kv_part *part, *part_scratch;
  size_t n_part, cap_part, cap_part_scratch;
  uint32_t free_parts[32]; /* by power of two: 1 + place of the first free list */
  /* closed loop: every request by index, when each arrived, and who is on its way */
  ds_held *held;
  int64_t *arrival_ns;
  size_t cap_held, cap_arrival;
  ds_join *join;
  size_t n_join, cap_join;
  ds_heap released;
  ds_heap give_up; /* deadlines of clients that may ask again, or let another in */
  uint64_t next_uncapped;
  bool started;
  int64_t lease_until_ns; /* no lease lasts beyond; DS_TIME_NEVER in an open loop */
  /* fed, not yet routed */
  ds_request *pending;
  size_t pending_head, n_pending, cap_pending;
  uint64_t n_fed, n_routed;
  int64_t start_ns;      /* first arrival */
  int64_t horizon_ns;    /* everything before it is known */
  ds_second *arrival_second;
  int64_t arrival_second_end_ns;
  int64_t events_left;
  /* results */
  int64_t *ttft_ns, *e2e_ns, *queue_ns;
  uint32_t *outputs;
  size_t cap_ttft, cap_e2e, cap_queue, cap_outputs;
  ds_record *records;
  size_t cap_records;
  int64_t *gaps_ns;
  size_t n_gaps, cap_gaps;
  int64_t blame_ns[DS_CAUSE_N], blamed_ns; /* of requests finished since the last ds_blame_settle */
  uint32_t *chunk_tokens; /* beside gaps_ns, with speculation */
  size_t cap_chunk_tokens;
  ds_gaps itl;
  ds_seconds seconds;
  ds_occupancy occupancy;
  ds_result result;
  ds_replica_totals *totals;
  ds_spec_totals *stream_speculation;
  /* log of iterations */
  uint64_t *log;
  size_t log_head, n_log, cap_log;
};

/* replica.c: time */
ds_status ds_replica_advance(ds_sim *s, ds_replica *r, int64_t until_ns);
int64_t ds_replica_next_ns(const ds_sim *s, const ds_replica *r); /* time of its next event; DS_TIME_NEVER */
bool ds_replica_ends(const ds_sim *s, const ds_replica *r); /* that event is the end of an iteration */
/* iteration.c: begin and end of one iteration */
ds_status ds_iteration_begin(ds_sim *s, ds_replica *r, const ds_plan *plan);
ds_status ds_iteration_end(ds_sim *s, ds_replica *r);
ds_status ds_iteration_plain(ds_sim *s, ds_replica *r, int64_t until_ns, bool *did); /* both at once, where ds_sim.plain */
/* lease.c: as many decode iterations as nothing changes. Requests that arrive from horizon_ns on end it; what happens
 * after until_ns must not be seen yet. */
ds_status ds_lease_run(ds_sim *s, ds_replica *r, const ds_plan *plan, int64_t until_ns, int64_t horizon_ns);
/* batch.c: requests between queue, running set and free (the lists themselves: lists.h) */
ds_status ds_prefilling_insert(ds_sim *s, ds_replica *r, uint32_t slot);
void ds_prefilling_remove(ds_replica *r, uint32_t slot);
ds_status ds_decode_enter(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_decode_leave(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_preempt(ds_sim *s, ds_replica *r, uint32_t slot);
/* encoder.c: images; but for the first and last only for requests that have any */
ds_status ds_encoder_take(ds_sim *s, const ds_request *a, uint32_t *images);
/* A request that cannot be: what, the number found, and the limit with its number. */
ds_status ds_refuse(ds_error *err, uint64_t index, const char *what, int64_t found, const char *limit, int64_t at_most);
int64_t ds_encoder_api_ns(const ds_sim *s, uint32_t slot); /* of its images, before the queue */
void ds_encoder_grant(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t tokens);
void ds_encoder_price(ds_sim *s, ds_replica *r);
void ds_encoder_computed(ds_sim *s, ds_replica *r, uint32_t slot);
void ds_encoder_forget(ds_sim *s, ds_replica *r, uint32_t slot);
void ds_encoder_free(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_encoder_check(const ds_sim *s, const ds_request *r, uint64_t index, ds_error *err);
/* cache.c: the prefix cache */
ds_status ds_identity_take(ds_sim *s, ds_request *r);
void ds_identity_free(ds_sim *s, uint32_t at, uint32_t n);
ds_status ds_identity_copy(ds_sim *s, uint32_t at, uint32_t n, uint32_t *copy);
ds_status ds_swap_out(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_swap_in(ds_sim *s, ds_replica *r, uint32_t slot);
void ds_queue_insert(ds_sim *s, ds_replica *r, uint32_t slot);
uint32_t ds_cached_tokens(const void *sim, uint32_t slot, const ds_plan *so_far, int64_t new_blocks);
uint32_t ds_common_tokens(const void *sim, uint32_t a, uint32_t b);
uint32_t ds_cached_hit(const void *sim, uint32_t slot, const ds_plan *so_far, int64_t new_blocks, uint32_t *held_tokens);
int64_t ds_cache_freed(const void *sim, uint32_t slot, const ds_plan *so_far);
ds_status ds_cache_take_hit(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t tokens);
void ds_cache_count(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_cache_computed(ds_sim *s, ds_replica *r, uint32_t slot, uint64_t tokens); /* so many tokens have KV now */
ds_status ds_cache_give_back(ds_sim *s, ds_replica *r, uint32_t slot, bool comes_back);
ds_status ds_cache_leave(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t *own); /* the path only; own: what it still holds */
/* tier.c: memory behind the replica's own */
ds_status ds_tiers_init(ds_sim *s, ds_error *err);
void ds_tiers_free(ds_sim *s);
ds_status ds_tiers_keep(ds_sim *s, ds_replica *r, uint32_t slot);
ds_status ds_tiers_look(ds_sim *s, ds_replica *r, uint32_t slot, int64_t t_ns, int64_t *ready_ns, bool *fits);
ds_status ds_tiers_loaded(ds_sim *s, ds_replica *r, uint32_t slot);
#ifdef DS_CHECKING
void ds_cache_check(const ds_sim *s, const ds_replica *r);
#endif
int64_t ds_replica_due_ns(const ds_replica *r); /* of one that is not in flight: when it may plan next */
ds_status ds_replica_plan_at(ds_sim *s, ds_replica *r, int64_t t_ns, int64_t until_ns);
/* lockstep.c: ranks that begin and end iterations together */
ds_status ds_group_advance(ds_sim *s, const ds_replica *rank, int64_t until_ns);
int64_t ds_group_next_ns(const ds_sim *s, const ds_replica *rank);
/* overlap.c: asynchronous scheduling */
void ds_overlap_begin(ds_sim *s, ds_replica *r, const ds_plan *plan);
ds_status ds_overlap_drop(ds_sim *s, ds_replica *r);
/* speculate.c: drafts */
void ds_spec_view(const ds_sim *s, ds_replica *r);
void ds_spec_price(ds_sim *s, ds_replica *r, ds_shape *shape); /* decode rows of an iteration with drafts */
ds_status ds_spec_verify(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t drafts, uint32_t *extra);
/* finish.c: results */
ds_status ds_request_finish(ds_sim *s, ds_replica *r, uint32_t slot, int64_t end_ns);
void ds_blame_settle(ds_sim *s);
ds_status ds_request_odd_gap(ds_sim *s, ds_slot *q, int64_t gap_ns);
ds_status ds_count_second(ds_sim *s, ds_replica *r, int64_t end_ns);
void ds_kv_read(ds_sim *s, const ds_replica *r, int64_t dt_ns, int64_t end_ns, int64_t blocks, int64_t ctx);
void ds_slot_free(ds_sim *s, ds_replica *r, uint32_t slot);
/* timeout.c: clients that give up */
ds_status ds_deadline_set(ds_sim *s, ds_replica *r, uint32_t slot, int64_t sent_ns);
void ds_deadline_refresh(ds_sim *s, ds_replica *r);
ds_status ds_drop_due(ds_sim *s, ds_replica *r, int64_t t_ns);
bool ds_finishes_late(const ds_sim *s, const ds_slot *q, int64_t finish_ns);
ds_status ds_finish_late(ds_sim *s, ds_replica *r, uint32_t slot);
int64_t ds_give_up_next_ns(ds_sim *s);
ds_status ds_give_up_first(ds_sim *s);
ds_status ds_attempt_failed(ds_sim *s, uint32_t slot, int64_t t_ns, ds_failure why);
/* turn_away.c: servers that answer with an error */
ds_status ds_turn_away(ds_sim *s, ds_replica *r, uint32_t slot, int64_t t_ns);
ds_status ds_turn_away_planned(ds_sim *s, ds_replica *r);
bool ds_refused(ds_sim *s, ds_replica *r, uint32_t slot);
/* dispatch.c: arrivals, and which replicas must catch up for them */
ds_status ds_inbox_push(ds_sim *s, ds_replica *r, ds_inbox_entry e);
ds_status ds_inbox_insert(ds_sim *s, ds_replica *r, ds_inbox_entry e); /* of any time */
void ds_route_init(ds_sim *s);
ds_status ds_route_pending(ds_sim *s);
ds_status ds_route_request(ds_sim *s, const ds_request *a, uint64_t index);
ds_status ds_advance_in_order(ds_sim *s, int64_t until_ns);
/* closed.c: arrivals that depend on completions */
ds_status ds_closed_hold(ds_sim *s, const ds_request *r, size_t n);
ds_status ds_closed_finished(ds_sim *s, uint64_t index, int64_t finish_ns);
ds_status ds_closed_again(ds_sim *s, uint64_t index, int64_t t_ns);
ds_status ds_closed_run(ds_sim *s);
/* log.c: --steps */
ds_status ds_log_step(ds_sim *s, const ds_replica *r, const ds_plan *plan);

/* Put the time of n decode iterations to its causes: the constant part n times, the rest to attention. Each entry is
 * written once and as a whole: a wide load of what two stores wrote waits for both. */
static DS_ALWAYS_INLINE void ds_ledger_rows(int64_t ledger[DS_LEDGER_N], const int64_t fixed_ns[DS_PART_N], ds_part attention,
                                            int64_t total_ns, int64_t n) {
  int64_t rest = total_ns - n * (fixed_ns[DS_PART_MEMORY] + fixed_ns[DS_PART_COMPUTE] + fixed_ns[DS_PART_COMM] + fixed_ns[DS_PART_HOST]);
  int64_t computes = attention == DS_PART_COMPUTE ? rest : 0, sends = attention == DS_PART_COMM ? rest : 0;
  ledger[DS_PART_MEMORY] += n * fixed_ns[DS_PART_MEMORY] + (rest - computes - sends);
  ledger[DS_PART_COMPUTE] += n * fixed_ns[DS_PART_COMPUTE] + computes;
  ledger[DS_PART_COMM] += n * fixed_ns[DS_PART_COMM] + sends;
  ledger[DS_PART_HOST] += n * fixed_ns[DS_PART_HOST];
}

/* Clock of time spent with the queue's head blocked on KV. */
static inline int64_t ds_kv_wait_at(const ds_replica *r, int64_t t_ns) {
  return r->kv_wait_ns + (r->kv_blocked ? t_ns - r->kv_wait_since : 0);
}

/* Counters of a decoding request as of now. */
static inline uint32_t ds_emitted_now(const ds_replica *r, const ds_req_view *v) {
  return v->emitted + (v->phase == DS_PHASE_DECODE ? (uint32_t)(r->v.iteration - v->since) : 0);
}

#endif
