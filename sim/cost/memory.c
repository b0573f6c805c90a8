// SPDX-License-Identifier: Apache-2.0
/* What a device holds: weights, the largest activations, the runtime, and KV in what is left of the
 * budget.
 *
 * budget = utilisation x memory as the driver reports it. Weights are split over the
 * tensor-parallel ranks, the embeddings and the output layer by vocabulary; embeddings and norms
 * stay in 16 bit. Activations are those of one layer at the largest batch (double-buffered, 16 bit)
 * and the logits in 32 bit. The runtime's share (context, graphs, and communication buffers with
 * more than one rank) comes from two block counts that vLLM 0.15 printed on H100: 7,462 for Llama 2
 * 7B alone and 26,602 for CodeLlama 34B on two. */
#include "cost/memory.h"

#include <string.h>

#define RUNTIME_BYTES          0.25e9
#define RUNTIME_PARALLEL_BYTES 0.45e9
#define SUGGESTED_RANKS_MAX    64

static double kv_heads_per_rank(const ds_model *m, double ranks) {
  double heads = (double)m->kv_heads / ranks;
  return heads < 1 ? 1 : heads;
}

static double weight_bytes(const ds_run *run, double ranks) {
  const ds_model *m = &run->model;
  double h = (double)m->hidden, row = (double)m->heads / ranks * (double)m->head_dim;
  double kv_row = kv_heads_per_rank(m, ranks) * (double)m->head_dim;
  double products =
      h * (row + 2 * kv_row) + row * h + (double)m->mlp_matrices * h * (double)m->ffn / ranks;
  double vectors = 2 * h; /* norms, kept whole on every rank */
  if (m->qkv_bias) vectors += row + 2 * kv_row;
  if (m->qk_norm) vectors += 2 * (double)m->head_dim;
  double embeddings = (double)m->vocab * h / ranks * (m->tied_embeddings ? 1 : 2);
  return (double)m->layers * (products * ds_format_weight_bytes(run->weights) + vectors * 2) +
         (embeddings + h) * 2;
}

static double activation_bytes(const ds_run *run, double ranks) {
  const ds_model *m = &run->model;
  double h = (double)m->hidden, mlp = 2 * (double)m->ffn / ranks;
  double attention =
      ((double)m->heads / ranks + 2 * kv_heads_per_rank(m, ranks)) * (double)m->head_dim + h;
  return (double)run->pool.max_num_batched_tokens * (mlp > attention ? mlp : attention) * 2 * 2 +
         (double)run->pool.max_num_seqs * (double)m->vocab * 4;
}

static double kv_token_bytes(const ds_run *run, double ranks) {
  return 2 * (double)run->model.layers * kv_heads_per_rank(&run->model, ranks) *
         (double)run->model.head_dim * ds_format_kv_bytes(run->kv_cache);
}

static void measure(const ds_run *run, int64_t ranks, ds_memory *out) {
  const ds_pool *p = &run->pool;
  double r = (double)ranks;
  *out = (ds_memory){.device_bytes = p->hw.memory_bytes,
                     .budget_bytes = p->hw.memory_bytes * p->memory_utilization};
  out->weight_bytes = weight_bytes(run, r);
  out->activation_bytes = activation_bytes(run, r);
  out->runtime_bytes = RUNTIME_BYTES + (ranks > 1 ? RUNTIME_PARALLEL_BYTES : 0);
  /* The drafter's weights and KV; a head of one layer shares the embeddings and the output layer. */
  ds_run drafter;
  double draft_kv = 0;
  if (ds_drafter_run(run, &drafter)) {
    if (p->speculative.method != DS_DRAFT_MODEL) drafter.model.vocab = 0;
    out->weight_bytes += weight_bytes(&drafter, r);
    draft_kv = kv_token_bytes(&drafter, r);
  }
  out->kv_bytes =
      out->budget_bytes - out->weight_bytes - out->activation_bytes - out->runtime_bytes;
  out->kv_bytes_per_token = kv_token_bytes(run, r) + draft_kv;
}

static double block_bytes(const ds_run *run, const ds_memory *m) {
  return m->kv_bytes_per_token * (double)run->pool.kv_block_tokens;
}

/* vLLM keeps its first block as a placeholder that no request gets. */
static double reserved_blocks(const ds_run *run) {
  return strcmp(run->pool.engine.family, "vllm") == 0 ? 1 : 0;
}

static bool fits(const ds_run *run, const ds_memory *m) {
  return m->kv_bytes >= (1 + reserved_blocks(run)) * block_bytes(run, m);
}

static bool splits(const ds_model *m, int64_t ranks) {
  return m->heads % ranks == 0 && (m->kv_heads % ranks == 0 || ranks % m->kv_heads == 0) &&
         m->ffn % ranks == 0;
}

/* "12.3 GB", rounded away from zero where it counts: a shortage is never shown as 0.0. */
static void append_gb(ds_error *err, double bytes) {
  int64_t tenths = (int64_t)(bytes / 1e8 + 0.5);
  if (tenths == 0 && bytes > 0) tenths = 1;
  ds_error_int(err, tenths / 10);
  ds_error_text(err, ".");
  ds_error_int(err, tenths % 10);
  ds_error_text(err, " GB");
}

static ds_status does_not_fit(const ds_run *run, const ds_memory *m, ds_error *err) {
  const ds_pool *p = &run->pool;
  ds_error_begin(err, DS_E_INPUT, "pools.");
  ds_error_text(err, p->name[0] != '\0' ? p->name : "main");
  ds_error_text(err, ": ");
  ds_error_text(err, run->model.name[0] != '\0' ? run->model.name : "the model");
  ds_error_text(err, " in ");
  ds_error_text(err, ds_format_name(run->weights));
  ds_error_text(err, " does not fit ");
  ds_error_text(err, p->hw.name[0] != '\0' ? p->hw.name : "the device");
  ds_error_text(err, " with tensor_parallel: ");
  ds_error_int(err, p->tensor_parallel);
  ds_error_text(err, "; per device weights take ");
  append_gb(err, m->weight_bytes);
  ds_error_text(err, ", activations ");
  append_gb(err, m->activation_bytes);
  ds_error_text(err, " and the runtime ");
  append_gb(err, m->runtime_bytes);
  ds_error_text(err, " of a budget of ");
  append_gb(err, m->budget_bytes);
  ds_error_text(err, ", ");
  append_gb(err, block_bytes(run, m) * (1 + reserved_blocks(run)) - m->kv_bytes);
  ds_error_text(err, " too much to leave room for a KV block");
  for (int64_t ranks = 1; ranks <= SUGGESTED_RANKS_MAX; ranks *= 2) {
    ds_memory other;
    if (!splits(&run->model, ranks)) continue;
    measure(run, ranks, &other);
    if (!fits(run, &other)) continue;
    ds_error_text(err, "; tensor_parallel: ");
    ds_error_int(err, ranks);
    ds_error_text(err, " would fit");
    return DS_E_INPUT;
  }
  ds_error_text(err, "; no tensor_parallel up to 64 would");
  return DS_E_INPUT;
}

ds_status ds_memory_footprint(const ds_run *run, ds_memory *out, ds_error *err) {
  const ds_pool *p = &run->pool;
  *out = (ds_memory){0};
  bool known = run->model.layers > 0 && p->hw.memory_bytes > 0 && p->tensor_parallel > 0;
  if (known) measure(run, p->tensor_parallel, out);
  if (p->kv_blocks > 0) out->kv_blocks = p->kv_blocks;
  if (run->cost_tier ==
      DS_COST_LINEAR) { /* a toy: its pool is what the user says, its device may not exist */
    if (p->kv_blocks > 0) return DS_OK;
    return ds_error_begin(err, DS_E_INPUT, "kv_blocks must be given with cost: {model: linear}");
  }
  DS_TRY(ds_run_validate(run, err));
  if (p->kv_blocks > 0 ? out->kv_bytes < 0 : !fits(run, out)) return does_not_fit(run, out, err);
  if (p->kv_blocks > 0) return DS_OK;
  double blocks = out->kv_bytes / block_bytes(run, out) - reserved_blocks(run);
  out->kv_blocks = blocks < 4e18 ? (int64_t)blocks : DS_KV_UNLIMITED - 1;
  return DS_OK;
}
