// SPDX-License-Identifier: GPL-3.0-or-later
/* The benchmark guesses how many requests fit into the KV of all devices together, from the parameters that the
 * checkpoint's files count (two 4-bit weights are one, scales are others), and rounds up:
 *   batch = min(KV requests, 4096), in steps of 32, 128 or 256; tokens = batch (1 + input / output), at most 32768, in
 *   steps of 256, 512 or 1024; without chunked context at least input + batch.
 * It knows full precision, FP8 and NVFP4. Of any other format, as the MXFP4 of gpt-oss, it takes the engine's defaults,
 * 2048 and 8192. That attention data parallelism gives every rank a batch of its own does not enter.
 * Source: NVIDIA/TensorRT-LLM tensorrt_llm/bench/build/tuning.py @a7e572fb20 and build.py @000a01de66 (TUNED_QUANTS),
 * bench/benchmark/utils/general.py @c0b2ee6edd; sizes of graphs: docs/source/developer-guide/perf-overview.md @03e27c7d5f. */
#include "study/trtllm_bench.h"

#include <math.h>

#include "cost/memory.h"

#define DEFAULT_BATCH  2048
#define DEFAULT_TOKENS 8192
#define KV_SHARE       0.95

static double up(double x, double step) { return step * ceil(x / step); }

static bool tuned(ds_format f) {
  return f == DS_FMT_BF16 || f == DS_FMT_FP16 || f == DS_FMT_FP8 || f == DS_FMT_FP8_BLOCK || f == DS_FMT_FP8_STATIC ||
         f == DS_FMT_NVFP4;
}

/* What it takes the weights for: half a byte for each number in an NVFP4 file, of which a weight is a half and its scale
 * a sixteenth. */
static double guessed_weight_bytes(const ds_run *run) {
  double params = ds_model_params(&run->model);
  if (run->weights == DS_FMT_NVFP4) return params * (1.0 / 2 + 1.0 / 16) * 0.5;
  return params * (run->weights == DS_FMT_BF16 || run->weights == DS_FMT_FP16 ? 2 : 1);
}

/* Requests whose KV fits; heads as the configuration counts them, latent caches included. */
static double guessed_requests(const ds_run *run, double tokens) {
  const ds_model *m = &run->model;
  double devices = (double)(run->pool.tensor_parallel * run->pool.data_parallel * run->pool.pipeline_parallel);
  double width = (double)(run->pool.tensor_parallel * run->pool.data_parallel);
  double heads = (double)(m->kv_lora > 0 ? m->heads : m->kv_heads);
  double head = m->kv_lora > 0 ? (double)m->hidden / (double)m->heads : (double)m->head_dim;
  double per_token = 2 * (double)m->layers * fmax(width, heads) * head * ds_format_kv_bytes(run->kv_cache);
  double left = run->pool.hw.memory_bytes * devices - guessed_weight_bytes(run);
  return left * KV_SHARE / (per_token * tokens);
}

ds_bench_limits ds_trtllm_bench_limits(const ds_run *run, double input, double output) {
  double batch = DEFAULT_BATCH, tokens = DEFAULT_TOKENS;
  if (tuned(run->weights) && tuned(run->expert_weights)) {
    double raw = fmin(guessed_requests(run, input + output), 4096) / (double)run->pool.pipeline_parallel;
    double raw_tokens = fmin(raw * (1 + input / output), 32768);
    batch = raw < 256 ? fmax(64, up(raw, 32)) : raw < 1024 ? up(raw, 128) : up(raw, 256);
    tokens = raw_tokens < 4096 ? fmax(2048, up(raw_tokens, 256)) : up(raw_tokens, raw_tokens < 8192 ? 512 : 1024);
  }
  return (ds_bench_limits){(int64_t)batch, (int64_t)fmax(tokens, input + batch)};
}

void ds_trtllm_bench_graphs(ds_engine_card *engine, int64_t max_batch_size) {
  engine->capture_step = 128;
  engine->capture_double = 512;
  engine->capture_max = max_batch_size < 8192 ? max_batch_size : 8192;
}

void ds_trtllm_kv_share(ds_run *run, double share) {
  ds_memory m;
  if (ds_memory_footprint(run, &m, NULL) != DS_OK || !(m.device_bytes > 0)) return;
  double taken = (m.weight_bytes + m.activation_bytes + m.runtime_bytes) / m.device_bytes;
  if (taken < 1) run->pool.memory_utilization = taken + share * (1 - taken);
}
