// SPDX-License-Identifier: GPL-3.0-or-later
/* The schedulers for teaching against what theory says of them, on random jobs: one seat, a millisecond a token, prompts
 * free of charge, arrivals on the grid of iterations, so that a replica is a single server.
 *
 * No order has a lower mean latency than shortest remaining time first (Schrage 1968), on every sample path; with everybody
 * there from the start shortest job first does as well; earliest deadline first has the least of the greatest lateness for jobs of one
 * length (Jackson 1955); and while two tenants both have work queued, a virtual token counter keeps the service that they get
 * within twice the larger of the longest prompt and what a full batch costs (Sheng et al. 2024, theorem 4.4). */
#include "harness.h"

#include "core/registry.h"
#include "io/scenario.h"

#define MOST 64

static void *plain(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque, (void)old_bytes;
  if (new_bytes > 0) return realloc(old, new_bytes);
  free(old);
  return NULL;
}
static const ds_alloc heap = {plain, NULL};

static ds_scenario with(const char *scheduler, const char *options) {
  char text[600];
  snprintf(text, sizeof text,
           "{scenario: 1, cost: {model: linear, step: 1 ms, prefill_token: 0 ms, decode_sequence: 0 ms}, "
           "pools: [{scheduler: %s, kv_blocks: 1000, kv_block_tokens: 16, scheduler_options: {%s}}], "
           "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}}",
           scheduler, options);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  if (!ds_scenario_parse(text, strlen(text), "teaching", ".", NULL, 0, &dirs, &sc, &d)) bail("%s", d.text);
  return sc;
}

/* Run to the end; the caller frees. Steps, when asked for, are handed to see(). */
static ds_sim *run_all(const ds_scenario *sc, const ds_request *r, size_t n, void (*see)(void *, const ds_step *), void *to) {
  ds_sim *s = NULL;
  ds_error err = {0};
  ds_step st;
  bool more = true;
  ds_sim_options opt = {.records = true, .steps = see != NULL};
  if (ds_sim_new(&sc->run, sc->sched, ds_router_find("round-robin"), &opt, &heap, &s, &err) != DS_OK ||
      ds_sim_feed(s, r, n, &err) != DS_OK)
    bail("%s", err.text);
  ds_sim_close(s);
  while (more) {
    if (ds_sim_step(s, 100000, &more, &err) != DS_OK) bail("%s", err.text);
    while (see != NULL && ds_sim_next_step(s, &st)) see(to, &st);
  }
  return s;
}

static i64 total_latency(const char *scheduler, const char *options, const ds_request *r, size_t n) {
  ds_scenario sc = with(scheduler, options);
  ds_sim *s = run_all(&sc, r, n, NULL, NULL);
  i64 sum = 0;
  for (size_t i = 0; i < n; i++) sum += ds_sim_result(s)->e2e_ns[i];
  ds_sim_free(s);
  ds_scenario_free(&sc);
  return sum;
}

static size_t jobs(ds_request *r, uint64_t *s, bool at_once) {
  size_t n = (size_t)between(s, 2, MOST);
  i64 t = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t o = (uint32_t)between(s, 1, chance(s, 80) ? 8 : 60);
    r[i] = (ds_request){.arrival_ns = t, .input_tokens = 1, .output_tokens = o, .max_tokens = o};
    if (!at_once) t += between(s, 0, 16) * 1000000;
  }
  return n;
}

static void latencies(void) {
  int n_worlds = rounds(150), good = 0, alike = 0, gained = 0;
  for (int i = 0; i < n_worlds; i++) {
    uint64_t stream = (uint64_t)i * 7919 + 3, *s = &stream;
    ds_request r[MOST];
    size_t n = jobs(r, s, false);
    i64 best = total_latency("srpt-oracle", "max_num_seqs: 1", r, n);
    i64 sjf = total_latency("sjf-oracle", "max_num_seqs: 1", r, n), fcfs = total_latency("fcfs-no-batch", "", r, n);
    good += best <= sjf && best <= fcfs && best <= total_latency("edf", "max_num_seqs: 1", r, n);
    gained += best < sjf && best < fcfs;
    n = jobs(r, s, true);
    alike += total_latency("srpt-oracle", "max_num_seqs: 1", r, n) == total_latency("sjf-oracle", "max_num_seqs: 1", r, n) &&
             total_latency("sjf-oracle", "max_num_seqs: 1", r, n) <= total_latency("fcfs-no-batch", "", r, n);
  }
  tap(good == n_worlds && gained > n_worlds / 4,
      "in %d of %d worlds no order has a lower mean latency than shortest remaining time first (%d times lower than all)", good,
      n_worlds, gained);
  tap(alike == n_worlds, "with everybody there from the start shortest job first does as well, in %d of %d", alike, n_worlds);
}

static i64 greatest_lateness(const char *scheduler, const char *options, const ds_request *r, size_t n) {
  ds_scenario sc = with(scheduler, options);
  ds_sim *s = run_all(&sc, r, n, NULL, NULL);
  i64 most = INT64_MIN;
  for (size_t i = 0; i < n; i++) {
    i64 late = ds_sim_result(s)->ttft_ns[i] - 1000000 * r[i].input_tokens;
    if (late > most) most = late;
  }
  ds_sim_free(s);
  ds_scenario_free(&sc);
  return most;
}

static void deadlines(void) {
  int n_worlds = rounds(150), good = 0, gained = 0;
  for (int i = 0; i < n_worlds; i++) {
    uint64_t stream = (uint64_t)i * 7919 + 5, *s = &stream;
    ds_request r[MOST];
    size_t n = (size_t)between(s, 2, MOST);
    for (size_t k = 0; k < n; k++)
      r[k] = (ds_request){.input_tokens = (uint32_t)between(s, 1, 80), .output_tokens = 1, .max_tokens = 1};
    i64 edf = greatest_lateness("edf", "max_num_seqs: 1, deadline: 0 s, deadline_per_input_token: 1 ms", r, n);
    i64 fcfs = greatest_lateness("fcfs-no-batch", "", r, n);
    good += edf <= fcfs;
    gained += edf < fcfs;
  }
  tap(good == n_worlds && gained > n_worlds / 2, "earliest deadline first is never later than first come first served (%d of %d; %d times earlier)",
      good, n_worlds, gained);
}

/* Service by tenant, as the steps show it, while both still have somebody who has not been admitted. */
typedef struct service {
  const ds_request *r;
  i64 got[2], waiting[2], widest;
  bool begun[MOST];
} service;

static void see_service(void *to, const ds_step *st) {
  service *v = to;
  for (uint32_t i = 0; i < st->n_prefill; i++) {
    uint64_t who = st->lists[2 * i];
    uint32_t t = v->r[who].tenant - 1;
    if (v->begun[who]) continue;
    v->begun[who] = true;
    v->waiting[t]--;
    v->got[t] += v->r[who].input_tokens;
  }
  if (v->waiting[0] == 0 || v->waiting[1] == 0) return;
  for (uint32_t i = 0; i < st->n_decode; i++) v->got[v->r[st->lists[2 * st->n_prefill + i]].tenant - 1] += 2;
  i64 apart = v->got[0] > v->got[1] ? v->got[0] - v->got[1] : v->got[1] - v->got[0];
  if (apart > v->widest) v->widest = apart;
}

static i64 widest(const char *scheduler, i64 seats, const ds_request *r, size_t n) {
  char options[64];
  snprintf(options, sizeof options, "max_num_seqs: %lld", (long long)seats);
  ds_scenario sc = with(scheduler, options);
  service v = {.r = r};
  for (size_t i = 0; i < n; i++) v.waiting[r[i].tenant - 1]++;
  ds_sim_free(run_all(&sc, r, n, see_service, &v));
  ds_scenario_free(&sc);
  return v.widest;
}

static void fairness(void) {
  int n_worlds = rounds(150), good = 0, narrower = 0;
  for (int i = 0; i < n_worlds; i++) {
    uint64_t stream = (uint64_t)i * 7919 + 7, *s = &stream;
    ds_request r[MOST];
    i64 seats = between(s, 1, 6), prompt = 0, tokens = 0;
    for (size_t k = 0; k < MOST; k++) { /* the first tenant asks for more, and asks first */
      bool second = k >= MOST / 2;
      uint32_t p = (uint32_t)between(s, 1, second ? 10 : 60), o = (uint32_t)between(s, 1, second ? 5 : 40);
      r[k] = (ds_request){.input_tokens = p, .output_tokens = o, .max_tokens = o, .tenant = second ? 2 : 1};
      if (p > prompt) prompt = p;
      if (p + o > tokens) tokens = p + o;
    }
    i64 bound = 2 * (prompt > 2 * seats * tokens ? prompt : 2 * seats * tokens);
    i64 fair = widest("vtc-fair", seats, r, MOST);
    good += fair <= bound;
    narrower += fair < widest("edf", seats, r, MOST);
  }
  tap(good == n_worlds && narrower > n_worlds * 3 / 4,
      "service of two backlogged tenants stays within the bound in %d of %d worlds, and closer than by age in %d", good, n_worlds,
      narrower);
}

int main(void) {
  harness_begin("teaching");
  latencies();
  deadlines();
  fairness();
  return tap_end();
}
