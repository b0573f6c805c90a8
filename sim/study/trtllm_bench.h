// SPDX-License-Identifier: GPL-3.0-or-later
/* The limits that trtllm-bench throughput gives an engine when nobody sets them. */
#ifndef DS_STUDY_TRTLLM_BENCH_H
#define DS_STUDY_TRTLLM_BENCH_H

#include "spec/run.h"

typedef struct ds_bench_limits {
  int64_t max_batch_size, max_num_tokens; /* of each rank with attention data parallelism, as the engine takes them */
} ds_bench_limits;

/* For requests of `input` and `output` tokens; run->pool says parts and their number. Chunked context is off. */
ds_bench_limits ds_trtllm_bench_limits(const ds_run *run, double input, double output);

/* The batch sizes that the published benchmarks capture: 1, 2, 4 to 128, multiples of 128 to 512, and twice as many each
 * time above, padded, as far as the batch may grow. */
void ds_trtllm_bench_graphs(ds_engine_card *engine, int64_t max_batch_size);

/* KV gets `share` of the memory that weights, activations and the runtime leave. */
void ds_trtllm_kv_share(ds_run *run, double share);

#endif
