// SPDX-License-Identifier: GPL-3.0-or-later
/* Worked examples of scheduling, exact to the microsecond: the scenarios of tests/vectors with the
 * timelines beside them, held against the program and against the naive simulator, each by itself.
 * Where a larger collection of the same kind lies at $DRYSERVE_SHARED/data/vectors/vectors.json,
 * those of its entries that this version can express are run as well. */
#include <dirent.h>

#include "outputs.h"

/* The naive simulator that has the scheduler of this scenario. */
static const char *naive(const char *scenario) {
  static const char *const others[] = {"\"triton-dynamic\"", "\"orca\"", "\"vllm-v0\"",
                                       "\"sarathi\""};
  static char path[1024];
  char *s = slurp(scenario, NULL);
  bool other = false;
  for (size_t i = 0; s && i < sizeof others / sizeof others[0]; i++)
    other = other || strstr(s, others[i]);
  free(s);
  snprintf(path, sizeof path, "%s/tests/naive%s", setting("BUILD", "build/release"),
           other ? "_policies" : "");
  return path;
}

/* Do the naive simulators know what this scenario asks for? */
static bool naive_knows(const char *scenario) {
  static const char *const unknown[] = {"\"sglang\"", "\"trtllm\"", "\"tgi\"",
                                        "\"speculative\"", "\"scheduling_time\"",
                                        "\"data_parallel\"", "\"vtc-fair\""};
  char *s = slurp(scenario, NULL);
  bool knows = s != NULL;
  for (size_t i = 0; s && i < sizeof unknown / sizeof unknown[0]; i++)
    knows = knows && !strstr(s, unknown[i]);
  free(s);
  return knows;
}

/* What a timeline says, as one text: a line per iteration, then a line per request. */

static void put_rows_short(text *t, const json_t *step) {
  text all = {0};
  put_rows(&all, "", json_object_get(step, "prefill"));
  put_rows(&all, "", json_object_get(step, "decode"));
  put(t, "%s", all.s);
  free(all.s);
}

static void put_timeline_step(text *t, const json_t *step, bool with_free) {
  put(t, "step");
  put_time(t, get_int(step, "start_ns"), 1000);
  put_time(t, get_int(step, "end_ns"), 1000);
  put(t, " P %lld D %lld rows", (long long)get_int(step, "prefill_tokens"),
      (long long)get_int(step, "decode_sequences"));
  put_rows_short(t, step);
  put_rows(t, "preempted", json_object_get(step, "preempted"));
  if (with_free) put(t, " free %lld", (long long)get_int(step, "free_blocks"));
  put(t, "\n");
}

static void put_timeline_request(text *t, const json_t *r) {
  const json_t *times = json_object_get(r, "tokens_ns");
  if (was_rejected(r)) {
    put(t, "rejected ");
    put_id(t, json_object_get(r, "id"));
    put(t, "\n");
    return;
  }
  put(t, "tokens ");
  put_id(t, json_object_get(r, "id"));
  for (size_t i = 0; i < json_array_size(times); i++)
    put_time(t, (i64)json_integer_value(json_array_get(times, i)), 1000);
  if (!times) put_token_times(t, r, 1000);
  put(t, "\npreemptions ");
  put_id(t, json_object_get(r, "id"));
  put(t, " %lld\n", (long long)get_int(r, "preemptions"));
}

static bool put_timeline(text *t, const char *steps, const char *requests, bool with_free) {
  json_t *s = load_lines(steps), *r = load_lines(requests);
  for (size_t i = 0; s && i < json_array_size(s); i++)
    put_timeline_step(t, json_array_get(s, i), with_free);
  for (size_t i = 0; r && i < json_array_size(r); i++)
    put_timeline_request(t, json_array_get(r, i));
  bool good = s && r;
  json_decref(s), json_decref(r);
  return good;
}

/* The expectation in the same text. Rows "R1,R2:14" are a decode and a prefill of 14 tokens. */

static void put_expected_rows(text *t, char *rows) {
  char copy[300];
  for (int prefill = 1; prefill >= 0; prefill--) {
    snprintf(copy, sizeof copy, "%s", rows);
    put(t, " [");
    const char *comma = "";
    for (char *r = strtok(copy, ","); r; r = strtok(NULL, ","))
      if ((strchr(r, ':') != NULL) == prefill) put(t, "%s%s", comma, r), comma = ",";
    put(t, "]");
  }
}

static bool put_expected(text *t, const char *path, bool *with_free) {
  char *s = slurp(path, NULL);
  if (!s) return false;
  for (char *line = s; *line;) {
    size_t n = strcspn(line, "\n");
    char *next = line + n + (line[n] == '\n');
    line[n] = 0;
    char rows[256], preempted[64], unused[16];
    int from, to, p, d;
    if (sscanf(line, "step %d %d P %d D %d rows %255s preempted %63s free %15s", &from, &to, &p, &d,
               rows, preempted, unused) == 7) {
      *with_free = strcmp(unused, "-") != 0;
      put(t, "step %d %d P %d D %d rows", from, to, p, d);
      put_expected_rows(t, rows);
      put(t, " preempted[%s]", strcmp(preempted, "-") ? preempted : "");
      if (*with_free) put(t, " free %s", unused);
      put(t, "\n");
    } else if (!strncmp(line, "tokens ", 7) || !strncmp(line, "preemptions ", 12) || !strncmp(line, "rejected ", 9)) {
      put(t, "%s\n", line);
    } else if (*line && *line != '#') {
      bail("%s: cannot read: %s", path, line);
    }
    line = next;
  }
  free(s);
  return true;
}

static bool same_text(const char *who, const char *name, const char *got, const char *expected) {
  if (!strcmp(got, expected)) return true;
  size_t i = 0, start = 0;
  for (; got[i] && got[i] == expected[i]; i++)
    if (got[i] == '\n') start = i + 1;
  note("%s %s expected: %.*s", who, name, (int)strcspn(expected + start, "\n"), expected + start);
  note("%s %s got:      %.*s", who, name, (int)strcspn(got + start, "\n"), got + start);
  return false;
}

/* Run scenario by the program (or the naive simulator) and hold its timeline against `expected`. */
static bool run_and_compare(bool by_naive, const char *scenario, const char *name,
                            const char *expected, bool with_free) {
  const char *steps = at("%s-steps.jsonl", name), *requests = at("%s-requests.jsonl", name);
  remove(steps), remove(requests);
  int rc = by_naive ? RUN(naive(scenario), scenario, "--steps", steps, "--requests", requests)
                    : RUN(program(), "run", scenario, "--quiet", "--steps", steps, "--requests",
                          requests);
  const char *who = by_naive ? "naive" : "dryserve";
  if (rc) {
    note("%s %s: exit status %d", who, name, rc);
    say_stderr();
    return false;
  }
  text got = {0};
  put(&got, "%s", "");
  bool good =
      put_timeline(&got, steps, requests, with_free) && same_text(who, name, got.s, expected);
  free(got.s);
  return good;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* The worked examples of the collection, and those beside it that are told in words. */
static const char *const needed[] = {
    "S1a", "S1b", "S2a", "S2b", "S2c", "S3", "S3b", "S4", "S5", "S5b", "S5c", "S6", "S7", "S8", "S9", "S9b", "S10", "S11",
    "S12", "S13a", "S13b", "S13c", "S13e", "S14", "S14-eagle", "S14-page", "S14b", "S15", "S15b", "S16", "S17a", "S17b", "S18", "S19a", "S19b",
    "S19c", "S19d", "S20", "S20b", "S20c", "S20d", "S23", "S23-sync", "S23-known", "S24a", "S24b", "S27"};

static bool all_there(char (*names)[64], size_t n) {
  bool good = true;
  for (size_t k = 0; k < sizeof needed / sizeof needed[0]; k++) {
    size_t i = 0;
    while (i < n && strcmp(names[i], needed[k])) i++;
    if (i == n) note("%s is not there", needed[k]), good = false;
  }
  return good;
}

static void own_vectors(const char *folder, bool priority) {
  DIR *d = opendir(folder);
  if (!d) bail("no folder %s (run from the top of the tree)", folder);
  char names[128][64];
  size_t n = 0;
  for (struct dirent *e; (e = readdir(d)) && n < 128;) {
    size_t k = strlen(e->d_name);
    if (k > 5 && k < 60 && !strcmp(e->d_name + k - 5, ".yaml"))
      snprintf(names[n++], sizeof names[0], "%.*s", (int)(k - 5), e->d_name);
  }
  closedir(d);
  qsort(names, n, sizeof names[0], by_name);
  tap(all_there(names, n), "%zu worked examples in %s", n, folder);
  for (size_t i = 0; i < n; i++) {
    char scenario[256], expect[256];
    snprintf(scenario, sizeof scenario, "%s/%s.yaml", folder, names[i]);
    snprintf(expect, sizeof expect, "%s/%s.expect", folder, names[i]);
    text expected = {0};
    bool with_free = true;
    if (!put_expected(&expected, expect, &with_free)) bail("no %s", expect);
    if (!priority && !strcmp(names[i], "S16"))
      tap_skip("S16", "this version does not schedule by priority");
    else
      tap(run_and_compare(false, scenario, names[i], expected.s, with_free),
          "%s comes out of dryserve to the microsecond", names[i]);
    if (naive_knows(scenario)) /* no tenants, for one */
      tap(run_and_compare(true, scenario, names[i], expected.s, with_free),
          "%s comes out of the naive simulator too", names[i]);
    free(expected.s);
  }
}

/* --- the larger collection --- */

static const char *option_name(const char *key) {
  static const char *const names[][2] = {{"max_batch", "max_batch_size"},
                                         {"max_bs", "max_batch_size"},
                                         {"max_seqs", "max_num_seqs"},
                                         {"max_batch_tokens", "max_num_batched_tokens"},
                                         {"policy", "scheduling_policy"},
                                         {"n_slots", "kv_slots"},
                                         {"preempt", "preemption_mode"},
                                         {"ratio0", "init_new_token_ratio"},
                                         {"ratio_min", "min_new_token_ratio"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strcmp(key, names[i][0])) return names[i][1];
  return key;
}

/* Speculation of an entry. What was accepted is in the text beside the collection only: here it is
 * again. */
static json_t *speculation_of(const json_t *v, json_t *cost) {
  static const char *const accepted[][2] = {{"S15", "R1,1,3\nR1,2,1\nR1,3,0\n"},
                                            {"S15b", "R1,1,3\nR2,1,1\nR2,2,1\n"}};
  const char *id = json_string_value(json_object_get(v, "id"));
  const json_t *config = json_object_get(v, "config");
  char value[64];
  for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
    if (strcmp(id, accepted[i][0])) continue;
    FILE *f = fopen(at("%s-accepted.csv", id), "w");
    if (!f) bail("cannot write");
    fprintf(f, "request,step,accepted\n%s", accepted[i][1]);
    fclose(f);
  }
  snprintf(value, sizeof value, "%g ms",
           json_number_value(json_object_get(config, "draft_ms_per_token")));
  json_object_set_new(cost, "draft_token", json_string(value));
  snprintf(value, sizeof value, "%s-accepted.csv", id);
  return json_pack("{s:s,s:O,s:s}", "method", "draft-model", "tokens", json_object_get(config, "K"),
                   "acceptance", value);
}

/* "A0..A5,z0,z1": what the tokens are, one by one. */
static json_t *ids_of(const char *tokens) {
  json_t *ids = json_array();
  for (const char *c = tokens; *c; c += strcspn(c, ","), c += *c == ',') {
    long from = strtol(c + 1, NULL, 10), to = from;
    const char *dots = strstr(c, "..");
    if (dots && dots < c + strcspn(c, ",")) to = strtol(dots + 3, NULL, 10);
    for (long i = from; i <= to; i++) json_array_append_new(ids, json_integer(*c * 1000 + i));
  }
  return ids;
}

/* An entry as a scenario; NULL when it uses something that this version does not have. */
static json_t *scenario_of(const json_t *v, bool priority) {
  static const char *const known[] = {"id", "arrival_us", "prompt", "output", "max_tokens", "prio",
                                      "prefix"};
  const char *policy = json_string_value(json_object_get(v, "policy"));
  /* Its name for a policy, ours, and the option that tells variants apart. */
  static const char *const policies[][3] = {{"static", "static", NULL},
                                            {"vllm_v1", "vllm-v1", NULL},
                                            {"sglang", "sglang", NULL},
                                            {"trtllm_no_evict", "trtllm", "guaranteed-no-evict"},
                                            {"trtllm_max_util", "trtllm", "max-utilization"},
                                            {"trtllm_static", "trtllm", "static"},
                                            {"vllm_v1+spec", "vllm-v1", NULL},
                                            {"vllm_v0", "vllm-v0", NULL},
                                            {"orca", "orca", NULL},
                                            {"sarathi", "sarathi", NULL}};
  const char *const *ours = NULL;
  for (size_t k = 0; policy && k < sizeof policies / sizeof policies[0]; k++)
    if (!strcmp(policy, policies[k][0])) ours = policies[k];
  if (!ours) return NULL;
  bool whole_cap = !strcmp(ours[1], "orca"); /* its max_tokens counts the prompt, too */
  json_t *options = json_object(), *requests = json_array(), *config = json_object_get(v, "config"),
         *value, *r;
  json_t *pool =
      json_pack("{s:s,s:s,s:b}", "name", "main", "scheduler", ours[1], "prefix_cache", 0);
  if (ours[2]) json_object_set_new(options, "capacity_policy", json_string(ours[2]));
  json_t *drafts = NULL, *cost = json_pack("{s:s,s:s,s:s,s:s}", "model", "linear", "step", "10 ms",
                                           "prefill_token", "0.1 ms", "decode_sequence", "1 ms");
  if (json_object_get(config, "K")) drafts = speculation_of(v, cost);
  if (drafts) json_object_set_new(pool, "speculative", drafts);
  const char *key;
  size_t i;
  json_object_foreach(config, key, value) {
    if (!strcmp(key, "kv_blocks") || !strcmp(key, "prefix_cache"))
      json_object_set(pool, key, value);
    else if (!strcmp(key, "kv_tokens"))
      json_object_set(pool, "kv_blocks", value);
    else if (!strcmp(key, "block_size") || !strcmp(key, "page"))
      json_object_set(pool, "kv_block_tokens", value);
    else if (!strcmp(key, "K") || !strcmp(key, "draft_ms_per_token"))
      continue; /* taken up already */
    else if (!strcmp(key, "lookahead"))
      json_object_set(drafts, key, value);
    else if (!strcmp(key, "chunking"))
      json_object_set_new(options, key,
                          json_string(strcmp(json_string_value(value), "FCFS") ? "equal-progress"
                                                                               : "fcfs"));
    else if (!strcmp(key, "swap_ms_per_block"))
      json_object_set_new(options, "swap_time_per_block",
                          json_sprintf("%g ms", json_number_value(value)));
    else if (!strcmp(key, "emit"))
      json_object_set_new(
          options, key,
          json_string(strcmp(json_string_value(value), "stream") ? "batch-end" : "stream"));
    else
      json_object_set(options, option_name(key), value);
  }
  json_object_set_new(pool, "scheduler_options", options);
  bool good = priority || !json_object_get(config, "policy");
  json_array_foreach(json_object_get(v, "requests"), i, r) {
    json_object_foreach(r, key, value) {
      bool found = false;
      for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        found = found || !strcmp(key, known[k]);
      if (!found) good = false; /* shared prefixes and the like */
    }
    json_t *one =
        json_pack("{s:O,s:I,s:O,s:O}", "id", json_object_get(r, "id"), "arrival_ns",
                  json_integer_value(json_object_get(r, "arrival_us")) * 1000, "input_tokens",
                  json_object_get(r, "prompt"), "output_tokens", json_object_get(r, "output"));
    if (json_object_get(r, "max_tokens"))
      json_object_set_new(one, "max_tokens",
                          json_integer(get_int(r, "max_tokens") -
                                       (whole_cap ? get_int(r, "prompt") : 0)));
    if (json_object_get(r, "prefix")) {
      json_object_set_new(one, "block_tokens", json_integer(1));
      json_object_set_new(one, "blocks", ids_of(json_string_value(json_object_get(r, "prefix"))));
    }
    if (json_object_get(r, "prio")) json_object_set(one, "priority", json_object_get(r, "prio"));
    json_array_append_new(requests, one);
  }
  json_t *all = json_pack("{s:i,s:[o],s:o,s:{s:o}}", "scenario", 1, "pools", pool, "cost", cost,
                          "workload", "requests", requests);
  if (good) return all;
  json_decref(all);
  return NULL;
}

/* "P=16 D=0 R1:p10 R2:p6" and "prefill ['R1', 'R2'] P=30": the counts of a step. */
static long count_in(const char *what, const char *mark) {
  const char *s = strstr(what, mark);
  return s ? strtol(s + strlen(mark), NULL, 10) : 0;
}

/* Free blocks after scheduling a step, however its note puts it; -1: it does not say. */
static long blocks_left(const json_t *v, const char *notes) {
  if (strstr(notes, "free=")) return count_in(notes, "free=");
  if (strstr(notes, "avail=")) return count_in(notes, "avail=") + count_in(notes, "evictable=");
  if (!strstr(notes, "used=")) return -1;
  return (long)get_int(json_object_get(v, "config"), "kv_blocks") - count_in(notes, "used=");
}

static void collected(const json_t *v, const json_t *scenario) {
  const char *id = json_string_value(json_object_get(v, "id"));
  text expected = {0}, got = {0};
  size_t i;
  json_t *step, *r;
  json_dump_file(scenario, at("%s.yaml", id), JSON_INDENT(1));
  const char *steps = at("all-steps.jsonl"), *requests = at("all-requests.jsonl");
  remove(steps), remove(requests);
  int rc =
      RUN(program(), "run", at("%s.yaml", id), "--quiet", "--steps", steps, "--requests", requests);
  json_t *gs = load_lines(steps), *gr = load_lines(requests);
  put(&expected, "%s", "");
  put(&got, "%s", "");
  json_array_foreach(json_object_get(v, "steps"), i, step) {
    const char *what = json_string_value(json_object_get(step, "what")),
               *notes = json_string_value(json_object_get(step, "note"));
    put(&expected, "step %lld %lld P %ld D %ld", (long long)get_int(step, "t0_us"),
        (long long)get_int(step, "t1_us"), count_in(what, "P="), count_in(what, "D="));
    long free = blocks_left(v, notes);
    if (free >= 0) put(&expected, " free %ld", free);
    const json_t *g = json_array_get(gs, i);
    put(&got, "step");
    put_time(&got, get_int(g, "start_ns"), 1000);
    put_time(&got, get_int(g, "end_ns"), 1000);
    put(&got, " P %lld D %lld", (long long)get_int(g, "prefill_tokens"),
        (long long)get_int(g, "decode_sequences"));
    if (free >= 0) put(&got, " free %lld", (long long)get_int(g, "free_blocks"));
    put(&expected, "\n");
    put(&got, "\n");
  }
  json_array_foreach(json_object_get(v, "requests"), i, r) {
    const char *name = json_string_value(json_object_get(r, "id"));
    const json_t *e = json_object_get(json_object_get(v, "expect"), name),
                 *times = json_object_get(e, "tokens_us");
    put(&expected, "tokens %s", name);
    for (size_t k = 0; k < json_array_size(times); k++)
      put(&expected, " %lld", (long long)json_integer_value(json_array_get(times, k)));
    put(&expected, "\npreemptions %s %lld\n", name, (long long)get_int(e, "preemptions"));
    put_timeline_request(&got, json_array_get(gr, i));
  }
  bool good = rc == 0 && json_array_size(gs) == json_array_size(json_object_get(v, "steps")) &&
              same_text("dryserve", id, got.s, expected.s);
  if (rc) note("%s: exit status %d", id, rc), say_stderr();
  tap(good, "%s of the collection", id);
  json_decref(gs), json_decref(gr);
  free(expected.s), free(got.s);
}

static void shared_vectors(bool priority) {
  char path[1024];
  snprintf(path, sizeof path, "%s/data/vectors/vectors.json",
           setting("DRYSERVE_SHARED", "../shared"));
  json_t *all = json_load_file(path, 0, NULL), *v;
  if (!all) {
    tap_skip("the larger collection of worked examples", "not here");
    return;
  }
  size_t i, n = 0, vendored = 0;
  json_array_foreach(all, i, v) {
    const char *id = json_string_value(json_object_get(v, "id"));
    for (size_t k = 0; k < sizeof needed / sizeof needed[0]; k++) vendored += !strcmp(id, needed[k]);
    json_t *scenario = scenario_of(v, priority);
    if (!scenario) continue;
    n++;
    collected(v, scenario);
    json_decref(scenario);
  }
  tap(n == json_array_size(all), "%zu of the collection's %zu can be expressed", n, json_array_size(all));
  tap(vendored == json_array_size(all), "%zu of them are in tests/vectors, too", vendored);
  json_decref(all);
}

int main(void) {
  harness_begin("vectors");
  bool priority = schedules_by_priority();
  own_vectors("tests/vectors", priority);
  shared_vectors(priority);
  return tap_end();
}
