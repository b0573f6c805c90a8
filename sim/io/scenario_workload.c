// SPDX-License-Identifier: GPL-3.0-or-later
/* workload: a trace, a generator, or requests written out. */
#include <stdlib.h>
#include <string.h>

#include "base/dist.h"
#include "io/span_ids.h"
#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define LONGEST_NS 1000000000000000000LL
#define TOKENS_MAX 1000000000 /* as in traces */

static const char *const workload_keys[] = {"trace",      "format", "select",
                                            "time_scale", "import", "generate",
                                            "requests",   "class",  "max_tokens"};
static const ds_later workload_later[] = {
    {"client", NULL, "clients (network, timeouts, retries)"}, {"tenant", NULL, "tenants"},
    {"priority", NULL, "a priority for a whole workload"},    {"deadline", NULL, "deadlines"},
    {"slo", NULL, "an slo of its own for a workload"},
};

static bool enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "workload%s%s", section[0] ? "." : "", section);
  return true;
}

/* --- trace --------------------------------------------------------------------------------- */

static bool read_path(ds_reader *r, const ds_node *n, ds_workload *w) {
  if (!ds_want_text(n, ds_name(r, "trace"), w->path_given, sizeof w->path_given, r->d))
    return false;
  const char *base = ds_base_of(r, n);
  bool as_it_is = w->path_given[0] == '/' || strcmp(w->path_given, "-") == 0 || base[0] == '\0';
  int len = snprintf(w->path, sizeof w->path, "%s%s%s", as_it_is ? "" : base,
                     as_it_is || base[strlen(base) - 1] == '/' ? "" : "/", w->path_given);
  if (len < 0 || (size_t)len >= sizeof w->path) {
    ds_complain(r->d, n, "%s is too long a path", ds_name(r, "trace"));
    ds_diag_expected(r->d, "less than %zu bytes", sizeof w->path);
    return false;
  }
  return ds_note_text(r, "trace", n, "", w->path_given);
}

static bool read_format(ds_reader *r, const ds_node *workload, ds_workload *w) {
  static const char *const known[] = {"auto", "azure", "jsonl"};
  static const char *const later[] = {"burstgpt", "mooncake", "bailian", "servegen", "sharegpt",
                                      "vidur",    "weka",     "litellm", "map"};
  const ds_node *n = ds_node_get(workload, "format");
  size_t k = 0;
  for (size_t i = 0; n && n->kind == DS_NODE_SCALAR && i < LEN(later); ++i) {
    if (strcmp(n->text, later[i]) != 0) continue;
    ds_complain(r->d, n, "%s: this version does not read the format '%s'", ds_name(r, "format"),
                n->text);
    ds_diag_expected(r->d, "auto, azure or jsonl");
    return false;
  }
  if (!ds_opt_choice(r, workload, "format", known, LEN(known), 0, &k)) return false;
  if (k > 0) snprintf(w->format, sizeof w->format, "%s", known[k]);
  return true;
}

/* "0 s .. 600 s", half open */
static bool read_window(ds_reader *r, const ds_node *n, ds_workload *w) {
  char text[128], from[48], to[48];
  ds_unit_error e;
  if (!ds_want_text(n, ds_name(r, "window"), text, sizeof text, r->d)) return false;
  char *dots = strstr(text, "..");
  bool ok = dots != NULL;
  if (ok) {
    *dots = '\0';
    ok = ds_time_parse(text, &w->window_from_ns, &e) &&
         ds_time_parse(dots + 2, &w->window_to_ns, &e);
    if (!ok) {
      ds_complain(r->d, n, "%s: %s", ds_name(r, "window"), e.text);
      ds_diag_expected(r->d, "two times, such as 0 s .. 600 s");
      if (e.hint[0]) ds_diag_hint(r->d, "%s", e.hint);
      return false;
    }
  }
  if (!ok || w->window_from_ns < 0 || w->window_to_ns <= w->window_from_ns) {
    ds_complain(r->d, n, ok ? "%s is '%.60s', which is no span of time" : "%s is '%.60s'",
                ds_name(r, "window"), n->text);
    ds_diag_expected(r->d, "a start of at least 0 s and a later end, such as 0 s .. 600 s");
    return false;
  }
  ds_time_format(w->window_from_ns, from, sizeof from);
  ds_time_format(w->window_to_ns, to, sizeof to);
  return ds_note(r, "window", n, "", "%s .. %s", from, to);
}

static bool read_select(ds_reader *r, const ds_node *select, ds_workload *w) {
  static const char *const keys[] = {"first", "window"};
  if (!select) return true;
  enter(r, "select");
  if (!ds_section(r, select, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *first = ds_node_get(select, "first"), *window = ds_node_get(select, "window");
  if (first &&
      (!ds_want_integer(first, ds_name(r, "first"), 1, (int64_t)1 << 40, &w->select_first, r->d) ||
       !ds_note(r, "first", first, "", "%lld", (long long)w->select_first)))
    return false;
  return (!window || read_window(r, window, w)) && enter(r, "");
}

static bool read_import(ds_reader *r, const ds_node *import, ds_workload *w) {
  static const char *const keys[] = {"zero", "failed", "unsorted", "oversize"};
  static const char *const zero[] = {"error", "drop", "clamp"}, *const failed[] = {"drop"},
                           *const unsorted[] = {"error", "sort"},
                           *const oversize[] = {"error", "reject", "truncate"};
  static const ds_repair zero_is[] = {DS_REPAIR_ERROR, DS_REPAIR_DROP, DS_REPAIR_CLAMP},
                         unsorted_is[] = {DS_REPAIR_ERROR, DS_REPAIR_SORT},
                         oversize_is[] = {DS_REPAIR_ERROR, DS_REPAIR_REJECT, DS_REPAIR_TRUNCATE};
  size_t k;
  enter(r, "import");
  if (import && !ds_section(r, import, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *n = ds_node_get(import, "failed");
  if (n && n->kind == DS_NODE_SCALAR && strcmp(n->text, "keep") == 0) {
    ds_complain(r->d, n, "%s is keep: no format that this version reads marks failed requests",
                ds_name(r, "failed"));
    ds_diag_expected(r->d, "drop");
    return false;
  }
  if (!ds_opt_choice(r, import, "zero", zero, LEN(zero), 0, &k)) return false;
  w->zero = zero_is[k];
  if (!ds_opt_choice(r, import, "failed", failed, LEN(failed), 0, &k)) return false;
  if (!ds_opt_choice(r, import, "unsorted", unsorted, LEN(unsorted), 0, &k)) return false;
  w->unsorted = unsorted_is[k];
  if (!ds_opt_choice(r, import, "oversize", oversize, LEN(oversize), 0, &k)) return false;
  w->oversize = oversize_is[k];
  return enter(r, "");
}

/* --- generate ------------------------------------------------------------------------------ */

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

static bool read_arrivals(ds_reader *r, const ds_node *generate, ds_workload *w) {
  static const char *const keys[] = {"process", "rate"}, *const processes[] = {"poisson",
                                                                               "constant",
                                                                               "burst-at-zero"};
  static const char *const later[] = {"gamma", "weibull", "mmpp",        "onoff",
                                      "ramp",  "diurnal", "closed-loop", "users"};
  const ds_node *n = ds_node_get(generate, "arrivals");
  char text[48];
  size_t k = 0;
  if (!n) return missing(r, generate, "arrivals", "arrivals: {process: poisson, rate: 12 /s}");
  enter(r, "generate.arrivals");
  const ds_node *process = ds_node_get(n, "process"), *rate = ds_node_get(n, "rate");
  if (process &&
      later_name(r, process, "process", later, LEN(later), "poisson, constant or burst-at-zero"))
    return false;
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0) ||
      !ds_opt_choice(r, n, "process", processes, LEN(processes), 0, &k))
    return false;
  w->process = (ds_arrival_process)k;
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

static bool read_generate(ds_reader *r, const ds_node *generate, ds_workload *w) {
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
  if (duration && w->process == DS_ARRIVAL_BURST) {
    ds_complain_key(r->d, duration, "%s stands beside process: burst-at-zero",
                    ds_name(r, "duration"));
    ds_diag_expected(r->d, "requests: how many arrive at time 0");
    return false;
  }
  return enter(r, "");
}

/* --- requests ------------------------------------------------------------------------------ */

static const char *const request_keys[] = {
    "id",         "arrival_ns", "arrival",      "input_tokens", "output_tokens", "max_tokens",
    "priority",   "tenant",     "block_tokens", "blocks",       "prefix"};
static const ds_later request_later[] = {
    {"session", NULL, "sessions"},
    {"turn", NULL, "sessions"},
    {"think_ns", NULL, "sessions"},
    {"class", NULL, "a class per request"},
};

static bool want_tokens(ds_reader *r, const ds_node *map, const char *key, uint32_t *out) {
  const ds_node *n = ds_node_get(map, key);
  int64_t v;
  if (!n) return missing(r, map, key, "a count of at least 1");
  if (!ds_want_integer(n, ds_name(r, key), 1, TOKENS_MAX, &v, r->d)) return false;
  *out = (uint32_t)v;
  return true;
}

#define INLINE_BLOCKS_MAX 256 /* more belong into a trace file */

static bool want_id(ds_reader *r, const ds_node *n, uint64_t *out) {
  uint64_t v = 0;
  bool good = n->kind == DS_NODE_SCALAR && !n->quoted && n->text[0] != '\0';
  for (const char *s = good ? n->text : ""; *s && good; ++s) {
    uint64_t digit = (uint64_t)(*s - '0');
    good = *s >= '0' && *s <= '9' && v <= (UINT64_MAX - digit) / 10;
    v = v * 10 + digit;
  }
  *out = v;
  if (good) return true;
  ds_complain(r->d, n, "%s holds what is no block id", ds_name(r, "blocks"));
  ds_diag_expected(r->d, "whole numbers from 0 to 18446744073709551615");
  return false;
}

/* What its tokens are. The note says it as the scenario does. */
static bool read_identity(ds_reader *r, const ds_node *map, ds_workload *w, ds_request *q,
                          char **noted) {
  const ds_node *size = ds_node_get(map, "block_tokens"), *blocks = ds_node_get(map, "blocks"),
                *prefix = ds_node_get(map, "prefix");
  ds_span span[INLINE_BLOCKS_MAX];
  uint64_t id[INLINE_BLOCKS_MAX];
  char note[INLINE_BLOCKS_MAX * 22 + 300];
  int64_t tokens = 0;
  size_t n = 0, used = 0;
  note[0] = '\0';
  if (size && !ds_want_integer(size, ds_name(r, "block_tokens"), 1, 1 << 20, &tokens, r->d))
    return false;
  if (blocks) {
    if (!ds_want_list(blocks, ds_name(r, "blocks"), r->d)) return false;
    if (!size) return missing(r, map, "block_tokens", "how many tokens a block has, beside blocks");
    size_t most = ds_spans_most_ids((uint32_t)tokens, q->input_tokens, q->output_tokens);
    if (blocks->n > most || blocks->n > INLINE_BLOCKS_MAX) {
      ds_complain(r->d, blocks, "%s has %zu blocks", ds_name(r, "blocks"), blocks->n);
      ds_diag_expected(r->d, "at most %zu, as many as the tokens fill; %d here, more in a trace",
                       most, INLINE_BLOCKS_MAX);
      return false;
    }
    used += (size_t)snprintf(note, sizeof note, ", block_tokens: %d, blocks: [", (int)tokens);
    for (const ds_node *b = blocks->first; b; b = b->next) {
      if (!want_id(r, b, &id[n])) return false;
      used += (size_t)snprintf(note + used, sizeof note - used, "%s%llu", n ? ", " : "",
                               (unsigned long long)id[n]);
      n++;
    }
    snprintf(note + used, sizeof note - used, "]");
    q->n_spans = ds_spans_of_ids(id, n, (uint32_t)tokens, 0, q->input_tokens, q->output_tokens, span);
  }
  if (prefix && (!ds_want_list(prefix, ds_name(r, "prefix"), r->d))) return false;
  if (prefix) {
    char name[200];
    int64_t of_prefix;
    if (prefix->n != 2) {
      ds_complain(r->d, prefix, "%s has %zu entries", ds_name(r, "prefix"), prefix->n);
      ds_diag_expected(r->d, "[name, tokens]");
      return false;
    }
    if (!ds_want_text(prefix->first, ds_name(r, "prefix"), name, sizeof name, r->d) ||
        !ds_want_integer(prefix->last, ds_name(r, "prefix"), 0, TOKENS_MAX, &of_prefix, r->d))
      return false;
    if (!blocks) {
      snprintf(note, sizeof note, ", prefix: [\"%s\", %lld]", name, (long long)of_prefix);
      q->n_spans = ds_spans_of_prefix(name, strlen(name), (uint32_t)of_prefix, q->input_tokens,
                                      q->output_tokens, span);
    }
  }
  if (note[0] == '\0') return true;
  *noted = malloc(strlen(note) + 1);
  q->spans = span;
  if (!*noted || !ds_span_keep(&w->inline_spans, &q->spans, q->n_spans))
    return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  memcpy(*noted, note, strlen(note) + 1);
  if (q->n_spans == 0) q->spans = NULL;
  return true;
}

static bool read_one(ds_reader *r, const ds_node *map, ds_request *q, char **id) {
  if (!ds_section(r, map, request_keys, LEN(request_keys), request_later, LEN(request_later)))
    return false;
  const ds_node *ns = ds_node_get(map, "arrival_ns"), *time = ds_node_get(map, "arrival"),
                *name = ds_node_get(map, "id"), *cap = ds_node_get(map, "max_tokens"),
                *priority = ds_node_get(map, "priority"), *tenant = ds_node_get(map, "tenant");
  int64_t v;
  if (!ns == !time) {
    ds_complain(r->d, map, "%s has %s of arrival_ns and arrival", ds_name(r, ""),
                ns ? "both" : "neither");
    ds_diag_expected(r->d, "one of arrival_ns: 5000000 and arrival: 5 ms");
    return false;
  }
  if (ns && !ds_want_integer(ns, ds_name(r, "arrival_ns"), 0, LONGEST_NS, &q->arrival_ns, r->d))
    return false;
  if (time && !ds_want_time(time, ds_name(r, "arrival"), 0, LONGEST_NS, &q->arrival_ns, r->d))
    return false;
  if (!want_tokens(r, map, "input_tokens", &q->input_tokens) ||
      !want_tokens(r, map, "output_tokens", &q->output_tokens))
    return false;
  if (cap) {
    if (!ds_want_integer(cap, ds_name(r, "max_tokens"), q->output_tokens, TOKENS_MAX, &v, r->d))
      return false;
    q->max_tokens = (uint32_t)v;
  }
  if (priority) {
    if (!ds_want_integer(priority, ds_name(r, "priority"), INT32_MIN, INT32_MAX, &v, r->d))
      return false;
    q->priority = (int32_t)v;
  }
  if (tenant) {
    if (!ds_want_integer(tenant, ds_name(r, "tenant"), 0, UINT32_MAX, &v, r->d)) return false;
    q->tenant = (uint32_t)v;
  }
  if (!name) return true;
  char text[256];
  if (!ds_want_text(name, ds_name(r, "id"), text, sizeof text, r->d)) return false;
  *id = malloc(strlen(text) + 1);
  if (!*id) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  memcpy(*id, text, strlen(text) + 1);
  return true;
}

/* Stable merge sort by arrival of an order of indices; scratch has room for n. */
static void sort_arrivals(const ds_request *q, size_t *order, size_t *scratch, size_t n) {
  if (n < 2) return;
  size_t m = n / 2, i = 0, j = m, k = 0;
  sort_arrivals(q, order, scratch, m);
  sort_arrivals(q, order + m, scratch, n - m);
  while (i < m || j < n)
    scratch[k++] = j == n || (i < m && q[order[i]].arrival_ns <= q[order[j]].arrival_ns)
                       ? order[i++]
                       : order[j++];
  memcpy(order, scratch, n * sizeof *order);
}

static bool sort_requests(ds_reader *r, ds_workload *w) {
  size_t n = w->n_inline, *order = malloc(2 * n * sizeof *order);
  ds_request *q = calloc(n, sizeof *q);
  char **ids = calloc(n, sizeof *ids), **notes = calloc(n, sizeof *notes);
  bool ok = order && q && ids && notes;
  if (ok) {
    for (size_t i = 0; i < n; ++i) order[i] = i;
    sort_arrivals(w->inline_requests, order, order + n, n);
    for (size_t i = 0; i < n; ++i) {
      q[i] = w->inline_requests[order[i]];
      ids[i] = w->inline_ids[order[i]];
      notes[i] = w->inline_notes[order[i]];
    }
    memcpy(w->inline_requests, q, n * sizeof *q);
    memcpy(w->inline_ids, ids, n * sizeof *ids);
    memcpy(w->inline_notes, notes, n * sizeof *notes);
  } else {
    ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  }
  free(order);
  free(q);
  free(ids);
  free(notes);
  return ok;
}

/* SHA-256 of the requests' values, and of what is said of their tokens. */
static bool hash_requests(ds_reader *r, const ds_workload *w, char hash[65]) {
  typedef struct values {
    int64_t arrival_ns;
    uint32_t input_tokens, output_tokens, max_tokens;
    int32_t priority;
    uint64_t after;
    int64_t think_ns;
  } values;
  size_t bytes = w->n_inline * sizeof(values), at = bytes;
  for (size_t i = 0; i < w->n_inline; ++i)
    if (w->inline_notes[i]) bytes += strlen(w->inline_notes[i]) + 1;
  char *all = malloc(bytes);
  if (!all) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  for (size_t i = 0; i < w->n_inline; ++i) {
    const ds_request *q = &w->inline_requests[i];
    values v = {q->arrival_ns, q->input_tokens, q->output_tokens, q->max_tokens,
                q->priority,   q->after,        q->think_ns};
    memcpy(all + i * sizeof v, &v, sizeof v);
    if (!w->inline_notes[i]) continue;
    memcpy(all + at, w->inline_notes[i], strlen(w->inline_notes[i]) + 1);
    at += strlen(w->inline_notes[i]) + 1;
  }
  ds_sha256_hex(all, bytes, hash);
  free(all);
  return true;
}

/* Beyond so many requests the settings name their number and hash instead of each. */
#define NOTED_REQUESTS 1000

static bool note_one(ds_reader *r, const ds_node *from, const ds_request *q, const char *id,
                     const char *identity, size_t i) {
  char key[32], name[300] = "", cap[40] = "", priority[40] = "", tenant[40] = "", quoted[520];
  size_t m = 0;
  for (const char *s = id ? id : ""; *s && m + 3 < sizeof quoted; ++s) {
    if (*s == '"' || *s == '\\') quoted[m++] = '\\';
    quoted[m++] = *s;
  }
  quoted[m] = '\0';
  if (id) snprintf(name, sizeof name, "id: \"%.280s\", ", quoted);
  if (q->max_tokens > 0) snprintf(cap, sizeof cap, ", max_tokens: %u", q->max_tokens);
  if (q->priority != 0) snprintf(priority, sizeof priority, ", priority: %d", (int)q->priority);
  if (q->tenant != 0) snprintf(tenant, sizeof tenant, ", tenant: %u", q->tenant);
  snprintf(key, sizeof key, "requests.%zu", i);
  return ds_note(r, key, from, "",
                 "{%sarrival_ns: %lld, input_tokens: %u, output_tokens: %u%s%s%s%s}", name,
                 (long long)q->arrival_ns, q->input_tokens, q->output_tokens, cap, priority, tenant,
                 identity ? identity : "");
}

static bool note_requests(ds_reader *r, const ds_node *list, const ds_workload *w) {
  char hash[65];
  size_t i = 0;
  enter(r, "");
  if (w->n_inline > NOTED_REQUESTS) {
    return hash_requests(r, w, hash) &&
           ds_note(r, "requests", list, "", "%zu requests with SHA-256 %s", w->n_inline, hash);
  }
  for (; i < w->n_inline; ++i)
    if (!note_one(r, list, &w->inline_requests[i], w->inline_ids[i], w->inline_notes[i], i))
      return false;
  return true;
}

static bool read_requests(ds_reader *r, const ds_node *list, ds_workload *w) {
  size_t i = 0;
  if (!ds_want_list(list, ds_name(r, "requests"), r->d)) return false;
  if (list->n == 0) {
    ds_complain(r->d, list, "%s is empty", ds_name(r, "requests"));
    ds_diag_expected(
        r->d, "one request or more, such as {arrival: 0 s, input_tokens: 550, output_tokens: 128}");
    return false;
  }
  w->inline_requests = calloc(list->n, sizeof *w->inline_requests);
  w->inline_ids = calloc(list->n, sizeof *w->inline_ids);
  w->inline_notes = calloc(list->n, sizeof *w->inline_notes);
  if (!w->inline_requests || !w->inline_ids || !w->inline_notes)
    return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  w->n_inline = list->n;
  for (const ds_node *n = list->first; n; n = n->next, ++i) {
    snprintf(r->prefix, sizeof r->prefix, "workload.requests.%zu", i);
    if (!read_one(r, n, &w->inline_requests[i], &w->inline_ids[i]) ||
        !read_identity(r, n, w, &w->inline_requests[i], &w->inline_notes[i]))
      return false;
  }
  return sort_requests(r, w) && note_requests(r, list, w);
}

/* --- all ----------------------------------------------------------------------------------- */

static bool read_max_tokens(ds_reader *r, const ds_node *n, ds_workload *w) {
  static const char *const keys[] = {"times"};
  char text[48];
  w->max_tokens_is_output = true;
  if (!n || (n->kind == DS_NODE_SCALAR && strcmp(n->text, "output") == 0))
    return ds_note(r, "max_tokens", n, "default", "output");
  w->max_tokens_is_output = false;
  if (n->kind == DS_NODE_MAP) {
    const ds_node *times = ds_node_get(n, "times");
    if (!ds_want_keys(n, ds_name(r, "max_tokens"), keys, 1, r->d)) return false;
    if (!times) return missing(r, n, "max_tokens.times", "max_tokens: {times: 4}");
    if (!ds_want_number(times, ds_name(r, "max_tokens.times"), 1, 1e6, &w->max_tokens_times, r->d))
      return false;
    ds_quantity_format(w->max_tokens_times, DS_DIM_NUMBER, text, sizeof text);
    return ds_note(r, "max_tokens.times", times, "", "%s", text);
  }
  if (n->kind != DS_NODE_SCALAR || n->quoted ||
      ((n->text[0] < '0' || n->text[0] > '9') && n->text[0] != '-')) {
    ds_complain(r->d, n, "%s is %s%.60s%s", ds_name(r, "max_tokens"),
                n->kind == DS_NODE_SCALAR ? "'" : "a list", n->text,
                n->kind == DS_NODE_SCALAR ? "'" : "");
    ds_diag_expected(r->d, "output, a count, or {times: 4}");
    return false;
  }
  return ds_want_integer(n, ds_name(r, "max_tokens"), 1, TOKENS_MAX, &w->max_tokens_fixed, r->d) &&
         ds_note(r, "max_tokens", n, "", "%lld", (long long)w->max_tokens_fixed);
}

/* Keys that only make sense beside `trace`. */
static bool only_with_trace(ds_reader *r, const ds_node *workload) {
  static const char *const keys[] = {"format", "select", "import"};
  for (size_t i = 0; i < LEN(keys); ++i) {
    const ds_node *n = ds_node_get(workload, keys[i]);
    if (!n) continue;
    ds_complain_key(r->d, n, "%s stands without workload.trace", ds_name(r, keys[i]));
    ds_diag_expected(r->d, "%s only beside trace", keys[i]);
    return false;
  }
  return true;
}

static bool read_source(ds_reader *r, const ds_node *workload, ds_workload *w) {
  const ds_node *trace = ds_node_get(workload, "trace"),
                *generate = ds_node_get(workload, "generate"),
                *requests = ds_node_get(workload, "requests");
  int given = (trace != NULL) + (generate != NULL) + (requests != NULL);
  if (given != 1) {
    ds_complain(r->d, workload,
                given == 0 ? "workload has none of trace, generate and requests"
                           : "workload has more than one of trace, generate and requests");
    ds_diag_expected(r->d, "one of trace: FILE, generate: {...} and requests: [...]");
    return false;
  }
  w->kind = trace ? DS_WORKLOAD_TRACE : generate ? DS_WORKLOAD_GENERATE : DS_WORKLOAD_INLINE;
  if (trace)
    return read_path(r, trace, w) && read_format(r, workload, w) &&
           read_select(r, ds_node_get(workload, "select"), w) &&
           read_import(r, ds_node_get(workload, "import"), w);
  if (!only_with_trace(r, workload)) return false;
  return generate ? read_generate(r, generate, w) : read_requests(r, requests, w);
}

bool ds_read_workload(ds_reader *r, const ds_node *workload) {
  ds_workload *w = &r->s->workload;
  w->time_scale = 1;
  enter(r, "");
  if (!workload) {
    r->prefix[0] = '\0';
    return missing(r, r->doc->root, "workload",
                   "workload: {trace: FILE} or workload: {generate: {...}}");
  }
  if (!ds_section(r, workload, workload_keys, LEN(workload_keys), workload_later,
                  LEN(workload_later)) ||
      !read_source(r, workload, w))
    return false;
  enter(r, "");
  const ds_node *name = ds_node_get(workload, "class");
  if (!ds_opt_number(r, workload, "time_scale", 1e-6, 1e6, 1, &w->time_scale)) return false;
  if (name &&
      (!ds_want_text(name, ds_name(r, "class"), w->class_name, sizeof w->class_name, r->d) ||
       !ds_note_text(r, "class", name, "", w->class_name)))
    return false;
  bool ok = read_max_tokens(r, ds_node_get(workload, "max_tokens"), w);
  r->prefix[0] = '\0';
  return ok;
}
