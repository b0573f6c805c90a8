// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "metric/select.h"
#include "study/driver.h"

static const char *const metric_names[] = {"ttft", "tpot", "itl", "e2el", "queue_time"};
static const char *const metric_titles[] = {"TTFT", "TPOT", "ITL", "E2E", "queue"};
const char *ds_metric_name(ds_metric_id m) { return m < DS_METRIC_N ? metric_names[m] : "?"; }
const char *ds_metric_title(ds_metric_id m) { return m < DS_METRIC_N ? metric_titles[m] : "?"; }

static int64_t least_limit(const ds_slo *slo, ds_metric_id m) {
  int64_t least = 0;
  for (int64_t i = 0; i < slo->n_run; i++)
    if (slo->run[i].metric == m && (least == 0 || slo->run[i].limit_ns < least))
      least = slo->run[i].limit_ns;
  return least;
}

static bool any_request_limit(const ds_slo_request *q) {
  return q->ttft_ns > 0 || q->tpot_ns > 0 || q->itl_ns > 0 || q->e2e_ns > 0;
}

void ds_slo_complete(ds_slo *slo) {
  if (any_request_limit(&slo->request)) return;
  slo->request.ttft_ns = least_limit(slo, DS_METRIC_TTFT);
  slo->request.tpot_ns = least_limit(slo, DS_METRIC_TPOT);
  slo->request.itl_ns = least_limit(slo, DS_METRIC_ITL);
  slo->request.e2e_ns = least_limit(slo, DS_METRIC_E2E);
}

bool ds_rank_interval(size_t n, double pct, size_t *low, size_t *high) {
  if (n < 2 || !(pct > 0 && pct < 100)) return false;
  double q = pct / 100, odds = q / (1 - q), nd = (double)n;
  /* Weights of Bin(n, q) relative to the mode, outwards until they vanish: no logarithm, no
   * underflow. */
  size_t mode = (size_t)((nd + 1) * q);
  if (mode > n) mode = n;
  double total = 1, w = 1, first_w = 1, last_w = 1;
  size_t first = mode, last = mode;
  for (size_t k = mode; k > 0; k--) {
    w *= (double)k / (nd - (double)k + 1) / odds;
    if (w < 1e-17) break;
    total += w;
    first = k - 1;
    first_w = w;
  }
  w = 1;
  for (size_t k = mode; k < n; k++) {
    w *= (nd - (double)k) / ((double)k + 1) * odds;
    if (w < 1e-17) break;
    total += w;
    last = k + 1;
    last_w = w;
  }
  /* [x(l), x(u)], 1-based, covers with P(l <= X < u): cut at most 2.5 % on either side. */
  double tail = 0.025 * total, sum = first_w;
  size_t l = first;
  for (w = first_w; sum <= tail; sum += w) {
    w *= (nd - (double)l) / ((double)l + 1) * odds;
    l++;
  }
  size_t u = last;
  sum = last_w;
  for (w = last_w; sum <= tail; sum += w) {
    w *= (double)u / (nd - (double)u + 1) / odds;
    u--;
  }
  if (l < 1 || u + 1 > n) return false;
  *low = l - 1;
  *high = u;
  return true;
}

static double value_ms(const ds_result *r, ds_metric_id m, size_t i) {
  if (m == DS_METRIC_TTFT) return (double)r->ttft_ns[i] / 1e6;
  if (m == DS_METRIC_E2E) return (double)r->e2e_ns[i] / 1e6;
  if (m == DS_METRIC_QUEUE) return (double)r->queue_ns[i] / 1e6;
  return (double)(r->e2e_ns[i] - r->ttft_ns[i]) / (double)(r->outputs[i] - 1) / 1e6;
}

/* Milliseconds of a metric for requests [from, to), those that have it; returns how many. */
static size_t fill(const ds_result *r, ds_metric_id m, size_t from, size_t to, double *x) {
  size_t n = 0;
  if (ds_failed(r) > 0) { /* of those that were completed only */
    for (size_t i = from; i < to; i++)
      if (r->outputs[i] > 0 && (m != DS_METRIC_TPOT || r->outputs[i] > 1)) x[n++] = value_ms(r, m, i);
    return n;
  }
  switch (m) {
  case DS_METRIC_TTFT:
    for (size_t i = from; i < to; i++) x[n++] = (double)r->ttft_ns[i] / 1e6;
    break;
  case DS_METRIC_E2E:
    for (size_t i = from; i < to; i++) x[n++] = (double)r->e2e_ns[i] / 1e6;
    break;
  case DS_METRIC_QUEUE:
    for (size_t i = from; i < to; i++) x[n++] = (double)r->queue_ns[i] / 1e6;
    break;
  case DS_METRIC_TPOT:
    for (size_t i = from; i < to; i++)
      if (r->outputs[i] > 1)
        x[n++] = (double)(r->e2e_ns[i] - r->ttft_ns[i]) / (double)(r->outputs[i] - 1) / 1e6;
    break;
  case DS_METRIC_ITL: /* not a figure per request */
  case DS_METRIC_N:
    break;
  }
  return n;
}

/* Percentiles that one pass over a column is to find, each with the place that wants it. */
#define WANT_MAX (4 + 3 * DS_SLO_RUN_MAX)
#define PER_CALL 16
typedef struct wants {
  double pct[WANT_MAX];
  double *to[WANT_MAX];
  size_t n;
} wants;

static void want(wants *w, double pct, double *to) {
  size_t i = w->n++;
  for (; i > 0 && w->pct[i - 1] > pct; i--) {
    w->pct[i] = w->pct[i - 1];
    w->to[i] = w->to[i - 1];
  }
  w->pct[i] = pct;
  w->to[i] = to;
}

static bool answer_wants(const wants *w, const double *x, size_t n) {
  double out[PER_CALL];
  for (size_t i = 0; i < w->n; i += PER_CALL) {
    size_t some = w->n - i < PER_CALL ? w->n - i : PER_CALL;
    if (ds_percentiles(x, n, w->pct + i, some, out, &ds_heap) != DS_OK) return false;
    for (size_t j = 0; j < some; j++) *w->to[i + j] = out[j];
  }
  return true;
}

static void want_dist(wants *w, ds_dist *d) {
  want(w, 50, &d->p50);
  want(w, 90, &d->p90);
  want(w, 95, &d->p95);
  want(w, 99, &d->p99);
}

static void want_verdicts(wants *w, ds_summary *s, ds_metric_id m, size_t n) {
  for (size_t i = 0; i < s->n_verdicts; i++) {
    ds_verdict *v = &s->verdict[i];
    if (v->limit.metric != m || !(v->limit.percentile > 0)) continue;
    want(w, v->limit.percentile, &v->value_ms);
    size_t low, high;
    if (m == DS_METRIC_ITL || !ds_rank_interval(n, v->limit.percentile, &low, &high)) continue;
    v->has_interval = true;
    want(w, 100.0 * (double)low / (double)(n - 1), &v->low_ms);
    want(w, 100.0 * (double)high / (double)(n - 1), &v->high_ms);
  }
}

static void take_stats(ds_dist *d, const double *x, size_t n) {
  ds_stats st = ds_stats_of(x, n);
  d->count = st.count;
  d->mean = st.mean;
  d->std = st.std;
  d->max = st.max;
}

static bool column(ds_summary *s, const ds_result *r, ds_metric_id m, ds_dist *d, double *x) {
  size_t n = fill(r, m, 0, r->n, x);
  wants w;
  w.n = 0;
  take_stats(d, x, n);
  want_dist(&w, d);
  want_verdicts(&w, s, m, n);
  return answer_wants(&w, x, n);
}

static bool gap_column(ds_summary *s, const ds_gaps *g) {
  wants w;
  w.n = 0;
  want_dist(&w, &s->itl);
  want_verdicts(&w, s, DS_METRIC_ITL, 0);
  double out[WANT_MAX];
  if (ds_gaps_percentiles(g, w.pct, w.n, out, &ds_heap) != DS_OK) return false;
  for (size_t i = 0; i < w.n; i++) *w.to[i] = out[i] / 1e6;
  s->itl.count = (size_t)g->count;
  s->itl.mean = ds_gaps_mean_ns(g) / 1e6;
  s->itl.std = ds_gaps_std_ns(g) / 1e6;
  s->itl.max = s->max_itl_ms = (double)g->max_ns / 1e6;
  return true;
}

/* Tokens per second and user: the low percentiles are the bad ones. x holds the TPOT column. */
static bool interactivity(ds_summary *s, double *x, size_t n) {
  size_t kept = 0;
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (!(x[i] > 0)) continue;
    x[kept] = 1000 / x[i];
    sum += x[kept++];
  }
  s->mean_interactivity = kept > 0 ? sum / (double)kept : 0;
  wants w;
  w.n = 0;
  want(&w, 1, &s->p1_interactivity);
  want(&w, 10, &s->p10_interactivity);
  want(&w, 50, &s->median_interactivity);
  return answer_wants(&w, x, kept);
}

static bool normalized(ds_summary *s, const ds_result *r, double *x) {
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->outputs[i] > 0) x[n++] = (double)r->e2e_ns[i] / (double)r->outputs[i] / 1e6;
  wants w;
  w.n = 0;
  take_stats(&s->normalized, x, n);
  want_dist(&w, &s->normalized);
  return answer_wants(&w, x, n);
}

/* What passes between arrival and the engine's queue: queue_ns counts from there. */
static double before_queue_ms(const ds_run *run, const ds_result *r) {
  const ds_engine_card *e = &run->pool.engine;
  if (run->cost_tier != DS_COST_ROOFLINE) return 0;
  if (e->tokenise_s > 0 && r->completed > 0) /* prompts wait for each other there */
    return ds_wide_double(r->blame_ns[DS_CAUSE_API]) / 1e6 / (double)r->completed - (double)ds_ns_of_s(e->api_per_token_s) / 1e6;
  return (double)ds_ns_of_s(e->api_per_request_s) / 1e6;
}

static bool columns(ds_summary *s, const ds_run *run, const ds_result *r, double rtt_ms) {
  double *x = calloc(r->n + 1, sizeof *x);
  if (x == NULL) return false;
  bool good =
      column(s, r, DS_METRIC_TTFT, &s->ttft, x) && column(s, r, DS_METRIC_E2E, &s->e2el, x) &&
      column(s, r, DS_METRIC_QUEUE, &s->queue, x) && column(s, r, DS_METRIC_TPOT, &s->tpot, x) &&
      interactivity(s, x, s->tpot.count) && normalized(s, r, x) && gap_column(s, r->itl);
  free(x);
  double before_ms = s->ttft.count > 0 ? before_queue_ms(run, r) + s->queue.mean + rtt_ms : 0;
  s->mean_prefill_ms = s->ttft.mean - before_ms;
  s->mean_decode_ms = s->e2el.mean - s->ttft.mean;
  s->mean_inference_ms = s->e2el.mean - before_ms;
  return good;
}

static bool window_value(const ds_result *r, const ds_slo_limit *limit, size_t from, size_t to,
                         double *x, double *out, bool *any) {
  size_t n = fill(r, limit->metric, from, to, x);
  *any = n > 0;
  if (n == 0) return true;
  if (!(limit->percentile > 0)) {
    *out = ds_stats_of(x, n).mean;
    return true;
  }
  return ds_percentiles(x, n, &limit->percentile, 1, out, &ds_heap) == DS_OK;
}

/* slo.window: the same limits over the arrivals of each window. Gaps are not kept by request, so
 * ITL is not judged. */
static bool judge_windows(ds_summary *s, const ds_slo *slo, const ds_result *r,
                          const ds_arrivals *a) {
  double *x = malloc((r->n + 1) * sizeof *x);
  if (x == NULL) return false;
  ds_arrival_walk w = {0, 0, 0};
  bool good = true;
  size_t from = 0;
  int64_t window = a->n > 0 ? a->first_ns / slo->window_ns : 0;
  for (size_t i = 0; i <= a->n && good; i++) {
    int64_t here = i < a->n ? ds_arrival_next(a, &w) / slo->window_ns : INT64_MAX;
    if (here == window) continue;
    for (size_t k = 0; k < s->n_verdicts && good; k++) {
      ds_verdict *v = &s->verdict[k];
      double value = 0;
      bool any = false;
      if (v->limit.metric != DS_METRIC_ITL)
        good = window_value(r, &v->limit, from, i, x, &value, &any);
      if (!any) continue;
      v->windows++;
      v->windows_met += value <= (double)v->limit.limit_ns / 1e6;
      if (value > v->worst_ms) v->worst_ms = value;
    }
    from = i;
    window = here;
  }
  free(x);
  return good;
}

static double mean_of(const ds_summary *s, ds_metric_id m) {
  const ds_dist *d[] = {&s->ttft, &s->tpot, &s->itl, &s->e2el, &s->queue};
  return m < DS_METRIC_N ? d[m]->mean : 0;
}

static void judge(ds_summary *s, const ds_slo *slo) {
  s->attainment_met = !(slo->attainment > 0) || s->slo_attainment >= slo->attainment;
  s->slo_met = s->attainment_met;
  for (size_t i = 0; i < s->n_verdicts; i++) {
    ds_verdict *v = &s->verdict[i];
    if (!(v->limit.percentile > 0)) v->value_ms = mean_of(s, v->limit.metric);
    /* Inclusive: both sides come from nanoseconds by the same division, so that equal times stay
     * equal. */
    v->met = v->value_ms <= (double)v->limit.limit_ns / 1e6 && s->completed > 0;
    s->slo_met = s->slo_met && v->met;
  }
}

static void copy_limits(ds_summary *s, const ds_slo *slo) {
  s->n_verdicts = (size_t)slo->n_run;
  for (size_t i = 0; i < s->n_verdicts; i++) s->verdict[i].limit = slo->run[i];
}

static void attainments(ds_summary *s, const ds_slo *slo, const ds_result *r) {
  s->has_limits = any_request_limit(&slo->request);
  s->submitted = r->submitted + s->oversize;
  s->completed = r->completed;
  if (s->submitted > 0) s->slo_attainment = (double)r->good / (double)s->submitted;
  if (r->completed > 0) s->slo_attainment_completed = (double)r->good / (double)r->completed;
}

static uint64_t busiest_second(const ds_seconds *seconds) {
  uint64_t most = 0;
  for (size_t p = 0; p < seconds->n_pages; p++)
    for (size_t i = 0; seconds->page[p] != NULL && i < DS_SECONDS_PAGE; i++)
      if (seconds->page[p][i].tokens > most) most = seconds->page[p][i].tokens;
  return most;
}

static void throughputs(ds_summary *s, const ds_result *r) {
  s->failed = s->submitted - s->completed;
  s->timed_out = r->timed_out;
  s->turned_away = r->turned_away;
  s->rejected = s->oversize + s->turned_away;
  s->input_tokens = r->input_tokens;
  s->output_tokens = r->output_tokens;
  s->duration_s = (double)(r->last_finish_ns - r->first_arrival_ns) / 1e9;
  s->max_output_tokens_per_s = busiest_second(r->seconds);
  if (!(s->duration_s > 0)) return;
  s->request_throughput = (double)r->completed / s->duration_s;
  s->input_throughput = (double)r->input_tokens / s->duration_s;
  s->output_throughput = (double)r->output_tokens / s->duration_s;
  s->total_throughput = (double)(r->input_tokens + r->output_tokens) / s->duration_s;
  s->request_goodput = (double)r->good / s->duration_s;
}

static void utilisation(ds_summary *s, const ds_run *run, const ds_result *r) {
  double busy_ns = 0, batch_ns = 0, block_ns = 0, prefill_ns = 0, encoder_ns = 0, part_ns[DS_PART_N] = {0};
  double tokens = 0, iterations = 0;
  int64_t peak = 0;
  for (size_t i = 0; i < r->n_replicas; i++) {
    const ds_replica_totals *t = &r->replicas[i];
    busy_ns += (double)t->busy_ns;
    batch_ns += ds_wide_double(t->batch_ns);
    block_ns += ds_wide_double(t->kv_block_ns);
    prefill_ns += (double)t->prefill_ns;
    encoder_ns += (double)t->encoder_ns;
    tokens += (double)t->prefill_tokens + (double)t->decode_tokens;
    iterations += (double)t->iterations;
    for (size_t p = 0; p < DS_PART_N; p++) part_ns[p] += (double)t->part_ns[p];
    if (t->kv_peak_blocks > peak) peak = t->kv_peak_blocks;
  }
  const ds_pool *pool = &run->pool;
  s->gpus = pool->replicas * pool->tensor_parallel * pool->data_parallel * pool->pipeline_parallel;
  int64_t blocks = r->memory.kv_blocks;
  s->kv_known = blocks > 0 && blocks != DS_KV_UNLIMITED;
  if (!(busy_ns > 0)) return;
  if (s->kv_known) {
    s->kv_mean = block_ns / busy_ns / (double)blocks;
    s->kv_max = (double)peak / (double)blocks;
  }
  s->batch_mean = batch_ns / busy_ns;
  s->tokens_per_step = iterations > 0 ? tokens / iterations : 0;
  /* A server may go on after its last client has given up, and has begun before a warm-up's end. */
  double span_ns = (double)(r->last_finish_ns - r->begin_ns);
  for (size_t i = 0; i < r->n_replicas && r->timed_out > 0; i++) {
    double end_ns = (double)(r->replicas[i].last_end_ns - r->begin_ns);
    if (end_ns > span_ns) span_ns = end_ns;
  }
  s->busy_fraction = s->duration_s > 0 ? busy_ns / (span_ns * (double)r->n_replicas) : 0;
  static const char *const names[] = {"decode_memory", "decode_compute", "communication", "host"};
  double most = s->prefill_share = prefill_ns / busy_ns;
  s->bottleneck = "prefill";
  s->encoder_share = encoder_ns / busy_ns;
  if (s->encoder_share > most) {
    most = s->encoder_share;
    s->bottleneck = "encoder";
  }
  for (size_t p = 0; p < DS_PART_N; p++) {
    s->busy_share[p] = part_ns[p] / busy_ns;
    if (s->busy_share[p] > most) {
      most = s->busy_share[p];
      s->bottleneck = names[p];
    }
  }
}

/* P = idle + (TDP - idle) min(1, 1.2 u_c + 0.5 u_m) while busy, idle then 0.18 TDP; the card's idle
 * power otherwise. u_c, u_m: achieved share of peak FLOP/s and of bandwidth over busy time. Fitted
 * to measured runs, +-25 %. */
static void energy(ds_summary *s, const ds_run *run, const ds_result *r) {
  const ds_hw *hw = &run->pool.hw;
  if (run->cost_tier == DS_COST_LINEAR || !(hw->power_w > 0) || !(s->duration_s > 0)) return;
  if (r->begin_ns != r->first_arrival_ns) return; /* not known for the time behind a warm-up alone */
  ds_math math = DS_MATH_16;
  ds_format weights = run->model.experts > 0 ? run->expert_weights : run->weights; /* most of the arithmetic */
  if (weights == DS_FMT_FP8 || weights == DS_FMT_INT8 || weights == DS_FMT_FP8_BLOCK ||
      weights == DS_FMT_FP8_STATIC || weights == DS_FMT_MXFP4_A8)
    math = DS_MATH_8;
  if (weights == DS_FMT_NVFP4) math = DS_MATH_4;
  if (!(hw->peak_flops_per_s[math] > 0)) math = DS_MATH_16;
  double gpus_per_replica = (double)s->gpus / (double)(r->n_replicas > 0 ? r->n_replicas : 1),
         loaded_idle_w = 0.18 * hw->power_w;
  for (size_t i = 0; i < r->n_replicas; i++) {
    const ds_replica_totals *t = &r->replicas[i];
    double busy_s = (double)t->busy_ns * 1e-9, power_w = 0;
    if (busy_s > 0) {
      double level = 1.2 * t->flops / (busy_s * hw->peak_flops_per_s[math]) +
                     0.5 * t->bytes / (busy_s * hw->memory_bytes_per_s);
      power_w = loaded_idle_w + (hw->power_w - loaded_idle_w) * (level < 1 ? level : 1);
    }
    double idle_s = s->duration_s > busy_s ? s->duration_s - busy_s : 0;
    s->energy_j += gpus_per_replica * (power_w * busy_s + hw->idle_power_w * idle_s);
  }
  s->has_energy = true;
}

static void cost(ds_summary *s, const ds_run *run) {
  double price = run->pool.hw.price_usd_per_h;
  if (run->cost_tier == DS_COST_LINEAR || !(price > 0)) return;
  s->has_price = true;
  s->usd = price * (double)s->gpus * s->duration_s / 3600;
  if (s->output_tokens > 0) s->usd_per_m_output = s->usd / ((double)s->output_tokens / 1e6);
  uint64_t total = s->input_tokens + s->output_tokens;
  if (total > 0) s->usd_per_m_total = s->usd / ((double)total / 1e6);
}

bool ds_summary_of(const ds_run *run, const ds_result *r, const ds_arrivals *a, uint64_t oversize,
                   ds_summary *out) {
  memset(out, 0, sizeof *out);
  out->oversize = oversize;
  copy_limits(out, &run->slo);
  attainments(out, &run->slo, r);
  throughputs(out, r);
  utilisation(out, run, r);
  energy(out, run, r);
  cost(out, run);
  if (!columns(out, run, r, (double)a->rtt_ns / 1e6)) return false;
  judge(out, &run->slo);
  if (run->slo.window_ns > 0 && out->n_verdicts > 0 && !judge_windows(out, &run->slo, r, a))
    return false;
  if (!ds_flow_of(a, r->e2e_ns, r->queue_ns, r->last_finish_ns, &out->flow)) return false;
  out->saturated = !a->capped && ds_flow_saturated(&out->flow);
  out->settling = ds_flow_settled(&out->flow);
  return ds_bounds_of(run, a, r->memory.kv_blocks, &out->bounds);
}

static ds_metric_id most_missed(const ds_result *r) {
  const uint64_t miss[] = {r->miss_ttft, r->miss_tpot, r->miss_itl, r->miss_e2e};
  ds_metric_id worst = DS_METRIC_TTFT;
  for (int m = DS_METRIC_TPOT; m <= DS_METRIC_E2E; m++)
    if (miss[m] > miss[worst]) worst = (ds_metric_id)m;
  return worst;
}

bool ds_slo_holds(const ds_run *run, const ds_result *r, bool *holds, ds_metric_id *worst) {
  const ds_slo *slo = &run->slo;
  ds_summary s;
  memset(&s, 0, sizeof s);
  copy_limits(&s, slo);
  attainments(&s, slo, r);
  if (!columns(&s, run, r, 0)) return false;
  judge(&s, slo);
  *worst = DS_METRIC_N;
  double excess = 1;
  for (size_t i = 0; i < s.n_verdicts; i++) {
    double ratio = s.verdict[i].value_ms * 1e6 / (double)s.verdict[i].limit.limit_ns;
    if (s.verdict[i].met || ratio <= excess) continue;
    excess = ratio;
    *worst = s.verdict[i].limit.metric;
  }
  bool attained = s.attainment_met;
  if (s.n_verdicts == 0 && !(slo->attainment > 0))
    attained = s.slo_attainment >= DS_ATTAINMENT_DEFAULT;
  if (!attained && *worst == DS_METRIC_N) *worst = most_missed(r);
  *holds = attained && s.slo_met;
  return true;
}
