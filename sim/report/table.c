// SPDX-License-Identifier: GPL-3.0-or-later
/* The table of metrics for people: latencies, throughputs, memory, load. */
#include <string.h>

#include "report/images.h"
#include "report/kv_report.h"
#include "report/numbers.h"
#include "report/report.h"
#include "study/measured.h"

#define LABEL 14
#define CELL  13

static void cells(ds_outfile *out, const char *label, const double *v, size_t n) {
  ds_out_printf(out, "%-*s", LABEL, label);
  for (size_t i = 0; i < n; i++) {
    char text[DS_NUMBER_BYTES];
    ds_put_short(text, v[i]);
    ds_out_printf(out, "%*s", CELL, text);
  }
  ds_out_text(out, "\n");
}

static void header(ds_outfile *out, const char *label, const char *const *names, size_t n) {
  ds_out_printf(out, "%-*s", LABEL, label);
  for (size_t i = 0; i < n; i++) ds_out_printf(out, "%*s", CELL, names[i]);
  ds_out_text(out, "\n");
}

static void latency(ds_outfile *out, const char *label, const ds_dist *d) {
  double v[] = {d->mean, d->p50, d->p90, d->p95, d->p99};
  cells(out, label, v, DS_ARRAY_LEN(v));
}

static void latencies(ds_outfile *out, const ds_summary *s) {
  static const char *const names[] = {"mean", "p50", "p90", "p95", "p99"};
  header(out, "latency, ms", names, DS_ARRAY_LEN(names));
  latency(out, "TTFT", &s->ttft);
  latency(out, "TPOT", &s->tpot);
  latency(out, "ITL", &s->itl);
  latency(out, "E2E", &s->e2el);
}

static void throughput(ds_outfile *out, const ds_summary *s) {
  static const char *const names[] = {"requests", "input tok", "output tok", "total tok"};
  header(out, "per second", names, DS_ARRAY_LEN(names));
  double v[] = {s->request_throughput, s->input_throughput, s->output_throughput,
                s->total_throughput};
  cells(out, "system", v, DS_ARRAY_LEN(v));
  for (size_t i = 0; i < DS_ARRAY_LEN(v); i++) v[i] /= (double)s->gpus;
  cells(out, "per GPU", v, DS_ARRAY_LEN(v));
}

static void memory(ds_outfile *out, const ds_report *r) {
  const ds_run *run = &r->scenario->run;
  const ds_memory *m = &r->drive->result->memory;
  char weights[DS_NUMBER_BYTES], blocks[DS_NUMBER_BYTES], text[320];
  ds_put_short(weights, m->weight_bytes / 1e9);
  size_t n = 0;
  if (run->cost_tier != DS_COST_LINEAR)
    n = (size_t)snprintf(text, sizeof text, "weights %s GB a GPU; ", weights);
  if (!r->summary->kv_known) {
    snprintf(text + n, sizeof text - n, "KV unlimited");
  } else {
    ds_put_count(blocks, (uint64_t)m->kv_blocks);
    snprintf(text + n, sizeof text - n,
             "KV %s blocks of %lld tokens a replica (%s), at most %.0f %% in use", blocks,
             (long long)run->pool.kv_block_tokens, run->pool.kv_blocks == 0 ? "auto" : "given",
             100 * r->summary->kv_max);
  }
  ds_wrapped(out, "memory", text);
  ds_kv_series_line(r, text, sizeof text);
  if (text[0] != '\0') ds_wrapped(out, "KV", text);
}

static void load(ds_outfile *out, const ds_report *r) {
  const ds_summary *s = r->summary;
  char batch[DS_NUMBER_BYTES], tokens[DS_NUMBER_BYTES], most[DS_NUMBER_BYTES],
      completed[DS_NUMBER_BYTES], text[400], preempted[DS_NUMBER_BYTES], again[DS_NUMBER_BYTES],
      duration[DS_NUMBER_BYTES];
  ds_put_short(batch, s->batch_mean);
  ds_put_short(tokens, s->tokens_per_step);
  ds_put_count(most, s->flow.max_concurrent);
  ds_put_count(completed, s->completed);
  ds_put_short(duration, s->duration_s);
  ds_put_count(preempted, r->drive->result->num_preemptions);
  ds_put_count(again, r->drive->result->recomputed_tokens);
  int n = snprintf(text, sizeof text,
                   "%s requests in %s s, at most %s at a time; mean batch %s, %s tokens a step; "
                   "GPUs busy %.0f %%",
                   completed, duration, most, batch, tokens, 100 * s->busy_fraction);
  if (r->drive->result->num_preemptions > 0 && n > 0 && (size_t)n < sizeof text)
    snprintf(text + n, sizeof text - (size_t)n, "; %s preemptions, %s tokens computed again",
             preempted, again);
  size_t used = strlen(text);
  if (r->drive->warmup.n > 0)
    snprintf(text + used, sizeof text - used,
             "; the first %zu, of the warm-up, are in no figure about requests", r->drive->warmup.n);
  ds_wrapped(out, "load", text);
}

/* What the generator made of what was asked for. */
static void generated(ds_outfile *out, const ds_report *r) {
  const ds_workload *w = &r->scenario->workload;
  const ds_arrivals *a = &r->drive->arrivals;
  ds_measured m;
  ds_measured_of(a, &m);
  if (w->kind != DS_WORKLOAD_GENERATE || !(m.rate_per_s > 0)) return;
  char rate[DS_NUMBER_BYTES], asked[DS_NUMBER_BYTES], input[DS_NUMBER_BYTES],
      output[DS_NUMBER_BYTES], text[400];
  ds_put_short(rate, m.rate_per_s);
  ds_put_short(asked, w->rate_per_s);
  ds_put_short(input, (double)a->input.sum / (double)a->n);
  ds_put_short(output, (double)a->output.sum / (double)a->n);
  int n = snprintf(text, sizeof text, "%s arrivals a second", rate);
  if (w->rate_per_s > 0 && !w->session.on)
    n += snprintf(text + n, sizeof text - (size_t)n, " (%s asked)", asked);
  n += snprintf(text + n, sizeof text - (size_t)n, ", gaps CV %.2f", m.cv);
  if (m.dispersion[0] > 0) {
    n += snprintf(text + n, sizeof text - (size_t)n, ", variance/mean of counts");
    for (size_t k = 0; k < DS_WINDOWS && m.dispersion[k] > 0; k++)
      n += snprintf(text + n, sizeof text - (size_t)n, "%s %.2f in %g s", k > 0 ? "," : "",
                    m.dispersion[k], ds_window_s[k]);
  }
  snprintf(text + n, sizeof text - (size_t)n, "; mean input %s, output %s tokens", input, output);
  ds_wrapped(out, "made", text);
}

/* What speculation did, where there is any. */
static void speculation(ds_outfile *out, const ds_report *r) {
  const ds_speculation *p = &r->scenario->run.pool.speculative;
  const ds_spec_totals *t = &r->drive->result->speculation;
  if (p->method == DS_DRAFT_NONE) return;
  if (t->drafts == 0) {
    ds_wrapped(out, "drafts", "none");
    return;
  }
  char text[256];
  snprintf(text, sizeof text, "%s%s%s, up to %lld tokens; %.1f %% accepted, %.2f tokens a verify step", ds_draft_names[p->method],
           p->method == DS_DRAFT_MODEL && p->draft.name[0] ? " " : "", p->method == DS_DRAFT_MODEL ? p->draft.name : "",
           (long long)p->tokens, 100.0 * (double)t->accepted_tokens / (double)t->draft_tokens,
           1 + (double)t->accepted_tokens / (double)t->drafts);
  ds_wrapped(out, "drafts", text);
  const ds_spec_totals *of = r->drive->result->stream_speculation;
  for (size_t k = 0; of != NULL && r->classes != NULL && k < r->classes->n; k++) {
    if (of[k].drafts == 0) continue;
    snprintf(text, sizeof text, "of %.60s: %.1f %% accepted, %.2f tokens a verify step", r->classes->of[k].workload->class_name,
             100.0 * (double)of[k].accepted_tokens / (double)of[k].draft_tokens,
             1 + (double)of[k].accepted_tokens / (double)of[k].drafts);
    ds_wrapped(out, "", text);
  }
}

/* One line for each of several workloads. */
static void classes(ds_outfile *out, const ds_report *r) {
  if (r->classes == NULL || r->classes->n == 0) return;
  ds_out_printf(out, "%-16s%10s%10s%10s%10s%10s%12s\n", "class", "requests", "TTFT p50", "TTFT p99",
                "TPOT p50", "TPOT p99", "E2E p99, ms");
  for (size_t k = 0; k < r->classes->n; k++) {
    const ds_summary *s = &r->classes->of[k].summary;
    const double v[] = {s->ttft.p50, s->ttft.p99, s->tpot.p50, s->tpot.p99, s->e2el.p99};
    char text[DS_NUMBER_BYTES];
    ds_put_count(text, s->completed);
    ds_out_printf(out, "%-16.16s%10s", r->classes->of[k].workload->class_name, text);
    for (size_t i = 0; i < 5; i++) {
      ds_put_short(text, v[i]);
      ds_out_printf(out, "%*s", i == 4 ? 12 : 10, text);
    }
    ds_out_text(out, "\n");
  }
  ds_out_text(out, "\n");
}

static bool any_interval(const ds_summary *s) {
  for (size_t i = 0; i < s->n_verdicts; i++)
    if (s->verdict[i].has_interval) return true;
  return false;
}

void ds_table(ds_outfile *out, const ds_report *r) {
  ds_out_text(out, "\n");
  latencies(out, r->summary);
  ds_out_text(out, "\n");
  throughput(out, r->summary);
  ds_out_text(out, "\n");
  classes(out, r);
  memory(out, r);
  load(out, r);
  generated(out, r);
  if (r->drive->result->with_images) ds_images_line(out, r);
  speculation(out, r);
  if (any_interval(r->summary))
    ds_wrapped(
        out, "note",
        "[low, high] holds the percentile with 95 %, judged from this run's requests as if they "
        "were independent");
}
