// SPDX-License-Identifier: Apache-2.0
/* No batching at all: one request at a time, first come first served, from its prompt to its last token. What serving
 * looks like as a queue with a single server, and the floor that every batching policy is compared with. */
#include "sched/whole_prompts.h"

static ds_status accepts(const void *cfg, const ds_pool *pool, int64_t total_blocks, uint32_t prompt, uint32_t output,
                         uint32_t max_tokens, ds_error *err) {
  (void)cfg;
  return ds_whole_accepts("fcfs-no-batch", pool, total_blocks, prompt, max_tokens > output ? max_tokens : output, err);
}

static ds_status plan(void *state, const ds_sched_view *v, ds_plan *out) {
  (void)state;
  ds_whole_prompts(v, 1 - (int64_t)v->n_running, v->free_blocks, out);
  return DS_OK;
}

static int64_t max_seqs(const void *cfg) {
  (void)cfg;
  return 1;
}

extern const ds_sched_ops ds_sched_fcfs_no_batch;
const ds_sched_ops ds_sched_fcfs_no_batch = {
    .name = "fcfs-no-batch",
    .summary = "for teaching: one request at a time, first come first served",
    .reference = "a queue with one server; Kleinrock, Queueing Systems I (1975)",
    .reserves = true,
    .accepts = accepts,
    .plan = plan,
    .max_seqs = max_seqs,
};
