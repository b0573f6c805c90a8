// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/span_ids.h"

#define SCOPE_SIZE (1u << 21) /* block sizes are below */

uint32_t ds_spans_of_ids(const uint64_t *ids, size_t n, uint32_t block_tokens, uint32_t scope,
                         uint32_t input, uint32_t output, ds_span *spans) {
  uint64_t covered = (uint64_t)n * block_tokens, whole = (uint64_t)input + output;
  uint64_t of_prompt = ((uint64_t)input + block_tokens - 1) / block_tokens;
  uint64_t limit = n <= of_prompt ? input : whole;
  if (covered > limit) covered = limit;
  uint32_t space = DS_SPACE_FIRST + scope * SCOPE_SIZE + block_tokens, k = 0;
  for (size_t i = 0; i < n && covered > 0; i++) {
    uint32_t tokens = covered < block_tokens ? (uint32_t)covered : block_tokens;
    ds_span_block(spans, &k, space, ids[i], (uint32_t)i, tokens);
    covered -= tokens;
  }
  return k;
}

size_t ds_spans_most_ids(uint32_t block_tokens, uint32_t input, uint32_t output) {
  return (size_t)(((uint64_t)input + output + block_tokens - 1) / block_tokens);
}

uint32_t ds_spans_of_prefix(const char *name, size_t bytes, uint32_t tokens, uint32_t input,
                            uint32_t output, ds_span *span) {
  uint64_t whole = (uint64_t)input + output;
  if (tokens > whole) tokens = (uint32_t)whole;
  if (tokens == 0) return 0;
  *span = (ds_span){ds_span_hash(name, bytes), DS_SPACE_NAMED, tokens};
  return 1;
}
