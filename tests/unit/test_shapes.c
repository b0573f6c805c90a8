// SPDX-License-Identifier: GPL-3.0-or-later
/* Layers that are not plain attention over everything, experts, and replicas of several stages and
 * attention groups: against sums by hand, and against what must hold. */
#include "cards.h"

#include <math.h>

#include "base/num.h"
#include "core/registry.h"
#include "cost/memory.h"
#include "cost/operators.h"
#include "engine/sim.h"
#include "io/scenario.h"

/* What each new token reads, one by one. */
Test(shapes, pairs_and_cached_tokens_within_reach) {
  static const int64_t lengths[] = {1, 2, 5, 8, 9, 16, 31}, cached[] = {0, 1, 3, 7, 8, 9, 24, 40};
  for (size_t i = 0; i < DS_ARRAY_LEN(lengths); i++) {
    for (size_t k = 0; k < DS_ARRAY_LEN(cached); k++) {
      for (int64_t reach = 0; reach <= 40; reach += 4) {
        for (int chunked = 0; chunked < (reach > 0 ? 2 : 1); chunked++) {
          int64_t s = lengths[i], c = cached[k], pairs = 0, first = c + s;
          for (int64_t at = c + 1; at <= c + s; at++) { /* the token at place `at`, from 1 */
            int64_t reads = reach == 0 ? at : ds_attention_near(at, reach, chunked);
            pairs += reads;
            if (at - reads < first) first = at - reads;
          }
          cr_assert_eq(ds_attention_pairs((double)s, (double)c, (double)reach, chunked),
                       (double)pairs, "%lld after %lld within %lld%s", (long long)s, (long long)c,
                       (long long)reach, chunked ? ", chunked" : "");
          double kv = ds_attention_kv((double)s, (double)c, (double)reach, chunked);
          cr_assert_geq(kv, (double)(c + s - first)); /* the model reads whole blocks of the window */
          cr_assert_leq(kv, (double)(c + s));
        }
      }
    }
  }
}

/* A run of a model with windows, priced by walking the batch in every iteration. */
static void windows_by_hand(bool chunked) {
  enum { N = 12 };
  static const char text[] =
      "scenario: 1\nmodel: llama-3.1-8b\npools:\n  - {name: main, hardware: h100-sxm, engine: "
      "generic, scheduler: vllm-v1, kv_blocks: 4000, scheduler_options: {max_num_seqs: 64}}\n"
      "router: {policy: round-robin}\nworkload: {requests: [{arrival_ns: 0, input_tokens: 1, "
      "output_tokens: 1}]}\n";
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
  ds_run run = sc.run;
  ds_scenario_free(&sc);
  run.model.window = 24;
  run.model.full_layers = 5;
  run.model.chunked = chunked;
  const ds_sched_ops *sched = ds_scheduler_find("vllm-v1");
  ds_request r[N];
  memset(r, 0, sizeof r);
  for (uint32_t i = 0; i < N; i++) {
    r[i].input_tokens = 1 + 7 * i % 40;
    r[i].output_tokens = r[i].max_tokens = 2 + 13 * i % 70;
  }
  const ds_sim_options opt = {0};
  ds_error err = {0};
  ds_sim *s = NULL;
  cr_assert_eq(ds_sim_new(&run, sched, ds_router_find("round-robin"), &opt, &plain_alloc, &s, &err),
               DS_OK, "%s", err.text);
  cr_assert_eq(ds_sim_feed(s, r, N, &err), DS_OK, "%s", err.text);
  ds_sim_close(s);
  for (bool more = true; more;) cr_assert_eq(ds_sim_step(s, 1000, &more, &err), DS_OK);
  const ds_result *res = ds_sim_result(s);

  ds_pricer *p = pricer_of(&run, 2048, 64);
  ds_shape all;
  memset(&all, 0, sizeof all);
  for (int i = 0; i < N; i++) {
    double n = r[i].input_tokens;
    shape_add_chunk(&all, r[i].input_tokens, 0, true);
    all.prefill_near_pairs += ds_attention_pairs(n, 0, 24, chunked);
    all.prefill_near_kv += ds_attention_kv(n, 0, 24, chunked);
  }
  int64_t t = ds_price_mixed_ns(p, &all), out[N];
  for (uint32_t done = 1, left = N; left > 0; done++) {
    int64_t rows = 0, ctx = 0, near = 0;
    for (int i = 0; i < N; i++) {
      if (r[i].output_tokens == done) out[i] = t, left--;
      if (r[i].output_tokens <= done) continue;
      int64_t c = (int64_t)r[i].input_tokens + done;
      rows++;
      ctx += c;
      near += chunked ? (c - 1) % 24 + 1 : c < 24 ? c : 24;
    }
    if (rows > 0) t += ds_decode_general_ns(ds_price_decode(p, rows), (double)ctx, (double)near);
  }
  for (size_t i = 0; i < N; i++) {
    bool found = false;
    for (size_t k = 0; k < res->n; k++) found = found || res->e2e_ns[k] == out[i];
    cr_assert(found, "request %zu should end at %lld", i, (long long)out[i]);
  }
  ds_pricer_free(p);
  ds_sim_free(s);
}

Test(shapes, the_engine_counts_sliding_windows) { windows_by_hand(false); }
Test(shapes, the_engine_counts_chunks) { windows_by_hand(true); }

/* Sampling k of E experts for each of T tokens, T independent: how many are hit. */
Test(shapes, experts_touched) {
  ds_run run = run_of("qwen3-30b-a3b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
  run.pool.engine.expert_rho = 1;
  ds_moe m = ds_moe_bind(&run, false);
  uint64_t state = 88172645463325252ull;
  for (int tokens = 1; tokens <= 64; tokens *= 4) {
    double sum = 0;
    for (int trial = 0; trial < 400; trial++) {
      bool hit[128] = {false};
      int touched = 0;
      for (int t = 0; t < tokens; t++) {
        int pick[8];
        for (int i = 0; i < 8;) { /* k different ones */
          state ^= state << 13, state ^= state >> 7, state ^= state << 17;
          int e = (int)(state % 128), same = 0;
          for (int j = 0; j < i; j++) same |= pick[j] == e;
          if (same) continue;
          pick[i++] = e;
          touched += !hit[e];
          hit[e] = true;
        }
      }
      sum += touched;
    }
    double got = ds_moe_touched(&m, tokens);
    cr_assert_leq(fabs(got - sum / 400), 0.02 * got + 0.2, "%d tokens: %.2f, drawn %.2f", tokens,
                  got, sum / 400);
  }
  run.pool.engine.expert_rho = 0.8;
  ds_moe alike = ds_moe_bind(&run, false);
  cr_assert_lt(ds_moe_touched(&alike, 64), ds_moe_touched(&m, 64)); /* tokens that choose alike */
  cr_assert_float_eq(ds_moe_touched(&m, 1), 8, 1e-9);
}

/* An uneven router makes ranks wait for the busiest; the experts of one device share a kernel. */
Test(shapes, skew_counts_between_ranks) {
  ds_run one = run_of("qwen3-30b-a3b", "h100-sxm", "trtllm-2025", DS_FMT_BF16, DS_FMT_BF16, 2), two;
  one.pool.engine.rank_spread = 0;
  two = one;
  two.pool.expert_parallel = 2;
  ds_moe a = ds_moe_bind(&one, false), b = ds_moe_bind(&two, false);
  cr_assert_eq(a.skew, 0);
  cr_assert_eq(b.skew, one.pool.hw.moe[DS_MOE_BF16].skew);
  one.pool.engine.skew_within_rank = true;
  a = ds_moe_bind(&one, false);
  cr_assert_eq(a.skew, b.skew);
  two.pool.redundant_experts = 8;
  b = ds_moe_bind(&two, false);
  cr_assert_eq(b.skew, 0);
}

/* The busiest of n ranks against drawn loads: E experts' loads of deviation 1 (exponential), E / n of them a rank. The
 * law of their sum has a longer tail than the normal one that the equation takes, so that it stays somewhat below. */
Test(shapes, the_busiest_rank) {
  ds_run run = run_of("deepseek-r1", "h200-sxm", "generic", DS_FMT_FP8_BLOCK, DS_FMT_FP8, 1);
  run.pool.engine.rank_spread = 1;
  uint64_t state = 88172645463325252ull;
  for (int64_t n = 2; n <= 32; n *= 2) {
    double sum = 0;
    for (int trial = 0; trial < 2000; trial++) {
      double most = 0, all = 0;
      for (int64_t rank = 0; rank < n; rank++) {
        double load = 0;
        for (int64_t e = 0; e < 256 / n; e++) {
          state ^= state << 13, state ^= state >> 7, state ^= state << 17;
          load -= log(((double)(state >> 11) + 0.5) / 9007199254740992.0);
        }
        all += load;
        if (load > most) most = load;
      }
      sum += most * (double)n / all - 1;
    }
    run.pool.data_parallel = run.pool.expert_parallel = n;
    double drawn = sum / 2000, got = ds_moe_bind(&run, false).excess;
    cr_assert(got > 0.78 * drawn && got < 1.08 * drawn, "%lld ranks: %.3f, drawn %.3f", (long long)n, got, drawn);
  }
  /* as TensorRT-LLM measured DeepSeek-R1 on 32 ranks; never more than everything; and evened out by copies */
  run.pool.engine.rank_spread = 2.17;
  cr_assert_float_eq(ds_moe_bind(&run, false).excess, 1.564, 0.005);
  ds_moe m = ds_moe_bind(&run, false), even = m;
  even.excess = 0;
  double many = ds_moe_time(&m, 1 << 20).s - m.t0_s, mean = ds_moe_time(&even, 1 << 20).s - m.t0_s;
  cr_assert_float_eq(many / mean, 1 + m.excess, 1e-9, "products and activations alike");
  run.pool.engine.rank_spread = 50;
  cr_assert_eq(ds_moe_bind(&run, false).excess, 31);
  run.pool.redundant_experts = 32;
  cr_assert_eq(ds_moe_bind(&run, false).excess, 0);
}

/* All-gather and reduce-scatter in place of an all-to-all: every token to every rank, however many experts it has. */
Test(shapes, tokens_are_gathered_before_experts) {
  ds_run run = run_of("llama-4-maverick", "h200-sxm", "trtllm-2025", DS_FMT_FP8_STATIC, DS_FMT_FP8, 1), to_all = run;
  run.pool.data_parallel = run.pool.expert_parallel = to_all.pool.data_parallel = to_all.pool.expert_parallel = 8;
  to_all.pool.engine.experts_gather = false;
  ds_exchange x = ds_exchange_bind(&run, false), y = ds_exchange_bind(&to_all, false);
  const ds_eff_allreduce *e = &run.pool.hw.allreduce;
  double fixed = 2 * (e->a2_s + 7 * e->b_s), token = 7 * 5120 * (1 + 2) / (450e9 * e->e2);
  for (double tokens = 1; tokens < 1e5; tokens *= 10)
    cr_assert_float_eq(ds_exchange_s(&x, tokens), fixed + tokens * token, 1e-12);
  cr_assert_gt(ds_exchange_s(&x, 4096), 4 * ds_exchange_s(&y, 4096), "one expert of 128 a token");
  ds_run wide = run;
  wide.model.top_k = 8;
  cr_assert_eq(ds_exchange_s(&x, 4096), (x = ds_exchange_bind(&wide, false), ds_exchange_s(&x, 4096)));
  /* formats that experts take: 16 bit where they narrow what they get themselves */
  wide.expert_weights = DS_FMT_FP8_BLOCK;
  x = ds_exchange_bind(&wide, false);
  cr_assert_float_eq(ds_exchange_s(&x, 1000) - fixed, 1000 * token * 4 / 3, 1e-12);
  /* where NVLink spans boxes, and beyond 8 ranks, TensorRT-LLM has an all-to-all; others gather there, too */
  ds_run spans = run, many = run;
  card_read(DS_CARD_HARDWARE, "gb200", &spans.pool.hw);
  many.pool.data_parallel = many.pool.expert_parallel = 16;
  cr_assert(ds_experts_gather(&run) && !ds_experts_gather(&spans) && !ds_experts_gather(&many));
  card_read(DS_CARD_ENGINE, "vllm-2026", &spans.pool.engine);
  cr_assert(ds_experts_gather(&spans));
  to_all.pool.hw = spans.pool.hw = run.pool.hw;
  spans.pool.engine.experts_gather = false;
  x = ds_exchange_bind(&spans, false), y = ds_exchange_bind(&to_all, false);
  cr_assert_eq(ds_exchange_s(&x, 4096), ds_exchange_s(&y, 4096));
}

/* Ampere has no kernels of its own for MXFP4 experts: Marlin's, which its 4-bit integer timings are of. */
Test(shapes, mxfp4_on_ampere_is_marlin) {
  static const char *const parts[] = {"a100-80-sxm", "a100-80-pcie", "a100-40-sxm"};
  for (size_t i = 0; i < DS_ARRAY_LEN(parts); i++) {
    ds_hw hw;
    memset(&hw, 0, sizeof hw);
    card_read(DS_CARD_HARDWARE, parts[i], &hw);
    cr_assert_eq(memcmp(&hw.moe[DS_MOE_MXFP4], &hw.moe[DS_MOE_INT4], sizeof hw.moe[0]), 0, "%s", parts[i]);
  }
}

/* Of a rank's 16 experts each is touched with chance q: the most of 8 ranks' counts, drawn. */
Test(shapes, the_rank_that_touches_most) {
  ds_run run = run_of("llama-4-maverick", "h200-sxm", "trtllm-2025", DS_FMT_FP8_STATIC, DS_FMT_FP8, 1);
  run.pool.data_parallel = run.pool.expert_parallel = 8;
  run.pool.engine.expert_rho = 1;
  ds_moe m = ds_moe_bind(&run, false), mean = m;
  mean.excess = 0;
  double expert_s = 3.0 * m.hidden * m.width * m.weight_bytes / m.bytes_per_s;
  uint64_t state = 88172645463325252ull;
  for (int tokens = 8; tokens <= 128; tokens *= 2) { /* at most one an expert: activations are those of the mean */
    double sum = 0;
    for (int trial = 0; trial < 4000; trial++) {
      bool hit[128] = {false};
      for (int t = 0; t < tokens; t++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        hit[state % 128] = true;
      }
      int most = 0;
      for (int rank = 0; rank < 8; rank++) {
        int n = 0;
        for (int e = 0; e < 16; e++) n += hit[16 * rank + e];
        if (n > most) most = n;
      }
      sum += most;
    }
    double more = (ds_moe_time(&m, tokens).s - ds_moe_time(&mean, tokens).s) / expert_s;
    double got = ds_moe_touched(&m, tokens) + more, drawn = sum / 4000;
    cr_assert(fabs(got - drawn) < 0.1 * drawn + 0.15, "%d tokens: %.2f, drawn %.2f", tokens, got, drawn);
  }
}

static double ops_total(const ds_run *run, int64_t seqs, double ctx, int64_t prompt) {
  ds_pricer *p = pricer_of(run, 4096, 512);
  ds_shape s = shape_of(seqs, ctx);
  s.decode_near = ctx;
  if (prompt > 0) shape_add_chunk(&s, prompt, 0, true);
  ds_ops o;
  ds_price_ops(p, &s, &o);
  ds_mixed_price m;
  ds_price_mixed(p, &s, &m);
  double total = ds_ops_total(&o);
  cr_assert_leq(fabs((double)m.total_ns - total * 1e9), 0.5 + total * 1e-3);
  ds_pricer_free(p);
  return total;
}

/* A pipeline: one sequence pays every stage and every hop, a full one the pace of its slowest stage. */
Test(shapes, pipelines) {
  ds_run one = run_of("llama-3.1-70b", "h200-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 2);
  ds_run four = one;
  four.pool.pipeline_parallel = 4;
  double hop = one.pool.hw.peer.lat_s + 8192 * 2.0 / (450e9 * one.pool.hw.peer.e);
  double alone = ops_total(&one, 1, 1000, 0);
  cr_assert_float_eq(ops_total(&four, 1, 1000, 0), alone + 4 * hop, 1e-9);
  /* 256 rows are four batches of 64: 20 of 80 layers each, and the output layer on the last stage */
  ds_pricer *p = pricer_of(&one, 4096, 512);
  ds_shape quarter = shape_of(64, 64000);
  ds_ops o;
  ds_price_ops(p, &quarter, &o);
  double engine = one.pool.engine.per_iteration_s + 256 * one.pool.engine.per_request_s;
  double stage = (o.gemm_attn + o.gemm_mlp + o.attn_dec + o.elt + o.ar) / 4 + o.lmhead;
  double hops = 4 * (one.pool.hw.peer.lat_s + 64 * 8192 * 2.0 / (450e9 * one.pool.hw.peer.e));
  double got = ops_total(&four, 256, 256000, 0), want = 4 * stage + hops + engine;
  cr_assert_float_eq(got, want, 1e-9, "%.9f, want %.9f", got, want);
  cr_assert_lt(got, 4 * alone + hops);
  ds_pricer_free(p);
  /* uneven: 80 layers on 3 stages go 27 27 26, and no stage is faster than its share */
  ds_run three = one;
  three.pool.pipeline_parallel = 3;
  ds_run even = one;
  even.pool.pipeline_parallel = 2;
  double t3 = ops_total(&three, 300, 300000, 0), t2 = ops_total(&even, 300, 300000, 0);
  cr_assert_gt(t3, ops_total(&one, 100, 100000, 0));
  cr_assert_lt(fabs(t3 / t2 - 1), 0.7);
  /* memory: a stage holds its layers only */
  ds_memory m1, m4;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&one, &m1, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_memory_footprint(&four, &m4, &err), DS_OK, "%s", err.text);
  cr_assert_float_eq(m4.kv_bytes_per_token, m1.kv_bytes_per_token / 4, 1e-6);
  cr_assert_lt(m4.weight_bytes, m1.weight_bytes / 3.5);
}

/* Experts and latent attention on eight H200, as tensor ranks and as attention groups. */
Test(shapes, attention_groups_and_expert_ranks) {
  ds_run tp = run_of("deepseek-v3", "h200-sxm", "generic", DS_FMT_FP8, DS_FMT_FP8, 8), dp = tp;
  dp.pool.tensor_parallel = 1;
  dp.pool.data_parallel = dp.pool.expert_parallel = 8;
  ds_memory mt, md;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&tp, &mt, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_memory_footprint(&dp, &md, &err), DS_OK, "%s", err.text);
  /* every rank of a group holds the whole latent cache: 61 layers of 576 values of one byte */
  cr_assert_float_eq(mt.kv_bytes_per_token, 61 * 576.0, 1e-6);
  cr_assert_float_eq(md.kv_bytes_per_token, 61 * 576.0, 1e-6);
  /* what is split by heads is repeated in every group (the narrow products into the latent space are
   * on every rank either way), and so are shared experts, the three plain layers, embeddings and output layer */
  double attention = 1536 * 128.0 * 192 + 512 * 128.0 * 256 + 128 * 128.0 * 7168;
  double shared = 58 * 3 * 7168.0 * 2048;
  double plain_layers = 3 * 3 * 7168.0 * 18432, tables = 2 * 129280.0 * 7168 * 2;
  cr_assert_float_eq(md.weight_bytes - mt.weight_bytes,
                     (61 * attention + shared + plain_layers + tables) * (1 - 1.0 / 8), 1e3);
  /* and what does not fit says by how much, and what would */
  ds_run small = dp;
  small.pool.hw.memory_bytes = 40e9;
  cr_assert_eq(ds_memory_footprint(&small, &md, &err), DS_E_INPUT);
  cr_assert(strstr(err.text, "too much") && strstr(err.text, "data_parallel: 8"), "%s", err.text);
  /* a batch that is split over groups costs less attention than each rank reading all of it */
  cr_assert_lt(ops_total(&dp, 32, 32 * 4096.0, 0), ops_total(&tp, 256, 256 * 4096.0, 0));
  /* two halves that take turns hide communication, copies of experts even out the busiest */
  ds_run plain = dp, copies = dp, halves = dp;
  copies.pool.redundant_experts = 32;
  halves.pool.two_batch_overlap = true;
  cr_assert_lt(ops_total(&copies, 128, 128 * 1024.0, 0), ops_total(&plain, 128, 128 * 1024.0, 0));
  cr_assert_eq(ds_memory_footprint(&copies, &mt, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_memory_footprint(&plain, &md, &err), DS_OK, "%s", err.text);
  cr_assert_float_eq(mt.weight_bytes - md.weight_bytes, 58 * 4 * 3 * 7168.0 * 2048, 1e3);
  ds_pricer *a = pricer_of(&plain, 8192, 512), *b = pricer_of(&halves, 8192, 512);
  ds_shape prompt = shape_of(0, 0);
  shape_add_chunk(&prompt, 8192, 0, true);
  ds_ops x, y;
  ds_price_ops(a, &prompt, &x);
  ds_price_ops(b, &prompt, &y);
  cr_assert_lt(y.a2a, x.a2a);
  ds_pricer_free(a);
  ds_pricer_free(b);
}

/* Beyond the scale-up network a replica pays for the NIC. */
Test(shapes, across_nodes) {
  ds_run in = run_of("llama-3.1-405b", "h100-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 8), out = in;
  out.pool.tensor_parallel = 16;
  ds_allreduce near = ds_allreduce_bind(&in.pool.hw, 8), far = ds_allreduce_bind(&out.pool.hw, 16);
  for (double bytes = 1e4; bytes < 1e8; bytes *= 10) {
    double t = ds_allreduce_s(&far, bytes);
    cr_assert_gt(t, ds_allreduce_s(&near, bytes));
    /* no faster than each box's share over its cards: 1 / 8 of the tensor out and in, on 2 nodes */
    cr_assert_gt(t, bytes / 8 / 50e9);
  }
  ds_run wide = run_of("deepseek-v3", "h100-sxm", "generic", DS_FMT_FP8, DS_FMT_FP8, 1), one = wide;
  wide.pool.data_parallel = wide.pool.expert_parallel = 32;
  one.pool.data_parallel = one.pool.expert_parallel = 8;
  ds_exchange w = ds_exchange_bind(&wide, false), n = ds_exchange_bind(&one, false);
  cr_assert_gt(ds_exchange_s(&w, 64), ds_exchange_s(&n, 64));
  cr_assert_gt(ds_exchange_s(&w, 4096), 4096 * 7168 * 3.03 * 0.75 / 50e9); /* at least one remote copy */
}

Test(shapes, a_power_cap_slows_arithmetic_more_than_memory) {
  ds_run full = run_of("llama-3.1-8b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1),
         capped = full;
  capped.pool.power_cap_w = 500;
  double prompt = ops_total(&capped, 0, 0, 4096) / ops_total(&full, 0, 0, 4096),
         decode = ops_total(&capped, 8, 8000, 0) / ops_total(&full, 8, 8000, 0);
  cr_assert_gt(prompt, 1.1);
  cr_assert_leq(prompt, pow(700.0 / 500.0, 0.6));
  cr_assert_leq(decode, 1.02);
}

/* Published rates of one stream: what the cards of such parts were made from, and must give back. */
Test(shapes, parts_with_weights_on_the_chip) {
  static const struct {
    const char *part, *model;
    int64_t devices;
    double tokens_per_s, within;
  } cases[] = {{"wse-3", "llama-3.1-8b", 1, 1800, 0.01},
               {"wse-3", "llama-3.1-70b", 4, 450, 0.65}, /* launched at 27.8 us a layer */
               {"groq-lpu", "llama-2-7b", 80, 750, 0.01},
               {"groq-lpu", "llama-2-70b", 720, 300, 0.01}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_run run = run_of(cases[i].model, cases[i].part, "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
    run.pool.pipeline_parallel = cases[i].devices;
    run.pool.engine.per_iteration_s = run.pool.engine.per_request_s = 0;
    ds_memory m;
    ds_error err = {0};
    cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_OK, "%s", err.text);
    double t = ops_total(&run, 1, 500, 0);
    cr_assert_leq(fabs(1 / t / cases[i].tokens_per_s - 1), cases[i].within, "%s on %s: %.0f /s",
                  cases[i].model, cases[i].part, 1 / t);
    /* many streams fill the pipeline, until arithmetic is full; never faster than it */
    double many = ops_total(&run, 400, 400 * 500.0, 0);
    ds_pricer *p = pricer_of(&run, 64, 64);
    ds_shape s = shape_of(400, 400 * 500.0);
    cr_assert_geq(many, ds_price_floor_s(p, &s));
    cr_assert_lt(many, 400 * t);
    ds_pricer_free(p);
  }
  ds_run run = run_of("llama-3.1-70b", "wse-3", "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
  ds_memory m;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_E_INPUT); /* 141 GB on 44 */
  cr_assert_not_null(strstr(err.text, "tensor_parallel: 4 would fit"), "%s", err.text);
}

/* Captured graphs are padded to the next size; launches bound what runs outside them; a host that
 * works ahead shows only what it does not hide. */
Test(shapes, graphs_launches_and_a_host_that_works_ahead) {
  ds_run plain = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1);
  ds_run graphs = plain, eager = plain, ahead = plain;
  graphs.pool.engine.capture_max = 64;
  graphs.pool.engine.capture_step = 8;
  double engine_9 = 9 * plain.pool.engine.per_request_s, engine_16 = 16 * plain.pool.engine.per_request_s;
  cr_assert_gt(ops_total(&graphs, 9, 9000, 0), ops_total(&plain, 9, 9000, 0));
  cr_assert_float_eq(ops_total(&graphs, 16, 16000, 0), ops_total(&plain, 16, 16000, 0), 1e-12);
  cr_assert_lt(ops_total(&graphs, 9, 9000, 0) - engine_9, ops_total(&plain, 16, 16000, 0) - engine_16);
  cr_assert_float_eq(ops_total(&graphs, 65, 65000, 0), ops_total(&plain, 65, 65000, 0), 1e-12);
  eager.pool.engine.launch_s = 50e-6;
  eager.pool.engine.kernels_per_layer = 12;
  double floor = 32 * 12 * 50e-6;
  cr_assert_geq(ops_total(&eager, 1, 100, 0), floor);
  cr_assert_float_eq(ops_total(&eager, 1, 100, 8), floor + plain.pool.engine.per_iteration_s +
                                                       2 * plain.pool.engine.per_request_s, 1e-9);
  ahead.pool.engine.async_scheduling = true;
  cr_assert_float_eq(ops_total(&ahead, 32, 32000, 0),
                     ops_total(&plain, 32, 32000, 0) - plain.pool.engine.per_iteration_s -
                         32 * plain.pool.engine.per_request_s, 1e-9);
}

/* Sizes that double: 1, 2, 4 to 128, multiples of 128 to 512, then 1024, 2048. */
Test(shapes, captured_sizes_that_double) {
  ds_run plain = run_of("llama-3.1-8b", "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1), graphs = plain;
  graphs.pool.engine.capture_max = 3000;
  graphs.pool.engine.capture_step = 128;
  graphs.pool.engine.capture_double = 512;
  plain.pool.engine.per_request_s = graphs.pool.engine.per_request_s = 0;
  static const int64_t sizes[][2] = {{1, 1}, {3, 4}, {5, 8}, {8, 8}, {9, 16}, {33, 64}, {128, 128}, {129, 256}, {300, 384},
                                     {400, 512}, {512, 512}, {513, 1024}, {1025, 2048}, {2049, 3000}, {3001, 3001}};
  for (size_t i = 0; i < DS_ARRAY_LEN(sizes); i++) {
    ds_pricer *a = pricer_of(&graphs, 8192, 4096), *b = pricer_of(&plain, 8192, 4096);
    ds_shape few = shape_of(sizes[i][0], 0), padded = shape_of(sizes[i][1], 0);
    ds_ops x, y;
    ds_price_ops(a, &few, &x);
    ds_price_ops(b, &padded, &y);
    cr_assert_eq(x.gemm_mlp, y.gemm_mlp, "%lld rows", (long long)sizes[i][0]);
    cr_assert_eq(x.lmhead, y.lmhead, "%lld rows", (long long)sizes[i][0]);
    ds_pricer_free(a);
    ds_pricer_free(b);
  }
}

/* An iteration with prompts that no graph replays is not over before the host has launched it. */
Test(shapes, launching_a_prompt_layer_by_layer) {
  static const struct {
    const char *model, *hardware;
    ds_format weights;
    double floor_s; /* 2 ms a layer, 1 ms a product on Blackwell, 4 ms a layer of MXFP4 experts on Hopper */
  } at[] = {{"llama-3.1-8b", "h100-sxm", DS_FMT_FP8_STATIC, 32 * 2e-3},
            {"llama-3.1-8b", "b200-sxm", DS_FMT_BF16, 32 * 2e-3},
            {"llama-3.1-8b", "b200-sxm", DS_FMT_FP8_STATIC, 32 * (2e-3 + 4 * 1e-3)},
            {"llama-3.1-8b", "b200-sxm", DS_FMT_NVFP4, 32 * (2e-3 + 4 * 1e-3)},
            {"llama-3.1-8b", "b200-sxm", DS_FMT_FP8_BLOCK, 32 * 2e-3},
            {"gpt-oss-20b", "h100-sxm", DS_FMT_BF16, 24 * (2e-3 + 4e-3)},
            {"gpt-oss-20b", "b200-sxm", DS_FMT_BF16, 24 * 2e-3}};
  for (size_t i = 0; i < DS_ARRAY_LEN(at); i++) {
    ds_run run = run_of(at[i].model, at[i].hardware, "generic", at[i].weights, DS_FMT_BF16, 1), free = run;
    if (strncmp(at[i].model, "gpt-oss", 7) == 0) run.expert_weights = free.expert_weights = DS_FMT_MXFP4;
    ds_engine_card *e = &run.pool.engine;
    e->prompt_captured = 64;
    e->prompt_layer_s = 2e-3, e->prompt_product_s = 1e-3, e->prompt_mxfp4_s = 4e-3;
    double host_s = e->per_iteration_s + 2 * e->per_request_s;
    cr_assert_float_eq(ops_total(&run, 1, 100, 64), at[i].floor_s + host_s, 1e-9, "%zu", i); /* 65 tokens */
    cr_assert_float_eq(ops_total(&run, 1, 100, 63), ops_total(&free, 1, 100, 63), 1e-12, "%zu", i);
    cr_assert_float_eq(ops_total(&run, 65, 6500, 0), ops_total(&free, 65, 6500, 0), 1e-12, "%zu", i);
  }
  ds_run fast = run_of("llama-3.1-8b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1), run = fast;
  run.pool.engine.prompt_layer_s = 1e-6; /* hidden behind the device */
  cr_assert_float_eq(ops_total(&run, 0, 0, 2048), ops_total(&fast, 0, 0, 2048), 1e-12);
}

/* Marlin multiplies experts in MXFP4 as it does 4-bit integers, where the part cannot itself. */
Test(shapes, marlin_takes_mxfp4_where_a_part_has_no_such_arithmetic) {
  static const char *const parts[] = {"h100-sxm", "b200-sxm"};
  for (int i = 0; i < 2; i++) {
    ds_run own = run_of("gpt-oss-20b", parts[i], "vllm-2026", DS_FMT_BF16, DS_FMT_BF16, 1), marlin, integer;
    own.expert_weights = DS_FMT_MXFP4;
    marlin = integer = own;
    marlin.pool.engine.mxfp4_marlin = true;
    const ds_eff_moe *lib = &own.pool.hw.library[DS_LIBRARY_VLLM].moe[DS_MOE_INT4];
    integer.pool.hw.moe[DS_MOE_MXFP4] = lib->em > 0 ? *lib : own.pool.hw.moe[DS_MOE_INT4];
    integer.pool.hw.library[DS_LIBRARY_VLLM].moe[DS_MOE_MXFP4].em = 0;
    cr_assert_neq(ops_total(&own, 4, 4000, 2000), ops_total(&integer, 4, 4000, 2000));
    cr_assert_eq(ops_total(&marlin, 4, 4000, 2000), ops_total(i == 0 ? &integer : &own, 4, 4000, 2000));
  }
}

/* Two L40S have their links to themselves, of eight each has a quarter^1.17: by hand, and as its table has it within a sixth. */
Test(shapes, all_reduces_crowd_in_the_host) {
  ds_run run = run_of("llama-3.1-8b", "l40s", "generic", DS_FMT_BF16, DS_FMT_BF16, 2);
  const ds_eff_allreduce *e = &run.pool.hw.allreduce;
  double w = run.pool.hw.scale_up_bytes_per_s, large = 64 << 20;
  static const struct { int64_t n; double crowd, timed_s; } at[] = {{2, 1, 3.54e-3}, {4, 2.257, 27.2e-3}, {8, 5.094, 60.1e-3}};
  for (int i = 0; i < 3; i++) {
    ds_allreduce a = ds_allreduce_bind(&run.pool.hw, at[i].n);
    double others = (double)at[i].n - 1;
    double one = e->a1_s + others * (e->b_s + large * at[i].crowd / (w * e->e1));
    double two = e->a2_s + others * (e->b_s + 2.0 / (double)at[i].n * large * at[i].crowd / (w * e->e2));
    cr_assert_float_eq(ds_allreduce_s(&a, large) / (one < two ? one : two), 1, 1e-3, "%d", i);
    cr_assert_float_eq(ds_allreduce_s(&a, large) / at[i].timed_s, 1, 0.17, "%d: %g", i, ds_allreduce_s(&a, large));
  }
  ds_eff_allreduce free = *e;
  free.crowding = 0;
  run.pool.hw.allreduce = free;
  ds_allreduce a = ds_allreduce_bind(&run.pool.hw, 2), b = ds_allreduce_bind(&run.pool.hw, 4);
  cr_assert_eq(ds_allreduce_s(&a, large), free.a1_s + free.b_s + large * (1 / (w * free.e1)));
  cr_assert_lt(ds_allreduce_s(&b, large), 0.012);
}

/* A switch that reduces takes large tensors of most of its devices once. */
Test(shapes, all_reduce_in_the_switch) {
  ds_run run = run_of("llama-3.1-8b", "h200-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 8);
  const ds_eff_allreduce *e = &run.pool.hw.allreduce;
  double w = run.pool.hw.scale_up_bytes_per_s, large = 512 << 20, small = 64 << 10;
  ds_allreduce all = ds_allreduce_bind(&run.pool.hw, 8), half = ds_allreduce_bind(&run.pool.hw, 4);
  cr_assert_float_eq(ds_allreduce_s(&all, large), e->a3_s + large / (w * e->e3), 1e-12);
  cr_assert_float_eq(ds_allreduce_s(&half, large), e->a2_s + 3 * e->b_s + 1.5 * large / (w * e->e2), 1e-12);
  cr_assert_float_eq(ds_allreduce_s(&all, small), e->a1_s + 7 * e->b_s + 7 * small / (w * e->e1), 1e-12);
}

static const struct {
  const char *model, *hardware;
  ds_format weights, kv;
  int64_t tp, dp, ep, pp;
} GRID[] = {{"mixtral-8x7b", "h100-sxm", DS_FMT_BF16, DS_FMT_BF16, 2, 1, 1, 1},
            {"deepseek-v3", "h200-sxm", DS_FMT_FP8_BLOCK, DS_FMT_FP8, 8, 1, 1, 1},
            {"deepseek-v3", "b200-sxm", DS_FMT_NVFP4, DS_FMT_FP8, 1, 8, 8, 1},
            {"deepseek-v3.2", "h200-sxm", DS_FMT_FP8_BLOCK, DS_FMT_FP8, 8, 1, 8, 1},
            {"gpt-oss-120b", "b200-sxm", DS_FMT_MXFP4_A8, DS_FMT_FP8, 2, 1, 1, 1},
            {"gpt-oss-20b", "mi300x", DS_FMT_MXFP4, DS_FMT_BF16, 1, 1, 1, 1},
            {"qwen3-next-80b-a3b", "h100-sxm", DS_FMT_FP8, DS_FMT_BF16, 2, 1, 1, 1},
            {"gemma-3-27b", "l40s", DS_FMT_FP8_STATIC, DS_FMT_BF16, 4, 1, 1, 1},
            {"llama-4-scout", "h200-sxm", DS_FMT_FP8, DS_FMT_FP8, 4, 1, 4, 1},
            {"llama-3.1-70b", "a100-80-sxm", DS_FMT_INT4, DS_FMT_INT8, 2, 1, 1, 4},
            {"falcon-180b", "tpu-v6e", DS_FMT_INT8, DS_FMT_BF16, 8, 1, 1, 2}};

/* Time does not fall with rows, context or prompt, and nothing beats the speed of light. A narrow
 * product may gain a little when its rows fill a second row of tiles: then more units work on it. */
#define NOT_BELOW(t, last) ((double)(t) >= 0.98 * (double)(last)-1)
Test(shapes, time_never_falls_and_never_beats_light) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    ds_run run = run_of(GRID[g].model, GRID[g].hardware, "vllm-2025", GRID[g].weights, GRID[g].kv,
                        GRID[g].tp);
    run.pool.data_parallel = GRID[g].dp;
    run.pool.expert_parallel = GRID[g].ep;
    run.pool.pipeline_parallel = GRID[g].pp;
    ds_run light = run;
    light.cost_tier = DS_COST_SPEED_OF_LIGHT;
    ds_pricer *p = pricer_of(&run, 4096, 256), *l = pricer_of(&light, 4096, 256);
    double reach = (double)ds_model_reach(&run.model);
    int64_t last = 0;
    for (int64_t n = 1; n <= 300; n++) {
      double near = (double)n * (reach > 0 && reach < 700 ? reach : 700);
      ds_shape s = shape_of(n, 700.0 * (double)n);
      s.decode_near = near;
      ds_mixed_price m, f;
      ds_price_mixed(p, &s, &m);
      ds_price_mixed(l, &s, &f);
      cr_assert(NOT_BELOW(m.total_ns, last), "%s: %lld rows", GRID[g].model, (long long)n);
      cr_assert_geq(m.total_ns + 1, f.total_ns, "%s: %lld rows beat light", GRID[g].model, (long long)n);
      cr_assert_geq((double)f.total_ns + 1, ds_price_floor_s(l, &s) * 1e9, "%s: %lld rows", GRID[g].model,
                    (long long)n);
      last = m.total_ns;
    }
    last = 0;
    for (int64_t tokens = 1; tokens <= 4096; tokens += 1 + tokens / 7) {
      ds_shape s = shape_of(16, 16000);
      s.decode_near = 16 * (reach > 0 && reach < 1000 ? reach : 1000);
      shape_add_chunk(&s, tokens, 512, true);
      s.prefill_near_pairs = ds_attention_pairs((double)tokens, 512, reach, run.model.chunked);
      s.prefill_near_kv = ds_attention_kv((double)tokens, 512, reach, run.model.chunked);
      ds_mixed_price m, f;
      ds_price_mixed(p, &s, &m);
      ds_price_mixed(l, &s, &f);
      cr_assert(NOT_BELOW(m.total_ns, last), "%s: %lld tokens", GRID[g].model, (long long)tokens);
      cr_assert_geq(m.total_ns + 1, f.total_ns, "%s: %lld tokens", GRID[g].model, (long long)tokens);
      last = m.total_ns;
    }
    ds_pricer_free(p);
    ds_pricer_free(l);
  }
}

/* Verifying drafts reads the cache once, and pays for more rows everywhere else. */
Test(shapes, drafts_are_verified_in_one_pass) {
  for (size_t g = 0; g < DS_ARRAY_LEN(GRID); g++) {
    ds_run run = run_of(GRID[g].model, GRID[g].hardware, "generic", GRID[g].weights, GRID[g].kv, GRID[g].tp);
    run.pool.data_parallel = GRID[g].dp;
    run.pool.expert_parallel = GRID[g].ep;
    run.pool.pipeline_parallel = GRID[g].pp;
    run.pool.speculative = (ds_speculation){.method = DS_DRAFT_MTP, .tokens = 1};
    ds_pricer *p = pricer_of(&run, 4096, 256);
    ds_shape s = shape_of(16, 16000);
    s.decode_near = 16 * (double)ds_attention_near(1000, ds_model_reach(&run.model) > 0 ? ds_model_reach(&run.model) : 1000, false);
    ds_mixed_price plain, verify, drafted;
    ds_price_mixed(p, &s, &plain);
    s.draft_tokens = 16;
    ds_price_verify(p, &s, &verify);
    s.draft_passes = 1;
    s.draft_rows = 16;
    ds_price_verify(p, &s, &drafted);
    cr_assert_geq(verify.total_ns, plain.total_ns - plain.total_ns / 50, "%s", GRID[g].model);
    cr_assert_lt(verify.total_ns, 2 * plain.total_ns, "%s", GRID[g].model);
    cr_assert_gt(drafted.total_ns, verify.total_ns, "%s", GRID[g].model);
    cr_assert_lt(drafted.total_ns, verify.total_ns + plain.total_ns, "%s", GRID[g].model);
    ds_memory with, without;
    ds_error err = {0};
    run.pool.hw.memory_bytes = 2e12;
    cr_assert_eq(ds_memory_footprint(&run, &with, &err), DS_OK, "%s: %s", GRID[g].model, err.text);
    run.pool.speculative.method = DS_DRAFT_NONE;
    cr_assert_eq(ds_memory_footprint(&run, &without, &err), DS_OK);
    cr_assert_gt(with.weight_bytes, without.weight_bytes);
    cr_assert_gt(with.kv_bytes_per_token, without.kv_bytes_per_token);
    ds_pricer_free(p);
  }
}

/* --- what a scenario may say of them --------------------------------------------------------- */

static bool parse(const char *top, const char *pool, ds_scenario *sc, ds_diag *d) {
  char text[1000];
  snprintf(text, sizeof text,
           "scenario: 1\n%s\npools:\n  - {name: main, %s}\nworkload: {requests: [{arrival_ns: 0, "
           "input_tokens: 1, output_tokens: 1}]}\n",
           top, pool);
  ds_data_dirs dirs = {{"."}, 1};
  memset(d, 0, sizeof *d);
  return ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, sc, d);
}

Test(shapes, scenarios_name_them) {
  ds_scenario sc;
  ds_diag d;
  cr_assert(parse("model: deepseek-v3\nweights: nvfp4\nexpert_weights: fp8-block",
                  "hardware: b200-sxm, data_parallel: 8, expert_parallel: 8, pipeline_parallel: 2, "
                  "power_cap: 800 W, two_batch_overlap: true, redundant_experts: 32, attention_8bit: true",
                  &sc, &d),
            "%s", d.text);
  const ds_pool *p = &sc.run.pool;
  cr_assert(p->data_parallel == 8 && p->expert_parallel == 8 && p->pipeline_parallel == 2);
  cr_assert(p->power_cap_w == 800 && p->two_batch_overlap && p->redundant_experts == 32 && p->attention_8bit);
  cr_assert(sc.run.weights == DS_FMT_NVFP4 && sc.run.expert_weights == DS_FMT_FP8_BLOCK);
  ds_scenario_free(&sc);
  /* as published, which a user may also name by the experts' format; and everything in another one */
  static const struct {
    const char *top;
    ds_format weights, experts;
  } cases[] = {{"model: gpt-oss-20b", DS_FMT_BF16, DS_FMT_MXFP4},
               {"model: gpt-oss-20b\nweights: mxfp4", DS_FMT_BF16, DS_FMT_MXFP4},
               {"model: gpt-oss-20b\nweights: bf16", DS_FMT_BF16, DS_FMT_BF16},
               {"model: gpt-oss-20b\nexpert_weights: mxfp4-a8", DS_FMT_BF16, DS_FMT_MXFP4_A8},
               {"model: mixtral-8x7b\nweights: fp8", DS_FMT_FP8, DS_FMT_FP8},
               {"model: deepseek-r1", DS_FMT_FP8_BLOCK, DS_FMT_FP8_BLOCK}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    cr_assert(parse(cases[i].top, "hardware: h100-sxm", &sc, &d), "%s: %s", cases[i].top, d.text);
    cr_assert(sc.run.weights == cases[i].weights && sc.run.expert_weights == cases[i].experts, "%s",
              cases[i].top);
    ds_scenario_free(&sc);
  }
  /* some engines multiply attention in 8 bit unless told otherwise */
  static const struct {
    const char *pool;
    bool eight;
  } attention[] = {{"hardware: h100-sxm, engine: trtllm-2025", true},
                   {"hardware: h100-sxm, engine: trtllm-2025, attention_8bit: false", false},
                   {"hardware: h100-sxm, engine: vllm-2025", false},
                   {"hardware: h100-sxm, engine: vllm-2025, attention_8bit: true", true}};
  for (size_t i = 0; i < DS_ARRAY_LEN(attention); i++) {
    cr_assert(parse("model: llama-3.1-8b", attention[i].pool, &sc, &d), "%s", d.text);
    cr_assert_eq(sc.run.pool.attention_8bit, attention[i].eight, "%s", attention[i].pool);
    ds_scenario_free(&sc);
  }
  static const struct {
    const char *pool, *why;
  } bad[] = {{"hardware: h100-sxm, power_cap: 900 W", "power_cap"},
             {"hardware: h100-sxm, power_cap: 500", "power_cap"},
             {"hardware: h100-sxm, data_parallel: 0", "data_parallel is 0"},
             {"hardware: h100-sxm, two_batch_overlap: 3", "two_batch_overlap"},
             {"hardware: h100-sxm, redundant_experts: -1", "redundant_experts"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(bad); i++) {
    cr_assert(!parse("model: mixtral-8x7b", bad[i].pool, &sc, &d), "%s", bad[i].pool);
    cr_assert(strstr(d.text, bad[i].why) && d.line > 0, "%s: %s", bad[i].pool, d.text);
  }
}
