// SPDX-License-Identifier: Apache-2.0
/* Shortest job first, by an oracle: of those waiting, the request with the fewest true output tokens enters first, ties by
 * arrival. Nobody who runs is disturbed. Iteration-level batching of whole prompts; KV for exactly what a request will need
 * is set aside at admission. Long requests may wait for as long as shorter ones keep coming.
 * It knows the true output lengths, which no engine does: a bound on what predicting them could bring. */
#include "sched/whole_prompts.h"

typedef struct config {
  int64_t max_num_seqs;
} config;

static const ds_param params[] = {
    {"max_num_seqs", DS_PARAM_INT, offsetof(config, max_num_seqs), 1, 1 << 20, 256, 256, NULL,
     "most requests running at once", "requests"},
};

static int64_t rank(const void *cfg, const ds_req_view *r) {
  (void)cfg;
  return r->true_output;
}

static ds_status plan(void *state, const ds_sched_view *v, ds_plan *out) {
  const config *c = v->config;
  (void)state;
  ds_whole_prompts(v, c->max_num_seqs - v->n_running, v->free_blocks, out);
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) { return ((const config *)cfg)->max_num_seqs; }

extern const ds_sched_ops ds_sched_sjf_oracle;
const ds_sched_ops ds_sched_sjf_oracle = {
    .name = "sjf-oracle",
    .summary = "for teaching: shortest job first, true output lengths known",
    .reference = "Schrage and Miller (Operations Research 14, 1966), without preemption",
    .params = params,
    .n_params = DS_ARRAY_LEN(params),
    .config_bytes = sizeof(config),
    .oracle = true,
    .reserves = true,
    .rank = rank,
    .plan = plan,
    .max_seqs = max_seqs,
};
