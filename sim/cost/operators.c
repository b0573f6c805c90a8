// SPDX-License-Identifier: Apache-2.0
/* A dense transformer as a list of kernels. Per layer: norm, QKV, rotary and KV write, attention,
 * output projection, all-reduce, norm, gate and up, activation, down, all-reduce. Matrix products
 * see decode and prefill tokens merged (a mixed batch reads the weights once); nothing overlaps
 * from one operator to the next. The output layer runs for sampled rows only, in 16 bit. A layer of
 * another kind would be one more function beside `ds_stack_cost`. */
#include "cost/operators.h"

/* A cap on power takes arithmetic first: its rate goes with about the 0.6th power of the power, and
 * memory follows only below seven tenths of the design power. Both are estimates. */
static void cap_power(ds_hw *hw, double cap_w) {
  if (!(cap_w > 0) || !(hw->power_w > 0) || cap_w >= hw->power_w) return;
  double share = cap_w / hw->power_w, slow = ds_pow(share, 0.6);
  for (int i = 0; i < DS_MATH_N; i++) hw->peak_flops_per_s[i] *= slow;
  hw->int8_ops_per_s *= slow;
  if (share < 0.7) hw->memory_bytes_per_s *= share / 0.7;
}

static void bind_layers(const ds_run *run, ds_operators *o) {
  const ds_model *m = &run->model;
  const ds_pool *p = &run->pool;
  double tp = (double)p->tensor_parallel, ranks = tp * (double)p->data_parallel;
  double moe = (double)ds_model_moe_layers(m), attention = (double)ds_model_attention_layers(m);
  o->layers = (double)m->layers;
  o->full_layers = (double)ds_model_full_layers(m);
  o->near_layers = attention - o->full_layers;
  o->state_layers = (double)m->state_layers;
  o->dense_layers = m->ffn > 0 ? o->layers - moe : 0;
  o->norms = m->norms_per_layer > 0 ? (double)m->norms_per_layer : 2;
  o->group = (double)p->data_parallel;
  bool meet = m->experts > 0; /* the plain layers of a mixture stay within their group, which keeps them whole */
  o->dense_group = meet ? 1 : o->group;
  double gated = m->mlp_matrices == 3 ? 2.0 : 1.0, ffn = (double)m->ffn / (meet ? tp : ranks);
  o->mlp_in = gated * ffn;
  o->mlp_out = ffn;
  o->mlp_act = (gated + 1.0) * ffn;
  o->q_lora = (double)m->q_lora;
  o->kv_lora = (double)m->kv_lora;
  o->qk_nope = (double)m->qk_nope;
  o->qk_rope = (double)m->qk_rope;
  o->v_dim = (double)m->v_head_dim;
  o->state_width = (double)m->state_params / (double)m->hidden / tp;
  o->state_bytes = (double)m->state_bytes / tp;
  o->state_flops_per_token = 4.0 * o->state_bytes / 2.0; /* decay and update, query; 16 bit a value */
  o->qk_norms = m->qk_norm && m->kv_lora == 0 ? o->full_layers + o->near_layers : 0;
  o->qk_reduces = m->qk_norm_whole ? o->qk_norms : 0;
  bool side_by_side = m->parallel_block && p->data_parallel == 1;
  o->attn_reduces = o->layers - (side_by_side ? o->dense_layers : 0);
  o->mlp_reduces = p->data_parallel == 1 ? o->layers : meet ? o->dense_layers : 0;
}

/* The indexer of sparse attention scores every cached token with a narrow 8-bit key and its scale. */
static void bind_indexer(const ds_model *m, const ds_hw *hw, bool ideal, ds_operators *o) {
  if (m->index_top_k <= 0) return;
  double key = (double)m->index_head_dim + 4, flops = 2.0 * (double)(m->index_heads * m->index_head_dim);
  double peak = hw->peak_flops_per_s[DS_MATH_8] > 0 ? hw->peak_flops_per_s[DS_MATH_8]
                                                    : hw->peak_flops_per_s[DS_MATH_16];
  o->index_bytes = key;
  o->index_flops = flops;
  if (ideal) {
    o->index_per_ctx_s = key / hw->memory_bytes_per_s;
    return;
  }
  o->index_per_ctx_s = key / (hw->memory_bytes_per_s * hw->latent_kv8.em);
  o->index_per_pair_s = flops / (peak * hw->prefill_16.ec);
}

static void bind_pipeline(const ds_run *run, bool ideal, ds_operators *o) {
  const ds_pool *p = &run->pool;
  const ds_hw *hw = &p->hw;
  int64_t stages = p->pipeline_parallel < 1 ? 1 : p->pipeline_parallel;
  o->stages = (double)stages;
  int64_t fewest = run->model.layers / stages; /* what is left over goes to earlier stages */
  o->last = (double)fewest;
  o->longest = (double)ds_div_up(run->model.layers, stages);
  if (stages == 1 || ideal) return;
  double ranks = (double)(p->tensor_parallel * p->data_parallel);
  bool across = hw->scale_up_devices > 0 && ranks * o->stages > hw->scale_up_devices;
  const ds_eff_transfer *link = across ? &hw->network : &hw->peer;
  o->hop_s = link->lat_s;
  o->hop_per_token_s = (double)run->model.hidden * 2.0 /
                       ((across ? hw->nic_bytes_per_s : hw->scale_up_bytes_per_s) * link->e);
}

static void scale(double *x, double by, double most) {
  *x *= by;
  if (*x > most) *x = most;
}

static bool same(const char *a, const char *b) {
  while (*a != '\0' && *a == *b) a++, b++;
  return *a == *b;
}

/* The kernels of the engine's own library, where the card has them. */
static void own_library(ds_hw *hw, const ds_engine_card *e, bool shares_keys) {
  static const char *const family[] = {"vllm", "sglang", "trtllm", "tuned"}; /* the last: TensorRT-LLM, too */
  static const ds_library of[] = {DS_LIBRARY_VLLM, DS_LIBRARY_SGLANG, DS_LIBRARY_TRTLLM, DS_LIBRARY_TRTLLM};
  for (int f = 0; f < 4; f++) {
    if (!same(e->family, family[f])) continue;
    const ds_eff_library *l = &hw->library[of[f]];
    for (int i = 0; i < DS_GEMM_GROUPS; i++)
      if (l->gemm[i].em > 0) hw->gemm[i] = l->gemm[i];
    /* One library's kernels for scales by tensor are not those of scales by block: these stay what all libraries reach. */
    if (l->moe[DS_MOE_FP8].em > 0 && !(hw->moe[DS_MOE_FP8_BLOCK].em > 0)) hw->moe[DS_MOE_FP8_BLOCK] = hw->moe[DS_MOE_FP8];
    for (int i = 0; i < DS_MOE_GROUPS; i++)
      if (l->moe[i].em > 0) hw->moe[i] = l->moe[i];
    if (l->decode_kv16.em > 0) hw->decode_kv16 = l->decode_kv16;
    if (l->decode_kv8.em > 0) hw->decode_kv8 = l->decode_kv8;
    if (!shares_keys && l->decode_kv8_mha.em > 0) hw->decode_kv8 = l->decode_kv8_mha;
    if (l->prefill_16.em > 0) hw->prefill_16 = l->prefill_16;
    if (l->prefill_8.em > 0) hw->prefill_8 = l->prefill_8;
  }
  if (e->mxfp4_marlin && !(hw->peak_flops_per_s[DS_MATH_4] > 0)) hw->moe[DS_MOE_MXFP4] = hw->moe[DS_MOE_INT4];
}

/* An engine's own kernels: factors on what the part's card says of everybody's. No share becomes more than all. */
static void own_kernels(ds_hw *hw, const ds_engine_card *e) {
  double memory = e->kernel_memory > 0 ? e->kernel_memory : 1, compute = e->kernel_compute > 0 ? e->kernel_compute : 1;
  double fixed = e->kernel_fixed > 0 ? e->kernel_fixed : 1;
  if (memory == 1 && compute == 1 && fixed == 1) return;
  for (int i = 0; i < DS_GEMM_GROUPS; i++) {
    scale(&hw->gemm[i].em, memory, 1);
    if (i == DS_GEMM_FP8 || i == DS_GEMM_NVFP4) scale(&hw->gemm[i].ec, compute, 1);
    scale(&hw->gemm[i].t0_s, fixed, 1);
  }
  ds_eff_decode *decode[] = {&hw->decode_kv16, &hw->decode_kv8};
  ds_eff_prefill *prefill[] = {&hw->prefill_16, &hw->prefill_8};
  for (int i = 0; i < 2; i++) {
    scale(&decode[i]->em, memory, 1);
    scale(&decode[i]->t0_s, fixed, 1);
    scale(&prefill[i]->em, memory, 1);
    scale(&prefill[i]->t0_s, fixed, 1);
  }
}

/* Host time to launch every kernel of an iteration with prompts. */
static double launch_of_prompts(const ds_run *run, const ds_hw *hw, const ds_operators *o) {
  const ds_engine_card *e = &run->pool.engine;
  bool four = hw->peak_flops_per_s[DS_MATH_4] > 0;
  ds_gemm_group group = ds_arith_of(hw, run->weights).group;
  bool blocks = run->weights == DS_FMT_FP8_BLOCK; /* of a library of their own */
  bool chosen = four && !blocks && (group == DS_GEMM_FP8 || group == DS_GEMM_NVFP4);
  double attention = o->full_layers + o->near_layers, latent = o->kv_lora > 0 ? (o->q_lora > 0 ? 3 : 2) : 2;
  double products = attention * latent + o->state_layers + 2.0 * o->dense_layers;
  double experts = !four && run->expert_weights == DS_FMT_MXFP4 ? o->moe.layers : 0;
  return e->prompt_layer_s * o->layers + (chosen ? e->prompt_product_s * products : 0) + e->prompt_mxfp4_s * experts;
}

void ds_operators_bind(const ds_run *run, ds_operators *out) {
  bool ideal = run->cost_tier == DS_COST_SPEED_OF_LIGHT;
  ds_run capped = *run;
  double flow = 0;
  if (run->pool.hw.dataflow.layer_s > 0) { /* whole layers on each device, however they are asked for */
    capped.pool.pipeline_parallel *= run->pool.tensor_parallel * run->pool.data_parallel;
    flow = (double)capped.pool.pipeline_parallel;
    capped.pool.tensor_parallel = capped.pool.data_parallel = capped.pool.expert_parallel = 1;
    if (capped.pool.pipeline_parallel > run->model.layers)
      capped.pool.pipeline_parallel = run->model.layers;
  }
  run = &capped;
  const ds_model *m = &run->model;
  const ds_engine_card *e = &run->pool.engine;
  ds_hw *hw = &capped.pool.hw;
  cap_power(hw, run->pool.power_cap_w);
  double tp = (double)run->pool.tensor_parallel, kv_heads = (double)m->kv_heads / tp;
  if (!ideal) own_library(hw, e, (double)m->heads / tp > kv_heads && (double)m->heads > tp);
  if (!ideal) own_kernels(hw, e);
  if (!ideal && e->vendor_collectives && hw->allreduce_vendor.a2_s > 0) hw->allreduce = hw->allreduce_vendor;
  int64_t ranks = run->pool.tensor_parallel * run->pool.data_parallel;
  *out = (ds_operators){
      .hidden = (double)m->hidden,
      .heads = (double)m->heads / tp,
      .kv_heads = kv_heads < 1 ? 1 : kv_heads, /* fewer heads than devices: each keeps a copy */
      .head_dim = (double)m->head_dim,
      .vocab = (double)m->vocab / tp,
      .kv_bytes = ds_format_kv_bytes(run->kv_cache),
      .flops_16_per_s = hw->peak_flops_per_s[DS_MATH_16],
      .memory_bytes_per_s = hw->memory_bytes_per_s,
      .body = ds_gemm_bind(hw, run->weights, ideal),
      .head = ds_gemm_bind(hw, DS_FMT_BF16, ideal)};
  out->router = out->head;
  double eight = hw->peak_flops_per_s[DS_MATH_8] > hw->int8_ops_per_s ? hw->peak_flops_per_s[DS_MATH_8]
                                                                      : hw->int8_ops_per_s;
  bool narrow = out->kv_bytes < 2 && (m->kv_lora > 0 || run->pool.attention_8bit);
  out->attention_peak_per_s = narrow && eight > 0 ? eight : out->flops_16_per_s;
  if (!ideal && e->kv_per_query_head) out->kv_readers = out->heads;
  bind_layers(run, out);
  if (m->kv_lora > 0)
    ds_latent_bind(hw, run->kv_cache, ideal, out);
  else
    ds_attention_bind(hw, run->pool.attention_8bit, ideal, out);
  bind_indexer(m, hw, ideal, out);
  bind_pipeline(&capped, ideal, out);
  out->flow_devices = flow;
  out->moe = ds_moe_bind(&capped, ideal);
  out->exchange = ds_exchange_bind(&capped, ideal);
  out->reduce = ds_allreduce_bind(hw, ideal ? 1 : run->pool.tensor_parallel);
  out->reduce_all = ds_allreduce_bind(hw, ideal ? 1 : ranks);
  out->reduce_mlp = m->experts > 0 ? out->reduce : out->reduce_all;
  out->overlap = run->pool.two_batch_overlap && !ideal;
  out->encoder = ds_encoder_bind(run, hw, ideal);
  if (ideal) {
    out->element.per_byte_s = 1.0 / hw->memory_bytes_per_s;
    return;
  }
  out->element =
      (ds_elementwise){e->small_kernel_s, 1.0 / (hw->memory_bytes_per_s * hw->elementwise_em)};
  out->sample_bytes = (double)m->vocab * e->sampler_bytes;
  out->per_iteration_s = e->per_iteration_s;
  out->per_request_s = e->per_request_s;
  out->capture_max = (double)e->capture_max;
  out->capture_step = e->capture_step > 0 ? (double)e->capture_step : 8;
  out->capture_double = (double)e->capture_double;
  out->eager_s = e->launch_s * e->kernels_per_layer * out->layers;
  out->prompt_launch_s = launch_of_prompts(run, hw, out);
  out->prompt_captured = (double)e->prompt_captured;
  out->async_host = e->async_scheduling;
  bool fused = e->fused_nvfp4 && ds_arith_of(hw, run->weights).group == DS_GEMM_NVFP4;
  if (e->static_scales || fused) ds_gemm_fuse(&out->body, hw);
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

/* Products around attention. */
static void projections(const ds_operators *o, double tokens, const tally *attn) {
  double n = o->full_layers + o->near_layers, h = o->hidden;
  if (o->kv_lora > 0) {
    double latent = o->kv_lora + o->qk_rope, query = o->heads * (o->qk_nope + o->qk_rope);
    if (o->q_lora > 0) {
      add_gemm(attn, n, ds_gemm_time(&o->body, tokens, o->q_lora + latent, h));
      add_gemm(attn, n, ds_gemm_time(&o->body, tokens, query, o->q_lora));
    } else {
      add_gemm(attn, n, ds_gemm_time(&o->body, tokens, query + latent, h));
    }
    add_gemm(attn, n, ds_gemm_time(&o->body, tokens, h, o->heads * o->v_dim));
    return;
  }
  double row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim;
  add_gemm(attn, n, ds_gemm_time(&o->body, tokens, row + 2.0 * kv_row, h));
  add_gemm(attn, n, ds_gemm_time(&o->body, tokens, h, row));
}

static void mixture(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]) {
  const ds_moe *m = &o->moe;
  const tally moe = {&ops->moe, part_s}, mlp = {&ops->gemm_mlp, part_s}, a2a = {&ops->a2a, part_s};
  add_gemm(&moe, m->layers, ds_moe_time(m, tokens * o->group));
  add_gemm(&moe, m->layers, ds_gemm_time(&o->router, tokens, m->experts, o->hidden));
  add_element(&moe, 2.0 * m->layers, &o->element, 0); /* choose the top, and order the tokens */
  if (m->shared > 0) {
    add_gemm(&mlp, m->layers, ds_gemm_time(&o->body, tokens, 2.0 * m->shared, o->hidden));
    add_gemm(&mlp, m->layers, ds_gemm_time(&o->body, tokens, o->hidden, m->shared));
    add_element(&mlp, m->layers, &o->element, tokens * 6.0 * m->shared_one);
  }
  double s = m->layers * ds_exchange_s(&o->exchange, tokens);
  *a2a.op_s += s;
  part_s[DS_PART_COMM] += s;
}

static void stack_once(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]) {
  const tally attn = {&ops->gemm_attn, part_s}, mlp = {&ops->gemm_mlp, part_s},
              elt = {&ops->elt, part_s}, ar = {&ops->ar, part_s};
  double h = o->hidden, row = o->heads * o->head_dim, kv_row = o->kv_heads * o->head_dim;
  double met = tokens * o->dense_group; /* what a plain feed-forward layer sees */
  projections(o, tokens, &attn);
  if (o->state_layers > 0)
    add_gemm(&attn, o->state_layers, ds_gemm_time(&o->body, tokens, o->state_width, h));
  if (o->dense_layers > 0) {
    add_gemm(&mlp, o->dense_layers, ds_gemm_time(&o->body, met, o->mlp_in, h));
    add_gemm(&mlp, o->dense_layers, ds_gemm_time(&o->body, met, h, o->mlp_out));
  }
  add_element(&elt, o->norms * o->layers, &o->element,
              tokens * h * 6.0); /* norm and residual: three passes of 16 bit */
  add_element(&elt, o->full_layers + o->near_layers, &o->element,
              tokens * (row + kv_row) * 4.0); /* rotary, KV write */
  if (o->qk_norms > 0)
    add_element(&elt, 2.0 * o->qk_norms, &o->element, tokens * (row + kv_row) * 2.0); /* one kernel each, read and written */
  if (o->qk_reduces > 0) add_reduce(&ar, o->qk_reduces, &o->reduce, tokens * 8.0); /* two mean squares of 32 bit a token */
  if (o->dense_layers > 0)
    add_element(&elt, o->dense_layers, &o->element, met * o->mlp_act * 2.0); /* activation */
  add_reduce(&ar, o->attn_reduces, &o->reduce, tokens * h * 2.0);
  add_reduce(&ar, o->mlp_reduces, &o->reduce_mlp, tokens * h * 2.0);
  if (o->moe.layers > 0)
    mixture(o, tokens, ops, part_s);
  else if (o->group > 1) /* tokens are gathered before, and results scattered after */
    add_reduce(&ar, o->layers, &o->reduce_all, met * h * 2.0);
}

void ds_stack_cost(const ds_operators *o, double tokens, ds_ops *ops, double part_s[DS_PART_N]) {
  if (!(tokens > 0)) return;
  ds_ops unused;
  if (ops == NULL) {
    unused = (ds_ops){0};
    ops = &unused;
  }
  if (!o->overlap || tokens < 2) {
    stack_once(o, tokens, ops, part_s);
    return;
  }
  /* Each half communicates while the other computes: what shows is what does not hide. */
  ds_ops half = {0};
  double half_s[DS_PART_N] = {0};
  stack_once(o, tokens * 0.5, &half, half_s);
  double busy = half_s[DS_PART_MEMORY] + half_s[DS_PART_COMPUTE] + half_s[DS_PART_HOST];
  double comm = half_s[DS_PART_COMM], shown = comm > busy ? (comm - busy) / comm : 0;
  for (int i = 0; i < DS_PART_N; i++) part_s[i] += 2.0 * half_s[i] * (i == DS_PART_COMM ? shown : 1);
  ops->gemm_attn += 2.0 * half.gemm_attn;
  ops->gemm_mlp += 2.0 * half.gemm_mlp;
  ops->moe += 2.0 * half.moe;
  ops->elt += 2.0 * half.elt;
  ops->ar += 2.0 * half.ar * shown;
  ops->a2a += 2.0 * half.a2a * shown;
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
  add_element(&head, 1.0, &o->element, rows * (o->hidden * 4.0 + o->sample_bytes)); /* gather and sample */
  add_reduce(&head, 1.0, &o->reduce, rows * o->vocab * 2.0);
}
