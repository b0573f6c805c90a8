// SPDX-License-Identifier: GPL-3.0-or-later
/* slo (short and long form) and cost. */
#include <string.h>

#include "io/scenario_read.h"

#define LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define YEAR_NS (365 * 86400 * DS_NS_PER_S)

static const char *const metrics[] = {"ttft", "tpot", "itl",
                                      "e2e"}; /* in the order of ds_metric_id */
static const ds_later later_metrics[] = {
    {"ttft_answer", NULL, "the time to the first token of an answer"}};

/* --- limits per request -------------------------------------------------------------------- */

/* Noted in the long form, so that all reports read alike; complaints name what was written. */
static bool read_request(ds_reader *r, const ds_node *map, const char *written,
                         ds_slo_request *out) {
  int64_t *limit[] = {&out->ttft_ns, &out->tpot_ns, &out->itl_ns, &out->e2e_ns};
  char text[48];
  snprintf(r->prefix, sizeof r->prefix, "%s", written);
  if (!ds_section(r, map, metrics, LEN(metrics), later_metrics, LEN(later_metrics))) return false;
  for (size_t i = 0; i < LEN(metrics); ++i) {
    const ds_node *n = ds_node_get(map, metrics[i]);
    if (!n) continue;
    snprintf(r->prefix, sizeof r->prefix, "%s", written);
    if (!ds_want_time(n, ds_name(r, metrics[i]), 1, YEAR_NS, limit[i], r->d)) return false;
    ds_time_format(*limit[i], text, sizeof text);
    snprintf(r->prefix, sizeof r->prefix, "%.80s.request", r->slo_root);
    if (!ds_note(r, metrics[i], n, "", "%s", text)) return false;
  }
  return true;
}

/* --- limits on the run --------------------------------------------------------------------- */

/* p99_ttft, p99.9_e2e, mean_tpot; *percentile 0 is the mean. */
static bool parse_limit(const char *key, ds_metric_id *metric, double *percentile) {
  const char *bar = strchr(key, '_');
  char digits[24];
  ds_unit_error e;
  if (!bar) return false;
  size_t i = 0, n = (size_t)(bar - key);
  while (i < LEN(metrics) && strcmp(metrics[i], bar + 1) != 0) ++i;
  if (i == LEN(metrics)) return false;
  *metric = (ds_metric_id)i;
  if (n == 4 && memcmp(key, "mean", 4) == 0) {
    *percentile = 0;
    return true;
  }
  if (key[0] != 'p' || n < 2 || n >= sizeof digits || key[1] < '0' || key[1] > '9') return false;
  memcpy(digits, key + 1, n - 1);
  digits[n - 1] = '\0';
  return ds_quantity_parse(digits, DS_DIM_NUMBER, percentile, &e) && *percentile > 0 &&
         *percentile <= 100;
}

static bool unknown_limit(ds_reader *r, const ds_node *n) {
  static const char *const examples[] = {"p99_ttft", "p99_tpot", "p99_itl",   "p99_e2e",
                                         "p95_ttft", "p95_tpot", "p90_ttft",  "p90_tpot",
                                         "p50_ttft", "p50_tpot", "mean_ttft", "mean_tpot",
                                         "mean_itl", "mean_e2e", "attainment"};
  ds_complain_key(r->d, n, "unknown key '%.60s' in %s", n->key, ds_name(r, ""));
  ds_diag_expected(r->d, "a percentile above 0 and up to 100 or the mean of ttft, tpot, itl or "
                         "e2e, such as p99_ttft or mean_tpot, or attainment");
  const char *near = ds_nearest(n->key, examples, LEN(examples));
  if (near) ds_diag_hint(r->d, "did you mean %s?", near);
  return false;
}

static bool read_run(ds_reader *r, const ds_node *map, ds_slo *out) {
  char text[48];
  if (!ds_want_map(map, ds_name(r, ""), r->d)) return false;
  for (const ds_node *n = map->first; n; n = n->next) {
    ds_slo_limit l;
    memset(&l, 0, sizeof l); /* its padding too: a run is compared as bytes */
    if (strcmp(n->key, "attainment") == 0) {
      if (!ds_want_number(n, ds_name(r, n->key), 1e-9, 1, &out->attainment, r->d)) return false;
      ds_quantity_format(out->attainment, DS_DIM_NUMBER, text, sizeof text);
      if (!ds_note(r, n->key, n, "", "%s", text)) return false;
      continue;
    }
    if (!parse_limit(n->key, &l.metric, &l.percentile)) return unknown_limit(r, n);
    if (out->n_run == DS_SLO_RUN_MAX) {
      ds_complain_key(r->d, n, "%s has too many limits", ds_name(r, ""));
      ds_diag_expected(r->d, "%d at most", DS_SLO_RUN_MAX);
      return false;
    }
    if (!ds_want_time(n, ds_name(r, n->key), 1, YEAR_NS, &l.limit_ns, r->d)) return false;
    out->run[out->n_run++] = l;
    ds_time_format(l.limit_ns, text, sizeof text);
    if (!ds_note(r, n->key, n, "", "%s", text)) return false;
  }
  return true;
}

/* --- both forms ---------------------------------------------------------------------------- */

/* A key of one form inside the other deserves better than "unknown". */
static bool check_forms(ds_reader *r, const ds_node *slo, bool is_long) {
  ds_metric_id m;
  double p;
  for (const ds_node *n = slo->first; n; n = n->next) {
    size_t i = 0;
    while (i < LEN(metrics) && strcmp(metrics[i], n->key) != 0) ++i;
    bool limit = parse_limit(n->key, &m, &p) || strcmp(n->key, "attainment") == 0;
    if (!(is_long && i < LEN(metrics)) && !limit) continue;
    ds_complain_key(r->d, n, "%s stands %s", ds_name(r, n->key),
                    limit ? "outside slo.run" : "beside request, run or window");
    ds_diag_expected(r->d, "slo: {request: {ttft: 2 s}, run: {p99_ttft: 2 s}}");
    ds_diag_hint(r->d, "move it to slo.%s.%s", limit ? "run" : "request", n->key);
    return false;
  }
  return true;
}

static bool read_long(ds_reader *r, const ds_node *slo, ds_slo *out) {
  static const char *const keys[] = {"request", "run", "window"};
  if (!ds_section(r, slo, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *request = ds_node_get(slo, "request"), *run = ds_node_get(slo, "run"),
                *window = ds_node_get(slo, "window");
  char written[96];
  snprintf(written, sizeof written, "%.80s.request", r->slo_root);
  if (request && !read_request(r, request, written, &out->request)) return false;
  snprintf(r->prefix, sizeof r->prefix, "%.80s.run", r->slo_root);
  if (run && !read_run(r, run, out)) return false;
  snprintf(r->prefix, sizeof r->prefix, "%s", r->slo_root);
  if (!window) return true;
  char text[48];
  if (!ds_want_time(window, ds_name(r, "window"), DS_NS_PER_MS, YEAR_NS, &out->window_ns, r->d))
    return false;
  ds_time_format(out->window_ns, text, sizeof text);
  return ds_note(r, "window", window, "", "%s", text);
}

bool ds_read_slo(ds_reader *r, const ds_node *slo) {
  ds_slo *out = &r->s->run.slo;
  const ds_workload *w = &r->s->workload;
  snprintf(r->prefix, sizeof r->prefix, "%s", r->slo_root);
  if (!slo && w->limit_ttft_ns > 0) { /* the protocol's own limits */
    char ttft[48], tpot[48], from[64];
    out->run[out->n_run++] = (ds_slo_limit){DS_METRIC_TTFT, 99, w->limit_ttft_ns};
    out->run[out->n_run++] = (ds_slo_limit){DS_METRIC_TPOT, 99, w->limit_tpot_ns};
    ds_time_format(w->limit_ttft_ns, ttft, sizeof ttft);
    ds_time_format(w->limit_tpot_ns, tpot, sizeof tpot);
    snprintf(from, sizeof from, "protocol %.40s", w->protocol);
    bool ok = ds_note(r, "run.p99_ttft", NULL, from, "%s", ttft) &&
              ds_note(r, "run.p99_tpot", NULL, from, "%s", tpot);
    r->prefix[0] = '\0';
    return ok;
  }
  r->prefix[0] = '\0';
  if (!slo) return true;
  snprintf(r->prefix, sizeof r->prefix, "%s", r->slo_root);
  if (!ds_want_map(slo, r->slo_root, r->d)) return false;
  bool is_long =
      ds_node_get(slo, "request") || ds_node_get(slo, "run") || ds_node_get(slo, "window");
  if (!check_forms(r, slo, is_long)) return false;
  if (is_long ? !read_long(r, slo, out) : !read_request(r, slo, r->slo_root, &out->request)) return false;
  r->prefix[0] = '\0';
  const ds_slo_request *q = &out->request;
  if (out->attainment > 0 && q->ttft_ns == 0 && q->tpot_ns == 0 && q->itl_ns == 0 &&
      q->e2e_ns == 0) {
    ds_complain_key(r->d, ds_node_get(ds_node_get(slo, "run"), "attainment"),
                    "slo.run.attainment has no slo.request to attain");
    ds_diag_expected(r->d, "limits per request, such as request: {ttft: 2 s, tpot: 100 ms}");
    return false;
  }
  return true;
}

/* --- cost ---------------------------------------------------------------------------------- */

static const char *const tiers[] = {"roofline", "speed-of-light",
                                    "linear"}; /* in the order of ds_cost_tier */

static bool read_linear(ds_reader *r, const ds_node *map, bool note) {
  static const char *const keys[] = {"model", "step", "prefill_token", "decode_sequence",
                                     "draft_token", "scheduling_time", "image_token"};
  static const ds_later later[] = {{"swap_time_per_block", NULL, "the time to swap a block out"},
                                   {"transfer", NULL, "transfers between replicas"}};
  ds_linear *l = &r->s->run.linear;
  double *out[] = {NULL, &l->step_s, &l->prefill_token_s, &l->decode_sequence_s, &l->draft_token_s,
                   &l->scheduling_s, &l->image_token_s};
  char text[48];
  if (!ds_section(r, map, keys, LEN(keys), later, LEN(later))) return false;
  if (note && !ds_note(r, "model", ds_node_get(map, "model"), "", "linear")) return false;
  for (size_t i = 1; i < LEN(keys); ++i) {
    const ds_node *n = ds_node_get(map, keys[i]);
    if (n && !ds_want_quantity(n, ds_name(r, keys[i]), DS_DIM_TIME, 0, 86400, out[i], r->d))
      return false;
    if (!n && (out[i] == &l->scheduling_s || out[i] == &l->image_token_s)) continue; /* no such thing unless it is named */
    ds_quantity_format(*out[i], DS_DIM_TIME, text, sizeof text);
    if (note && !ds_note(r, keys[i], n, "default", "%s", text)) return false;
  }
  return true;
}

/* note: false only finds the tier and its numbers, since the pool must know them first. */
bool ds_read_cost(ds_reader *r, const ds_node *cost, bool note) {
  size_t tier = DS_COST_ROOFLINE;
  const ds_node *model = cost && cost->kind == DS_NODE_MAP ? ds_node_get(cost, "model") : cost;
  snprintf(r->prefix, sizeof r->prefix, "cost");
  if (cost && !model) {
    ds_complain(r->d, cost, "cost.model is missing");
    ds_diag_expected(
        r->d, "cost: roofline, cost: speed-of-light or cost: {model: linear, step: 10 ms, ...}");
    return false;
  }
  if (model && !ds_want_choice(model, ds_name(r, model == cost ? "" : "model"), tiers, LEN(tiers),
                               &tier, r->d))
    return false;
  r->s->run.cost_tier = (ds_cost_tier)tier;
  bool ok = true;
  if (tier == DS_COST_LINEAR && cost->kind != DS_NODE_MAP) {
    ok = ds_complain(r->d, cost, "cost: linear says no times");
    ds_diag_expected(
        r->d, "cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}");
  } else if (tier == DS_COST_LINEAR) {
    ok = read_linear(r, cost, note);
  } else if (cost && cost->kind == DS_NODE_MAP && cost->n > 1) {
    static const char *const keys[] = {"model"};
    ok = ds_want_keys(cost, "cost", keys, 1, r->d);
  }
  r->prefix[0] = '\0';
  if (!ok || !note || tier == DS_COST_LINEAR) return ok;
  return ds_note(r, "cost", model, "default", "%s", tiers[tier]);
}
