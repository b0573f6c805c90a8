// SPDX-License-Identifier: GPL-3.0-or-later
/* workload.generate: synthetic requests by laws of arrival and length. */
#include <string.h>

#include "base/dist.h"
#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define LONGEST_NS 1000000000000000000LL
#define TOKENS_MAX 1000000000 /* as in traces */

static bool enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "workload%s%s", section[0] ? "." : "", section);
  return true;
}

static bool later_name(ds_reader *r, const ds_node *n, const char *key, const char *const *names,
                       size_t n_names, const char *expected) {
  for (size_t i = 0; n->kind == DS_NODE_SCALAR && i < n_names; ++i) {
    if (strcmp(n->text, names[i]) != 0) continue;
    ds_complain(r->d, n, "%s: this version does not model '%s'", ds_name(r, key), n->text);
    ds_diag_expected(r->d, "%s", expected);
    return true;
  }
  return false;
}

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

/* So many in flight; each completion lets the next one in after the pause. */
static bool read_closed(ds_reader *r, const ds_node *map, ds_workload *w) {
  const ds_node *rate = ds_node_get(map, "rate"), *seats = ds_node_get(map, "concurrency"),
                *think = ds_node_get(map, "think");
  char text[48];
  if (rate) {
    ds_complain_key(r->d, rate, "%s stands beside process: closed-loop", ds_name(r, "rate"));
    ds_diag_expected(r->d, "no rate: completions let the next requests in");
    return false;
  }
  if (!seats) return missing(r, map, "concurrency", "concurrency: 64");
  if (!ds_want_integer(seats, ds_name(r, "concurrency"), 1, 1000000000, &w->concurrency, r->d) ||
      !ds_note(r, "concurrency", seats, "", "%lld", (long long)w->concurrency))
    return false;
  w->closed_loop = true;
  if (think && !ds_want_time(think, ds_name(r, "think"), 0, LONGEST_NS, &w->think_ns, r->d))
    return false;
  ds_time_format(w->think_ns, text, sizeof text);
  return ds_note(r, "think", think, "default", "%s", text);
}

static bool read_arrivals(ds_reader *r, const ds_node *generate, ds_workload *w) {
  static const char *const keys[] = {"process", "rate", "concurrency", "think"};
  static const char *const processes[] = {"poisson", "constant", "burst-at-zero", "closed-loop"};
  static const char *const later[] = {"gamma", "weibull", "mmpp", "onoff", "ramp", "diurnal",
                                      "users"};
  const ds_node *n = ds_node_get(generate, "arrivals");
  char text[48];
  size_t k = 0;
  if (!n) return missing(r, generate, "arrivals", "arrivals: {process: poisson, rate: 12 /s}");
  enter(r, "generate.arrivals");
  const ds_node *process = ds_node_get(n, "process"), *rate = ds_node_get(n, "rate");
  if (process &&
      later_name(r, process, "process", later, LEN(later), 
                 "poisson, constant, burst-at-zero or closed-loop"))
    return false;
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0) ||
      !ds_opt_choice(r, n, "process", processes, LEN(processes), 0, &k))
    return false;
  w->process = (ds_arrival_process)k;
  if (w->process == DS_ARRIVAL_CLOSED) return read_closed(r, n, w) && enter(r, "generate");
  static const char *const closed_keys[] = {"concurrency", "think"};
  for (size_t i = 0; i < LEN(closed_keys); ++i) {
    const ds_node *other = ds_node_get(n, closed_keys[i]);
    if (!other) continue;
    ds_complain_key(r->d, other, "%s stands beside process: %s", ds_name(r, closed_keys[i]),
                    processes[k]);
    ds_diag_expected(r->d, "%s only beside process: closed-loop", closed_keys[i]);
    return false;
  }
  if (w->process == DS_ARRIVAL_BURST) {
    if (rate) {
      ds_complain_key(r->d, rate, "%s stands beside process: burst-at-zero", ds_name(r, "rate"));
      ds_diag_expected(r->d, "no rate: all requests arrive at time 0");
      return false;
    }
    return enter(r, "generate");
  }
  if (!rate) return missing(r, n, "rate", "rate: 12 /s");
  if (!ds_want_quantity(rate, ds_name(r, "rate"), DS_DIM_RATE, 1e-9, 1e9, &w->rate_per_s, r->d))
    return false;
  ds_quantity_format(w->rate_per_s, DS_DIM_RATE, text, sizeof text);
  return ds_note(r, "rate", rate, "", "%s", text) && enter(r, "generate");
}

/* A number of the law, noted; 0 where it is not given. */
static bool law_number(ds_reader *r, const ds_node *map, const char *key, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = 0;
  if (!n) return true;
  if (!ds_want_number(n, ds_name(r, key), 0.5, 1e9, out, r->d)) return false;
  ds_quantity_format(*out, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

static bool read_lognormal(ds_reader *r, const ds_node *map, ds_length_law *l) {
  static const char *const keys[] = {"law", "mean", "p99", "median", "min", "max"};
  if (!ds_want_keys(map, ds_name(r, ""), keys, LEN(keys), r->d) ||
      !law_number(r, map, "mean", &l->mean) || !law_number(r, map, "p99", &l->p99) ||
      !law_number(r, map, "median", &l->median) || !law_number(r, map, "min", &l->min) ||
      !law_number(r, map, "max", &l->max))
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

static bool read_law(ds_reader *r, const ds_node *generate, const char *key, ds_length_law *l) {
  static const char *const laws[] = {"fixed", "lognormal"}, *const fixed_keys[] = {"law", "value"};
  static const char *const later[] = {"uniform", "normal", "exponential", "zipf", "empirical"};
  const ds_node *n = ds_node_get(generate, key);
  char section[64];
  size_t k = 0;
  if (!n)
    return missing(
        r, generate, key,
        "a law, such as {law: fixed, value: 128} or {law: lognormal, mean: 550, p99: 3000}");
  snprintf(section, sizeof section, "generate.%s", key);
  enter(r, section);
  if (n->kind == DS_NODE_SCALAR) { /* a plain count is the fixed law */
    int64_t v;
    if (!ds_want_integer(n, ds_name(r, ""), 1, TOKENS_MAX, &v, r->d)) return false;
    l->value = (double)v;
    return ds_note(r, "law", n, "", "fixed") && ds_note(r, "value", n, "", "%lld", (long long)v) &&
           enter(r, "generate");
  }
  if (!ds_want_map(n, ds_name(r, ""), r->d)) return false;
  const ds_node *law = ds_node_get(n, "law");
  if (!law) return missing(r, n, "law", "law: fixed or law: lognormal");
  if (later_name(r, law, "law", later, LEN(later), "fixed or lognormal")) return false;
  if (!ds_want_choice(law, ds_name(r, "law"), laws, LEN(laws), &k, r->d) ||
      !ds_note(r, "law", law, "", "%s", laws[k]))
    return false;
  l->law = (ds_law)k;
  if (l->law == DS_LAW_LOGNORMAL) return read_lognormal(r, n, l) && enter(r, "generate");
  if (!ds_want_keys(n, ds_name(r, ""), fixed_keys, LEN(fixed_keys), r->d)) return false;
  if (!ds_node_get(n, "value")) return missing(r, n, "value", "value: 128");
  return law_number(r, n, "value", &l->value) && enter(r, "generate");
}

bool ds_read_generate(ds_reader *r, const ds_node *generate, ds_workload *w) {
  static const char *const keys[] = {"requests", "duration", "arrivals", "input_tokens",
                                     "output_tokens"};
  char text[48];
  enter(r, "generate");
  if (!ds_section(r, generate, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *requests = ds_node_get(generate, "requests"),
                *duration = ds_node_get(generate, "duration");
  if (!requests == !duration) {
    ds_complain(r->d, generate, "%s has %s of requests and duration", ds_name(r, ""),
                requests ? "both" : "neither");
    ds_diag_expected(r->d, "one of requests: 10000 and duration: 600 s");
    return false;
  }
  if (requests &&
      (!ds_want_integer(requests, ds_name(r, "requests"), 1, 1000000000, &w->requests, r->d) ||
       !ds_note(r, "requests", requests, "", "%lld", (long long)w->requests)))
    return false;
  if (duration) {
    if (!ds_want_time(duration, ds_name(r, "duration"), 1, LONGEST_NS, &w->duration_ns, r->d))
      return false;
    ds_time_format(w->duration_ns, text, sizeof text);
    if (!ds_note(r, "duration", duration, "", "%s", text)) return false;
  }
  if (!read_arrivals(r, generate, w) || !read_law(r, generate, "input_tokens", &w->input) ||
      !read_law(r, generate, "output_tokens", &w->output))
    return false;
  if (duration && (w->process == DS_ARRIVAL_BURST || w->closed_loop)) {
    ds_complain_key(r->d, duration, "%s stands beside process: %s", ds_name(r, "duration"),
                    w->closed_loop ? "closed-loop" : "burst-at-zero");
    ds_diag_expected(r->d, w->closed_loop ? "requests: how many in all"
                                          : "requests: how many arrive at time 0");
    return false;
  }
  return enter(r, "");
}
