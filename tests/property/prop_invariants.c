// SPDX-License-Identifier: GPL-3.0-or-later
/* What must hold on any workload, held on random ones with all cost tiers and both schedulers:
 * the causes of the blame ledger are not negative and sum to the latency to the nanosecond; the
 * iterations conserve tokens and KV blocks; the summary is that of the rows; and changes that must
 * not matter do not (names, a shift of time, later requests, the order of equal arrivals, other
 * replicas). The scenario of a failure is kept. */
#include "outputs.h"
#include "worlds.h"

static const char *const causes[] = {
    "client",        "api",     "admission",   "retry",          "cold_start",    "queue",
    "kv_wait",       "kv_load", "prefill_own", "prefill_others", "decode_memory", "decode_compute",
    "communication", "host",    "preempted",   "transfer"};
enum { n_causes = sizeof causes / sizeof causes[0] };

static uint64_t seed_now;

__attribute__((format(printf, 1, 2))) static bool fail(const char *format, ...) {
  char s[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(s, sizeof s, format, ap);
  va_end(ap);
  note("seed %llu: %s", (unsigned long long)seed_now, s);
  return false;
}

static bool run_world(const world *w, const char *json, const char *requests, const char *steps) {
  world_write(w, at("s.yaml"));
  const char *argv[16] = {program(), "run", at("s.yaml"), "--quiet"};
  int n = 4;
  if (json) remove(json), argv[n++] = "--json", argv[n++] = json;
  if (requests) remove(requests), argv[n++] = "--requests", argv[n++] = requests;
  if (steps) remove(steps), argv[n++] = "--steps", argv[n++] = steps;
  int rc = run(argv);
  if (rc) say_stderr();
  return rc ? fail("exit status %d", rc) : true;
}

/* --- rows --- */

static bool blame_sums(const table *t, int row) {
  i64 sum = 0, e2e = cell_ns(t, row, "e2el_ms");
  for (int i = 0; i < n_causes; i++) {
    char name[40];
    snprintf(name, sizeof name, "blame_%s_ms", causes[i]);
    i64 ns = cell_ns(t, row, name);
    if (ns < 0) return fail("row %d: %s is %s", row, name, t->cell[row][column(t, name)]);
    sum += ns;
  }
  if (!cell_int(t, row, "preemptions") && cell_ns(t, row, "blame_preempted_ms"))
    return fail("row %d: never preempted, yet blamed", row);
  i64 waited = cell_ns(t, row, "blame_api_ms") + cell_ns(t, row, "blame_queue_ms") +
               cell_ns(t, row, "blame_kv_wait_ms");
  if (waited < cell_ns(t, row, "scheduled_s") - cell_ns(t, row, "arrival_s"))
    return fail("row %d: waited longer than it is blamed for", row);
  return sum == e2e ? true
                    : fail("row %d: causes sum to %lld ns, latency is %lld", row, (long long)sum,
                           (long long)e2e);
}

static bool times_in_order(const world *w, const table *t, int row) {
  const world_request *r = &w->r[row - 1];
  i64 arrival = cell_ns(t, row, "arrival_s"), scheduled = cell_ns(t, row, "scheduled_s"),
      first = cell_ns(t, row, "first_token_s"), finish = cell_ns(t, row, "finish_s");
  if (arrival != r->arrival_ns - w->r[0].arrival_ns)
    return fail("row %d: arrives at %lld", row, (long long)arrival);
  if (cell_int(t, row, "input_tokens") != r->input ||
      cell_int(t, row, "output_tokens") != r->output)
    return fail("row %d: lengths", row);
  if (!(arrival <= scheduled && scheduled < first && first <= finish))
    return fail("row %d: times out of order", row);
  if (cell_ns(t, row, "ttft_ms") != first - arrival ||
      cell_ns(t, row, "e2el_ms") != finish - arrival)
    return fail("row %d: TTFT or latency is not the difference of times", row);
  const char *tpot = t->cell[row][column(t, "tpot_ms")];
  if (r->output == 1) return *tpot ? fail("row %d: a TPOT with one token", row) : true;
  double mean = (double)(finish - first) / (double)(r->output - 1) * 1e-6;
  if (fabs(strtod(tpot, NULL) - mean) > 1e-6 + 1e-12 * mean)
    return fail("row %d: TPOT %s, not %.9f", row, tpot, mean);
  i64 longest = cell_ns(t, row, "max_itl_ms");
  if (w->is_static && w->batch_end && finish != first)
    return fail("row %d: a batch answers at once", row);
  if (longest * (r->output - 1) < finish - first || longest > finish - first)
    return fail("row %d: longest gap", row);
  return strcmp(t->cell[row][column(t, "status")], "ok")
             ? fail("row %d: status %s", row, t->cell[row][column(t, "status")])
             : true;
}

static bool rows_hold(const world *w, const table *t) {
  if (t->rows != w->n + 1) return fail("%d rows for %d requests", t->rows - 1, w->n);
  bool good = true;
  for (int i = 1; i < t->rows && good; i++) good = blame_sums(t, i) && times_in_order(w, t, i);
  return good;
}

/* --- summary --- */

static int by_value(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

static bool near(const json_t *j, const char *before, const char *what, const char *after,
                 double expected) {
  char key[64];
  snprintf(key, sizeof key, "%s%s%s", before, what, after);
  const json_t *v = json_object_get(j, key);
  if (!json_is_number(v)) return fail("--json has no %s", key);
  double got = json_number_value(v);
  return fabs(got - expected) <= 1e-9 + 1e-9 * fabs(expected)
             ? true
             : fail("%s is %.12g, the rows give %.12g", key, got, expected);
}

/* Percentiles by linear interpolation between closest ranks, standard deviation of the population,
 * as numpy has them. */
static bool distribution_holds(const json_t *j, const char *what, double *x, size_t n) {
  static const struct {
    const char *name;
    double p;
  } tails[] = {{"median_", 50}, {"p50_", 50}, {"p90_", 90}, {"p95_", 95}, {"p99_", 99}};
  if (!n) return true;
  qsort(x, n, sizeof *x, by_value);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  for (size_t i = 0; i < n; i++) squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
  bool good = near(j, "mean_", what, "_ms", sum / (double)n);
  char key[64];
  snprintf(key, sizeof key, "std_%s_ms", what);
  /* Of equal values the deviation is 0 up to the rounding of squares. */
  double deviation = sqrt(squares / (double)n), said = json_number_value(json_object_get(j, key));
  if (fabs(said - deviation) > 1e-5 + 1e-6 * deviation)
    good = fail("%s is %.12g, the rows give %.12g", key, said, deviation);
  for (size_t k = 0; k < sizeof tails / sizeof tails[0]; k++) {
    double rank = tails[k].p / 100 * (double)(n - 1);
    size_t low = (size_t)rank;
    double v = x[low] + (low + 1 < n ? (rank - (double)low) * (x[low + 1] - x[low]) : 0);
    good = near(j, tails[k].name, what, "_ms", v) && good;
  }
  return good;
}

static bool summary_holds(const world *w, const json_t *j, const json_t *lines) {
  size_t n = json_array_size(lines), i, k, n_tpot = 0, n_itl = 0;
  i64 input = 0, output = 0, last = 0;
  json_t *r, *gap;
  json_array_foreach(lines, i, r) input += get_int(r, "input_tokens"),
      output += get_int(r, "output_tokens");
  double *ttft = calloc(n + 1, sizeof *ttft), *e2e = calloc(n + 1, sizeof *e2e),
         *tpot = calloc(n + 1, sizeof *tpot), *itl = calloc((size_t)output + 1, sizeof *itl);
  json_array_foreach(lines, i, r) {
    ttft[i] = json_number_value(json_object_get(r, "ttft_ms"));
    e2e[i] = json_number_value(json_object_get(r, "e2el_ms"));
    if (json_is_number(json_object_get(r, "tpot_ms")))
      tpot[n_tpot++] = (e2e[i] - ttft[i]) / (double)(get_int(r, "output_tokens") - 1);
    json_array_foreach(json_object_get(r, "itl_ms"), k, gap) itl[n_itl++] = json_number_value(gap);
    if (get_ns(r, "finish_s", 1e9) > last) last = get_ns(r, "finish_s", 1e9);
  }
  bool good = get_int(j, "completed") == (i64)n && get_int(j, "failed") == 0 &&
              get_int(j, "total_input_tokens") == input &&
              get_int(j, "total_output_tokens") == output;
  if (!good) fail("counts of the summary");
  bool at_once = w->is_static && w->batch_end; /* an answer in one piece has no gaps */
  if ((i64)n_itl != (at_once ? 0 : output - (i64)n))
    good = fail("%zu gaps for %lld tokens of %zu requests", n_itl, (long long)output, n);
  double duration = (double)last * 1e-9;
  good = near(j, "", "duration", "", duration) &&
         near(j, "", "request_throughput", "", (double)n / duration) &&
         near(j, "", "output_throughput", "", (double)output / duration) &&
         near(j, "", "total_token_throughput", "", (double)(input + output) / duration) && good;
  good = distribution_holds(j, "ttft", ttft, n) && distribution_holds(j, "e2el", e2e, n) &&
         distribution_holds(j, "tpot", tpot, n_tpot) && distribution_holds(j, "itl", itl, n_itl) &&
         good;
  free(ttft), free(e2e), free(tpot), free(itl);
  return good;
}

static bool blame_totals_hold(const json_t *j, const table *t) {
  const json_t *blame = json_object_get(j, "blame_s");
  for (int i = 0; i < n_causes; i++) {
    char name[40];
    snprintf(name, sizeof name, "blame_%s_ms", causes[i]);
    i64 sum = 0;
    for (int row = 1; row < t->rows; row++) sum += cell_ns(t, row, name);
    const json_t *v = json_object_get(blame, causes[i]);
    if (!json_is_number(v)) return fail("blame_s has no %s", causes[i]);
    if (fabs(json_number_value(v) - (double)sum * 1e-9) > 1e-9 + 1e-12 * (double)sum)
      return fail("blame_s.%s is %.12g, the rows give %.12g", causes[i], json_number_value(v),
                  (double)sum * 1e-9);
  }
  return true;
}

/* --- iterations --- */

typedef struct progress {
  i64 computed, emitted, replica, step; /* step: the last one that it was part of */
  i64 others_ns; /* what the prompts of others added to its decodes, at linear cost */
  bool running, shared_prefill; /* another prompt was computed beside its own */
} progress;

static int index_of(const world *w, const json_t *id) {
  i64 k = json_is_integer(id)  ? (i64)json_integer_value(id)
          : json_is_string(id) ? strtoll(json_string_value(id) + w->named, NULL, 10)
                               : -1;
  if (w->named) k = k % 3 == 1 ? k / 3 : -1;
  return k >= 0 && k < w->n ? (int)k : -1;
}

/* One row of a step: n tokens of a request on a replica. */
static bool row_holds(const world *w, progress *p, const json_t *id, i64 n, const json_t *line,
                      i64 step, bool decode) {
  i64 replica = get_int(line, "replica"), prefill = get_int(line, "prefill_tokens");
  int i = index_of(w, id);
  if (i < 0) return fail("step %lld: no such request", (long long)step);
  progress *r = &p[i];
  if (r->step == step) return fail("step %lld: request %d twice", (long long)step, i);
  if (r->running && r->replica != replica)
    return fail("step %lld: request %d runs on two replicas", (long long)step, i);
  if (decode && !w->prefix_cache &&
      (!r->emitted || (!w->is_static && w->r[i].input + r->emitted - r->computed != 1)))
    return fail("step %lld: request %d is no decode", (long long)step, i);
  if (r->emitted == w->r[i].output)
    return fail("step %lld: request %d is done", (long long)step, i);
  r->running = true, r->replica = replica, r->step = step;
  if (decode)
    r->others_ns += w->prefill_ns * prefill;
  else
    r->shared_prefill = r->shared_prefill || n != prefill;
  r->computed += n;
  return true;
}

static bool steps_hold(const world *w, const json_t *steps, const table *t) {
  progress p[128] = {{0}};
  i64 ends[8] = {0}, preemptions = 0, last_start = 0;
  for (int i = 0; i < 128; i++) p[i].step = -1;
  for (int row = 1; row < t->rows; row++) preemptions += cell_int(t, row, "preemptions");
  /* What a preempted request finds again in the cache is not in the lines. */
  bool countable = w->is_static || !w->prefix_cache || !preemptions;
  size_t s, k;
  json_t *step, *row;
  json_array_foreach(steps, s, step) {
    i64 q = get_int(step, "replica"), from = get_int(step, "start_ns"),
        to = get_int(step, "end_ns"), prefill = 0, n_decode = 0;
    if (q < 0 || q >= w->replicas || from < ends[q] || to <= from || from < last_start)
      return fail("step %zu: out of order", s);
    ends[q] = to, last_start = from;
    json_array_foreach(json_object_get(step, "preempted"), k, row) {
      int i = index_of(w, row);
      if (i < 0 || !p[i].running || p[i].replica != q)
        return fail("step %zu: preempts what does not run", s);
      p[i].running = false, p[i].computed = 0, preemptions--;
    }
    json_array_foreach(json_object_get(step, "prefill"), k, row) {
      i64 n = (i64)json_integer_value(json_array_get(row, 1));
      if (!row_holds(w, p, json_array_get(row, 0), n, step, (i64)s, false)) return false;
      prefill += n;
    }
    json_array_foreach(json_object_get(step, "decode"), k, row) {
      if (!row_holds(w, p, row, 1, step, (i64)s, true)) return false;
      n_decode++;
    }
    if (prefill > get_int(step, "prefill_tokens") || n_decode > get_int(step, "decode_sequences"))
      return fail("step %zu: counts less than its lists", s);
    if (!w->is_static && (prefill != get_int(step, "prefill_tokens") ||
                          n_decode != get_int(step, "decode_sequences")))
      return fail("step %zu: counts differ from its lists", s);
    if (!w->is_static && prefill + n_decode > w->budget)
      return fail("step %zu: more than the token budget", s);
    if (w->linear && to - from != w->step_ns + w->prefill_ns * get_int(step, "prefill_tokens") +
                                      w->decode_ns * get_int(step, "decode_sequences"))
      return fail("step %zu: takes %lld ns", s, (long long)(to - from));
    i64 held = 0, running = 0;
    for (int i = 0; i < w->n; i++)
      if (p[i].running && p[i].replica == q)
        running++, held += (p[i].computed + w->block_tokens - 1) / w->block_tokens;
    if (countable && running > (w->is_static ? w->max_batch : w->max_num_seqs))
      return fail("step %zu: %lld run", s, (long long)running);
    if (!w->is_static && countable && get_int(step, "free_blocks") != w->kv_blocks - held)
      return fail("step %zu: %lld blocks free, %lld held, of %lld", s,
                  (long long)get_int(step, "free_blocks"), (long long)held,
                  (long long)w->kv_blocks);
    for (int i = 0; i < w->n; i++) {
      if (p[i].step != (i64)s) continue;
      if (countable && (w->is_static || p[i].computed == w->r[i].input + p[i].emitted))
        p[i].running = ++p[i].emitted < w->r[i].output;
    }
  }
  /* The iteration's time less that of the same iteration without its prefill tokens. */
  for (int i = 0; w->linear && !w->is_static && i < w->n; i++)
    if (!cell_int(t, i + 1, "preemptions") && !p[i].shared_prefill &&
        cell_ns(t, i + 1, "blame_prefill_others_ms") != p[i].others_ns)
      return fail("request %d: prefill_others is %s ms, the iterations give %lld ns", i,
                  t->cell[i + 1][column(t, "blame_prefill_others_ms")], (long long)p[i].others_ns);
  for (int i = 0; countable && i < w->n; i++)
    if (p[i].emitted != w->r[i].output)
      return fail("request %d: %lld of %lld tokens", i, (long long)p[i].emitted,
                  (long long)w->r[i].output);
  return preemptions == 0 ? true
                          : fail("preemptions of the rows and of the steps differ by %lld",
                                 (long long)preemptions);
}

/* --- changes that must not matter --- */

/* Row `a` of t against row `b` of u, but for the columns named; which >= 0: only differences of
 * time. */
static bool same_row(const table *t, int a, const table *u, int b, bool only_differences) {
  static const char *const absolute[] = {"id",          "replica",       "arrival_s",
                                         "scheduled_s", "first_token_s", "finish_s"};
  for (int c = 0; c < t->columns; c++) {
    bool skip = c == column(t, "id");
    for (size_t k = 0; only_differences && k < sizeof absolute / sizeof absolute[0]; k++)
      skip = skip || !strcmp(t->cell[0][c], absolute[k]);
    if (!skip && strcmp(t->cell[a][c], u->cell[b][c]))
      return fail("%s of row %d: %s, and %s in row %d", t->cell[0][c], a, t->cell[a][c],
                  u->cell[b][c], b);
  }
  return true;
}

static bool rerun(const world *w, table *t) {
  return run_world(w, NULL, at("again.csv"), NULL) &&
         (table_load(at("again.csv"), t) ? true : fail("--requests is not a table"));
}

static bool names_do_not_matter(const world *w, const table *t) {
  world v = *w;
  v.named = !v.named;
  table u;
  if (!rerun(&v, &u)) return fail("(with other names)");
  bool good = t->rows == u.rows;
  for (int i = 1; i < t->rows && good; i++) good = same_row(t, i, &u, i, false);
  table_free(&u);
  return good ? true : fail("(with other names)");
}

static bool time_can_be_shifted(const world *w, const table *t) {
  world v = *w;
  for (int i = 0; i < v.n; i++) v.r[i].arrival_ns += 86400000000123;
  table u;
  if (!rerun(&v, &u)) return fail("(shifted by a day)");
  bool good = t->rows == u.rows;
  for (int i = 1; i < t->rows && good; i++) good = same_row(t, i, &u, i, false);
  table_free(&u);
  return good ? true : fail("(shifted by a day)");
}

static bool future_does_not_matter(const world *w, const table *t) {
  world v = *w;
  v.n = w->n / 2 + 1;
  if (v.n >= w->n) return true;
  i64 next = w->r[v.n].arrival_ns - w->r[0].arrival_ns;
  table u;
  if (!rerun(&v, &u)) return fail("(without the later half)");
  bool good = true;
  for (int i = 1; i < u.rows && good; i++)
    if (cell_ns(t, i, "finish_s") < next) good = same_row(t, i, &u, i, false);
  table_free(&u);
  return good ? true : fail("(without the later half)");
}

/* Round-robin: replica k serves requests k, k + R, ... as if it were alone. */
static bool replicas_are_independent(const world *w, const table *t) {
  if (w->least_outstanding || w->replicas == 1) return true;
  world v = *w;
  v.replicas = 1;
  v.n = 0;
  i64 k = w->n > w->replicas ? w->replicas - 1 : 0;
  for (i64 i = k; i < w->n; i += w->replicas) v.r[v.n++] = w->r[i];
  table u;
  if (!rerun(&v, &u)) return fail("(replica %lld alone)", (long long)k);
  bool good = u.rows == v.n + 1;
  for (int i = 1; i < u.rows && good; i++)
    good = same_row(t, (int)(k + (i - 1) * w->replicas) + 1, &u, i, true);
  table_free(&u);
  return good ? true : fail("(replica %lld alone)", (long long)k);
}

/* With room for everybody, the order of requests that arrive together is of no consequence: but for a front end, which
 * tokenises one prompt after the other. */
static bool equal_arrivals_permute(const world *w) {
  if (w->is_static || (!w->linear && strcmp(w->tier, "roofline") == 0)) return true;
  world v = *w, x;
  v.replicas = 1, v.kv_blocks = 20000, v.max_num_seqs = 128, v.budget = 60000,
  v.threshold = v.watermark = 0, v.by_priority = false;
  table t, u;
  if (!rerun(&v, &t)) return false;
  x = v;
  int from[128];
  for (int i = 0; i < v.n;) { /* reverse each group of equal arrivals */
    int j = i;
    while (j < v.n && v.r[j].arrival_ns == v.r[i].arrival_ns) j++;
    for (int k = i; k < j; k++) from[k] = i + j - 1 - k, x.r[k] = v.r[from[k]];
    i = j;
  }
  if (!rerun(&x, &u)) return table_free(&t), false;
  bool good = t.rows == u.rows;
  for (int i = 1; i < t.rows && good; i++) good = same_row(&t, from[i - 1] + 1, &u, i, false);
  table_free(&t), table_free(&u);
  return good ? true : fail("(equal arrivals the other way round)");
}

/* --- one world --- */

enum { ROWS, SUMMARY, STEPS, NAMES, SHIFT, FUTURE, REPLICAS, ORDER, N_CHECKS };
static const char *const titles[N_CHECKS] = {
    "the causes sum to the latency and no cause is negative; times are in order",
    "the summary is that of the rows",
    "iterations conserve tokens and blocks, and nobody is in two places",
    "names change nothing",
    "a shift of time changes nothing",
    "later requests change nothing of what was over before",
    "round-robin replicas serve as if each were alone",
    "requests that arrive together only change places when there is room for all",
};

static void check_world(const world *w, int *bad) {
  bool good[N_CHECKS] = {false};
  table t = {0};
  if (run_world(w, at("out.json"), at("out.csv"), NULL) && table_load(at("out.csv"), &t)) {
    good[ROWS] = rows_hold(w, &t);
    if (run_world(w, NULL, at("out.jsonl"), at("steps.jsonl"))) {
      json_t *j = json_load_file(at("out.json"), 0, NULL), *lines = load_lines(at("out.jsonl")),
             *steps = load_lines(at("steps.jsonl"));
      good[SUMMARY] = j && lines && (int)summary_holds(w, j, lines) & (int)blame_totals_hold(j, &t);
      good[STEPS] = steps && steps_hold(w, steps, &t);
      json_decref(j), json_decref(lines), json_decref(steps);
    }
    good[NAMES] = names_do_not_matter(w, &t);
    good[SHIFT] = time_can_be_shifted(w, &t);
    good[FUTURE] = future_does_not_matter(w, &t);
    good[REPLICAS] = replicas_are_independent(w, &t);
    good[ORDER] = equal_arrivals_permute(w);
  }
  table_free(&t);
  bool all = true;
  for (int i = 0; i < N_CHECKS; i++) bad[i] += !good[i], all = all && good[i];
  if (all) return;
  char name[32];
  snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed_now);
  world_write(w, at("%s", name));
}

int main(int argc, char **argv) {
  world_begin("invariants");
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 200001;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(120), bad[N_CHECKS] = {0};
  for (seed_now = first; seed_now < first + (uint64_t)n; seed_now++) {
    world w;
    world_make(&w, seed_now, WORLD_ANY);
    /* Their counts take every block to be somebody's own; checking builds count shared ones. */
    for (int i = 0; i < w.n; i++) w.r[i].prefix_tokens = w.r[i].n_ids = 0;
    check_world(&w, bad);
  }
  for (int i = 0; i < N_CHECKS; i++)
    tap(bad[i] == 0, "%s (%d of %d random scenarios)", titles[i], n - bad[i], n);
  return tap_end();
}
