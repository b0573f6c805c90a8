// SPDX-License-Identifier: GPL-3.0-or-later
/* Iteration prices: against an independent evaluation of the formulas, against the reference
 * iterations where they are at hand, and against what must hold of any price. */
#include "cards.h"

#include <math.h>

/* Microseconds by operator, computed outside this project's code from the equations of gemm.c,
 * attention.c, collective.c and operators.c with the constants typed in again. chunks:
 * "fresh:cached:finished ...". */
typedef struct expectation {
  const char *hardware, *engine, *model;
  ds_format weights, kv;
  int64_t tensor_parallel, seqs;
  double ctx;
  const char *chunks;
  double us[8]; /* gemm_attn gemm_mlp attn_dec attn_pre elt ar lmhead engine */
} expectation;

static const expectation EXPECTED[] = {
    {"a100-80-sxm",
     "vllm-2025",
     "llama-3.1-8b",
     DS_FMT_FP8,
     DS_FMT_BF16,
     1,
     17,
     9001,
     "",
     {1770.888230, 4658.338683, 1360.343769, 0.000000, 320.577457, 0.000000, 697.540733,
      525.039195}},
    {"a100-80-sxm",
     "generic",
     "llama-2-13b",
     DS_FMT_INT4,
     DS_FMT_FP8,
     2,
     3,
     1234,
     "777:0:1",
     {15827.933566, 30598.230125, 648.689120, 1970.634740, 3752.904187, 4093.248707, 120.659110,
      532.000000}},
    {"a100-80-sxm",
     "generic",
     "llama-2-7b",
     DS_FMT_INT8,
     DS_FMT_BF16,
     1,
     64,
     50000,
     "300:1000:0",
     {4747.579207, 8659.629540, 20160.166397, 2647.958579, 1792.877493, 0.000000, 182.313423,
      1020.000000}},
    {"h100-sxm",
     "vllm-2025",
     "llama-2-7b",
     DS_FMT_BF16,
     DS_FMT_BF16,
     1,
     40,
     28000,
     "",
     {1758.439608, 3329.644715, 6068.014238, 0.000000, 347.869343, 0.000000, 99.981783,
      1208.327275}},
    {"h100-sxm",
     "vllm-2025",
     "codellama-34b",
     DS_FMT_BF16,
     DS_FMT_BF16,
     2,
     0,
     0,
     "2048:0:0",
     {20255.569672, 70158.612264, 0.000000, 4644.307945, 10119.795751, 10791.332754, 98.615648,
      49.708357}},
    {"h100-sxm",
     "generic",
     "llama-3.1-8b",
     DS_FMT_NVFP4,
     DS_FMT_FP8,
     16,
     5,
     4000,
     "129:64:1",
     {595.759267, 763.208295, 424.176222, 421.108824, 386.476218, 1166.481833, 37.973110,
      548.000000}},
    {"h100-sxm",
     "generic",
     "qwen3-8b",
     DS_FMT_INT8_WO,
     DS_FMT_BF16,
     4,
     1,
     1,
     "",
     {638.292548, 998.714320, 398.051656, 0.000000, 289.420539, 228.455786, 120.087649,
      508.000000}},
    {"h200-sxm",
     "vllm-2025",
     "qwen2.5-72b",
     DS_FMT_INT4,
     DS_FMT_BF16,
     4,
     200,
     123456,
     "100:28:1 1:5000:1 384:0:0",
     {8539.356694, 33559.934279, 4049.418825, 1630.552957, 3765.181417, 9883.165638, 310.054860,
      6050.760189}},
    {"h200-sxm",
     "vllm-2025",
     "llama-3.3-70b",
     DS_FMT_FP8,
     DS_FMT_FP8,
     2,
     128,
     400000,
     "512:512:1",
     {9696.004637, 35455.532136, 14211.219950, 2398.474824, 4544.846871, 6307.632452, 370.322415,
      3852.355062}},
    {"b200-sxm",
     "generic",
     "llama-3.1-405b",
     DS_FMT_NVFP4,
     DS_FMT_FP8,
     8,
     256,
     1000000,
     "2048:6144:1",
     {17131.099266, 51889.462686, 6417.696795, 15788.512745, 17189.017135, 62515.717738, 174.790108,
      2556.000000}},
    {"b200-sxm",
     "vllm-2025",
     "llama-3.2-1b",
     DS_FMT_MXFP4,
     DS_FMT_BF16,
     1,
     512,
     300000,
     "",
     {356.169060, 866.234783, 1594.561477, 0.000000, 278.870523, 0.000000, 189.445453,
      15230.587001}},
    {"b200-sxm",
     "vllm-2025",
     "qwen2.5-7b",
     DS_FMT_BF16,
     DS_FMT_FP8,
     4,
     33,
     70000,
     "64:0:1",
     {293.059876, 699.699039, 400.010331, 332.844849, 261.056841, 530.159530, 72.042571,
      1030.078211}},
    {"mi300x",
     "generic",
     "llama-3.1-405b",
     DS_FMT_FP8,
     DS_FMT_FP8,
     8,
     32,
     65536,
     "4096:0:1",
     {91095.238864, 330008.404876, 3226.418231, 22384.163947, 44767.983446, 200827.440000,
      189.099542, 764.000000}},
    {"mi300x",
     "vllm-2025",
     "llama-3.1-8b",
     DS_FMT_BF16,
     DS_FMT_BF16,
     1,
     300,
     200000,
     "",
     {2524.512204, 7781.689447, 8497.345603, 0.000000, 757.671935, 0.000000, 552.396647,
      8932.453395}},
};

static void parse_chunks(const char *text, bool with_flag, ds_shape *s) {
  while (*text != '\0') {
    long long fresh, cached;
    int finished = 1, used = 0;
    if (with_flag)
      cr_assert_eq(sscanf(text, "%lld:%lld:%d%n", &fresh, &cached, &finished, &used), 3);
    else
      cr_assert_eq(sscanf(text, "%lld:%lld%n", &fresh, &cached, &used), 2);
    shape_add_chunk(s, fresh, cached, finished != 0);
    text += used;
    if (*text == ' ') text++;
  }
}

/* What layers of bounded reach read of a batch of equal contexts and "fresh:cached ..." chunks. */
static void shape_within_reach(ds_shape *s, const ds_model *m, const char *chunks) {
  int64_t reach = ds_model_reach(m);
  if (reach == 0) return;
  if (s->decode_seqs > 0) {
    int64_t ctx = (int64_t)(s->decode_ctx / (double)s->decode_seqs);
    s->decode_near = (double)(s->decode_seqs * ds_attention_near(ctx, reach, m->chunked));
  }
  while (*chunks != '\0') {
    long long fresh, cached;
    int used = 0;
    cr_assert_eq(sscanf(chunks, "%lld:%lld%n", &fresh, &cached, &used), 2);
    s->prefill_near_pairs +=
        ds_attention_pairs((double)fresh, (double)cached, (double)reach, m->chunked);
    s->prefill_near_kv += ds_attention_kv((double)fresh, (double)cached, (double)reach, m->chunked);
    chunks += used;
    if (*chunks == ' ') chunks++;
  }
}

/* The two ways in give the same iteration as the sum of its operators, and causes that sum to it.
 */
static void check_against_ops(ds_pricer *p, const ds_shape *s, const ds_ops *ops) {
  double total = ds_ops_total(ops);
  ds_mixed_price m;
  ds_price_mixed(p, s, &m);
  cr_assert_leq(fabs((double)m.total_ns - total * 1e9), 0.5 + total * 1e-3,
                "mixed %lld, ops %.3f ns", (long long)m.total_ns, total * 1e9);
  int64_t sum = 0;
  for (int i = 0; i < DS_PART_N; i++) {
    cr_assert_geq(m.part_ns[i], 0);
    sum += m.part_ns[i];
  }
  cr_assert_eq(sum, m.total_ns);
  if (s->prefill_tokens > 0 || s->decode_seqs == 0) return;
  const ds_decode_price *d = ds_price_decode(p, s->decode_seqs);
  double got = d->general ? ds_decode_general_s(d, s->decode_ctx, s->decode_near)
                          : ds_decode_s(d, s->decode_ctx);
  cr_assert_leq(fabs(got - total), total * 1e-12, "decode %.17g, ops %.17g", got, total);
  cr_assert_eq(m.total_ns, ds_ns_of_s(got));
}

/* The reference knows the pooled kernels only, and the engine's constants to more digits than the cards keep. */
static void as_reference(ds_run *run) {
  ds_engine_card *e = &run->pool.engine;
  memset(run->pool.hw.library, 0, sizeof run->pool.hw.library);
  run->pool.hw.allreduce.e3 = 0;
  e->prompt_layer_s = e->prompt_product_s = e->prompt_mxfp4_s = 0;
  if (e->expert_rho > 0) e->expert_rho = 0.8115458794563392;
  e->experts_gather = false; /* it knows the all-to-all alone, and one excess of the busiest rank */
  e->rank_spread = 0;
  run->model.qk_norm = false; /* nor kernels for the norms of queries and keys */
  if (strcmp(e->name, "vllm-2025") == 0) {
    e->per_iteration_s = 20.000179832359308e-6;
    e->per_request_s = 29.708177384790005e-6;
    e->small_kernel_s = 1.9146464720487038e-6;
  }
}

Test(price, agrees_with_an_independent_evaluation) {
  for (size_t i = 0; i < DS_ARRAY_LEN(EXPECTED); i++) {
    const expectation *e = &EXPECTED[i];
    ds_run run = run_of(e->model, e->hardware, e->engine, e->weights, e->kv, e->tensor_parallel);
    run.pool.hw.scale_up_devices = 0; /* sixteen on one network too */
    as_reference(&run);
    ds_pricer *p = pricer_of(&run, 2048, 256);
    ds_shape s = shape_of(e->seqs, e->ctx);
    parse_chunks(e->chunks, true, &s);
    ds_ops o;
    ds_price_ops(p, &s, &o);
    const double got[8] = {o.gemm_attn, o.gemm_mlp, o.attn_dec, o.attn_pre,
                           o.elt,       o.ar,       o.lmhead,   o.engine};
    for (int k = 0; k < 8; k++)
      cr_assert_leq(fabs(got[k] * 1e6 - e->us[k]), 1e-6 + 1e-9 * e->us[k],
                    "row %zu (%s on %s) column %d: %.9f, expected %.6f", i, e->model, e->hardware,
                    k, got[k] * 1e6, e->us[k]);
    cr_assert_eq(o.moe, 0);
    cr_assert_eq(o.a2a, 0);
    check_against_ops(p, &s, &o);
    ds_pricer_free(p);
  }
}

/* Columns of the reference iterations. */
enum {
  HW,
  ENGINE,
  MODEL,
  QUANT,
  QUANT_MOE,
  TP,
  EP,
  DP,
  KV_BYTES,
  DEC_B,
  DEC_CTX,
  CHUNKS,
  FIRST_US,
  N_COLUMNS = FIRST_US + 11
};

static size_t split_csv(char *line, char *cell[], size_t cap) {
  size_t n = 0;
  line[strcspn(line, "\r\n")] = '\0';
  for (char *at = line; at != NULL && n < cap; n++) {
    cell[n] = at;
    at = strchr(at, ',');
    if (at != NULL) *at++ = '\0';
  }
  return n;
}

static bool reference_run(char *cell[], ds_run *out) {
  static const char *const models[][2] = {
      {"Llama-3.1-8B", "llama-3.1-8b"},       {"Llama-3.1-70B", "llama-3.1-70b"},
      {"Llama-2-70B", "llama-2-70b"},         {"Qwen3-32B", "qwen3-32b"},
      {"OPT-66B", "opt-66b"},                 {"Qwen3-30B-A3B", "qwen3-30b-a3b"},
      {"Qwen3-235B-A22B", "qwen3-235b-a22b"}, {"Mixtral-8x7B", "mixtral-8x7b"},
      {"DeepSeek-V3/R1", "deepseek-v3"},      {"gpt-oss-120b", "gpt-oss-120b"}};
  static const char *const parts[][2] = {{"a100_sxm", "a100-80-sxm"},
                                         {"h100_sxm", "h100-sxm"},
                                         {"h200_sxm", "h200-sxm"},
                                         {"b200_sxm", "b200-sxm"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(models); i++) {
    if (strcmp(cell[MODEL], models[i][0]) != 0) continue;
    const char *part = NULL;
    for (size_t k = 0; k < DS_ARRAY_LEN(parts); k++)
      if (strcmp(cell[HW], parts[k][0]) == 0) part = parts[k][1];
    cr_assert_not_null(part, "%s", cell[HW]);
    bool a100 = strcmp(cell[HW], "a100_sxm") == 0;
    ds_format weights = DS_FMT_BF16;
    if (strcmp(cell[QUANT], "nvfp4") == 0) weights = DS_FMT_NVFP4;
    /* The reference prices fp8 on the A100 as W8A8 int8; ours is then called what it is. */
    if (strcmp(cell[QUANT], "fp8") == 0) weights = a100 ? DS_FMT_INT8 : DS_FMT_FP8;
    ds_format kv = a100 ? DS_FMT_INT8 : DS_FMT_FP8;
    if (atoi(cell[KV_BYTES]) != 1) kv = DS_FMT_BF16;
    /* Its tensor-parallel width counts the groups of data-parallel attention too. */
    *out = run_of(models[i][1], part, strcmp(cell[ENGINE], "vllm") == 0 ? "vllm-2025" : "generic",
                  weights, kv, atoi(cell[TP]) / atoi(cell[DP]));
    out->pool.data_parallel = atoi(cell[DP]);
    out->pool.expert_parallel = atoi(cell[EP]);
    if (strcmp(cell[QUANT_MOE], "mxfp4") == 0) out->expert_weights = DS_FMT_MXFP4;
    /* For MXFP4 experts on the A100 it took the middle of other parts. */
    if (a100) out->pool.hw.moe[DS_MOE_MXFP4] = (ds_eff_moe){0.38, 0.6, 50e-6, 42, 0.6, 0.3};
    return true;
  }
  return false;
}

/* The reference shares the plain layers and the output layer of attention groups out among all ranks, without the
 * gathers that this takes. Engines keep both whole in every group (cost/operators.c), so each rank does what a lone one
 * would, whose price the reference has in its other rows. */
static void keep_whole(const ds_run *run, const ds_shape *s, double want_us[11]) {
  ds_run lone = *run;
  lone.pool.tensor_parallel = lone.pool.data_parallel = lone.pool.expert_parallel = 1;
  ds_pricer *p = pricer_of(&lone, 4096, 512);
  ds_ops o;
  ds_price_ops(p, s, &o);
  ds_pricer_free(p);
  const double own[3][2] = {{1, o.gemm_mlp}, {5, o.elt}, {8, o.lmhead}};
  for (size_t i = 0; i < DS_ARRAY_LEN(own); i++) {
    int column = (int)own[i][0];
    want_us[10] += own[i][1] * 1e6 - want_us[column];
    want_us[column] = own[i][1] * 1e6;
  }
}

Test(price, reference_iterations) {
  const char *folder = getenv("DRYSERVE_SHARED");
  char path[512], line[1024];
  snprintf(path, sizeof path, "%s/data/kernels/golden_iterations.csv",
           folder != NULL ? folder : "../shared");
  FILE *f = fopen(path, "r");
  if (f == NULL) cr_skip_test("no %s", path);
  int rows = 0;
  double worst = 0;
  cr_assert_not_null(fgets(line, sizeof line, f));
  while (fgets(line, sizeof line, f) != NULL) {
    char *cell[N_COLUMNS];
    char copy[1024];
    strcpy(copy, line);
    cr_assert_eq(split_csv(line, cell, N_COLUMNS), N_COLUMNS);
    ds_run run;
    if (!reference_run(cell, &run)) continue;
    rows++;
    as_reference(&run);
    ds_pricer *p = pricer_of(&run, 4096, 512);
    ds_shape s = shape_of(atoi(cell[DEC_B]), atof(cell[DEC_B]) * atof(cell[DEC_CTX]));
    parse_chunks(cell[CHUNKS], false, &s);
    shape_within_reach(&s, &run.model, cell[CHUNKS]);
    ds_ops o;
    ds_price_ops(p, &s, &o);
    const double got[11] = {o.gemm_attn, o.gemm_mlp, o.moe,    o.attn_dec, o.attn_pre,      o.elt,
                            o.ar,        o.a2a,      o.lmhead, o.engine,   ds_ops_total(&o)};
    double want_us[11];
    for (int k = 0; k < 11; k++) want_us[k] = atof(cell[FIRST_US + k]);
    if (run.pool.data_parallel > 1) keep_whole(&run, &s, want_us);
    for (int k = 0; k < 11; k++) {
      double want = want_us[k], error = fabs(got[k] * 1e6 - want);
      double allowed = fmax(1e-6 * want, 0.0006);
      if (error > worst) worst = error;
      cr_assert_leq(error, allowed, "column %d: %.6f us in %s", k, got[k] * 1e6, copy);
    }
    check_against_ops(p, &s, &o);
    ds_pricer_free(p);
  }
  fclose(f);
  cr_log_info("%d reference iterations, largest error %.6f us", rows, worst);
  cr_assert_eq(rows, 588);
}

/* Models, parts and splits for what must hold everywhere. */
static const struct {
  const char *model, *hardware;
  ds_format weights, kv;
} GRID[] = {{"llama-3.1-8b", "h100-sxm", DS_FMT_BF16, DS_FMT_BF16},
            {"llama-3.1-70b", "a100-80-sxm", DS_FMT_INT8, DS_FMT_BF16},
            {"llama-3.1-70b", "h200-sxm", DS_FMT_FP8, DS_FMT_FP8},
            {"llama-2-13b", "mi300x", DS_FMT_BF16, DS_FMT_BF16},
            {"llama-3.1-405b", "b200-sxm", DS_FMT_NVFP4, DS_FMT_FP8},
            {"qwen2.5-7b", "h200-sxm", DS_FMT_INT4, DS_FMT_FP8},
            {"qwen3-32b", "b200-sxm", DS_FMT_BF16, DS_FMT_BF16},
            {"llama-2-7b", "a100-80-sxm", DS_FMT_FP8, DS_FMT_FP8}};
static const int64_t COUNTS[] = {1, 2, 7, 8, 33, 64, 65, 128, 129, 200, 256, 500};

Test(price, time_never_falls) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    ds_run run =
        run_of(GRID[g].model, GRID[g].hardware, "vllm-2025", GRID[g].weights, GRID[g].kv, 4);
    ds_pricer *p = pricer_of(&run, 2048, 512);
    int64_t last = 0;
    for (int64_t n = 1; n <= 600;
         n++) { /* with the batch, at 300 tokens each; past the tables too */
      int64_t t = ds_decode_ns(ds_price_decode(p, n), 300.0 * (double)n);
      cr_assert_geq(t + 1, last, "%s: %lld sequences", GRID[g].model, (long long)n);
      last = t;
    }
    last = 0;
    for (double ctx = 64; ctx < 4e6; ctx = ctx * 1.07 + 1) { /* with the context */
      int64_t t = ds_decode_ns(ds_price_decode(p, 64), ds_floor(ctx));
      cr_assert_geq(t, last);
      last = t;
    }
    last = 0;
    for (int64_t tokens = 1; tokens <= 2500; tokens += 1 + tokens / 9) { /* with the prompt */
      ds_shape s = shape_of(16, 16000);
      shape_add_chunk(&s, tokens, 512, true);
      ds_mixed_price m;
      ds_price_mixed(p, &s, &m);
      cr_assert_geq(m.total_ns + 1, last, "%s: %lld tokens", GRID[g].model, (long long)tokens);
      cr_assert_gt(m.total_ns,
                   ds_decode_ns(ds_price_decode(p, 16), 16000)); /* and more than without it */
      last = m.total_ns;
    }
    ds_pricer_free(p);
  }
}

Test(price, two_devices_at_most_halve_the_time) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    for (int64_t tp = 1; tp <= 2; tp *= 2) {
      ds_run one = run_of(GRID[g].model, GRID[g].hardware, "generic", GRID[g].weights, GRID[g].kv,
                          tp),
             two = one;
      two.pool.tensor_parallel = 2 * tp;
      ds_pricer *a = pricer_of(&one, 2048, 512), *b = pricer_of(&two, 2048, 512);
      for (size_t i = 0; i < DS_ARRAY_LEN(COUNTS); i++) {
        ds_shape s = shape_of(COUNTS[i], 700.0 * (double)COUNTS[i]);
        for (int prefill = 0; prefill < 2; prefill++) {
          if (prefill) shape_add_chunk(&s, 3 * COUNTS[i], 100, true);
          ds_mixed_price t1, t2;
          ds_price_mixed(a, &s, &t1);
          ds_price_mixed(b, &s, &t2);
          cr_assert_geq(2 * t2.total_ns + 2, t1.total_ns, "%s, %lld rows", GRID[g].model,
                        (long long)COUNTS[i]);
        }
      }
      ds_pricer_free(a);
      ds_pricer_free(b);
    }
  }
}

Test(price, nothing_beats_the_speed_of_light) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    for (int64_t tp = 1; tp <= 4; tp *= 2) {
      ds_run real = run_of(GRID[g].model, GRID[g].hardware, "vllm-2025", GRID[g].weights,
                           GRID[g].kv, tp),
             light = real;
      light.cost_tier = DS_COST_SPEED_OF_LIGHT;
      ds_pricer *a = pricer_of(&real, 2048, 512), *b = pricer_of(&light, 2048, 512);
      for (size_t i = 0; i < DS_ARRAY_LEN(COUNTS); i++) {
        for (size_t k = 0; k < DS_ARRAY_LEN(COUNTS); k++) {
          for (int kind = 0; kind < 3; kind++) { /* decode, prefill, both */
            ds_shape s = kind == 1
                             ? shape_of(0, 0)
                             : shape_of(COUNTS[i], ds_floor(exp2((double)k)) * (double)COUNTS[i]);
            if (kind > 0) shape_add_chunk(&s, 4 * COUNTS[k], 1000 * (int64_t)(i % 3), i % 2 == 0);
            ds_mixed_price real_ns, light_ns;
            ds_price_mixed(a, &s, &real_ns);
            ds_price_mixed(b, &s, &light_ns);
            double floor_ns = ds_price_floor_s(a, &s) * 1e9;
            cr_assert_eq(floor_ns, ds_price_floor_s(b, &s) * 1e9);
            cr_assert_gt(floor_ns, 0);
            cr_assert_leq(floor_ns, (double)light_ns.total_ns + 0.5, "%s on %s", GRID[g].model,
                          GRID[g].hardware);
            cr_assert_lt(light_ns.total_ns, real_ns.total_ns, "%s on %s", GRID[g].model,
                         GRID[g].hardware);
            cr_assert_eq(light_ns.part_ns[DS_PART_COMM], 0);
            cr_assert_eq(light_ns.part_ns[DS_PART_HOST], 0);
            ds_ops o;
            ds_price_ops(b, &s, &o);
            check_against_ops(b, &s, &o);
          }
        }
      }
      ds_pricer_free(a);
      ds_pricer_free(b);
    }
  }
}

/* Llama 2 7B on one H100 at 16 bit, one sequence: the weights read once at 3.35 TB/s, and nothing
 * else to speak of. */
Test(price, speed_of_light_of_one_sequence) {
  ds_run run = run_of("llama-2-7b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
  run.cost_tier = DS_COST_SPEED_OF_LIGHT;
  ds_pricer *p = pricer_of(&run, 64, 4);
  ds_shape s = shape_of(1, 100);
  double layer = 4096.0 * 4096 * 4 + 3.0 * 4096 * 11008;
  double weights = 2 * (32 * layer + 4096.0 * 32000), kv = 100 * 524288.0;
  cr_assert_float_eq(ds_price_floor_s(p, &s), (weights + kv) / 3.35e12, 1e-15);
  double seconds = (double)ds_decode_ns(ds_price_decode(p, 1), 100) * 1e-9;
  cr_assert_geq(seconds, (weights + kv) / 3.35e12);
  cr_assert_leq(seconds, (weights + kv) / 3.35e12 * 1.002); /* activations are small */
  double flops, bytes;
  ds_price_work(p, &s, 1, &flops, &bytes);
  cr_assert_float_eq(flops, weights + 32 * 4.0 * 4096 * 100,
                     1); /* two per weight, which has two bytes */
  cr_assert_geq(bytes, weights + kv);
  cr_assert_leq(bytes, (weights + kv) * 1.002);
  /* Prefill of many tokens is bound by arithmetic: 2 FLOPs per weight and token. */
  ds_shape prompt = shape_of(0, 0);
  shape_add_chunk(&prompt, 2048, 0, true);
  double want =
      (2 * 2048.0 * 32 * layer + 2 * 4096.0 * 32000 + 32 * 4.0 * 4096 * (2048 * 2049 / 2.0)) /
      989.4e12;
  cr_assert_float_eq(ds_price_floor_s(p, &prompt), want, want * 1e-12);
  ds_pricer_free(p);
}

Test(price, constant_parts_never_exceed_the_iteration) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    for (int tier = 0; tier < 2; tier++) {
      ds_run run =
          run_of(GRID[g].model, GRID[g].hardware, "vllm-2025", GRID[g].weights, GRID[g].kv, 2);
      run.cost_tier = tier ? DS_COST_SPEED_OF_LIGHT : DS_COST_ROOFLINE;
      ds_pricer *p = pricer_of(&run, 64, 300);
      for (int64_t n = 1; n <= 300; n++) {
        const ds_decode_price *d = ds_price_decode(p, n);
        int64_t fixed = 0;
        for (int i = 0; i < DS_PART_N; i++) {
          cr_assert_geq(d->fixed_ns[i], 0);
          fixed += d->fixed_ns[i];
        }
        cr_assert_leq(fixed, ds_decode_ns(d, (double)n));
        cr_assert_eq(fixed, (int64_t)(d->base_s * 1e9));
      }
      ds_pricer_free(p);
    }
  }
}

Test(price, linear_is_exact) {
  ds_run run;
  memset(&run, 0, sizeof run);
  run.cost_tier = DS_COST_LINEAR;
  run.linear = (ds_linear){0.010, 0.0001, 0.001, 0, 0, 0};
  ds_pricer *p = pricer_of(&run, 100, 10); /* no model, no hardware */
  for (int64_t n = 1; n <= 20; n++) {
    const ds_decode_price *d = ds_price_decode(p, n);
    cr_assert_eq(ds_decode_ns(d, 1e6), 10000000 + 1000000 * n);
    cr_assert_eq(d->fixed_ns[DS_PART_HOST], 10000000);
    cr_assert_eq(d->fixed_ns[DS_PART_MEMORY], 1000000 * n);
    for (int64_t tokens = 0; tokens < 400; tokens += 13) {
      ds_shape s = shape_of(n, 50);
      if (tokens > 0) shape_add_chunk(&s, tokens, 0, true);
      ds_mixed_price m;
      ds_price_mixed(p, &s, &m);
      cr_assert_eq(m.total_ns, 10000000 + 1000000 * n + 100000 * tokens);
      cr_assert_eq(m.part_ns[DS_PART_COMPUTE], 100000 * tokens);
      cr_assert_eq(m.part_ns[DS_PART_HOST], 10000000);
      cr_assert_eq(ds_price_floor_s(p, &s), 0);
      ds_ops o;
      ds_price_ops(p, &s, &o);
      cr_assert_float_eq(ds_ops_total(&o), (double)m.total_ns * 1e-9, 1e-15);
    }
  }
  ds_pricer_free(p);
}

/* Nanoseconds are shared out by largest remainder, the first cause winning a tie. */
Test(price, largest_remainders_get_what_is_left) {
  const struct {
    double memory, compute, host; /* nanoseconds */
    int64_t expected[DS_PART_N];  /* memory, compute, communication, host */
  } cases[] = {{30.4, 20.3, 10.6, {30, 20, 0, 11}},
               {30.9, 20.3, 10.9, {31, 20, 0, 11}},
               {30.5, 20.5, 10.0, {31, 20, 0, 10}},
               {0.1, 7.8, 3.0, {0, 8, 0, 3}},
               {5.0, 6.0, 7.0, {5, 6, 0, 7}}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_run run;
    memset(&run, 0, sizeof run);
    run.cost_tier = DS_COST_LINEAR;
    run.linear =
        (ds_linear){cases[i].host * 1e-9, cases[i].compute * 1e-9, cases[i].memory * 1e-9, 0, 0, 0};
    ds_pricer *p = pricer_of(&run, 4, 4);
    ds_shape s = shape_of(1, 1);
    shape_add_chunk(&s, 1, 0, true);
    ds_mixed_price m;
    ds_price_mixed(p, &s, &m);
    for (int k = 0; k < DS_PART_N; k++)
      cr_assert_eq(m.part_ns[k], cases[i].expected[k], "case %zu, part %d: %lld", i, k,
                   (long long)m.part_ns[k]);
    ds_pricer_free(p);
  }
}

/* Causes: host is the engine and the fixed time of 4 small kernels a layer and one at the end;
 * communication is the all-reduces; one sequence waits for memory, a long prompt for arithmetic. */
Test(price, causes_of_an_iteration) {
  ds_run run = run_of("llama-3.1-70b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 8);
  ds_pricer *p = pricer_of(&run, 8192, 64);
  const ds_engine_card *e = &run.pool.engine;
  const ds_eff_allreduce *a = &run.pool.hw.allreduce;
  for (int64_t tokens = 0; tokens <= 8192; tokens += 2048) {
    ds_shape s = shape_of(1, 1000);
    if (tokens > 0) shape_add_chunk(&s, tokens, 0, true);
    ds_mixed_price m;
    ds_price_mixed(p, &s, &m);
    double rows = tokens > 0 ? 2 : 1;
    double host = e->per_iteration_s + rows * e->per_request_s + (4 * 80 + 1) * e->small_kernel_s;
    cr_assert_leq(fabs((double)m.part_ns[DS_PART_HOST] - host * 1e9), 1.0);
    double bytes[2] = {(double)(tokens + 1) * 8192 * 2, rows * 128256 / 8 * 2}, comm = 0;
    for (int i = 0; i < 2; i++) {
      double one = a->a1_s + 7 * a->b_s + 7 * bytes[i] / (450e9 * a->e1),
             two = a->a2_s + 7 * a->b_s + 2 * 7.0 / 8 * bytes[i] / (450e9 * a->e2),
             in_switch = a->a3_s + bytes[i] / (450e9 * a->e3);
      comm += (i == 0 ? 160 : 1) * fmin(fmin(one, two), in_switch);
    }
    cr_assert_leq(fabs((double)m.part_ns[DS_PART_COMM] - comm * 1e9), 1.0);
    if (tokens == 0) {
      cr_assert_eq(m.part_ns[DS_PART_COMPUTE], 0);
      const ds_decode_price *d = ds_price_decode(p, 1);
      cr_assert_eq(m.part_ns[DS_PART_HOST], d->fixed_ns[DS_PART_HOST]);
      cr_assert_eq(m.part_ns[DS_PART_MEMORY],
                   m.total_ns - d->fixed_ns[DS_PART_HOST] - d->fixed_ns[DS_PART_COMM]);
    } else {
      cr_assert_gt(m.part_ns[DS_PART_COMPUTE], 3 * m.part_ns[DS_PART_MEMORY]);
    }
  }
  ds_pricer_free(p);
}

/* Counts beyond the memo tables cost the same as inside larger ones. */
Test(price, memo_length_does_not_matter) {
  ds_run run = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_FP8, DS_FMT_FP8, 1);
  ds_pricer *small = pricer_of(&run, 8, 2), *large = pricer_of(&run, 4096, 512);
  for (int64_t n = 1; n <= 512; n += 7) {
    cr_assert_eq(ds_decode_ns(ds_price_decode(small, n), 999.0 * (double)n),
                 ds_decode_ns(ds_price_decode(large, n), 999.0 * (double)n));
    ds_shape s = shape_of(n, 100.0 * (double)n);
    shape_add_chunk(&s, 5 * n, 40, n % 2 == 0);
    ds_mixed_price a, b, again;
    ds_price_mixed(small, &s, &a);
    ds_price_mixed(large, &s, &b);
    ds_price_mixed(large, &s, &again);
    cr_assert_eq(memcmp(&a, &b, sizeof a), 0);
    cr_assert_eq(memcmp(&a, &again, sizeof a), 0);
  }
  ds_pricer_free(small);
  ds_pricer_free(large);
}

typedef struct rationed {
  int64_t left;
  int64_t live_bytes;
} rationed;

static void *rationed_resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  rationed *r = opaque;
  if (new_bytes == 0) {
    r->live_bytes -= (int64_t)old_bytes;
    free(old);
    return NULL;
  }
  if (r->left-- <= 0) return NULL;
  void *q = realloc(old, new_bytes);
  if (q != NULL) r->live_bytes += (int64_t)new_bytes - (int64_t)old_bytes;
  return q;
}

Test(price, runs_out_of_memory_cleanly) {
  ds_run run = run_of("llama-3.1-8b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
  for (int64_t k = 0; k < 6; k++) {
    rationed r = {k, 0};
    ds_alloc a = {rationed_resize, &r};
    ds_pricer *p = NULL;
    ds_error err = {0};
    ds_status s = ds_pricer_new(&run, 100, 10, &a, &p, &err);
    cr_assert_eq(s, k < 4 ? DS_E_NOMEM : DS_OK, "%lld allocations", (long long)k);
    cr_assert_eq(p == NULL, k < 4);
    if (p == NULL) cr_assert_eq(err.status, DS_E_NOMEM);
    ds_pricer_free(p);
    cr_assert_eq(r.live_bytes, 0);
  }
}
