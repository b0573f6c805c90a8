// SPDX-License-Identifier: Apache-2.0
/* The simulation: pull, never call back. new -> (feed, step)* -> close -> step until done -> result -> free.
 *
 * The caller owns the loop, the progress bar and the log. Time is int64 nanoseconds from the earliest arrival.
 * A run is a function of (run, requests in order, program version): no clock, locale, environment or thread count.
 * Errors leave the simulation in a state where only ds_sim_free is allowed. One ds_sim belongs to one thread. */
#ifndef DS_ENGINE_SIM_H
#define DS_ENGINE_SIM_H

#include "base/alloc.h"
#include "engine/result.h"
#include "engine/route.h"
#include "engine/sched.h"
#include "kv/span.h"

typedef struct ds_request {
  int64_t arrival_ns;
  uint32_t input_tokens, output_tokens; /* both >= 1 */
  uint32_t max_tokens;                  /* what a scheduler may believe; >= output_tokens */
  int32_t priority;
  uint64_t after;   /* 0, or 1 + the index of the request that must be finished first: arrival_ns is then the earliest */
  int64_t think_ns; /* pause between that (or, under a concurrency cap, a free seat) and this arrival */
  const ds_span *spans; /* what its tokens are (kv/span.h); NULL: its own. Read by ds_sim_feed, which copies them */
  uint32_t n_spans;
  uint32_t span_tokens; /* how many of its first tokens they speak for: at most input + output; 0: as many as they hold */
  uint32_t tenant;  /* a number that tells tenants apart; 0: nobody is named */
  uint32_t images, image_tokens, image_at; /* images: how many; their tokens in all, among the input's, from this one on */
  uint32_t stream;  /* which of several workloads it is of, from 0 */
} ds_request;

typedef struct ds_sim_options {
  bool no_lease;    /* step one iteration at a time: the same bits, slower */
  bool eager;       /* bring every replica up to date at every event: the same bits, slower */
  bool records;     /* keep a ds_record per request */
  bool gaps;        /* keep every inter-token gap (with records) */
  bool steps;       /* log every iteration (implies no_lease and eager order) */
  bool exact_itl;   /* keep every gap for exact ITL percentiles, however many */
  bool closed_loop; /* requests may name one that they follow; all must be fed before the first step */
  uint64_t concurrency; /* with closed_loop: so many in flight, each completion admits the next; 0: no cap */
  bool occupancy;   /* read the KV pools at every full second */
  bool max_gap;     /* track each request's longest gap (implied by records and by an ITL limit) */
} ds_sim_options;

/* One engine iteration, for --steps. Lists follow the header in the step buffer: prefill (index, tokens) pairs,
 * then decode indices, then preempted indices, all uint64 request indices. */
typedef struct ds_step {
  int64_t start_ns, end_ns;
  uint32_t replica;
  uint64_t prefill_tokens, decode_seqs; /* priced: padding and held rows included */
  uint32_t n_prefill, n_decode, n_preempted;
  int64_t free_blocks; /* after scheduling this step; -1: unlimited */
  const uint64_t *lists;
} ds_step;

typedef struct ds_sim ds_sim;

/* Copies what it needs of run. Prices memory (kv_blocks auto) and checks the run. */
ds_status ds_sim_new(const ds_run *run, const ds_sched_ops *sched, const ds_route_ops *route, const ds_sim_options *opt,
                     const ds_alloc *a, ds_sim **out, ds_error *err);
void ds_sim_free(ds_sim *s);

/* Before the first feed: every replica has seen these requests, in this order, and done with them. */
ds_status ds_sim_warm(ds_sim *s, const ds_request *r, size_t n, ds_error *err);

/* Append requests, arrival_ns non-decreasing over all calls. DS_E_INPUT (err->request says which) when one can never
 * run: larger than the KV pool, than max_model_len, or refused by the policy. */
ds_status ds_sim_feed(ds_sim *s, const ds_request *r, size_t n, ds_error *err);

/* Of a closed loop, before the first step: this request waits for that one, too, beside the one that it names in `after`
 * (if it names none, nothing is added), and its pause begins when the last of them is finished. The caller sees to it that
 * nobody waits for himself in the end. */
ds_status ds_sim_join(ds_sim *s, uint64_t follower, uint64_t on, ds_error *err);

/* Run everything that is decided by what was fed so far (all events before the last fed arrival; everything once
 * closed), at most about max_events iterations. *more is false when nothing is left to do for now. */
ds_status ds_sim_step(ds_sim *s, uint64_t max_events, bool *more, ds_error *err);
void ds_sim_close(ds_sim *s);

/* Take the next logged iteration, in order of (start, replica); false when none is left. Valid until the next call. */
bool ds_sim_next_step(ds_sim *s, ds_step *out);

/* Complete once closed and stepped to the end. */
const ds_result *ds_sim_result(const ds_sim *s);
const ds_memory *ds_sim_memory(const ds_sim *s);

/* For a progress bar: simulated time reached, requests finished. */
void ds_sim_progress(const ds_sim *s, int64_t *now_ns, uint64_t *finished);

#endif
