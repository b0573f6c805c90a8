// SPDX-License-Identifier: GPL-3.0-or-later
/* An engine's command line (vllm serve, sglang.launch_server, trtllm-serve), and the line in which
 * it printed its KV size when it started, as values of a scenario. */
#ifndef DS_IO_FROM_COMMAND_H
#define DS_IO_FROM_COMMAND_H

#include "io/diag.h"

typedef struct ds_engine_command {
  const char *engine; /* vllm, sglang, trtllm */
  char scheduler[32];
  char model[512], weights[16], kv_cache[16];           /* empty: not said */
  int64_t tensor_parallel, pipeline_parallel, replicas; /* 0: not said */
  int64_t max_model_len, kv_block_tokens, kv_blocks;
  double memory_utilization;
  int prefix_cache;   /* -1: not said */
  bool language_model_only, encoder_by_image; /* images: no encoder; each rank has the whole */
  char options[512];  /* of the scheduler, as YAML: "max_num_seqs: 256, ..." */
  char notes[8][400]; /* what was left out, and what is not quite the same */
  size_t n_notes;
} ds_engine_command;

/* text: the command line, further lines (not joined by a backslash) or `startup` (may be NULL):
 * what the engine printed. */
bool ds_engine_command_parse(const char *text, const char *startup, ds_engine_command *out,
                             ds_diag *d);

#endif
