// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_formats.h"

#include <string.h>

static bool azure_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  (void)w;
  return ds_azure_open(in, out, d);
}

static bool jsonl_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  (void)w;
  return ds_jsonl_open(in, out, d);
}

static bool map_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  const char *p = in->at;
  while (p < in->end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++;
  return p < in->end && *p == '{' ? ds_map_jsonl_open(in, w, out, d)
                                  : ds_map_csv_open(in, w, out, d);
}

const ds_trace_reader ds_trace_readers[] = {
    {"azure", "CSV",
     "TIMESTAMP,ContextTokens,GeneratedTokens; public Azure LLM inference traces of 2023, 2024 and "
     "2025",
     azure_open, false, false},
    {"jsonl", "JSONL",
     "id, arrival_ns, input_tokens, output_tokens; optional max_tokens, priority, session, blocks: "
     "the "
     "native form",
     jsonl_open, false, false},
    {"mooncake", "JSONL",
     "timestamp (ms), input_length, output_length, hash_ids of 512-token blocks; also Dynamo's, "
     "AIPerf's and vLLM's dialects",
     ds_mooncake_open, true, true},
    {"burstgpt", "CSV",
     "Timestamp (s), Request tokens, Response tokens, Session ID: BurstGPT v1 and v2",
     ds_burstgpt_open, false, false},
    {"bailian", "JSONL",
     "chat_id, parent_chat_id, timestamp (s), hash_ids of 16-token blocks: Qwen-Bailian",
     ds_bailian_open, true, true},
    {"weka", "JSON",
     "sessions of coding agents with requests[] and hash_ids of 64-token blocks (kv-cache-tester); "
     "also many in a tar archive",
     ds_weka_open, true, true},
    {"ragpulse", "JSONL",
     "timestamp (s), hash_ids of segments by kind; the files of lengths beside it: RAGPulse",
     ds_ragpulse_open, true, false},
    {"llmservingsim", "JSONL",
     "input_toks, output_toks, arrival_time_ns, sub_requests: LLMServingSim", ds_llmservingsim_open,
     true, false},
    {"tracev2", "CSV",
     "request_id, ..., arrival_time_us, ... and a YAML header in front or beside: BLIS TraceV2",
     ds_tracev2_open, false, false},
    {"vidur", "CSV", "arrived_at (s), num_prefill_tokens, num_decode_tokens: Vidur", ds_vidur_open,
     false, false},
    {"splitwise", "CSV", "arrival_timestamp (s), prompt_size, token_size: Splitwise-sim",
     ds_splitwise_open, false, false},
    {"bench", "JSON",
     "input_lens, output_lens, start_times: detailed results of vLLM's and SGLang's benchmarks",
     ds_bench_open, false, false},
    {"litellm", "JSONL", "startTime, prompt_tokens, completion_tokens: LiteLLM's request log",
     ds_litellm_open, false, false},
    {"otel", "JSON", "OpenTelemetry spans with gen_ai.usage.*, as OTLP JSON or flat", ds_otel_open,
     false, false},
    {"dynamo", "JSONL", "dynamo.request.trace.v1: what NVIDIA Dynamo records of its requests",
     ds_dynamo_open, false, true},
    {"servegen", "CSV",
     "windows of a client of ServeGen (start,rate,cv,pattern,shape,scale) with NAME-dataset.json "
     "beside: requests are drawn",
     ds_servegen_open, false, false},
    {"map", "any",
     "any flat CSV or JSONL, by workload.map: {arrival: COLUMN:unit, input_tokens: COLUMN, ...}",
     map_open, false, false},
};
const size_t ds_n_trace_readers = DS_ARRAY_LEN(ds_trace_readers);

const ds_trace_reader *ds_trace_reader_named(const char *name) {
  for (size_t i = 0; i < ds_n_trace_readers; i++)
    if (strcmp(ds_trace_readers[i].name, name) == 0) return &ds_trace_readers[i];
  return NULL;
}
