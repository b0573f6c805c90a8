// SPDX-License-Identifier: Apache-2.0
/* All-to-all of expert parallelism with data-parallel attention: every token goes to the devices of
 * its experts (dispatch, 8 bit with scales) and comes back (combine, 16 bit).
 *
 * Up to 256 tokens a device the low-latency kernels send one copy per expert, k; above, the normal
 * ones send one per device that holds any of them, n (1 - (1 - 1 / n)^k) on average.
 *   t = latency + tokens copies h bytes / (link e), once each way.
 * Engines that gather (`experts_gather` of their card) send every token to every rank instead, in the format that the
 * experts take, and each rank computes what its experts give to all of them; a reduce-scatter brings the sums back. The
 * two together are an all-reduce in two steps, of n T tokens:
 *   2 (a2 + b (n - 1)) + (n - 1) / n x n T h (format + 2) / (link e2),
 * within 20 % (median) of NCCL's all-gather and reduce-scatter of 1 to 512 MB in the same tables. It does not matter how
 * many experts a token has: with one the all-to-all would move n - 1 times less. vLLM and SGLang do so
 * unless told otherwise (--all2all-backend, --moe-a2a-backend); TensorRT-LLM up to 8 ranks where NVLink does not span
 * boxes (fused_moe_cutlass.py @000a01de66 run_post_quant_allgather; supports_mnnvl; its tech blog 4, figure 24).
 * A group that is wider than the scale-up network sends, over the NIC, a copy per remote node that
 * holds any expert. Form and constants: fitted on the DeepEP tables of ai-dynamo/aiconfigurator
 * @095f58a51c (one node); across nodes the published EP8x2 bandwidths of deepseek-ai/DeepEP. */
#include "cost/operators.h"

#include <string.h>

#define LOW_LATENCY_TOKENS 256.0
#define DISPATCH_BYTES     1.03 /* an fp8 value, and a 32-bit scale for 128 of them */
#define COMBINE_BYTES      2.0

#define BOX_RANKS          8.0 /* TensorRT-LLM has an all-to-all for more ranks, and where the scale-up network spans boxes */

/* Bytes of a value that experts take, with its share of a scale. */
static double taken_bytes(const ds_run *run) {
  ds_format f = run->expert_weights;
  if (f == DS_FMT_NVFP4) return 0.5625;
  if (f == DS_FMT_MXFP4_A8) return 1.03125;
  return f == DS_FMT_FP8_STATIC || (f == DS_FMT_FP8 && run->pool.engine.static_scales) ? 1 : 2;
}

bool ds_experts_gather(const ds_run *run) {
  const ds_pool *p = &run->pool;
  if (!p->engine.experts_gather || p->data_parallel <= 1 || run->model.experts <= 0) return false;
  if (strcmp(p->engine.family, "trtllm") != 0) return true;
  return p->hw.scale_up_devices <= BOX_RANKS && (double)p->data_parallel <= BOX_RANKS;
}

static ds_exchange gather(const ds_run *run) {
  double n = (double)run->pool.data_parallel, h = (double)run->model.hidden;
  ds_allreduce a = ds_allreduce_bind(&run->pool.hw, run->pool.data_parallel);
  ds_exchange x = {.ranks = n};
  x.low_s = x.normal_s = 2 * a.two_shot_s;
  x.low_per_token_s = x.normal_per_token_s = n * h * (taken_bytes(run) + COMBINE_BYTES) * a.two_shot_per_byte_s / 2;
  return x;
}

/* Different boxes that k draws hit, of n. */
static double distinct(double n, double k) { return n * (1.0 - ds_pow(1.0 - 1.0 / n, k)); }

ds_exchange ds_exchange_bind(const ds_run *run, bool ideal) {
  const ds_pool *p = &run->pool;
  const ds_hw *hw = &p->hw;
  ds_exchange x = {.ranks = 1};
  if (ideal || p->data_parallel <= 1 || run->model.experts <= 0) return x;
  if (ds_experts_gather(run)) return gather(run);
  double k = (double)run->model.top_k, h = (double)run->model.hidden, w = hw->scale_up_bytes_per_s;
  x.ranks = (double)(p->expert_parallel > p->data_parallel ? p->expert_parallel : p->data_parallel);
  x.low_s = hw->dispatch_low.lat_s + hw->combine_low.lat_s;
  x.low_per_token_s = k * h * DISPATCH_BYTES / (w * hw->dispatch_low.e) +
                      k * h * COMBINE_BYTES / (w * hw->combine_low.e);
  x.normal_s = hw->dispatch_normal.lat_s + hw->combine_normal.lat_s;
  double copies = distinct(x.ranks, k);
  x.normal_per_token_s = copies * h * DISPATCH_BYTES / (w * hw->dispatch_normal.e) +
                         copies * h * COMBINE_BYTES / (w * hw->combine_normal.e);
  double nodes = hw->scale_up_devices > 0 ? ds_ceil(x.ranks / hw->scale_up_devices) : 1;
  if (nodes <= 1) return x;
  double bytes = h * (DISPATCH_BYTES + COMBINE_BYTES);
  double remote = (nodes - 1.0) / nodes, nic = hw->nic_bytes_per_s * hw->network.e;
  x.low_s += 2 * hw->network.lat_s;
  x.low_per_token_s += k * remote * bytes / nic;
  x.normal_s += 2 * hw->network.lat_s;
  x.normal_per_token_s += distinct(nodes, k) * remote * bytes / nic;
  return x;
}

double ds_exchange_s(const ds_exchange *x, double tokens) {
  if (x->ranks <= 1 || !(tokens > 0)) return 0;
  return tokens <= LOW_LATENCY_TOKENS ? x->low_s + tokens * x->low_per_token_s
                                      : x->normal_s + tokens * x->normal_per_token_s;
}
