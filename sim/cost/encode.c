// SPDX-License-Identifier: Apache-2.0
/* The encoder of images: a dense transformer over patches, without a cache.
 *
 * Its operators are those of a prompt's layers (gemm.c, attention.c, collective.c) with the part's 16-bit figures: the
 * first product (all pixels of a patch), per layer queries, keys and values in one product, attention both ways within
 * each picture (layers with windows: within each window), the output, the feed-forward layer, two norms and rotary
 * positions; then the projector over tokens. All images of an iteration go through it at once, as vLLM batches them
 * (_execute_mm_encoder in v1/worker/gpu_model_runner.py), so weights are read once a run. Split over the ranks of the
 * attention group like the language model (mm_encoder_tp_mode: weights, vLLM's default): two all-reduces a layer and
 * one behind each second product of the projector, whose odd last product and the first of all are on every rank. Or each
 * rank has it whole and encodes its share of the images (mm_encoder_tp_mode: data); what they become is gathered.
 * Flash attention works on whole steps of 32 of a head: 72 and 80 values cost as much as 96. Encoders run kernel by
 * kernel, outside graphs: where the engine's card has the time of a launch, no run is shorter than its launches. */
#include "cost/encode.h"

#include "cost/pricer.h"

#define HEAD_STEP 32.0
#define TILE      128.0

void ds_images_add(ds_images_shape *s, const ds_vision *v, double tokens) {
  double span = tokens, per_token = (double)ds_vision_patches_per_token(v);
  if (v->image_size > 0 && (double)ds_vision_tile_tokens(v) < tokens) span = (double)ds_vision_tile_tokens(v);
  if (!(tokens > 0)) return;
  double pictures = tokens / span, patches = span * per_token + (v->class_token ? 1 : 0);
  double seen = v->window > 0 && (double)v->window < patches ? (double)v->window : patches;
  s->images++;
  s->tokens += tokens;
  s->patches += pictures * patches;
  s->pairs += pictures * patches * patches;
  s->window_pairs += pictures * patches * seen;
  s->tiles += pictures * ds_ceil(patches / TILE);
}

ds_encoder ds_encoder_bind(const ds_run *run, const ds_hw *hw, bool ideal) {
  const ds_vision *v = &run->model.vision;
  bool whole = run->pool.encoder_by_image;
  double ranks = whole ? 1 : (double)run->pool.tensor_parallel, gated = v->mlp_matrices == 3 ? 2 : 1;
  if (v->layers <= 0 || run->pool.language_model_only) return (ds_encoder){0};
  double heads = ds_ceil((double)v->heads / ranks), row = heads * (double)v->head_dim, ffn = (double)v->ffn / ranks;
  ds_encoder e = {.layers = (double)v->layers,
                  .full_layers = v->window > 0 ? (double)v->full_layers : (double)v->layers,
                  .hidden = (double)v->hidden,
                  .pixels = 3.0 * (double)(v->patch * v->patch) * (double)(v->frames > 1 ? v->frames : 1),
                  .heads = heads,
                  .row = row,
                  .head_dim = (double)v->head_dim,
                  .mlp_in = gated * ffn,
                  .mlp_out = ffn,
                  .n_projector = v->n_projector,
                  .projectors = v->projectors > 1 ? (double)v->projectors : 1,
                  .ranks = ranks,
                  .body = ds_gemm_bind(hw, (ds_format)v->weights, ideal),
                  .shares = whole ? (double)run->pool.tensor_parallel : 1,
                  .reduce = ds_allreduce_bind(hw, ideal || whole ? 1 : run->pool.tensor_parallel),
                  .gather = ds_allreduce_bind(hw, ideal || !whole ? 1 : run->pool.tensor_parallel)};
  for (int64_t i = 0; i < v->n_projector; i++) e.projector[i] = (double)v->projector[i];
  const ds_eff_prefill *f = &hw->prefill_16;
  double flops_per_s = hw->peak_flops_per_s[DS_MATH_16] * (ideal ? 1.0 : f->ec);
  double bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : f->em);
  double head = ideal ? e.head_dim : ds_ceil(e.head_dim / HEAD_STEP) * HEAD_STEP;
  e.attention = (ds_attn_prefill){.per_pair_s = 4.0 * heads * head / flops_per_s,
                                  .per_token_s = 8.0 * row / bytes_per_s,
                                  .per_kv_s = 8.0 * row / bytes_per_s * (ideal ? 0.5 : 1.0),
                                  .ideal = ideal};
  if (ideal) {
    e.element.per_byte_s = 1.0 / hw->memory_bytes_per_s;
    return e;
  }
  e.attention.t0_s = f->t0_s;
  e.attention.per_tile_s = f->ct_s * heads / hw->units;
  const ds_engine_card *c = &run->pool.engine;
  e.element = (ds_elementwise){c->small_kernel_s, 1.0 / (hw->memory_bytes_per_s * hw->elementwise_em)};
  e.launch_s = c->launch_s * c->kernels_per_layer * e.layers;
  return e;
}

static double product_s(const ds_encoder *e, double m, double n, double k) { return ds_gemm_time(&e->body, m, n, k).s; }
static double element_s(const ds_encoder *e, double bytes) { return e->element.t0_s + bytes * e->element.per_byte_s; }

/* Widths of its i-th product on one rank: split by column, then by row; an odd last one is whole. */
static void projector_widths(const ds_encoder *e, int64_t i, double *n, double *k) {
  bool paired = i % 2 == 1 || i + 2 < e->n_projector;
  *k = e->projector[i] / (paired && i % 2 == 1 ? e->ranks : 1);
  *n = e->projector[i + 1] / (paired && i % 2 == 0 ? e->ranks : 1);
}

static double projector_s(const ds_encoder *e, double tokens) {
  double s = 0;
  for (int64_t i = 0; i + 1 < e->n_projector; i++) {
    double n, k;
    projector_widths(e, i, &n, &k);
    s += product_s(e, tokens, n, k);
    if (i % 2 == 1) s += ds_allreduce_s(&e->reduce, tokens * n * 2.0);
  }
  return s * e->projectors;
}

static double encoder_s(const ds_encoder *e, const ds_images_shape *x, ds_encoder_ops *ops) {
  /* Of whole images the rank with the most sets the pace, and all are as large as the mean. */
  double part = e->shares > 1 ? ds_ceil((double)x->images / e->shares) / (double)x->images : 1;
  double m = x->patches * part, h = e->hidden;
  double full = ds_attn_prefill_time(&e->attention, m, x->pairs * part, m, x->tiles * part).s;
  double near = ds_attn_prefill_time(&e->attention, m, x->window_pairs * part, m, x->tiles * part).s;
  ops->gemm = product_s(e, m, h, e->pixels) +
              e->layers * (product_s(e, m, 3.0 * e->row, h) + product_s(e, m, h, e->row) +
                           product_s(e, m, e->mlp_in, h) + product_s(e, m, h, e->mlp_out));
  ops->attention = e->full_layers * full + (e->layers - e->full_layers) * near;
  /* Norms with the residual, rotary positions of queries and keys, the activation: as in a prompt's layers. */
  ops->elementwise = e->layers * (2.0 * element_s(e, m * h * 6.0) + element_s(e, m * e->row * 8.0) +
                                  element_s(e, m * (e->mlp_in + e->mlp_out) * 2.0));
  ops->reduce = 2.0 * e->layers * ds_allreduce_s(&e->reduce, m * h * 2.0);
  ops->projector = projector_s(e, x->tokens * part);
  /* To all ranks what each has encoded: the second half of an all-reduce in two shots. */
  ops->reduce += 0.5 * e->projectors * ds_allreduce_s(&e->gather, x->tokens * e->projector[e->n_projector - 1] * 2.0);
  double device = ops->gemm + ops->attention + ops->elementwise + ops->reduce + ops->projector;
  ops->launch = e->launch_s > device ? e->launch_s - device : 0;
  return device + ops->launch;
}

double ds_price_images_s(const ds_pricer *p, const ds_images_shape *s, ds_encoder_ops *ops) {
  ds_encoder_ops own;
  if (ops == NULL) ops = &own;
  *ops = (ds_encoder_ops){0};
  if (p->tier == DS_COST_LINEAR) return p->linear.image_token_s * s->tokens;
  return p->op.encoder.layers > 0 && s->images > 0 ? encoder_s(&p->op.encoder, s, ops) : 0;
}

void ds_price_images_work(const ds_pricer *p, const ds_images_shape *s, uint64_t runs, double *flops, double *bytes) {
  if (p->tier == DS_COST_LINEAR || !(p->op.encoder.layers > 0) || s->images == 0) return;
  const ds_encoder *e = &p->op.encoder;
  double h = e->hidden, first = e->pixels * h, layer = h * 4.0 * e->row + h * (e->mlp_in + e->mlp_out);
  double macs = 0, moved = 0; /* of the projector: weights, and values read and written per token */
  for (int64_t i = 0; i + 1 < e->n_projector; i++) {
    double n, k;
    projector_widths(e, i, &n, &k);
    macs += n * k;
    moved += n + k;
  }
  double share = 1 / e->shares; /* of the images; every rank reads the weights */
  *flops += share * (2.0 * s->patches * (first + e->layers * layer) + 2.0 * s->tokens * macs * e->projectors +
            4.0 * e->row * (e->full_layers * s->pairs + (e->layers - e->full_layers) * s->window_pairs));
  *bytes += (double)runs * (first + e->layers * layer + macs * e->projectors) * e->body.weight_bytes +
            share * 2.0 * s->patches * (e->pixels + h + e->layers * (4.0 * h + 4.0 * e->row + e->mlp_in + e->mlp_out)) +
            share * 2.0 * s->tokens * moved * e->projectors;
}
