// SPDX-License-Identifier: GPL-3.0-or-later
/* The engine from inside: the same bits in every order of work, failing memory, policies that break rules, requests
 * that can never run, and no allocation once warm. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "core/registry.h"
#include "io/scenario.h"
#include "study/driver.h"

/* ---- an allocator that counts, and fails when told to ---- */

typedef struct ledger {
  size_t bytes, calls;
  size_t fail_at; /* the call that fails; 0 never */
} ledger;

static void *counted(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  ledger *l = opaque;
  if (new_bytes == 0) {
    l->bytes -= old_bytes;
    free(old);
    return NULL;
  }
  if (++l->calls == l->fail_at) return NULL;
  void *p = realloc(old, new_bytes);
  if (p != NULL) l->bytes += new_bytes - old_bytes;
  return p;
}

/* ---- worlds ---- */

static ds_scenario load(const char *pool) {
  char text[1000];
  snprintf(text, sizeof text,
           "scenario: 1\ncost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}\npools:\n  - {name: main, %s}\n"
           "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}\n", pool);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  bool ok = ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d);
  cr_assert(ok, "%s", d.text);
  return sc;
}

static ds_request *random_requests(uint64_t seed, size_t n, double gap_ns, uint32_t in, uint32_t out) {
  ds_rng g = ds_rng_stream(seed, DS_PURPOSE_ORDER, 0);
  ds_request *r = calloc(n, sizeof *r);
  int64_t t = 0;
  for (size_t i = 0; i < n; i++) {
    if (ds_rng_below(&g, 4) != 0) t += (int64_t)(ds_rng_unit(&g) * 2.0 * gap_ns);
    uint32_t o = 1 + (uint32_t)ds_rng_below(&g, out);
    r[i] = (ds_request){.arrival_ns = t, .input_tokens = 1 + (uint32_t)ds_rng_below(&g, in), .output_tokens = o, .max_tokens = o};
  }
  return r;
}

typedef struct run_out {
  ds_status status;
  ds_error err;
  uint64_t hash, completed, preemptions;
} run_out;

static void mix(uint64_t *h, const void *p, size_t n) {
  for (const unsigned char *c = p; n > 0; n--, c++) *h = (*h ^ *c) * 1099511628211ull;
}

/* Everything that a report could show, as one number. */
static uint64_t hash_of(const ds_result *r) {
  uint64_t h = 1469598103934665603ull;
  mix(&h, r->ttft_ns, r->n * sizeof *r->ttft_ns);
  mix(&h, r->e2e_ns, r->n * sizeof *r->e2e_ns);
  mix(&h, r->queue_ns, r->n * sizeof *r->queue_ns);
  mix(&h, r->blame_ns, sizeof r->blame_ns);
  mix(&h, r->itl->bucket, DS_GAPS_BUCKETS * sizeof *r->itl->bucket);
  mix(&h, &r->itl->sum_sq, sizeof r->itl->sum_sq);
  for (int64_t s = 0; s <= r->seconds->last; s++) {
    ds_second x = ds_seconds_get(r->seconds, s);
    mix(&h, &x, sizeof x);
  }
  for (size_t i = 0; i < r->n_replicas; i++) {
    const ds_replica_totals *t = &r->replicas[i];
    mix(&h, &t->batch_ns, sizeof t->batch_ns);
    mix(&h, &t->kv_block_ns, sizeof t->kv_block_ns);
    mix(&h, &t->kv_peak_blocks, sizeof t->kv_peak_blocks);
    mix(&h, &t->busy_ns, sizeof t->busy_ns);
    mix(&h, t->part_ns, sizeof t->part_ns);
    mix(&h, &t->bytes, sizeof t->bytes);
  }
  for (size_t i = 0; r->records != NULL && i < r->n; i++) {
    mix(&h, r->records[i].blame_ns, sizeof r->records[i].blame_ns);
    mix(&h, &r->records[i].max_itl_ns, sizeof r->records[i].max_itl_ns);
  }
  return h;
}

static run_out run(const ds_scenario *sc, const ds_sched_ops *sched, const char *router, ds_sim_options opt, const ds_request *r,
                   size_t n, size_t chunk, uint64_t events, const ds_alloc *a) {
  run_out out = {0};
  ds_sim *s = NULL;
  bool more = true;
  out.status = ds_sim_new(&sc->run, sched, ds_router_find(router), &opt, a, &s, &out.err);
  for (size_t i = 0; out.status == DS_OK && i < n; i += chunk) {
    out.status = ds_sim_feed(s, r + i, n - i < chunk ? n - i : chunk, &out.err);
    for (more = true; out.status == DS_OK && more;) out.status = ds_sim_step(s, events, &more, &out.err);
  }
  if (out.status == DS_OK) ds_sim_close(s);
  for (more = true; out.status == DS_OK && more;) out.status = ds_sim_step(s, events, &more, &out.err);
  if (out.status == DS_OK) {
    const ds_result *res = ds_sim_result(s);
    out.hash = hash_of(res);
    out.completed = res->completed;
    out.preemptions = res->num_preemptions;
  }
  ds_sim_free(s);
  return out;
}

static const char *const pools[] = {
    "scheduler: vllm-v1, replicas: 3, kv_blocks: 24, kv_block_tokens: 4, scheduler_options: {max_num_seqs: 6, max_num_batched_tokens: 16}",
    "scheduler: vllm-v1, replicas: 5, kv_blocks: 300, kv_block_tokens: 16, prefix_cache: false, scheduler_options: {max_num_seqs: 64, max_num_batched_tokens: 64}",
    "scheduler: vllm-v1, replicas: 2, kv_blocks: 30, kv_block_tokens: 4, scheduler_options: {max_num_seqs: 40, max_num_batched_tokens: 5, full_sequence_must_fit: false}",
    "scheduler: vllm-v1, replicas: 1, kv_blocks: 40, kv_block_tokens: 3, scheduler_options: {max_num_seqs: 9, max_num_batched_tokens: 33, long_prefill_token_threshold: 7, watermark_blocks: 3}",
    "scheduler: static, replicas: 4, kv_blocks: 60, kv_block_tokens: 4, scheduler_options: {max_batch_size: 3, max_queue_delay: 40 ms}",
    "scheduler: static, replicas: 2, scheduler_options: {max_batch_size: 8, emit: batch-end, hold_finished_slots: false, pad: true}"};

Test(engine, the_order_of_work_changes_no_bit) {
  ledger l = {0};
  ds_alloc a = {counted, &l};
  uint64_t preemptions = 0;
  for (size_t w = 0; w < DS_ARRAY_LEN(pools); w++) {
    ds_scenario sc = load(pools[w]);
    for (uint64_t seed = 0; seed < 25; seed++) {
      size_t n = 120;
      ds_request *r = random_requests(seed, n, seed % 2 ? 6e6 : 60e6, 30, seed % 5 == 4 ? 60 : 25);
      if (w == 1 && seed % 5 == 0) r[3].output_tokens = r[3].max_tokens = 1500; /* beyond the finish wheel */
      for (int router = 0; router < 2; router++) {
        const char *name = router == 0 ? "round-robin" : "least-outstanding";
        ds_sim_options o = {.records = true}, eager = {.records = true, .eager = true}, single = {.records = true, .no_lease = true},
                       both = {.records = true, .no_lease = true, .eager = true};
        run_out x = run(&sc, sc.sched, name, o, r, n, n, UINT64_MAX, &a);
        cr_assert(x.status == DS_OK && x.completed == n, "pool %zu seed %d: %s", w, (int)seed, x.err.text);
        preemptions += x.preemptions;
        cr_assert_eq(x.hash, run(&sc, sc.sched, name, eager, r, n, 7, 50, &a).hash, "eager: pool %zu seed %d %s", w, (int)seed, name);
        cr_assert_eq(x.hash, run(&sc, sc.sched, name, single, r, n, 1, 3, &a).hash, "single: pool %zu seed %d %s", w, (int)seed, name);
        cr_assert_eq(x.hash, run(&sc, sc.sched, name, both, r, n, 64, 1000, &a).hash, "both: pool %zu seed %d %s", w, (int)seed, name);
      }
      free(r);
    }
    ds_scenario_free(&sc);
  }
  cr_assert(preemptions > 1000, "only %d preemptions: the worlds are too roomy", (int)preemptions);
  cr_assert_eq(l.bytes, 0, "%zu bytes leaked", l.bytes);
}

/* Prompts pass one after the other through the one thread that tokenises, then through the rest of the front end. */
Test(engine, a_front_end_tokenises_one_prompt_at_a_time) {
  char text[] = "scenario: 1\nmodel: llama-3.1-8b\npools:\n  - {name: main, hardware: h100-sxm, engine: vllm-2025, replicas: 2}\n"
                "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}\n";
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
  sc.run.pool.engine.tokenise_s = 1e-6;
  sc.run.pool.engine.api_per_request_s = 2e-3;
  sc.run.pool.engine.api_per_token_s = 5e-6;
  /* Round robin: the first, third and last at one replica, the others each behind nobody. */
  const int64_t arrival[] = {0, 0, 1000000, 9000000, 9000000};
  const uint32_t input[] = {4000, 1500, 3000, 100, 2000};
  const int64_t api[] = {4000000, 1500000, 6000000, 100000, 2000000};
  ds_request r[5];
  for (int i = 0; i < 5; i++) r[i] = (ds_request){.arrival_ns = arrival[i], .input_tokens = input[i], .output_tokens = 3, .max_tokens = 3};
  for (int plain = 0; plain < 2; plain++) {
    ds_sim_options o = {.records = true, .no_lease = plain == 1};
    ds_sim *s;
    ds_error err = {0};
    bool more = true;
    cr_assert_eq(ds_sim_new(&sc.run, sc.sched, ds_router_find("round-robin"), &o, &ds_heap, &s, &err), DS_OK, "%s", err.text);
    cr_assert_eq(ds_sim_feed(s, r, 5, &err), DS_OK, "%s", err.text);
    ds_sim_close(s);
    while (more) cr_assert_eq(ds_sim_step(s, UINT64_MAX, &more, &err), DS_OK, "%s", err.text);
    const ds_result *res = ds_sim_result(s);
    cr_assert_eq(res->completed, 5);
    for (int i = 0; i < 5; i++) {
      int64_t sum = 0;
      for (int c = 0; c < DS_CAUSE_N; c++) sum += res->records[i].blame_ns[c];
      cr_assert_eq(res->records[i].blame_ns[DS_CAUSE_API], api[i] + 2000000 + 5000, "request %d", i);
      cr_assert_geq(res->records[i].scheduled_ns, arrival[i] + api[i] + 2000000, "request %d", i);
      cr_assert_eq(sum, res->records[i].finish_ns - arrival[i], "request %d", i);
    }
    ds_sim_free(s);
  }
  ds_scenario_free(&sc);
}

Test(engine, memory_that_runs_out_is_an_error_and_leaks_nothing) {
  ds_scenario sc = load(pools[0]);
  ds_request *r = random_requests(1, 60, 10e6, 30, 25);
  ds_sim_options o = {.records = true, .gaps = true};
  bool finished = false;
  size_t failures = 0;
  for (size_t k = 1; !finished; k++) {
    ledger l = {.fail_at = k};
    ds_alloc a = {counted, &l};
    run_out x = run(&sc, sc.sched, "least-outstanding", o, r, 60, 13, 40, &a);
    cr_assert_eq(l.bytes, 0, "call %zu failing leaks %zu bytes", k, l.bytes);
    finished = l.calls < k;
    if (!finished) {
      cr_assert(x.status == DS_E_NOMEM, "call %zu failing gives status %d: %s", k, x.status, x.err.text);
      failures++;
    }
  }
  cr_assert(failures > 40);
  free(r);
  ds_scenario_free(&sc);
}

Test(engine, allocates_nothing_once_warm) {
  ds_scenario sc = load("scheduler: vllm-v1, replicas: 2, kv_blocks: 80, kv_block_tokens: 16, scheduler_options: {max_num_seqs: 16, max_num_batched_tokens: 64}");
  ledger l = {0};
  ds_alloc a = {counted, &l};
  size_t n = 6000, half = n / 2;
  ds_request *r = random_requests(3, n, 400e6, 60, 40);
  ds_sim *s = NULL;
  ds_error err = {0};
  ds_sim_options o = {0};
  bool more = true;
  cr_assert(ds_sim_new(&sc.run, sc.sched, ds_router_find("least-outstanding"), &o, &a, &s, &err) == DS_OK);
  cr_assert(ds_sim_feed(s, r, half, &err) == DS_OK);
  while (more) cr_assert(ds_sim_step(s, 1000, &more, &err) == DS_OK);
  cr_assert(ds_sim_feed(s, r + half, half, &err) == DS_OK);
  size_t calls = l.calls;
  for (more = true; more;) cr_assert(ds_sim_step(s, 1000, &more, &err) == DS_OK);
  /* What may grow with the length of the run: a page of counters per 1024 s, and the list of exact gaps, doubling. */
  size_t pages = (size_t)((r[n - 1].arrival_ns - r[half].arrival_ns) / DS_NS_PER_S / DS_SECONDS_PAGE) + 2;
  cr_assert_leq(l.calls - calls, pages + 4, "%zu allocations in the second half", l.calls - calls);
  ds_sim_free(s);
  free(r);
  ds_scenario_free(&sc);
}

/* ---- closed loops ---- */

static ds_sim *closed(const ds_scenario *sc, ds_sim_options o, const ds_request *r, size_t n, uint64_t events, const ds_alloc *a) {
  ds_sim *s = NULL;
  ds_error err = {0};
  bool more = true;
  o.closed_loop = true;
  cr_assert(ds_sim_new(&sc->run, sc->sched, ds_router_find("least-outstanding"), &o, a, &s, &err) == DS_OK);
  cr_assert(ds_sim_feed(s, r, n, &err) == DS_OK, "%s", err.text);
  ds_sim_close(s);
  while (more) cr_assert(ds_sim_step(s, events, &more, &err) == DS_OK, "%s", err.text);
  return s;
}

Test(closed_loop, one_at_a_time_is_a_chain) {
  ds_scenario sc = load("scheduler: vllm-v1, kv_blocks: 200");
  ledger l = {0};
  ds_alloc a = {counted, &l};
  ds_request r[40];
  for (size_t i = 0; i < 40; i++) r[i] = (ds_request){.input_tokens = 10, .output_tokens = 5, .max_tokens = 5, .think_ns = i == 7 ? 3000000 : 0};
  ds_sim *s = closed(&sc, (ds_sim_options){.concurrency = 1}, r, 40, 1000, &a);
  const ds_result *res = ds_sim_result(s);
  /* 10 ms + 1 ms of prompt, then four times 10 + 1 ms */
  for (size_t i = 0; i < 40; i++) {
    cr_assert_eq(res->e2e_ns[i], 55000000);
    cr_assert_eq(res->arrival_ns[i], (int64_t)i * 55000000 + (i >= 7 ? 3000000 : 0));
  }
  ds_sim_free(s);
  cr_assert_eq(l.bytes, 0);
  ds_scenario_free(&sc);
}

Test(closed_loop, followers_wait_for_their_predecessor_and_think) {
  ds_scenario sc = load("scheduler: vllm-v1, kv_blocks: 200, replicas: 3");
  ledger l = {0};
  ds_alloc a = {counted, &l};
  ds_request r[90];
  ds_rng g = ds_rng_stream(5, DS_PURPOSE_ORDER, 0);
  for (size_t i = 0; i < 90; i++) {
    r[i] = (ds_request){.arrival_ns = i < 30 ? (int64_t)i * 20000000 : 0, .input_tokens = 1 + (uint32_t)ds_rng_below(&g, 50),
                        .output_tokens = 1 + (uint32_t)ds_rng_below(&g, 30), .think_ns = (int64_t)ds_rng_below(&g, 50) * 1000000,
                        .after = i < 30 ? 0 : i - 30 + 1};
    r[i].max_tokens = r[i].output_tokens;
  }
  ds_sim *s = closed(&sc, (ds_sim_options){0}, r, 90, 1000, &a);
  const ds_result *res = ds_sim_result(s);
  for (size_t i = 0; i < 90; i++) {
    int64_t want = i < 30 ? r[i].arrival_ns : res->arrival_ns[i - 30] + res->e2e_ns[i - 30] + r[i].think_ns;
    cr_assert_eq(res->arrival_ns[i], want, "request %zu", i);
  }
  ds_sim_free(s);
  ds_scenario_free(&sc);
}

Test(closed_loop, the_order_of_work_changes_no_bit_and_the_cap_holds) {
  ledger l = {0};
  ds_alloc a = {counted, &l};
  for (size_t w = 0; w < DS_ARRAY_LEN(pools); w++) {
    ds_scenario sc = load(pools[w]);
    for (uint64_t seed = 0; seed < 8; seed++) {
      size_t n = 150;
      ds_request *r = random_requests(seed, n, 0, 30, 25);
      for (size_t i = 0; i < n; i++) r[i].think_ns = seed % 2 == 0 ? 0 : (int64_t)(i % 7) * 2000000;
      ds_sim *x = closed(&sc, (ds_sim_options){.records = true, .concurrency = 9}, r, n, UINT64_MAX, &a);
      ds_sim *y = closed(&sc, (ds_sim_options){.records = true, .concurrency = 9, .no_lease = true}, r, n, 3, &a);
      const ds_result *p = ds_sim_result(x), *q = ds_sim_result(y);
      cr_assert_eq(hash_of(p), hash_of(q), "pool %zu seed %d", w, (int)seed);
      for (size_t i = 0; i < n; i++) { /* at no arrival are more than nine in flight */
        size_t in_flight = 0;
        for (size_t k = 0; k < n; k++) {
          in_flight += p->arrival_ns[k] <= p->arrival_ns[i] && p->arrival_ns[k] + p->e2e_ns[k] > p->arrival_ns[i];
        }
        cr_assert_leq(in_flight, 9);
        cr_assert(seed % 2 != 0 || i < 9 || i > n - 9 || in_flight == 9, "pool %zu seed %d request %zu: %zu in flight", w, (int)seed, i, in_flight);
      }
      ds_sim_free(x);
      ds_sim_free(y);
      free(r);
    }
    ds_scenario_free(&sc);
  }
  cr_assert_eq(l.bytes, 0);
}

/* ---- policies that break rules ---- */

static int mischief;

static ds_status bad_plan(void *state, const ds_sched_view *v, ds_plan *out) {
  (void)state;
  uint32_t slot = v->queue_head != DS_SLOT_NONE ? v->queue_head : v->running_head;
  out->decode_all = true;
  ds_grant g = {.slot = slot, .tokens = 1};
  if (v->n_running > 0 && mischief < 6) mischief = -1;
  switch (mischief) {
  case 0: g.slot = 1000000; break;
  case 1: g.tokens = 0; break;
  case 2: g.tokens = 100000; break;
  case 3: out->grants[out->n_grants++] = g; break; /* twice */
  case 4: g.cached_tokens = 16; break;
  case 5: g.reserve_tokens = 1 << 30; break;
  case 6: /* leaves running requests without work */
    if (v->n_running > 0) {
      out->decode_all = false;
      return DS_OK;
    }
    g.tokens = v->req[slot].prompt_tokens;
    break;
  case 7: /* preempts who is not running */
    out->preempt[out->n_preempt++] = slot;
    return DS_OK;
  case 8: /* decodes who is not decoding */
    out->decode_all = false;
    out->decode[out->n_decode++] = slot;
    return DS_OK;
  case 9: /* admits nobody, for ever */ return DS_OK;
  case 10: /* leaves somebody out of the running list */
  case 11: /* has somebody in it who does not run */
    out->order[out->n_order++] = slot + (uint32_t)(mischief == 11);
    if (mischief == 10) out->order[out->n_order++] = slot;
    g.tokens = v->req[slot].prompt_tokens;
    break;
  default: return DS_E_RANGE;
  }
  out->grants[out->n_grants++] = g;
  return DS_OK;
}

Test(engine, a_policy_that_breaks_a_rule_is_named_with_the_rule) {
  static const ds_sched_ops bad = {.name = "bad", .plan = bad_plan, .reorders = true};
  static const char *const rule[] = {"does not exist", "no tokens", "more than are left", "the same request twice", "cached tokens",
                                     "KV blocks than are free", "without work", "preempts a request that is not running",
                                     "not decoding", "waits for ever", "more or fewer requests", "does not run, or twice"};
  ds_scenario sc = load(pools[0]);
  ds_request r = {.arrival_ns = 0, .input_tokens = 20, .output_tokens = 3, .max_tokens = 3};
  for (int m = 0; m < (int)DS_ARRAY_LEN(rule); m++) {
    ledger l = {0};
    ds_alloc a = {counted, &l};
    ds_sim_options o = {0};
    mischief = m;
    run_out x = run(&sc, &bad, "round-robin", o, &r, 1, 1, 1000, &a);
    cr_assert(x.status == (m == 9 ? DS_E_STUCK : DS_E_POLICY), "mischief %d: status %d %s", m, x.status, x.err.text);
    cr_assert(strstr(x.err.text, rule[m]) != NULL && strstr(x.err.text, "bad") != NULL, "mischief %d: %s", m, x.err.text);
    cr_assert_eq(l.bytes, 0);
  }
  ds_scenario_free(&sc);
}

/* ---- requests that can never run ---- */

Test(engine, requests_that_can_never_run_are_refused_by_index) {
  static const struct {
    const char *pool;
    uint32_t in, out;
    const char *text;
  } c[] = {
      {"scheduler: vllm-v1, kv_blocks: 4, kv_block_tokens: 4", 16, 2, "needs 5 KV blocks, more than the whole pool of 4"},
      {"scheduler: vllm-v1, kv_blocks: 99, kv_block_tokens: 4, max_model_len: 30", 20, 11, "31 tokens (input and output) exceeds max_model_len 30"},
      {"scheduler: vllm-v1, kv_blocks: 99, scheduler_options: {max_num_batched_tokens: 16, enable_chunked_prefill: false}", 10, 8,
       "exceeds max_num_batched_tokens 16"},
      {"scheduler: static, kv_blocks: 4, kv_block_tokens: 4", 12, 5, "reserves 5 KV blocks"},
      {"scheduler: vllm-v1, kv_blocks: 99", 2147483000, 2147483000, "beyond the limit"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(c); i++) {
    ds_scenario sc = load(c[i].pool);
    ledger l = {0};
    ds_alloc a = {counted, &l};
    ds_request r[2] = {{.input_tokens = 2, .output_tokens = 2, .max_tokens = 2},
                       {.arrival_ns = 5, .input_tokens = c[i].in, .output_tokens = c[i].out, .max_tokens = c[i].out}};
    ds_sim_options o = {0};
    run_out x = run(&sc, sc.sched, "round-robin", o, r, 2, 2, 1000, &a);
    cr_assert(x.status == DS_E_INPUT && x.err.request == 1, "case %zu: %d %s", i, x.status, x.err.text);
    cr_assert(strstr(x.err.text, c[i].text) != NULL, "case %zu: %s", i, x.err.text);
    cr_assert_eq(l.bytes, 0);
    ds_scenario_free(&sc);
  }
}
