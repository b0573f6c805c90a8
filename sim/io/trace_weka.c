// SPDX-License-Identifier: GPL-3.0-or-later
/* Sessions of coding agents as kv-cache-tester (WEKA) records them: a JSON object each, in a file,
 * in a row of them, in a tar archive or in a folder of such files. Blocks of 64 tokens without the partial last
 * one; ids mean something within their session only. There is no absolute time: a session begins at
 * 0, and a request follows the one before it. */
#include <stdlib.h>
#include <string.h>

#include "io/trace_formats.h"
#include "io/trace_rows.h"

typedef struct weka {
  ds_rows rows;
  const ds_workload *w;
  bool tar;
  ds_row *queue;
  size_t n, at, room;
  /* The session that is being read */
  uint64_t number; /* of sessions so far */
  const char *id;
  uint32_t block_tokens;
} weka;

#define AGENTS_MAX 64 /* running beside each other in a session */

typedef struct branch { /* requests of the session itself, or of one of its sub-agents */
  const char *session;
  uint64_t scope;
  int64_t base_ns; /* of their times */
  bool any;
  uint64_t key;         /* of the request before */
  int64_t t_ns, api_ns; /* of it */
  uint32_t turn;
  /* Sub-agents that nobody has waited for yet, as far as there is room: the last call of each, and its end. A later request
   * waits for all that were over by then. */
  size_t n_agents;
  uint64_t agent_key[AGENTS_MAX];
  int64_t agent_end_ns[AGENTS_MAX];
} branch;

static uint64_t key_of(const weka *k, size_t index) { return ds_mix64(k->number << 32 | index); }

static bool add(weka *k, const ds_row *row) {
  if (k->n == k->room) {
    size_t room = k->room == 0 ? 256 : 2 * k->room;
    ds_row *q = realloc(k->queue, room * sizeof *q);
    if (q == NULL) return false;
    k->queue = q;
    k->room = room;
  }
  k->queue[k->n++] = *row;
  return true;
}

typedef struct call { /* one entry of requests[] */
  const char *at, *t_at, *in_at, *out_at, *ids_at;
  bool has_t, has_in, has_out, has_api, has_think, has_ttft, has_duration, agent;
  int64_t t_ns, api_ns, think_ns, ttft_ns, duration_ns;
  uint32_t in, out;
  const uint64_t *ids;
  uint64_t n_ids;
  const char *model, *agent_id;
  ds_pull inner; /* its requests[], to be read when all else is known */
  bool has_inner;
} call;

static bool call_member(weka *k, ds_pull *p, ds_text key, call *c, ds_diag *d) {
  ds_rows *r = &k->rows;
  bool given;
  ds_pull_kind(p);
  if (ds_text_is(key, "t")) {
    c->t_at = p->at;
    return ds_rows_time(r, p, "t", DS_NS_PER_S, &c->has_t, &c->t_ns, d);
  }
  if (ds_text_is(key, "in")) {
    c->in_at = p->at;
    return ds_rows_tokens(r, p, "in", &c->has_in, &c->in, d);
  }
  if (ds_text_is(key, "out")) {
    c->out_at = p->at;
    return ds_rows_tokens(r, p, "out", &c->has_out, &c->out, d);
  }
  if (ds_text_is(key, "hash_ids")) {
    c->ids_at = p->at;
    return ds_rows_blocks(r, p, "hash_ids", &c->ids, &c->n_ids, d);
  }
  if (ds_text_is(key, "api_time"))
    return ds_rows_time(r, p, "api_time", DS_NS_PER_S, &c->has_api, &c->api_ns, d);
  if (ds_text_is(key, "think_time"))
    return ds_rows_time(r, p, "think_time", DS_NS_PER_S, &c->has_think, &c->think_ns, d);
  if (ds_text_is(key, "ttft"))
    return ds_rows_time(r, p, "ttft", DS_NS_PER_S, &c->has_ttft, &c->ttft_ns, d);
  if (ds_text_is(key, "duration_ms"))
    return ds_rows_time(r, p, "duration_ms", DS_NS_PER_MS, &c->has_duration, &c->duration_ns, d);
  if (ds_text_is(key, "model")) return ds_rows_text(r, p, "model", &c->model, d);
  if (ds_text_is(key, "agent_id")) return ds_rows_text(r, p, "agent_id", &c->agent_id, d);
  if (ds_text_is(key, "type") && ds_pull_kind(p) == '"') {
    ds_text t;
    given = ds_pull_text(p, &t);
    c->agent = given && ds_text_is(t, "subagent");
    return given || ds_rows_not_json(r, p, d);
  }
  if (ds_text_is(key, "requests") && ds_pull_kind(p) == '[') {
    c->inner = *p;
    c->has_inner = true;
  }
  return ds_pull_skip(p) || ds_rows_not_json(r, p, d);
}

static bool read_call(weka *k, ds_pull *p, call *c, ds_diag *d) {
  ds_text key;
  memset(c, 0, sizeof *c);
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(&k->rows, p, d);
  c->at = p->at;
  for (ds_pull_map(p); ds_pull_key(p, &key);)
    if (!call_member(k, p, key, c, d)) return false;
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

static bool needs(weka *k, const call *c, bool has, const char *name, ds_diag *d) {
  if (has) return true;
  ds_rows_bad(&k->rows, c->at, d, "a request without %s", name);
  ds_diag_expected(d, "t, in and out in every request");
  return false;
}

/* It waits for the sub-agents that were over by t_ns: the one that ended last is the one it follows. */
static bool join_agents(weka *k, branch *b, int64_t t_ns, ds_more *m, int64_t *end_ns) {
  uint64_t *also = NULL;
  size_t left = 0, last = 0;
  uint32_t over = 0;
  for (size_t i = 0; i < b->n_agents; i++) over += b->agent_end_ns[i] <= t_ns;
  if (over == 0) return true;
  also = ds_arena_take(&k->rows.rows, (over + 1) * sizeof *also);
  if (also == NULL) return false;
  m->n_after = 0;
  for (size_t i = 0; i < b->n_agents; i++) {
    if (b->agent_end_ns[i] > t_ns) { /* for a later one */
      b->agent_key[left] = b->agent_key[i];
      b->agent_end_ns[left++] = b->agent_end_ns[i];
      continue;
    }
    if (m->n_after == 0 || b->agent_end_ns[i] >= *end_ns) {
      *end_ns = b->agent_end_ns[i];
      last = m->n_after;
    }
    also[m->n_after++] = b->agent_key[i];
  }
  m->after_key = also[last];
  also[last] = also[m->n_after - 1];
  m->also_keys = also;
  b->n_agents = left;
  return true;
}

static bool take_call(weka *k, const call *c, branch *b, ds_diag *d) {
  ds_rows *r = &k->rows;
  if (!needs(k, c, c->has_t, "t", d) || !needs(k, c, c->has_in, "in", d) ||
      !needs(k, c, c->has_out, "out", d))
    return false;
  ds_more *m = ds_rows_more(r);
  if (m == NULL) return ds_rows_no_memory(r, d);
  int64_t t_ns = c->t_ns + b->base_ns;
  ds_row row = {.time_ns = t_ns,
                .line = ds_rows_line_of(r, c->at),
                .id = DS_ROW_NO_ID,
                .input_tokens = c->in,
                .output_tokens = c->out,
                .time_column = ds_rows_column(r, c->t_at),
                .input_column = ds_rows_column(r, c->in_at),
                .output_column = ds_rows_column(r, c->out_at),
                .more = m};
  m->session = b->session;
  m->model = c->model;
  m->turn = b->turn++;
  m->has_turn = m->has_key = m->has_after = true;
  m->key = key_of(k, k->n);
  if (c->has_api) m->e2e_ns = c->api_ns;
  if (c->has_ttft) m->ttft_ns = c->ttft_ns;
  m->blocks = c->ids;
  m->n_blocks = c->n_ids;
  m->block_tokens = k->block_tokens;
  m->scope = b->scope;
  if (c->ids_at != NULL && !ds_rows_check_blocks(r, c->ids_at, c->in, c->n_ids, k->block_tokens,
                                                 k->w->block_tail, &m->tail, d))
    return false;
  if (b->any || b->n_agents > 0) {
    int64_t from_ns = b->t_ns + b->api_ns, end_ns = 0;
    m->n_after = 1;
    m->after_key = b->key;
    if (!join_agents(k, b, t_ns, m, &end_ns)) return ds_rows_no_memory(r, d);
    if (m->also_keys != NULL) from_ns = end_ns;
    m->think_ns = t_ns > from_ns ? t_ns - from_ns : 0;
    if (m->also_keys == NULL && c->has_think) m->think_ns = c->think_ns;
  }
  b->any = true;
  b->key = m->key;
  b->t_ns = t_ns;
  b->api_ns = c->has_api ? c->api_ns : 0;
  return add(k, &row) || ds_rows_no_memory(r, d);
}

/* The requests of a sub-agent. Its times count from its start, or, in some files, from that of the
 * session: those are not smaller than its start. */
static bool take_agent(weka *k, const call *c, branch *parent, ds_diag *d) {
  if (!c->has_inner) return true;
  char name[300];
  int n = snprintf(name, sizeof name, "%.200s:%.80s", k->id != NULL ? k->id : "session",
                   c->agent_id != NULL ? c->agent_id : "agent");
  branch b = {.session = ds_rows_keep(&k->rows, name, (size_t)n), .scope = parent->scope};
  if (b.session == NULL) return ds_rows_no_memory(&k->rows, d);
  /* It waits for the request before it. */
  b.any = parent->any;
  b.key = parent->key;
  b.t_ns = parent->t_ns;
  b.api_ns = parent->api_ns;
  ds_pull p = c->inner;
  bool first = true;
  size_t before = k->n;
  for (ds_pull_list(&p); ds_pull_next(&p); first = false) {
    call inner;
    if (!read_call(k, &p, &inner, d)) return false;
    if (first && inner.t_ns < c->t_ns) b.base_ns = c->t_ns;
    if (!inner.agent && !take_call(k, &inner, &b, d)) return false;
  }
  if (p.wrong != NULL) return ds_rows_not_json(&k->rows, &p, d);
  if (k->n > before) {
    size_t i = parent->n_agents < AGENTS_MAX ? parent->n_agents++ : AGENTS_MAX - 1;
    parent->agent_key[i] = b.key;
    parent->agent_end_ns[i] = c->has_duration ? c->t_ns + c->duration_ns : b.t_ns + b.api_ns;
  }
  return true;
}

static bool take_requests(weka *k, ds_pull *p, ds_diag *d) {
  char name[32];
  if (k->id == NULL) {
    int n = snprintf(name, sizeof name, "session-%llu", (unsigned long long)k->number);
    k->id = ds_rows_keep(&k->rows, name, (size_t)n);
    if (k->id == NULL) return ds_rows_no_memory(&k->rows, d);
  }
  branch b = {.session = k->id, .scope = ds_mix64(k->number + 1) | 1};
  for (ds_pull_list(p); ds_pull_next(p);) {
    call c;
    if (!read_call(k, p, &c, d)) return false;
    if (!(c.agent ? take_agent(k, &c, &b, d) : take_call(k, &c, &b, d))) return false;
  }
  return p->wrong == NULL || ds_rows_not_json(&k->rows, p, d);
}

static bool read_session(weka *k, ds_pull *p, ds_diag *d) {
  ds_rows *r = &k->rows;
  ds_text key;
  ds_pull requests = {.begin = NULL};
  k->number++;
  k->id = NULL;
  k->block_tokens = k->w->block_tokens > 0 ? k->w->block_tokens : 64;
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(r, p, d);
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    ds_pull_kind(p);
    if (ds_text_is(key, "id")) {
      if (!ds_rows_text(r, p, "id", &k->id, d)) return false;
      continue;
    }
    if (ds_text_is(key, "block_size")) {
      const char *at = p->at;
      uint64_t v = 0;
      bool given;
      if (!ds_rows_count(r, p, "block_size", 1u << 20, &given, &v, d)) return false;
      if (given && v == 0) {
        ds_rows_bad(r, at, d, "block_size is 0");
        ds_diag_expected(d, "the tokens of a block, such as 64");
        return false;
      }
      if (given && k->w->block_tokens == 0) k->block_tokens = (uint32_t)v;
      continue;
    }
    if (ds_text_is(key, "requests") && ds_pull_kind(p) == '[') requests = *p;
    if (!ds_pull_skip(p)) return ds_rows_not_json(r, p, d);
  }
  if (!ds_pull_done(p)) return ds_rows_not_json(r, p, d);
  if (requests.begin == NULL) {
    bool other = k->tar && k->number == 1;
    ds_rows_bad(r, p->begin, d, other ? "no session of an agent: it has no requests" : "a session without requests");
    if (other)
      ds_diag_expected(d, "an archive of agents' sessions (of a ServeGen archive, unpack one client's files: "
                          "NAME-trace.csv and NAME-dataset.json)");
    else ds_diag_expected(
        d, "requests: [{\"t\": 0.0, \"in\": 15171, \"out\": 240, \"hash_ids\": [...]}, ...]");
    return false;
  }
  return take_requests(k, &requests, d);
}

static bool weka_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  weka *k = (weka *)s;
  *n = 0;
  while (k->at == k->n) {
    ds_pull p;
    k->n = k->at = 0;
    ds_rows_begin(&k->rows);
    if (!(k->tar ? ds_rows_member(&k->rows, ".json", &p, d) : ds_rows_value(&k->rows, &p, d)))
      return false;
    if (p.begin == NULL) return true;
    if (!read_session(k, &p, d)) {
      k->n = 0;
      return false;
    }
  }
  *n = ds_rows_hand_out(rows, cap, k->queue, k->n, &k->at);
  return true;
}

static void weka_close(ds_source *s) {
  ds_rows_free((ds_rows *)s);
  free(((weka *)s)->queue);
  free(s);
}

bool ds_weka_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  ds_source s = {.format = "weka",
                 .time_name = "t",
                 .input_name = "in",
                 .output_name = "out",
                 .input = in,
                 .rebase = true,
                 .zeros_normal = true,
                 .unsorted_normal = true,
                 .chained = true,
                 .documents = true,
                 .note = "sessions have no absolute times: each begins at 0",
                 .rows = weka_rows,
                 .close = weka_close};
  *out = NULL;
  if (!ds_input_peek(in, 512, d)) return false;
  weka *k = ds_rows_new(sizeof *k, &s, d);
  if (k == NULL) return false;
  k->w = w;
  k->tar = ds_is_tar(in->at, (size_t)(in->end - in->at));
  *out = &k->rows.source;
  return true;
}
