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
                                            "requests",   "class",  "max_tokens",
                                            "protocol",   "replay", "map",
                                            "client",     "warmup", "images",
                                            "slo",        "tenant"};
static const ds_later workload_later[] = {
    {"priority", NULL, "a priority for a whole workload"},
    {"deadline", NULL, "deadlines"},
    /* only among several workloads: */
    {"slo", NULL, "an slo of its own for a single workload"},
    {"tenant", NULL, "a tenant of a single workload"},
};

static bool enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "%s%s%s", r->root, section[0] ? "." : "", section);
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

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

/* --- requests ------------------------------------------------------------------------------ */

static const char *const request_keys[] = {
    "id",         "arrival_ns", "arrival",      "input_tokens", "output_tokens",
    "max_tokens", "priority",   "block_tokens", "blocks",       "prefix",
    "tenant",     "images"};
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

/* Its images, behind what the scenario says of its tokens. */
static bool note_images(ds_reader *r, const ds_request *q, char **noted) {
  if (q->images == 0) return true;
  char text[120];
  int n = snprintf(text, sizeof text, ", images: {count: %u, tokens: %u, at: %u}", q->images, q->image_tokens, q->image_at);
  size_t had = *noted ? strlen(*noted) : 0;
  char *more = realloc(*noted, had + (size_t)n + 1);
  if (!more) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  memcpy(more + had, text, (size_t)n + 1);
  *noted = more;
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
  if (!ds_read_request_images(r, map, q)) return false;
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
  return ds_note(r, key, from, "", "{%sarrival_ns: %lld, input_tokens: %u, output_tokens: %u%s%s%s%s}",
                 name, (long long)q->arrival_ns, q->input_tokens, q->output_tokens, cap, priority, tenant,
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
    snprintf(r->prefix, sizeof r->prefix, "%s.requests.%zu", r->root, i);
    if (!read_one(r, n, &w->inline_requests[i], &w->inline_ids[i]) ||
        !read_identity(r, n, w, &w->inline_requests[i], &w->inline_notes[i]) ||
        !note_images(r, &w->inline_requests[i], &w->inline_notes[i]))
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
  static const char *const keys[] = {"format", "select", "import", "replay", "map", "images"};
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
                *requests = ds_node_get(workload, "requests"),
                *protocol = ds_node_get(workload, "protocol");
  int given = (trace != NULL) + (generate != NULL) + (requests != NULL) + (protocol != NULL);
  if (given != 1) {
    ds_complain(r->d, workload,
                given == 0 ? "workload has none of trace, generate, protocol and requests"
                           : "workload has more than one of trace, generate, protocol and "
                             "requests");
    ds_diag_expected(
        r->d, "one of trace: FILE, generate: {...}, protocol: {...} and requests: [...]");
    return false;
  }
  w->kind = trace      ? DS_WORKLOAD_TRACE
            : requests ? DS_WORKLOAD_INLINE
                       : DS_WORKLOAD_GENERATE;
  if (trace)
    return read_path(r, trace, w) && ds_read_trace_format(r, workload, w) &&
           ds_read_trace_map(r, ds_node_get(workload, "map"), w) &&
           ds_read_trace_images(r, workload, w) && ds_read_trace_replay(r, workload, w) &&
           ds_read_trace_select(r, ds_node_get(workload, "select"), w) &&
           ds_read_trace_import(r, ds_node_get(workload, "import"), w);
  if (!only_with_trace(r, workload)) return false;
  if (protocol) return ds_read_protocol(r, protocol, w);
  return generate ? ds_read_generate(r, generate, w) : read_requests(r, requests, w);
}

static bool read_warmup(ds_reader *r, const ds_node *warmup, ds_workload *w) {
  static const char *const keys[] = {"requests", "duration"};
  char text[48];
  if (!warmup) return true;
  enter(r, "warmup");
  if (!ds_section(r, warmup, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *n = ds_node_get(warmup, "requests"), *t = ds_node_get(warmup, "duration");
  if (!n == !t) {
    ds_complain(r->d, warmup, "%s wants one of requests and duration", ds_name(r, ""));
    ds_diag_expected(r->d, "warmup: {requests: 100} or warmup: {duration: 60 s}");
    return false;
  }
  if (n && strcmp(r->root, "workload") != 0) {
    ds_complain_key(r->d, n, "%s: a number among several workloads", ds_name(r, "requests"));
    ds_diag_expected(r->d, "warmup: {duration: 60 s}, the same for all");
    return false;
  }
  if (n) return ds_opt_integer(r, warmup, "requests", 0, TOKENS_MAX, 0, &w->warmup_requests) && enter(r, "");
  if (!ds_want_time(t, ds_name(r, "duration"), 0, LONGEST_NS, &w->warmup_ns, r->d)) return false;
  ds_time_format(w->warmup_ns, text, sizeof text);
  return ds_note(r, "duration", t, "", "%s", text) && enter(r, "");
}

static bool opt_time(ds_reader *r, const ds_node *map, const char *key, int64_t preset_ns,
                     int64_t *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = preset_ns;
  if (n && !ds_want_time(n, ds_name(r, key), 0, 86400 * DS_NS_PER_S, out, r->d)) return false;
  ds_time_format(*out, text, sizeof text);
  return ds_note(r, key, n, "default", "%s", text);
}

static bool read_timeout(ds_reader *r, const ds_node *timeout, ds_workload *w) {
  ds_patience *p = &w->patience;
  char text[48];
  if (!ds_want_time(timeout, ds_name(r, "timeout"), 1, 86400 * DS_NS_PER_S, &p->timeout_ns, r->d))
    return false;
  if (p->timeout_ns <= w->rtt_ns) {
    ds_complain(r->d, timeout, "%s is not above the round trip", ds_name(r, "timeout"));
    ds_diag_expected(r->d, "more than rtt: no answer could come in time");
    return false;
  }
  ds_time_format(p->timeout_ns, text, sizeof text);
  return ds_note(r, "timeout", timeout, "", "%s", text);
}

/* When the client gives up and asks again. The defaults of a retry are those of OpenAI's Python
 * client (openai/openai-python, _constants.py and _calculate_retry_timeout of _base_client.py:
 * 0.5 s, doubled up to 8 s, up to a quarter off); that client asks twice more after 600 s. */
static bool read_patience(ds_reader *r, const ds_node *client, ds_workload *w) {
  static const char *const of_retries[] = {"backoff", "backoff_factor", "backoff_max", "jitter"};
  ds_patience *p = &w->patience;
  const ds_node *timeout = ds_node_get(client, "timeout"), *retries = ds_node_get(client, "retries");
  if (!timeout && retries && !ds_scenario_turns_away(r->s)) {
    ds_complain_key(r->d, retries, "%s stands without a timeout", ds_name(r, "retries"));
    ds_diag_expected(r->d, "timeout: 60 s beside it: only who gives up asks again, or a scheduler that turns requests away");
    return false;
  }
  for (size_t i = 0; i < LEN(of_retries) && !retries; ++i) {
    const ds_node *n = ds_node_get(client, of_retries[i]);
    if (!n) continue;
    ds_complain_key(r->d, n, "%s stands without retries", ds_name(r, of_retries[i]));
    ds_diag_expected(r->d, "retries: 2 beside it");
    return false;
  }
  if (timeout && !read_timeout(r, timeout, w)) return false;
  if (!timeout && !retries) return true;
  if (!ds_opt_integer(r, client, "retries", 0, 1000, 0, &p->retries)) return false;
  if (p->retries == 0) return true;
  return opt_time(r, client, "backoff", DS_NS_PER_S / 2, &p->backoff_ns) &&
         ds_opt_number(r, client, "backoff_factor", 1, 100, 2, &p->backoff_factor) &&
         opt_time(r, client, "backoff_max", 8 * DS_NS_PER_S, &p->backoff_max_ns) &&
         ds_opt_number(r, client, "jitter", 0, 1, 0.25, &p->jitter);
}

static bool read_client(ds_reader *r, const ds_node *client, ds_workload *w) {
  static const char *const keys[] = {"stream",         "rtt",         "timeout", "retries", "backoff",
                                     "backoff_factor", "backoff_max", "jitter"};
  if (!client) return true;
  enter(r, "client");
  bool stream;
  char text[48];
  if (!ds_section(r, client, keys, LEN(keys), NULL, 0) ||
      !ds_opt_bool(r, client, "stream", true, &stream))
    return false;
  w->no_stream = !stream;
  const ds_node *rtt = ds_node_get(client, "rtt");
  if (rtt && !ds_want_time(rtt, ds_name(r, "rtt"), 0, 3600 * DS_NS_PER_S, &w->rtt_ns, r->d))
    return false;
  ds_time_format(w->rtt_ns, text, sizeof text);
  return ds_note(r, "rtt", rtt, "default", "%s", text) && read_patience(r, client, w) &&
         enter(r, "");
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
  size_t own = strcmp(r->root, "workload") == 0 ? 2 : 0;
  if (!ds_section(r, workload, workload_keys, LEN(workload_keys) - own, workload_later,
                  LEN(workload_later) - (2 - own)) ||
      !read_source(r, workload, w))
    return false;
  enter(r, "");
  const ds_node *name = ds_node_get(workload, "class");
  if (!ds_opt_number(r, workload, "time_scale", 1e-6, 1e6, 1, &w->time_scale)) return false;
  if (name &&
      (!ds_want_text(name, ds_name(r, "class"), w->class_name, sizeof w->class_name, r->d) ||
       !ds_note_text(r, "class", name, "", w->class_name)))
    return false;
  bool ok = read_max_tokens(r, ds_node_get(workload, "max_tokens"), w) &&
            read_client(r, ds_node_get(workload, "client"), w) &&
            read_warmup(r, ds_node_get(workload, "warmup"), w);
  r->prefix[0] = '\0';
  return ok;
}

/* --- several ------------------------------------------------------------------------------- */

static bool has_itl(const ds_slo *slo) {
  for (int64_t i = 0; i < slo->n_run; ++i)
    if (slo->run[i].metric == DS_METRIC_ITL) return true;
  return slo->request.itl_ns > 0;
}

static bool same_patience(const ds_patience *a, const ds_patience *b) {
  return a->timeout_ns == b->timeout_ns && a->retries == b->retries &&
         a->backoff_ns == b->backoff_ns && a->backoff_factor == b->backoff_factor &&
         a->backoff_max_ns == b->backoff_max_ns && a->jitter == b->jitter;
}

/* The clock of the client, when he gives up, and the warm-up are those of the whole run. */
static bool check_same(ds_reader *r, const ds_node *n, const ds_workload *w, const ds_workload *first) {
  const char *key = NULL;
  if (w->rtt_ns != first->rtt_ns || w->no_stream != first->no_stream ||
      !same_patience(&w->patience, &first->patience))
    key = "client";
  else if (w->warmup_ns != first->warmup_ns)
    key = "warmup";
  if (!key) return true;
  const ds_node *own = ds_node_get(n, key);
  ds_complain(r->d, own ? own : n, "%s is not as in the first workload", ds_name(r, key));
  ds_diag_expected(r->d, "the same %s for all workloads", key);
  return false;
}

/* What only one workload alone can have, and what each of several must have. */
static bool check_stream(ds_reader *r, const ds_node *n, const ds_workload *w, size_t i) {
  const ds_node *slo = ds_node_get(n, "slo");
  enter(r, "");
  if (w->class_name[0] == '\0') return missing(r, n, "class", "class: chat, a name for its results");
  for (size_t k = 0; k < i; ++k) {
    if (strcmp(r->s->stream[k].class_name, w->class_name) != 0) continue;
    ds_complain(r->d, ds_node_get(n, "class"), "%s is '%s' a second time", ds_name(r, "class"),
                w->class_name);
    ds_diag_expected(r->d, "a name of its own for each workload");
    return false;
  }
  if (w->concurrency > 0) {
    ds_complain(r->d, n, "%s: a limit on concurrency is for one workload alone", ds_name(r, ""));
    ds_diag_expected(r->d, "arrivals in time, users or sessions");
    return false;
  }
  if (has_itl(&w->slo)) {
    ds_complain(r->d, slo, "%s: gaps between tokens are not kept by class", ds_name(r, "slo"));
    ds_diag_expected(r->d, "limits on ttft, tpot and e2e");
    return false;
  }
  if (w->warmup_requests > 0) { /* of a protocol */
    ds_complain(r->d, n, "%s: a warm-up of %lld requests among several workloads", ds_name(r, ""),
                (long long)w->warmup_requests);
    ds_diag_expected(r->d, "warmup: {duration: 60 s}, the same for all");
    return false;
  }
  if (i > 0 && !check_same(r, n, w, &r->s->stream[0])) return false;
  if (i == 0 || w->oversize == r->s->stream[0].oversize) return true;
  ds_complain(r->d, n, "%s: import.oversize is another than that of the first", ds_name(r, ""));
  ds_diag_expected(r->d, "one rule for all");
  return false;
}

bool ds_read_workloads(ds_reader *r, const ds_node *list) {
  ds_scenario *s = r->s;
  ds_workload *w = &s->workload;
  if (!ds_want_list(list, "workloads", r->d)) return false;
  if (list->n == 0 || list->n > STREAMS_MAX) {
    ds_complain(r->d, list, "workloads has %zu entries", list->n);
    ds_diag_expected(r->d, "1 to %d workloads, such as [{class: chat, trace: FILE}, ...]",
                     STREAMS_MAX);
    return false;
  }
  s->stream = calloc(list->n, sizeof *s->stream);
  if (!s->stream) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  bool closed = false, ok = true;
  for (const ds_node *n = list->first; n && ok; n = n->next) {
    char root[32], slo_root[40];
    size_t i = s->n_stream;
    snprintf(root, sizeof root, "workloads.%zu", i);
    snprintf(slo_root, sizeof slo_root, "%.31s.slo", root);
    r->root = root;
    r->slo_root = slo_root;
    const ds_node *tenant = ds_node_get(n, "tenant");
    ok = ds_read_workload(r, n) && ds_read_slo(r, ds_node_get(n, "slo"));
    w->slo = s->run.slo;
    memset(&s->run.slo, 0, sizeof s->run.slo);
    enter(r, "");
    ok = ok && check_stream(r, n, w, i);
    if (ok && tenant)
      ok = ds_want_text(tenant, ds_name(r, "tenant"), w->tenant, sizeof w->tenant, r->d) &&
           ds_note_text(r, "tenant", tenant, "", w->tenant);
    r->prefix[0] = '\0';
    closed = closed || w->closed_loop;
    s->stream[s->n_stream++] = *w; /* also a bad one: it is freed with the others */
    memset(w, 0, sizeof *w);
  }
  r->root = "workload";
  r->slo_root = "slo";
  if (!ok) return false;
  w->kind = DS_WORKLOAD_MERGED;
  w->time_scale = 1;
  w->stream = s->stream;
  w->n_stream = s->n_stream;
  w->closed_loop = closed;
  w->oversize = s->stream[0].oversize;
  w->rtt_ns = s->stream[0].rtt_ns;
  w->no_stream = s->stream[0].no_stream;
  w->patience = s->stream[0].patience;
  w->warmup_ns = s->stream[0].warmup_ns;
  w->max_tokens_is_output = true;
  for (size_t i = 0; i < s->n_stream; ++i)
    w->max_tokens_is_output = w->max_tokens_is_output && s->stream[i].max_tokens_is_output;
  return true;
}
