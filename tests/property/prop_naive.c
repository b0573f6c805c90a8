// SPDX-License-Identifier: GPL-3.0-or-later
/* The program against the naive simulator of tests/naive: the same iterations and the same token
 * times, on random scenarios with linear cost. The scenario of the first difference is kept as
 * <seed>.yaml. */
#include "outputs.h"
#include "worlds.h"

static const char *naive(void) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/naive", setting("BUILD", "build/release"));
  return setting("NAIVE", path);
}

/* Compare line by line; the first difference is printed. */
static bool alike(uint64_t seed, const char *what, const json_t *program_lines,
                  const json_t *naive_lines, void (*program_text)(text *, const json_t *),
                  void (*naive_text)(text *, const json_t *)) {
  size_t n = json_array_size(program_lines), m = json_array_size(naive_lines);
  text a = {0}, b = {0};
  bool same = true;
  for (size_t i = 0; same && (i < n || i < m); i++) {
    a.n = b.n = 0;
    if (i < n)
      program_text(&a, json_array_get(program_lines, i));
    else
      put(&a, "nothing");
    if (i < m)
      naive_text(&b, json_array_get(naive_lines, i));
    else
      put(&b, "nothing");
    if (strcmp(a.s, b.s)) {
      note("seed %llu, %s %zu of %zu", (unsigned long long)seed, what, i, m);
      note("  program: %.400s", a.s);
      note("  naive:   %.400s", b.s);
      same = false;
    }
  }
  free(a.s), free(b.s);
  return same;
}

static void step_text(text *t, const json_t *step) { put_step(t, step, true); }

/* Every tenth scenario takes its requests from a trace, in one of three forms. */
static void write_inputs(uint64_t seed) {
  static const char *const names[] = {"trace.jsonl", "trace-2023.csv", "trace-2024.csv"};
  world w;
  world_make(&w, seed, WORLD_LINEAR);
  int form = seed % 10 ? -1 : (int)(seed / 10 % 3);
  if (form >= 0) world_write_trace(&w, (world_form)form, at("%s", names[form]));
  world_write_with(&w, at("s.yaml"), form < 0 ? NULL : names[form]);
}

static bool agree(uint64_t seed, i64 *iterations, i64 *preemptions) {
  write_inputs(seed);
  if (RUN(naive(), at("s.yaml"), "--steps", at("naive-steps.jsonl"), "--requests",
          at("naive-requests.jsonl"))) {
    note("seed %llu: the naive simulator refuses", (unsigned long long)seed);
    say_stderr();
    return false;
  }
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--steps", at("steps.jsonl"),
               "--requests", at("requests.jsonl"));
  if (rc) {
    note("seed %llu: exit status %d", (unsigned long long)seed, rc);
    say_stderr();
    return false;
  }
  json_t *s = load_lines(at("steps.jsonl")), *ns = load_lines(at("naive-steps.jsonl"));
  json_t *r = load_lines(at("requests.jsonl")), *nr = load_lines(at("naive-requests.jsonl"));
  bool same = s && ns && r && nr && alike(seed, "iteration", s, ns, step_text, step_text) &&
              alike(seed, "request", r, nr, put_program_request, put_naive_request);
  *iterations += (i64)json_array_size(ns);
  for (size_t i = 0; i < json_array_size(nr); i++)
    *preemptions += get_int(json_array_get(nr, i), "preemptions");
  json_decref(s), json_decref(ns), json_decref(r), json_decref(nr);
  return same;
}

int main(int argc, char **argv) {
  world_begin("naive");
  if (access(naive(), X_OK)) bail("no naive simulator at %s", naive());
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(600), bad = 0;
  i64 iterations = 0, preemptions = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    if (agree(seed, &iterations, &preemptions)) continue;
    bad++;
    char name[32];
    snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed);
    keep(at("s.yaml"), name);
  }
  tap(bad == 0, "%d of %d random scenarios agree with the naive simulator step by step", n - bad,
      n);
  if (argc < 2)
    tap(iterations > 20 * n && preemptions > n, "they hold %lld iterations and %lld preemptions",
        (long long)iterations, (long long)preemptions);
  return tap_end();
}
