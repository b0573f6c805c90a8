// SPDX-License-Identifier: Apache-2.0
#include "spec/arith.h"
#include "spec/run.h"

/* What the checks share: where the message goes, and the pool that it names. */
typedef struct check {
  const ds_run *run;
  ds_error *err;
} check;

/* Starts "pools.<name>.<key>: <text>". */
static ds_status pool_fault(const check *c, const char *key, const char *text) {
  const char *name = c->run->pool.name[0] != '\0' ? c->run->pool.name : "main";
  ds_error_begin(c->err, DS_E_INPUT, "pools.");
  ds_error_text(c->err, name);
  ds_error_text(c->err, ".");
  ds_error_text(c->err, key);
  ds_error_text(c->err, ": ");
  ds_error_text(c->err, text);
  return DS_E_INPUT;
}

static ds_status fault(const check *c, const char *key, const char *text) {
  ds_error_begin(c->err, DS_E_INPUT, key);
  ds_error_text(c->err, ": ");
  ds_error_text(c->err, text);
  return DS_E_INPUT;
}

/* Neither NaN nor infinite, without libm: the difference of such a number with itself is not 0. */
static bool finite_at_least(double x, double least) { return x - x == 0 && x >= least; }
static bool positive(double x) { return x - x == 0 && x > 0; }

#define DIMENSION_MAX 2147483647

static ds_status check_model(const check *c) {
  const ds_model *m = &c->run->model;
  const struct {
    const char *key;
    int64_t value;
  } dims[] = {{"layers", m->layers},     {"hidden", m->hidden},     {"heads", m->heads},
              {"kv_heads", m->kv_heads}, {"head_dim", m->head_dim}, {"vocab", m->vocab},
              {"ffn", ds_model_moe_layers(m) == m->layers && m->ffn == 0 ? 1 : m->ffn}};
  for (size_t i = 0; i < DS_ARRAY_LEN(dims); i++) {
    if (dims[i].value < 1 || dims[i].value > DIMENSION_MAX) {
      fault(c, "model", "dimension ");
      ds_error_text(c->err, dims[i].key);
      ds_error_text(c->err, " must be a positive count, found ");
      ds_error_int(c->err, dims[i].value);
      return DS_E_INPUT;
    }
  }
  if (m->mlp_matrices != 2 && m->mlp_matrices != 3) {
    fault(c, "model", "mlp_matrices must be 2 or 3, found ");
    ds_error_int(c->err, m->mlp_matrices);
    return DS_E_INPUT;
  }
  if (m->heads % m->kv_heads != 0) {
    fault(c, "model", "heads (");
    ds_error_int(c->err, m->heads);
    ds_error_text(c->err, ") must be a multiple of kv_heads (");
    ds_error_int(c->err, m->kv_heads);
    ds_error_text(c->err, ")");
    return DS_E_INPUT;
  }
  if (m->experts > 0 && (m->top_k < 1 || m->top_k > m->experts || m->expert_ffn < 1))
    return fault(c, "model", "a mixture needs top_k from 1 to its experts, and expert_ffn");
  if (m->experts > 0 && (m->dense_layers < 0 || m->dense_layers >= m->layers))
    return fault(c, "model", "dense_layers must leave a layer with experts");
  if (m->shared_experts > 0 && m->shared_ffn < 1)
    return fault(c, "model", "shared experts need shared_ffn");
  if (m->kv_lora > 0 && (m->qk_nope < 1 || m->qk_rope < 1 || m->v_head_dim < 1 || m->q_lora < 0))
    return fault(c, "model", "latent attention needs qk_nope, qk_rope and v_head_dim");
  if (m->state_layers < 0 || m->state_layers >= m->layers)
    return fault(c, "model", "state_layers must leave a layer with attention");
  if (m->state_layers > 0 && (m->state_params < 1 || m->state_bytes < 1))
    return fault(c, "model", "state layers need state_params and state_bytes");
  if (m->window < 0 || (m->window > 0 && (m->full_layers < 0 ||
                                          m->full_layers > ds_model_attention_layers(m))))
    return fault(c, "model", "a window needs full_layers from 0 to the layers with attention");
  if (m->index_top_k > 0 && (m->kv_lora < 1 || m->q_lora < 1 || m->window > 0 ||
                             m->index_heads < 1 || m->index_head_dim < 1))
    return fault(c, "model",
                 "sparse attention needs latent attention with q_lora, index_heads and index_head_dim");
  DS_TRY(ds_vision_check(&m->vision, m->hidden, c->err));
  if (ds_model_reach(m) > DS_REACH_MAX) return fault(c, "model", "windows beyond 1,048,576 tokens");
  if ((unsigned)c->run->expert_weights >= DS_FMT_N)
    return fault(c, "expert_weights", "unknown format");
  if ((unsigned)c->run->weights >= DS_FMT_N) return fault(c, "weights", "unknown format");
  ds_format kv = c->run->kv_cache;
  if (kv != DS_FMT_BF16 && kv != DS_FMT_FP16 && kv != DS_FMT_FP8 && kv != DS_FMT_INT8)
    return fault(c, "kv_cache", "must be bf16, fp16, fp8 or int8");
  return DS_OK;
}

/* The engines split whole heads and whole columns of the MLP; key/value heads are split or
 * repeated. */
static ds_status check_split(const check *c) {
  const ds_model *m = &c->run->model;
  if (c->run->pool.hw.dataflow.layer_s > 0) return DS_OK; /* layers are mapped on devices as they come */
  const ds_pool *p = &c->run->pool;
  int64_t tp = p->tensor_parallel, ranks = tp * p->data_parallel, ep = p->expert_parallel;
  const char *what = NULL;
  int64_t count = 0;
  if (ep > 1 && (m->experts == 0 || ranks % ep != 0 || m->experts % ep != 0)) {
    pool_fault(c, "expert_parallel", "");
    ds_error_int(c->err, ep);
    ds_error_text(c->err, m->experts == 0
                              ? " needs a model with experts, which this one has not"
                              : " must divide tensor_parallel x data_parallel, and the experts");
    return DS_E_INPUT;
  }
  if (p->pipeline_parallel > m->layers) {
    pool_fault(c, "pipeline_parallel", "");
    ds_error_int(c->err, p->pipeline_parallel);
    ds_error_text(c->err, " stages are more than the layers, ");
    ds_error_int(c->err, m->layers);
    return DS_E_INPUT;
  }
  if (m->experts > 0 && m->expert_ffn % (ranks / ep) != 0) {
    pool_fault(c, "tensor_parallel", "");
    ds_error_int(c->err, tp);
    ds_error_text(c->err, " does not divide the ");
    ds_error_int(c->err, m->expert_ffn);
    ds_error_text(c->err, " columns of an expert; expert_parallel keeps experts whole");
    return DS_E_INPUT;
  }
  if (m->heads % tp != 0) {
    what = " attention heads";
    count = m->heads;
  } else if (m->kv_lora == 0 && m->kv_heads % tp != 0 && tp % m->kv_heads != 0) {
    what = " key/value heads";
    count = m->kv_heads;
  } else if (m->ffn % ranks != 0) {
    what = " columns of the feed-forward layer";
    count = m->ffn;
  }
  if (what == NULL) return DS_OK;
  pool_fault(c, "tensor_parallel", "");
  ds_error_int(c->err, tp);
  ds_error_text(c->err, " does not divide the ");
  ds_error_int(c->err, count);
  ds_error_text(c->err, what);
  if (m->name[0] != '\0') {
    ds_error_text(c->err, " of ");
    ds_error_text(c->err, m->name);
  }
  return DS_E_INPUT;
}

static ds_status check_parallelism(const check *c) {
  const ds_pool *p = &c->run->pool;
  const struct {
    const char *key;
    int64_t value, most;
  } counts[] = {{"replicas", p->replicas, 1000000},
                {"tensor_parallel", p->tensor_parallel, 65536},
                {"pipeline_parallel", p->pipeline_parallel, 4096},
                {"data_parallel", p->data_parallel, 4096},
                {"expert_parallel", p->expert_parallel, 4096}};
  for (size_t i = 0; i < DS_ARRAY_LEN(counts); i++) {
    if (counts[i].value >= 1 && counts[i].value <= counts[i].most) continue;
    pool_fault(c, counts[i].key, "must be a positive count, found ");
    ds_error_int(c->err, counts[i].value);
    if (counts[i].value > counts[i].most) {
      ds_error_text(c->err, " (at most ");
      ds_error_int(c->err, counts[i].most);
      ds_error_text(c->err, ")");
    }
    return DS_E_INPUT;
  }
  return DS_OK;
}

static ds_status missing(const check *c, const char *what, const char *why) {
  pool_fault(c, "hardware", "card ");
  ds_error_text(c->err, c->run->pool.hw.name);
  ds_error_text(c->err, " has no usable ");
  ds_error_text(c->err, what);
  if (why != NULL) {
    ds_error_text(c->err, ", needed for ");
    ds_error_text(c->err, why);
  }
  return DS_E_INPUT;
}

static bool gemm_usable(const ds_eff_gemm *g) {
  return positive(g->ec) && positive(g->em) && finite_at_least(g->t0_s, 0) &&
         finite_at_least(g->p, 1) && finite_at_least(g->wh, 0) && finite_at_least(g->kh, 0);
}

static bool transfer_usable(const ds_eff_transfer *t) {
  return positive(t->e) && finite_at_least(t->lat_s, 0);
}

static bool exponent(double p) { return p == 1 || p == 2 || p == 4; }

static bool prefill_usable(const ds_eff_prefill *f) {
  return positive(f->ec) && positive(f->em) && finite_at_least(f->t0_s, 0) &&
         finite_at_least(f->ct_s, 0);
}

static ds_status check_attention(const check *c) {
  const ds_hw *hw = &c->run->pool.hw;
  bool narrow = ds_format_kv_bytes(c->run->kv_cache) < 2;
  const ds_eff_decode *d = narrow ? &hw->decode_kv8 : &hw->decode_kv16;
  if (!positive(d->em) || !finite_at_least(d->t0_s, 0) || !finite_at_least(d->c_s, 0) ||
      !exponent(d->p))
    return missing(c,
                   narrow ? "attn_decode_kv8 (its p must be 1, 2 or 4)"
                          : "attn_decode_kv16 (its p must be 1, 2 or 4)",
                   NULL);
  if (!prefill_usable(&hw->prefill_16)) return missing(c, "attn_prefill_16", NULL);
  if (narrow && c->run->pool.attention_8bit && !prefill_usable(&hw->prefill_8))
    return missing(c, "attn_prefill_8", "attention in 8 bit");
  return DS_OK;
}

static ds_status check_latent(const check *c) {
  const ds_hw *hw = &c->run->pool.hw;
  bool narrow = ds_format_kv_bytes(c->run->kv_cache) < 2;
  const ds_eff_latent *d = narrow ? &hw->latent_kv8 : &hw->latent_kv16;
  if (!positive(d->em) || !positive(d->ec) || !finite_at_least(d->t0_s, 0) ||
      !finite_at_least(d->c_s, 0) || !exponent(d->p))
    return missing(c, narrow ? "mla_decode_kv8" : "mla_decode_kv16", "latent attention");
  if (!prefill_usable(&hw->latent_prefill)) return missing(c, "mla_prefill", "latent attention");
  if (c->run->model.index_top_k > 0 && (!positive(hw->latent_kv8.em) || !positive(hw->prefill_16.ec)))
    return missing(c, "mla_decode_kv8 or attn_prefill_16", "the indexer of sparse attention");
  return DS_OK;
}

static ds_status check_experts(const check *c) {
  const ds_hw *hw = &c->run->pool.hw;
  ds_moe_group group = ds_expert_arith_of(hw, c->run->expert_weights).group;
  const ds_eff_moe *e = &hw->moe[group];
  if (positive(e->ec) && positive(e->em) && positive(e->ea) && finite_at_least(e->t0_s, 0) &&
      finite_at_least(e->mh, 0) && finite_at_least(e->skew, 0))
    return DS_OK;
  return missing(c, ds_moe_group_name(group), ds_format_name(c->run->expert_weights));
}

/* The efficiency groups that this run's kernels use. */
static ds_status check_efficiencies(const check *c) {
  const ds_run *run = c->run;
  const ds_hw *hw = &run->pool.hw;
  ds_arith arith = ds_arith_of(hw, run->weights);
  if (!gemm_usable(&hw->gemm[arith.group]))
    return missing(c, ds_gemm_group_name(arith.group), ds_format_name(run->weights));
  if (!gemm_usable(&hw->gemm[DS_GEMM_BF16])) return missing(c, "gemm_bf16", "the output layer");
  const ds_model *m = &run->model;
  DS_TRY(m->kv_lora > 0 ? check_latent(c) : check_attention(c));
  if (m->experts > 0) DS_TRY(check_experts(c));
  if (!positive(hw->elementwise_em)) return missing(c, "elementwise", NULL);
  if (!positive(hw->sustained_clock)) return missing(c, "sustained_clock", NULL);
  const ds_eff_allreduce *a = &hw->allreduce;
  const ds_pool *p = &run->pool;
  bool groups = p->tensor_parallel > 1 || p->data_parallel > 1;
  if (!groups && p->pipeline_parallel == 1) return DS_OK;
  if (!positive(hw->scale_up_bytes_per_s))
    return missing(c, "scale_up_bandwidth", "more than one device in a replica");
  if (groups && (!positive(a->e1) || !positive(a->e2) || !finite_at_least(a->a1_s, 0) ||
                 !finite_at_least(a->a2_s, 0) || !finite_at_least(a->b_s, 0)))
    return missing(c, "allreduce", "tensor_parallel above 1");
  int64_t devices = p->tensor_parallel * p->data_parallel * p->pipeline_parallel;
  if (p->pipeline_parallel > 1 && !transfer_usable(&hw->peer))
    return missing(c, "peer", "pipeline_parallel above 1");
  if (hw->scale_up_devices > 0 && (double)devices > hw->scale_up_devices) {
    if (!positive(hw->nic_bytes_per_s))
      return missing(c, "nic_bandwidth", "a replica that is larger than its scale-up network");
    if (!transfer_usable(&hw->network))
      return missing(c, "network", "a replica that is larger than its scale-up network");
  }
  if (m->experts > 0 && p->data_parallel > 1 &&
      (!transfer_usable(&hw->dispatch_low) || !transfer_usable(&hw->combine_low) ||
       !transfer_usable(&hw->dispatch_normal) || !transfer_usable(&hw->combine_normal)))
    return missing(c, "dispatch_low, combine_low, dispatch_normal or combine_normal",
                   "experts behind data_parallel attention");
  return DS_OK;
}

static ds_status check_hardware(const check *c) {
  const ds_hw *hw = &c->run->pool.hw;
  if (!positive(hw->memory_bytes)) return missing(c, "memory", NULL);
  if (!positive(hw->memory_bytes_per_s)) return missing(c, "memory_bandwidth", NULL);
  if (!positive(hw->peak_flops_per_s[DS_MATH_16])) return missing(c, "peak.bf16", NULL);
  if (!finite_at_least(hw->peak_flops_per_s[DS_MATH_8], 0)) return missing(c, "peak.fp8", NULL);
  if (!finite_at_least(hw->peak_flops_per_s[DS_MATH_4], 0)) return missing(c, "peak.fp4", NULL);
  if (!finite_at_least(hw->int8_ops_per_s, 0)) return missing(c, "peak.int8", NULL);
  if (!positive(hw->units)) return missing(c, "units", NULL);
  const ds_dataflow *flow = &hw->dataflow;
  if (!finite_at_least(flow->layer_s, 0) || !finite_at_least(flow->hop_s, 0))
    return missing(c, "dataflow", NULL);
  if (flow->layer_s > 0) return positive(flow->compute_frac) ? DS_OK : missing(c, "dataflow.compute", NULL);
  return c->run->cost_tier == DS_COST_ROOFLINE ? check_efficiencies(c) : DS_OK;
}

static ds_status check_linear(const check *c) {
  const ds_linear *l = &c->run->linear;
  if (!finite_at_least(l->step_s, 0)) return fault(c, "cost.step", "must be a time of at least 0");
  if (!finite_at_least(l->prefill_token_s, 0))
    return fault(c, "cost.prefill_token", "must be a time of at least 0");
  if (!finite_at_least(l->decode_sequence_s, 0))
    return fault(c, "cost.decode_sequence", "must be a time of at least 0");
  if (!finite_at_least(l->scheduling_s, 0))
    return fault(c, "cost.scheduling_time", "must be a time of at least 0");
  if (!finite_at_least(l->draft_token_s, 0))
    return fault(c, "cost.draft_token", "must be a time of at least 0");
  if (c->run->pool.kv_blocks == 0)
    return pool_fault(c, "kv_blocks", "must be given with cost: {model: linear}");
  return DS_OK;
}

static ds_status check_speculation(const check *c) {
  const ds_speculation *s = &c->run->pool.speculative;
  if (s->method == DS_DRAFT_NONE) return DS_OK;
  if ((unsigned)s->method >= DS_DRAFT_N) return pool_fault(c, "speculative.method", "unknown");
  if (s->tokens < 1 || s->tokens > DS_DRAFTS_MAX) {
    pool_fault(c, "speculative.tokens", "must be a count from 1 to 32, found ");
    ds_error_int(c->err, s->tokens);
    return DS_E_INPUT;
  }
  if (s->lookahead < 0 || s->disable_above_batch < 0)
    return pool_fault(c, "speculative", "counts must not be negative");
  for (int64_t i = 0; i < s->n_by_batch; i++) {
    const ds_draft_row *r = &s->by_batch[i];
    if (r->low < 1 || r->high < r->low || r->tokens < 0 || r->tokens > s->tokens)
      return pool_fault(c, "speculative.by_batch",
                        "a row is [low, high, tokens] with 1 <= low <= high");
    if (i > 0 && r->low <= s->by_batch[i - 1].high)
      return pool_fault(c, "speculative.by_batch", "rows must rise and not overlap");
  }
  for (int64_t i = 0; s->replay_first == NULL && i < s->tokens; i++)
    if (!finite_at_least(s->acceptance[i], 0) || s->acceptance[i] > 1)
      return pool_fault(c, "speculative.acceptance", "must lie between 0 and 1");
  if (s->n_streams < 0) return pool_fault(c, "speculative", "counts must not be negative");
  for (int64_t k = 0; s->stream_acceptance != NULL && k < s->n_streams; k++)
    for (int64_t i = 0; i < s->tokens; i++)
      if (!finite_at_least(ds_drafts_chances(s, (uint32_t)k)[i], 0) || ds_drafts_chances(s, (uint32_t)k)[i] > 1)
        return pool_fault(c, "speculative.acceptance", "must lie between 0 and 1");
  if (c->run->cost_tier != DS_COST_LINEAR && c->run->pool.hw.dataflow.layer_s > 0)
    return pool_fault(c, "speculative", "drafts are not modelled on a part that keeps all weights on chip");
  if (s->method != DS_DRAFT_MODEL || c->run->cost_tier == DS_COST_LINEAR) return DS_OK;
  ds_run drafter;
  ds_drafter_run(c->run, &drafter);
  const check of_draft = {&drafter, c->err};
  DS_TRY(check_model(&of_draft));
  return check_split(&of_draft);
}

static ds_status check_pool(const check *c) {
  const ds_pool *p = &c->run->pool;
  DS_TRY(check_parallelism(c));
  if (p->max_model_len < 0) return pool_fault(c, "max_model_len", "must not be negative");
  if (p->kv_blocks < 0) return pool_fault(c, "kv_blocks", "must be auto or a positive count");
  if (p->kv_block_tokens < 1 || p->kv_block_tokens > 1048576) {
    pool_fault(c, "kv_block_tokens", "must be a count from 1 to 1048576, found ");
    ds_error_int(c->err, p->kv_block_tokens);
    return DS_E_INPUT;
  }
  bool sized_by_memory = c->run->cost_tier != DS_COST_LINEAR;
  if (sized_by_memory && (!positive(p->memory_utilization) || p->memory_utilization > 1))
    return pool_fault(c, "gpu_memory_utilization", "must be above 0 and at most 1");
  if (p->max_num_seqs < 0)
    return pool_fault(c, "scheduler_options.max_num_seqs", "must not be negative");
  if (p->max_num_batched_tokens < 0)
    return pool_fault(c, "scheduler_options.max_num_batched_tokens", "must not be negative");
  const ds_engine_card *e = &p->engine;
  const double overheads[] = {e->per_iteration_s, e->per_request_s, e->small_kernel_s,
                              e->api_per_request_s, e->api_per_token_s, e->tokenise_s, e->prompt_layer_s,
                              e->prompt_product_s, e->prompt_mxfp4_s};
  for (size_t i = 0; i < DS_ARRAY_LEN(overheads); i++)
    if (!finite_at_least(overheads[i], 0))
      return pool_fault(c, "engine", "every overhead must be a time of at least 0");
  return DS_OK;
}

static ds_status check_slo(const check *c) {
  const ds_slo *s = &c->run->slo;
  const ds_slo_request *r = &s->request;
  if (r->ttft_ns < 0 || r->tpot_ns < 0 || r->itl_ns < 0 || r->e2e_ns < 0)
    return fault(c, "slo.request", "a limit must not be negative");
  if (s->n_run < 0 || s->n_run > DS_SLO_RUN_MAX) return fault(c, "slo.run", "too many limits");
  for (int64_t i = 0; i < s->n_run; i++) {
    const ds_slo_limit *l = &s->run[i];
    if (!finite_at_least(l->percentile, 0) || l->percentile > 100)
      return fault(c, "slo.run", "a percentile must lie between 0 and 100");
    if (l->limit_ns < 0) return fault(c, "slo.run", "a limit must not be negative");
  }
  if (!finite_at_least(s->attainment, 0) || s->attainment > 1)
    return fault(c, "slo.run.attainment", "must lie between 0 and 1");
  if (s->window_ns < 0) return fault(c, "slo.window", "must not be negative");
  return DS_OK;
}

ds_status ds_run_validate(const ds_run *run, ds_error *err) {
  const check c = {run, err};
  DS_TRY(check_pool(&c));
  if (run->cost_tier == DS_COST_LINEAR) {
    DS_TRY(check_linear(&c));
    /* Model and hardware may be left out; what is there must still make sense together. */
    if (run->model.layers != 0) {
      DS_TRY(check_model(&c));
      DS_TRY(check_split(&c));
    }
    DS_TRY(check_speculation(&c));
    return check_slo(&c);
  }
  if (run->cost_tier != DS_COST_ROOFLINE && run->cost_tier != DS_COST_SPEED_OF_LIGHT)
    return fault(&c, "cost", "must be speed-of-light, roofline or {model: linear, ...}");
  DS_TRY(check_model(&c));
  DS_TRY(check_split(&c));
  DS_TRY(check_hardware(&c));
  DS_TRY(check_speculation(&c));
  return check_slo(&c);
}
