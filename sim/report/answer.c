// SPDX-License-Identifier: GPL-3.0-or-later
/* The answer for people: met or not, what breaks first, why, what it costs, how far to trust it,
 * what to try next. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "report/numbers.h"
#include "report/kv_report.h"
#include "report/report.h"
#include "spec/arith.h"
#include "study/express.h"

#define COLUMNS 80
#define LABEL   9

/* A line put together piece by piece; cut, never overrun. */
typedef struct line {
  char text[1024];
  size_t n;
} line;

static void put(line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(line *l, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, args);
  va_end(args);
  if (n > 0) l->n += (size_t)n;
  if (l->n >= sizeof l->text) l->n = sizeof l->text - 1;
}

static void put_short(line *l, double v) {
  char text[DS_NUMBER_BYTES];
  ds_put_short(text, v);
  put(l, "%s", text);
}

/* Bytes of the next word; a percentage stays together. */
static size_t word_bytes(const char *text) {
  size_t n = strcspn(text, " ");
  if (strncmp(text + n, " %", 2) == 0) n += 1 + strcspn(text + n + 1, " ");
  return n;
}

/* Columns on screen: UTF-8 continuation bytes take none. */
static size_t width_of(const char *s, size_t n) {
  size_t w = 0;
  for (size_t i = 0; i < n; i++) w += ((unsigned char)s[i] & 0xc0) != 0x80;
  return w;
}

void ds_wrapped(ds_outfile *out, const char *label, const char *text) {
  ds_out_printf(out, "%-*s", LABEL, label);
  size_t column = LABEL;
  while (*text != '\0') {
    size_t n = word_bytes(text), w = width_of(text, n);
    if (column > LABEL && column + 1 + w > COLUMNS) {
      ds_out_printf(out, "\n%*s", LABEL, "");
      column = LABEL;
    }
    if (column > LABEL) {
      ds_out_bytes(out, " ", 1);
      column++;
    }
    ds_out_bytes(out, text, n);
    column += w;
    text += n;
    while (*text == ' ') text++;
  }
  ds_out_text(out, "\n");
}

static const char *paint(const ds_report *r, const char *code) { return r->colour ? code : ""; }
#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

static void put_workload(line *l, const ds_report *r) {
  const ds_workload *w = &r->scenario->workload;
  if (w->class_name[0] != '\0')
    put(l, "%s traffic", w->class_name);
  else if (w->kind == DS_WORKLOAD_MERGED)
    put(l, "%zu workloads", w->n_stream);
  else if (w->kind == DS_WORKLOAD_TRACE)
    put(l, "%s trace", ds_trace_format(r->drive->trace));
  else if (w->kind == DS_WORKLOAD_INLINE)
    put(l, "%zu given request%s", r->drive->arrivals.n, r->drive->arrivals.n == 1 ? "" : "s");
  else if (w->process == DS_ARRIVAL_BURST)
    put(l, "%zu request%s at once", r->drive->arrivals.n, r->drive->arrivals.n == 1 ? "" : "s");
  else if (w->process == DS_ARRIVAL_CLOSED)
    put(l, "%" PRId64 " clients in a closed loop", w->concurrency);
  else if (w->process == DS_ARRIVAL_USERS)
    put(l, "%" PRId64 " users", w->arrival.users);
  else
    put(l, "%s arrivals", w->process == DS_ARRIVAL_POISSON ? "Poisson" : ds_arrival_names[w->process]);
  const ds_flow *f = &r->summary->flow;
  if (f->window_ns <= 0) return;
  put(l, " at ");
  put_short(l, (double)(f->requests - 1) / ((double)f->window_ns * 1e-9));
  put(l, " req/s");
}

/* What starts at the left edge: words wrap as elsewhere, without a label. */
static void at_left_edge(ds_outfile *out, const char *text) {
  size_t column = 0;
  while (*text != '\0') {
    size_t n = word_bytes(text), w = width_of(text, n);
    if (column > 0 && column + 1 + w > COLUMNS) {
      ds_out_text(out, "\n  ");
      column = 2;
    } else if (column > 0) {
      ds_out_bytes(out, " ", 1);
      column++;
    }
    ds_out_bytes(out, text, n);
    column += w;
    text += n + (text[n] == ' ');
  }
  ds_out_text(out, "\n");
}

static void headline(ds_outfile *out, const ds_report *r) {
  const ds_run *run = &r->scenario->run;
  const ds_pool *p = &run->pool;
  line l = {"", 0};
  long long replicas = (long long)p->replicas, width = (long long)(r->summary->gpus / p->replicas);
  if (run->cost_tier == DS_COST_LINEAR) {
    put(&l, "linear cost model on %lld replica%s, ", replicas, replicas == 1 ? "" : "s");
  } else {
    const ds_scenario *sc = r->scenario;
    const char *model = sc->model_title[0] != '\0' ? sc->model_title : run->model.name;
    const char *part = sc->hardware_title[0] != '\0' ? sc->hardware_title : p->hw.name;
    {
      put(&l, "%s %s", model, ds_format_name(run->weights));
      if (run->model.experts > 0 && run->expert_weights != run->weights)
        put(&l, ", experts %s,", ds_format_name(run->expert_weights));
      put(&l, " on ");
    }
    if (width > 1)
      put(&l, "%lld x %lld %s, ", replicas, width, part);
    else
      put(&l, "%lld %s, ", replicas, part);
  }
  put_workload(&l, r);
  put(&l, ", %s", p->scheduler);
  if (r->scenario->title[0] != '\0') at_left_edge(out, r->scenario->title);
  at_left_edge(out, l.text);
}

static void slo_row(ds_outfile *out, const ds_report *r, const char **label, const char *name,
                    const char *value, const char *interval, int met) {
  ds_out_printf(out, "%-*s%-24s %12s  %-16s", LABEL, *label, name, value, interval);
  if (met >= 0)
    ds_out_printf(out, "  %s%s%s", paint(r, met ? GREEN : RED), met ? "met" : "missed",
                  paint(r, PLAIN));
  ds_out_text(out, "\n");
  *label = "";
}

static void verdict_row(ds_outfile *out, const ds_report *r, const char **label, const char *who,
                        const ds_verdict *v) {
  line name = {"", 0}, value = {"", 0}, interval = {"", 0};
  char limit[DS_NUMBER_BYTES], percentile[DS_NUMBER_BYTES];
  ds_put_duration(limit, v->limit.limit_ns);
  bool seconds = v->limit.limit_ns >= DS_NS_PER_S;
  double unit = seconds ? 1e-3 : 1;
  ds_put_double(percentile, v->limit.percentile);
  if (who[0] != '\0') put(&name, "%s ", who);
  if (v->limit.percentile > 0)
    put(&name, "p%s ", percentile);
  else
    put(&name, "mean ");
  put(&name, "%s <= %s", ds_metric_title(v->limit.metric), limit);
  put_short(&value, v->value_ms * unit);
  put(&value, seconds ? " s" : " ms");
  if (v->has_interval) {
    put(&interval, "[");
    put_short(&interval, v->low_ms * unit);
    put(&interval, ", ");
    put_short(&interval, v->high_ms * unit);
    put(&interval, "]");
  }
  slo_row(out, r, label, name.text, value.text, interval.text, v->met);
  if (v->windows == 0) return;
  line windows = {"", 0};
  put(&windows, "in %zu of %zu windows; the worst has ", v->windows_met, v->windows);
  put_short(&windows, v->worst_ms * unit);
  put(&windows, seconds ? " s" : " ms");
  ds_wrapped(out, "", windows.text);
}

static bool request_limits(line *l, const ds_slo_request *q) {
  const int64_t limit[] = {q->ttft_ns, q->tpot_ns, q->itl_ns, q->e2e_ns};
  bool any = false;
  for (int m = DS_METRIC_TTFT; m <= DS_METRIC_E2E; m++) {
    if (limit[m] <= 0) continue;
    char text[DS_NUMBER_BYTES];
    ds_put_duration(text, limit[m]);
    put(l, "%s%s <= %s", any ? ", " : "", ds_metric_title((ds_metric_id)m), text);
    any = true;
  }
  return any;
}

static void put_percent(line *l, double share) {
  char text[DS_NUMBER_BYTES];
  /* 99.96 % is not all of them. */
  double percent = share * 100;
  if (percent < 100 && percent > 99.94) percent = 99.9;
  ds_put_short(text, percent);
  put(l, "%s %%", text);
}

/* Each class by its own slo; false when none has one. */
static bool class_rows(ds_outfile *out, const ds_report *r, const char **label) {
  bool any = false;
  for (size_t k = 0; r->classes != NULL && k < r->classes->n; k++) {
    const ds_class_result *c = &r->classes->of[k];
    const ds_summary *s = &c->summary;
    for (size_t i = 0; i < s->n_verdicts; i++)
      verdict_row(out, r, label, c->workload->class_name, &s->verdict[i]);
    any = any || s->n_verdicts > 0 || s->has_limits;
    if (!s->has_limits) continue;
    line name = {"", 0}, value = {"", 0};
    put(&name, "%s ", c->workload->class_name);
    if (c->workload->slo.attainment > 0) {
      char least[DS_NUMBER_BYTES];
      ds_put_short(least, c->workload->slo.attainment * 100);
      put(&name, "attainment >= %s %%", least);
      put_percent(&value, s->slo_attainment);
      slo_row(out, r, label, name.text, value.text, "", s->attainment_met);
    } else if (s->n_verdicts == 0) {
      request_limits(&name, &c->workload->slo.request);
      put(&name, ": ");
      put_percent(&name, s->slo_attainment);
      put(&name, " of the requests");
      ds_wrapped(out, *label, name.text);
      *label = "";
    }
  }
  return any;
}

static void slo_rows(ds_outfile *out, const ds_report *r) {
  const ds_summary *s = r->summary;
  const ds_slo *slo = &r->scenario->run.slo;
  const char *label = "SLO";
  for (size_t i = 0; i < s->n_verdicts; i++) verdict_row(out, r, &label, "", &s->verdict[i]);
  if (class_rows(out, r, &label) && !s->has_limits) return;
  if (!s->has_limits) {
    if (s->n_verdicts == 0)
      ds_wrapped(out, label,
                 "none given: --set slo.ttft='2 s' --set slo.tpot='100 ms' asks for one");
    return;
  }
  line name = {"", 0}, value = {"", 0};
  if (slo->attainment > 0) {
    char least[DS_NUMBER_BYTES];
    ds_put_short(least, slo->attainment * 100);
    put(&name, "attainment >= %s %%", least);
    put_percent(&value, s->slo_attainment);
    slo_row(out, r, &label, name.text, value.text, "", s->attainment_met);
    return;
  }
  if (s->n_verdicts > 0) return;
  request_limits(&name, &slo->request);
  put(&name, ": ");
  put_percent(&name, s->slo_attainment);
  put(&name, " of the requests meet %s", strchr(name.text, ',') != NULL ? "all" : "it");
  ds_wrapped(out, label, name.text);
}

static void put_breaking(line *l, const ds_report *r) {
  const ds_breaking *b = r->breaking;
  if (b == NULL || !b->searched) return;
  const char *metric = ds_metric_title(b->metric);
  if (b->never) {
    put(l, "; nothing breaks up to ");
  } else if (b->always) {
    put(l, "; breaks first: %s, even one request at a time", metric);
    return;
  } else {
    put(l, "; breaks first: %s, at about ", metric);
  }
  put_short(l, b->rate_per_s);
  put(l, " req/s");
}

static void goodput(ds_outfile *out, const ds_report *r) {
  const ds_summary *s = r->summary;
  if (!s->has_limits) return;
  line l = {"", 0};
  put_short(&l, s->request_goodput);
  put(&l, " of ");
  put_short(&l, s->request_throughput);
  put(&l, " req/s");
  put_breaking(&l, r);
  ds_workload_kind kind = r->scenario->workload.kind;
  if (r->slow && kind != DS_WORKLOAD_INLINE)
    put(&l, "; for what breaks first, replay a part: --set workload.%s=2000",
        kind == DS_WORKLOAD_TRACE ? "select.first" : "generate.requests");
  ds_wrapped(out, "goodput", l.text);
}

static const char *reason(const char *bottleneck) {
  static const char *const text[][2] = {{"decode_memory", "decode waits for memory"},
                                        {"decode_compute", "decode is bound by arithmetic"},
                                        {"communication", "GPUs wait for each other"},
                                        {"host", "the host holds the GPUs up"},
                                        {"prefill", "prompts take the time"},
                                        {"encoder", "images being encoded take the time"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(text); i++)
    if (strcmp(text[i][0], bottleneck) == 0) return text[i][1];
  return bottleneck;
}

static double bottleneck_share(const ds_summary *s) {
  double most = s->prefill_share > s->encoder_share ? s->prefill_share : s->encoder_share;
  for (int p = 0; p < DS_PART_N; p++)
    if (s->busy_share[p] > most) most = s->busy_share[p];
  return most;
}

static void why(ds_outfile *out, const ds_report *r) {
  const ds_summary *s = r->summary;
  const ds_result *res = r->drive->result;
  if (s->bottleneck == NULL) return;
  line l = {"", 0};
  if (r->scenario->run.cost_tier == DS_COST_LINEAR)
    put(&l, "the linear model has no causes");
  else
    put(&l, "%s (%.0f %% of busy time)", reason(s->bottleneck), 100 * bottleneck_share(s));
  bool linear = r->scenario->run.cost_tier == DS_COST_LINEAR;
  if (s->encoder_share > 0 && !linear && strcmp(s->bottleneck, "encoder") != 0)
    put(&l, ", encoding images %.0f %%", 100 * s->encoder_share);
  put(&l, "; GPUs busy %.0f %%", 100 * s->busy_fraction);
  if (s->kv_known) put(&l, "; KV pool %.0f %% full", 100 * s->kv_max);
  double total = 0;
  for (int c = 0; c < DS_CAUSE_N; c++) total += ds_wide_double(res->blame_ns[c]);
  double queue = ds_wide_double(res->blame_ns[DS_CAUSE_QUEUE]),
         kv = ds_wide_double(res->blame_ns[DS_CAUSE_KV_WAIT]);
  if (total > 0 && queue / total >= 0.1)
    put(&l, "; requests queue for %.0f %% of their time", 100 * queue / total);
  if (total > 0 && kv / total >= 0.1)
    put(&l, "; they wait for KV for %.0f %% of it", 100 * kv / total);
  ds_wrapped(out, "why", l.text);
}

static void cost(ds_outfile *out, const ds_report *r) {
  const ds_summary *s = r->summary;
  const ds_hw *hw = &r->scenario->run.pool.hw;
  if (!s->has_price) return;
  line l = {"", 0};
  put_short(&l, s->usd_per_m_output);
  put(&l, " $/M output tokens at %.2f $/GPU-h (list", hw->price_usd_per_h);
  if (hw->price_date[0] != '\0') put(&l, ", %s", hw->price_date);
  if (hw->price_high_usd_per_h > 0)
    put(&l, ", range %.2f-%.2f", hw->price_low_usd_per_h, hw->price_high_usd_per_h);
  put(&l, ")");
  ds_wrapped(out, "cost", l.text);
}

const ds_band *ds_report_band(const ds_report *r, ds_band_metric metric) {
  const ds_run *run = &r->scenario->run;
  if (r->bands == NULL || run->cost_tier != DS_COST_ROOFLINE) return NULL;
  return ds_bands_find(r->bands, run->pool.hw.name, run->pool.hw.grade == DS_GRADE_MEASURED,
                       ds_model_class(&run->model), run->pool.engine.name, metric);
}

/* What the efficiencies rest on. */
static void put_grade(line *l, const ds_run *run) {
  const ds_hw *hw = &run->pool.hw;
  put(l, "; the efficiencies of %s %s", hw->name,
      hw->grade == DS_GRADE_MEASURED ? "were fitted to measured kernels" : "are estimates");
  const char *guess = hw->grade == DS_GRADE_MEASURED ? ds_estimated_group(run) : NULL;
  if (guess != NULL) put(l, ", but its %s is an estimate", guess);
}

/* Nothing is too low by more than 100 %: a band that wide is a factor. */
static void put_band(line *l, const char *what, const ds_band *b) {
  if (b->half_width < 1) put(l, "%s +-%.0f %%", what, 100 * b->half_width);
  else put(l, "%s within a factor of %.1f", what, 1 + b->half_width);
}

static void trust(ds_outfile *out, const ds_report *r) {
  const ds_run *run = &r->scenario->run;
  const ds_hw *hw = &run->pool.hw;
  const ds_band *tpot = ds_report_band(r, DS_BAND_TPOT), *ttft = ds_report_band(r, DS_BAND_TTFT);
  const ds_band *tokens = ds_report_band(r, DS_BAND_THROUGHPUT), *any = tpot != NULL ? tpot : tokens;
  line l = {"", 0};
  if (run->cost_tier == DS_COST_LINEAR) {
    put(&l, "as far as the linear cost model that you gave");
  } else if (run->cost_tier == DS_COST_SPEED_OF_LIGHT) {
    put(&l, "a bound that no engine reaches, not a prediction");
  } else if (any == NULL) {
    put(&l, "not validated: no measured runs of such a part and model");
  } else {
    const char *class_name = ds_model_class(&run->model);
    bool part = strcmp(any->hardware, hw->name) == 0;
    put(&l, "%s, %s models: ", part ? hw->name : any->hardware[0] == 'm' ? "parts with kernel data" : "parts without kernel data",
        strcmp(class_name, "moe") == 0 ? "MoE" : strcmp(class_name, "mla") == 0 ? "MLA" : class_name);
    if (tpot != NULL) put_band(&l, "TPOT", tpot);
    if (ttft != NULL) put_band(&l, tpot != NULL ? ", TTFT" : "TTFT", ttft);
    if (tpot == NULL) put_band(&l, ttft != NULL ? ", throughput" : "throughput", tokens);
    put(&l, " (%lld measured runs, %s)", (long long)any->runs, r->bands->date);
  }
  if (run->cost_tier == DS_COST_ROOFLINE) put_grade(&l, run);
  if (run->cost_tier == DS_COST_ROOFLINE && r->drive->result->with_images) put(&l, "; the time of encoding images is not validated");
  ds_wrapped(out, "trust", l.text);
}

static void assumed(ds_outfile *out, const ds_report *r) {
  const ds_scenario *sc = r->scenario;
  const ds_workload *w = &sc->workload;
  line l = {"", 0};
  bool knows = sc->sched != NULL && ds_sched_knows(sc->sched, sc->run.pool.scheduler_config.bytes);
  put(&l, "output lengths %s to the scheduler", knows ? "known" : "unknown");
  if (sc->sched != NULL && sc->sched->reserves && !knows && w->max_tokens_is_output)
    put(&l, " but its caps are the true lengths");
  const ds_result *res = r->drive->result;
  const char *cache = sc->run.pool.warm_cache ? "warm" : "cold";
  bool may_share = sc->run.pool.prefix_cache && res->identified > 0;
  if (may_share && res->cached_tokens > 0 && res->input_tokens > 0)
    put(&l, "; %s cache; prefix cache on, it held %.0f %% of the prompts", cache,
        100 * (double)res->cached_tokens / (double)res->input_tokens);
  else
    put(&l, "; %s cache; prefix cache %s", cache,
        may_share                   ? "on"
        : sc->run.pool.prefix_cache ? "on, prompts share nothing"
                                    : "off");
  if (w->rtt_ns > 0) {
    char rtt[DS_NUMBER_BYTES];
    ds_put_duration(rtt, w->rtt_ns);
    put(&l, "; round trip of %s", rtt);
  } else {
    put(&l, "; no network");
  }
  double prepare_s = sc->run.cost_tier == DS_COST_ROOFLINE ? sc->run.pool.engine.api_per_image_token_s : 0;
  if (res->with_images && prepare_s > 0) put(&l, "; pictures are decoded and scaled in %.0f us a token before the queue", prepare_s * 1e6);
  else if (res->with_images) put(&l, "; pictures arrive decoded and scaled");
  if (res->with_images && w->image_assumed[0] != '\0') put(&l, "; those of a size that the trace does not say have %s pixels", w->image_assumed);
  if (w->no_stream) put(&l, "; clients do not stream: the first content is the last");
  if (sc->run.cost_tier == DS_COST_ROOFLINE)
    put(&l, "; %s engine overheads", sc->run.pool.engine.name);
  if (sc->run.cost_tier == DS_COST_SPEED_OF_LIGHT) put(&l, "; speed of light");
  const ds_pool *p = &sc->run.pool;
  if (sc->run.cost_tier == DS_COST_ROOFLINE && p->data_parallel > 1)
    put(&l, "; attention groups schedule apart and are priced as if all had the same batch");
  if (sc->run.cost_tier == DS_COST_ROOFLINE && p->pipeline_parallel > 1)
    put(&l, "; pipeline stages share each batch evenly");
  ds_wrapped(out, "assumed", l.text);
}

/* Bytes up to the next option, so that each keeps its value; blanks inside quotes do not count. */
static size_t option_bytes(const char *text) {
  size_t n = 0;
  bool quoted = false;
  while (text[n] != '\0' && (quoted || strncmp(text + n, " --", 3) != 0)) {
    if (text[n] == '\'') quoted = !quoted;
    n++;
  }
  return n;
}

/* One command, with a comment where it fits; a long one is broken the way a shell reads it. */
static void next_command(ds_outfile *out, const char *label, const char *command,
                         const char *comment) {
  ds_out_printf(out, "%-*s", LABEL, label);
  size_t column = LABEL, whole = width_of(command, strlen(command)), said = strlen(comment);
  if (LABEL + whole <= COLUMNS) {
    ds_out_text(out, command);
    if (LABEL + whole + 4 + said <= COLUMNS) ds_out_printf(out, "  # %s", comment);
    ds_out_text(out, "\n");
    return;
  }
  for (const char *text = command; *text != '\0';) {
    size_t n = option_bytes(text), w = width_of(text, n);
    if (column > LABEL && column + w + 3 > COLUMNS) {
      ds_out_printf(out, " \\\n%*s", LABEL + 2, "");
      column = LABEL + 2;
    } else if (column > LABEL) {
      ds_out_bytes(out, " ", 1);
      column++;
    }
    ds_out_bytes(out, text, n);
    column += w;
    text += n;
    while (*text == ' ') text++;
  }
  ds_out_text(out, "\n");
}

/* The command as it was typed with one more --set; an earlier one of the same key would be noise.
 */
static void put_setting(line *l, const ds_report *r, const char *key, const char *value) {
  char earlier[DS_NAME_MAX + 64];
  snprintf(earlier, sizeof earlier, "--set pools.%s.%s=", r->scenario->run.pool.name, key);
  for (const char *text = r->command; *text != '\0';) {
    size_t n = option_bytes(text);
    if (strncmp(text, earlier, strlen(earlier)) != 0)
      put(l, "%s%.*s", l->n > 0 ? " " : "", (int)n, text);
    text += n;
    while (*text == ' ') text++;
  }
  put(l, " --set pools.%s.%s=%s", r->scenario->run.pool.name, key, value);
}

static void next(ds_outfile *out, const ds_report *r) {
  const ds_pool *p = &r->scenario->run.pool;
  const ds_summary *s = r->summary;
  line a = {"", 0}, b = {"", 0}, c = {"", 0};
  bool room = s->busy_fraction < 0.5 && s->slo_met && !s->saturated && p->replicas > 1;
  char replicas[DS_NUMBER_BYTES];
  ds_put_i64(replicas, room ? p->replicas - 1 : p->replicas + 1);
  put_setting(&a, r, "replicas", replicas);
  put(&b, "%s --requests requests.csv", r->command);
  if (r->scenario->run.cost_tier == DS_COST_LINEAR) {
    put(&c, "%s --steps steps.jsonl", r->command);
  } else {
    put_setting(&c, r, "hardware", strcmp(p->hw.name, "b200-sxm") == 0 ? "h200-sxm" : "b200-sxm");
  }
  next_command(out, "next", a.text, room ? "one replica less" : "one replica more");
  next_command(out, "", b.text, "every request");
  next_command(out, "", c.text,
               r->scenario->run.cost_tier == DS_COST_LINEAR ? "every step" : "another part");
}

void ds_answer(ds_outfile *out, const ds_report *r) {
  line l = {"", 0};
  headline(out, r);
  slo_rows(out, r);
  goodput(out, r);
  why(out, r);
  ds_cache_line(r, l.text, sizeof l.text);
  if (l.text[0] != '\0') ds_wrapped(out, "cache", l.text);
  cost(out, r);
  trust(out, r);
  assumed(out, r);
  for (size_t i = 0; i < r->warnings->n; i++) {
    ds_out_text(out, paint(r, YELLOW));
    ds_wrapped(out, "warning", r->warnings->text[i]);
    ds_out_text(out, paint(r, PLAIN));
  }
  next(out, r);
}
