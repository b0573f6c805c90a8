// SPDX-License-Identifier: Apache-2.0
/* What a run yields: columns per request, totals, histograms. Owned by the ds_sim; valid until it is freed. */
#ifndef DS_ENGINE_RESULT_H
#define DS_ENGINE_RESULT_H

#include "base/wide.h"
#include "cost/memory.h"
#include "cost/price.h"
#include "kv/cache_stats.h"
#include "metric/gaps.h"
#include "metric/occupancy.h"
#include "metric/seconds.h"

/* Causes of latency; every nanosecond of a request goes to exactly one. Order is that of the output columns. */
typedef enum ds_cause {
  DS_CAUSE_CLIENT, DS_CAUSE_API, DS_CAUSE_ADMISSION, DS_CAUSE_RETRY, DS_CAUSE_COLD_START,
  DS_CAUSE_QUEUE, DS_CAUSE_KV_WAIT, DS_CAUSE_KV_LOAD, DS_CAUSE_PREFILL_OWN, DS_CAUSE_PREFILL_OTHERS,
  DS_CAUSE_DECODE_MEMORY, DS_CAUSE_DECODE_COMPUTE, DS_CAUSE_COMMUNICATION, DS_CAUSE_HOST,
  DS_CAUSE_PREEMPTED, DS_CAUSE_TRANSFER,
  DS_CAUSE_ENCODER, /* its images; stands in outputs only where there are any */
  DS_CAUSE_N,
  DS_CAUSE_OF_TEXT = DS_CAUSE_ENCODER /* so many come before it */
} ds_cause;
/* client, api, admission, ... as in the columns blame_<cause>_ms. */
const char *ds_cause_name(ds_cause c);

/* Why there is no answer: its client gave up for good, or the server turned its last attempt away. */
typedef enum ds_failure { DS_FAILED_NOT, DS_FAILED_TIMEOUT, DS_FAILED_TURNED_AWAY } ds_failure;
#define DS_TTFT_TURNED_AWAY (-1) /* in the column of times to the first token */

/* One row per request, only when ds_sim_options.records is set. Times are absolute nanoseconds of the run. */
typedef struct ds_record {
  uint64_t index; /* order of arrival in the trace */
  int64_t arrival_ns, scheduled_ns, first_token_ns, finish_ns;
  int64_t max_itl_ns; /* 0 when it emitted one token */
  uint32_t input_tokens, output_tokens, cached_tokens, preemptions, replica;
  uint32_t failed;    /* ds_failure; where it is not 0, times and blame say nothing */
  uint32_t retries;   /* attempts after the first */
  uint32_t images, image_tokens;
  uint32_t n_chunks;  /* gap list entries: see itl_first */
  uint64_t itl_first; /* index into gaps_ns of its first gap; n = output_tokens - 1 (0 when emitted at once) */
  int64_t blame_ns[DS_CAUSE_N];
} ds_record;

typedef struct ds_cache_totals { /* the prefix cache; prompts count when first admitted */
  uint64_t asked_tokens, asked_blocks, asked_requests; /* blocks: whole ones */
  uint64_t hit_tokens, hit_blocks, hit_requests;
  ds_kv_stats blocks;
  int64_t resident_blocks; /* in the index at the end */
} ds_cache_totals;
/* Speculative decoding. A draft is one proposal of a request in one iteration, of one or more tokens. */
typedef struct ds_spec_totals {
  uint64_t drafts, draft_tokens, accepted_tokens;
  uint64_t accepted_at[DS_DRAFTS_MAX]; /* by position: proposals that were accepted up to here */
} ds_spec_totals;

typedef struct ds_tier_totals {
  uint64_t loads, loaded_blocks, stored_blocks;
  uint64_t recomputed_blocks; /* there, but computed again because that was faster */
  int64_t load_ns;
  uint64_t lost_blocks;      /* not copied out in time: their memory was used again before the link had come to them */
  int64_t store_ns;
} ds_tier_totals;

typedef struct ds_replica_totals {
  uint64_t iterations, decode_iterations, leased_iterations, leases;
  uint64_t prefill_tokens, decode_tokens, recomputed_tokens, preemptions;
  int64_t busy_ns;          /* iterations in progress */
  int64_t last_end_ns;
  ds_wide batch_ns;         /* integral of running rows over busy time */
  ds_wide kv_block_ns;      /* integral of used blocks over busy time */
  ds_wide token_ns;         /* integral of tokens with KV of running requests, taken to grow evenly while they decode */
  int64_t kv_peak_blocks;
  ds_cache_totals cache;
  ds_tier_totals tier[DS_TIERS_MAX];
  int64_t part_ns[DS_PART_N];    /* busy time of decode work by cause */
  int64_t prefill_ns;            /* busy time that prefill tokens added */
  double flops, bytes;      /* per device */
  uint64_t images, image_tokens; /* that were encoded */
  uint64_t encoder_runs;    /* iterations in which some were */
  int64_t encoder_ns;       /* busy time of the encoder: in none of the others */
  ds_spec_totals speculation;
  uint64_t wasted_decode_slots; /* asynchronous scheduling: rows that ran once more for nothing */
} ds_replica_totals;

typedef struct ds_result {
  uint64_t submitted, completed;
  uint64_t good;            /* met every per-request limit */
  uint64_t miss_ttft, miss_tpot, miss_itl, miss_e2e; /* how many broke each limit */
  uint64_t input_tokens, output_tokens; /* of completed requests */
  int64_t begin_ns; /* of the run; first_arrival_ns lies later when a warm-up has been left out */
  int64_t first_arrival_ns, last_arrival_ns, last_finish_ns;
  /* Columns in order of arrival, one entry per submitted request. */
  size_t n;
  const int64_t *ttft_ns, *e2e_ns, *queue_ns;
  const int64_t *arrival_ns; /* when they arrived; NULL unless closed_loop: then as fed */
  const uint32_t *outputs;  /* output tokens, 0 when it failed; TPOT = (e2e - ttft) / (outputs - 1) */
  const ds_record *records; /* NULL unless asked for */
  const int64_t *gaps_ns;   /* NULL unless asked for */
  const uint32_t *chunk_tokens; /* tokens that came out at the end of each of those gaps; NULL: always one */
  const ds_gaps *itl;       /* inter-token gaps of all requests */
  const ds_seconds *seconds; /* per-second counters */
  const ds_occupancy *occupancy; /* KV in use over time; NULL unless asked for */
  ds_wide blame_ns[DS_CAUSE_N]; /* over completed requests: sums of centuries in a long queue */
  uint64_t num_preemptions, recomputed_tokens, cached_tokens;
  /* Requests without an answer: given up by their clients for good, turned away by the server; attempts in vain, attempts
   * made again, tokens that came out in vain. */
  uint64_t timed_out, turned_away, vain_attempts, retries, partial_output_tokens;
  ds_spec_totals speculation;
  const ds_spec_totals *stream_speculation; /* by stream of requests; NULL unless the run has n_streams of them */
  uint64_t identified; /* requests that said what their tokens are, so that they may share */
  bool with_images;      /* some request brought any: what there is to say of them stands in outputs */
  uint64_t images, image_tokens; /* of completed requests, the latter among input_tokens */
  uint64_t wasted_decode_slots;
  ds_memory memory;
  uint64_t iterations, decode_iterations, leased_iterations;
  size_t n_replicas;
  const ds_replica_totals *replicas;
} ds_result;

/* So many causes stand in outputs. */
static inline int ds_causes_shown(const ds_result *r) { return r->with_images ? DS_CAUSE_N : DS_CAUSE_OF_TEXT; }
static inline uint64_t ds_failed(const ds_result *r) { return r->timed_out + r->turned_away; }

#endif
