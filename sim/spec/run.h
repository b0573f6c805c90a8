// SPDX-License-Identifier: Apache-2.0
/* Everything that decides a run, besides the requests: plain values, nothing to free. */
#ifndef DS_SPEC_RUN_H
#define DS_SPEC_RUN_H

#include "base/status.h"
#include "spec/hardware.h"
#include "spec/model.h"
#include "spec/speculation.h"

typedef enum ds_cost_tier { DS_COST_ROOFLINE, DS_COST_SPEED_OF_LIGHT, DS_COST_LINEAR } ds_cost_tier;

typedef struct ds_linear { /* seconds: step + prefill_token x P + decode_sequence x D + draft_token x drafts + image_token x encoded tokens */
  double step_s, prefill_token_s, decode_sequence_s, draft_token_s;
  double scheduling_s;  /* of the host, per iteration */
  double image_token_s; /* of encoding, for each token of an image */
} ds_linear;

typedef enum ds_eviction { DS_EVICT_LRU, DS_EVICT_LFU, DS_EVICT_FIFO } ds_eviction;

typedef enum ds_role { DS_ROLE_UNIFIED, DS_ROLE_PREFILL, DS_ROLE_DECODE } ds_role;

#define DS_POLICY_CONFIG_BYTES 512
/* A policy's own options, laid out by its ds_param table. Aligned for int64 and double. */
typedef union ds_policy_config {
  unsigned char bytes[DS_POLICY_CONFIG_BYTES];
  int64_t align_i;
  double align_d;
} ds_policy_config;

typedef struct ds_pool {
  char name[DS_NAME_MAX];
  ds_role role;
  ds_hw hw;
  ds_engine_card engine;
  int64_t replicas, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel;
  char scheduler[DS_NAME_MAX];
  ds_policy_config scheduler_config;
  int64_t max_model_len;   /* tokens; 0: no limit stated */
  int64_t kv_blocks;       /* usable blocks per replica; 0: from the memory footprint; DS_KV_UNLIMITED */
  int64_t kv_block_tokens;
  double memory_utilization;
  bool prefix_cache, warm_cache; /* warm: the workload's prefixes are resident at the start */
  ds_eviction eviction;    /* which cached blocks go first */
  ds_speculation speculative;
  bool attention_8bit;       /* attention multiplies in 8 bit (fp8 or int8) where the cache is 8 bit */
  bool two_batch_overlap;    /* halves of a batch take turns: one computes while the other communicates */
  int64_t redundant_experts; /* copies of busy experts, which even out the load */
  double power_cap_w;        /* per device; 0: none */
  bool encoder_by_image;     /* every rank has the whole encoder of images, and encodes its share of them; else they split it */
  bool language_model_only;  /* the encoder of images is not loaded, and no request may have any */
  /* From the scheduler's options, copied here by the caller because memory and price depend on them. */
  int64_t max_num_seqs, max_num_batched_tokens;
} ds_pool;

#define DS_KV_UNLIMITED INT64_MAX
#define DS_REACH_MAX 1048576 /* longest window that the engine counts, tokens */

/* Limits for one request; 0: no limit. Good = meets all, inclusive. */
typedef struct ds_slo_request {
  int64_t ttft_ns, tpot_ns, itl_ns, e2e_ns;
} ds_slo_request;

#define DS_SLO_RUN_MAX 16
typedef enum ds_metric_id { DS_METRIC_TTFT, DS_METRIC_TPOT, DS_METRIC_ITL, DS_METRIC_E2E, DS_METRIC_QUEUE, DS_METRIC_N } ds_metric_id;
typedef struct ds_slo_limit { /* percentile of metric <= limit_ns; percentile 0 means the mean */
  ds_metric_id metric;
  double percentile;
  int64_t limit_ns;
} ds_slo_limit;
typedef struct ds_slo {
  ds_slo_request request;
  ds_slo_limit run[DS_SLO_RUN_MAX];
  int64_t n_run;
  double attainment; /* 0: not asked */
  int64_t window_ns; /* 0: the whole run only */
} ds_slo;

/* Memory behind a replica's own, in which KV blocks survive their eviction. */
typedef enum ds_tier_scope { DS_TIER_REPLICA, DS_TIER_NODE, DS_TIER_CLUSTER } ds_tier_scope;
typedef enum ds_tier_fetch { DS_FETCH_AUTO, DS_FETCH_ALWAYS, DS_FETCH_NEVER } ds_tier_fetch; /* auto: if faster */
typedef struct ds_tier {
  char name[DS_NAME_MAX];
  ds_tier_scope scope;   /* who shares one store and its link */
  ds_tier_fetch fetch;
  double capacity_bytes; /* of one store; 0: blocks counts */
  int64_t blocks;
  double bytes_per_s;    /* of its link; 0: block_ns counts */
  int64_t block_ns, latency_ns;
  double write_bytes_per_s; /* towards it, beside what is loaded: a direction of its own; 0: write_block_ns counts */
  int64_t write_block_ns;
} ds_tier;
#define DS_TIERS_MAX 2

/* When clients give up, and whether they ask again. As the server sees it: an answer that ends later than timeout_ns
 * after it was asked for is in vain, and the server hears of that notice_ns later (the round trip). */
typedef struct ds_patience {
  int64_t timeout_ns, notice_ns; /* timeout 0: they wait for ever */
  int64_t retries;               /* further attempts */
  int64_t backoff_ns, backoff_max_ns; /* pause before the first retry; no pause is longer (0: no limit) */
  double backoff_factor;         /* each pause so many times the one before; 1: fixed */
  double jitter;                 /* a pause is shortened by up to this share of it, at random */
} ds_patience;

typedef struct ds_run {
  ds_model model;
  ds_format weights, kv_cache;
  ds_format expert_weights; /* of a mixture's experts */
  ds_cost_tier cost_tier;
  ds_linear linear;
  ds_pool pool; /* one pool for now; disaggregation brings the array */
  char router[DS_NAME_MAX];
  ds_policy_config router_config;
  ds_slo slo;
  ds_tier tier[DS_TIERS_MAX]; /* fastest first */
  int64_t n_tiers;
  ds_patience patience;
  uint64_t seed;
} ds_run;

/* Check what can be checked without a policy or a trace: positive counts, divisibility of heads and layers by the
 * parallelism, finite numbers. The message names the scenario key (e.g. "pools.main.tensor_parallel: ..."). */
ds_status ds_run_validate(const ds_run *run, ds_error *err);

#endif
