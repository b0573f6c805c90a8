// SPDX-License-Identifier: Apache-2.0
/* Earliest deadline first: of those waiting, the request whose first token is due soonest enters first. Its deadline is its
 * arrival, plus `deadline`, plus `deadline_per_input_token` for each token of its prompt, plus `deadline_per_priority` times its
 * priority (lower is more important). Nobody who runs is disturbed, and late requests are served, too. Iteration-level
 * batching of whole prompts; KV for prompt and output cap is set aside at admission. */
#include "sched/whole_prompts.h"

typedef struct config {
  int64_t max_num_seqs, deadline_ns, per_token_ns, per_priority_ns;
} config;

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 256, NULL,
     "most requests running at once", "requests"},
    {"deadline", DS_PARAM_TIME, offsetof(config, deadline_ns), 0, 3.6e12, 1e9, 1e9, NULL,
     "from arrival to the time at which the first token is due", NULL},
    {"deadline_per_input_token", DS_PARAM_TIME, offsetof(config, per_token_ns), 0, 1e9, 1e6, 1e6, NULL,
     "the same for each token of the prompt", NULL},
    {"deadline_per_priority", DS_PARAM_TIME, offsetof(config, per_priority_ns), 0, 3.6e12, 0, 0, NULL,
     "the same times the request's priority", NULL},
};

static int64_t rank(const void *cfg, const ds_req_view *r) {
  const config *c = cfg;
  int64_t priority = r->priority; /* within 2^20, so that no product overflows */
  if (priority > 1 << 20) priority = 1 << 20;
  if (priority < -(1 << 20)) priority = -(1 << 20);
  return r->arrival_ns + c->deadline_ns + c->per_token_ns * r->prompt_tokens + c->per_priority_ns * priority;
}

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg;
  return ds_whole_accepts("edf", pool, total_blocks, prompt, max_tokens > output ? max_tokens : output, err);
}

static ds_status plan(void *state, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  (void)state;
  ds_whole_prompts(v, c->max_num_seqs - v->n_running, v->free_blocks, out);
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }

extern const ds_sched_ops ds_sched_edf;
const ds_sched_ops ds_sched_edf = {
    .name = "edf",
    .summary = "for teaching: earliest deadline of the first token first",
    .reference = "Liu and Layland (Journal of the ACM 20, 1973), without preemption",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .reserves = true,
    .rank = rank,
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
};
