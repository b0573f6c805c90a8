// SPDX-License-Identifier: GPL-3.0-or-later
/* Every figure that a report shows, computed once from the result's columns. Definitions are those
 * of vLLM's `vllm bench serve` where it has the name; milliseconds, as there. */
#ifndef DS_REPORT_SUMMARY_H
#define DS_REPORT_SUMMARY_H

#include "report/bounds.h"
#include "report/flow.h"

/* Mean and std (population) over the samples, percentiles linear; all 0 when there are none, as
 * vLLM has it. */
typedef struct ds_dist {
  size_t count;
  double mean, std, p50, p90, p95, p99, max;
} ds_dist;

typedef struct ds_verdict { /* one limit of slo.run */
  ds_slo_limit limit;
  double value_ms;
  bool met;
  bool has_interval; /* 95 % interval of the percentile from the order statistics of this run's
                        samples */
  double low_ms, high_ms;
  size_t windows, windows_met; /* slo.window: windows with samples; 0: not judged by window */
  double worst_ms;
} ds_verdict;

typedef struct ds_summary {
  uint64_t submitted, completed, failed, rejected, timed_out, input_tokens,
      output_tokens; /* failed: all that did not complete */
  uint64_t oversize, turned_away; /* of rejected: before the engine, and by the server */
  double duration_s; /* first arrival (dispatch) to last finish */
  double request_throughput, input_throughput, output_throughput, total_throughput;
  bool has_limits; /* any limit per request: goodput is defined */
  double request_goodput, slo_attainment, slo_attainment_completed;
  ds_dist ttft, tpot, itl, e2el, queue, normalized;
  double mean_interactivity, median_interactivity, p1_interactivity, p10_interactivity;
  double mean_prefill_ms, mean_decode_ms,
      mean_inference_ms; /* from first scheduled, and from first token */
  double max_itl_ms;
  uint64_t max_output_tokens_per_s;
  ds_flow flow;
  bool saturated;
  ds_settling settling;

  int64_t gpus;           /* of all replicas */
  bool kv_known;          /* the pool is limited, so that shares of it mean something */
  double kv_mean, kv_max; /* share of blocks in use: over busy time, and the peak of any replica */
  double batch_mean, tokens_per_step, busy_fraction;
  double busy_share[DS_PART_N],
      encoder_share,      /* of busy time: encoding images, */
      prefill_share;      /* of busy time: decode by cause, and what prefill tokens added */
  const char *bottleneck; /* NULL when nothing ran */
  bool has_price, has_energy;
  double usd, usd_per_m_output, usd_per_m_total; /* at the card's price */
  double energy_j;
  ds_bounds bounds;

  ds_verdict verdict[DS_SLO_RUN_MAX];
  size_t n_verdicts;
  bool attainment_met; /* true when none is asked for */
  bool slo_met;        /* every run limit and the attainment */
} ds_summary;

/* Limits for one request, when a scenario has only limits for the run: each request is then held to
 * the same values (the least per metric). Call before the run; leaves stated limits alone. */
void ds_slo_complete(ds_slo *slo);

/* oversize: requests that never came to the engine; they count as submitted, rejected and failed.
 * False when out of memory. */
bool ds_summary_of(const ds_run *run, const ds_result *r, const ds_arrivals *a, uint64_t oversize,
                   ds_summary *out);

/* Judge only the SLO of a result (for re-runs at other rates): *worst is the metric that broke, or
 * DS_METRIC_N. Without run limits or an attainment, 99 % of the requests must meet their limits. */
bool ds_slo_holds(const ds_run *run, const ds_result *r, bool *holds, ds_metric_id *worst);
#define DS_ATTAINMENT_DEFAULT 0.99

/* 0-based ranks [*low, *high] of the order statistics that enclose the pct-th percentile of the
 * population with at least 95 % (2.5 % on either side), from the binomial distribution; false when
 * n is too small for that. */
bool ds_rank_interval(size_t n, double pct, size_t *low, size_t *high);

/* ttft, tpot, itl, e2el, queue_time. */
const char *ds_metric_name(ds_metric_id m);
/* TTFT, TPOT, ITL, E2E, queue. */
const char *ds_metric_title(ds_metric_id m);

#endif
