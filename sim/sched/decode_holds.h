// SPDX-License-Identifier: Apache-2.0
/* For policies that let a row decode only while a KV block is free, whether it needs one or not (vLLM V0, Sarathi): for
 * how many iterations from now that holds for every row of a batch that only decodes. */
#ifndef DS_SCHED_DECODE_HOLDS_H
#define DS_SCHED_DECODE_HOLDS_H

#include "engine/sched.h"

/* Iterations that may run without asking again, given that free blocks >= decoding rows now; at least 1. Each row takes
 * at most one block in any block_tokens iterations. */
static inline uint64_t ds_decode_holds(const ds_sched_view *v) {
  int64_t rounds = v->n_decoding > 0 ? v->free_blocks / v->n_decoding - 1 : 0;
  if (rounds < 1) return 1;
  return (rounds < 1 << 20 ? (uint64_t)rounds : 1u << 20) * v->block_tokens;
}

#endif
