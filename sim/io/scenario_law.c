// SPDX-License-Identifier: GPL-3.0-or-later
/* Laws of lengths (tokens) and of times (kept in milliseconds). */
#include <stdlib.h>
#include <string.h>

#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define TOKENS_MAX 1000000000 /* as in traces */
#define TIME_MAX_S 1e6

static const char *const law_names[] = {"fixed",       "lognormal", "uniform",   "normal",
                                        "exponential", "zipf",      "empirical", "mixture"};

static bool enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "%s.%.100s", r->root, section);
  return true;
}

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

static ds_law_table *new_table(ds_reader *r) {
  ds_law_table *t = calloc(1, sizeof *t);
  if (!t) {
    ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
    return NULL;
  }
  t->next = r->s->workload.tables;
  r->s->workload.tables = t;
  return t;
}

/* A number of the law, noted; 0 where it is not given. */
static bool law_number(ds_reader *r, const ds_node *map, const char *key, bool time, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = 0;
  if (!n) return true;
  if (time) {
    double s;
    if (!ds_want_quantity(n, ds_name(r, key), DS_DIM_TIME, 1e-3, TIME_MAX_S, &s, r->d))
      return false;
    *out = s * 1000;
    ds_quantity_format(s, DS_DIM_TIME, text, sizeof text);
    return ds_note(r, key, n, "", "%s", text);
  }
  if (!ds_want_number(n, ds_name(r, key), 0.5, 1e9, out, r->d)) return false;
  ds_quantity_format(*out, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

static bool law_plain_number(ds_reader *r, const ds_node *map, const char *key, double min,
                             double max, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  if (!n) return true;
  if (!ds_want_number(n, ds_name(r, key), min, max, out, r->d)) return false;
  ds_quantity_format(*out, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

static bool read_lognormal(ds_reader *r, const ds_node *map, bool time, ds_length_law *l) {
  if (!law_number(r, map, "mean", time, &l->mean) || !law_number(r, map, "p99", time, &l->p99) ||
      !law_number(r, map, "median", time, &l->median) ||
      !law_number(r, map, "min", time, &l->min) || !law_number(r, map, "max", time, &l->max))
    return false;
  if (l->mean == 0) return missing(r, map, "mean", "law: lognormal, mean: 550, p99: 3000");
  if ((l->p99 == 0) == (l->median == 0)) {
    ds_complain(r->d, map, "%s has %s of p99 and median", ds_name(r, ""),
                l->p99 == 0 ? "neither" : "both");
    ds_diag_expected(r->d, "the mean and one of p99 and median");
    return false;
  }
  ds_lognormal fitted;
  ds_lognormal_fit fit = ds_lognormal_from(
      l->mean, l->p99 > 0 ? 0.99 : 0.5, l->p99 > 0 ? l->p99 : l->median, l->min, l->max, &fitted);
  if (fit == DS_FIT_OK) return true;
  ds_complain(r->d, map,
              fit == DS_FIT_SHAPE ? "%s: no lognormal law has this mean and this %s"
                                  : "%s: the limits do not leave room for this mean (and this %s)",
              ds_name(r, ""), l->p99 > 0 ? "p99" : "median");
  ds_diag_expected(r->d, fit != DS_FIT_SHAPE ? "min below the mean and max above it"
                         : l->p99 > 0        ? "a p99 above the mean and below 14.9 times the mean"
                                             : "a median below the mean");
  return false;
}

static bool read_uniform(ds_reader *r, const ds_node *map, bool time, ds_length_law *l) {
  if (!law_number(r, map, "min", time, &l->min) || !law_number(r, map, "max", time, &l->max))
    return false;
  if (l->min == 0 || l->max == 0)
    return missing(r, map, l->min == 0 ? "min" : "max", "law: uniform, min: 100, max: 300");
  if (l->min <= l->max && l->min == (double)(int64_t)l->min && l->max == (double)(int64_t)l->max)
    return true;
  ds_complain(r->d, map, "%s: min %g and max %g are no range", ds_name(r, ""), l->min, l->max);
  ds_diag_expected(r->d, "whole numbers, min at most max");
  return false;
}

static bool read_normal(ds_reader *r, const ds_node *map, bool time, ds_length_law *l) {
  static const char *const outside[] = {"resample", "clamp"};
  size_t k;
  if (!law_number(r, map, "mean", time, &l->mean) || !law_number(r, map, "sd", time, &l->sd) ||
      !law_number(r, map, "min", time, &l->min) || !law_number(r, map, "max", time, &l->max) ||
      !ds_opt_choice(r, map, "outside", outside, LEN(outside), 0, &k))
    return false;
  l->clamp = k == 1;
  if (l->mean == 0 || l->sd == 0)
    return missing(r, map, l->mean == 0 ? "mean" : "sd", "law: normal, mean: 550, sd: 150");
  return true; /* whether the limits leave room is seen when it is made */
}

static bool read_zipf(ds_reader *r, const ds_node *map, ds_length_law *l) {
  if (!law_plain_number(r, map, "theta", 0.01, 20, &l->theta) ||
      !law_number(r, map, "min", false, &l->min) || !law_number(r, map, "max", false, &l->max))
    return false;
  if (l->theta == 0) return missing(r, map, "theta", "law: zipf, theta: 0.6, min: 16, max: 4096");
  if (l->min >= 1 && l->min <= l->max) return true;
  ds_complain(r->d, map, "%s needs a range", ds_name(r, ""));
  ds_diag_expected(r->d, "min: 16, max: 4096");
  return false;
}

/* [[0, 2], [0.5, 1020], [1, 14050]]: probability and value, both ascending. */
static bool read_empirical(ds_reader *r, const ds_node *map, bool time, ds_length_law *l) {
  const ds_node *list = ds_node_get(map, "quantiles");
  if (!list) return missing(r, map, "quantiles", "quantiles: [[0, 2], [0.5, 1020], [1, 14050]]");
  if (!ds_want_list(list, ds_name(r, "quantiles"), r->d)) return false;
  ds_law_table *t = new_table(r);
  if (!t) return false;
  char text[480];
  size_t used = 0;
  for (const ds_node *n = list->first; n; n = n->next) {
    bool ok = t->n_q < DS_QUANTILES_MAX && n->kind == DS_NODE_LIST && n->n == 2;
    ds_quantile *q = &t->q[t->n_q];
    if (ok && (!ds_want_number(n->first, ds_name(r, "quantiles"), 0, 1, &q->p, r->d) ||
               !ds_want_number(n->last, ds_name(r, "quantiles"), time ? 1e-3 : 1,
                               time ? TIME_MAX_S : TOKENS_MAX, &q->x, r->d)))
      return false;
    if (ok && time) q->x *= 1000;
    ok = ok && (t->n_q == 0 ? q->p == 0 : q->p > q[-1].p && q->x >= q[-1].x);
    if (!ok || (!n->next && q->p != 1)) {
      ds_complain(r->d, n, "%s: entry %zu does not fit", ds_name(r, "quantiles"), t->n_q + 1);
      ds_diag_expected(r->d,
                       "2 to %d pairs [probability, value], both ascending, the first with "
                       "probability 0 and the last with 1",
                       DS_QUANTILES_MAX);
      return false;
    }
    if (used < sizeof text - 48)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s[%g, %g]", t->n_q ? ", " : "",
                               q->p, time ? q->x / 1000 : q->x);
    t->n_q++;
  }
  if (t->n_q < 2) return missing(r, list, "quantiles", "at least two pairs");
  l->table = t;
  /* Long tables are named by hash, so that two scenarios never look alike by accident. */
  if (used >= sizeof text - 48) {
    char hash[65];
    ds_sha256_hex(t->q, t->n_q * sizeof *t->q, hash);
    if (!ds_note(r, "quantiles", list, "", "%zu with SHA-256 %s", t->n_q, hash)) return false;
  } else if (!ds_note(r, "quantiles", list, "", "[%s]", text)) {
    return false;
  }
  return law_number(r, map, "mean", time, &l->mean);
}

static bool read_law_map(ds_reader *r, const ds_node *n, const char *section, bool time, bool part,
                         ds_length_law *l);

static bool read_mixture(ds_reader *r, const ds_node *map, const char *section, bool time,
                         ds_length_law *l) {
  const ds_node *list = ds_node_get(map, "parts");
  if (!list)
    return missing(r, map, "parts",
                   "parts: [{weight: 0.7, law: fixed, value: 100}, {weight: 0.3, ...}]");
  if (!ds_want_list(list, ds_name(r, "parts"), r->d)) return false;
  if (list->n < 2 || list->n > DS_PARTS_MAX) {
    ds_complain(r->d, list, "%s has %zu entries", ds_name(r, "parts"), list->n);
    ds_diag_expected(r->d, "2 to %d laws with their weights", DS_PARTS_MAX);
    return false;
  }
  ds_law_table *t = new_table(r);
  if (!t) return false;
  double sum = 0;
  for (const ds_node *n = list->first; n; n = n->next) {
    char inner[100];
    snprintf(inner, sizeof inner, "%.80s.parts.%zu", section, t->n_part);
    enter(r, inner);
    if (!ds_want_map(n, ds_name(r, ""), r->d)) return false;
    if (!ds_node_get(n, "weight")) return missing(r, n, "weight", "weight: 0.7");
    if (!law_plain_number(r, n, "weight", 1e-9, 1e9, &t->weight[t->n_part]) ||
        !read_law_map(r, n, inner, time, true, &t->part[t->n_part]))
      return false;
    sum += t->weight[t->n_part++];
  }
  for (size_t i = 0; i < t->n_part; ++i) t->weight[i] /= sum;
  l->table = t;
  return enter(r, section);
}

static bool read_law_map(ds_reader *r, const ds_node *n, const char *section, bool time, bool part,
                         ds_length_law *l) {
  static const struct {
    const char *keys[7];
    size_t n;
  } of[DS_LAW_N] = {
      [DS_LAW_FIXED] = {{"law", "value"}, 2},
      [DS_LAW_LOGNORMAL] = {{"law", "mean", "p99", "median", "min", "max"}, 6},
      [DS_LAW_UNIFORM] = {{"law", "min", "max"}, 3},
      [DS_LAW_NORMAL] = {{"law", "mean", "sd", "min", "max", "outside"}, 6},
      [DS_LAW_NORMAL_TOOL] = {{"law", "mean", "sd"}, 3},
      [DS_LAW_EXPONENTIAL] = {{"law", "mean"}, 2},
      [DS_LAW_ZIPF] = {{"law", "theta", "min", "max"}, 4},
      [DS_LAW_EMPIRICAL] = {{"law", "quantiles", "mean"}, 3},
      [DS_LAW_MIXTURE] = {{"law", "parts"}, 2},
  };
  size_t k = 0;
  const ds_node *law = ds_node_get(n, "law");
  if (!law) return missing(r, n, "law", "law: fixed or law: lognormal");
  size_t n_names = part ? DS_LAW_MIXTURE : DS_LAW_NORMAL_TOOL; /* no mixture of mixtures */
  if (law->kind == DS_NODE_SCALAR && strcmp(law->text, "normal-tool") == 0)
    k = DS_LAW_NORMAL_TOOL;
  else if (!ds_want_choice(law, ds_name(r, "law"), law_names, n_names, &k, r->d))
    return false;
  if (!ds_note(r, "law", law, "", "%s", k == DS_LAW_NORMAL_TOOL ? "normal-tool" : law_names[k]))
    return false;
  const char *keys[8];
  size_t n_keys = of[k].n;
  memcpy(keys, of[k].keys, sizeof of[k].keys);
  if (part) keys[n_keys++] = "weight";
  if (!ds_want_keys(n, ds_name(r, ""), keys, n_keys, r->d)) return false;
  l->law = (ds_law)k;
  if (time && k == DS_LAW_ZIPF) {
    ds_complain(r->d, law, "%s: zipf is a law of counts", ds_name(r, "law"));
    ds_diag_expected(r->d, "lognormal, exponential or another law of times");
    return false;
  }
  switch (l->law) {
  case DS_LAW_LOGNORMAL:
    return read_lognormal(r, n, time, l);
  case DS_LAW_UNIFORM:
    return read_uniform(r, n, time, l);
  case DS_LAW_NORMAL:
    return read_normal(r, n, time, l);
  case DS_LAW_ZIPF:
    return read_zipf(r, n, l);
  case DS_LAW_EMPIRICAL:
    return read_empirical(r, n, time, l);
  case DS_LAW_MIXTURE:
    return read_mixture(r, n, section, time, l);
  case DS_LAW_NORMAL_TOOL:
    return law_number(r, n, "mean", time, &l->mean) && law_number(r, n, "sd", time, &l->sd);
  case DS_LAW_EXPONENTIAL:
    if (!ds_node_get(n, "mean")) return missing(r, n, "mean", "mean: 200");
    return law_number(r, n, "mean", time, &l->mean);
  case DS_LAW_FIXED:
  case DS_LAW_N:
    break;
  }
  if (!ds_node_get(n, "value")) return missing(r, n, "value", time ? "value: 2 s" : "value: 128");
  return law_number(r, n, "value", time, &l->value);
}

bool ds_read_law(ds_reader *r, const ds_node *n, const char *section, bool time, ds_length_law *l) {
  enter(r, section);
  if (n->kind != DS_NODE_SCALAR) /* a plain count or time is the fixed law */
    return ds_want_map(n, ds_name(r, ""), r->d) && read_law_map(r, n, section, time, false, l);
  if (time) {
    double s;
    char text[48];
    if (!ds_want_quantity(n, ds_name(r, ""), DS_DIM_TIME, 1e-3, TIME_MAX_S, &s, r->d)) return false;
    l->value = s * 1000;
    ds_quantity_format(s, DS_DIM_TIME, text, sizeof text);
    return ds_note(r, "law", n, "", "fixed") && ds_note(r, "value", n, "", "%s", text);
  }
  int64_t v;
  if (!ds_want_integer(n, ds_name(r, ""), 1, TOKENS_MAX, &v, r->d)) return false;
  l->value = (double)v;
  return ds_note(r, "law", n, "", "fixed") && ds_note(r, "value", n, "", "%lld", (long long)v);
}
