// SPDX-License-Identifier: Apache-2.0
/* What fits: bytes per device of weights, activations, runtime and KV, and the KV blocks that result. */
#ifndef DS_COST_MEMORY_H
#define DS_COST_MEMORY_H

#include "spec/run.h"

typedef struct ds_memory {
  double device_bytes, budget_bytes; /* budget = utilisation x device */
  double weight_bytes, activation_bytes, runtime_bytes; /* per device */
  double kv_bytes;           /* what is left for KV, per device; negative: it does not fit */
  double kv_bytes_per_token; /* per device */
  int64_t kv_blocks;         /* usable blocks per replica, 0 when nothing is left */
} ds_memory;

/* Tokens of images that one iteration may encode, and as many as the encoder cache holds: max_num_batched_tokens, or the
 * largest image where that is more (compute_mm_encoder_budget in vllm v1/core/encoder_cache_manager.py). */
int64_t ds_encoder_budget(const ds_run *run);

/* Footprint of run->pool. Errors: DS_E_INPUT when the weights do not fit (the text says by how much, and which
 * tensor_parallel would). With kv_blocks given in the pool, kv_blocks is that and the rest is still computed. */
ds_status ds_memory_footprint(const ds_run *run, ds_memory *out, ds_error *err);

#endif
