// SPDX-License-Identifier: GPL-3.0-or-later
/* Engines' command lines and start-up lines as values of a scenario. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "io/flags.h"
#include "io/from_command.h"

static ds_engine_command parsed(const char *text, const char *startup) {
  ds_engine_command c;
  ds_diag d = {0};
  cr_assert(ds_engine_command_parse(text, startup, &c, &d), "%s: %s", text, d.text);
  return c;
}

Test(from_command, vllm_in_all_its_spellings) {
  ds_engine_command c =
      parsed("A=1 exec /opt/bin/vllm serve 'meta-llama/Llama-3.1-70B-Instruct' \\\n -tp 4 "
             "--max-num-seqs=512 --max_num_batched_tokens 8k -q fp8 --kv-cache-dtype "
             "fp8_e4m3 --max-model-len 32K --gpu-memory-utilization 0.85 --block-size 32 "
             "--no-enable-prefix-caching --enable-chunked-prefill -pp 2 -dp 3 --port 80",
             NULL);
  cr_assert_str_eq(c.engine, "vllm");
  cr_assert_str_eq(c.scheduler, "vllm-v1");
  cr_assert_str_eq(c.model, "meta-llama/Llama-3.1-70B-Instruct");
  cr_assert(c.tensor_parallel == 4 && c.pipeline_parallel == 2 && c.replicas == 3);
  cr_assert_str_eq(c.options,
                   "max_num_seqs: 512, max_num_batched_tokens: 8000, enable_chunked_prefill: true");
  cr_assert_str_eq(c.weights, "fp8");
  cr_assert_str_eq(c.kv_cache, "fp8");
  cr_assert(c.max_model_len == 32768 && c.kv_block_tokens == 32 && c.kv_blocks == 0);
  cr_assert(c.memory_utilization == 0.85 && c.prefix_cache == 0 && c.n_notes == 0);
  c = parsed("python -m vllm.entrypoints.openai.api_server --model a/b --dtype bfloat16 "
             "--quantization awq",
             NULL);
  cr_assert_str_eq(c.model, "a/b");
  cr_assert_str_eq(c.weights, "int4");
  cr_assert(c.prefix_cache == -1 && c.kv_block_tokens == 16);
  cr_assert(!c.language_model_only && !c.encoder_by_image);
  c = parsed("vllm serve a/b --mm-encoder-tp-mode data --language-model-only", NULL);
  cr_assert(c.language_model_only && c.encoder_by_image && c.n_notes == 0);
  c = parsed("vllm serve a/b --mm-encoder-tp-mode=weights", NULL);
  cr_assert(!c.encoder_by_image && c.n_notes == 0);
}

Test(from_command, kv_sizes_as_engines_print_them) {
  static const struct {
    const char *command, *line;
    int64_t blocks;
  } t[] = {
      {"vllm serve m",
       "INFO 02-19 23:56:55 kv_cache_utils.py:524] GPU KV cache size: 2,042,016 tokens", 127626},
      {"vllm serve m --block-size 32", "GPU KV cache size: 643,232 tokens, Maximum concurrency",
       20101},
      {"vllm serve m", "INFO 02-20 00:01:02 kv_cache_utils.py:522] # GPU blocks: 127626", 127626},
      {"vllm serve m", "# GPU blocks: 1952, # CPU blocks: 2048", 1952},
      {"vllm serve m\nINFO Starting\nINFO GPU KV cache size: 160 tokens\n", NULL, 10},
      {"vllm serve m --num-gpu-blocks-override 77", NULL, 77},
  };
  for (size_t i = 0; i < DS_ARRAY_LEN(t); i++) {
    ds_engine_command c = parsed(t[i].command, t[i].line);
    cr_assert_eq(c.kv_blocks, t[i].blocks, "case %zu: %lld", i, (long long)c.kv_blocks);
  }
  /* Tokens, whatever the block size that a scheduler has here. */
  static const struct {
    const char *command, *line;
    int64_t tokens;
  } s[] = {
      {"python3 -m sglang.launch_server --model-path m",
       "max_total_num_tokens=2086558, chunked_prefill_size=8192", 2086558},
      {"python3 -m sglang.launch_server --model-path m",
       "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB", 367404},
      {"trtllm-serve m", "[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.", 132608},
      {"trtllm-serve m",
       "[MemUsageChange] Allocated 23.15 GiB for max tokens in paged KV cache (379040).", 379040}};
  for (size_t i = 0; i < DS_ARRAY_LEN(s); i++) {
    ds_engine_command c = parsed(s[i].command, s[i].line);
    cr_assert_eq(c.kv_blocks, s[i].tokens / c.kv_block_tokens, "case %zu", i);
  }
}

Test(from_command, other_engines_and_what_is_left_out) {
  ds_engine_command c =
      parsed("sglang serve --model-path Qwen/Qwen3-32B --tp 2 --max-running-requests 64 "
             "--chunked-prefill-size 4096 --disable-radix-cache --mem-fraction-static 0.8 "
             "--enable-torch-compile --attention-backend fa3",
             NULL);
  bool there = ds_scheduler_find("sglang") != NULL;
  cr_assert_str_eq(c.scheduler, there ? "sglang" : "vllm-v1");
  cr_assert_str_eq(c.options, there ? "max_running_requests: 64, chunked_prefill_size: 4096"
                                    : "max_num_seqs: 64, max_num_batched_tokens: 4096");
  cr_assert(c.tensor_parallel == 2 && c.prefix_cache == 0 && c.memory_utilization == 0.8);
  cr_assert_str_eq(c.notes[c.n_notes - 1],
                   "ignored: --enable-torch-compile, --attention-backend fa3");
  cr_assert_eq(c.n_notes, there ? 1u : 2u);
  c = parsed("vllm serve x --max-num-seq 64 --foo-bar-baz", NULL);
  cr_assert_str_eq(c.notes[c.n_notes - 1],
                   "ignored: --max-num-seq 64 (did you mean --max-num-seqs?), --foo-bar-baz");
  c = parsed("trtllm-serve x --kv_cache_free_gpu_memory_fraction 0.8", NULL);
  size_t unknown_size = c.n_notes;
  c = parsed("trtllm-serve x --kv_cache_free_gpu_memory_fraction 0.8",
             "tokens for max tokens in paged KV cache (480000)");
  cr_assert(c.kv_blocks == 15000 && c.n_notes == unknown_size - 1, "the size is known");
  c = parsed("trtllm-serve serve meta-llama/Llama-3.1-8B --tp_size 2 --max_batch_size 256 "
             "--max_seq_len 8192",
             NULL);
  cr_assert_str_eq(c.model, "meta-llama/Llama-3.1-8B");
  cr_assert(c.tensor_parallel == 2 && c.max_model_len == 8192 && c.kv_block_tokens == 32);
}

Test(from_command, wrong_ones_are_refused) {
  static const struct {
    const char *command, *startup, *says;
  } t[] = {{"ollama run x", NULL, "no engine's command"},
           {"", NULL, "no engine's command"},
           {"vllm serve a b", NULL, "comes after the model"},
           {"vllm serve a --max-model-len long", NULL, "not a count"},
           {"vllm serve a --gpu-memory-utilization 90", NULL, "no share"},
           {"vllm serve a --block-size", NULL, "no value"},
           {"vllm serve 'a", NULL, "not closed"},
           {"vllm serve a", "Uvicorn running", "no KV size"}};
  for (size_t i = 0; i < DS_ARRAY_LEN(t); i++) {
    ds_engine_command c;
    ds_diag d = {0};
    cr_assert_not(ds_engine_command_parse(t[i].command, t[i].startup, &c, &d), "case %zu", i);
    cr_assert(strstr(d.text, t[i].says) != NULL, "case %zu: %s", i, d.text);
    cr_assert_eq(d.exit, DS_EXIT_USAGE);
  }
}

/* Flags beside it win; users are demand. */
Test(from_command, flags_go_on_top) {
  const ds_flag f[] = {{"--from-command", "vllm serve Qwen/Qwen3-32B -tp 2 --kv-cache-dtype fp8"},
                       {"--hardware", "8xh100-sxm"},
                       {"--tp", "4"},
                       {"--users", "500"}};
  char *text;
  ds_diag d = {0};
  cr_assert(ds_flags_scenario(f, 4, &text, &d), "%s", d.text);
  static const char *const lines[] = {"model: Qwen/Qwen3-32B\n", "kv_cache: fp8\n", "replicas: 2\n",
                                      "tensor_parallel: 4\n",
                                      "{process: users, users: 500, every: 1 min}"};
  for (size_t i = 0; i < DS_ARRAY_LEN(lines); i++)
    cr_assert(strstr(text, lines[i]) != NULL, "%s in %s", lines[i], text);
  free(text);
  const ds_flag g[] = {
      {"--model", "m"}, {"--hardware", "h100-sxm"}, {"--users", "5"}, {"--rate", "3/s"}};
  cr_assert_not(ds_flags_scenario(g, 4, &text, &d));
  cr_assert(strstr(d.text, "--users") != NULL && strstr(d.text, "--rate") != NULL, "%s", d.text);
}
