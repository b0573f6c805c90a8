// SPDX-License-Identifier: GPL-3.0-or-later
/* The short cuts of the simulation change no byte: many iterations at once (leases) against one at
 * a time, on random scenarios, in --json and --requests. The scenario of a difference is kept as
 * <seed>.yaml. */
#include "worlds.h"

/* One run with `flag` (may be NULL); outputs named after `name`. */
static int once(const char *flag, const char *name, bool jsonl) {
  const char *json = at("%s.json", name), *requests = at("%s.%s", name, jsonl ? "jsonl" : "csv");
  remove(json), remove(requests);
  if (flag)
    return RUN(program(), "run", at("s.yaml"), "--json", json, "--requests", requests, "--quiet",
               flag);
  return RUN(program(), "run", at("s.yaml"), "--json", json, "--requests", requests, "--quiet");
}

static bool same_outputs(uint64_t seed, const char *flag, bool jsonl) {
  int rc = once(flag, "other", jsonl);
  if (rc) {
    note("seed %llu: exit status %d with %s", (unsigned long long)seed, rc, flag);
    say_stderr();
    return false;
  }
  const char *ext = jsonl ? "jsonl" : "csv";
  int line = differ(at("lease.%s", ext), at("other.%s", ext));
  if (!line) line = differ(at("lease.json"), at("other.json"));
  if (line) note("seed %llu: %s gives other bytes", (unsigned long long)seed, flag);
  return !line;
}

int main(int argc, char **argv) {
  world_begin("lease");
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 100001;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(500), bad = 0, bad_eager = 0, eager = -1;
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    world w;
    world_make(&w, seed, WORLD_ANY);
    world_caches(&w, seed);
    world_write(&w, at("s.yaml"));
    bool jsonl = seed % 2, good = true;
    int rc = once(NULL, "lease", jsonl);
    if (rc) {
      note("seed %llu: exit status %d", (unsigned long long)seed, rc);
      say_stderr();
      bad++;
      continue;
    }
    if (!same_outputs(seed, "--no-lease", jsonl)) good = false, bad++;
    if (eager < 0) eager = once("--eager", "other", jsonl) == 0;
    if (eager && !same_outputs(seed, "--eager", jsonl)) good = false, bad_eager++;
    char name[32];
    snprintf(name, sizeof name, "%llu.yaml", (unsigned long long)seed);
    if (!good) keep(at("s.yaml"), name);
  }
  tap(bad == 0, "%d of %d random scenarios give the same bytes with and without leases", n - bad,
      n);
  if (eager == 1)
    tap(bad_eager == 0,
        "%d of %d give the same bytes when every replica is advanced at every event", n - bad_eager,
        n);
  else
    tap_skip("advancing every replica at every event", "the program has no such mode");
  return tap_end();
}
