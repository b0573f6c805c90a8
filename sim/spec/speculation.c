// SPDX-License-Identifier: Apache-2.0
#include "spec/run.h"

const char *const ds_draft_names[DS_DRAFT_N] = {"none", "draft-model", "eagle", "mtp", "ngram"};

int64_t ds_drafts_for(const ds_speculation *p, int64_t running) {
  if (p->method == DS_DRAFT_NONE) return 0;
  if (p->disable_above_batch > 0 && running > p->disable_above_batch) return 0;
  if (p->n_by_batch == 0) return p->tokens;
  for (int64_t i = 0; i < p->n_by_batch; i++) {
    const ds_draft_row *row = &p->by_batch[i];
    if (running >= row->low && running <= row->high) return row->tokens;
  }
  return 0;
}

double ds_drafts_expected_tokens(const ds_speculation *p, int64_t g) {
  double all = 1, reached = 1;
  for (int64_t i = 0; i < g && i < DS_DRAFTS_MAX; i++) {
    reached *= p->acceptance[i];
    all += reached;
  }
  return all;
}

bool ds_drafter_run(const ds_run *run, ds_run *out) {
  ds_draft_method method = run->pool.speculative.method;
  if (method == DS_DRAFT_NONE || method == DS_DRAFT_NGRAM) return false;
  *out = *run;
  out->pool.speculative = (ds_speculation){.method = DS_DRAFT_NONE};
  /* Its passes are part of the same captured graph: no host time of their own. */
  out->pool.engine.per_iteration_s = out->pool.engine.per_request_s = 0;
  if (method == DS_DRAFT_MODEL) {
    out->model = run->pool.speculative.draft;
    out->model.encoder_params = 0;
    out->model.vision = (ds_vision){0}; /* it reads the embeddings that the large model's encoder made */
    out->weights = out->model.weights;
    out->expert_weights = out->model.expert_weights;
    return true;
  }
  ds_model *m = &out->model;
  m->layers = m->full_layers = 1;
  m->encoder_params = 0;
  m->vision = (ds_vision){0};
  m->dense_layers = m->state_layers = 0;
  m->moe_every = 1;
  if (method == DS_DRAFT_EAGLE) {
    out->weights = out->expert_weights = DS_FMT_BF16;
    if (m->ffn == 0) m->ffn = m->expert_ffn * (m->top_k + m->shared_experts);
    m->experts = 0;
  }
  out->pool.pipeline_parallel = 1;
  if (m->experts == 0) out->pool.expert_parallel = 1;
  return true;
}
