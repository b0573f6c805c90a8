// SPDX-License-Identifier: Apache-2.0
/* A dense transformer as a list of kernels. Per layer: norm, QKV, rotary and KV write, attention,
 * output projection, all-reduce, norm, gate and up, activation, down, all-reduce. Matrix products
 * see decode and prefill tokens merged (a mixed batch reads the weights once); nothing overlaps
 * from one operator to the next. The output layer runs for sampled rows only, in 16 bit. A layer of
 * another kind would be one more function beside `ds_stack_cost`. */
#include "cost/operators.h"

void ds_operators_bind(const ds_run *run, ds_operators *out) {
  const ds_model *m = &run->model;
  const ds_hw *hw = &run->pool.hw;
  const ds_engine_card *e = &run->pool.engine;
  bool ideal = run->cost_tier == DS_COST_SPEED_OF_LIGHT;
  double tp = (double)run->pool.tensor_parallel, kv_heads = (double)m->kv_heads / tp;
  double gated = m->mlp_matrices == 3 ? 2.0 : 1.0, ffn = (double)m->ffn / tp;
  *out = (ds_operators){
      .layers = (double)m->layers,
      .hidden = (double)m->hidden,
      .heads = (double)m->heads / tp,
      .kv_heads = kv_heads < 1 ? 1 : kv_heads, /* fewer heads than devices: each keeps a copy */
      .head_dim = (double)m->head_dim,
      .mlp_in = gated * ffn,
      .mlp_out = ffn,
      .mlp_act = (gated + 1.0) * ffn,
      .vocab = (double)m->vocab / tp,
      .kv_bytes = ds_format_kv_bytes(run->kv_cache),
      .flops_16_per_s = hw->peak_flops_per_s[DS_MATH_16],
      .memory_bytes_per_s = hw->memory_bytes_per_s,
      .body = ds_gemm_bind(hw, run->weights, ideal),
      .head = ds_gemm_bind(hw, DS_FMT_BF16, ideal)};
  ds_attention_bind(hw, ideal, out);
  out->reduce = ds_allreduce_bind(hw, ideal ? 1 : run->pool.tensor_parallel);
  if (ideal) {
    out->element.per_byte_s = 1.0 / hw->memory_bytes_per_s;
    return;
  }
  out->element =
      (ds_elementwise){e->small_kernel_s, 1.0 / (hw->memory_bytes_per_s * hw->elementwise_em)};
  out->per_iteration_s = e->per_iteration_s;
  out->per_request_s = e->per_request_s;
}

/* Where an operator's seconds go: its total to one of `ops`, its causes to `part_s`. */
typedef struct tally {
  double *op_s;
  double *part_s;
} tally;

static void add_gemm(const tally *t, double count, ds_kernel_time k) {
  *t->op_s += count * k.s;
  t->part_s[k.compute ? DS_PART_COMPUTE : DS_PART_MEMORY] += count * k.s;
}

static void add_element(const tally *t, double count, const ds_elementwise *e, double bytes) {
  double memory_s = bytes * e->per_byte_s;
  *t->op_s += count * (e->t0_s + memory_s);
  t->part_s[DS_PART_HOST] += count * e->t0_s; /* launch and tail of a kernel too small to matter */
  t->part_s[DS_PART_MEMORY] += count * memory_s;
}

static void add_reduce(const tally *t, double count, const ds_allreduce *a, double bytes) {
  double s = count * ds_allreduce_s(a, bytes);
  *t->op_s += s;
  t->part_s[DS_PART_COMM] += s;
}

void ds_stack_cost(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]) {
  if (!(tokens > 0)) return;
  ds_ops unused;
  if (ops == NULL) {
    unused = (ds_ops){0};
    ops = &unused;
  }
  const tally attn = {&ops->gemm_attn, part_s}, mlp = {&ops->gemm_mlp, part_s},
              elt = {&ops->elt, part_s}, ar = {&ops->ar, part_s};
  double n = o->layers, h = o->hidden, row = o->heads * o->head_dim,
         kv_row = o->kv_heads * o->head_dim;
  add_gemm(&attn, n, ds_gemm_time(&o->body, tokens, row + 2.0 * kv_row, h));
  add_gemm(&attn, n, ds_gemm_time(&o->body, tokens, h, row));
  add_gemm(&mlp, n, ds_gemm_time(&o->body, tokens, o->mlp_in, h));
  add_gemm(&mlp, n, ds_gemm_time(&o->body, tokens, h, o->mlp_out));
  add_element(&elt, 2.0 * n, &o->element,
              tokens * h * 6.0); /* norm and residual: three passes of 16 bit */
  add_element(&elt, n, &o->element, tokens * (row + kv_row) * 4.0); /* rotary, KV write */
  add_element(&elt, n, &o->element, tokens * o->mlp_act * 2.0);     /* activation */
  add_reduce(&ar, 2.0 * n, &o->reduce, tokens * h * 2.0);
}

void ds_head_cost(const ds_operators *o, double rows, ds_ops *ops, double part_s[DS_PART_N]) {
  ds_ops unused;
  if (ops == NULL) {
    unused = (ds_ops){0};
    ops = &unused;
  }
  const tally head = {&ops->lmhead, part_s};
  /* A chunk that completes no prompt still runs one row: engines compute logits and throw them
   * away. */
  add_gemm(&head, 1.0, ds_gemm_time(&o->head, rows > 1 ? rows : 1.0, o->vocab, o->hidden));
  add_element(&head, 1.0, &o->element, rows * o->hidden * 4.0); /* gather and sample */
  add_reduce(&head, 1.0, &o->reduce, rows * o->vocab * 2.0);
}
