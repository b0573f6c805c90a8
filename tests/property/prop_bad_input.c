// SPDX-License-Identifier: GPL-3.0-or-later
/* Bad input of every kind, one table: exit status, place, offending text, what was expected and
 * what is suggested; and nothing is left behind. Places and texts follow from the rules of the
 * scenario form, not from what the program says. */
#include "harness.h"

#include <dirent.h>

/* What each case changes. Columns of the texts below are counted from 1. */
static const char base_scenario[] = "scenario: 1\n"                               /* 1 */
                                    "title: Base\n"                               /* 2 */
                                    "model: llama-3.1-8b\n"                       /* 3 */
                                    "weights: bf16\n"                             /* 4 */
                                    "pools:\n"                                    /* 5 */
                                    "  - name: main\n"                            /* 6 */
                                    "    hardware: h100-sxm\n"                    /* 7 */
                                    "    replicas: 2\n"                           /* 8 */
                                    "    tensor_parallel: 1\n"                    /* 9 */
                                    "    scheduler: vllm-v1\n"                    /* 10 */
                                    "    scheduler_options: {max_num_seqs: 64}\n" /* 11 */
                                    "    kv_blocks: auto\n"                       /* 12 */
                                    "router: {policy: round-robin}\n"             /* 13 */
                                    "workload:\n"                                 /* 14 */
                                    "  trace: t.csv\n"                            /* 15 */
                                    "slo: {ttft: 2 s}\n"                          /* 16 */
                                    "seed: 1\n";                                  /* 17 */

#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
static const char good_trace[] =
    HEAD "2023-11-16 18:15:46.6805900,100,20\n2023-11-16 18:15:47.6805900,200,30\n";

typedef struct bad {
  const char *name;
  const char *from, *to; /* in the base scenario; from NULL: `to` is the whole file */
  const char *place;     /* "s.yaml:8:15: " or "t.csv:2:29: "; NULL: none */
  const char *text, *expected, *hint;
  const char *trace;   /* content of t.csv; NULL: a good one */
  const char *args[6]; /* further arguments */
  int exit;
} bad;

#define BAD(name, from, to, place, text, expected, hint)                                           \
  { name, from, to, place, text, expected, hint, NULL, {NULL}, 3 }
#define TRACE(name, rows, place, text, expected)                                                   \
  { name, NULL, base_scenario, place, text, expected, NULL, rows, {NULL}, 3 }
#define ARGS(name, exit, place, text, expected, hint, ...)                                         \
  { name, NULL, base_scenario, place, text, expected, hint, NULL, {__VA_ARGS__}, exit }

// clang-format off
static const bad cases[] = {
    /* Files and documents. */
    BAD("empty file", NULL, "", "s.yaml:1:1: ", "empty", "keys and values", NULL),
    BAD("only a comment", NULL, "# nothing\n", "s.yaml:1:1: ", "empty", "keys and values", NULL),
    BAD("a list", NULL, "- a\n- b\n", "s.yaml:1:1: ", "list", "a mapping", NULL),
    BAD("a word", NULL, "hello\n", "s.yaml:1:1: ", "'hello'", "a mapping", NULL),
    BAD("not YAML", NULL, "a: [1, 2\nb: 3", "s.yaml:2:5: ", "flow sequence", "YAML", NULL),
    BAD("quote left open", "title: Base", "title: \"Base", "s.yaml:2:", "quote", "YAML", NULL),
    BAD("tab for indentation", "    replicas: 2", "\treplicas: 2", "s.yaml:", "", "YAML", NULL),
    BAD("not UTF-8", "Base", "B\xff", "s.yaml:2:9: ", "0xff is not UTF-8", "UTF-8", NULL),
    BAD("overlong UTF-8", "Base", "\xc0\xaf", "s.yaml:2:8: ", "0xc0 is not UTF-8", "UTF-8", NULL),
    BAD("control character", "Base", "B\x01", "s.yaml:2:9: ", "0x01", "UTF-8", NULL),
    BAD("directive", "scenario: 1", "%YAML 1.1\n---\nscenario: 1", "s.yaml:1:1: ", "%",
     "directives", NULL),
    BAD("two documents", "seed: 1\n", "seed: 1\n---\nseed: 2\n", "s.yaml:18:1: ", "second document",
     "one document", NULL),
    BAD("anchor", "seed: 1", "seed: &x 1", "s.yaml:17:", "anchor", "written out", NULL),
    BAD("alias", "seed: 1", "seed: *x", "s.yaml:17:7: ", "alias", "written out", NULL),
    BAD("tag", "seed: 1", "seed: !!int 1", "s.yaml:17:", "tag", "plain value", NULL),
    BAD("complex key", "seed: 1", "? [a, b]\n: 1", "s.yaml:17:3: ", "key", "plain key", NULL),
    BAD("empty key", "seed: 1", "\"\": 1", "s.yaml:17:1: ", "empty", "plain key", NULL),
    BAD("deep nesting", "seed: 1",
     "seed: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "s.yaml:17:",
     "too deep", "24 levels", NULL),
    BAD("duplicate key", "seed: 1", "seed: 1\nseed: 2", "s.yaml:18:1: ",
     "'seed' is there twice, first on line 17", "each key once", NULL),
    BAD("duplicate key inside", "{max_num_seqs: 64}", "{max_num_seqs: 64, max_num_seqs: 65}",
     "s.yaml:11:43: ", "'max_num_seqs'", "once", NULL),
    BAD("a trace for a scenario", NULL, "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46.68,5\n",
     "s.yaml:1:1: ", "TIMESTAMP", "a mapping", "--trace FILE"),
    /* Keys. */
    BAD("key of a pool outside", "seed: 1", "replicas: 1", "s.yaml:17:1: ", "'replicas'",
     "in an entry of pools", NULL),
    BAD("unknown key", "seed: 1", "sede: 1", "s.yaml:17:1: ", "'sede'", "seed",
     "did you mean seed?"),
    BAD("unknown key: pool", "pools:", "pool:", "s.yaml:5:1: ", "'pool'", "pools",
     "did you mean pools?"),
    BAD("unknown pool key", "replicas: 2", "replica: 2", "s.yaml:8:5: ", "'replica' in pools.main",
     "replicas", "did you mean replicas?"),
    BAD("unknown option", "max_num_seqs", "max_num_seq", "s.yaml:11:25: ", "'max_num_seq'",
     "max_num_batched_tokens", "did you mean max_num_seqs?"),
    BAD("options that do not go together", "vllm-v1\n    scheduler_options: {max_num_seqs: 64}",
        "sarathi\n    scheduler_options: {enable_dynamic_chunking_schedule: true, low_chunk_size: 2000}",
        "s.yaml:11:81: ", "pools.main.scheduler_options.low_chunk_size: is 2000",
        "at most high_chunk_size, which is 1024", NULL),
    BAD("a size beyond the batch", "vllm-v1\n    scheduler_options: {max_num_seqs: 64}",
        "triton-dynamic\n    scheduler_options: {preferred_batch_sizes: [4, 9]}", "s.yaml:11:48: ",
        "pools.main.scheduler_options.preferred_batch_sizes: has 9", "max_batch_size, which is 8", NULL),
    BAD("a rejection without a timeout", "vllm-v1\n    scheduler_options: {max_num_seqs: 64}",
        "triton-dynamic\n    scheduler_options: {timeout_action: reject}", "s.yaml:11:41: ",
        "pools.main.scheduler_options.timeout_action: is reject without a default_timeout", "default_timeout: 10 s beside it", NULL),
    BAD("a queue of less than nobody", "vllm-v1\n    scheduler_options: {max_num_seqs: 64}",
        "triton-dynamic\n    scheduler_options: {max_queue_size: -1}", "s.yaml:11:41: ",
        "pools.main.scheduler_options.max_queue_size is -1", "a whole number from 0", NULL),
    BAD("prefix cache of a scheduler that has none", "vllm-v1\n    scheduler_options: {max_num_seqs: 64}",
        "vllm-v0\n    prefix_cache: true", "s.yaml:11:19: ", "scheduler vllm-v0 has no prefix cache",
        "vllm-v1, sglang or trtllm", NULL),
    BAD("prefix cache without a number of blocks", "kv_blocks: auto", "kv_blocks: unlimited\n    prefix_cache: true",
        "s.yaml:13:19: ", "kv_blocks is unlimited", "a count", NULL),
    BAD("two tiers of one name", "seed: 1", "seed: 1\ntiers: [{name: a, capacity: 1 GB, bandwidth: 1 GB/s}, {name: a, capacity: 1 GB, bandwidth: 1 GB/s}]",
        "s.yaml:18:62: ", "tiers.name is 'a' twice", "a name of its own", NULL),
    BAD("unknown workload key", "  trace: t.csv", "  trace: t.csv\n  formt: azure", "s.yaml:16:3: ",
     "'formt' in workload", "format", "did you mean format?"),
    BAD("unknown slo key", "{ttft: 2 s}", "{tttf: 2 s}", "s.yaml:16:7: ", "'tttf' in slo",
     "ttft, tpot, itl, e2e", "did you mean ttft?"),
    BAD("unknown run limit", "{ttft: 2 s}", "{run: {p99_tttf: 2 s}}", "s.yaml:16:13: ",
     "'p99_tttf' in slo.run", "a percentile", "did you mean p99_ttft?"),
    BAD("percentile above 100", "{ttft: 2 s}", "{run: {p101_ttft: 2 s}}", "s.yaml:16:13: ",
     "'p101_ttft'", "up to 100", NULL),
    BAD("run limit in the short form", "{ttft: 2 s}", "{p99_ttft: 2 s}", "s.yaml:16:7: ",
     "slo.p99_ttft", "slo: {request", "slo.run.p99_ttft"),
    BAD("attainment of nothing", "{ttft: 2 s}", "{run: {attainment: 0.99}}", "s.yaml:16:13: ",
     "attainment", "limits per request", NULL),
    BAD("missing version", "scenario: 1\n", "", "s.yaml:1:1: ", "scenario is missing",
     "scenario: 1", NULL),
    BAD("other version", "scenario: 1", "scenario: 2", "s.yaml:1:11: ", "2", "from 1 to 1", NULL),
    BAD("missing model", "model: llama-3.1-8b\n", "", "s.yaml:1:1: ", "model is missing",
     "dryserve list models", NULL),
    BAD("missing workload", "workload:\n  trace: t.csv\n", "", "s.yaml:1:1: ",
     "workload is missing", "trace", NULL),
    BAD("empty workload", "workload:\n  trace: t.csv", "workload: {}", "s.yaml:14:11: ",
     "none of trace", "one of trace", NULL),
    BAD("two sources", "  trace: t.csv", "  trace: t.csv\n  requests: []", "s.yaml:15:3: ",
     "more than one", "one of trace", NULL),
    BAD("missing hardware", "    hardware: h100-sxm\n", "", "s.yaml:6:5: ",
     "pools.main.hardware is missing", "dryserve list hardware", NULL),
    /* Values. */
    BAD("NaN", "replicas: 2", "replicas: .nan", "s.yaml:8:15: ", "'.nan'", "from 1 to 1000000",
     NULL),
    BAD("negative", "replicas: 2", "replicas: -4", "s.yaml:8:15: ", "-4", "from 1 to 1000000",
     NULL),
    BAD("zero", "replicas: 2", "replicas: 0", "s.yaml:8:15: ", "0", "from 1 to 1000000", NULL),
    BAD("fraction", "replicas: 2", "replicas: 1.5", "s.yaml:8:15: ", "'1.5'", "from 1 to 1000000",
     NULL),
    BAD("hexadecimal", "replicas: 2", "replicas: 0x10", "s.yaml:8:15: ", "'0x10'", "from 1", NULL),
    BAD("octal", "replicas: 2", "replicas: 010", "s.yaml:8:15: ", "'010'", "from 1", NULL),
    BAD("separators", "replicas: 2", "replicas: 1_000", "s.yaml:8:15: ", "'1_000'", "from 1", NULL),
    BAD("overflow", "replicas: 2", "replicas: 99999999999999999999", "s.yaml:8:15: ",
     "99999999999999999999", "from 1", NULL),
    BAD("number in quotes", "replicas: 2", "replicas: \"2\"", "s.yaml:8:15: ", "'2'", "from 1",
     "without quotes"),
    BAD("nothing", "replicas: 2", "replicas:", "s.yaml:8:", "nothing", "from 1", NULL),
    BAD("list for a number", "replicas: 2", "replicas: [2]", "s.yaml:8:15: ", "list", "from 1",
     NULL),
    BAD("unit on a count", "replicas: 2", "replicas: 2 s", "s.yaml:8:15: ", "'2 s'", "from 1",
     NULL),
    BAD("no unit", "ttft: 2 s", "ttft: 2", "s.yaml:16:13: ", "'2' has no unit",
     "a time such as 2 s", NULL),
    BAD("wrong dimension", "ttft: 2 s", "ttft: 2 GB", "s.yaml:16:13: ",
     "'2 GB' is an amount of memory", "a time", NULL),
    BAD("junk behind the unit", "ttft: 2 s", "ttft: 2 s x", "s.yaml:16:13: ", "'x'", "a time",
     NULL),
    BAD("unknown unit", "ttft: 2 s", "ttft: 2 sec", "s.yaml:16:13: ", "'sec'", "a time",
     "did you mean s?"),
    BAD("unit in capitals", "ttft: 2 s", "ttft: 2 MS", "s.yaml:16:13: ", "'MS'", "a time",
     "did you mean ms?"),
    BAD("infinite time", "ttft: 2 s", "ttft: .inf s", "s.yaml:16:13: ", "'.inf s'", "a time", NULL),
    BAD("endless time", "ttft: 2 s", "ttft: 1e300 s", "s.yaml:16:13: ", "'1e300 s'", "a time",
     NULL),
    BAD("zero limit", "ttft: 2 s", "ttft: 0 s", "s.yaml:16:13: ", "'0 s'", "from 1 ns", NULL),
    BAD("below a nanosecond", "ttft: 2 s", "ttft: 0.1 ns", "s.yaml:16:13: ", "'0.1 ns'", "a time",
     NULL),
    BAD("yes for true", "kv_blocks: auto", "prefix_cache: yes", "s.yaml:12:19: ", "'yes'",
     "true or false", NULL),
    BAD("utilisation above 1", "kv_blocks: auto", "gpu_memory_utilization: 1.5", "s.yaml:12:29: ",
     "'1.5'", "from 0.01 to 1", NULL),
    BAD("option below its range", "max_num_seqs: 64", "max_num_seqs: 0", "s.yaml:11:39: ",
     "max_num_seqs is 0", "from 1", NULL),
    BAD("option of another type", "max_num_seqs: 64", "enable_chunked_prefill: 1", "s.yaml:11:49: ",
     "'1'", "true or false", NULL),
    BAD("negative seed", "seed: 1", "seed: -1", "s.yaml:17:7: ", "-1", "at least 0", NULL),
    BAD("unknown format", "weights: bf16", "weights: bf17", "s.yaml:4:10: ", "'bf17'",
     "bf16, fp16, fp8", "did you mean bf16?"),
    /* Names. */
    BAD("unknown model", "llama-3.1-8b", "llama-9-70b", "s.yaml:3:8: ", "'llama-9-70b'",
     "dryserve list models", "did you mean llama-2-70b?"),
    BAD("missing model file", "llama-3.1-8b", "./nowhere.yaml", "s.yaml:3:8: ", "'./nowhere.yaml'",
     "path", NULL),
    BAD("unknown hardware", "h100-sxm", "h100-sxx", "s.yaml:7:15: ", "'h100-sxx'",
     "dryserve list hardware", "did you mean h100-sxm?"),
    BAD("unknown scheduler", "scheduler: vllm-v1", "scheduler: vlm-v1", "s.yaml:10:16: ",
     "'vlm-v1'", "vllm-v1", "did you mean vllm-v1?"),
    BAD("unknown router", "round-robin", "round-robbin", "s.yaml:13:18: ", "'round-robbin'",
     "round-robin", "did you mean round-robin?"),
    BAD("unknown engine", "    kv_blocks: auto", "    engine: vlm-2025", "s.yaml:12:13: ",
     "'vlm-2025'", "dryserve list engines", "did you mean vllm-2025?"),
    BAD("card is a scenario", "llama-3.1-8b", "./s.yaml", "s.yaml:3:8: ", "no model card",
     "model: 1", NULL),
    /* Hardware that does not exist. */
    BAD("unknown part value", "h100-sxm", "{base: h100-sxm, memory_bandwith: 6 TB/s}",
     "s.yaml:7:32: ", "'memory_bandwith'", "memory_bandwidth", "did you mean memory_bandwidth?"),
    BAD("part without unit", "h100-sxm", "{base: h100-sxm, memory_bandwidth: 6}", "s.yaml:7:50: ",
     "'6' has no unit", "4.8 TB/s", NULL),
    BAD("efficiency above 1", "h100-sxm", "{base: h100-sxm, efficiencies: {gemm_bf16: {ec: 1.2}}}",
     "s.yaml:7:63: ", "'1.2'", "to 1", NULL),
    BAD("part without base", "h100-sxm", "{memory: 80 GB}", "s.yaml:7:15: ",
     "memory_bandwidth is missing", "required", NULL),
    /* What this version does not model. */
    BAD("tiers", "seed: 1", "tiers: {}", "s.yaml:17:8: ", "tiers", "list", NULL),
    BAD("a tier of no size", "seed: 1", "tiers: [{name: host, bandwidth: 50 GB/s}]", "s.yaml:17:9: ",
     "tiers.host has neither of capacity and blocks", "capacity: 500 GB", NULL),
    BAD("speculation without tokens", "kv_blocks: auto", "speculative: {method: ngram}", "s.yaml:12:18: ",
     "pools.main.speculative.tokens is missing", "tokens: drafts", NULL),
    BAD("speculation by nobody known", "kv_blocks: auto",
        "speculative: {method: eagel, tokens: 3, acceptance: 0.7}", "s.yaml:12:27: ", "speculative.method",
        "eagle", NULL),
    BAD("acceptance above 1", "kv_blocks: auto",
        "speculative: {method: ngram, tokens: 3, acceptance: 1.5}", "s.yaml:12:",
        "speculative.acceptance", "to 1", NULL),
    BAD("acceptance by position of another length", "kv_blocks: auto",
        "speculative: {method: ngram, tokens: 3, acceptance: [0.8, 0.7]}", "s.yaml:12:", "2 entries",
        "one chance for each position", NULL),
    BAD("acceptance file that is not there", "kv_blocks: auto",
        "speculative: {method: ngram, tokens: 3, acceptance: nowhere.csv}", "nowhere.csv",
        "nowhere.csv", "request,step,accepted", NULL),
    BAD("acceptance file with another header", "kv_blocks: auto",
        "speculative: {method: ngram, tokens: 3, acceptance: t.csv}", "t.csv:1:1: ",
        "the header is 'TIMESTAMP,ContextTokens,GeneratedTokens'", "request,step,accepted", NULL),
    {"more accepted than drafted", "kv_blocks: auto", "speculative: {method: ngram, tokens: 3, acceptance: t.csv}",
     "t.csv:2:5: ", "accepted is '4'", "from 0 to 3, the most that is drafted", NULL, "request,step,accepted\n0,0,4\n", {NULL}, 3},
    {"a request that nobody knows", "kv_blocks: auto", "speculative: {method: ngram, tokens: 3, acceptance: t.csv}",
     "t.csv:3:1: ", "'who'", "an id", NULL, "request,step,accepted\n0,0,3\nwho,0,1\n", {NULL}, 3},
    BAD("rows that overlap", "kv_blocks: auto",
        "speculative: {method: ngram, acceptance: 0.5, by_batch: [[1, 8, 3], [8, 9, 1]]}", "s.yaml:12:",
        "must rise", "by_batch: [[1, 8, 3]", NULL),
    BAD("initial cache", "kv_blocks: auto", "initial_cache: hot", "s.yaml:12:20: ", "initial_cache",
     "warm", NULL),
    BAD("expert parallel", "kv_blocks: auto", "expert_parallel: 2", "s.yaml:",
     "needs a model with experts", NULL, NULL),
    BAD("role", "kv_blocks: auto", "role: prefill", "s.yaml:12:11: ", "prefill", "unified", NULL),
    BAD("two pools", "router:", "  - name: other\nrouter:", "s.yaml:13:5: ", "pools has 2 entries",
     "one pool", NULL),
    BAD("client", "  trace: t.csv", "  trace: t.csv\n  client: {retries: 2}", "s.yaml:16:12: ",
     "retries", "without a timeout", NULL),
    BAD("client", "  trace: t.csv", "  trace: t.csv\n  client: {timeout: 60 s, backoff: 1 s}", "s.yaml:16:27: ",
     "backoff", "without retries", NULL),
    BAD("client", "  trace: t.csv", "  trace: t.csv\n  client: {timeout: 20 ms, rtt: 20 ms}", "s.yaml:16:21: ",
     "timeout", "round trip", NULL),
    /* What does not go together. */
    BAD("heads do not divide", "tensor_parallel: 1", "tensor_parallel: 3", "s.yaml:9:22: ",
     "3 does not divide the 32 attention heads", NULL, NULL),
    BAD("does not fit", "llama-3.1-8b", "llama-3.1-405b", "s.yaml:",
     "llama-3.1-405b in bf16 does not fit h100-sxm", NULL, "tensor_parallel: 16 would fit"),
    BAD("KV pool smaller than a request", "kv_blocks: auto", "kv_blocks: 3", "t.csv:2: ",
     "needs 8 KV blocks, more than the whole pool of 3", NULL, NULL),
    BAD("linear without KV", "seed: 1", "seed: 1\ncost: {model: linear, step: 10 ms}",
     "s.yaml:12:16: ", "'auto'", "a count", NULL),
    BAD("linear without times", "seed: 1", "seed: 1\ncost: linear", "s.yaml:18:7: ", "linear",
     "step: 10 ms", NULL),
    BAD("unknown tier", "seed: 1", "seed: 1\ncost: rooflin", "s.yaml:18:7: ", "'rooflin'",
     "roofline", "did you mean roofline?"),
    /* Workloads. */
    BAD("window backwards", "  trace: t.csv", "  trace: t.csv\n  select: {window: 9 s .. 3 s}",
     "s.yaml:16:20: ", "no span of time", "0 s .. 600 s", NULL),
    BAD("window of one time", "  trace: t.csv", "  trace: t.csv\n  select: {window: 9 s}",
     "s.yaml:16:20: ", "'9 s'", "0 s .. 600 s", NULL),
    BAD("format misspelt", "  trace: t.csv", "  trace: t.csv\n  format: mooncke", "s.yaml:16:11: ",
     "'mooncke'", "azure", "did you mean mooncake?"),
    BAD("both ends of a run", "  trace: t.csv",
     "  generate: {requests: 5, duration: 3 s, arrivals: {process: burst-at-zero}, "
     "input_tokens: 5, output_tokens: 5}", "s.yaml:15:13: ", "both of requests and duration", "one of", NULL),
    BAD("rate without unit", "  trace: t.csv",
     "  generate: {requests: 5, arrivals: {rate: 12}, input_tokens: 5, output_tokens: 5}",
     "s.yaml:15:44: ", "'12' has no unit", "12 /s", NULL),
    BAD("unknown process", "  trace: t.csv",
     "  generate: {requests: 5, arrivals: {process: erlang, rate: 12 /s}, input_tokens: 5, "
     "output_tokens: 5}", "s.yaml:15:47: ", "'erlang'", "poisson", NULL),
    BAD("impossible lognormal", "  trace: t.csv",
     "  generate: {requests: 5, arrivals: {rate: 1 /s}, input_tokens: {law: lognormal, mean: 10, "
     "p99: 1000}, output_tokens: 5}", "s.yaml:15:65: ", "lognormal", "p99", NULL),
    BAD("request without tokens", "  trace: t.csv",
     "  requests: [{arrival: 0 s, input_tokens: 5, output_tokens: 0}]", "s.yaml:15:61: ",
     "output_tokens is 0", "from 1", NULL),
    BAD("request without arrival", "  trace: t.csv",
     "  requests: [{input_tokens: 5, output_tokens: 1}]", "s.yaml:15:14: ",
     "neither of arrival_ns and arrival", "one of", NULL),
    BAD("cap below the output", "  trace: t.csv",
     "  requests: [{arrival: 0 s, input_tokens: 5, output_tokens: 9, max_tokens: 4}]",
     "s.yaml:15:76: ", "max_tokens is 4", "from 9", NULL),
    BAD("shared prefix", "  trace: t.csv",
     "  requests: [{arrival: 0 s, input_tokens: 5, output_tokens: 9, prefix: [a]}]",
     "s.yaml:15:72: ", "prefix has 1 entries", "[name, tokens]", NULL),
    BAD("blocks of no size", "  trace: t.csv",
     "  requests: [{arrival: 0 s, input_tokens: 5, output_tokens: 9, blocks: [1]}]",
     "s.yaml:15:14: ", "block_tokens is missing", "how many tokens", NULL),
    /* Traces. */
    BAD("missing trace", "t.csv", "nowhere.csv", "nowhere.csv", "No such file", NULL, NULL),
    BAD("trace is a folder", "t.csv", ".", ".: ", "is a directory", "a file", NULL),
    TRACE("empty trace", "",
     "t.csv: ", "the file is empty", "an Azure CSV"),
    TRACE("header only", HEAD,
     "t.csv: ", "no requests", "at least one request"),
    TRACE("text cell", HEAD "2023-11-16 18:15:46.68,abc,4\n",
     "t.csv:2:24: ", "\"abc\"", "a whole number of tokens"),
    TRACE("negative cell", HEAD "2023-11-16 18:15:46.68,-5,4\n",
     "t.csv:2:24: ", "-5", "a whole number of tokens"),
    TRACE("fraction cell", HEAD "2023-11-16 18:15:46.68,5,4.5\n",
     "t.csv:2:26: ", "4.5", "a whole number of tokens"),
    TRACE("zero cell", HEAD "2023-11-16 18:15:46.68,5,0\n",
     "t.csv:2:26: ", "GeneratedTokens is 0", "import: {zero: drop}"),
    TRACE("huge cell", HEAD "2023-11-16 18:15:46.68,5,99999999999999999999\n",
     "t.csv:2:26: ", "99999999999999999999", "1 to 1000000000"),
    TRACE("short row", HEAD "2023-11-16 18:15:46.68,5\n",
     "t.csv:2:24: ", "2 cells", "3 cells"),
    TRACE("bad month", HEAD "2023-13-16 18:15:46.68,5,4\n",
     "t.csv:2:1: ", "2023-13-16", NULL),
    TRACE("unsorted", HEAD "2023-11-16 18:15:46.68,5,4\n2023-11-16 18:15:45.68,5,4\n",
     "t.csv:3:1: ", "1.000000000 s earlier", "import: {unsorted: sort}"),
    TRACE("pointer file", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
     "t.csv: ", "Git LFS", "git lfs pull"),
    TRACE("web page", "<!DOCTYPE html><html></html>\n",
     "t.csv: ", "HTML", "the raw file"),
    TRACE("other columns", "time,prompt,answer\n1,2,3\n",
     "t.csv:1:1: ", "time, prompt, answer", "map: {arrival: COLUMN:UNIT"),
    /* The command line. */
    ARGS("unknown flag", 2, NULL, "--jsn", NULL, "--json", "--jsn", "x"),
    ARGS("flag without value", 2, NULL, "--set", NULL, NULL, "--set"),
    ARGS("two scenarios", 2, NULL, "other.yaml", NULL, NULL, "other.yaml"),
    ARGS("set without =", 2, "command line: ", "--set seed", "KEY=VALUE", NULL, "--set", "seed"),
    ARGS("set without key", 2, "command line: ", "no key", "KEY=VALUE", NULL, "--set", "=3"),
    ARGS("set with an empty part", 2, "command line: ", "empty", "KEY=VALUE", NULL, "--set",
     "slo..ttft=3 s"),
    ARGS("set with an open list", 2, "command line --set pools", "flow sequence", NULL, NULL,
     "--set", "pools=[1, 2"),
    ARGS("set to a bad value", 3, "command line --set pools.main.replicas: ", "-1", "from 1", NULL,
     "--set", "pools.main.replicas=-1"),
    ARGS("set without unit", 3, "command line --set slo.ttft: ", "'1' has no unit", "2 s", NULL,
     "--set", "slo.ttft=1"),
    ARGS("set of an unknown key", 3, "command line --set pools.main.replica: ", "'replica'",
     "replicas", "did you mean replicas?", "--set", "pools.main.replica=1"),
    ARGS("set of an unknown pool", 3, "command line --set pools.min.replicas: ",
     "without such an entry", "pools.main", NULL, "--set", "pools.min.replicas=1"),
    ARGS("set below a number", 3, "command line --set seed.x: ", "not a mapping", "set seed itself",
     NULL, "--set", "seed.x=1"),
    ARGS("set that does not fit", 3, "command line --set pools.main.tensor_parallel: ",
     "does not divide", NULL, NULL, "--set", "pools.main.tensor_parallel=3"),
    ARGS("seed is no number", 3, "command line --set seed: ", "'abc'", "at least 0", NULL, "--seed",
     "abc"),
    ARGS("two outputs in one file", 2, NULL, "two outputs go to '/dev/stdout'", NULL, NULL,
     "--requests", "/dev/stdout", "--steps", "/dev/stdout"),
    ARGS("requests of unknown form", 2, NULL, ".txt", ".csv", NULL, "--requests", "out.txt"),
    ARGS("output is a folder", 2, NULL, "/tmp", NULL, NULL, "--steps", "/tmp"),
    ARGS("output folder is missing", 2, NULL, "/nonexistent", NULL, NULL, "--steps",
     "/nonexistent/x.jsonl"),
    ARGS("full disk", 1, NULL, "/dev/full", NULL, NULL, "--steps", "/dev/full"),
    ARGS("flags beside a scenario", 2, NULL, "--tp", NULL, NULL, "--tp", "2"),
};
// clang-format on

typedef struct usage {
  const char *name;
  const char *args[12];
  int exit;
  const char *text, *expected, *hint;
} usage;

#define USE(name, exit, text, expected, hint, ...)                                                 \
  { name, {__VA_ARGS__}, exit, text, expected, hint }

// clang-format off
static const usage usages[] = {
    USE("no command", 2, "no command", "run", NULL, NULL),
    USE("unknown command", 2, "rnu", NULL, "run", "rnu"),
    USE("no scenario", 2, "no scenario", "dryserve run SCENARIO", NULL, "run"),
    USE("missing scenario", 3, "/nonexistent.yaml: cannot open", "dryserve new", NULL, "run",
     "/nonexistent.yaml"),
    USE("scenario is a folder", 3, "/tmp: cannot read", "a scenario file", NULL, "run", "/tmp"),
    USE("new without model", 2, "--model is missing", "dryserve list models", NULL, "new"),
    USE("new without hardware", 2, "--hardware is missing", "dryserve list hardware", NULL, "new",
     "--model", "llama-3.1-8b"),
    USE("new without workload", 2, "workload is missing", "--rate 12/s", NULL, "new", "--model",
     "llama-3.1-8b", "--hardware", "h100-sxm"),
    USE("rate without unit", 2, "'12' has no unit", "12 /s", NULL, "new", "--model", "llama-3.1-8b",
     "--hardware", "h100-sxm", "--rate", "12"),
    USE("tp of zero", 2, "--tp '0'", "from 1", NULL, "new", "--model", "llama-3.1-8b", "--hardware",
     "h100-sxm", "--rate", "12/s", "--tp", "0"),
    USE("devices and tp", 2, "3 x h100-sxm", "divides", NULL, "new", "--model", "llama-3.1-8b",
     "--hardware", "3xh100-sxm", "--rate", "12/s", "--tp", "2"),
    USE("slo that is none", 2, "p99 foo 2s", "p99 ttft 2s", NULL, "new", "--model", "llama-3.1-8b",
     "--hardware", "h100-sxm", "--rate", "12/s", "--slo", "p99 foo 2s"),
    USE("goodput with a unit", 2, "ttft:2s", "milliseconds", NULL, "new", "--model", "llama-3.1-8b",
     "--hardware", "h100-sxm", "--rate", "12/s", "--goodput", "ttft:2s"),
    USE("rate beside trace", 2, "--trace stands beside --rate", "either", NULL, "new", "--model",
     "llama-3.1-8b", "--hardware", "h100-sxm", "--rate", "12/s", "--trace", "x.csv"),
    USE("flag twice", 2, "--model is given twice", NULL, NULL, "new", "--model", "a", "--model",
     "b"),
    USE("users and a rate", 2, "--users stands beside --rate", "one of --users", NULL, "new",
     "--model", "llama-3.1-8b", "--hardware", "h100-sxm", "--users", "500", "--rate", "12/s"),
    USE("card that is none, from flags", 3, "'llama-3.1-8'", "dryserve list models",
     "did you mean llama-3.1-8b?", "new", "--model", "llama-3.1-8", "--hardware", "h100-sxm",
     "--rate", "12/s"),
    USE("list of nothing", 2, "nothing to list", "models", NULL, "list"),
    USE("list of an unknown kind", 2, "model", NULL, "models", "list", "model"),
    USE("list of an unknown card", 3, "'llama-9'", "dryserve list models", NULL, "list", "models",
     "llama-9"),
};
// clang-format on

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static bool contains(const char *all, const char *part, const char *what, const char *name) {
  if (!part || strstr(all, part)) return true;
  note("%s: no %s '%s' in: %s", name, what, part, all);
  return false;
}

/* Lines of 80 columns, but for a place or a quoted word that is wider by itself. */
static bool fits(const char *name, const char *err) {
  for (const char *s = err, *end; *s; s = *end ? end + 1 : end) {
    end = s + strcspn(s, "\n");
    size_t columns = 0, blanks = strspn(s, " ");
    for (const char *c = s; c < end; c++) columns += ((unsigned char)*c & 0xc0) != 0x80;
    const char *rest = s == err ? strstr(s, "dryserve: ") + 10 : s + blanks;
    const char *text = s == err ? strstr(rest, ": ") : rest;
    if (text == NULL || text > end) text = rest;
    const char *blank = memchr(text + 2, ' ', text + 2 < end ? (size_t)(end - text - 2) : 0);
    if (columns > 80 && blank != NULL) return note("%s: %zu columns: %s", name, columns, s), false;
  }
  return true;
}

/* Lines that were folded, as one again. */
static void unfold(char *err) {
  char *to = err;
  for (const char *s = err; *s;) {
    bool folded = strncmp(s, "\n    ", 5) == 0;
    *to++ = folded ? ' ' : *s;
    s += folded ? 5 : 1;
  }
  *to = '\0';
}

/* The message: at most six lines where nothing had to be folded, the first with the program's name
 * and the place. */
static bool message_is(const char *name, const char *place, const char *text, const char *expected,
                       const char *hint) {
  char *err = slurp(at("stderr"), NULL), first[1200] = "dryserve: ";
  bool good = strncmp(err, first, strlen(first)) != 0 || fits(name, err);
  int lines = 0;
  unfold(err);
  for (const char *s = err; *s; s++) lines += *s == '\n';
  if (lines < 1 || lines > 6) note("%s: %d lines of message: %s", name, lines, err), good = false;
  if (strncmp(err, first, strlen(first)) != 0)
    note("%s: begins otherwise: %s", name, err), good = false;
  const char *end = strchr(err, '\n');
  snprintf(first, sizeof first, "%.*s", end ? (int)(end - err) : 0, err);
  good &= contains(first, place, "place", name) & contains(first, text, "text", name);
  if (expected) good &= contains(err, "\n  expected ", "expectation", name);
  good &= contains(err, expected, "expectation", name) & contains(err, hint, "suggestion", name);
  free(err);
  return good;
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(text, 1, strlen(text), f) != strlen(text) || fclose(f))
    bail("cannot write %s", path);
}

/* The base with its one change; the text that is changed must be there once. */
static void write_scenario(const bad *b) {
  char text[4096];
  const char *hit = b->from ? strstr(base_scenario, b->from) : NULL;
  if (b->from && (!hit || strstr(hit + 1, b->from)))
    bail("%s: '%s' is not once in the base", b->name, b->from);
  if (b->from)
    snprintf(text, sizeof text, "%.*s%s%s", (int)(hit - base_scenario), base_scenario, b->to,
             hit + strlen(b->from));
  else
    snprintf(text, sizeof text, "%s", b->to);
  write_text(at("s.yaml"), text);
  write_text(at("t.csv"), b->trace ? b->trace : good_trace);
}

/* Nothing but what we put there. */
static bool nothing_left(const char *name) {
  static const char *const ours[] = {".", "..", "s.yaml", "t.csv", "stdout", "stderr"};
  DIR *d = opendir(work_dir);
  bool good = d != NULL;
  for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
    size_t i = 0;
    while (i < LEN(ours) && strcmp(ours[i], e->d_name) != 0) i++;
    if (i == LEN(ours))
      note("%s: left %s", name, e->d_name), unlink(at("%s", e->d_name)), good = false;
  }
  if (d) closedir(d);
  return good;
}

static bool silent_stdout(const char *name) {
  struct stat st;
  bool good = stat(at("stdout"), &st) == 0 && st.st_size == 0;
  if (!good) note("%s: something on standard output", name);
  return good;
}

static bool status_is(const char *name, int got, int want) {
  if (got != want) note("%s: exit %d, not %d", name, got, want);
  return got == want;
}

static bool check_case(const bad *b) {
  const char *argv[16] = {program(), "run", at("s.yaml"), "--json", at("out.json")};
  size_t n = 5;
  for (size_t i = 0; i < LEN(b->args) && b->args[i]; i++) argv[n++] = b->args[i];
  write_scenario(b);
  int status = run(argv);
  return status_is(b->name, status, b->exit) &
         message_is(b->name, b->place, b->text, b->expected, b->hint) & nothing_left(b->name) &
         silent_stdout(b->name);
}

static bool check_usage(const usage *u) {
  const char *argv[16] = {program()};
  for (size_t i = 0; i < LEN(u->args) && u->args[i]; i++) argv[1 + i] = u->args[i];
  int status = run(argv);
  return status_is(u->name, status, u->exit) &
         message_is(u->name, NULL, u->text, u->expected, u->hint) & silent_stdout(u->name);
}

/* The base itself must be good, or every case would be refused for another reason. */
static bool base_runs(void) {
  const bad good = BAD("base", NULL, base_scenario, NULL, NULL, NULL, NULL);
  write_scenario(&good);
  int status = RUN(program(), "run", at("s.yaml"), "--quiet");
  if (status != 0) note("base: exit %d: %s", status, slurp(at("stderr"), NULL));
  return status == 0;
}

/* The answer itself has nowhere to go. */
static bool no_stdout(const char *where, const char *text) {
  char command[3000];
  const bad good = BAD("base", NULL, base_scenario, NULL, NULL, NULL, NULL);
  write_scenario(&good);
  snprintf(command, sizeof command, "exec '%s' run '%s' %s", program(), at("s.yaml"), where);
  int status = RUN("/bin/sh", "-c", command);
  return status_is(where, status, 1) & message_is(where, "cannot write", text, NULL, NULL) &
         nothing_left(where);
}

int main(void) {
  harness_begin("bad_input");
  tap(base_runs(), "the scenario that the cases change is good");
  for (size_t i = 0; i < LEN(cases); i++) tap(check_case(&cases[i]), "%s", cases[i].name);
  for (size_t i = 0; i < LEN(usages); i++) tap(check_usage(&usages[i]), "%s", usages[i].name);
  tap(no_stdout(">&-", "standard output"), "closed standard output");
  tap(no_stdout(">/dev/full", "No space left"), "full standard output");
  return tap_end();
}
