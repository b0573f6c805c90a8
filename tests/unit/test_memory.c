// SPDX-License-Identifier: GPL-3.0-or-later
/* Memory footprints, and what a run must satisfy. */
#include "cards.h"

#include <math.h>

#include "cost/memory.h"

static ds_memory footprint(const ds_run *run) {
  ds_memory m;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(run, &m, &err), DS_OK, "%s", err.text);
  return m;
}

/* Block counts that vLLM 0.15 printed on H100 (80 GB), 128 sequences and 2048 tokens at most. */
Test(memory, recorded_block_counts) {
  const struct {
    const char *model;
    int64_t tensor_parallel, blocks;
  } recorded[] = {{"llama-2-7b", 1, 7462}, {"codellama-34b", 2, 26602}};
  for (size_t i = 0; i < DS_ARRAY_LEN(recorded); i++) {
    ds_run run = run_of(recorded[i].model, "h100-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16,
                        recorded[i].tensor_parallel);
    ds_memory m = footprint(&run);
    cr_log_info("%s: %lld blocks, recorded %lld", recorded[i].model, (long long)m.kv_blocks,
                (long long)recorded[i].blocks);
    cr_assert_leq(fabs((double)m.kv_blocks / (double)recorded[i].blocks - 1), 0.03, "%lld blocks",
                  (long long)m.kv_blocks);
  }
}

/* By hand: Llama 3.1 70B, fp8 weights and KV, four ranks. */
Test(memory, footprint_by_hand) {
  ds_run run = run_of("llama-3.1-70b", "h200-sxm", "generic", DS_FMT_FP8, DS_FMT_FP8, 4);
  run.pool.max_num_seqs = 256;
  run.pool.max_num_batched_tokens = 8192;
  ds_memory m = footprint(&run);
  double layer = (8192.0 * 10240 + 8192.0 * 8192 + 3 * 8192.0 * 28672) / 4;
  double weights = 80 * (layer + 2 * 8192 * 2) + 2 * 128256.0 * 8192 / 4 * 2 + 8192 * 2;
  double budget = 139.81 * 1073741824.0 * 0.9;
  double activations = 8192 * 14336.0 * 4 + 256 * 128256.0 * 4;
  cr_assert_float_eq(m.weight_bytes, weights, 1);
  cr_assert_float_eq(m.budget_bytes, budget, 1);
  cr_assert_float_eq(m.activation_bytes, activations, 1);
  cr_assert_float_eq(m.runtime_bytes, 0.7e9, 1);
  cr_assert_float_eq(m.kv_bytes_per_token, 2 * 80 * 2 * 128, 0);
  cr_assert_float_eq(m.kv_bytes, budget - weights - activations - 0.7e9, 4);
  cr_assert_eq(m.kv_blocks, (int64_t)(m.kv_bytes / (16 * 40960.0)));
  run.pool.kv_blocks = 123; /* as given, the rest as before */
  ds_memory given = footprint(&run);
  cr_assert_eq(given.kv_blocks, 123);
  cr_assert_float_eq(given.kv_bytes, m.kv_bytes, 0);
  run.pool.kv_blocks = DS_KV_UNLIMITED;
  cr_assert_eq(footprint(&run).kv_blocks, DS_KV_UNLIMITED);
  /* vLLM keeps one block for itself. */
  run.pool.kv_blocks = 0;
  strcpy(run.pool.engine.family, "vllm");
  cr_assert_eq(footprint(&run).kv_blocks, m.kv_blocks - 1);
}

/* By hand: what TensorRT-LLM keeps beside weights and KV where attention is data parallel: a layer's activations and
 * logits, all ranks' tokens with room for their experts, the same for the largest graph, and its runtime. */
Test(memory, workspace_of_gathered_experts) {
  ds_run run = run_of("llama-4-maverick", "h200-sxm", "trtllm-2025", DS_FMT_FP8_STATIC, DS_FMT_FP8, 1);
  run.pool.data_parallel = run.pool.expert_parallel = 8;
  run.pool.max_num_seqs = 1280;
  run.pool.max_num_batched_tokens = 2048;
  run.pool.language_model_only = true; /* and no encoder of images */
  double pair = 2 * 5120.0 + 2 * 2 * 8192.0, rows = 8 * (pair + 4 * 5120.0); /* an expert of 8192, a token of 5120 */
  double layer = 2 * 16384.0 * 2 * 2, logits = 202048.0 * 4;
  ds_memory m = footprint(&run);
  cr_assert_float_eq(m.activation_bytes, 2048 * (layer + rows) + 1280 * logits, 1);
  cr_assert_float_eq(m.runtime_bytes, (1.5 + 1.79) * 1073741824.0, 1);
  run.pool.engine.capture_max = 1024;
  cr_assert_float_eq(footprint(&run).activation_bytes, (2048 + 1024) * (layer + rows) + (1280 + 1024) * logits, 1);
  run.pool.engine.experts_gather = false;
  cr_assert_float_eq(footprint(&run).activation_bytes, (2048 + 1024) * layer + (1280 + 1024) * logits, 1);
}

/* Layers with a window hold every token where the engine is not told their size, and the window alone where it is. */
Test(memory, whole_windows) {
  ds_run run = run_of("gpt-oss-120b", "h200-sxm", "vllm-2025", DS_FMT_BF16, DS_FMT_BF16, 1);
  run.expert_weights = DS_FMT_MXFP4;
  double layer = 2 * 8 * 64 * 2;
  cr_assert_float_eq(footprint(&run).kv_bytes_per_token, 18 * layer, 0);
  run.pool.engine.whole_windows = true;
  cr_assert_float_eq(footprint(&run).kv_bytes_per_token, 36 * layer, 0);
}

/* More ranks than key/value heads: each keeps one, and the cache no longer shrinks. */
Test(memory, repeated_heads) {
  ds_run run = run_of("llama-3.1-8b", "a100-80-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 8);
  double at_8 = footprint(&run).kv_bytes_per_token;
  run.pool.tensor_parallel = 16;
  cr_assert_float_eq(at_8, 2 * 32 * 128 * 2, 0);
  cr_assert_float_eq(footprint(&run).kv_bytes_per_token, at_8, 0);
}

Test(memory, what_does_not_fit_says_so) {
  const struct {
    const char *model, *hardware;
    ds_format weights;
    int64_t tensor_parallel, batched_tokens;
    const char *says[4];
  } cases[] = {
      {"llama-3.1-70b",
       "h100-sxm",
       DS_FMT_BF16,
       1,
       2048,
       {"llama-3.1-70b in bf16 does not fit h100-sxm", "weights take 141.1 GB", "too much",
        "tensor_parallel: 2 would fit"}},
      {"llama-3.1-405b",
       "h200-sxm",
       DS_FMT_BF16,
       4,
       2048,
       {"llama-3.1-405b", "pools.main", "budget of 135.1 GB", "tensor_parallel: 8 would fit"}},
      {"llama-3.1-405b",
       "a100-80-sxm",
       DS_FMT_FP8,
       2,
       2048,
       {"in fp8", "tensor_parallel: 2;", "too much", "tensor_parallel: 8 would fit"}},
      {"qwen2.5-7b",
       "h100-sxm",
       DS_FMT_BF16,
       1,
       2000000,
       {"activations", "too much", "does not fit", "no tensor_parallel up to 64 would"}},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_run run = run_of(cases[i].model, cases[i].hardware, "generic", cases[i].weights, DS_FMT_BF16,
                        cases[i].tensor_parallel);
    run.pool.max_num_batched_tokens = cases[i].batched_tokens;
    ds_memory m;
    ds_error err = {0};
    cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_E_INPUT);
    for (size_t k = 0; k < 4; k++)
      cr_assert_not_null(strstr(err.text, cases[i].says[k]), "case %zu: no '%s' in '%s'", i,
                         cases[i].says[k], err.text);
  }
  /* The shortage stated is the shortage: with that much more memory it fits. */
  ds_run run = run_of("llama-3.1-70b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 2);
  run.pool.memory_utilization = 0.8;
  ds_memory m;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_E_INPUT);
  const char *at = strstr(err.text, "GB, ");
  while (at != NULL && strstr(at, "too much") - at > 12) at = strstr(at + 4, "GB, ");
  cr_assert_not_null(at);
  double missing = atof(at + 4) * 1e9;
  run.pool.hw.memory_bytes += (missing + 0.05e9) / 0.8;
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_OK, "%s", err.text);
  run.pool.hw.memory_bytes -= 0.11e9 / 0.8;
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_E_INPUT);
}

Test(memory, linear_needs_blocks_and_nothing_else) {
  ds_run run;
  memset(&run, 0, sizeof run);
  run.cost_tier = DS_COST_LINEAR;
  ds_memory m;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_E_INPUT);
  run.pool.kv_blocks = 40;
  cr_assert_eq(ds_memory_footprint(&run, &m, &err), DS_OK);
  cr_assert_eq(m.kv_blocks, 40);
}

Test(run, refuses_what_it_cannot_price) {
  const ds_run good = run_of("llama-3.1-8b", "h100-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 2);
  ds_error err = {0};
  cr_assert_eq(ds_run_validate(&good, &err), DS_OK, "%s", err.text);
  const double nan = NAN, inf = INFINITY;
  struct {
    ds_run run;
    const char *says[2];
  } cases[40];
  size_t n = 0;
#define BAD(change, a, b)                                                                          \
  do {                                                                                             \
    ds_run r = good;                                                                               \
    change;                                                                                        \
    cases[n].run = r;                                                                              \
    cases[n].says[0] = a;                                                                          \
    cases[n].says[1] = b;                                                                          \
    n++;                                                                                           \
  } while (0)
  BAD(r.pool.tensor_parallel = 3, "pools.main.tensor_parallel",
      "3 does not divide the 32 attention heads");
  BAD((r.model.kv_heads = 16, r.model.heads = 48, r.pool.tensor_parallel = 24),
      "pools.main.tensor_parallel", "24 does not divide the 16 key/value heads");
  BAD(r.model.ffn = 14337, "pools.main.tensor_parallel", "columns of the feed-forward layer");
  BAD(r.pool.tensor_parallel = 0, "pools.main.tensor_parallel",
      "must be a positive count, found 0");
  BAD(r.pool.replicas = -1, "pools.main.replicas", "found -1");
  BAD(r.pool.replicas = 2000000, "pools.main.replicas", "at most 1000000");
  BAD(r.pool.pipeline_parallel = 33, "pools.main.pipeline_parallel",
      "33 stages are more than the layers, 32");
  BAD(r.pool.data_parallel = 3, "pools.main.tensor_parallel", "columns of the feed-forward layer");
  BAD(r.pool.expert_parallel = 4, "pools.main.expert_parallel", "needs a model with experts");
  BAD(r.pool.data_parallel = 0, "pools.main.data_parallel", "positive");
  BAD(r.model.layers = 0, "model", "layers");
  BAD(r.model.vocab = -5, "model", "vocab");
  BAD(r.model.kv_heads = 5, "model", "multiple of kv_heads (5)");
  BAD(r.model.mlp_matrices = 4, "model", "mlp_matrices");
  BAD(r.kv_cache = DS_FMT_INT4, "kv_cache", "bf16, fp16, fp8 or int8");
  BAD(r.pool.memory_utilization = 0, "gpu_memory_utilization", "above 0");
  BAD(r.pool.memory_utilization = 1.01, "gpu_memory_utilization", "at most 1");
  BAD(r.pool.memory_utilization = nan, "gpu_memory_utilization", "above 0");
  BAD(r.pool.kv_blocks = -1, "kv_blocks", "positive");
  BAD(r.pool.kv_block_tokens = 0, "kv_block_tokens", "found 0");
  BAD(r.pool.max_model_len = -1, "max_model_len", "negative");
  BAD(r.pool.hw.memory_bytes = nan, "pools.main.hardware", "memory");
  BAD(r.pool.hw.memory_bytes_per_s = 0, "pools.main.hardware", "memory_bandwidth");
  BAD(r.pool.hw.peak_flops_per_s[DS_MATH_16] = inf, "pools.main.hardware", "peak.bf16");
  BAD(r.pool.hw.units = 0, "pools.main.hardware", "units");
  BAD(r.pool.hw.gemm[DS_GEMM_FP8] = (ds_eff_gemm){0}, "card h100-sxm has no usable gemm_fp8",
      "needed for fp8");
  BAD(r.pool.hw.decode_kv16.p = 3, "attn_decode_kv16", "1, 2 or 4");
  BAD(r.pool.hw.scale_up_bytes_per_s = 0, "scale_up_bandwidth",
      "more than one device in a replica");
  BAD(r.pool.hw.allreduce.e2 = 0, "allreduce", "tensor_parallel above 1");
  BAD(r.pool.engine.per_request_s = -1, "pools.main.engine", "at least 0");
  BAD((r.cost_tier = DS_COST_LINEAR, r.pool.kv_blocks = 4, r.linear.step_s = nan), "cost.step",
      "at least 0");
  BAD(r.cost_tier = DS_COST_LINEAR, "pools.main.kv_blocks", "must be given");
  BAD(r.slo.request.ttft_ns = -1, "slo.request", "negative");
  BAD((r.slo.n_run = 1, r.slo.run[0].percentile = 101), "slo.run", "percentile");
#undef BAD
  for (size_t i = 0; i < n; i++) {
    err = (ds_error){0};
    cr_assert_eq(ds_run_validate(&cases[i].run, &err), DS_E_INPUT, "case %zu", i);
    for (int k = 0; k < 2; k++)
      cr_assert_not_null(strstr(err.text, cases[i].says[k]), "case %zu: no '%s' in '%s'", i,
                         cases[i].says[k], err.text);
    cr_assert_eq(ds_run_validate(&cases[i].run, NULL),
                 DS_E_INPUT); /* and without anywhere to say it */
  }
  /* The bounds need peaks only. */
  ds_run light = good;
  light.cost_tier = DS_COST_SPEED_OF_LIGHT;
  memset(light.pool.hw.gemm, 0, sizeof light.pool.hw.gemm);
  cr_assert_eq(ds_run_validate(&light, &err), DS_OK, "%s", err.text);
}
