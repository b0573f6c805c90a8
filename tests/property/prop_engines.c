// SPDX-License-Identifier: GPL-3.0-or-later
/* sglang, trtllm and tgi against the plainest way to write them (tests/naive/engines.h): thousands of tiny random cases
 * with KV of a few blocks, every iteration and every token to the nanosecond. And on the same cases, with speculation,
 * asynchronous scheduling or lockstep beside: leases change nothing, and every token comes out once. */
#include "harness.h"

#include "../naive/engines.h"
#include "io/scenario.h"
#include "study/driver.h"

static double dyadic(uint64_t *s, i64 least, i64 most) { return (double)between(s, least, most) / 64; }

static void make_requests(n_world *w, uint64_t *s) {
  i64 now = 0, pool = w->blocks * w->block_tokens, gap = chance(s, 50) ? 12 : 40;
  for (int i = 0; i < w->n; i++) {
    n_request *r = &w->r[i];
    if (i && !chance(s, 35)) now += between(s, 0, gap) * 1000000;
    if (chance(s, 5)) now += 1000000000;
    r->arrival = now;
    for (;;) {
      r->p = chance(s, 10) ? 1 : between(s, 1, 40);
      r->o = chance(s, 15) ? 1 : between(s, 1, w->engine == N_SGLANG ? 50 : 30);
      r->max = chance(s, 50) ? r->o : r->o + between(s, 0, 25);
      i64 whole = w->engine == N_SGLANG ? r->p + r->o + w->block_tokens + 1 : r->p + r->max;
      if (whole > pool) continue;
      if (w->engine == N_TGI && r->p > n_up(w->prefill_budget, w->block_tokens) * w->block_tokens) continue;
      if (w->engine == N_TGI && w->total > 0 && r->p + r->max > w->total) continue;
      if (w->engine == N_TRTLLM && !w->chunked_context && r->p + r->o > w->max_tokens) continue;
      break;
    }
  }
}

/* Prompts that begin alike, and KV for all of them for ever. */
static void make_alike(n_world *w, uint64_t seed) {
  uint64_t stream = seed * 104729 + 17, *s = &stream;
  if (w->engine == N_TGI) w->engine = N_SGLANG;
  w->order = (enum n_order)between(s, 0, 3);
  w->check = between(s, -1, 24);
  w->late = between(s, 1, 12);
  w->blocks = 4000;
  bool together = chance(s, 60); /* many wait at once */
  for (int i = 0; i < w->n; i++) {
    w->r[i].family = (int)between(s, 0, N_FAMILIES - 1);
    w->r[i].shared = chance(s, 15) ? 0 : chance(s, 30) ? w->r[i].p : between(s, 1, w->r[i].p);
    if (together) w->r[i].arrival = w->r[i].arrival / 100000000 * 100000000;
  }
}

static void make(n_world *w, uint64_t seed, n_step *steps) {
  uint64_t stream = seed * 7919 + 4242, *s = &stream;
  memset(w, 0, sizeof *w);
  w->s = steps;
  w->engine = (enum n_engine)between(s, 0, 2);
  w->step_ns = between(s, 1, 10) * 1000000;
  w->prefill_ns = between(s, 0, 10) * 100000;
  w->decode_ns = between(s, 0, 2) * 1000000;
  w->block_tokens = chance(s, 50) ? (w->engine == N_SGLANG ? 1 : 4) : between(s, 1, 8);
  w->blocks = w->block_tokens == 1 ? between(s, 30, 120) : between(s, 4, 40);
  if (w->blocks * w->block_tokens < 24) w->blocks = n_up(24, w->block_tokens);
  w->max_running = chance(s, 30) ? between(s, 1, 3) : between(s, 4, 16);
  w->max_prefill = between(s, 8, 80);
  w->chunk = chance(s, 25) ? -1 : between(s, w->block_tokens, 40);
  w->mixed = chance(s, 40);
  w->order = chance(s, 20) ? N_LOF : N_FCFS;
  w->check = -1;
  w->late = 1;
  w->ratio0 = dyadic(s, 1, chance(s, 60) ? 6 : 64); /* little is expected: retraction is common */
  w->ratio_min = w->ratio0 * (double)between(s, 1, 8) / 8;
  w->decay = 1.0 / (double)(1 << between(s, 3, 10));
  w->capacity = (int)between(s, 0, 2);
  w->equal = chance(s, 40);
  w->chunked_context = chance(s, 75);
  w->max_batch = between(s, 1, 10);
  w->max_tokens = chance(s, 50) ? between(s, 8, 24) : between(s, 8, 100);
  w->unit = between(s, 1, 8);
  if (w->unit > w->max_tokens / 2) w->unit = 1;
  w->prefill_budget = between(s, 8, 100);
  w->total = chance(s, 50) ? 0 : between(s, 24, w->blocks * w->block_tokens);
  w->patience = between(s, 0, 6);
  w->served_ratio = (double)between(s, 0, 12) / 8;
  if (w->engine == N_TGI && chance(s, 30)) w->max_batch = 0;
  w->wait_most = w->engine == N_TRTLLM && chance(s, 40) ? between(s, 1, 6) : 0;
  w->wait_ratio = w->wait_most > 0 ? (double)between(s, 0, 8) / 8 : 0;
  w->n = (int)between(s, chance(s, 20) ? 1 : 8, N_MAX);
  make_requests(w, s);
}

static void options(const n_world *w, char *t, size_t n) {
  static const char *const capacities[] = {"guaranteed-no-evict", "max-utilization", "static"},
                          *const orders[] = {"fcfs", "lof", "lpm", "dfs-weight"};
  if (w->engine == N_SGLANG)
    snprintf(t, n,
             "max_running_requests: %lld, max_prefill_tokens: %lld, chunked_prefill_size: %lld, enable_mixed_chunk: %s, "
             "schedule_policy: %s, in_batch_prefix_caching_check_threshold: %lld, "
             "in_batch_prefix_caching_deprioritize_threshold: %lld, init_new_token_ratio: %.17g, min_new_token_ratio: %.17g, new_token_ratio_decay: %.17g",
             (long long)w->max_running, (long long)w->max_prefill, (long long)w->chunk, w->mixed ? "true" : "false",
             orders[w->order], (long long)w->check, (long long)w->late, w->ratio0, w->ratio_min, w->decay);
  else if (w->engine == N_TRTLLM)
    snprintf(t, n,
             "capacity_policy: %s, max_batch_size: %lld, max_num_tokens: %lld, chunk_unit: %lld, chunking: %s, "
             "enable_chunked_context: %s, batch_wait_timeout_iters: %lld, batch_wait_max_tokens_ratio: %.17g",
             capacities[w->capacity], (long long)w->max_batch, (long long)w->max_tokens, (long long)w->unit,
             w->equal ? "equal-progress" : "fcfs", w->chunked_context ? "true" : "false", (long long)w->wait_most,
             w->wait_ratio);
  else
    snprintf(t, n,
             "max_batch_prefill_tokens: %lld, max_batch_total_tokens: %lld, max_waiting_tokens: %lld, "
             "waiting_served_ratio: %.17g, max_batch_size: %lld",
             (long long)w->prefill_budget, (long long)w->total, (long long)w->patience, w->served_ratio,
             (long long)w->max_batch);
}

/* more: further keys of the pool. Where TGI cannot do what is asked vLLM V1 stands in. */
static void scenario_text(const n_world *w, const char *more, bool async, char *t, size_t n) {
  bool shared = strstr(more, "warm") != NULL, alike = strstr(more, "lru") != NULL; /* prompts that begin alike */
  static const char *const names[] = {"sglang", "trtllm", "tgi", "vllm-v1"};
  int engine = (int)w->engine;
  char opt[640];
  options(w, opt, sizeof opt);
  if (shared && engine == N_TGI) engine = N_TRTLLM + 2;
  if (async && engine == N_TRTLLM) engine = N_TGI;
  if ((engine == N_TGI && (async || strstr(more, "speculative"))) || engine == 3) {
    engine = 3;
    snprintf(opt, sizeof opt, "max_num_seqs: %lld, max_num_batched_tokens: %lld", (long long)w->max_running,
             (long long)w->max_tokens);
  }
  if (async) strcat(opt, engine == 3 ? ", async_scheduling: true" : ", overlap: true");
  size_t k = (size_t)snprintf(
      t, n,
      "scenario: 1\npools:\n  - {name: main, scheduler: %s, kv_blocks: %lld, kv_block_tokens: %lld, prefix_cache: %s%s,\n"
      "     scheduler_options: {%s}}\n"
      "cost: {model: linear, step: %lld us, prefill_token: %lld us, decode_sequence: %lld us, draft_token: 300 us%s}\n"
      "workload:\n  requests:\n",
      names[engine], (long long)w->blocks, (long long)w->block_tokens, shared || alike ? "true" : "false", more, opt, (long long)w->step_ns / 1000,
      (long long)w->prefill_ns / 1000, (long long)w->decode_ns / 1000, async ? ", scheduling_time: 2 ms" : "");
  for (int i = 0; i < w->n; i++) {
    char prefix[48] = "";
    if (shared) snprintf(prefix, sizeof prefix, ", prefix: [p%d, %lld]", i % 3, (long long)n_min(w->r[i].p, 15));
    if (alike) snprintf(prefix, sizeof prefix, ", prefix: [p%d, %lld]", w->r[i].family, (long long)w->r[i].shared);
    k += (size_t)snprintf(
        t + k, n - k, "    - {arrival_ns: %lld, input_tokens: %lld, output_tokens: %lld, max_tokens: %lld%s}\n",
        (long long)w->r[i].arrival, (long long)w->r[i].p, (long long)w->r[i].o, (long long)w->r[i].max, prefix);
  }
}

static const ds_data_dirs here = {{"."}, 1};

/* Runs a scenario from text; NULL with a note when it cannot be. */
static ds_sim *serve(const char *t, ds_sim_options opt, ds_scenario *sc) {
  ds_diag d;
  ds_error err = {DS_OK, -1, ""};
  ds_sim *sim = NULL;
  if (!ds_scenario_parse(t, strlen(t), "case.yaml", "", NULL, 0, &here, sc, &d)) {
    note("%s", d.text);
    return NULL;
  }
  ds_status st = ds_sim_new(&sc->run, sc->sched, sc->route, &opt, &ds_heap, &sim, &err);
  if (st == DS_OK) st = ds_sim_feed(sim, sc->workload.inline_requests, sc->workload.n_inline, &err);
  if (st == DS_OK) ds_sim_close(sim);
  for (bool more = true; st == DS_OK && more;) st = ds_sim_step(sim, 1000000, &more, &err);
  if (st == DS_OK) return sim;
  note("%s", err.text);
  if (sim) ds_sim_free(sim);
  ds_scenario_free(sc);
  return NULL;
}

/* with_free: not where blocks are shared, of which the naive simulation keeps no count. */
static bool same_steps(const n_world *w, ds_sim *sim, uint64_t seed, bool with_free) {
  ds_step s;
  int i = 0;
  for (; ds_sim_next_step(sim, &s); i++) {
    const n_step *e = &w->s[i];
    bool same = i < w->n_steps && s.start_ns == e->from && s.end_ns == e->to && (i64)s.prefill_tokens == e->P &&
                (i64)s.decode_seqs == e->D && (!with_free || s.free_blocks == e->free) && (int)s.n_preempted == e->n_preempted;
    const uint64_t *out = s.lists + 2 * s.n_prefill + s.n_decode;
    for (int k = 0; same && k < e->n_preempted; k++) same = (int)out[k] == e->preempted[k];
    if (same) continue;
    note("seed %llu, iteration %d: %lld..%lld P %lld D %lld free %lld, naive %lld..%lld P %lld D %lld free %lld",
         (unsigned long long)seed, i, (long long)s.start_ns, (long long)s.end_ns, (long long)s.prefill_tokens,
         (long long)s.decode_seqs, (long long)s.free_blocks, (long long)e->from, (long long)e->to, (long long)e->P,
         (long long)e->D, (long long)e->free);
    return false;
  }
  if (i != w->n_steps) note("seed %llu: %d iterations, naive %d", (unsigned long long)seed, i, w->n_steps);
  return i == w->n_steps;
}

static bool same_tokens(const n_world *w, const ds_result *r, uint64_t seed) {
  for (int i = 0; i < w->n; i++) {
    const ds_record *q = &r->records[i];
    i64 t = q->first_token_ns;
    bool same = t == w->r[i].at[0] && q->n_chunks == w->r[i].o - 1 && (int)q->preemptions == w->r[i].preemptions;
    for (int k = 1; same && k < w->r[i].o; k++) same = (t += r->gaps_ns[q->itl_first + (size_t)k - 1]) == w->r[i].at[k];
    if (same && q->finish_ns == t) continue;
    note("seed %llu: request %d has other times or preemptions", (unsigned long long)seed, i);
    return false;
  }
  return true;
}

typedef struct tally { /* by engine */
  i64 cases[3], preempted[3], preemptions[3], cached;
} tally;

static bool like_naive(uint64_t seed, bool alike, tally *all) {
  static n_step steps[N_STEPS + 1];
  static n_world w;
  static char t[16384];
  ds_scenario sc;
  make(&w, seed, steps);
  if (alike) make_alike(&w, seed);
  scenario_text(&w, alike ? ", cache_eviction: lru" : "", false, t, sizeof t);
  if (!n_simulate(&w)) {
    note("seed %llu: the naive simulation is stuck", (unsigned long long)seed);
    return false;
  }
  ds_sim *sim = serve(t, (ds_sim_options){.steps = true, .gaps = true}, &sc);
  if (!sim) {
    note("seed %llu", (unsigned long long)seed);
    return false;
  }
  bool good = same_steps(&w, sim, seed, !alike) && same_tokens(&w, ds_sim_result(sim), seed);
  i64 n = (i64)ds_sim_result(sim)->num_preemptions;
  all->cases[w.engine]++;
  all->preempted[w.engine] += n > 0;
  all->preemptions[w.engine] += n;
  all->cached += (i64)ds_sim_result(sim)->cached_tokens;
  ds_sim_free(sim);
  ds_scenario_free(&sc);
  return good;
}

/* The same world with something beside, once with leases and once without. */
static bool leases_agree(uint64_t seed, const char *more, bool async, uint64_t *leased) {
  static n_step steps[1];
  static n_world w;
  static char t[16384];
  ds_scenario sc[2];
  make(&w, seed, steps);
  if (strstr(more, "speculative")) w.blocks += n_up(16, w.block_tokens); /* for drafts and lookahead */
  scenario_text(&w, more, async, t, sizeof t);
  ds_sim *a = serve(t, (ds_sim_options){.records = true}, &sc[0]);
  if (!a) {
    note("seed %llu", (unsigned long long)seed);
    return false;
  }
  ds_sim *b = serve(t, (ds_sim_options){.records = true, .no_lease = true, .eager = true}, &sc[1]);
  if (!b) return false;
  const ds_result *x = ds_sim_result(a), *y = ds_sim_result(b);
  bool good = x->n == (size_t)w.n && x->completed == x->n;
  i64 tokens = 0;
  for (size_t i = 0; good && i < x->n; i++) {
    const ds_record *p = &x->records[i], *q = &y->records[i];
    i64 blame = 0;
    for (int c = 0; c < DS_CAUSE_N; c++) blame += p->blame_ns[c];
    good = memcmp(p->blame_ns, q->blame_ns, sizeof p->blame_ns) == 0 && p->first_token_ns == q->first_token_ns &&
           p->finish_ns == q->finish_ns && p->max_itl_ns == q->max_itl_ns && p->preemptions == q->preemptions &&
           blame == p->finish_ns - p->arrival_ns;
    tokens += p->output_tokens;
  }
  good = good && (i64)x->output_tokens == tokens && x->itl->count == y->itl->count && x->iterations == y->iterations;
  *leased += x->leased_iterations;
  if (!good) {
    note("seed %llu: not the same with and without leases%s", (unsigned long long)seed, more);
    FILE *f = fopen(at("%llu.yaml", (unsigned long long)seed), "w");
    if (f) fputs(t, f), fclose(f);
  }
  ds_sim_free(a), ds_sim_free(b);
  ds_scenario_free(&sc[0]), ds_scenario_free(&sc[1]);
  return good;
}

int main(int argc, char **argv) {
  harness_begin("engines");
  static const char *const engines[] = {"sglang", "trtllm"};
  tally all = {{0}, {0}, {0}, 0};
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, leased = 0;
  int n = argc > 1 ? argc > 2 ? atoi(argv[2]) : 1 : rounds(6000), bad = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) bad += !like_naive(seed, false, &all);
  tap(bad == 0, "%d of %d cases of sglang, trtllm and tgi go as the naive simulator has them", n - bad, n);
  for (size_t e = 0; e < 2; e++)
    tap(argc > 1 || 10 * all.preempted[e] > all.cases[e], "%s: %lld cases, %lld of them with %lld preemptions", engines[e],
        (long long)all.cases[e], (long long)all.preempted[e], (long long)all.preemptions[e]);
  bad = 0;
  all.cached = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)(argc < 2 ? n / 2 : n); seed++) bad += !like_naive(seed, true, &all);
  tap(bad == 0, "%d of them do with prompts that begin alike, too", (argc < 2 ? n / 2 : n) - bad);
  tap(argc > 1 || all.cached > n, "%lld tokens were found in the cache", (long long)all.cached);
  if (argc < 2) n = n * 2 / 15;
  bad = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) bad += !leases_agree(seed, "", false, &leased);
  tap(bad == 0, "leases change nothing");
  tap(argc > 1 || leased > 10 * (uint64_t)n, "%llu iterations were leased", (unsigned long long)leased);
  static const char *const beside[][2] = {
      {"speculation", ", speculative: {method: ngram, tokens: 3, lookahead: 2, acceptance: 0.6}"},
      {"speculation by batch", ", speculative: {method: ngram, acceptance: [0.9, 0.5, 0.2, 0.8], "
                               "by_batch: [[1, 2, 4], [3, 5, 1]], lookahead: 0}"},
      {"lockstep", ", data_parallel: 3"},
      {"asynchronous scheduling", ""},
      {"shared prefixes", ", initial_cache: warm"}};
  for (size_t k = 0; k < sizeof beside / sizeof beside[0]; k++) {
    bad = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) bad += !leases_agree(seed, beside[k][1], k == 3, &leased);
    tap(bad == 0, "every token once, and blame that adds up, with %s", beside[k][0]);
  }
  return tap_end();
}
