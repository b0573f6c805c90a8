// SPDX-License-Identifier: GPL-3.0-or-later
/* What every scheduler must keep, run on each that the registry lists, with options from its own table: defaults, all at
 * their least, all at their most, and at random. No policy is named here.
 *
 * Tokens are conserved and causes add up to latencies; seats, budget and KV are never exceeded; all blocks come back; every
 * run drains or says who starves; the same input gives the same bytes, with and without leases, eager or not, and whatever
 * tenants are called; an empty queue, a single request and a queue where nobody fits are all right; and what happens before the
 * first finish does not depend on true output lengths, unless the policy declares an oracle. */
#include "harness.h"

#include "core/registry.h"
#include "engine/replica.h"
#include "io/scenario.h"

#define MOST 64

typedef struct world {
  ds_run run;
  const ds_sched_ops *ops;
  ds_request r[MOST];
  size_t n;
  const char *router; /* NULL: round-robin */
} world;

static void *plain(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque, (void)old_bytes;
  if (new_bytes > 0) return realloc(old, new_bytes);
  free(old);
  return NULL;
}
static const ds_alloc heap = {plain, NULL};

/* --- options from the table --- */

enum { DEFAULTS, LEAST, MOST_OF_ALL, RANDOM, KINDS };
static const char *const kind_name[KINDS] = {"defaults", "least", "most", "random"};

static double option_value(const ds_param *p, int kind, uint64_t *s) {
  double low = p->min, high = p->max;
  if (p->type == DS_PARAM_BOOL) low = 0, high = 1;
  if (p->type == DS_PARAM_CHOICE) {
    low = high = 0;
    while (p->choices[(int)high + 1] != NULL) high++;
  }
  if (kind == DEFAULTS) return p->preset;
  if (kind == LEAST) return low;
  if (kind == MOST_OF_ALL) return high;
  if (chance(s, 25)) return p->preset;
  double near = high > low + 64 ? low + 64 : high; /* worlds are small: so are interesting values */
  if (p->type == DS_PARAM_FRAC) return low + (near - low) * uniform(s);
  if (p->type == DS_PARAM_TIME) near = high > 1e8 ? 1e8 : high;
  else if (p->type == DS_PARAM_INT && near > low + 4 && chance(s, 30)) near = low + 4;
  return low + (double)between(s, 0, (i64)(near - low));
}

static void set_options(world *w, int kind, uint64_t *s) {
  unsigned char *config = w->run.pool.scheduler_config.bytes;
  memset(config, 0, sizeof w->run.pool.scheduler_config);
  for (size_t i = 0; i < w->ops->n_params; i++) {
    const ds_param *p = &w->ops->params[i];
    double x = option_value(p, kind, s);
    int64_t whole = (int64_t)x;
    bool yes = x != 0;
    ds_int_list list = {.n = kind == RANDOM ? between(s, 0, 3) : 0};
    for (i64 k = 0; k < list.n; k++) list.v[k] = between(s, (i64)p->min, (i64)p->min + 6);
    if (p->type == DS_PARAM_BOOL) memcpy(config + p->offset, &yes, sizeof yes);
    else if (p->type == DS_PARAM_FRAC) memcpy(config + p->offset, &x, sizeof x);
    else if (p->type == DS_PARAM_INTS) memcpy(config + p->offset, &list, sizeof list);
    else memcpy(config + p->offset, &whole, sizeof whole);
  }
  ds_pool *pool = &w->run.pool;
  pool->max_num_seqs = w->ops->max_seqs ? w->ops->max_seqs(config) : 0;
  pool->max_num_batched_tokens = w->ops->max_batch_tokens ? w->ops->max_batch_tokens(config) : 0;
}

/* --- worlds --- */

static ds_scenario base, priced; /* with linear cost, and with that of a model on a part */

static void load_base(const char *start, const char *pool, ds_scenario *out) {
  char text[600];
  snprintf(text, sizeof text,
           "{scenario: 1, %s, pools: [{scheduler: static, kv_blocks: 10%s}], "
           "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}}",
           start, pool);
  ds_data_dirs dirs = {{"."}, 1};
  ds_diag d = {0};
  if (!ds_scenario_parse(text, strlen(text), "conformance", ".", NULL, 0, &dirs, out, &d)) bail("%s", d.text);
}

/* Whether this request could run alone: asked of the policy itself. */
static bool accepted(const world *w, const ds_request *q) {
  ds_error err = {0};
  const ds_pool *p = &w->run.pool;
  int64_t tokens = (int64_t)q->input_tokens + q->output_tokens;
  if (p->max_model_len > 0 && tokens > p->max_model_len) return false;
  if ((tokens - 1 + p->kv_block_tokens - 1) / p->kv_block_tokens > p->kv_blocks) return false;
  if (w->ops->accepts == NULL) return true;
  ds_status st = w->ops->accepts(p->scheduler_config.bytes, p, p->kv_blocks, q->input_tokens, q->output_tokens,
                                 q->max_tokens, &err);
  if (st != DS_OK && err.text[0] == 0) bail("%s refuses a request without a word", w->ops->name);
  return st == DS_OK;
}

static void make_requests(world *w, uint64_t *s, size_t n, bool at_once) {
  int64_t t = 0;
  for (size_t i = 0; i < n; i++) {
    ds_request q = {.arrival_ns = t};
    q.input_tokens = (uint32_t)(chance(s, 70) ? between(s, 1, 16) : between(s, 1, 90));
    q.output_tokens = (uint32_t)(chance(s, 15) ? 1 : between(s, 1, chance(s, 70) ? 10 : 40));
    q.max_tokens = q.output_tokens + (uint32_t)(chance(s, 50) ? between(s, 0, 12) : 0);
    q.priority = (int32_t)between(s, -2, 2);
    q.tenant = (uint32_t)between(s, 0, 4);
    if (accepted(w, &q)) w->r[w->n++] = q;
    if (at_once || !chance(s, 70)) continue;
    int64_t unit = chance(s, 50) ? 1000000 : 999983; /* drawn by itself: compilers differ in what of a product comes first */
    t += between(s, 0, 40) * unit;
  }
}

static void make_world(world *w, const ds_sched_ops *ops, int kind, uint64_t *s) {
  *w = (world){.run = chance(s, 70) ? base.run : priced.run, .ops = ops};
  snprintf(w->run.pool.scheduler, sizeof w->run.pool.scheduler, "%s", ops->name);
  w->run.pool.kv_blocks = chance(s, 70) ? between(s, 4, 40) : between(s, 100, 400);
  w->run.pool.kv_block_tokens = between(s, 1, 16);
  w->run.pool.prefix_cache = chance(s, 50);
  w->run.pool.replicas = chance(s, 75) ? 1 : 2;
  w->run.pool.max_model_len = chance(s, 30) ? between(s, 8, 64) : 0;
  set_options(w, kind, s);
}

/* --- running --- */

typedef struct outcome {
  ds_status status;
  ds_error err;
  bool refused; /* the options do not go together */
  ds_record record[MOST];
  uint64_t step[65536]; /* header and lists of every iteration, one after the other */
  size_t n_step, step_at[8192], n_steps;
  uint64_t completed, output_tokens, input_tokens, preemptions;
  ds_wide batch_ns, kv_block_ns;
  uint64_t timed_out, turned_away, vain, retries, partial;
  bool whole; /* nothing was left behind */
  bool odd;   /* the gaps of an answer are not the time that it took */
} outcome;

static void take_steps(ds_sim *sim, outcome *o) {
  ds_step st;
  while (ds_sim_next_step(sim, &st)) {
    size_t n = 2u * st.n_prefill + st.n_decode + st.n_preempted;
    if (o->n_step + n + 9 > 65536 || o->n_steps == 8192) continue;
    o->step_at[o->n_steps++] = o->n_step;
    const uint64_t head[9] = {(uint64_t)st.start_ns, (uint64_t)st.end_ns, st.replica, st.prefill_tokens, st.decode_seqs,
                              st.n_prefill, st.n_decode, st.n_preempted, (uint64_t)st.free_blocks};
    memcpy(o->step + o->n_step, head, sizeof head);
    memcpy(o->step + o->n_step + 9, st.lists, n * sizeof *st.lists);
    o->n_step += n + 9;
  }
}

static bool nothing_left(const ds_sim *sim) {
  for (size_t i = 0; i < sim->n_replicas; i++) {
    const ds_replica *r = &sim->replica[i];
    if (r->kv.free_blocks != r->kv.total_blocks || r->v.host_free_blocks != sim->host_blocks) return false;
    if (r->v.n_queue + r->v.n_running + r->v.n_swapped + r->v.n_held + r->v.n_prefilling + r->v.n_decoding > 0) return false;
  }
  return true;
}

/* From its first token to its last, through one gap for each of the others. */
static bool gaps_odd(const ds_result *r, const ds_record *q) {
  int64_t t = q->first_token_ns;
  if (r->gaps_ns == NULL || q->failed || q->n_chunks == 0) return false;
  for (uint64_t k = 0; k < q->n_chunks; k++) t += r->gaps_ns[q->itl_first + k];
  return t != q->finish_ns || q->n_chunks != q->output_tokens - 1;
}

static void take_result(ds_sim *sim, outcome *o, size_t n) {
  const ds_result *r = ds_sim_result(sim);
  if (r->records != NULL) memcpy(o->record, r->records, n * sizeof *o->record);
  for (size_t i = 0; i < n; i++) {
    o->odd |= gaps_odd(r, &o->record[i]);
    o->record[i].itl_first = o->record[i].n_chunks = 0; /* of a run that keeps gaps only */
  }
  o->completed = r->completed, o->preemptions = r->num_preemptions;
  o->output_tokens = r->output_tokens, o->input_tokens = r->input_tokens;
  o->timed_out = r->timed_out, o->turned_away = r->turned_away, o->vain = r->vain_attempts, o->retries = r->retries, o->partial = r->partial_output_tokens;
  for (size_t i = 0; i < r->n_replicas; i++) {
    ds_wide_add_wide(&o->batch_ns, r->replicas[i].batch_ns);
    ds_wide_add_wide(&o->kv_block_ns, r->replicas[i].kv_block_ns);
  }
  o->whole = nothing_left(sim);
}

static void run_world(const world *w, ds_sim_options opt, outcome *o) {
  ds_sim *sim = NULL;
  bool more = true;
  memset(o, 0, sizeof *o);
  opt.records = true;
  o->status = ds_sim_new(&w->run, w->ops, ds_router_find(w->router != NULL ? w->router : "round-robin"), &opt, &heap, &sim, &o->err);
  o->refused = o->status == DS_E_INPUT;
  if (o->status == DS_OK && w->n > 0) o->status = ds_sim_feed(sim, w->r, w->n, &o->err);
  if (o->status == DS_OK) ds_sim_close(sim);
  for (int i = 0; o->status == DS_OK && more; i++) {
    o->status = ds_sim_step(sim, 2000, &more, &o->err);
    take_steps(sim, o);
    if (i == 100) bail("%s: 200000 iterations for %zu requests", w->ops->name, w->n);
  }
  if (o->status == DS_OK) take_result(sim, o, w->n);
  ds_sim_free(sim);
}

/* --- rules --- */

static bool good;
#define RULE(what, ...)                                                                                                \
  do {                                                                                                                 \
    if (!(what)) note(__VA_ARGS__), good = false;                                                                      \
  } while (0)

static void check_conserved(const world *w, const outcome *o) {
  uint64_t out = 0, in = 0, away = 0;
  for (size_t i = 0; i < w->n; i++) {
    const ds_record *r = &o->record[i];
    int64_t sum = 0;
    away += r->failed == DS_FAILED_TURNED_AWAY;
    if (r->failed) continue;
    out += w->r[i].output_tokens, in += w->r[i].input_tokens;
    for (int c = 0; c < DS_CAUSE_N; c++) sum += r->blame_ns[c];
    RULE(sum == r->finish_ns - r->arrival_ns, "request %zu: causes sum to %lld of %lld ns", i, (long long)sum,
         (long long)(r->finish_ns - r->arrival_ns));
    RULE(r->first_token_ns <= r->finish_ns && r->scheduled_ns >= r->arrival_ns, "request %zu: times out of order", i);
  }
  RULE(away == 0 || w->ops->turns_away(w->run.pool.scheduler_config.bytes), "requests are turned away by who does not");
  RULE(away == o->turned_away && o->vain == away, "%llu turned away, %llu counted", (unsigned long long)away,
       (unsigned long long)o->turned_away);
  RULE(o->completed + away == w->n && o->output_tokens == out && o->input_tokens == in, "tokens or requests were lost");
  RULE(o->whole, "blocks or requests are left behind");
}

/* With clients that give up: everybody is accounted for, and nothing is left behind. */
static void check_patience_sums(const world *w, const outcome *o) {
  uint64_t late = 0, away = 0;
  for (size_t i = 0; i < w->n; i++) {
    const ds_record *r = &o->record[i];
    int64_t sum = 0, limit = w->run.patience.timeout_ns;
    late += r->failed == DS_FAILED_TIMEOUT, away += r->failed == DS_FAILED_TURNED_AWAY;
    for (int c = 0; c < DS_CAUSE_N; c++) sum += r->blame_ns[c];
    if (r->failed) continue;
    int64_t took = r->finish_ns - r->arrival_ns;
    RULE(sum == took, "request %zu: causes sum to %lld of %lld ns", i, (long long)sum, (long long)took);
    RULE(limit == 0 || took - r->blame_ns[DS_CAUSE_RETRY] <= limit, "request %zu: an attempt of %lld ns is good", i,
         (long long)(took - r->blame_ns[DS_CAUSE_RETRY]));
  }
  RULE(late == o->timed_out && away == o->turned_away && o->completed + late + away == w->n,
       "%llu completed, %llu given up and %llu turned away of %zu", (unsigned long long)o->completed, (unsigned long long)late,
       (unsigned long long)away, w->n);
  RULE(o->vain == o->timed_out + o->turned_away + o->retries, "attempts in vain do not add up");
  RULE(o->whole, "blocks or requests are left behind by clients that gave up");
}

static void check_steps(const world *w, const outcome *o) {
  int64_t seats = w->run.pool.max_num_seqs, budget = w->run.pool.max_num_batched_tokens;
  int64_t done[2] = {0, 0}, block = w->run.pool.kv_block_tokens;
  if (budget > 0) budget = (budget + block - 1) / block * block;
  for (size_t i = 0; i < o->n_steps; i++) {
    const uint64_t *h = o->step + o->step_at[i];
    int64_t unused = (int64_t)h[8];
    RULE((int64_t)h[0] >= done[h[2]] && h[1] >= h[0], "iteration %zu overlaps the one before", i);
    done[h[2]] = (int64_t)h[1];
    RULE(seats == 0 || (int64_t)(h[5] + h[6]) <= seats, "iteration %zu: %llu rows, %lld seats", i,
         (unsigned long long)(h[5] + h[6]), (long long)seats);
    /* Some engines look at what is left of the budget, and then take a whole prompt: the last one may exceed it. Some
     * count in whole blocks. */
    int64_t last = h[5] > 0 ? (int64_t)h[9 + 2 * h[5] - 1] : 0;
    RULE(budget == 0 || (int64_t)h[3] <= budget || (int64_t)h[3] - last < budget,
         "iteration %zu: more prompt tokens than the budget", i);
    RULE(unused >= 0 && unused <= w->run.pool.kv_blocks, "iteration %zu: %lld free blocks", i, (long long)unused);
    RULE(h[3] + h[4] > 0, "iteration %zu does nothing", i);
  }
}

static bool same_outcome(const outcome *a, const outcome *b, size_t n) {
  return a->status == b->status && !memcmp(a->record, b->record, n * sizeof *a->record) &&
         !memcmp(&a->batch_ns, &b->batch_ns, sizeof a->batch_ns) &&
         !memcmp(&a->kv_block_ns, &b->kv_block_ns, sizeof a->kv_block_ns);
}

static outcome A, B; /* large: not on the stack */

/* Before this instant nobody can have finished: each iteration gives a request one token at most. */
static int64_t earliest_finish(const world *w, const outcome *o) {
  uint32_t seen[MOST] = {0};
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < o->n_steps; i++) {
    const uint64_t *h = o->step + o->step_at[i], *list = h + 9;
    for (uint64_t k = 0; k < h[5] + h[6]; k++) {
      uint64_t who = k < h[5] ? list[2 * k] : list[h[5] + k];
      if (++seen[who] >= w->r[who].output_tokens && (int64_t)h[1] < first) first = (int64_t)h[1];
    }
  }
  return first;
}

/* True outputs differ, caps do not: the same iterations start before the first finish. */
static void check_no_peeking(const world *w, uint64_t *s) {
  world other = *w;
  if (ds_sched_knows(w->ops, w->run.pool.scheduler_config.bytes)) return;
  for (size_t i = 0; i < w->n; i++) {
    other.r[i].output_tokens = (uint32_t)between(s, 1, w->r[i].max_tokens);
    if (!accepted(&other, &other.r[i])) other.r[i].output_tokens = w->r[i].output_tokens;
  }
  run_world(&other, (ds_sim_options){.steps = true}, &B);
  if (B.status != DS_OK) return;
  int64_t until = earliest_finish(w, &A), by = earliest_finish(&other, &B);
  if (by < until) until = by;
  for (size_t i = 0; i < A.n_steps && (int64_t)A.step[A.step_at[i]] < until; i++) {
    size_t from = A.step_at[i], to = i + 1 < A.n_steps ? A.step_at[i + 1] : A.n_step;
    bool same = i < B.n_steps && B.step_at[i] == from && B.n_step >= to &&
                !memcmp(A.step + from, B.step + from, (to - from) * sizeof *A.step);
    RULE(same, "iteration %zu depends on output lengths that nobody can know yet", i);
    if (!same) return;
  }
}

static i64 turned_away; /* in all worlds of a policy */

static void check_world(world *w, uint64_t *s, i64 *preemptions, int *starved) {
  run_world(w, (ds_sim_options){.steps = true}, &A);
  if (A.refused) {
    RULE(A.err.text[0] != 0, "refused without a word");
    return;
  }
  if (A.status == DS_E_STUCK) { /* then it says who, and why */
    RULE(A.err.request >= 0 && strlen(A.err.text) > 20, "somebody starves, and it does not say who");
    ++*starved;
    return;
  }
  RULE(A.status == DS_OK, "%s", A.err.text);
  if (A.status != DS_OK) return;
  *preemptions += (i64)A.preemptions;
  turned_away += (i64)A.turned_away;
  check_conserved(w, &A);
  check_steps(w, &A);
  check_no_peeking(w, s);
  run_world(w, (ds_sim_options){.steps = true}, &B);
  RULE(same_outcome(&A, &B, w->n) && A.n_step == B.n_step && !memcmp(A.step, B.step, A.n_step * sizeof *A.step),
       "the same input gives other bytes");
  run_world(w, (ds_sim_options){.no_lease = false}, &B);
  RULE(same_outcome(&A, &B, w->n), "leases give other bytes");
  run_world(w, (ds_sim_options){.eager = true}, &B);
  RULE(same_outcome(&A, &B, w->n), "eager order gives other bytes");
  for (size_t i = 0; i < w->n; i++) w->r[i].tenant = 90001 - 7 * w->r[i].tenant;
  run_world(w, (ds_sim_options){.no_lease = true}, &B);
  RULE(same_outcome(&A, &B, w->n), "other names of tenants give other bytes");
}

/* The same world with clients that give up: it runs to its end, and alike however it is stepped. */
static void check_patience(world *w, uint64_t *s, i64 *given_up) {
  ds_patience *p = &w->run.patience;
  ds_sim_options plain = {0}, no_lease = {.no_lease = true}, eager = {.eager = true}, steps = {.steps = true, .gaps = true};
  int64_t unit = chance(s, 50) ? 1000000 : 99991;
  *p = (ds_patience){.timeout_ns = between(s, 1, 300) * unit, .backoff_factor = 1};
  if (w->ops->turns_away != NULL && chance(s, 30)) p->timeout_ns = 0; /* then only the server ends an attempt */
  if (chance(s, 30)) p->notice_ns = between(s, 1, 20) * 1000000;
  bool closed = chance(s, 60);
  if (chance(s, 40)) w->router = "least-outstanding";
  if (chance(s, 20)) w->run.pool.data_parallel = 2;
  if (closed && chance(s, 70)) {
    p->retries = between(s, 1, 4);
    p->backoff_ns = chance(s, 30) ? 0 : between(s, 1, 200) * 1000000;
    p->backoff_factor = (double)between(s, 1, 3);
    p->backoff_max_ns = chance(s, 30) ? 150000000 : 0;
    p->jitter = chance(s, 50) ? 0.25 : 0;
  }
  if (closed && chance(s, 40)) {
    plain.concurrency = (uint64_t)between(s, 1, 8);
    for (size_t i = 0; i < w->n; i++) w->r[i].arrival_ns = 0;
  }
  plain.closed_loop = closed;
  no_lease.closed_loop = eager.closed_loop = steps.closed_loop = closed;
  no_lease.concurrency = eager.concurrency = steps.concurrency = plain.concurrency;
  run_world(w, plain, &A);
  if (A.refused) return;
  if (A.status == DS_E_STUCK && strstr(A.err.text, "swapped out")) return; /* no room in host memory */
  RULE(A.status == DS_OK, "%s", A.err.text);
  if (A.status != DS_OK) return;
  *given_up += (i64)A.vain;
  turned_away += (i64)A.turned_away;
  check_patience_sums(w, &A);
  const ds_sim_options *const other[] = {&no_lease, &eager, &steps, &plain};
  for (size_t i = 0; i < 4; i++) {
    run_world(w, *other[i], &B);
    RULE(same_outcome(&A, &B, w->n) && A.vain == B.vain && A.partial == B.partial, "with clients that give up, way %zu gives other bytes", i);
    RULE(!B.odd, "with clients that give up, gaps do not add up to the answer's time");
  }
}

/* The queue as a whole is short of KV: everybody at once, each for half of the pool. */
static void check_awkward(const ds_sched_ops *ops, uint64_t *s) {
  i64 preemptions = 0;
  int starved = 0;
  for (size_t n = 0; n < 2; n++) {
    world w;
    make_world(&w, ops, DEFAULTS, s);
    while (w.n < n) make_requests(&w, s, 1, true);
    check_world(&w, s, &preemptions, &starved);
  }
  world w;
  make_world(&w, ops, DEFAULTS, s);
  w.run.pool.max_model_len = 0;
  w.run.pool.kv_blocks = 20, w.run.pool.kv_block_tokens = 4;
  for (size_t i = 0; i < 12; i++) {
    ds_request q = {.input_tokens = 38, .output_tokens = 6, .max_tokens = 6};
    if (accepted(&w, &q)) w.r[w.n++] = q;
  }
  RULE(w.n == 12, "twelve requests of 44 tokens were not taken with KV for 80");
  check_world(&w, s, &preemptions, &starved);
  RULE(starved == 0, "somebody starves with the default options");
}

/* Ids live outside the core: two files that differ in them alone must give the same times. */
static void check_ids(const ds_sched_ops *ops) {
  for (int other = 0; other < 2; other++) {
    FILE *f = fopen(at("ids%d.yaml", other), "w");
    if (!f) bail("cannot write in %s", work_dir);
    fprintf(f,
            "{scenario: 1, pools: [{scheduler: %s, kv_blocks: 30, kv_block_tokens: 4}], cost: {model: linear, step: 10 ms, "
            "prefill_token: 0.1 ms, decode_sequence: 1 ms}, workload: {requests: [",
            ops->name);
    for (int i = 0; i < 12; i++)
      fprintf(f, "%s{id: \"%c\", arrival_ns: %d, input_tokens: %d, output_tokens: %d}", i ? ", " : "",
              other ? 'z' - i : 'a' + i, 3000000 * (i / 2), 5 + i, 12 - i);
    fputs("]}}\n", f);
    fclose(f);
    int rc = RUN(program(), "run", at("ids%d.yaml", other), "--quiet", "--requests", at("ids%d.csv", other));
    RULE(rc == 0, "exit status %d", rc);
    if (rc) say_stderr();
  }
  table a, b;
  if (!good || !table_load(at("ids0.csv"), &a) || !table_load(at("ids1.csv"), &b)) return;
  for (int i = 1; i < a.rows; i++)
    for (int c = 1; c < a.columns; c++)
      RULE(!strcmp(a.cell[i][c], b.cell[i][c]), "with other ids row %d has another %s", i, a.cell[0][c]);
  table_free(&a), table_free(&b);
}

int main(int argc, char **argv) {
  harness_begin("conformance");
  load_base("cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}", "", &base);
  load_base("model: llama-3.1-8b, cost: roofline", ", hardware: h100-sxm, engine: vllm-2025", &priced);
  for (size_t k = 0; k < ds_n_schedulers; k++) {
    const ds_sched_ops *ops = ds_schedulers[k];
    if (argc > 1 && strcmp(argv[1], ops->name) != 0) continue;
    i64 preemptions = 0;
    i64 given_up = 0;
    turned_away = 0;
    int starved = 0, worlds = 0;
    good = ops->summary != NULL && ops->reference != NULL && ops->config_bytes <= DS_POLICY_CONFIG_BYTES;
    for (int kind = 0; kind < KINDS; kind++) {
      int n = kind == RANDOM ? rounds(200) : rounds(40);
      for (int i = 0; i < n; i++, worlds++) {
        uint64_t stream = (uint64_t)(i * 4 + kind) * 7919 + 17, *s = &stream;
        bool before = good;
        world w;
        good = true;
        make_world(&w, ops, kind, s);
        const bool at_once = chance(s, 20);
        make_requests(&w, s, (size_t)between(s, 1, 40), at_once);
        check_world(&w, s, &preemptions, &starved);
        check_patience(&w, s, &given_up);
        if (!good) note("%s, options at %s, world %d", ops->name, kind_name[kind], i);
        good = good && before;
      }
    }
    uint64_t stream = k + 99;
    check_awkward(ops, &stream);
    check_ids(ops);
    tap(good, "%s keeps the rules in %d worlds (%lld preemptions; %lld attempts in vain, %lld requests turned away; %d say who starves)",
        ops->name, worlds, (long long)preemptions, (long long)given_up, (long long)turned_away, starved);
    if (ops->turns_away != NULL) tap(turned_away > 0, "%s turns requests away", ops->name);
  }
  ds_scenario_free(&base), ds_scenario_free(&priced);
  if (taps == 0) tap(false, "no scheduler is called %s", argc > 1 ? argv[1] : "anything");
  return tap_end();
}
