// SPDX-License-Identifier: GPL-3.0-or-later
/* A scenario through the simulation in this very process, with its iterations and requests as the naive simulators write
 * them: thousands of cases in the time that a hundred take as programs. */
#ifndef TESTS_PROPERTY_INSIDE_H
#define TESTS_PROPERTY_INSIDE_H

#include "io/scenario.h"
#include "outputs.h"
#include "study/driver.h"

static const ds_data_dirs inside_dirs = {{"."}, 1};

static inline void inside_id(text *t, const ds_scenario *sc, uint64_t index) {
  const char *id = sc->workload.inline_ids[index];
  if (id) put(t, "\"%s\"", id);
  else put(t, "%llu", (unsigned long long)index);
}

static inline void inside_ids(text *t, const ds_scenario *sc, const char *name, const uint64_t *list, uint32_t n, bool pairs) {
  put(t, ",\"%s\":[", name);
  for (uint32_t i = 0; i < n; i++) {
    put(t, "%s%s", i ? "," : "", pairs ? "[" : "");
    inside_id(t, sc, list[pairs ? 2 * i : i]);
    if (pairs) put(t, ",%llu]", (unsigned long long)list[2 * i + 1]);
  }
  put(t, "]");
}

static inline void inside_step(text *t, const ds_scenario *sc, const ds_step *s) {
  put(t, "{\"replica\":%u,\"start_ns\":%lld,\"end_ns\":%lld,\"prefill_tokens\":%llu,\"decode_sequences\":%llu", s->replica,
      (long long)s->start_ns, (long long)s->end_ns, (unsigned long long)s->prefill_tokens, (unsigned long long)s->decode_seqs);
  inside_ids(t, sc, "prefill", s->lists, s->n_prefill, true);
  inside_ids(t, sc, "decode", s->lists + 2 * s->n_prefill, s->n_decode, false);
  inside_ids(t, sc, "preempted", s->lists + 2 * s->n_prefill + s->n_decode, s->n_preempted, false);
  put(t, ",\"free_blocks\":%lld}\n", (long long)s->free_blocks);
}

static inline void inside_request(text *t, const ds_scenario *sc, const ds_result *r, const ds_record *q) {
  put(t, "{\"id\":");
  inside_id(t, sc, q->index);
  if (q->failed == DS_FAILED_TURNED_AWAY) {
    put(t, ",\"replica\":%u,\"arrival_ns\":%lld,\"scheduled_ns\":-1,\"preemptions\":0,\"tokens_ns\":[],\"turned_away_ns\":%lld}\n",
        q->replica, (long long)(q->arrival_ns - r->first_arrival_ns), (long long)(q->finish_ns - r->first_arrival_ns));
    return;
  }
  put(t, ",\"replica\":%u,\"arrival_ns\":%lld,\"scheduled_ns\":%lld,\"preemptions\":%u,\"tokens_ns\":[%lld", q->replica,
      (long long)(q->arrival_ns - r->first_arrival_ns), (long long)(q->scheduled_ns - r->first_arrival_ns), q->preemptions,
      (long long)(q->first_token_ns - r->first_arrival_ns));
  i64 now = q->first_token_ns - r->first_arrival_ns;
  for (uint32_t k = 1; k < q->output_tokens; k++) {
    if (q->n_chunks > 0) now += r->gaps_ns[q->itl_first + k - 1]; /* else all come at once */
    put(t, ",%lld", (long long)now);
  }
  put(t, "]}\n");
  if (now != q->finish_ns - r->first_arrival_ns) put(t, "finished at another time\n");
}

/* 0, or 5 where somebody waits for ever, 3 for other complaints; *why says what. */
static inline int inside_run(const char *scenario, text *steps, text *requests, char *why, size_t n) {
  ds_scenario sc;
  ds_diag d;
  ds_error err = {DS_OK, -1, ""};
  ds_sim *sim = NULL;
  steps->n = requests->n = 0;
  put(steps, "%s", ""), put(requests, "%s", "");
  if (!ds_scenario_parse(scenario, strlen(scenario), "case.yaml", "", NULL, 0, &inside_dirs, &sc, &d)) {
    snprintf(why, n, "%s", d.text);
    return 3;
  }
  const ds_sim_options opt = {.steps = true, .gaps = true, .records = true};
  ds_status st = ds_sim_new(&sc.run, sc.sched, sc.route, &opt, &ds_heap, &sim, &err);
  ds_request *r = calloc(sc.workload.n_inline, sizeof *r);
  for (size_t i = 0; r && i < sc.workload.n_inline; i++) { /* as a trace does: from the first arrival, caps at least outputs */
    r[i] = sc.workload.inline_requests[i];
    r[i].arrival_ns -= sc.workload.inline_requests[0].arrival_ns;
    if (r[i].max_tokens < r[i].output_tokens) r[i].max_tokens = r[i].output_tokens;
  }
  if (st == DS_OK) st = ds_sim_feed(sim, r, sc.workload.n_inline, &err);
  if (st == DS_OK) ds_sim_close(sim);
  ds_step s;
  for (bool more = true; st == DS_OK && more;) {
    st = ds_sim_step(sim, 1000000, &more, &err);
    while (st == DS_OK && ds_sim_next_step(sim, &s)) inside_step(steps, &sc, &s);
  }
  const ds_result *result = st == DS_OK ? ds_sim_result(sim) : NULL;
  for (size_t i = 0; result && i < result->n; i++) inside_request(requests, &sc, result, &result->records[i]);
  snprintf(why, n, "%s", err.text);
  free(r);
  if (sim) ds_sim_free(sim);
  ds_scenario_free(&sc);
  return st == DS_OK ? 0 : st == DS_E_STUCK ? 5 : 3;
}

/* The same by a naive simulator. */
typedef int naive_function(char *scenario, FILE *steps, FILE *requests, char *why, size_t n);
static inline int inside_naive(naive_function *f, const char *scenario, char **steps, char **requests, char *why, size_t n) {
  size_t n_steps, n_requests;
  char *copy = strdup(scenario);
  FILE *a = open_memstream(steps, &n_steps), *b = open_memstream(requests, &n_requests);
  if (!copy || !a || !b) bail("out of memory");
  int status = f(copy, a, b, why, n);
  fclose(a), fclose(b);
  free(copy);
  return status;
}

static inline bool inside_same(const char *what, const char *program_lines, const char *naive_lines) {
  size_t i = 0, start = 0, line = 0;
  if (!strcmp(program_lines, naive_lines)) return true;
  for (; program_lines[i] && program_lines[i] == naive_lines[i]; i++)
    if (program_lines[i] == '\n') start = i + 1, line++;
  note("%s %zu", what, line);
  note("  program: %.*s", (int)strcspn(program_lines + start, "\n"), program_lines + start);
  note("  naive:   %.*s", (int)strcspn(naive_lines + start, "\n"), naive_lines + start);
  return false;
}

static inline i64 inside_count(const char *lines, const char *word) {
  i64 n = 0;
  for (const char *s = lines; (s = strstr(s, word)); s++) n++;
  return n;
}

/* Preemptions of all requests, from their lines. */
static inline i64 inside_preemptions(const char *lines) {
  static const char key[] = "\"preemptions\":";
  i64 n = 0;
  for (const char *s = lines; (s = strstr(s, key)); s++) n += strtoll(s + sizeof key - 1, NULL, 10);
  return n;
}

#endif
