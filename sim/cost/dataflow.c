// SPDX-License-Identifier: Apache-2.0
/* Parts that keep all weights in on-chip memory and pass tokens from device to device: wafers, and
 * chips with SRAM only.
 *
 * The D devices of a replica form one pipeline over the layers. Memory is so fast that a single
 * token is bound by the latency of its layers (fabric and synchronisation), which published token
 * rates give per part:
 *   t = max(layers x layer time, rows 2 P / (D peak share), KV bytes / (D bandwidth)) + (D - 1) hop
 * with P the parameters that take part in a token: the pipeline holds a token of each row at a time,
 * until arithmetic or the memory of a stage is full. A prompt adds its own arithmetic, spread over
 * the pipeline. No kernel of these parts has been timed here: estimates throughout. */
#include "cost/pricer.h"

ds_flow ds_flow_bind(const ds_run *run) {
  const ds_model *m = &run->model;
  const ds_pool *p = &run->pool;
  const ds_hw *hw = &p->hw;
  ds_flow f = {.used = hw->dataflow.layer_s > 0 && run->cost_tier == DS_COST_ROOFLINE};
  if (!f.used) return f;
  double devices = (double)(p->tensor_parallel * p->data_parallel * p->pipeline_parallel);
  double peak = devices * ds_arith_of(hw, run->weights).peak_per_s * hw->dataflow.compute_frac;
  double attention = (double)ds_model_attention_layers(m);
  f.layers_s = (double)m->layers * hw->dataflow.layer_s;
  f.hops_s = (devices - 1.0) * hw->dataflow.hop_s;
  f.per_token_s = 2.0 * ds_model_active_params(m) / peak;
  f.per_pair_s = 4.0 * attention * (double)m->heads * (double)m->head_dim / peak;
  f.per_ctx_s = ds_model_kv_bytes_per_token(m, ds_format_kv_bytes(run->kv_cache)) /
                (devices * hw->memory_bytes_per_s);
  f.per_iteration_s = p->engine.per_iteration_s;
  f.per_request_s = p->engine.per_request_s;
  return f;
}

void ds_flow_decode(const ds_flow *f, double rows, ds_decode_price *d, double part_s[DS_PART_N]) {
  double compute_s = rows * f->per_token_s;
  part_s[DS_PART_COMM] += f->hops_s;
  part_s[DS_PART_HOST] += f->per_iteration_s + f->per_request_s * rows;
  d->layers = 1;
  d->mem_per_ctx_s = f->per_ctx_s;
  d->work_s = compute_s > f->layers_s ? compute_s : f->layers_s;
  d->attention_part = compute_s > f->layers_s ? DS_PART_COMPUTE : DS_PART_COMM;
  d->general = true;
  d->p = 0;
}

void ds_flow_mixed(const ds_flow *f, const ds_shape *s, ds_ops *ops, double part_s[DS_PART_N]) {
  double rows = (double)s->decode_seqs, requests = rows + (double)s->prefill_chunks;
  double memory_s = s->decode_ctx * f->per_ctx_s, compute_s = rows * f->per_token_s;
  double most = memory_s > compute_s ? memory_s : compute_s;
  bool latency = f->layers_s > most;
  if (latency) most = f->layers_s;
  double prompt_s = (double)s->prefill_tokens * f->per_token_s + s->prefill_pairs * f->per_pair_s;
  part_s[latency ? DS_PART_COMM : memory_s > compute_s ? DS_PART_MEMORY : DS_PART_COMPUTE] += most;
  part_s[DS_PART_COMPUTE] += prompt_s;
  part_s[DS_PART_COMM] += f->hops_s;
  part_s[DS_PART_HOST] += f->per_iteration_s + f->per_request_s * requests;
  if (ops == NULL) return;
  ops->attn_dec += most;
  ops->gemm_mlp += prompt_s;
  ops->ar += f->hops_s;
  ops->engine += f->per_iteration_s + f->per_request_s * requests;
}
