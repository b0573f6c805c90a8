// SPDX-License-Identifier: Apache-2.0
/* What a device holds: weights, the largest activations, the runtime, and KV in what is left of the
 * budget.
 *
 * budget = utilisation x memory as the driver reports it. Attention is split over the ranks of its
 * group and repeated in every group of data-parallel attention, and so are the embeddings and the output
 * layer (by vocabulary) and the plain and shared feed-forward layers of a mixture; those of a dense model are split over
 * all ranks of a stage, experts whole over expert_parallel ranks and by width over the rest;
 * embeddings, norms and the router stay in 16 bit. Of
 * a pipeline, the stage with the most layers counts. A latent cache is on every rank of its group.
 * Layers that read the nearest tokens only, or keep a state, need no cache beyond that: where it is
 * little beside the rest it is set apart for as many sequences as may run, and blocks then hold the
 * other layers only; where it is much (long windows), blocks hold every layer, as without a hybrid
 * KV manager. Activations are those of one layer at the largest batch (double-buffered, 16 bit)
 * and the logits in 32 bit. The runtime's share (context, graphs, and communication buffers with
 * more than one rank), where the engine card does not say, comes from two block counts that vLLM 0.15 printed on H100: 7,462 for Llama 2
 * 7B alone and 26,602 for CodeLlama 34B on two. */
#include "cost/memory.h"

#include "base/num.h"
#include "cost/operators.h"

#include <string.h>

#define RUNTIME_BYTES          0.25e9
#define RUNTIME_PARALLEL_BYTES 0.45e9
#define SUGGESTED_RANKS_MAX    64
#define SUGGESTED_FLOW_MAX     4096
#define SET_APART_FRAC         0.2 /* of what is left for KV */

/* One replica's ranks, as weights are split over them. */
typedef struct split {
  double group; /* ranks of one attention group */
  double all;   /* ranks of a stage */
  double experts; /* ranks that share out whole experts */
  double stages;
} split;

static split split_of(const ds_pool *p, int64_t tensor_parallel) {
  if (p->hw.dataflow.layer_s > 0) /* all devices share out everything */
    return (split){(double)(tensor_parallel * p->data_parallel * p->pipeline_parallel),
                   (double)(tensor_parallel * p->data_parallel * p->pipeline_parallel),
                   (double)(tensor_parallel * p->data_parallel * p->pipeline_parallel), 1};
  double all = (double)(tensor_parallel * p->data_parallel);
  return (split){(double)tensor_parallel, all, (double)p->expert_parallel,
                 (double)p->pipeline_parallel};
}

static double kv_heads_per_rank(const ds_model *m, double ranks) {
  double heads = (double)m->kv_heads / ranks;
  return heads < 1 ? 1 : heads;
}

/* What parts with on-chip memory only hold: everything shared out evenly, and no workspace to speak
 * of. */
static void measure_flow(const ds_run *run, double devices, ds_memory *out) {
  const ds_model *m = &run->model;
  double expert = (double)ds_model_moe_layers(m) * (double)m->experts * 3 * (double)m->hidden *
                  (double)m->expert_ffn;
  double encoders = run->pool.language_model_only ? ds_vision_params(&m->vision) : 0;
  out->weight_bytes = ((ds_model_params(m) - expert - encoders) * ds_format_weight_bytes(run->weights) +
                       expert * ds_format_weight_bytes(run->expert_weights)) / devices;
  out->kv_bytes = out->budget_bytes - out->weight_bytes;
  out->kv_bytes_per_token =
      ds_model_kv_bytes_per_token(m, ds_format_kv_bytes(run->kv_cache)) / devices;
}

/* Layers of a kind on the stage that has the most. */
static double on_stage(double layers, double stages) { return ds_ceil(layers / stages); }

/* Products, in weights, and 16-bit vectors of one attention layer. */
static double attention_products(const ds_model *m, double ranks, double *vectors) {
  double h = (double)m->hidden, heads = (double)m->heads / ranks;
  *vectors = 0;
  if (m->kv_lora > 0) {
    double q = (double)m->q_lora, kv = (double)m->kv_lora, v = (double)m->v_head_dim;
    double qk = (double)(m->qk_nope + m->qk_rope), from = q > 0 ? q : h;
    double index = (double)m->index_heads * (double)m->index_head_dim;
    double all = h * q + from * heads * qk + h * (kv + (double)m->qk_rope) +
                 kv * heads * ((double)m->qk_nope + v) + heads * v * h;
    *vectors = q + kv;
    if (m->index_top_k > 0)
      all += q * index + h * ((double)m->index_head_dim + (double)m->index_heads);
    return all;
  }
  double row = heads * (double)m->head_dim;
  double kv_row = kv_heads_per_rank(m, ranks) * (double)m->head_dim;
  if (m->qkv_bias || m->linear_bias) *vectors += row + 2 * kv_row;
  if (m->linear_bias) *vectors += h;
  if (m->qk_norm) *vectors += m->qk_norm_whole ? row + kv_row : 2 * (double)m->head_dim;
  return h * (row + 2 * kv_row) + row * h;
}

static double weight_bytes(const ds_run *run, const split *k) {
  const ds_model *m = &run->model;
  double h = (double)m->hidden, wb = ds_format_weight_bytes(run->weights);
  double moe = (double)ds_model_moe_layers(m), layers = (double)m->layers;
  double attention = (double)ds_model_attention_layers(m), stages = k->stages;
  double norms = m->norms_per_layer > 0 ? (double)m->norms_per_layer : 2;
  double vectors, products = attention_products(m, k->group, &vectors);
  /* A model of one kind of layer is one sum per layer, so that its rounding does not depend on the
   * others. */
  double mlp = (double)m->mlp_matrices * h * (double)m->ffn / (m->experts > 0 ? k->group : k->all);
  double plain = on_stage(layers, stages), bytes;
  vectors += norms * h * (m->norm_bias ? 2 : 1); /* norms, kept whole on every rank */
  if (moe == 0 && m->state_layers == 0) {
    bytes = plain * ((products + mlp) * wb + vectors * 2);
  } else {
    double expert = 3 * h * (double)m->expert_ffn / (k->all / k->experts);
    double held = ((double)m->experts + (double)run->pool.redundant_experts) / k->experts;
    double shared = 3 * h * (double)m->shared_ffn * (double)m->shared_experts / k->group;
    bytes = on_stage(attention, stages) * products * wb + plain * vectors * 2;
    bytes += on_stage((double)m->state_layers, stages) * (double)m->state_params / k->group * wb;
    if (m->ffn > 0) bytes += on_stage(layers - moe, stages) * mlp * wb;
    bytes += on_stage(moe, stages) *
             (held * expert * ds_format_weight_bytes(run->expert_weights) + shared * wb +
              h * (double)m->experts * 2);
  }
  double embeddings = (double)m->vocab * h / k->group * (m->tied_embeddings || stages > 1 ? 1 : 2);
  double positions = (double)m->learned_positions * h;
  return bytes + (embeddings + positions + h) * 2 +
         (double)m->encoder_params / k->group * 2;
}

static bool trtllm(const ds_run *run) { return strcmp(run->pool.engine.family, "trtllm") == 0; }

/* Where every rank gets all tokens, TensorRT-LLM has room for what they bring and take, and for all their experts to be its own:
 * results, activations and permuted inputs share one place, gate and up and results another (workspace of
 * NVIDIA/TensorRT-LLM cutlass_kernels/moe_gemm/moe_kernels.cu). */
static double gathered_bytes(const ds_run *run, double tokens) {
  const ds_model *m = &run->model;
  if (!trtllm(run) || !ds_experts_gather(run)) return 0;
  double h = (double)m->hidden, ranks = (double)(run->pool.tensor_parallel * run->pool.data_parallel);
  double f = (double)m->expert_ffn / (ranks / (double)run->pool.expert_parallel);
  ds_format format = run->expert_weights;
  double narrow = format == DS_FMT_FP8 || format == DS_FMT_FP8_BLOCK || format == DS_FMT_FP8_STATIC ? 1 : 2;
  double in = 2 * h > narrow * f ? 2 * h : narrow * f, out = 4 * f > 2 * h ? 4 * f : 2 * h, pair = in + out;
  return tokens * (double)run->pool.data_parallel * ((double)m->top_k * pair + 4 * h);
}

/* The encoder of images: its weights are split like the language model's (vLLM's default for mm_encoder_tp_mode). */
static double encoder_weight_bytes(const ds_run *run, const split *k) {
  if (run->pool.language_model_only) return 0;
  return ds_vision_params(&run->model.vision) * ds_format_weight_bytes((ds_format)run->model.vision.weights) /
         (run->pool.encoder_by_image ? 1 : k->group);
}

/* Tokens of images that one iteration may encode, and the encoder cache may hold (in vLLM both are that number). */
int64_t ds_encoder_budget(const ds_run *run) {
  const ds_vision *v = &run->model.vision;
  if (v->layers <= 0 || run->pool.language_model_only) return run->pool.max_num_batched_tokens;
  int64_t most = ds_vision_most_tokens(v), batch = run->pool.max_num_batched_tokens;
  return most > batch ? most : batch;
}

/* Embeddings of as many tokens as the encoder cache holds, in 16 bit, on every rank; and the widest values of one of
 * the encoder's layers at as many patches (double-buffered, as the language model's). */
static double encoder_cache_bytes(const ds_run *run) {
  const ds_vision *v = &run->model.vision;
  if (v->layers <= 0 || run->pool.language_model_only) return 0;
  return (double)ds_encoder_budget(run) * (double)run->model.hidden * 2 * (double)(v->projectors > 1 ? v->projectors : 1);
}

static double encoder_activation_bytes(const ds_run *run, double ranks) {
  const ds_vision *v = &run->model.vision;
  if (v->layers <= 0 || run->pool.language_model_only) return 0;
  if (run->pool.encoder_by_image) ranks = 1;
  double mlp = (double)v->ffn / ranks * (v->mlp_matrices == 3 ? 2 : 1);
  double attention = 3 * (double)(v->heads * v->head_dim) / ranks + (double)v->hidden;
  double patches = (double)(ds_encoder_budget(run) * ds_vision_patches_per_token(v)); /* all may be one image's */
  return patches * (mlp > attention ? mlp : attention) * 2 * 2;
}

static double layer_bytes(const ds_run *run, double ranks, double tokens, double seqs) {
  const ds_model *m = &run->model;
  double widest = (double)m->ffn;
  if (m->experts > 0 && (double)(m->expert_ffn * m->top_k) > widest)
    widest = (double)(m->expert_ffn * m->top_k);
  double h = (double)m->hidden, mlp = 2 * widest / ranks;
  double attention =
      ((double)m->heads / ranks + 2 * kv_heads_per_rank(m, ranks)) * (double)m->head_dim + h;
  return tokens * (mlp > attention ? mlp : attention) * 2 * 2 + seqs * (double)m->vocab * 4 + gathered_bytes(run, tokens);
}

static double activation_bytes(const ds_run *run, double ranks) {
  const ds_pool *p = &run->pool;
  double seqs = (double)p->max_num_seqs;
  double bytes = layer_bytes(run, ranks, (double)p->max_num_batched_tokens, seqs);
  double rows = (double)p->engine.capture_max < seqs ? (double)p->engine.capture_max : seqs;
  /* Captured graphs share a pool of their own, as large as the largest needs, which TensorRT-LLM's profile counts before
   * KV is sized (NVIDIA/TensorRT-LLM docs/source/blogs/tech_blog/blog20 @baf363e5ec); vLLM captures later. */
  return trtllm(run) && rows > 0 ? bytes + layer_bytes(run, ranks, rows, rows) : bytes;
}

/* Bytes that one layer keeps of a token on a rank. */
static double kv_bytes_of_layer(const ds_run *run, double ranks) {
  const ds_model *m = &run->model;
  double element = ds_format_kv_bytes(run->kv_cache);
  if (m->kv_lora == 0) return 2 * kv_heads_per_rank(m, ranks) * (double)m->head_dim * element;
  double latent = (double)(m->kv_lora + m->qk_rope) * element;
  return m->index_top_k > 0 ? latent + (double)m->index_head_dim + 4 : latent;
}

/* KV per token, and what is set apart per sequence that may run. */
static void measure_kv(const ds_run *run, const split *k, ds_memory *out) {
  const ds_model *m = &run->model;
  double layer = kv_bytes_of_layer(run, k->group), stages = k->stages;
  double attention = on_stage((double)ds_model_attention_layers(m), stages);
  double seqs = (double)run->pool.max_num_seqs;
  out->kv_bytes_per_token = attention * layer;
  out->kv_bytes -= seqs * on_stage((double)m->state_layers, stages) * (double)m->state_bytes / k->group;
  if (m->window <= 0 || m->full_layers == 0) return; /* nothing else would count tokens */
  if (run->pool.engine.whole_windows) return;
  double full = on_stage((double)m->full_layers, stages), near = attention - full;
  double apart = seqs * near * layer * (double)(m->window + run->pool.kv_block_tokens);
  if (apart > SET_APART_FRAC * out->kv_bytes) return;
  out->kv_bytes -= apart;
  out->kv_bytes_per_token = full * layer;
}

static void measure(const ds_run *run, int64_t ranks, ds_memory *out) {
  const ds_pool *p = &run->pool;
  const split k = split_of(p, ranks);
  *out = (ds_memory){.device_bytes = p->hw.memory_bytes,
                     .budget_bytes = p->hw.memory_bytes * p->memory_utilization};
  if (p->hw.dataflow.layer_s > 0) {
    measure_flow(run, k.all, out);
    return;
  }
  out->weight_bytes = weight_bytes(run, &k);
  /* The drafter's weights and KV; a head of one layer shares the embeddings and the output layer. */
  ds_run drafter;
  double draft_kv = 0;
  if (ds_drafter_run(run, &drafter)) {
    if (p->speculative.method != DS_DRAFT_MODEL) drafter.model.vocab = 0;
    split d = k;
    d.stages = 1;
    if (drafter.model.experts == 0) d.experts = 1;
    out->weight_bytes += weight_bytes(&drafter, &d);
    draft_kv = (double)ds_model_attention_layers(&drafter.model) * kv_bytes_of_layer(&drafter, k.group);
  }
  /* The two do not run at once; what the encoder yields is held meanwhile. */
  double encoder = encoder_activation_bytes(run, k.group);
  out->weight_bytes += encoder_weight_bytes(run, &k);
  out->activation_bytes = activation_bytes(run, k.group);
  if (encoder > out->activation_bytes) out->activation_bytes = encoder;
  out->activation_bytes += encoder_cache_bytes(run);
  const ds_engine_card *e = &p->engine;
  double alone = e->runtime_bytes > 0 ? e->runtime_bytes : RUNTIME_BYTES;
  double together = e->runtime_parallel_bytes > 0 ? e->runtime_parallel_bytes : RUNTIME_PARALLEL_BYTES;
  out->runtime_bytes = alone + (k.all * k.stages > 1 ? together : 0);
  out->kv_bytes =
      out->budget_bytes - out->weight_bytes - out->activation_bytes - out->runtime_bytes;
  measure_kv(run, &k, out);
  out->kv_bytes_per_token += draft_kv;
}

static double block_bytes(const ds_run *run, const ds_memory *m) {
  return m->kv_bytes_per_token * (double)run->pool.kv_block_tokens;
}

/* vLLM keeps its first block for itself (the null block): no request gets it. */
static double reserved_blocks(const ds_run *run) {
  return strcmp(run->pool.engine.family, "vllm") == 0 ? 1 : 0;
}

static bool fits(const ds_run *run, const ds_memory *m) {
  return m->kv_bytes >= (1 + reserved_blocks(run)) * block_bytes(run, m);
}

/* Would this width do for everything else that the pool asks? */
static bool splits(const ds_run *run, int64_t ranks) {
  ds_run other = *run;
  other.pool.tensor_parallel = ranks;
  return ds_run_validate(&other, NULL) == DS_OK;
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
  const struct {
    const char *key;
    int64_t value;
  } others[] = {{", data_parallel: ", p->data_parallel},
                {", expert_parallel: ", p->expert_parallel},
                {", pipeline_parallel: ", p->pipeline_parallel}};
  for (size_t i = 0; i < DS_ARRAY_LEN(others); i++) {
    if (others[i].value <= 1) continue;
    ds_error_text(err, others[i].key);
    ds_error_int(err, others[i].value);
  }
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
  int64_t most = p->hw.dataflow.layer_s > 0 ? SUGGESTED_FLOW_MAX : SUGGESTED_RANKS_MAX;
  for (int64_t ranks = 1; ranks <= most; ranks += most > SUGGESTED_RANKS_MAX ? 1 : ranks) {
    ds_memory other;
    if (!splits(run, ranks)) continue;
    measure(run, ranks, &other);
    if (!fits(run, &other)) continue;
    ds_error_text(err, "; tensor_parallel: ");
    ds_error_int(err, ranks);
    ds_error_text(err, " would fit");
    return DS_E_INPUT;
  }
  ds_error_text(err, "; no tensor_parallel up to ");
  ds_error_int(err, most);
  ds_error_text(err, " would");
  return DS_E_INPUT;
}

ds_status ds_memory_footprint(const ds_run *run, ds_memory *out, ds_error *err) {
  const ds_pool *p = &run->pool;
  *out = (ds_memory){0};
  bool known = run->model.layers > 0 && p->hw.memory_bytes > 0 && p->tensor_parallel > 0 &&
               p->data_parallel > 0 && p->expert_parallel > 0 && p->pipeline_parallel > 0;
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
