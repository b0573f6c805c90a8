// SPDX-License-Identifier: GPL-3.0-or-later
/* From what a trace says of a prompt (block ids, or a named prefix) to spans. */
#ifndef DS_IO_SPAN_IDS_H
#define DS_IO_SPAN_IDS_H

#include <stddef.h>

#include "kv/span.h"

/* Ids of blocks of block_tokens each, in order; spans has room for n. Returns the number of spans. Ids up to the
 * prompt's last block, which may be partial, speak for the prompt; more of them for the output as well. Comparable
 * within `scope` only (0: the file), and only with blocks of the same size. */
uint32_t ds_spans_of_ids(const uint64_t *ids, size_t n, uint32_t block_tokens, uint32_t scope,
                         uint32_t input, uint32_t output, ds_span *spans);
/* The largest number of ids that a request may have. */
size_t ds_spans_most_ids(uint32_t block_tokens, uint32_t input, uint32_t output);
/* The first `tokens` tokens are those of everything with this name. More than input + output: all of them. */
uint32_t ds_spans_of_prefix(const char *name, size_t bytes, uint32_t tokens, uint32_t input,
                            uint32_t output, ds_span *span);

#endif
