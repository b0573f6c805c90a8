// SPDX-License-Identifier: GPL-3.0-or-later
/* Speculative decoding: what is drafted, what is accepted, what it costs, and where it stops paying. */
#include <math.h>

#include "cards.h"
#include "cost/memory.h"
#include "engine/sim.h"
#include "io/scenario.h"
#include "spec/speculation.h"

static const ds_data_dirs tree = {{"."}, 1};

static void load(const char *path, const char *const *sets, size_t n, ds_scenario *sc) {
  ds_diag d;
  cr_assert(ds_scenario_load(path, sets, n, &tree, sc, &d), "%s: %s", path, d.text);
}

/* n requests at once through the scenario's replica. */
static ds_sim *serve(const ds_scenario *sc, int n, uint32_t input, uint32_t output, ds_sim_options opt) {
  ds_error err = {DS_OK, -1, ""};
  ds_sim *sim;
  cr_assert_eq(ds_sim_new(&sc->run, sc->sched, sc->route, &opt, &plain_alloc, &sim, &err), DS_OK, "%s", err.text);
  for (int i = 0; i < n; i++) {
    ds_request r;
    memset(&r, 0, sizeof r);
    r.input_tokens = input;
    r.output_tokens = r.max_tokens = output;
    cr_assert_eq(ds_sim_feed(sim, &r, 1, &err), DS_OK, "%s", err.text);
  }
  ds_sim_close(sim);
  for (bool more = true; more;)
    cr_assert_eq(ds_sim_step(sim, 1000000, &more, &err), DS_OK, "%s", err.text);
  return sim;
}

/* The table of S25: batches of 1 to 8 draft 3, of 9 to 64 one, larger ones none. */
Test(speculation, drafts_by_batch) {
  ds_speculation p = {.method = DS_DRAFT_NGRAM, .tokens = 3, .n_by_batch = 2,
                      .by_batch = {{1, 8, 3}, {9, 64, 1}}};
  const int64_t expected[][2] = {{1, 3}, {8, 3}, {9, 1}, {64, 1}, {65, 0}, {1000, 0}};
  for (size_t i = 0; i < DS_ARRAY_LEN(expected); i++)
    cr_expect_eq(ds_drafts_for(&p, expected[i][0]), expected[i][1], "batch %d", (int)expected[i][0]);
  p.n_by_batch = 0;
  p.disable_above_batch = 4;
  cr_expect_eq(ds_drafts_for(&p, 4), 3);
  cr_expect_eq(ds_drafts_for(&p, 5), 0);
  p.method = DS_DRAFT_NONE;
  cr_expect_eq(ds_drafts_for(&p, 1), 0);
}

/* Leviathan et al. 2023: (1 - a^(g+1)) / (1 - a) tokens a step when each draft is accepted alike. */
Test(speculation, tokens_of_a_step) {
  for (int g = 0; g <= 8; g++) {
    ds_speculation p = {.method = DS_DRAFT_NGRAM, .tokens = 8};
    for (int i = 0; i < 8; i++) p.acceptance[i] = 0.8;
    cr_expect_float_eq(ds_drafts_expected_tokens(&p, g), (1 - pow(0.8, g + 1)) / (1 - 0.8), 1e-12);
  }
}

/* Sampled, by position: each count lies within five standard deviations of its binomial law. */
Test(speculation, acceptance_is_sampled_by_position) {
  static const double chance[4] = {0.9, 0.5, 0.7, 0.2};
  const char *sets[] = {"pools.main.speculative.acceptance=[0.9, 0.5, 0.7, 0.2]"};
  ds_scenario sc;
  load("studies/engines/speculation-on.yaml", sets, 1, &sc);
  ds_sim *sim = serve(&sc, 32, 64, 2000, (ds_sim_options){0});
  const ds_result *r = ds_sim_result(sim);
  const ds_spec_totals *t = &r->speculation;
  double trials = (double)t->drafts;
  cr_expect(trials > 20000);
  cr_expect_eq(t->draft_tokens, 4 * t->drafts);
  uint64_t sum = 0;
  for (int i = 0; i < 4; i++) {
    double mean = trials * chance[i], sd = sqrt(trials * chance[i] * (1 - chance[i]));
    cr_expect(fabs((double)t->accepted_at[i] - mean) < 5 * sd, "position %d: %g of %g, expected %g", i,
              (double)t->accepted_at[i], trials, mean);
    trials = (double)t->accepted_at[i];
    sum += t->accepted_at[i];
  }
  cr_expect_eq(sum, t->accepted_tokens);
  cr_expect_eq(r->output_tokens, 32u * 2000u);
  ds_sim_free(sim);
  ds_scenario_free(&sc);
}

/* What a draft is worth depends on request and step alone: neither on its neighbours nor on a draft length that has
 * not been reached. With all accepted or none the run is known: ceil(39 / 5) or 39 steps after the first token. */
Test(speculation, steps_and_chunks) {
  const struct {
    const char *acceptance;
    uint32_t chunks; /* gaps of the first request */
  } row[] = {{"pools.main.speculative.acceptance=1", 8}, {"pools.main.speculative.acceptance=0", 39}};
  for (size_t i = 0; i < DS_ARRAY_LEN(row); i++) {
    ds_scenario sc;
    load("studies/engines/speculation-on.yaml", &row[i].acceptance, 1, &sc);
    ds_sim *sim = serve(&sc, 3, 64, 40, (ds_sim_options){.gaps = true, .records = true});
    const ds_result *r = ds_sim_result(sim);
    for (int q = 0; q < 3; q++) {
      const ds_record *rec = &r->records[q];
      cr_expect_eq(rec->n_chunks, row[i].chunks);
      uint32_t tokens = 1;
      int64_t t = rec->first_token_ns, longest = 0;
      for (uint32_t k = 0; k < rec->n_chunks; k++) {
        int64_t gap = r->gaps_ns[rec->itl_first + k];
        tokens += r->chunk_tokens[rec->itl_first + k];
        t += gap;
        if (gap > longest) longest = gap;
      }
      cr_expect_eq(tokens, 40);
      cr_expect_eq(t, rec->finish_ns);
      cr_expect_eq(longest, rec->max_itl_ns);
      int64_t blamed = 0;
      for (int c = 0; c < DS_CAUSE_N; c++) blamed += rec->blame_ns[c];
      cr_expect_eq(blamed, rec->finish_ns - rec->arrival_ns);
    }
    cr_expect_eq(r->itl->count, 3u * row[i].chunks);
    ds_sim_free(sim);
    ds_scenario_free(&sc);
  }
}

/* No drafts, no difference; with them the matrix products are those of as many rows more. */
Test(speculation, price) {
  ds_run run = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1);
  run.pool.speculative = (ds_speculation){.method = DS_DRAFT_NGRAM, .tokens = 4};
  ds_pricer *p = pricer_of(&run, 8192, 1024);
  for (int64_t n = 1; n <= 256; n *= 4) {
    double ctx = 700.0 * (double)n;
    ds_shape plain = shape_of(n, ctx), drafts = plain, wide = shape_of(5 * n, ctx);
    drafts.draft_tokens = 4 * n;
    ds_ops a, b, c;
    ds_price_ops(p, &plain, &a);
    ds_price_ops(p, &drafts, &b);
    ds_price_ops(p, &wide, &c);
    cr_expect_float_eq(b.gemm_attn, c.gemm_attn, 1e-15);
    cr_expect_float_eq(b.gemm_mlp, c.gemm_mlp, 1e-15);
    cr_expect_float_eq(b.lmhead, c.lmhead, 1e-15);
    cr_expect_float_eq(b.elt, c.elt, 1e-15);
    cr_expect_float_eq(b.engine, a.engine, 1e-15, "host work is by request");
    cr_expect(b.attn_dec >= a.attn_dec && b.attn_dec < 5 * a.attn_dec, "the cache is read once");
    ds_mixed_price m;
    ds_price_verify(p, &drafts, &m);
    cr_expect(fabs((double)m.total_ns / 1e9 - ds_ops_total(&b)) < 2e-9, "n-gram drafts are free");
    int64_t sum = 0;
    for (int i = 0; i < DS_PART_N; i++) sum += m.part_ns[i];
    cr_expect_eq(sum, m.total_ns);
    ds_price_mixed(p, &plain, &m);
    cr_expect_eq(m.total_ns, ds_decode_ns(ds_price_decode(p, n), ctx));
  }
  ds_pricer_free(p);
}

/* A pass of a draft model is an iteration of that model without host work; of a head, one layer and the output. */
Test(speculation, drafters) {
  ds_run run = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_FP8, DS_FMT_BF16, 1), own = run;
  ds_mixed_price free_of, with;
  for (int method = DS_DRAFT_MODEL; method <= DS_DRAFT_MTP; method++) {
    run.pool.speculative = (ds_speculation){.method = DS_DRAFT_NGRAM, .tokens = 4};
    ds_shape s = shape_of(8, 8000);
    s.draft_tokens = 32;
    s.draft_passes = 4;
    s.draft_rows = 8;
    ds_pricer *p = pricer_of(&run, 8192, 1024);
    ds_price_verify(p, &s, &free_of);
    ds_pricer_free(p);
    run.pool.speculative.method = (ds_draft_method)method;
    card_read(DS_CARD_MODEL, "llama-3.2-1b", &run.pool.speculative.draft);
    p = pricer_of(&run, 8192, 1024);
    ds_price_verify(p, &s, &with);
    ds_pricer_free(p);
    ds_run pass = own;
    pass.pool.engine.per_iteration_s = pass.pool.engine.per_request_s = 0;
    pass.weights = method == DS_DRAFT_MTP ? DS_FMT_FP8 : DS_FMT_BF16;
    if (method == DS_DRAFT_MODEL) card_read(DS_CARD_MODEL, "llama-3.2-1b", &pass.model);
    else pass.model.layers = 1;
    p = pricer_of(&pass, 8192, 1024);
    double once = ds_decode_s(ds_price_decode(p, 8), 8000);
    ds_pricer_free(p);
    cr_expect(fabs((double)(with.total_ns - free_of.total_ns) / 1e9 - 4 * once) < 2e-9, "%s", ds_draft_names[method]);
  }
}

static double cross(const double *batch, const double *gain, int n) {
  for (int i = 1; i < n; i++)
    if (gain[i - 1] >= 1 && gain[i] < 1)
      return batch[i - 1] + (batch[i] - batch[i - 1]) * (gain[i - 1] - 1) / (gain[i - 1] - gain[i]);
  return 0;
}

/* The pair of studies/engines: a gain for one request, a loss for many, and both where the cost model has them: the time
 * of a step of one token each, times the tokens that a verify step yields, against the time of a verify step. Every
 * step accepts one draft of four here, so that nobody is done before the others and the batch is what it says. */
Test(speculation, where_it_stops_paying) {
  enum { POINTS = 7, INPUT = 128, OUTPUT = 256 };
  static const double batch[POINTS] = {1, 16, 64, 128, 192, 256, 384};
  const char *sets[] = {"pools.main.speculative.acceptance=[1, 0, 0, 0]"};
  double simulated[POINTS], modelled[POINTS];
  ds_scenario off, on;
  load("studies/engines/speculation-off.yaml", NULL, 0, &off);
  load("studies/engines/speculation-on.yaml", sets, 1, &on);
  off.run.pool.engine.tokenise_s = on.run.pool.engine.tokenise_s = 0; /* they start together */
  ds_pricer *p = pricer_of(&on.run, 8192, 1024);
  double yield = ds_drafts_expected_tokens(&on.run.pool.speculative, 4);
  for (int i = 0; i < POINTS; i++) {
    int64_t n = (int64_t)batch[i];
    double tpot[2];
    for (int k = 0; k < 2; k++) {
      ds_sim *sim = serve(k ? &on : &off, (int)n, INPUT, OUTPUT, (ds_sim_options){0});
      const ds_result *r = ds_sim_result(sim);
      double sum = 0;
      for (size_t q = 0; q < r->n; q++) sum += (double)(r->e2e_ns[q] - r->ttft_ns[q]);
      tpot[k] = sum;
      ds_sim_free(sim);
    }
    simulated[i] = tpot[0] / tpot[1];
    ds_shape s = shape_of(n, (INPUT + OUTPUT / 2.0) * (double)n);
    double plain = (double)ds_decode_ns(ds_price_decode(p, n), s.decode_ctx);
    s.draft_tokens = 4 * n;
    s.draft_passes = 4;
    s.draft_rows = n;
    ds_mixed_price m;
    ds_price_verify(p, &s, &m);
    modelled[i] = yield * plain / (double)m.total_ns;
    cr_expect(fabs(simulated[i] / modelled[i] - 1) < 0.01, "batch %d: gain %.3f, by the cost model %.3f", (int)n,
              simulated[i], modelled[i]);
  }
  cr_expect(simulated[0] > 1, "one request gains: %.3f", simulated[0]);
  cr_expect(simulated[POINTS - 1] < 1, "many lose: %.3f", simulated[POINTS - 1]);
  double a = cross(batch, simulated, POINTS), b = cross(batch, modelled, POINTS);
  cr_expect(a > 0 && b > 0 && fabs(a / b - 1) < 0.05, "the gain is gone at %.0f, by the cost model at %.0f", a, b);
  ds_pricer_free(p);
  ds_scenario_free(&on);
  ds_scenario_free(&off);
}

/* The drafter takes memory: its weights, and KV beside the model's. */
Test(speculation, memory) {
  ds_run run = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1);
  ds_error err = {0};
  ds_memory none, draft, head;
  cr_assert_eq(ds_memory_footprint(&run, &none, &err), DS_OK, "%s", err.text);
  run.pool.speculative = (ds_speculation){.method = DS_DRAFT_MODEL, .tokens = 4};
  card_read(DS_CARD_MODEL, "llama-3.2-1b", &run.pool.speculative.draft);
  cr_assert_eq(ds_memory_footprint(&run, &draft, &err), DS_OK, "%s", err.text);
  run.pool.speculative.method = DS_DRAFT_EAGLE;
  cr_assert_eq(ds_memory_footprint(&run, &head, &err), DS_OK, "%s", err.text);
  /* Llama 3.2 1B: 1.24 G parameters in 16 bit; 16 layers of 8 heads of 64, keys and values. */
  cr_expect(fabs(draft.weight_bytes - none.weight_bytes - 2 * ds_model_params(&run.pool.speculative.draft)) < 1e6);
  cr_expect_float_eq(draft.kv_bytes_per_token - none.kv_bytes_per_token, 16 * 2 * 8 * 64 * 2, 1e-6);
  /* One of 32 layers. */
  cr_expect_float_eq(head.kv_bytes_per_token, none.kv_bytes_per_token * 33 / 32, 1e-6);
  double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336;
  cr_expect(fabs(head.weight_bytes - none.weight_bytes - 2 * layer) < 1e5);
  cr_expect(draft.kv_blocks < head.kv_blocks && head.kv_blocks < none.kv_blocks);
}

/* What moves and what is computed, for energy: the weights in every iteration, two FLOPs a weight and row, and the same
 * of the drafter for each of its passes. */
Test(speculation, work_of_model_and_drafter) {
  ds_scenario sc[2];
  load("studies/engines/speculation-off.yaml", NULL, 0, &sc[0]);
  const char *none[] = {"pools.main.speculative.acceptance=0"};
  load("studies/engines/speculation-on.yaml", none, 1, &sc[1]);
  double flops[2], bytes[2], iterations = 0;
  for (int k = 0; k < 2; k++) {
    ds_sim *sim = serve(&sc[k], 1, 16, 1000, (ds_sim_options){0});
    const ds_replica_totals *t = &ds_sim_result(sim)->replicas[0];
    cr_assert_eq(t->iterations, 1000u);
    iterations = (double)t->iterations;
    flops[k] = t->flops / iterations;
    bytes[k] = t->bytes / iterations;
    ds_sim_free(sim);
  }
  /* Llama 3.1 8B: 8.03 G parameters, 0.525 G of them looked up; 128 KiB of KV a token of 500 on average. */
  double weights = ds_model_params(&sc[0].run.model) - 128256.0 * 4096, kv = 500 * 131072.0;
  cr_expect(fabs(bytes[0] / (2 * weights + kv) - 1) < 0.01, "%g bytes an iteration, %g expected", bytes[0], 2 * weights + kv);
  double scores = 4 * 4096.0 * 32 * (16 + 500); /* queries with keys, and with values */
  double one = 2 * weights * (1 + 15.0 / iterations) + scores;
  cr_expect(fabs(flops[0] / one - 1) < 0.01, "%g FLOPs an iteration, %g expected", flops[0], one);
  /* Llama 3.2 1B shares its output layer with its embeddings: all of its weights count. Four passes of one row. */
  double draft = ds_model_params(&sc[1].run.pool.speculative.draft), draft_kv = 500 * 16 * 2 * 512 * 2.0;
  double more = 4 * (2 * draft + draft_kv);
  cr_expect(fabs((bytes[1] - bytes[0]) / more - 1) < 0.02, "%g bytes more, %g expected", bytes[1] - bytes[0], more);
  more = 4 * 2 * draft + 4 * (2 * weights + scores); /* and four rows more to verify */
  cr_expect(fabs((flops[1] - flops[0]) / more - 1) < 0.02, "%g FLOPs more, %g expected", flops[1] - flops[0], more);
  for (int k = 0; k < 2; k++) ds_scenario_free(&sc[k]);
}

/* A router that counts requests must see the end of one that drafts made short: 100 tokens in 21 iterations are over
 * long before the second request arrives, so both go to the first replica. */
Test(speculation, routers_see_early_ends) {
  static const char text[] =
      "scenario: 1\ncost: {model: linear, step: 10 ms, prefill_token: 0 ms, decode_sequence: 0 ms}\n"
      "router: {policy: least-outstanding}\n"
      "pools:\n  - {name: main, scheduler: vllm-v1, kv_blocks: 100, replicas: 2,\n"
      "     speculative: {method: ngram, tokens: 4, acceptance: 1}}\n"
      "workload: {requests: [{arrival: 0 s, input_tokens: 10, output_tokens: 100},\n"
      "                      {arrival: 300 ms, input_tokens: 10, output_tokens: 100}]}\n";
  ds_diag d;
  ds_error err = {DS_OK, -1, ""};
  ds_scenario sc;
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &tree, &sc, &d), "%s", d.text);
  for (int eager = 0; eager < 2; eager++) {
    const ds_sim_options opt = {.records = true, .eager = eager > 0};
    ds_sim *sim;
    cr_assert_eq(ds_sim_new(&sc.run, sc.sched, sc.route, &opt, &plain_alloc, &sim, &err), DS_OK, "%s", err.text);
    cr_assert_eq(ds_sim_feed(sim, sc.workload.inline_requests, 2, &err), DS_OK, "%s", err.text);
    ds_sim_close(sim);
    for (bool more = true; more;) cr_assert_eq(ds_sim_step(sim, 1000000, &more, &err), DS_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) {
      const ds_record *q = &ds_sim_result(sim)->records[i];
      cr_expect_eq(q->replica, 0u, "request %d, eager %d", i, eager);
      cr_expect_eq(q->finish_ns - q->arrival_ns, 210000000, "request %d, eager %d", i, eager);
    }
    ds_sim_free(sim);
  }
  ds_scenario_free(&sc);
}
