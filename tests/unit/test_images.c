// SPDX-License-Identifier: GPL-3.0-or-later
/* Images through the engine: who is encoded when, under a budget and with chunked prompts, against a slow scheduler that
 * walks every image; whom the time is put to; what traces, generators and scenarios say of images, and bad input. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/trace_source.h"
#include "study/driver.h"

#define N_MAX 24

typedef struct step {
  int64_t start_ns, end_ns;
  uint64_t prefill, decode;
} step;

typedef struct run {
  ds_scenario sc;
  ds_drive drive;
  step steps[4000];
  size_t n_steps;
} run;

static void note_step(void *user, const ds_step *s, const ds_drive *drive) {
  run *r = user;
  (void)drive;
  if (r->n_steps < 4000) r->steps[r->n_steps++] = (step){s->start_ns, s->end_ns, s->prefill_tokens, s->decode_seqs};
}

static double prepare_s; /* api_per_image_token of the engine card: 0 but in one test */

static bool run_text(const char *text, bool steps, run *r, ds_diag *d) {
  ds_data_dirs dirs = {{"."}, 1};
  ds_drive_options opt = {.sim = {.records = true, .steps = steps}, .on_step = steps ? note_step : NULL, .user = r};
  memset(r, 0, sizeof *r);
  if (!ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &r->sc, d)) return false;
  r->sc.run.pool.engine.api_per_image_token_s = prepare_s;
  return ds_drive_run(&r->sc, &opt, &r->drive, d);
}

static void done(run *r) {
  ds_drive_free(&r->drive);
  ds_scenario_free(&r->sc);
}

static int64_t blamed(const ds_record *q) {
  int64_t sum = 0;
  for (int c = 0; c < DS_CAUSE_N; c++) sum += q->blame_ns[c];
  return sum;
}

#define LINEAR(options, requests)                                                                                       \
  "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms, image_token: 0.2 ms}, " \
  "pools: [{kv_blocks: unlimited, scheduler: vllm-v1, scheduler_options: {" options "}}], workload: {requests: [" requests "]}}"

/* One prompt of 250 tokens with an image of 80 from token 50 on, 100 tokens an iteration. The image is encoded in the first
 * iteration, which computes its first 50 tokens; the second computes the others and encodes nothing. */
Test(images, a_chunk_later_nothing_is_encoded_again) {
  run r;
  ds_diag d = {0};
  cr_assert(run_text(LINEAR("max_num_batched_tokens: 100", "{arrival_ns: 0, input_tokens: 250, output_tokens: 2, images: {tokens: "
                                                          "80, at: 50}}"), true, &r, &d), "%s", d.text);
  static const int64_t ends[] = {36, 56, 71, 82}; /* 10 + 10 + 16 of the image, 10 + 10, 10 + 5, 10 + 1 */
  cr_assert_eq(r.n_steps, 4);
  for (size_t i = 0; i < 4; i++) cr_assert_eq(r.steps[i].end_ns, ends[i] * 1000000, "step %zu: %lld", i, (long long)r.steps[i].end_ns);
  const ds_record *q = &r.drive.result->records[0];
  cr_assert_eq(q->blame_ns[DS_CAUSE_ENCODER], 16000000);
  cr_assert_eq(q->blame_ns[DS_CAUSE_PREFILL_OWN], 55000000);
  cr_assert_eq(blamed(q), 82000000);
  cr_assert(q->images == 1 && q->image_tokens == 80);
  cr_assert(r.drive.result->images == 1 && r.drive.result->image_tokens == 80 && r.drive.result->with_images);
  done(&r);
}

/* Two images of 60 tokens and a budget of 100: the prompt stops before the second, which the next iteration encodes. */
Test(images, the_encoder_has_a_budget) {
  run r;
  ds_diag d = {0};
  cr_assert(run_text(LINEAR("max_num_batched_tokens: 100", "{arrival_ns: 0, input_tokens: 130, output_tokens: 1, images: {count: 2, "
                                                          "tokens: 120, at: 5}}"), true, &r, &d), "%s", d.text);
  cr_assert_eq(r.n_steps, 2);
  cr_assert_eq(r.steps[0].prefill, 65);
  cr_assert_eq(r.steps[1].prefill, 65);
  cr_assert_eq(r.steps[0].end_ns, 28500000); /* 10 + 6.5 + 12 */
  cr_assert_eq(r.steps[1].end_ns, 57000000);
  done(&r);
}

/* Others wait for an image: the decoding one's gap grows, and so says its blame; shares sum to the latency. */
Test(images, others_wait_for_the_encoder) {
  run r;
  ds_diag d = {0};
  cr_assert(run_text(LINEAR("max_num_batched_tokens: 500", "{arrival_ns: 0, input_tokens: 10, output_tokens: 4}, {arrival: 12 ms, "
                                                          "input_tokens: 100, output_tokens: 1, images: {tokens: 50}}, {arrival: 12 ms, "
                                                          "input_tokens: 100, output_tokens: 1, images: {tokens: 150, count: 1}}"),
                     false, &r, &d) == false);
  cr_assert(strstr(d.text, "images.tokens") != NULL, "%s", d.text); /* more than its input */
  done(&r);
  d = (ds_diag){0};
  cr_assert(run_text(LINEAR("max_num_batched_tokens: 500", "{arrival_ns: 0, input_tokens: 10, output_tokens: 4}, {arrival: 12 ms, "
                                                          "input_tokens: 100, output_tokens: 1, images: {tokens: 50}}, {arrival: 12 ms, "
                                                          "input_tokens: 200, output_tokens: 1, images: {tokens: 150, count: 3}}"),
                     false, &r, &d), "%s", d.text);
  /* First step 11 ms; then 10 + 1 of one row until 22; then 10 + 1 + 30 + 40 for 200 tokens of images. */
  const ds_record *q = r.drive.result->records;
  cr_assert_eq(q[0].max_itl_ns, 81000000);
  cr_assert_eq(q[0].blame_ns[DS_CAUSE_PREFILL_OTHERS], 70000000);
  cr_assert_eq(q[1].blame_ns[DS_CAUSE_ENCODER], 10000000);
  cr_assert_eq(q[2].blame_ns[DS_CAUSE_ENCODER], 30000000);
  cr_assert_eq(q[1].blame_ns[DS_CAUSE_PREFILL_OTHERS], 20000000 + 30000000);
  for (int i = 0; i < 3; i++) cr_assert_eq(blamed(&q[i]), q[i].finish_ns - q[i].arrival_ns);
  cr_assert_eq(r.drive.result->replicas[0].encoder_ns, 40000000);
  cr_assert_eq(r.drive.result->replicas[0].prefill_ns, 11000000 + 30000000);
  cr_assert_eq(r.drive.result->replicas[0].images, 4);
  done(&r);
}

/* ---- the slow scheduler: every image of every request, one by one ---- */

typedef struct slow {
  int64_t arrival, ttft, finish, encoder;
  int input, output, at, images, tokens, computed, emitted;
  bool running, finished, encoded[8], held[8];
} slow;

static int start_of(const slow *q, int i) { return q->at + (int)((int64_t)q->tokens * i / q->images); }

/* How many of n tokens may be computed; marks in `now` what must be encoded for them. */
static int within(slow *q, int n, int *compute, int *room, bool now[8]) {
  for (int i = 0; i < q->images; i++) {
    int start = start_of(q, i), size = start_of(q, i + 1) - start;
    if (start >= q->computed + n) break;
    if (start + size <= q->computed || q->encoded[i]) continue;
    if (size > *compute || size > *room) return start > q->computed ? start - q->computed : 0;
    *compute -= size;
    *room -= size;
    now[i] = true;
  }
  return n;
}

static void slow_run(slow *q, int n, int budget, int seats) {
  int64_t t = 0;
  int order[N_MAX], n_order = 0;
  for (;;) {
    int tokens = budget, compute = budget, room = budget, grant[N_MAX] = {0}, running = 0, left = 0, encoded = 0, prefill = 0, decode = 0;
    bool now[N_MAX][8] = {{false}};
    for (int i = 0; i < n; i++)
      for (int k = 0; k < q[i].images; k++)
        if (q[i].held[k]) room -= start_of(&q[i], k + 1) - start_of(&q[i], k);
    for (int o = 0; o < n_order; o++) {
      slow *p = &q[order[o]];
      if (p->finished) continue;
      running++;
      int want = p->input + p->emitted - p->computed;
      if (tokens == 0) continue;
      if (want > tokens) want = tokens;
      grant[order[o]] = within(p, want, &compute, &room, now[order[o]]);
      tokens -= grant[order[o]];
    }
    int64_t next = INT64_MAX;
    for (int i = 0; i < n; i++) {
      if (q[i].running) continue;
      left++;
      if (q[i].arrival > t) {
        if (q[i].arrival < next) next = q[i].arrival;
        continue;
      }
      if (tokens == 0 || running >= seats) break;
      int want = q[i].input < tokens ? q[i].input : tokens;
      grant[i] = within(&q[i], want, &compute, &room, now[i]);
      if (grant[i] == 0) break;
      tokens -= grant[i];
      q[i].running = true;
      order[n_order++] = i;
      running++;
    }
    if (running == 0) {
      if (left == 0) return;
      t = next;
      continue;
    }
    for (int i = 0; i < n; i++) {
      if (grant[i] == 0) continue;
      if (q[i].emitted > 0) decode++;
      else prefill += grant[i];
      for (int k = 0; k < q[i].images; k++)
        if (now[i][k]) {
          int size = start_of(&q[i], k + 1) - start_of(&q[i], k);
          encoded += size;
          q[i].encoder += 200000LL * size;
          q[i].encoded[k] = q[i].held[k] = true;
        }
    }
    t += 10000000 + 100000LL * prefill + 1000000LL * decode + 200000LL * encoded;
    for (int i = 0; i < n; i++) {
      if (grant[i] == 0) continue;
      q[i].computed += grant[i];
      for (int k = 0; k < q[i].images; k++)
        if (start_of(&q[i], k + 1) <= q[i].computed) q[i].held[k] = false;
      if (q[i].computed < q[i].input + q[i].emitted) continue;
      if (q[i].emitted++ == 0) q[i].ttft = t - q[i].arrival;
      if (q[i].emitted == q[i].output) {
        q[i].finished = true;
        q[i].finish = t;
      }
    }
  }
}

Test(images, random_workloads_are_those_of_a_slow_scheduler) {
  size_t waited = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    ds_rng g = ds_rng_stream(seed, DS_PURPOSE_TEST, 1);
    slow q[N_MAX] = {{0}};
    int n = 1 + (int)ds_rng_below(&g, N_MAX), budget = 40 + (int)ds_rng_below(&g, 300), seats = 1 + (int)ds_rng_below(&g, 12);
    char text[12000];
    size_t used = (size_t)snprintf(
        text, sizeof text, "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms, image_token: "
        "0.2 ms}, pools: [{kv_blocks: unlimited, scheduler: vllm-v1, scheduler_options: {max_num_batched_tokens: %d, max_num_seqs: "
        "%d}}], workload: {requests: [", budget, seats);
    int64_t t = 0;
    for (int i = 0; i < n; i++) {
      t += (int64_t)ds_rng_below(&g, 60) * 1000000;
      q[i] = (slow){.arrival = t, .input = 1 + (int)ds_rng_below(&g, 600), .output = 1 + (int)ds_rng_below(&g, 12)};
      q[i].images = (int)ds_rng_below(&g, 5);
      q[i].at = (int)ds_rng_below(&g, (uint64_t)q[i].input);
      int most = q[i].input - q[i].at;
      if (most > q[i].images * budget) most = q[i].images * budget;
      if (most < q[i].images || q[i].images == 0) q[i].images = q[i].tokens = q[i].at = 0;
      else q[i].tokens = q[i].images + (int)ds_rng_below(&g, (uint64_t)(most - q[i].images + 1));
      used += (size_t)snprintf(text + used, sizeof text - used, "%s{arrival_ns: %lld, input_tokens: %d, output_tokens: %d", i ? ", " : "",
                               (long long)q[i].arrival, q[i].input, q[i].output);
      if (q[i].images > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, ", images: {count: %d, tokens: %d, at: %d}", q[i].images, q[i].tokens, q[i].at);
      used += (size_t)snprintf(text + used, sizeof text - used, "}");
    }
    snprintf(text + used, sizeof text - used, "]}}");
    slow_run(q, n, budget, seats);
    run r;
    ds_diag d = {0};
    cr_assert(run_text(text, false, &r, &d), "seed %d: %s\n%s", (int)seed, d.text, text);
    for (int i = 0; i < n; i++) {
      const ds_record *w = &r.drive.result->records[i];
      cr_assert(w->first_token_ns - w->arrival_ns == q[i].ttft && w->finish_ns - w->arrival_ns == q[i].finish - q[i].arrival,
                "seed %d, request %d: TTFT %lld, not %lld", (int)seed, i, (long long)(w->first_token_ns - w->arrival_ns), (long long)q[i].ttft);
      cr_assert_eq(w->blame_ns[DS_CAUSE_ENCODER], q[i].encoder, "seed %d, request %d", (int)seed, i);
      cr_assert_eq(blamed(w), w->finish_ns - w->arrival_ns);
      waited += q[i].encoder > 0;
    }
    done(&r);
  }
  cr_assert_gt(waited, 500);
}

/* ---- prefix hits, preemption, other schedulers, leases ---- */

#define SHARED(more)                                                                                                          \
  "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms, image_token: 0.2 ms}, pools: " \
  "[{kv_blocks: 200, kv_block_tokens: 10, scheduler: vllm-v1, prefix_cache: true}], workload: {requests: [{arrival_ns: 0, " \
  "input_tokens: 100, output_tokens: 1, prefix: [a, " more "], images: {count: 2, tokens: 60, at: 10}}, {arrival: 1 s, input_tokens: " \
  "100, output_tokens: 1, prefix: [a, " more "], images: {count: 2, tokens: 60, at: 10}}]}}"

Test(images, what_the_prefix_cache_holds_is_not_encoded) {
  static const struct {
    const char *text;
    int64_t ms; /* of the second request's encoding */
  } cases[] = {{SHARED("100"), 0},  /* 90 tokens are found: both images */
               {SHARED("70"), 0},   /* up to the end of the second */
               {SHARED("60"), 6},   /* the first, and a part of the second, which is encoded whole */
               {SHARED("40"), 6},
               {SHARED("30"), 12},
               {SHARED("10"), 12}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run r;
    ds_diag d = {0};
    cr_assert(run_text(cases[i].text, false, &r, &d), "%s", d.text);
    cr_assert_eq(r.drive.result->records[0].blame_ns[DS_CAUSE_ENCODER], 12000000);
    cr_assert_eq(r.drive.result->records[1].blame_ns[DS_CAUSE_ENCODER], cases[i].ms * 1000000, "%zu: %lld", i,
                 (long long)r.drive.result->records[1].blame_ns[DS_CAUSE_ENCODER]);
    done(&r);
  }
}

/* Every scheduler encodes an image once, with the chunk that reaches it; a short pool makes them preempt. */
Test(images, every_scheduler_encodes_every_image) {
  static const char *const names[] = {"vllm-v1", "vllm-v0", "sarathi", "sglang", "trtllm", "orca", "tgi", "fcfs-no-batch", "static", "vtc-fair"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
    for (int blocks = 40; blocks <= 4000; blocks *= 100) {
      char text[2000];
      snprintf(text, sizeof text,
               "{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm, engine: vllm-2025, kv_blocks: %d, kv_block_tokens: 16, scheduler: %s}], workload: "
               "{generate: {requests: 60, arrivals: {process: poisson, rate: 40 /s}, input_tokens: {law: fixed, value: 20}, "
               "output_tokens: {law: fixed, value: 60}, images: {share: 0.8, count: 1, resolution: 896x896}}}, seed: 3}", blocks, names[k]);
      run r, again;
      ds_diag d = {0};
      cr_assert(run_text(text, false, &r, &d), "%s: %s", names[k], d.text);
      const ds_result *res = r.drive.result;
      uint64_t brought = 0;
      for (size_t i = 0; i < res->n; i++) {
        brought += res->records[i].images;
        cr_assert_eq(blamed(&res->records[i]), res->records[i].finish_ns - res->records[i].arrival_ns, "%s", names[k]);
      }
      cr_assert_gt(brought, 30);
      cr_assert_eq(res->images, brought);
      if (res->num_preemptions == 0) cr_assert_eq(res->replicas[0].images, brought, "%s", names[k]);
      else cr_assert_geq(res->replicas[0].images, brought, "%s", names[k]);
      cr_assert_gt(res->replicas[0].flops, 5e12 * (double)brought);
      cr_assert(run_text(text, true, &again, &d), "%s", d.text); /* step by step: the same */
      for (size_t i = 0; i < res->n; i++) cr_assert_eq(memcmp(res->records[i].blame_ns, again.drive.result->records[i].blame_ns, sizeof res->records[i].blame_ns), 0, "%s", names[k]);
      done(&r);
      done(&again);
    }
  }
}

/* ---- traces ---- */

static bool read_trace(const char *text, const char *more, ds_request *out, size_t cap, size_t *n, ds_diag *d) {
  char path[] = "/tmp/dryserve-images-XXXXXX", scenario[1200];
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  snprintf(scenario, sizeof scenario, "{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {trace: %s%s}}", path, more);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_trace *t = NULL;
  bool good = ds_scenario_parse(scenario, strlen(scenario), "test", ".", NULL, 0, &dirs, &sc, d) &&
              ds_trace_open(&sc.workload, 0, &t, d) && ds_trace_read(t, out, cap, n, d);
  if (t != NULL) ds_trace_close(t);
  ds_scenario_free(&sc);
  unlink(path);
  return good;
}

#define AZURE "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,2,1300,4\n2024-10-15 00:00:01,0,50,4\n"
#define TRACEV2                                                                                                               \
  "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,streaming,input_tokens,"        \
  "output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,reason_ratio,model,deadline_us,server_input_tokens,"      \
  "arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason\n"

Test(images, what_traces_say_of_them) {
  static const struct {
    const char *text, *more;
    uint32_t images, tokens, at, input;
  } cases[] = {
      {AZURE, "", 2, 512, 0, 1300},                        /* Gemma 3: 256 each, among the 1,300 */
      {AZURE, ", images: {tokens: 100}", 2, 200, 0, 1300},
      {AZURE, ", images: {tokens: 1000}", 2, 1300, 0, 1300}, /* no more than there is room for */
      {AZURE, ", images: ignore", 0, 0, 0, 1300},
      {TRACEV2 "r,c,t,s,,0,g,40,true,700,5,100,600,0,0,0,m,0,0,0,0,0,0,0,ok,,\n", "", 3, 600, 40, 700},
      {TRACEV2 "r,c,t,s,,0,,0,true,700,5,700,0,0,0,0,m,0,0,0,0,0,0,0,ok,,\n", "", 0, 0, 0, 700},
      {"{\"arrival_ns\":0,\"input_tokens\":90,\"output_tokens\":2,\"images\":1,\"image_tokens\":70,\"image_at\":20}\n", "", 1, 70, 20, 90},
      {"{\"arrival_ns\":0,\"input_tokens\":900,\"output_tokens\":2,\"images\":2}\n", "", 2, 512, 0, 900},
      {"{\"arrival_ns\":0,\"input_tokens\":300,\"output_tokens\":2,\"images\":1,\"prefix\":[\"a\",30]}\n", "", 1, 256, 30, 300},
      {"t,i,o,n,x\n0,500,4,2,300\n", ", map: {arrival: 't:s', input_tokens: i, output_tokens: o, images: n, image_tokens: x}", 2, 300, 0, 500}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ds_request r[4];
    size_t n = 0;
    ds_diag d = {0};
    cr_assert(read_trace(cases[i].text, cases[i].more, r, 4, &n, &d), "%zu: %s", i, d.text);
    cr_assert(n >= 1 && r[0].images == cases[i].images && r[0].image_tokens == cases[i].tokens && r[0].image_at == cases[i].at &&
                  r[0].input_tokens == cases[i].input,
              "%zu: %u images, %u tokens from %u of %u", i, r[0].images, r[0].image_tokens, r[0].image_at, r[0].input_tokens);
  }
}

Test(images, bad_input_is_refused) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"{scenario: 1, model: llama-3.1-8b, pools: [{hardware: h100-sxm}], workload: {requests: [{arrival_ns: 0, input_tokens: 90, "
       "output_tokens: 1, images: {tokens: 80}}]}}", "llama-3.1-8b has no encoder of images"},
      {"{scenario: 1, model: llama-3.1-8b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 1, arrivals: {process: "
       "burst-at-zero}, input_tokens: {law: fixed, value: 1}, output_tokens: {law: fixed, value: 1}, images: {resolution: 9x9}}}}",
       "llama-3.1-8b has no encoder of images"},
      {"{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm, language_model_only: true}], workload: {requests: [{arrival_ns: "
       "0, input_tokens: 90, output_tokens: 1, images: {tokens: 80}}]}}", "language_model_only"},
      {"{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {requests: [{arrival_ns: 0, input_tokens: 9000, "
       "output_tokens: 1, images: {tokens: 8500}}]}}", "an image of 8500 tokens exceeds what the encoder takes at once, 8192"},
      {LINEAR("", "{arrival_ns: 0, input_tokens: 90, output_tokens: 1, images: {tokens: 91}}"), "workload.requests.0.images.tokens is 91"},
      {LINEAR("", "{arrival_ns: 0, input_tokens: 90, output_tokens: 1, images: {tokens: -1}}"), "images.tokens is -1"},
      {LINEAR("", "{arrival_ns: 0, input_tokens: 90, output_tokens: 1, images: {token: 9}}"), "token"},
      {LINEAR("", "{arrival_ns: 0, input_tokens: 90, output_tokens: 1, images: {count: 2}}"), "images.tokens is missing"},
      {"{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 1, arrivals: {process: "
       "burst-at-zero}, input_tokens: {law: fixed, value: 1}, output_tokens: {law: fixed, value: 1}, images: {resolution: 1024}}}}",
       "images.resolution is '1024'"},
      {"{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 1, arrivals: {process: "
       "burst-at-zero}, input_tokens: {law: fixed, value: 1}, output_tokens: {law: fixed, value: 1}, images: {count: 1}}}}",
       "neither of resolution and tokens"},
      {"{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 1, arrivals: {process: "
       "burst-at-zero}, input_tokens: {law: fixed, value: 1}, output_tokens: {law: fixed, value: 1}, images: {resolution: 0x10}}}}",
       "images.resolution is '0x10'"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run r;
    ds_diag d = {0};
    cr_assert_not(run_text(cases[i].text, false, &r, &d), "%zu is accepted", i);
    cr_assert(strstr(d.text, cases[i].why) != NULL, "%zu: %s", i, d.text);
    cr_assert_eq(d.exit, DS_EXIT_INPUT);
    done(&r);
  }
  static const struct {
    const char *text, *why;
    int64_t line;
  } rows[] = {{"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,-1,130,4\n", "NumImages is negative", 2},
              {"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,x,130,4\n", "NumImages is not a number", 2},
              {"{\"arrival_ns\":0,\"input_tokens\":90,\"output_tokens\":2,\"image_tokens\":100}\n", "100 tokens of images from token 0 on, in an input of 90", 1},
              {"{\"arrival_ns\":0,\"input_tokens\":90,\"output_tokens\":2,\"image_token\":100}\n", "image_token", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ds_request r[4];
    size_t n = 0;
    ds_diag d = {0};
    cr_assert_not(read_trace(rows[i].text, "", r, 4, &n, &d), "%zu is accepted", i);
    cr_assert(strstr(d.text, rows[i].why) != NULL && d.line == rows[i].line, "%zu: %s (line %lld)", i, d.text, (long long)d.line);
  }
}

/* ---- the generator ---- */

Test(images, the_generator_adds_them_to_the_text) {
  run r;
  ds_diag d = {0};
  static const char *const share[] = {"0.25", "1"};
  for (int k = 0; k < 2; k++) {
    char text[1000];
    snprintf(text, sizeof text,
             "{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 2000, arrivals: {process: "
             "poisson, rate: 20 /s}, input_tokens: {law: fixed, value: 30}, output_tokens: {law: fixed, value: 1}, prefix: {tokens: 12}, "
             "images: {share: %s, count: {law: uniform, min: 1, max: 3}, tokens: {law: fixed, value: 256}}}}, seed: 5}", share[k]);
    cr_assert(run_text(text, false, &r, &d), "%s", d.text);
    size_t with = 0;
    uint64_t images = 0;
    for (size_t i = 0; i < r.drive.result->n; i++) {
      const ds_record *q = &r.drive.result->records[i];
      cr_assert_eq(q->input_tokens, 42 + q->image_tokens);
      cr_assert_eq(q->image_tokens, 256 * q->images);
      cr_assert_leq(q->images, 3);
      with += q->images > 0;
      images += q->images;
    }
    double expected = k == 0 ? 0.25 : 1; /* 5 standard deviations of a count of 2,000 */
    cr_assert_float_eq((double)with / 2000, expected, k == 0 ? 0.05 : 0);
    cr_assert_float_eq((double)images / (double)with, 2, 0.2);
    cr_assert_eq(r.drive.result->images, images);
    done(&r);
  }
}

/* A session shows its images in its first turn; later turns hold them, and find them in the prefix cache. */
Test(images, a_conversation_keeps_its_images) {
  run r;
  ds_diag d = {0};
  cr_assert(run_text("{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workload: {generate: {requests: 40, arrivals: "
                     "{process: poisson, rate: 0.1 /s}, input_tokens: {law: fixed, value: 30}, output_tokens: {law: fixed, value: 8}, "
                     "session: {turns: 4, think: 1 s, input_tokens: 20}, images: {count: 2, resolution: 640x480}}}, seed: 5}",
                     false, &r, &d), "%s", d.text);
  const ds_result *res = r.drive.result;
  uint64_t brought = 0;
  for (size_t i = 0; i < res->n; i++) {
    cr_assert_eq(res->records[i].image_tokens, 512);
    cr_assert_geq(res->records[i].input_tokens, 542);
    brought += res->records[i].images;
  }
  cr_assert_eq(brought, 80);
  cr_assert_eq(res->replicas[0].images, 20); /* of ten conversations, once each */
  done(&r);
}

/* Pictures are decoded before they queue: later, by their tokens, and put to the API; a text overtakes one that came first. */
Test(images, pictures_are_prepared_before_the_queue) {
  run r;
  ds_diag d = {0};
  prepare_s = 60e-6;
  cr_assert(run_text("{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm, engine: vllm-2026}], workload: {requests: [{arrival: 1 "
                     "ms, input_tokens: 300, output_tokens: 2, images: {tokens: 256}}, {arrival: 2 ms, input_tokens: 30, output_tokens: "
                     "2}, {arrival: 3 ms, input_tokens: 600, output_tokens: 2, images: {count: 2, tokens: 512}}]}}",
                     false, &r, &d), "%s", d.text);
  const ds_record *q = r.drive.result->records;
  int64_t picture_ns = ds_ns_of_s(60e-6 * 256), token_ns = ds_ns_of_s(r.sc.run.pool.engine.tokenise_s);
  prepare_s = 0;
  /* Of 300, 30 and 600 tokens 44, 30 and 88 are text, which alone is tokenised. */
  cr_assert_eq(q[0].blame_ns[DS_CAUSE_API] - q[1].blame_ns[DS_CAUSE_API], picture_ns + 14 * token_ns);
  cr_assert_eq(q[2].blame_ns[DS_CAUSE_API] - q[1].blame_ns[DS_CAUSE_API], 2 * picture_ns + 58 * token_ns);
  cr_assert_lt(q[1].scheduled_ns, q[0].scheduled_ns);
  cr_assert_geq(q[2].scheduled_ns - q[2].arrival_ns, 2 * picture_ns);
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(blamed(&q[i]), q[i].finish_ns - q[i].arrival_ns);
    cr_assert_eq(q[i].blame_ns[DS_CAUSE_RETRY], 0);
  }
  done(&r);
}

/* Ranks that go in lockstep, plans made ahead, drafts, clients that give up: the blame still sums, and every image that was
 * answered was encoded. */
Test(images, with_whatever_else_an_engine_does) {
  static const struct {
    const char *model, *pool, *more;
  } cases[] = {{"llama-4-scout", "tensor_parallel: 2, data_parallel: 4, expert_parallel: 8", ""},
               {"qwen2.5-vl-7b", "scheduler_options: {async_scheduling: true}", ""},
               {"qwen2.5-vl-7b", "tensor_parallel: 2, encoder_parallel: data", ""},
               {"qwen2.5-vl-7b", "pipeline_parallel: 2", ""},
               {"qwen3-vl-8b", "speculative: {method: ngram, tokens: 3, acceptance: 0.6}", ""},
               {"gemma-3-4b", "scheduler: sglang", ", client: {timeout: 1500 ms, retries: 1}"},
               {"gemma-3-4b", "scheduler_options: {scheduling_policy: priority}", ", client: {timeout: 1500 ms}"}};
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    char text[1500];
    snprintf(text, sizeof text,
             "{scenario: 1, model: %s, pools: [{hardware: h100-sxm, engine: vllm-2025, %s}], workload: {generate: {requests: 150, arrivals: "
             "{process: poisson, rate: 20 /s}, input_tokens: {law: fixed, value: 50}, output_tokens: {law: fixed, value: 30}, images: "
             "{share: 0.7, count: {law: uniform, min: 1, max: 4}, tokens: {law: uniform, min: 100, max: 700}}}%s}, seed: 9}",
             cases[k].model, cases[k].pool, cases[k].more);
    run r;
    ds_diag d = {0};
    cr_assert(run_text(text, false, &r, &d), "%zu: %s", k, d.text);
    const ds_result *res = r.drive.result;
    uint64_t brought = 0, encoded = 0, ns = 0;
    int64_t own = 0;
    for (size_t i = 0; i < res->n; i++) {
      const ds_record *q = &res->records[i];
      if (q->failed) continue;
      brought += q->images;
      own += q->blame_ns[DS_CAUSE_ENCODER];
      cr_assert_eq(blamed(q), q->finish_ns - q->arrival_ns, "%zu, request %zu", k, i);
      for (int c = 0; c < DS_CAUSE_N; c++) cr_assert_geq(q->blame_ns[c], 0, "%zu: %s", k, ds_cause_name((ds_cause)c));
      if (q->images == 0) cr_assert_eq(q->blame_ns[DS_CAUSE_ENCODER], 0);
    }
    for (size_t i = 0; i < res->n_replicas; i++) {
      encoded += res->replicas[i].images;
      ns += (uint64_t)res->replicas[i].encoder_ns;
    }
    cr_assert_gt(brought, 20, "%zu: %d", k, (int)brought);
    cr_assert_eq(res->images, brought);
    cr_assert_geq(encoded, brought, "%zu", k);
    cr_assert_leq((uint64_t)own, ns + brought, "%zu", k);
    done(&r);
  }
}

/* Of several workloads one has images: they reach the engine, and no other request gets any. */
Test(images, one_of_several_workloads_has_them) {
  run r;
  ds_diag d = {0};
  cr_assert(run_text("{scenario: 1, model: gemma-3-4b, pools: [{hardware: h100-sxm}], workloads: [{class: text, generate: {requests: 60, "
                     "arrivals: {process: poisson, rate: 4 /s}, input_tokens: {law: fixed, value: 70}, output_tokens: {law: fixed, value: "
                     "5}}}, {class: pictures, generate: {requests: 40, arrivals: {process: poisson, rate: 3 /s}, input_tokens: {law: fixed, "
                     "value: 30}, output_tokens: {law: fixed, value: 5}, prefix: {tokens: 20}, images: {count: 2, resolution: 10x10}}}], "
                     "seed: 4}", false, &r, &d), "%s", d.text);
  size_t with = 0;
  for (size_t i = 0; i < r.drive.result->n; i++) {
    const ds_record *q = &r.drive.result->records[i];
    cr_assert(q->images == 0 ? q->input_tokens == 70 && q->image_tokens == 0 : q->input_tokens == 562 && q->image_tokens == 512);
    with += q->images == 2;
  }
  cr_assert_eq(with, 40);
  cr_assert_eq(r.drive.result->replicas[0].images, 80);
  done(&r);
}
