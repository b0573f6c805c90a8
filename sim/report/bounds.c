// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/bounds.h"

#include <string.h>

#include "cost/price.h"
#include "study/driver.h"

/* `near` sums are left at 0 where the requests are not known one by one: a bound all the same. */
static ds_shape one_prompt(const ds_model *m, int64_t tokens) {
  ds_shape s;
  memset(&s, 0, sizeof s);
  double reach = (double)ds_model_reach(m);
  s.prefill_near_pairs = ds_attention_pairs((double)tokens, 0, reach, m->chunked);
  s.prefill_near_kv = (double)tokens; /* each is written */
  s.prefill_tokens = tokens;
  s.prefill_chunks = s.finished_chunks = 1;
  s.prefill_pairs = (double)tokens * ((double)tokens + 1) / 2;
  s.prefill_kv_tokens = (double)tokens;
  s.prefill_tiles = ds_div_up(tokens, 128);
  return s;
}

static ds_shape one_decode(double context) {
  ds_shape s;
  memset(&s, 0, sizeof s);
  s.decode_seqs = 1;
  s.decode_ctx = context;
  return s;
}

/* Least busy seconds of one replica, were it to do everything. The whole workload as one giant
 * iteration is a bound, since its operators' FLOPs and bytes add up and the weights are read once.
 * They are read again in every iteration: decoded tokens need at least as many iterations as rows
 * and KV capacity allow, which the second bound counts with the KV that decoding reads. */
static double least_busy_s(const ds_pricer *p, const ds_run *run, const ds_arrivals *a,
                           int64_t kv_blocks, bool *memory_bound) {
  ds_shape all;
  memset(&all, 0, sizeof all);
  uint64_t decoded = a->output.sum - a->output.count;
  all.decode_seqs = (int64_t)decoded;
  all.decode_ctx = a->decode_context;
  all.prefill_tokens = (int64_t)a->input.sum;
  all.prefill_chunks = all.finished_chunks = (int64_t)a->n;
  all.prefill_pairs = a->prefill_pairs;
  all.prefill_kv_tokens = (double)a->input.sum;
  all.prefill_tiles = (int64_t)(a->input.sum / 128);
  ds_shape once = one_decode(0), context = one_decode(a->decode_context);
  double iterations = 1;
  if (run->pool.max_num_seqs > 0 && (double)decoded / (double)run->pool.max_num_seqs > iterations)
    iterations = (double)decoded / (double)run->pool.max_num_seqs;
  if (kv_blocks > 0 && kv_blocks != DS_KV_UNLIMITED) {
    double kv_tokens = (double)kv_blocks * (double)run->pool.kv_block_tokens;
    /* The newest token of a row needs no block yet. */
    double held = a->decode_context - (double)decoded;
    if (held / kv_tokens > iterations) iterations = held / kv_tokens;
  }
  double memory_s = (iterations - 1) * ds_price_floor_s(p, &once) + ds_price_floor_s(p, &context);
  double roof_s = ds_price_floor_s(p, &all);
  *memory_bound = memory_s > roof_s;
  return *memory_bound ? memory_s : roof_s;
}

bool ds_bounds_of(const ds_run *run, const ds_arrivals *a, int64_t kv_blocks, ds_bounds *out) {
  memset(out, 0, sizeof *out);
  if (run->cost_tier == DS_COST_LINEAR || a->n == 0) return true;
  ds_pricer *p = NULL;
  ds_status status = ds_pricer_new(run, 1, 1, &ds_heap, &p, NULL);
  if (status == DS_E_NOMEM) return false;
  if (status != DS_OK) return true;
  ds_shape prompt = one_prompt(&run->model, (int64_t)a->input.min), token = one_decode((double)a->input.min + 1);
  out->ttft_ms = ds_price_floor_s(p, &prompt) * 1e3;
  out->tpot_ms = ds_price_floor_s(p, &token) * 1e3;
  out->busy_s = least_busy_s(p, run, a, kv_blocks, &out->memory_bound) / (double)(run->pool.replicas * run->pool.data_parallel);
  ds_pricer_free(p);
  if (!(out->busy_s > 0)) return true;
  out->known = true;
  out->request_throughput = (double)a->n / out->busy_s;
  out->output_throughput = (double)a->output.sum / out->busy_s;
  out->total_throughput = ((double)a->output.sum + (double)a->input.sum) / out->busy_s;
  return true;
}
