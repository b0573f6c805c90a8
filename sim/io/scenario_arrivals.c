// SPDX-License-Identifier: GPL-3.0-or-later
/* workload.generate.arrivals: when requests (or sessions) begin. */
#include <string.h>

#include "base/num.h"
#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define LONGEST_NS 1000000000000000000LL
#define RATE_MIN   1e-9
#define RATE_MAX   1e9

const char *const ds_arrival_names[DS_ARRIVAL_N] = {
    "poisson", "constant", "burst-at-zero", "closed-loop", "gamma",   "weibull", "mmpp",
    "onoff",   "ramp",     "steps",         "spike",       "diurnal", "users"};

static void enter(ds_reader *r, const char *inner) {
  snprintf(r->prefix, sizeof r->prefix, "%s.generate.arrivals%s", r->root, inner);
}

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

static bool want_rate(ds_reader *r, const ds_node *n, const char *key, double min, double *out) {
  char text[48];
  if (!ds_want_quantity(n, ds_name(r, key), DS_DIM_RATE, min, RATE_MAX, out, r->d)) return false;
  ds_quantity_format(*out, DS_DIM_RATE, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

static bool need_rate(ds_reader *r, const ds_node *map, const char *key, double min, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char example[40];
  snprintf(example, sizeof example, "%s: 12 /s", key);
  return n ? want_rate(r, n, key, min, out) : missing(r, map, key, example);
}

static bool mean_rate(ds_reader *r, const ds_node *map, const ds_node *rate, ds_workload *w) {
  if (!rate) return missing(r, map, "rate", "rate: 12 /s");
  return want_rate(r, rate, "rate", RATE_MIN, &w->rate_per_s);
}

static bool need_time(ds_reader *r, const ds_node *map, const char *key, const char *example,
                      double *out_s) {
  const ds_node *n = ds_node_get(map, key);
  int64_t ns;
  char text[48];
  if (!n) return missing(r, map, key, example);
  if (!ds_want_time(n, ds_name(r, key), 1000, LONGEST_NS, &ns, r->d)) return false;
  *out_s = (double)ns * 1e-9;
  ds_time_format(ns, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

/* --- laws of gaps -------------------------------------------------------------------------- */

/* burstiness: 0.5, or inf for gaps all alike, or cv: 1.41; the shape of a gamma law. */
static bool read_burstiness(ds_reader *r, const ds_node *map, bool needed, ds_arrival_detail *a) {
  const ds_node *b = ds_node_get(map, "burstiness"), *cv = ds_node_get(map, "cv");
  char text[48];
  if (b && cv) {
    ds_complain_key(r->d, cv, "%s stands beside burstiness", ds_name(r, "cv"));
    ds_diag_expected(r->d, "one of the two: burstiness = 1 / cv^2");
    return false;
  }
  if (!b && !cv) return !needed || missing(r, map, "burstiness", "burstiness: 0.5, or cv: 1.41");
  if (b && b->kind == DS_NODE_SCALAR && strcmp(b->text, "inf") == 0) {
    a->constant_gaps = true;
    return ds_note(r, "burstiness", b, "", "inf");
  }
  double x;
  if (!ds_want_number(b ? b : cv, ds_name(r, b ? "burstiness" : "cv"), b ? 1e-3 : 0.02,
                      b ? 1e4 : 32, &x, r->d))
    return false;
  a->shape = b ? x : 1 / (x * x);
  ds_quantity_format(x, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, b ? "burstiness" : "cv", b ? b : cv, "", "%s", text);
}

/* Weibull gaps by shape or cv; cv is kept as a negative shape until gen turns it into one. */
static bool read_weibull(ds_reader *r, const ds_node *map, ds_arrival_detail *a) {
  const ds_node *shape = ds_node_get(map, "shape"), *cv = ds_node_get(map, "cv");
  char text[48];
  double x;
  if (!shape == !cv) return missing(r, map, "shape", "one of shape: 0.7 and cv: 1.5");
  const char *key = shape ? "shape" : "cv";
  if (!ds_want_number(shape ? shape : cv, ds_name(r, key), shape ? 0.1 : 0.01, shape ? 100 : 32, &x,
                      r->d))
    return false;
  a->shape = shape ? x : -x;
  ds_quantity_format(x, DS_DIM_NUMBER, text, sizeof text);
  return ds_note(r, key, shape ? shape : cv, "", "%s", text);
}

/* --- rates that change --------------------------------------------------------------------- */

static bool read_chain(ds_reader *r, const ds_node *list, ds_rate_chain *c) {
  static const char *const keys[] = {"rate", "dwell"};
  char before[sizeof r->prefix];
  memcpy(before, r->prefix, sizeof before);
  if (list->n < 2 || list->n > DS_CHAIN_STATES) {
    ds_complain(r->d, list, "%s has %zu states", ds_name(r, ""), list->n);
    ds_diag_expected(r->d, "2 to %d states, such as {rate: 4 /s, dwell: 2 min}", DS_CHAIN_STATES);
    return false;
  }
  for (const ds_node *n = list->first; n; n = n->next) {
    snprintf(r->prefix, sizeof r->prefix, "%.100s.%zu", before, c->n);
    if (!ds_want_keys(n, ds_name(r, ""), keys, LEN(keys), r->d) ||
        !need_rate(r, n, "rate", 0, &c->rate_per_s[c->n]) ||
        !need_time(r, n, "dwell", "dwell: 2 min", &c->dwell_s[c->n]))
      return false;
    ++c->n;
  }
  memcpy(r->prefix, before, sizeof before);
  return true;
}

/* states: [{rate, dwell}, ...], or a list of such lists, whose rates add up. */
static bool read_mmpp(ds_reader *r, const ds_node *map, ds_arrival_detail *a) {
  const ds_node *states = ds_node_get(map, "states");
  if (!states)
    return missing(r, map, "states",
                   "states: [{rate: 4 /s, dwell: 2 min}, {rate: 7 /s, dwell: 1 min}]");
  if (!ds_want_list(states, ds_name(r, "states"), r->d)) return false;
  enter(r, ".states");
  if (!states->first || states->first->kind != DS_NODE_LIST) {
    a->n_chain = 1;
    if (!read_chain(r, states, &a->chain[0])) return false;
  } else {
    if (states->n > DS_CHAINS_MAX) {
      ds_complain(r->d, states, "%s has %zu chains of states", ds_name(r, ""), states->n);
      ds_diag_expected(r->d, "at most %d", DS_CHAINS_MAX);
      return false;
    }
    for (const ds_node *n = states->first; n; n = n->next) {
      char inner[48];
      snprintf(inner, sizeof inner, ".states.%zu", a->n_chain);
      enter(r, inner);
      if (!ds_want_list(n, ds_name(r, ""), r->d) || !read_chain(r, n, &a->chain[a->n_chain++]))
        return false;
    }
  }
  enter(r, "");
  double most = 0;
  for (size_t k = 0; k < a->n_chain; ++k)
    for (size_t i = 0; i < a->chain[k].n; ++i)
      if (a->chain[k].rate_per_s[i] > most) most = a->chain[k].rate_per_s[i];
  if (most > 0) return true;
  ds_complain(r->d, states, "%s: all rates are 0", ds_name(r, "states"));
  ds_diag_expected(r->d, "a rate above 0 in some state");
  return false;
}

static double chain_mean(const ds_rate_chain *c) {
  double sum = 0, time = 0;
  for (size_t i = 0; i < c->n; ++i) {
    sum += c->rate_per_s[i] * c->dwell_s[i];
    time += c->dwell_s[i];
  }
  return sum / time;
}

/* A stated mean rate scales all states; without one it is what they have. */
static bool scale_chains(ds_reader *r, const ds_node *rate, ds_workload *w) {
  ds_arrival_detail *a = &w->arrival;
  double mean = 0, want = 0;
  for (size_t k = 0; k < a->n_chain; ++k) mean += chain_mean(&a->chain[k]);
  w->rate_per_s = mean;
  if (!rate) return true;
  if (!want_rate(r, rate, "rate", RATE_MIN, &want)) return false;
  for (size_t k = 0; k < a->n_chain; ++k)
    for (size_t i = 0; i < a->chain[k].n; ++i) a->chain[k].rate_per_s[i] *= want / mean;
  w->rate_per_s = want;
  return true;
}

static bool read_onoff(ds_reader *r, const ds_node *map, const ds_node *rate, ds_workload *w) {
  ds_rate_chain *c = &w->arrival.chain[0];
  w->arrival.n_chain = 1;
  c->n = 2;
  if (!mean_rate(r, map, rate, w) || !need_time(r, map, "on", "on: 8 s", &c->dwell_s[0]) ||
      !need_time(r, map, "off", "off: 22 s", &c->dwell_s[1]))
    return false;
  c->rate_per_s[0] = w->rate_per_s * (c->dwell_s[0] + c->dwell_s[1]) / c->dwell_s[0];
  return true;
}

static bool read_ramp(ds_reader *r, const ds_node *map, ds_workload *w) {
  static const char *const shapes[] = {"linear", "exponential"};
  ds_arrival_detail *a = &w->arrival;
  size_t shape;
  const ds_node *by = ds_node_get(map, "by_request");
  if (!need_rate(r, map, "from", 0, &a->ramp_from_per_s) ||
      !need_rate(r, map, "to", RATE_MIN, &a->ramp_to_per_s) ||
      !ds_opt_choice(r, map, "shape", shapes, LEN(shapes), 0, &shape))
    return false;
  a->exponential = shape == 1;
  if (by && !ds_opt_bool(r, map, "by_request", false, &a->by_request)) return false;
  if ((a->exponential || a->by_request) && a->ramp_from_per_s < RATE_MIN) {
    ds_complain(r->d, ds_node_get(map, "from"), "%s is 0 /s", ds_name(r, "from"));
    ds_diag_expected(r->d, "more than 0 /s");
    return false;
  }
  w->rate_per_s = a->ramp_to_per_s;
  if (a->by_request) {
    const ds_node *over = ds_node_get(map, "over");
    if (!over) return true;
    ds_complain_key(r->d, over, "%s stands beside by_request", ds_name(r, "over"));
    ds_diag_expected(r->d, "no time: the last request has the last rate");
    return false;
  }
  a->n_span = 1;
  a->span[0].from_per_s = a->ramp_from_per_s;
  a->span[0].to_per_s = a->ramp_to_per_s;
  return need_time(r, map, "over", "over: 60 s", &a->span[0].length_s);
}

static bool read_steps(ds_reader *r, const ds_node *map, ds_workload *w) {
  static const char *const keys[] = {"rate", "for"};
  ds_arrival_detail *a = &w->arrival;
  const ds_node *list = ds_node_get(map, "steps");
  if (!list)
    return missing(r, map, "steps", "steps: [{rate: 2 /s, for: 60 s}, {rate: 8 /s, for: 60 s}]");
  if (!ds_want_list(list, ds_name(r, "steps"), r->d)) return false;
  if (list->n == 0 || list->n > DS_SPANS_MAX) {
    ds_complain(r->d, list, "%s has %zu steps", ds_name(r, "steps"), list->n);
    ds_diag_expected(r->d, "1 to %d", DS_SPANS_MAX);
    return false;
  }
  double area = 0, length = 0;
  for (const ds_node *n = list->first; n; n = n->next) {
    ds_rate_span *s = &a->span[a->n_span];
    char inner[48];
    snprintf(inner, sizeof inner, ".steps.%zu", a->n_span++);
    enter(r, inner);
    if (!ds_want_keys(n, ds_name(r, ""), keys, LEN(keys), r->d) ||
        !need_rate(r, n, "rate", 0, &s->from_per_s) ||
        !need_time(r, n, "for", "for: 60 s", &s->length_s))
      return false;
    s->to_per_s = s->from_per_s;
    area += s->from_per_s * s->length_s;
    length += s->length_s;
  }
  enter(r, "");
  w->rate_per_s = area / length;
  if (!(area > 0)) {
    ds_complain(r->d, list, "%s: all rates are 0", ds_name(r, "steps"));
    ds_diag_expected(r->d, "a rate above 0 in some step");
    return false;
  }
  return ds_opt_bool(r, map, "repeat", false, &a->repeat);
}

static bool read_spike(ds_reader *r, const ds_node *map, const ds_node *rate, ds_workload *w) {
  ds_arrival_detail *a = &w->arrival;
  double times = 0;
  if (!mean_rate(r, map, rate, w)) return false;
  if (!ds_node_get(map, "times")) return missing(r, map, "times", "times: 5");
  if (!ds_opt_number(r, map, "times", 0, 1e6, 1, &times) ||
      !need_time(r, map, "at", "at: 60 s", &a->span[0].length_s) ||
      !need_time(r, map, "for", "for: 10 s", &a->span[1].length_s))
    return false;
  for (size_t i = 0; i < 3; ++i)
    a->span[i].from_per_s = a->span[i].to_per_s = w->rate_per_s * (i == 1 ? times : 1);
  a->span[2].length_s = 1;
  a->n_span = 3;
  return true;
}

/* cos(2 pi x), by its series on an eighth of a turn: the same bits everywhere. */
static double cosine(double turns) {
  double x = turns - ds_floor(turns);
  if (x > 0.5) x = 1 - x;
  bool far = x > 0.25;
  if (far) x = 0.5 - x;
  double z = 6.283185307179586477 * x, sum = 1, term = 1;
  for (int k = 1; k < 15; ++k) {
    term *= -z * z / ((2 * k - 1) * (2 * k));
    sum += term;
  }
  return far ? -sum : sum;
}

#define DAY_KNOTS 96
static bool read_diurnal(ds_reader *r, const ds_node *map, const ds_node *rate, ds_workload *w) {
  ds_arrival_detail *a = &w->arrival;
  const ds_node *hours = ds_node_get(map, "hours"), *ratio = ds_node_get(map, "peak_to_trough"),
                *period = ds_node_get(map, "period"), *peak = ds_node_get(map, "peak");
  double period_s = 86400, peak_s = 50400, level[DAY_KNOTS + 1] = {0}, times = 4, sum = 0;
  size_t n = DAY_KNOTS;
  if (!mean_rate(r, map, rate, w)) return false;
  if (period && !need_time(r, map, "period", "", &period_s)) return false;
  if (hours) {
    if (ratio || peak) {
      ds_complain_key(r->d, ratio ? ratio : peak, "%s stands beside hours",
                      ds_name(r, ratio ? "peak_to_trough" : "peak"));
      ds_diag_expected(r->d, "one of hours: [...] and peak_to_trough");
      return false;
    }
    if (!ds_want_list(hours, ds_name(r, "hours"), r->d)) return false;
    if (hours->n < 2 || hours->n > DAY_KNOTS) {
      ds_complain(r->d, hours, "%s has %zu levels", ds_name(r, "hours"), hours->n);
      ds_diag_expected(r->d, "2 to %d levels, which divide the period evenly", DAY_KNOTS);
      return false;
    }
    char text[480] = "";
    size_t used = 0;
    n = 0;
    for (const ds_node *h = hours->first; h; h = h->next) {
      if (!ds_want_number(h, ds_name(r, "hours"), 0, 1e12, &level[n++], r->d)) return false;
      if (used < sizeof text - 24)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%g", used ? ", " : "",
                                 level[n - 1]);
    }
    if (!ds_note(r, "hours", hours, "", "[%s]", text)) return false;
  } else {
    if (!ds_opt_number(r, map, "peak_to_trough", 1, 1e6, 4, &times)) return false;
    if (peak && !need_time(r, map, "peak", "", &peak_s)) return false;
    double swing = (times - 1) / (times + 1);
    for (size_t i = 0; i < n; ++i)
      level[i] = 1 + swing * cosine((double)i / (double)n - peak_s / period_s);
  }
  level[n] = level[0];
  /* Levels given by hour hold for their hour; those of the curve are knots of a line. */
  for (size_t i = 0; i < n; ++i) sum += hours ? level[i] : 0.5 * (level[i] + level[i + 1]);
  if (!(sum > 0)) {
    ds_complain(r->d, hours, "%s: all levels are 0", ds_name(r, "hours"));
    ds_diag_expected(r->d, "a level above 0");
    return false;
  }
  for (size_t i = 0; i < n; ++i)
    a->span[i] =
        (ds_rate_span){.length_s = period_s / (double)n,
                       .from_per_s = w->rate_per_s * level[i] * (double)n / sum,
                       .to_per_s = w->rate_per_s * level[hours ? i : i + 1] * (double)n / sum};
  a->n_span = n;
  a->repeat = true;
  return true;
}

/* --- users --------------------------------------------------------------------------------- */

static bool read_users(ds_reader *r, const ds_node *map, ds_workload *w) {
  static const char *const gaps[] = {"exponential", "constant"};
  ds_arrival_detail *a = &w->arrival;
  size_t k;
  char text[48];
  const ds_node *users = ds_node_get(map, "users"), *every = ds_node_get(map, "every");
  if (!users) return missing(r, map, "users", "users: 500");
  if (!ds_want_integer(users, ds_name(r, "users"), 1, 100000000, &a->users, r->d) ||
      !ds_note(r, "users", users, "", "%lld", (long long)a->users))
    return false;
  a->every_ns = 60000000000;
  if (every && !ds_want_time(every, ds_name(r, "every"), 1, LONGEST_NS, &a->every_ns, r->d))
    return false;
  ds_time_format(a->every_ns, text, sizeof text);
  if (!ds_note(r, "every", every, "default", "%s", text) ||
      !ds_opt_choice(r, map, "gaps", gaps, LEN(gaps), 0, &k))
    return false;
  a->fixed_gaps = k == 1;
  w->closed_loop = true;
  w->rate_per_s = (double)a->users / ((double)a->every_ns * 1e-9);
  return true;
}

/* So many in flight; each completion lets the next one in after the pause. */
static bool read_closed(ds_reader *r, const ds_node *map, ds_workload *w) {
  const ds_node *seats = ds_node_get(map, "concurrency"), *think = ds_node_get(map, "think");
  char text[48];
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

/* --- all ----------------------------------------------------------------------------------- */

/* Which keys go with which process, beside process itself. */
static const char *const keys_of[DS_ARRIVAL_N][10] = {
    [DS_ARRIVAL_POISSON] = {"rate", "exact", "quantise", "max_concurrency"},
    [DS_ARRIVAL_CONSTANT] = {"rate", "quantise", "max_concurrency"},
    [DS_ARRIVAL_BURST] = {NULL},
    [DS_ARRIVAL_CLOSED] = {"concurrency", "think"},
    [DS_ARRIVAL_GAMMA] = {"rate", "burstiness", "cv", "exact", "quantise", "max_concurrency"},
    [DS_ARRIVAL_WEIBULL] = {"rate", "shape", "cv", "exact", "quantise", "max_concurrency"},
    [DS_ARRIVAL_MMPP] = {"rate", "states", "burstiness", "cv", "quantise", "max_concurrency"},
    [DS_ARRIVAL_ONOFF] = {"rate", "on", "off", "burstiness", "cv", "quantise", "max_concurrency"},
    [DS_ARRIVAL_RAMP] = {"from", "to", "over", "shape", "by_request", "burstiness", "cv",
                         "quantise", "max_concurrency"},
    [DS_ARRIVAL_STEPS] = {"steps", "repeat", "burstiness", "cv", "quantise", "max_concurrency"},
    [DS_ARRIVAL_SPIKE] = {"rate", "times", "at", "for", "burstiness", "cv", "quantise",
                          "max_concurrency"},
    [DS_ARRIVAL_DIURNAL] = {"rate", "hours", "peak_to_trough", "period", "peak", "burstiness", "cv",
                            "quantise", "max_concurrency"},
    [DS_ARRIVAL_USERS] = {"users", "every", "gaps"},
};

static bool allowed(ds_arrival_process p, const char *key) {
  if (strcmp(key, "process") == 0) return true;
  for (size_t i = 0; i < LEN(keys_of[p]) && keys_of[p][i]; ++i)
    if (strcmp(keys_of[p][i], key) == 0) return true;
  return false;
}

static bool known_key(const char *key) {
  for (int p = 0; p < DS_ARRIVAL_N; ++p)
    if (allowed((ds_arrival_process)p, key)) return true;
  return false;
}

/* Keys that no process has are unknown; keys of other processes stand beside this one. */
static bool check_keys(ds_reader *r, const ds_node *map, ds_arrival_process p) {
  const char *all[64];
  size_t n = 0;
  for (int q = 0; q < DS_ARRIVAL_N; ++q)
    for (size_t i = 0; i < LEN(keys_of[q]) && keys_of[q][i]; ++i) {
      size_t j = 0;
      while (j < n && strcmp(all[j], keys_of[q][i]) != 0) ++j;
      if (j == n && n < LEN(all) - 1) all[n++] = keys_of[q][i];
    }
  all[n++] = "process";
  for (const ds_node *c = map->first; c; c = c->next) {
    if (!known_key(c->key)) return ds_want_keys(map, ds_name(r, ""), all, n, r->d);
    if (allowed(p, c->key)) continue;
    ds_complain_key(r->d, c, "%s stands beside process: %s", ds_name(r, c->key),
                    ds_arrival_names[p]);
    if (strcmp(c->key, "rate") == 0 && p == DS_ARRIVAL_BURST)
      ds_diag_expected(r->d, "no rate: all requests arrive at time 0");
    else if (strcmp(c->key, "rate") == 0 && p == DS_ARRIVAL_CLOSED)
      ds_diag_expected(r->d, "no rate: completions let the next requests in");
    else
      ds_diag_expected(r->d, "only keys of that process");
    return false;
  }
  return true;
}

static bool read_common(ds_reader *r, const ds_node *map, const ds_node *own, ds_workload *w) {
  ds_arrival_detail *a = &w->arrival;
  const ds_node *quantise = ds_node_get(own ? own : map, "quantise"),
                *cap = ds_node_get(map, "max_concurrency");
  char text[48];
  if (ds_node_get(map, "exact") && !ds_opt_bool(r, map, "exact", false, &a->exact)) return false;
  if (quantise) {
    if (!ds_want_time(quantise, ds_name(r, "quantise"), 1, LONGEST_NS, &a->quantise_ns, r->d))
      return false;
    ds_time_format(a->quantise_ns, text, sizeof text);
    if (!ds_note(r, "quantise", quantise, "", "%s", text)) return false;
  }
  if (!cap) return true;
  w->closed_loop = true;
  return ds_opt_integer(r, map, "max_concurrency", 1, 1000000000, 0, &w->concurrency);
}

static bool read_process(ds_reader *r, const ds_node *map, const ds_node *rate, ds_workload *w) {
  ds_arrival_detail *a = &w->arrival;
  switch (w->process) {
  case DS_ARRIVAL_BURST:
    return true;
  case DS_ARRIVAL_CLOSED:
    return read_closed(r, map, w);
  case DS_ARRIVAL_USERS:
    return read_users(r, map, w);
  case DS_ARRIVAL_MMPP:
    return read_mmpp(r, map, a) && scale_chains(r, rate, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_ONOFF:
    return read_onoff(r, map, rate, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_RAMP:
    return read_ramp(r, map, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_STEPS:
    return read_steps(r, map, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_SPIKE:
    return read_spike(r, map, rate, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_DIURNAL:
    return read_diurnal(r, map, rate, w) && read_burstiness(r, map, false, a);
  case DS_ARRIVAL_GAMMA:
    if (!read_burstiness(r, map, true, a)) return false;
    break;
  case DS_ARRIVAL_WEIBULL:
    if (!read_weibull(r, map, a)) return false;
    break;
  case DS_ARRIVAL_POISSON:
  case DS_ARRIVAL_CONSTANT:
  case DS_ARRIVAL_N:
    break;
  }
  return mean_rate(r, map, rate, w);
}

static ds_arrival_process preset_process(const ds_node *map) {
  const ds_node *n = ds_node_get(map, "process");
  for (int p = 0; n && p < DS_ARRIVAL_N; ++p)
    if (strcmp(n->text, ds_arrival_names[p]) == 0) return (ds_arrival_process)p;
  return DS_ARRIVAL_POISSON;
}

bool ds_read_arrivals(ds_reader *r, const ds_layers *g, ds_workload *w) {
  const ds_node *own = ds_node_get(g->own, "arrivals"),
                *preset = ds_node_get(g->preset, "arrivals"), *map = own ? own : preset;
  size_t k = 0;
  if (!map) return missing(r, g->own, "arrivals", "arrivals: {process: poisson, rate: 12 /s}");
  enter(r, "");
  if (!ds_want_map(map, ds_name(r, ""), r->d)) return false;
  const ds_node *rate = ds_node_get(map, "rate");
  if (own && preset && !ds_node_get(own, "process")) {
    /* Only another rate for the preset's process. */
    static const char *const keys[] = {"rate", "quantise", "process"};
    if (!ds_want_keys(own, ds_name(r, ""), keys, LEN(keys), r->d)) return false;
    if (!allowed(preset_process(preset), "rate") && rate) {
      ds_complain_key(r->d, rate, "%s: this preset has no one rate", ds_name(r, "rate"));
      ds_diag_expected(r->d, "arrivals of its own, with their process");
      return false;
    }
    map = preset;
  }
  if (!ds_opt_choice(r, map, "process", ds_arrival_names, DS_ARRIVAL_N, 0, &k)) return false;
  w->process = (ds_arrival_process)k;
  if (!rate) rate = ds_node_get(map, "rate");
  return check_keys(r, map, w->process) && read_process(r, map, rate, w) &&
         read_common(r, map, own, w);
}
