// SPDX-License-Identifier: GPL-3.0-or-later
/* speculative: of a pool: who drafts, how much, and what is accepted. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/scenario_read.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const keys[] = {"method",    "draft",     "tokens",
                                   "acceptance", "lookahead", "disable_above_batch",
                                   "by_batch"};

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

static bool read_method(ds_reader *r, const ds_node *map) {
  const ds_node *n = ds_node_get(map, "method");
  size_t k;
  if (!n) return missing(r, map, "method", "method: draft-model, eagle, mtp or ngram");
  if (!ds_want_choice(n, ds_name(r, "method"), ds_draft_names + 1, DS_DRAFT_N - 1, &k, r->d))
    return false;
  r->s->run.pool.speculative.method = (ds_draft_method)(k + 1);
  return ds_note(r, "method", n, "", "%s", ds_draft_names[k + 1]);
}

static bool read_draft(ds_reader *r, const ds_node *map) {
  const ds_node *n = ds_node_get(map, "draft");
  ds_speculation *p = &r->s->run.pool.speculative;
  char name[256], from[320];
  ds_doc doc;
  if (p->method != DS_DRAFT_MODEL) {
    if (!n) return true;
    ds_complain_key(r->d, n, "%s is for method: draft-model only", ds_name(r, "draft"));
    ds_diag_expected(r->d, "no draft, or method: draft-model");
    return false;
  }
  if (!n && r->s->run.cost_tier == DS_COST_LINEAR) return true;
  if (!n) return missing(r, map, "draft", "draft: a name that `dryserve list models` shows");
  if (!ds_want_text(n, ds_name(r, "draft"), name, sizeof name, r->d) ||
      !ds_open_card(r, DS_CARD_MODEL, name, n, &doc, from))
    return false;
  bool ok = ds_card_model(&doc, &p->draft, r->d);
  ds_doc_free(&doc);
  return ok && ds_note_text(r, "draft", n, "", name);
}

/* [[1, 8, 3], [9, 64, 1]] */
static bool read_rows(ds_reader *r, const ds_node *map) {
  const ds_node *n = ds_node_get(map, "by_batch");
  ds_speculation *p = &r->s->run.pool.speculative;
  char text[512] = "";
  size_t used = 0;
  if (!n) return true;
  if (!ds_want_list(n, ds_name(r, "by_batch"), r->d)) return false;
  for (const ds_node *row = n->first; row; row = row->next) {
    int64_t v[3] = {0};
    size_t k = 0;
    if (p->n_by_batch == DS_DRAFT_ROWS_MAX || row->kind != DS_NODE_LIST || row->n != 3) {
      ds_complain(r->d, row, "%s: this row is not [low, high, tokens], or beyond the %d allowed",
                  ds_name(r, "by_batch"), DS_DRAFT_ROWS_MAX);
      ds_diag_expected(r->d, "by_batch: [[1, 8, 3], [9, 64, 1]]");
      return false;
    }
    for (const ds_node *c = row->first; c; c = c->next, ++k)
      if (!ds_want_integer(c, ds_name(r, "by_batch"), k == 2 ? 0 : 1, k == 2 ? DS_DRAFTS_MAX : 1 << 20,
                           &v[k], r->d))
        return false;
    const ds_draft_row *before = p->n_by_batch > 0 ? &p->by_batch[p->n_by_batch - 1] : NULL;
    if (v[1] < v[0] || (before && v[0] <= before->high)) {
      ds_complain(r->d, row, "%s: rows must rise and not overlap", ds_name(r, "by_batch"));
      ds_diag_expected(r->d, "by_batch: [[1, 8, 3], [9, 64, 1]]");
      return false;
    }
    p->by_batch[p->n_by_batch++] = (ds_draft_row){v[0], v[1], v[2]};
    if (v[2] > p->tokens) p->tokens = v[2];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s[%lld, %lld, %lld]",
                             used ? ", " : "", (long long)v[0], (long long)v[1], (long long)v[2]);
    if (used >= sizeof text) used = sizeof text - 1;
  }
  return ds_note(r, "by_batch", n, "", "[%s]", text);
}

static bool read_tokens(ds_reader *r, const ds_node *map) {
  const ds_node *n = ds_node_get(map, "tokens");
  ds_speculation *p = &r->s->run.pool.speculative;
  if (!n && !ds_node_get(map, "by_batch"))
    return missing(r, map, "tokens", "tokens: drafts of a request in one iteration, such as 4");
  if (n && (!ds_want_integer(n, ds_name(r, "tokens"), 1, DS_DRAFTS_MAX, &p->tokens, r->d) ||
            !ds_note(r, "tokens", n, "", "%lld", (long long)p->tokens)))
    return false;
  if (!read_rows(r, map)) return false;
  if (p->tokens > 0) return true;
  ds_complain(r->d, ds_node_get(map, "by_batch"), "%s never drafts", ds_name(r, "by_batch"));
  ds_diag_expected(r->d, "a row with tokens, or no speculative");
  return false;
}

static bool is_number(const ds_node *n) {
  return n->kind == DS_NODE_SCALAR && !n->quoted &&
         (isdigit((unsigned char)n->text[0]) || n->text[0] == '.' || n->text[0] == '-');
}

/* One chance for all, or a list by position. */
static bool read_chances(ds_reader *r, const ds_node *n, const char *key, double *chance) {
  const ds_speculation *p = &r->s->run.pool.speculative;
  if (n->kind == DS_NODE_SCALAR) {
    double x;
    if (!ds_want_number(n, ds_name(r, key), 0, 1, &x, r->d)) return false;
    for (int i = 0; i < DS_DRAFTS_MAX; ++i) chance[i] = x;
    return ds_note(r, key, n, "", "%.12g", x);
  }
  if (!ds_want_list(n, ds_name(r, key), r->d)) return false;
  if ((int64_t)n->n != p->tokens) {
    ds_complain(r->d, n, "%s has %zu entries, but up to %lld tokens are drafted", ds_name(r, key),
                n->n, (long long)p->tokens);
    ds_diag_expected(r->d, "one chance for each position");
    return false;
  }
  char text[512] = "";
  size_t used = 0, k = 0;
  for (const ds_node *c = n->first; c; c = c->next, ++k) {
    if (!ds_want_number(c, ds_name(r, key), 0, 1, &chance[k], r->d)) return false;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%.12g", used ? ", " : "", chance[k]);
    if (used >= sizeof text) used = sizeof text - 1;
  }
  return ds_note(r, key, n, "", "[%s]", text);
}

/* Chances for all, those of each class (read when the classes are known), or a file of what
 * happened. */
static bool read_acceptance(ds_reader *r, const ds_node *map) {
  const ds_node *n = ds_node_get(map, "acceptance");
  if (!n)
    return missing(r, map, "acceptance",
                   "acceptance: a chance from 0 to 1, a list by position, {class: chance, ...}, or a "
                   "CSV file with request,step,accepted");
  if (n->kind == DS_NODE_MAP) {
    r->by_class = n;
    snprintf(r->by_class_prefix, sizeof r->by_class_prefix, "%s", r->prefix);
    return true;
  }
  if (n->kind != DS_NODE_SCALAR || is_number(n))
    return read_chances(r, n, "acceptance", r->s->run.pool.speculative.acceptance);
  snprintf(r->s->acceptance_given, sizeof r->s->acceptance_given, "%s", n->text);
  const char *base = ds_base_of(r, n);
  snprintf(r->s->acceptance_path, sizeof r->s->acceptance_path, "%s%s%s",
           n->text[0] == '/' || !base[0] ? "" : base, n->text[0] == '/' || !base[0] ? "" : "/",
           n->text);
  return ds_note_text(r, "acceptance", n, "", n->text);
}

/* Every class has its chances, and nobody else has. */
static bool check_classes(ds_reader *r, const char *const *names, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    if (names[k][0] == '\0') {
      ds_complain(r->d, r->by_class, "%s is by class, but the workload has no class",
                  ds_name(r, "acceptance"));
      ds_diag_expected(r->d, "class: NAME in the workload, or one chance for all");
      return false;
    }
    if (ds_node_get(r->by_class, names[k])) continue;
    ds_complain(r->d, r->by_class, "%s says nothing of class '%.60s'", ds_name(r, "acceptance"), names[k]);
    ds_diag_expected(r->d, "a chance or a list for each class of the workloads");
    return false;
  }
  for (const ds_node *c = r->by_class->first; c; c = c->next) {
    size_t k = 0;
    while (k < n && strcmp(names[k], c->key) != 0) ++k;
    if (k < n) continue;
    ds_complain_key(r->d, c, "%s names '%.60s', which is no class of the workloads",
                    ds_name(r, "acceptance"), c->key);
    const char *near = ds_nearest(c->key, names, n);
    if (near) ds_diag_hint(r->d, "did you mean %s?", near);
    return false;
  }
  return true;
}

bool ds_read_acceptance_by_class(ds_reader *r) {
  ds_scenario *s = r->s;
  ds_speculation *p = &s->run.pool.speculative;
  const char *names[STREAMS_MAX];
  size_t n = s->n_stream;
  p->n_streams = p->method == DS_DRAFT_NONE ? 0 : (int64_t)n;
  if (!r->by_class) return true;
  for (size_t k = 0; k < n; ++k) names[k] = s->stream[k].class_name;
  if (n == 0) names[n++] = s->workload.class_name; /* one workload */
  p->n_streams = (int64_t)n;
  snprintf(r->prefix, sizeof r->prefix, "%s", r->by_class_prefix);
  s->stream_acceptance = calloc(n * DS_DRAFTS_MAX, sizeof *s->stream_acceptance);
  if (!s->stream_acceptance) return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  bool ok = check_classes(r, names, n);
  for (size_t k = 0; k < n && ok; ++k) {
    char key[160];
    snprintf(key, sizeof key, "acceptance.%.140s", names[k]);
    ok = read_chances(r, ds_node_get(r->by_class, names[k]), key, s->stream_acceptance + k * DS_DRAFTS_MAX);
  }
  p->stream_acceptance = s->stream_acceptance;
  r->prefix[0] = '\0';
  return ok;
}

bool ds_read_speculative(ds_reader *r, const ds_node *pool) {
  const ds_node *map = ds_node_get(pool, "speculative");
  ds_speculation *p = &r->s->run.pool.speculative;
  if (!map) return true;
  char outer[sizeof r->prefix], inner[sizeof r->prefix + 16];
  if (!ds_want_map(map, ds_name(r, "speculative"), r->d)) return false;
  if (!r->s->sched->speculates) {
    ds_complain_key(r->d, map, "scheduler %s does not plan drafts: %s is not modelled with it",
                    r->s->sched->name, ds_name(r, "speculative"));
    ds_diag_expected(r->d, "scheduler: vllm-v1, sglang or trtllm");
    return false;
  }
  snprintf(outer, sizeof outer, "%s", r->prefix);
  snprintf(inner, sizeof inner, "%s.speculative", outer);
  snprintf(r->prefix, sizeof r->prefix, "%.*s", (int)sizeof r->prefix - 1, inner);
  bool ok = ds_section(r, map, keys, LEN(keys), NULL, 0) && read_method(r, map) &&
            read_draft(r, map) && read_tokens(r, map) && read_acceptance(r, map) &&
            ds_opt_integer(r, map, "lookahead", 0, 1 << 20,
                           p->method == DS_DRAFT_NGRAM ? 0 : p->tokens, &p->lookahead) &&
            ds_opt_integer(r, map, "disable_above_batch", 0, 1 << 20, 0, &p->disable_above_batch);
  snprintf(r->prefix, sizeof r->prefix, "%s", outer);
  return ok;
}

/* --- what happened, from a file -------------------------------------------------------------- */

typedef struct step_row {
  uint64_t request, step;
  uint8_t accepted;
  int line;
} step_row;

static int by_request(const void *a, const void *b) {
  const step_row *x = a, *y = b;
  if (x->request != y->request) return x->request < y->request ? -1 : 1;
  return (x->step > y->step) - (x->step < y->step);
}

/* A request is its id in the scenario, or its number in order of the trace, from 0. */
static bool request_of(const ds_scenario *s, const char *text, uint64_t *out) {
  for (size_t i = 0; i < s->workload.n_inline; ++i) {
    const char *id = s->workload.inline_ids ? s->workload.inline_ids[i] : NULL;
    if (id && strcmp(id, text) == 0) {
      *out = i;
      return true;
    }
  }
  char *end;
  if (!isdigit((unsigned char)text[0]) || strlen(text) > 15) return false;
  *out = strtoull(text, &end, 10);
  return *end == '\0' && *out < (uint64_t)1 << 40;
}

static bool bad_row(ds_reader *r, int line, int64_t column, const char *what, const char *expected) {
  ds_diag_set(r->d, DS_EXIT_INPUT, r->s->acceptance_given, line, column, "%s", what);
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

/* A count in a cell, up to `most`. */
static bool cell_count(ds_reader *r, const char *cell, int line, int64_t column, const char *name, uint64_t most, uint64_t *out) {
  char *end, what[120];
  bool digits = isdigit((unsigned char)cell[0]) && strlen(cell) < 16;
  *out = digits ? strtoull(cell, &end, 10) : 0;
  if (digits && *end == '\0' && *out <= most) return true;
  snprintf(what, sizeof what, "%s is '%.60s'", name, cell);
  bad_row(r, line, column, what, "");
  ds_diag_expected(r->d, "a count from 0 to %" PRIu64 "%s", most, most <= DS_DRAFTS_MAX ? ", the most that is drafted" : "");
  return false;
}

static bool parse_row(ds_reader *r, char *line, int number, step_row *out) {
  char *step = strchr(line, ','), *accepted = step ? strchr(step + 1, ',') : NULL, what[120];
  if (!accepted || strchr(accepted + 1, ',')) {
    int cells = 1;
    for (const char *c = line; *c; ++c) cells += *c == ',';
    snprintf(what, sizeof what, "this row has %d cells", cells);
    return bad_row(r, number, 1, what, "three: request,step,accepted, such as R1,1,3");
  }
  *step++ = '\0';
  *accepted++ = '\0';
  if (!request_of(r->s, line, &out->request)) {
    snprintf(what, sizeof what, "no request is called '%.60s'", line);
    return bad_row(r, number, 1, what, "an id of the scenario's requests, or a number in order of arrival from 0");
  }
  uint64_t n;
  if (!cell_count(r, step, number, 1 + (step - line), "step", UINT32_MAX, &out->step) ||
      !cell_count(r, accepted, number, 1 + (accepted - line), "accepted", (uint64_t)r->s->run.pool.speculative.tokens, &n))
    return false;
  out->accepted = (uint8_t)n;
  out->line = number;
  return true;
}

/* Steps of a request are numbered from 0 or 1 without a gap. */
static bool keep_rows(ds_reader *r, const step_row *row, size_t n) {
  ds_scenario *s = r->s;
  uint64_t requests = n > 0 ? row[n - 1].request + 1 : 0;
  s->replay_first = calloc((size_t)requests + 1, sizeof *s->replay_first);
  s->replay_accepted = calloc(n + 1, 1);
  if (!s->replay_first || !s->replay_accepted)
    return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
  uint64_t request = 0;
  for (size_t i = 0; i < n; ++i) {
    bool first = i == 0 || row[i - 1].request != row[i].request;
    if (first ? row[i].step > 1 : row[i].step != row[i - 1].step + 1)
      return bad_row(r, row[i].line, 1, "steps of this request do not count up from 0 or 1",
                     "every verify step once");
    while (request < row[i].request) s->replay_first[++request] = i;
    s->replay_accepted[i] = row[i].accepted;
  }
  while (request < requests) s->replay_first[++request] = n;
  ds_speculation *p = &s->run.pool.speculative;
  p->replay_first = s->replay_first;
  p->replay_accepted = s->replay_accepted;
  p->replay_requests = requests;
  return true;
}

bool ds_read_replay(ds_reader *r) {
  ds_scenario *s = r->s;
  char *text, sha256[65];
  size_t bytes, n = 0, cap = 0;
  step_row *rows = NULL;
  if (!s->acceptance_path[0]) return true;
  if (!ds_file_read(s->acceptance_path, s->acceptance_given, &text, &bytes, r->d)) {
    ds_diag_expected(r->d, "a CSV file with the header request,step,accepted");
    return false;
  }
  ds_sha256_hex(text, bytes, sha256);
  ds_add_input(s, s->acceptance_given, sha256);
  bool ok = true;
  int number = 1;
  for (char *line = text, *next; ok && *line; line = next) {
    size_t k = strcspn(line, "\n");
    next = line + k + (line[k] == '\n');
    line[k] = '\0';
    line[strcspn(line, "\r")] = '\0';
    if (number == 1 && strcmp(line, "request,step,accepted") != 0) {
      char what[120];
      snprintf(what, sizeof what, "the header is '%.60s'", line);
      ok = bad_row(r, 1, 1, what, "request,step,accepted");
      break;
    }
    if (number++ == 1 || !line[0]) continue;
    if (n == cap) {
      step_row *more = realloc(rows, (cap = cap ? 2 * cap : 256) * sizeof *rows);
      if (!more) ok = ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
      if (!more) break;
      rows = more;
    }
    ok = parse_row(r, line, number - 1, &rows[n]);
    n += ok;
  }
  if (ok && n > 0) qsort(rows, n, sizeof *rows, by_request);
  ok = ok && keep_rows(r, rows, n);
  free(rows);
  free(text);
  return ok;
}
