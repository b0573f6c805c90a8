// SPDX-License-Identifier: GPL-3.0-or-later
/* How fast the simulation itself is. A million requests with the statistics of Azure's conversation trace, made in
 * memory, on 4 replicas of TP4 A100 (Llama 3.1 70B bf16, chunk 2048, roofline tier, exact percentiles), against a bare
 * loop with toy costs compiled beside it and measured in the same run: machines are noisy, ratios are not. The engine
 * card is named, so that the work stays the same when a newer one becomes the default; the newest is measured beside it,
 * whose plans are made ahead.
 * Then the whole process, from a CSV file of that size to its summary, when $DRYSERVE and a third argument name them.
 *   bench [REQUESTS [COPIES_OF_THE_MEASUREMENT [FILE.csv]]] */
#include "azure_conv.h"
#include "io/scenario.h"
#include "metric/select.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char scenario_text[] =
    "scenario: 1\n"
    "model: llama-3.1-70b\n"
    "weights: bf16\n"
    "kv_cache: bf16\n"
    "pools:\n"
    "  - {name: main, hardware: a100-80-sxm, replicas: 4, tensor_parallel: 4, scheduler: vllm-v1, engine: vllm-2025,\n"
    "     prefix_cache: false,\n"
    "     scheduler_options: {max_num_seqs: 256, max_num_batched_tokens: 2048}}\n"
    "router: {policy: round-robin}\n"
    "workload: {requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 1}]}\n";

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- an allocator that counts ---- */

typedef struct counter {
  size_t now, peak;
} counter;

static void *counting_resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  counter *c = opaque;
  if (new_bytes == 0) {
    c->now -= old_bytes;
    free(old);
    return NULL;
  }
  void *p = realloc(old, new_bytes);
  if (p == NULL) return NULL;
  c->now += new_bytes - old_bytes;
  if (c->now > c->peak) c->peak = c->now;
  return p;
}

/* ---- the workload ---- */

static ds_request *make_requests(size_t n) {
  ds_request *r = malloc(n * sizeof *r);
  double t_s = 0.0;
  for (size_t i = 0; r != NULL && i < n; i++) {
    ds_rng arrival = ds_rng_stream(1, DS_PURPOSE_ARRIVAL, i), in = ds_rng_stream(1, DS_PURPOSE_INPUT_TOKENS, i),
           out = ds_rng_stream(1, DS_PURPOSE_OUTPUT_TOKENS, i);
    t_s += ds_draw_exponential(&arrival, 1.0 / AZURE_CONV_RATE_PER_S);
    uint32_t o = azure_conv_tokens(azure_conv_output, ds_rng_unit(&out));
    r[i] = (ds_request){.arrival_ns = (int64_t)(t_s * 1e9), .input_tokens = azure_conv_tokens(azure_conv_input, ds_rng_unit(&in)),
                        .output_tokens = o, .max_tokens = o};
  }
  return r;
}

/* ---- the simulation ---- */

typedef struct outcome {
  double s;
  uint64_t iterations, tokens, leased, decode;
  size_t peak_bytes;
} outcome;

static bool simulate(const ds_scenario *sc, const ds_request *r, size_t n, bool no_lease, outcome *out) {
  counter c = {0, 0};
  ds_alloc a = {counting_resize, &c};
  ds_error err = {0};
  ds_sim *s = NULL;
  ds_sim_options opt = {.no_lease = no_lease};
  double start = cpu_s();
  bool ok = ds_sim_new(&sc->run, sc->sched, sc->route, &opt, &a, &s, &err) == DS_OK, more = true;
  for (size_t i = 0; ok && i < n; i += 4096) {
    ok = ds_sim_feed(s, r + i, n - i < 4096 ? n - i : 4096, &err) == DS_OK;
    for (more = true; ok && more;) ok = ds_sim_step(s, 1 << 20, &more, &err) == DS_OK;
  }
  if (ok) ds_sim_close(s);
  for (more = true; ok && more;) ok = ds_sim_step(s, 1 << 20, &more, &err) == DS_OK;
  if (!ok) {
    fprintf(stderr, "bench: %s\n", err.text);
    if (s != NULL) ds_sim_free(s);
    return false;
  }
  const ds_result *res = ds_sim_result(s);
  /* Exact percentiles are part of the work. */
  static const double pct[] = {50, 90, 95, 99};
  double *x = a.resize(a.opaque, NULL, 0, n * sizeof *x), p[4];
  for (int metric = 0; x != NULL && metric < 3; metric++) {
    const int64_t *col = metric == 0 ? res->ttft_ns : metric == 1 ? res->e2e_ns : res->queue_ns;
    for (size_t i = 0; i < n; i++) x[i] = (double)col[i];
    ds_percentiles(x, n, pct, 4, p, &a);
  }
  a.resize(a.opaque, x, n * sizeof *x, 0);
  *out = (outcome){cpu_s() - start, res->iterations, res->output_tokens, res->leased_iterations, res->decode_iterations, c.peak};
  ds_sim_free(s);
  return true;
}

/* ---- the yardstick: the least that a simulator with the same results must do ---- */

typedef struct row {
  uint64_t done;
  size_t request;
} row;

static void push(row *h, size_t *n, row x) {
  size_t i = (*n)++;
  for (; i > 0 && h[(i - 1) / 2].done > x.done; i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
  h[i] = x;
}

static row pop(row *h, size_t *n) {
  row top = h[0], x = h[--*n];
  size_t i = 0;
  for (size_t c; (c = 2 * i + 1) < *n; i = c) {
    if (c + 1 < *n && h[c + 1].done < h[c].done) c++;
    if (h[c].done >= x.done) break;
    h[i] = h[c];
  }
  h[i] = x;
  return top;
}

typedef struct bare {
  int64_t *ttft_ns, *e2e_ns, *queue_ns;
  ds_gaps itl;
  double *scratch;
  uint64_t iterations;
} bare;

/* Seconds of an iteration: three toy coefficients, chosen to give as many iterations per request. */
static int64_t toy_ns(int64_t prompt, int64_t batch, int64_t ctx) {
  return ds_ns_of_s(36e-3 + 120e-6 * (double)prompt + 150e-6 * (double)batch + 40e-9 * (double)ctx);
}

enum { REPLICAS = 4, MOST = 4096 };
typedef struct bare_replica {
  row heap[MOST];            /* by the iteration at which a request is done */
  size_t waiting[MOST];      /* arrived, prompt not computed */
  size_t n, n_waiting;
  int64_t t, ctx;
  uint64_t k;
} bare_replica;

/* Iterations of one replica that begin before `until`. */
static void bare_advance(bare_replica *q, const ds_request *r, bare *b, int64_t until) {
  while (q->t < until && (q->n > 0 || q->n_waiting > 0)) {
    int64_t d, batch;
    if (q->n_waiting > 0) {
      int64_t prompt = 0;
      for (size_t i = 0; i < q->n_waiting; i++) {
        size_t x = q->waiting[i];
        prompt += r[x].input_tokens;
        b->queue_ns[x] = q->t - r[x].arrival_ns;
        push(q->heap, &q->n, (row){q->k + r[x].output_tokens, x});
      }
      q->ctx += prompt;
      batch = (int64_t)q->n;
      d = toy_ns(prompt, batch, q->ctx);
      for (size_t i = 0; i < q->n_waiting; i++) b->ttft_ns[q->waiting[i]] = q->t + d - r[q->waiting[i]].arrival_ns;
      q->n_waiting = 0;
      q->t += d;
      q->k++;
      q->ctx += batch;
      ds_gaps_count(&b->itl, d, (uint64_t)batch);
    } else {
      batch = (int64_t)q->n;
      uint64_t done = q->heap[0].done;
      while (q->k < done && q->t < until) {
        d = toy_ns(0, batch, q->ctx);
        q->t += d;
        q->k++;
        q->ctx += batch;
        ds_gaps_count(&b->itl, d, (uint64_t)batch);
      }
    }
    while (q->n > 0 && q->heap[0].done <= q->k) {
      row x = pop(q->heap, &q->n);
      b->e2e_ns[x.request] = q->t - r[x.request].arrival_ns;
      q->ctx -= r[x.request].input_tokens + r[x.request].output_tokens;
    }
  }
}

/* Continuous batching on four replicas: arrivals in order, each brings its replica up to date; every iteration stepped;
 * the same columns, gap histogram and exact percentiles. No KV, no token budget, no policy or router seam, no causes. */
static void bare_loop(const ds_request *r, size_t n, bare *b) {
  static bare_replica replica[REPLICAS];
  memset(replica, 0, sizeof replica);
  for (size_t i = 0; i < n; i++) {
    bare_replica *q = &replica[i % REPLICAS];
    bare_advance(q, r, b, r[i].arrival_ns);
    if (q->t < r[i].arrival_ns) q->t = r[i].arrival_ns;
    q->waiting[q->n_waiting++] = i;
  }
  b->iterations = 0;
  for (size_t i = 0; i < REPLICAS; i++) {
    bare_advance(&replica[i], r, b, INT64_MAX);
    b->iterations += replica[i].k;
  }
  static const double pct[] = {50, 90, 95, 99};
  counter c = {0, 0};
  ds_alloc a = {counting_resize, &c};
  double p[4];
  for (int metric = 0; metric < 3; metric++) {
    const int64_t *col = metric == 0 ? b->ttft_ns : metric == 1 ? b->e2e_ns : b->queue_ns;
    for (size_t i = 0; i < n; i++) b->scratch[i] = (double)col[i];
    ds_percentiles(b->scratch, n, pct, 4, p, &a);
  }
}

/* ---- the whole process ---- */

static bool whole_process(const char *program, const char *csv, size_t n) {
  char scenario[] = "/tmp/dryserve-bench-XXXXXX", set[1200];
  int fd = mkstemp(scenario);
  if (fd < 0 || write(fd, scenario_text, sizeof scenario_text - 1) < 0) return false;
  close(fd);
  snprintf(set, sizeof set, "%s", scenario_text);
  char *at = strstr(set, "workload:");
  snprintf(at, sizeof set - (size_t)(at - set), "workload: {trace: %s}\n", csv);
  FILE *f = fopen(scenario, "w");
  if (f == NULL || fputs(set, f) < 0 || fclose(f) != 0) return false;
  struct rusage before, after;
  double best = 1e30;
  long rss = 0;
  for (int i = 0; i < 3; i++) {
    getrusage(RUSAGE_CHILDREN, &before);
    pid_t pid = fork();
    if (pid == 0) {
      execl(program, program, "run", scenario, "--json", "/dev/null", "--quiet", (char *)NULL);
      _exit(127);
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
      fprintf(stderr, "bench: %s run %s failed\n", program, scenario);
      return false;
    }
    getrusage(RUSAGE_CHILDREN, &after);
    double s = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
               (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1e-6;
    if (s < best) best = s;
    rss = after.ru_maxrss;
  }
  unlink(scenario);
  printf("whole process, from CSV     %10.0f requests per CPU second (%.3f s), peak %ld MiB = %.0f bytes per request\n",
         (double)n / best, best, rss / 1024, (double)rss * 1024.0 / (double)n);
  return true;
}

static void line(const char *what, const outcome *o, size_t n) {
  printf("%-27s %10.0f requests, %.1f M iterations, %.0f M tokens per CPU second; %.1f ns per iteration\n", what,
         (double)n / o->s, (double)o->iterations / o->s * 1e-6, (double)o->tokens / o->s * 1e-6,
         o->s * 1e9 / (double)o->iterations);
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
  int copies = argc > 2 ? atoi(argv[2]) : 3;
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  if (!ds_scenario_parse(scenario_text, sizeof scenario_text - 1, "bench", ".", NULL, 0, &dirs, &sc, &d)) {
    ds_diag_print(&d, stderr);
    return 1;
  }
  static const char *const newest[] = {"pools.main.engine=vllm-2026"};
  ds_scenario ahead;
  if (!ds_scenario_parse(scenario_text, sizeof scenario_text - 1, "bench", ".", newest, 1, &dirs, &ahead, &d)) {
    ds_diag_print(&d, stderr);
    return 1;
  }
  /* First, while this process is small: a child's peak of memory counts what it was forked from. */
  bool ok = argc <= 3 || getenv("DRYSERVE") == NULL || whole_process(getenv("DRYSERVE"), argv[3], n);
  ds_request *r = make_requests(n);
  bare b = {.ttft_ns = malloc(n * 8), .e2e_ns = malloc(n * 8), .queue_ns = malloc(n * 8), .scratch = malloc(n * 8),
            .itl = {.bucket = calloc(DS_GAPS_BUCKETS, 8)}};
  if (r == NULL || b.ttft_ns == NULL || b.e2e_ns == NULL || b.queue_ns == NULL || b.scratch == NULL || b.itl.bucket == NULL) return 1;
  outcome best = {.s = 1e30}, single = {.s = 1e30}, newer = {.s = 1e30}, o;
  double bare_s = 1e30;
  for (int i = 0; i < copies; i++) {
    double start = cpu_s();
    bare_loop(r, n, &b);
    double s = cpu_s() - start;
    if (s < bare_s) bare_s = s;
    if (!simulate(&sc, r, n, false, &o)) return 1;
    if (o.s < best.s) best = o;
    if (!simulate(&sc, r, n, true, &o)) return 1;
    if (o.s < single.s) single = o;
    if (!simulate(&ahead, r, n, false, &o)) return 1;
    if (o.s < newer.s) newer = o;
  }
  printf("%zu requests, %.1f iterations and %.0f output tokens per request\n", n, (double)best.iterations / (double)n,
         (double)best.tokens / (double)n);
  line("simulation", &best, n);
  line("simulation, --no-lease", &single, n);
  line("simulation, vllm-2026", &newer, n);
  printf("bare loop, toy costs        %10.0f requests per CPU second (%.1f iterations per request)\n", (double)n / bare_s,
         (double)b.iterations / (double)n);
  printf("ratio to the bare loop      %10.2f   (--no-lease %.2f, vllm-2026 %.2f)\n", bare_s / best.s,
         bare_s / single.s, bare_s / newer.s);
  printf("decode iterations in leases %9.1f %%\n", 100.0 * (double)best.leased / (double)best.decode);
  printf("memory of the simulation    %10.1f bytes per request\n", (double)best.peak_bytes / (double)n);
  free(r);
  free(b.ttft_ns);
  free(b.e2e_ns);
  free(b.queue_ns);
  free(b.scratch);
  free(b.itl.bucket);
  ds_scenario_free(&sc);
  ds_scenario_free(&ahead);
  return ok ? 0 : 1;
}
