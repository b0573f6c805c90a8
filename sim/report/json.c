// SPDX-License-Identifier: GPL-3.0-or-later
/* The machine-readable report. Names are those of vLLM's benchmark result file where it has them.
 */
#include <openssl/evp.h>
#include <string.h>

#include "core/dryserve.h"
#include "report/kv_report.h"
#include "report/json_writer.h"
#include "report/trace_info.h"
#include "report/images.h"
#include "report/report.h"
#include "study/measured.h"

bool ds_run_hash(const ds_scenario *sc, const char *trace_sha256, char hex[65]) {
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  if (ctx == NULL) return false;
  bool good = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
  /* Every text with its terminating zero, so that no two lists of texts run together. */
  good = good && EVP_DigestUpdate(ctx, DS_VERSION, sizeof DS_VERSION) == 1;
  for (size_t i = 0; i < sc->n_settings && good; i++) {
    const ds_setting *s = &sc->settings[i];
    good = EVP_DigestUpdate(ctx, s->key, strlen(s->key) + 1) == 1 &&
           EVP_DigestUpdate(ctx, s->value, strlen(s->value) + 1) == 1;
  }
  for (size_t i = 0; i < sc->n_inputs && good; i++)
    good = EVP_DigestUpdate(ctx, sc->inputs[i].sha256, strlen(sc->inputs[i].sha256) + 1) == 1;
  if (good) good = EVP_DigestUpdate(ctx, trace_sha256, strlen(trace_sha256) + 1) == 1;
  unsigned char sum[32];
  if (good) good = EVP_DigestFinal_ex(ctx, sum, NULL) == 1;
  EVP_MD_CTX_free(ctx);
  if (!good) return false;
  for (size_t i = 0; i < 32; i++) {
    hex[2 * i] = "0123456789abcdef"[sum[i] >> 4];
    hex[2 * i + 1] = "0123456789abcdef"[sum[i] & 15];
  }
  hex[64] = '\0';
  return true;
}

static void named(ds_json *j, const char *prefix, const char *name, const char *suffix, double v) {
  char key[96];
  snprintf(key, sizeof key, "%s_%s%s", prefix, name, suffix);
  ds_json_number(j, key, v);
}

static void dist(ds_json *j, const char *name, const ds_dist *d) {
  named(j, "mean", name, "_ms", d->mean);
  named(j, "median", name, "_ms", d->p50);
  named(j, "std", name, "_ms", d->std);
  named(j, "p50", name, "_ms", d->p50);
  named(j, "p90", name, "_ms", d->p90);
  named(j, "p95", name, "_ms", d->p95);
  named(j, "p99", name, "_ms", d->p99);
}

/* null where the figure has no meaning. */
static void maybe(ds_json *j, const char *key, bool known, double v) {
  if (known)
    ds_json_number(j, key, v);
  else
    ds_json_null(j, key);
}

static double offered_rate(const ds_report *r) {
  const ds_workload *w = &r->scenario->workload;
  if (ds_trace_is_closed(r->drive->trace)) return 0; /* what came is what was served */
  if (w->kind == DS_WORKLOAD_GENERATE && w->process != DS_ARRIVAL_BURST) return w->rate_per_s;
  const ds_flow *f = &r->summary->flow;
  return f->window_ns > 0 ? (double)(f->requests - 1) / ((double)f->window_ns * 1e-9) : 0;
}

static void identity(ds_json *j, const ds_report *r, const char *hash) {
  const ds_scenario *sc = r->scenario;
  bool linear = sc->run.cost_tier == DS_COST_LINEAR;
  ds_json_text(j, "dryserve_version", DS_VERSION);
  ds_json_count(j, "schema", 1);
  ds_json_text(j, "run_hash", hash);
  ds_json_text(j, "title", sc->title[0] != '\0' ? sc->title : NULL);
  ds_json_text(j, "backend", sc->run.pool.scheduler);
  ds_json_text(j, "model_id", linear || sc->run.model.name[0] == '\0' ? NULL : sc->run.model.name);
}

static void benchmark(ds_json *j, const ds_report *r) {
  const ds_summary *s = r->summary;
  const ds_workload *w = &r->scenario->workload;
  double rate = offered_rate(r);
  ds_json_count(j, "num_prompts", s->submitted);
  maybe(j, "request_rate", rate > 0, rate);
  maybe(j, "burstiness", w->kind == DS_WORKLOAD_GENERATE && w->process == DS_ARRIVAL_POISSON, 1);
  maybe(j, "max_concurrency", w->concurrency > 0, (double)w->concurrency);
  ds_json_number(j, "duration", s->duration_s);
  ds_json_count(j, "completed", s->completed);
  ds_json_count(j, "failed", s->failed);
  ds_json_count(j, "total_input_tokens", s->input_tokens);
  ds_json_count(j, "total_output_tokens", s->output_tokens);
  ds_json_number(j, "request_throughput", s->request_throughput);
  maybe(j, "request_goodput", s->has_limits, s->request_goodput);
  ds_json_number(j, "output_throughput", s->output_throughput);
  ds_json_number(j, "total_token_throughput", s->total_throughput);
  ds_json_count(j, "max_output_tokens_per_s", s->max_output_tokens_per_s);
  ds_json_count(j, "max_concurrent_requests", s->flow.max_concurrent);
  ds_dist none;
  memset(&none, 0, sizeof none);
  dist(j, "ttft", &s->ttft);
  dist(j, "tpot", &s->tpot);
  dist(j, "itl", &s->itl);
  dist(j, "e2el", &s->e2el);
  dist(j, "client_queue_time", &none); /* open loop: no request waits in the client */
}

/* Names of vLLM's benchmark; the rate in percent. */
static void speculation(ds_json *j, const ds_speculation *p, const ds_spec_totals *d) {
  maybe(j, "spec_decode_acceptance_rate", d->draft_tokens > 0,
        d->draft_tokens > 0 ? 100.0 * (double)d->accepted_tokens / (double)d->draft_tokens : 0);
  maybe(j, "spec_decode_acceptance_length", d->drafts > 0,
        d->drafts > 0 ? 1 + (double)d->accepted_tokens / (double)d->drafts : 0);
  ds_json_count(j, "spec_decode_num_drafts", d->drafts);
  ds_json_count(j, "spec_decode_draft_tokens", d->draft_tokens);
  ds_json_count(j, "spec_decode_accepted_tokens", d->accepted_tokens);
  ds_json_array(j, "spec_decode_per_position_acceptance_rates");
  for (int64_t k = 0; k < p->tokens && d->drafts > 0; k++)
    ds_json_number(j, NULL, (double)d->accepted_at[k] / (double)d->drafts);
  ds_json_end_array(j);
}

static void additions(ds_json *j, const ds_report *r) {
  const ds_summary *s = r->summary;
  double gpus = (double)s->gpus;
  dist(j, "queue_time", &s->queue);
  dist(j, "normalized_latency", &s->normalized);
  ds_json_number(j, "mean_prefill_time_ms", s->mean_prefill_ms);
  ds_json_number(j, "mean_decode_time_ms", s->mean_decode_ms);
  ds_json_number(j, "mean_inference_time_ms", s->mean_inference_ms);
  ds_json_number(j, "max_itl_ms", s->max_itl_ms);
  ds_json_number(j, "mean_interactivity", s->mean_interactivity);
  ds_json_number(j, "median_interactivity", s->median_interactivity);
  ds_json_number(j, "p1_interactivity", s->p1_interactivity);
  ds_json_number(j, "p10_interactivity", s->p10_interactivity);
  maybe(j, "interactivity_from_mean_tpot", s->tpot.mean > 0,
        s->tpot.mean > 0 ? 1000 / s->tpot.mean : 0);
  maybe(j, "slo_attainment", s->has_limits, s->slo_attainment);
  maybe(j, "slo_attainment_completed", s->has_limits, s->slo_attainment_completed);
  ds_json_integer(j, "num_gpus", s->gpus);
  maybe(j, "goodput_per_gpu", s->has_limits, s->request_goodput / gpus);
  ds_json_number(j, "input_throughput", s->input_throughput);
  ds_json_number(j, "request_throughput_per_gpu", s->request_throughput / gpus);
  ds_json_number(j, "output_throughput_per_gpu", s->output_throughput / gpus);
  ds_json_number(j, "total_token_throughput_per_gpu", s->total_throughput / gpus);
  ds_json_count(j, "rejected", s->rejected);
  const ds_result *q = r->drive->result;
  bool patience = r->scenario->workload.patience.timeout_ns > 0;
  if (ds_scenario_turns_away(r->scenario)) ds_json_count(j, "turned_away", s->turned_away);
  if (patience) ds_json_count(j, "timed_out", s->timed_out);
  if (patience || ds_scenario_turns_away(r->scenario)) {
    ds_json_count(j, "vain_attempts", q->vain_attempts);
    ds_json_count(j, "retries", q->retries);
  }
  if (patience) {
    ds_json_count(j, "partial_output_tokens", q->partial_output_tokens);
  }
  const ds_sched_ops *ops = r->scenario->sched;
  if (ops != NULL && ops->overlaps != NULL && ops->overlaps(r->scenario->run.pool.scheduler_config.bytes))
    ds_json_count(j, "wasted_decode_slots", r->drive->result->wasted_decode_slots);
  if (r->scenario->run.pool.speculative.method != DS_DRAFT_NONE)
    speculation(j, &r->scenario->run.pool.speculative, &r->drive->result->speculation);
  if (r->drive->result->with_images) ds_images_json(j, r);
  ds_json_count(j, "num_preemptions", r->drive->result->num_preemptions);
  ds_json_count(j, "recomputed_tokens", r->drive->result->recomputed_tokens);
  maybe(j, "kv_utilization_mean", s->kv_known, s->kv_mean);
  maybe(j, "kv_utilization_max", s->kv_known, s->kv_max);
  ds_json_cache(j, r);
  ds_json_number(j, "batch_size_mean", s->batch_mean);
  ds_json_number(j, "tokens_per_step_mean", s->tokens_per_step);
  ds_json_number(j, "gpu_busy_fraction", s->busy_fraction);
  maybe(j, "cost_per_million_output_tokens_usd", s->has_price, s->usd_per_m_output);
  maybe(j, "cost_per_million_total_tokens_usd", s->has_price, s->usd_per_m_total);
  bool energy = s->has_energy && s->output_tokens > 0;
  maybe(j, "energy_joules", s->has_energy, s->energy_j);
  maybe(j, "joules_per_output_token", energy, energy ? s->energy_j / (double)s->output_tokens : 0);
  maybe(j, "joules_per_request", energy && s->completed > 0,
        energy ? s->energy_j / (double)s->completed : 0);
}

static void slo_limits(ds_json *j, const ds_report *r) {
  const ds_summary *s = r->summary;
  const ds_slo *slo = &r->scenario->run.slo;
  if (s->n_verdicts == 0 && !(slo->attainment > 0)) {
    ds_json_null(j, "slo_met");
    return;
  }
  ds_json_bool(j, "slo_met", s->slo_met);
  ds_json_array(j, "slo_run");
  for (size_t i = 0; i < s->n_verdicts; i++) {
    const ds_verdict *v = &s->verdict[i];
    ds_json_object(j, NULL);
    ds_json_text(j, "metric", ds_metric_name(v->limit.metric));
    maybe(j, "percentile", v->limit.percentile > 0, v->limit.percentile); /* null: the mean */
    ds_json_number(j, "limit_ms", (double)v->limit.limit_ns / 1e6);
    ds_json_number(j, "value_ms", v->value_ms);
    maybe(j, "low_ms", v->has_interval, v->low_ms);
    maybe(j, "high_ms", v->has_interval, v->high_ms);
    ds_json_bool(j, "met", v->met);
    if (v->windows > 0) {
      ds_json_count(j, "windows", v->windows);
      ds_json_count(j, "windows_met", v->windows_met);
      ds_json_number(j, "worst_window_ms", v->worst_ms);
    }
    ds_json_end_object(j);
  }
  ds_json_end_array(j);
}

static void bounds(ds_json *j, const ds_bounds *b) {
  if (!b->known) {
    ds_json_null(j, "bounds");
    return;
  }
  ds_json_object(j, "bounds");
  ds_json_number(j, "min_ttft_ms", b->ttft_ms);
  ds_json_number(j, "min_tpot_ms", b->tpot_ms);
  ds_json_number(j, "min_busy_s", b->busy_s);
  ds_json_number(j, "max_request_throughput", b->request_throughput);
  ds_json_number(j, "max_output_throughput", b->output_throughput);
  ds_json_number(j, "max_total_token_throughput", b->total_throughput);
  ds_json_text(j, "limited_by", b->memory_bound ? "memory" : "compute");
  ds_json_end_object(j);
}

static void provenance(ds_json *j, const ds_report *r, const char *trace_sha256) {
  const ds_scenario *sc = r->scenario;
  ds_json_object(j, "scenario");
  for (size_t i = 0; i < sc->n_settings; i++)
    ds_json_text(j, sc->settings[i].key, sc->settings[i].value);
  ds_json_end_object(j);
  ds_json_array(j, "inputs");
  for (size_t i = 0; i < sc->n_inputs; i++) {
    ds_json_object(j, NULL);
    ds_json_text(j, "path", sc->inputs[i].path);
    ds_json_text(j, "sha256", sc->inputs[i].sha256);
    ds_json_end_object(j);
  }
  for (size_t k = 0; r->drive->merged != NULL && k < sc->n_stream; k++) {
    const char *sum = ds_trace_sha256(ds_merged_trace(r->drive->merged, k));
    if (sum[0] == '\0') continue;
    ds_json_object(j, NULL);
    ds_json_text(j, "path", sc->stream[k].path_given);
    ds_json_text(j, "sha256", sum);
    ds_json_end_object(j);
  }
  if (r->drive->merged == NULL && trace_sha256[0] != '\0') {
    ds_json_object(j, NULL);
    ds_json_text(j, "path", sc->workload.path_given);
    ds_json_text(j, "sha256", trace_sha256);
    ds_json_end_object(j);
  }
  ds_json_end_array(j);
}

static void lengths(ds_json *j, const char *key, const ds_lengths *l) {
  ds_json_object(j, key);
  ds_json_number(j, "mean", l->count > 0 ? (double)l->sum / (double)l->count : 0);
  ds_json_count(j, "min", l->min);
  ds_json_count(j, "p50",
                ds_lengths_percentile(l, 50)); /* percentiles above 255 tokens: within 1/128 */
  ds_json_count(j, "p99", ds_lengths_percentile(l, 99));
  ds_json_count(j, "max", l->max);
  ds_json_end_object(j);
}

/* What the generator made of what was asked for. */
static void measured(ds_json *j, const ds_arrivals *a) {
  ds_measured m;
  ds_measured_of(a, &m);
  maybe(j, "measured_rate_per_s", m.rate_per_s > 0, m.rate_per_s);
  maybe(j, "measured_cv", m.rate_per_s > 0, m.cv);
  static const char *const keys[DS_WINDOWS] = {"dispersion_1s", "dispersion_10s", "dispersion_60s"};
  for (size_t k = 0; k < DS_WINDOWS; k++)
    maybe(j, keys[k], m.dispersion[k] > 0, m.dispersion[k]);
}

static void method(ds_json *j, const ds_report *r) {
  const ds_scenario *sc = r->scenario;
  static const char *const tiers[] = {"roofline", "speed-of-light", "linear"};
  const ds_workload *w = &sc->workload;
  double rate = offered_rate(r);
  ds_json_object(j, "method");
  ds_json_text(j, "tool_view", "vllm");
  if (w->protocol[0] != '\0') ds_json_text(j, "protocol", w->protocol);
  ds_json_text(j, "clock_start", "dispatch");
  ds_json_text(j, "percentiles", "linear");
  ds_json_text(j, "itl", r->drive->result->itl->exact ? "exact" : "log histogram, within 1/256");
  ds_json_text(j, "goodput_limits", r->summary->has_limits ? "per request, inclusive" : NULL);
  ds_json_text(j, "workload", ds_trace_format(r->drive->trace));
  ds_json_object(j, "arrivals");
  ds_json_text(j, "process", w->kind == DS_WORKLOAD_GENERATE ? ds_arrival_names[w->process] : "recorded");
  maybe(j, "rate_per_s", rate > 0, rate);
  ds_json_number(j, "span_s", (double)r->summary->flow.window_ns / 1e9);
  if (w->kind == DS_WORKLOAD_GENERATE) measured(j, &r->drive->arrivals);
  ds_json_end_object(j);
  lengths(j, "input_tokens", &r->drive->arrivals.input);
  lengths(j, "output_tokens", &r->drive->arrivals.output);
  ds_json_text(j, "loop", ds_trace_is_closed(r->drive->trace) ? "closed" : "open");
  if (w->closed_loop && w->kind == DS_WORKLOAD_GENERATE) ds_json_number(j, "think_s", (double)w->think_ns / 1e9);
  maybe(j, "timeout_s", w->patience.timeout_ns > 0, (double)w->patience.timeout_ns / 1e9);
  if (w->patience.retries > 0) ds_json_integer(j, "retries", w->patience.retries);
  ds_json_number(j, "warmup_s",
                 (double)(r->drive->result->first_arrival_ns - r->drive->result->begin_ns) / 1e9);
  ds_json_count(j, "warmup_requests", r->drive->warmup.n);
  ds_json_count(j, "cooldown_s", 0);
  ds_json_bool(j, "drain", true);
  ds_json_text(j, "initial_cache", sc->run.pool.warm_cache ? "warm" : "empty");
  ds_json_bool(j, "scheduler_knows_output_lengths", sc->sched != NULL && ds_sched_knows(sc->sched, sc->run.pool.scheduler_config.bytes));
  ds_json_text(j, "cost_tier", tiers[sc->run.cost_tier]);
  ds_json_text(j, "energy", r->summary->has_energy ? "power model, +-25 %" : NULL);
  ds_json_count(j, "seed", sc->run.seed);
  ds_json_end_object(j);
}

static bool sc_is_trace(const ds_report *r) {
  return r->drive->trace != NULL && r->scenario->workload.kind == DS_WORKLOAD_TRACE;
}

/* Relative half-widths: the truth should lie within them in 80 to 95 % of runs. */
static void trust(ds_json *j, const ds_report *r) {
  ds_json_object(j, "trust");
  bool any = false;
  for (int m = 0; m < DS_BAND_METRICS; m++) {
    const ds_band *b = ds_report_band(r, (ds_band_metric)m);
    if (b == NULL) continue;
    any = true;
    ds_json_object(j, ds_band_metric_names[m]);
    ds_json_number(j, "within", b->half_width);
    ds_json_number(j, "median_error", b->median);
    ds_json_number(j, "signed_median_error", b->signed_median);
    ds_json_count(j, "runs", (uint64_t)b->runs);
    ds_json_text(j, "of", b->hardware);
    ds_json_end_object(j);
  }
  ds_json_bool(j, "validated", any);
  ds_json_text(j, "date", any ? r->bands->date : NULL);
  ds_json_end_object(j);
}

/* Each of several workloads under its class. */
static void by_class(ds_json *j, const ds_report *r) {
  const ds_classes *c = r->classes;
  const ds_spec_totals *drafts = r->drive->result->stream_speculation;
  if (c == NULL || c->n == 0) return;
  ds_json_object(j, "classes");
  for (size_t k = 0; k < c->n; k++) {
    const ds_summary *s = &c->of[k].summary;
    const ds_workload *w = c->of[k].workload;
    ds_json_object(j, w->class_name);
    if (w->tenant[0] != '\0') ds_json_text(j, "tenant", w->tenant);
    ds_json_count(j, "num_prompts", s->submitted);
    ds_json_count(j, "completed", s->completed);
    ds_json_count(j, "total_output_tokens", s->output_tokens);
    ds_json_number(j, "request_throughput", s->request_throughput);
    ds_json_number(j, "output_throughput", s->output_throughput);
    maybe(j, "request_goodput", s->has_limits, s->request_goodput);
    maybe(j, "slo_attainment", s->has_limits, s->slo_attainment);
    if (s->n_verdicts > 0 || w->slo.attainment > 0)
      ds_json_bool(j, "slo_met", s->slo_met);
    else
      ds_json_null(j, "slo_met");
    dist(j, "ttft", &s->ttft);
    dist(j, "tpot", &s->tpot);
    dist(j, "e2el", &s->e2el);
    if (drafts != NULL) speculation(j, &r->scenario->run.pool.speculative, &drafts[k]);
    ds_json_end_object(j);
  }
  ds_json_end_object(j);
}

/* The runs of a benchmark tool's series, and which of them the rest of this object is about. */
static void series(ds_json *j, const ds_series *s) {
  if (s == NULL) return;
  ds_json_array(j, "series");
  for (size_t i = 0; i < s->n; i++) {
    const ds_series_row *r = &s->row[i];
    ds_json_object(j, NULL);
    ds_json_text(j, "run", r->what[0] != '\0' ? r->what : "rate");
    maybe(j, "request_rate", r->rate_per_s > 0, r->rate_per_s);
    ds_json_text(j, "set", r->change);
    if (s->judged) ds_json_bool(j, "slo_met", r->holds);
    else ds_json_null(j, "slo_met");
    ds_json_count(j, "completed", r->summary.completed);
    ds_json_number(j, "duration", r->summary.duration_s);
    ds_json_number(j, "request_throughput", r->summary.request_throughput);
    ds_json_number(j, "output_throughput", r->summary.output_throughput);
    dist(j, "ttft", &r->summary.ttft);
    dist(j, "tpot", &r->summary.tpot);
    dist(j, "itl", &r->summary.itl);
    dist(j, "e2el", &r->summary.e2el);
    ds_json_end_object(j);
  }
  ds_json_end_array(j);
  if (s->chosen < s->n) ds_json_count(j, "series_chosen", s->chosen);
  else ds_json_null(j, "series_chosen");
}

bool ds_json_report(ds_outfile *out, const ds_report *r) {
  const char *trace_sha256 = ds_trace_sha256(r->drive->trace);
  char hash[65], all[64 * 32 + 1] = ""; /* of several workloads: one after the other */
  for (size_t k = 0; r->drive->merged != NULL && k < r->scenario->n_stream; k++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s",
             ds_trace_sha256(ds_merged_trace(r->drive->merged, k)));
  if (r->drive->merged != NULL) trace_sha256 = all;
  if (!ds_run_hash(r->scenario, trace_sha256, hash)) return false;
  ds_json j = {out, 0, false};
  ds_json_object(&j, NULL);
  identity(&j, r, hash);
  benchmark(&j, r);
  additions(&j, r);
  slo_limits(&j, r);
  ds_json_bool(&j, "saturated", r->summary->saturated);
  ds_json_text(&j, "bottleneck", r->summary->bottleneck);
  bounds(&j, &r->summary->bounds);
  ds_json_object(&j, "blame_s");
  for (int c = 0; c < ds_causes_shown(r->drive->result); c++)
    ds_json_number(&j, ds_cause_name((ds_cause)c), ds_wide_double(r->drive->result->blame_ns[c]) / 1e9);
  ds_json_end_object(&j);
  trust(&j, r);
  by_class(&j, r);
  series(&j, r->series);
  ds_json_array(&j, "warnings");
  for (size_t i = 0; i < r->warnings->n; i++) ds_json_text(&j, NULL, r->warnings->text[i]);
  ds_json_end_array(&j);
  method(&j, r);
  provenance(&j, r, trace_sha256);
  if (sc_is_trace(r)) ds_import_json(&j, "import", r->drive->trace);
  ds_json_end_object(&j);
  return true;
}
