// SPDX-License-Identifier: GPL-3.0-or-later
/* The readers of foreign trace formats, row by row: what is kept, how it is repaired, what is refused
 * and why. Rows are made up here; their forms are those of the public files. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "io/trace.h"
#include "io/trace_source.h"

#define ROWS_MAX 4096

static char folder[64];

static void make_folder(void) {
  strcpy(folder, "/tmp/dryserve-readers-XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void) {
  char command[80];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  cr_assert_eq(system(command), 0);
}

TestSuite(readers, .init = make_folder, .fini = remove_folder);

static void write_file(const char *name, const void *bytes, size_t n) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static ds_workload workload(void) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1.0;
  snprintf(w.path, sizeof w.path, "%s/t", folder);
  strcpy(w.path_given, "t");
  return w;
}

static ds_workload lenient(void) {
  ds_workload w = workload();
  w.zero = DS_REPAIR_DROP;
  w.unsorted = DS_REPAIR_SORT;
  w.zero_given = w.unsorted_given = w.drop_malformed = true;
  return w;
}

typedef struct outcome {
  bool good, closed;
  ds_diag d;
  ds_request r[ROWS_MAX];
  ds_more more[ROWS_MAX]; /* blocks and texts are gone with the trace */
  bool has_more[ROWS_MAX];
  int64_t line[ROWS_MAX];
  uint64_t first_block[ROWS_MAX], blocks[ROWS_MAX];
  char session[ROWS_MAX][24], id[ROWS_MAX][24];
  size_t n;
  ds_trace_report report;
  char format[16], account[500];
} outcome;

static outcome o;

static void read_with(const ds_workload *w, size_t cap) {
  ds_trace *t;
  const ds_more *more[64];
  memset(&o, 0, sizeof o);
  o.good = ds_trace_open(w, 1, &t, &o.d);
  if (!o.good) return;
  for (size_t got = 1; o.good && got > 0; o.n += got) {
    cr_assert(o.n + cap <= ROWS_MAX);
    o.good = ds_trace_read_more(t, o.r + o.n, more, cap, &got, &o.d);
    for (size_t i = 0; i < got; i++) {
      size_t k = o.n + i;
      o.line[k] = ds_trace_line(t, k);
      snprintf(o.id[k], sizeof o.id[k], "%s", ds_trace_id(t, k));
      if (more[i] == NULL) continue;
      o.has_more[k] = true;
      o.more[k] = *more[i];
      o.blocks[k] = more[i]->n_blocks;
      if (more[i]->n_blocks > 0) o.first_block[k] = more[i]->blocks[0];
      if (more[i]->session != NULL) snprintf(o.session[k], sizeof o.session[k], "%s", more[i]->session);
    }
  }
  o.report = *ds_trace_report_of(t);
  o.closed = ds_trace_is_closed(t);
  snprintf(o.format, sizeof o.format, "%s", ds_trace_format(t));
  ds_trace_account(t, o.account, sizeof o.account);
  ds_trace_close(t);
}

static void read_text(const ds_workload *w, const char *text) {
  write_file("t", text, strlen(text));
  read_with(w, 7);
}

static void must_read(const ds_workload *w, const char *text, const char *format, size_t n) {
  read_text(w, text);
  cr_assert(o.good, "%s (expected %s), line %lld: %.200s", o.d.text, o.d.expected, (long long)o.d.line, text);
  cr_assert_str_eq(o.format, format);
  cr_assert_eq(o.n, n, "%zu requests of %.200s", o.n, text);
}

static void is(size_t i, int64_t at_ns, uint32_t in, uint32_t out) {
  cr_assert_eq(o.r[i].arrival_ns, at_ns, "request %zu at %lld", i, (long long)o.r[i].arrival_ns);
  cr_assert_eq(o.r[i].input_tokens, in, "request %zu: %u in", i, o.r[i].input_tokens);
  cr_assert_eq(o.r[i].output_tokens, out, "request %zu: %u out", i, o.r[i].output_tokens);
}

#define MS DS_NS_PER_MS
#define S  DS_NS_PER_S

/* ---- each format, as it should be ---- */

Test(readers, mooncake_and_its_dialects) {
  ds_workload w = workload();
  must_read(&w,
            "{\"timestamp\": 5, \"input_length\": 655, \"output_length\": 52, \"hash_ids\": [0, 1]}\n"
            "{\"timestamp\": 5.5, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [0,18446744073709551615]}\r\n"
            "\n"
            "{\"created_time\": 20, \"input_tokens\": 512, \"output_tokens\": 8, \"hash_ids\": [0], \"unknown\": {\"a\": "
            "[1, {\"b\": \"c\\\"]}\"}]}}",
            "mooncake", 3);
  is(0, 0, 655, 52);
  is(1, 500000, 1024, 1);
  is(2, 15 * MS, 512, 8);
  cr_assert_eq(o.line[2], 4);
  cr_assert_eq(o.blocks[0], 2);
  cr_assert(o.more[0].tail && !o.more[1].tail && o.more[0].block_tokens == 512);
  /* The whole prompt is identified, the partial block by its own length. */
  uint64_t covered = 0;
  for (uint32_t i = 0; i < o.r[0].n_spans; i++) covered += o.r[0].spans != NULL;
  cr_assert_eq(covered, o.r[0].n_spans);
  /* Dynamo's sessions: turns without arrivals make it a closed loop. */
  must_read(&w,
            "{\"session_id\": \"a\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": 40}\n"
            "{\"session_id\": \"b\", \"timestamp\": 40, \"input_length\": 310, \"output_length\": 41}\n"
            "{\"session_id\": \"a\", \"delay\": 2000, \"input_length\": 450, \"output_length\": 20}\n"
            "{\"session_id\": \"a\", \"delay_ms\": 1500, \"input_length\": 600, \"output_length\": 20, \"priority\": 5}\n",
            "mooncake", 4);
  cr_assert(o.closed);
  is(0, 0, 300, 40);
  is(1, 0, 450, 20);
  is(2, 0, 600, 20);
  is(3, 10 * MS, 310, 41);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 2 * S && o.r[2].after == 2 && o.r[2].think_ns == 1500 * MS);
  cr_assert(o.r[0].after == 0 && o.r[3].after == 0);
  cr_assert_eq(o.r[2].priority, -5, "a larger number is more urgent there");
  cr_assert_str_eq(o.session[3], "b");
  /* Agentic rows: a graph of requests. */
  must_read(&w,
            "{\"request_id\":\"p\",\"timestamp\":100,\"input_length\":9,\"output_length\":1,\"wait_for\":[]}\n"
            "{\"request_id\":\"q\",\"input_length\":8,\"output_length\":2,\"wait_for\":[\"p\"],\"delay\":1,\"tool_wait_ms\":2.5}\n"
            "{\"request_id\":\"r\",\"input_length\":7,\"output_length\":3,\"wait_for\":[\"p\"]}\n"
            "{\"request_id\":\"s\",\"input_length\":6,\"output_length\":4,\"wait_for\":[\"q\",\"r\"]}\n",
            "mooncake", 4);
  cr_assert(o.closed && o.report.several_parents == 1 && o.report.missing_parents == 0);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 3500000 && o.r[2].after == 1 && o.r[3].after == 3);
  cr_assert_str_eq(o.id[3], "s");
}

Test(readers, bailian_chains_of_chats) {
  static const char text[] =
      "{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 37, \"output_length\": 20, \"type\": "
      "\"text\", \"turn\": 1, \"hash_ids\": [1089, 1090, 1091]}\n"
      "{\"chat_id\": 161, \"parent_chat_id\": -1, \"timestamp\": 62.0, \"input_length\": 32, \"output_length\": 4, \"type\": "
      "\"thinking\", \"turn\": 1, \"hash_ids\": [3000, 3001]}\n"
      "{\"chat_id\": 162, \"parent_chat_id\": 999, \"timestamp\": 63, \"input_length\": 16, \"output_length\": 3, \"type\": "
      "\"search\", \"turn\": 4, \"hash_ids\": [5000]}\n"
      "{\"chat_id\": 160, \"parent_chat_id\": 159, \"timestamp\": 75.5, \"input_length\": 66, \"output_length\": 12, \"type\": "
      "\"text\", \"turn\": 2, \"hash_ids\": [1089, 1090, 2001, 2002, 2003]}\n";
  ds_workload w = workload();
  must_read(&w, text, "bailian", 4);
  cr_assert(!o.closed);
  is(0, 0, 37, 20);
  is(3, 14386 * MS, 66, 12);
  cr_assert_str_eq(o.session[3], "159");
  cr_assert_str_eq(o.id[3], "160");
  cr_assert(o.more[3].turn == 1 && strcmp(o.session[2], "162") == 0 && o.more[2].turn == 3);
  w.closed_loop = true;
  must_read(&w, text, "bailian", 4);
  cr_assert(o.report.missing_parents == 1 && o.report.think_from_gaps == 1);
  is(1, 0, 66, 12);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 14386 * MS);
  is(2, 886 * MS, 32, 4);
}

Test(readers, burstgpt_both_versions) {
  ds_workload w = workload();
  must_read(&w,
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n118,GPT-4,300,0,300,API log\n"
            "118,GPT-4,417,276,693,API log\n119.0,ChatGPT,0,0,0,API log\n119.5,ChatGPT,12,3.0,15,API log\n",
            "burstgpt", 4);
  is(0, 0, 472, 18);
  is(2, 113 * S, 417, 276);
  is(3, 114500 * MS, 12, 3);
  cr_assert_eq(o.report.dropped_zero, 2, "zero is normal here");
  must_read(&w,
            "\xef\xbb\xbfTimestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n"
            "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\r\n"
            "19440161.0,,2,ChatGPT,36,29,65,API log\r\n\"19440161.0\",\"x,\"\"y\"\"\",,ChatGPT,7,8,15,\"a\nb\"",
            "burstgpt", 3);
  is(1, 51 * S, 36, 29);
  cr_assert(o.more[0].e2e_ns == 43 * S && o.more[1].e2e_ns == 2 * S && o.more[2].e2e_ns == -1);
  cr_assert_str_eq(o.session[0], "1722ac82-0a46");
  cr_assert_str_eq(o.session[1], "");
  cr_assert_str_eq(o.session[2], "x,\"y\"");
}

static const char weka[] =
    "{\"id\":\"w\",\"models\":[\"m\"],\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":["
    "{\"t\":0.0,\"type\":\"s\",\"model\":\"m\",\"in\":130,\"out\":10,\"hash_ids\":[1,2],\"api_time\":2.5,\"ttft\":0.5},"
    "{\"t\":5.0,\"type\":\"subagent\",\"agent_id\":\"x\",\"duration_ms\":4000,\"requests\":["
    "{\"t\":0.0,\"type\":\"n\",\"model\":\"m\",\"in\":70,\"out\":3,\"hash_ids\":[7],\"api_time\":1},"
    "{\"t\":3.0,\"type\":\"n\",\"model\":\"m\",\"in\":80,\"out\":4,\"hash_ids\":[7],\"think_time\":1.75}]},"
    "{\"t\":20.0,\"type\":\"n\",\"model\":\"m\",\"in\":200,\"out\":0,\"hash_ids\":[1,2,3],\"think_time\":1}]}\n";

Test(readers, weka_sessions_and_sub_agents) {
  ds_workload w = workload();
  w.zero = DS_REPAIR_CLAMP;
  w.zero_given = true;
  must_read(&w, weka, "weka", 4);
  cr_assert(o.closed && o.report.clamped_zero == 1);
  is(0, 0, 130, 10);
  is(1, 0, 70, 3);
  is(2, 0, 80, 4);
  is(3, 0, 200, 1);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 2500 * MS, "the agent starts 2.5 s after its parent's call");
  cr_assert(o.r[2].after == 2 && o.r[2].think_ns == 1750 * MS);
  cr_assert(o.r[3].after == 3 && o.r[3].think_ns == 11 * S, "the parent went on 11 s after the agent was over");
  cr_assert_str_eq(o.session[1], "w:x");
  cr_assert(o.more[0].ttft_ns == 500 * MS && o.more[0].e2e_ns == 2500 * MS && !o.more[0].tail);
  cr_assert(o.more[0].scope != 0 && o.more[0].scope == o.more[1].scope, "ids mean something within the file");
  /* In one file after another the ids are others. */
  char two[2 * sizeof weka];
  snprintf(two, sizeof two, "%s%s", weka, weka);
  w.open_loop = true;
  must_read(&w, two, "weka", 8);
  cr_assert_neq(o.more[0].scope, o.more[1].scope);
  is(7, 20 * S, 200, 1);
}

static size_t put_member(char *to, const char *name, const char *text) {
  memset(to, 0, 512);
  strcpy(to, name);
  strcpy(to + 100, "0000644");
  snprintf(to + 124, 12, "%011o", (unsigned)strlen(text));
  to[156] = '0';
  memcpy(to + 257, "ustar", 6);
  memcpy(to + 512, text, strlen(text));
  return 512 + (strlen(text) + 511) / 512 * 512;
}

Test(readers, weka_archives_also_packed) {
  static char tar[8192], packed[8192];
  size_t used = put_member(tar, "a/one.json", weka);
  used += put_member(tar + used, "a/README", "not a session");
  put_member(tar + used, "a/two.json", weka);
  ds_workload w = workload();
  write_file("t", tar, sizeof tar);
  read_with(&w, 7);
  cr_assert(o.good && o.n == 6 && o.report.dropped_zero == 2, "%s", o.d.text);
  size_t n = ZSTD_compress(packed, sizeof packed, tar, sizeof tar, 3);
  cr_assert_not(ZSTD_isError(n));
  write_file("t", packed, n);
  read_with(&w, 7);
  cr_assert(o.good && o.n == 6);
  write_file("t", tar, used + 700);
  read_with(&w, 7);
  cr_assert(!o.good && strstr(o.d.text, "damaged tar") != NULL);
}

Test(readers, a_line_of_four_megabytes) {
  size_t n_ids = 600000, used;
  char *text = malloc(n_ids * 8 + 1000);
  used = (size_t)sprintf(text, "{\"timestamp\":0,\"input_length\":%zu,\"output_length\":3,\"hash_ids\":[", n_ids * 512);
  for (size_t i = 0; i < n_ids; i++) used += (size_t)sprintf(text + used, i > 0 ? ",%zu" : "%zu", i);
  used += (size_t)sprintf(text + used, "]}\n{\"timestamp\":1,\"input_length\":5,\"output_length\":3}\n");
  cr_assert_gt(used, 4000000u);
  write_file("t", text, used);
  free(text);
  ds_workload w = workload();
  read_with(&w, 7);
  cr_assert(o.good && o.n == 2 && o.blocks[0] == n_ids, "%s", o.d.text);
  cr_assert_eq(o.r[0].n_spans, 1u, "ids that count up are one span");
}

Test(readers, other_formats) {
  ds_workload w = workload();
  must_read(&w,
            "{\"input_toks\": 50, \"output_toks\": 6, \"arrival_time_ns\": 2000000000, \"input_tok_ids\": "
            "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}\n"
            "{\"session_id\": \"g\", \"arrival_time_ns\": 1000000000, \"sub_requests\": [{\"input_toks\": 5, \"output_toks\": "
            "6, \"tool_duration_ns\": 300}, {\"input_toks\": 7, \"output_toks\": 8}]}\n",
            "llmservingsim", 3);
  cr_assert(o.closed && o.report.out_of_order > 0);
  is(0, 0, 5, 6);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 300 && o.blocks[2] == 1);
  is(2, S, 50, 6);
  must_read(&w, "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374.0,44\n4.314579,396,109", "vidur", 2);
  is(1, 4314579000, 396, 109);
  must_read(&w, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n9,8,17,1\n", "vidur", 2);
  is(1, 0, 9, 8);
  must_read(&w,
            "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
            "7,2,0,1.5,1,100,20\n8,2,0,2.25,1,101,21\n",
            "splitwise", 2);
  is(1, 750 * MS, 101, 21);
  cr_assert_str_eq(o.id[1], "8");
  static const char tracev2[] =
      "request_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,input_tokens,output_tokens,"
      "arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status,error_message,think_time_us\n"
      "a,t,chat,s,0,sys,64,100,10,5,6,106,1006,ok,,0\nb,t,chat,s,1,,0,20,5,1000005,0,0,0,ok,,250\n"
      "c,t,chat,,0,,0,20,0,1000006,0,0,0,error,\"x, \"\"y\"\"\",0\n";
  must_read(&w, tracev2, "tracev2", 2);
  is(1, S, 20, 5);
  cr_assert(o.report.dropped_failed == 1 && o.more[0].ttft_ns == 100000 && o.more[0].e2e_ns == 1000000);
  cr_assert(o.more[0].prefix_tokens == 64 && o.r[0].n_spans == 1 && o.more[1].think_ns == 250000);
  char headed[2000];
  snprintf(headed, sizeof headed, "trace_version: 2\ntime_unit: \"microseconds\"\nsession_context_growth: \"accumulate\"\n%s", tracev2);
  must_read(&w, headed, "tracev2", 2);
  is(1, S, 130, 5); /* 100 + 10 + 20 */
  cr_assert_eq(o.report.accumulated, 1);
  must_read(&w,
            "{\"duration\": 3, \"request_rate\": \"inf\",\n \"input_lens\": [5, 6, 7], \"output_lens\": [1, 0, 3], \"ttfts\": [0.1, 0, "
            "0.3],\n \"errors\": [\"\", \"x\", \"\"], \"start_times\": [10.5, 10.25, 11.0]}",
            "bench", 2);
  is(0, 0, 5, 1); /* the failed one was the earliest: it is not there any more */
  is(1, 500 * MS, 7, 3);
  cr_assert(o.more[1].ttft_ns == 300 * MS && o.report.dropped_failed == 1);
  must_read(&w,
            "{\"id\":\"a\",\"startTime\":1700000000.5,\"endTime\":1700000003.5,\"completionStartTime\":1700000001.0,\"status\":"
            "\"success\",\"prompt_tokens\":9,\"completion_tokens\":8,\"cache_hit\":null}\n"
            "{\"id\":\"b\",\"startTime\":\"2023-11-14T22:13:19.500000+00:00\",\"status\":\"success\",\"prompt_tokens\":7,"
            "\"completion_tokens\":6}\n"
            "{\"id\":\"c\",\"startTime\":1700000009,\"status\":\"failure\",\"prompt_tokens\":7,\"completion_tokens\":0}\n"
            "{\"id\":\"d\",\"startTime\":1700000009,\"status\":\"success\",\"prompt_tokens\":7,\"completion_tokens\":5,"
            "\"cache_hit\":\"True\"}\n",
            "litellm", 2);
  is(0, 0, 7, 6);
  is(1, S, 9, 8);
  cr_assert(o.more[1].e2e_ns == 3 * S && o.more[1].ttft_ns == 500 * MS);
  cr_assert(o.report.dropped_failed == 1 && o.report.dropped_cached == 1 && o.report.out_of_order == 1);
  must_read(&w,
            "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[\n{\"spanId\":\"01\",\"name\":\"chat m\",\"startTimeUnixNano\":"
            "\"1700000000000000005\",\"endTimeUnixNano\":\"1700000001000000005\",\"attributes\":[{\"key\":"
            "\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"12\"}},{\"key\":\"gen_ai.usage.output_tokens\",\"value\":{"
            "\"intValue\":\"34\"}},{\"key\":\"gen_ai.conversation.id\",\"value\":{\"stringValue\":\"k\"}}]},\n"
            "{\"name\":\"invoke_agent\",\"startTimeUnixNano\":\"1\",\"attributes\":[{\"key\":\"gen_ai.operation.name\",\"value\":{"
            "\"stringValue\":\"invoke_agent\"}},{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"99\"}}]}]}]}]}\n",
            "otel", 1);
  is(0, 0, 12, 34);
  cr_assert(o.more[0].e2e_ns == S && strcmp(o.session[0], "k") == 0);
  must_read(&w,
            "{\"spans\":[{\"span_id\":\"1\",\"session_id\":\"q\",\"name\":\"chat m\",\"start_time\":\"2025-01-01T00:00:01\",\"status\":"
            "{\"code\":1},\"attributes\":{\"gen_ai.usage.prompt_tokens\":5,\"gen_ai.usage.completion_tokens\":6}}]}\n",
            "otel", 1);
  is(0, 0, 5, 6);
  must_read(&w,
            "{\"event\":{\"schema\":\"dynamo.request.trace.v1\",\"event_type\":\"request_end\",\"request\":{\"request_id\":\"r\","
            "\"input_tokens\":65,\"output_tokens\":2,\"request_received_ms\":1700000000000,\"ttft_ms\":1.5,\"replay\":{"
            "\"trace_block_size\":64,\"input_sequence_hashes\":[18446744073709551615,18446744073709551614]}}}}\n"
            "{\"schema\":\"dynamo.request.trace.v1\",\"event_type\":\"tool_end\"}\n",
            "dynamo", 1);
  cr_assert(o.blocks[0] == 2 && o.first_block[0] == UINT64_MAX && o.more[0].ttft_ns == 1500000);
  must_read(&w, "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,2,30,4\n", "azure", 1);
}

Test(readers, ragpulse_with_and_without_lengths) {
  static const char text[] =
      "{\"timestamp\": \"82\", \"input_length\": 40, \"output_length\": 5, \"hash_ids\": {\"sys_prompt\": [1], \"passages_ids\": [2], "
      "\"history\": [], \"web_search\": [], \"user_input\": [3]}, \"session_id\": \"a\"}\n"
      "{\"timestamp\": \"90\", \"input_length\": 50, \"output_length\": 6, \"hash_ids\": {\"sys_prompt\": [1], \"passages_ids\": [4], "
      "\"history\": [], \"web_search\": [], \"user_input\": [3]}, \"session_id\": \"a\"}\n"
      "{\"timestamp\": \"0\", \"input_length\": 40, \"output_length\": 5, \"hash_ids\": {\"sys_prompt\": [1]}}\n\n";
  ds_workload w = workload();
  must_read(&w, text, "ragpulse", 3);
  cr_assert(o.report.out_of_order == 1 && o.blocks[0] == 0);
  is(2, 90 * S, 50, 6);
  write_file("1_sys_prompt.jsonl", "{\"sys_prompt_id\": 1, \"token_length\": 20}\n", 41);
  static const char passages[] = "{\"passage_id\": 2, \"token_length\": 14}\n{\"passage_id\": 4, \"token_length\": 20}\n";
  write_file("2_passages.jsonl", passages, sizeof passages - 1);
  write_file("3_history.jsonl", "", 0);
  write_file("5_web_search.jsonl", "", 0);
  static const char inputs[] = "{\"user_input_id\": 3, \"token_length\": 3}\n";
  write_file("4_user_input.jsonl", inputs, sizeof inputs - 1);
  must_read(&w, text, "ragpulse", 3);
  /* 20 tokens hold one block of 16; 34 and 37 hold two; 40 two. */
  cr_assert(o.blocks[0] == 1 && o.blocks[1] == 2 && o.blocks[2] == 2);
  cr_assert(o.first_block[0] == o.first_block[1] && o.first_block[1] == o.first_block[2]);
}

Test(readers, any_flat_file_by_a_map) {
  ds_workload w = workload();
  strcpy(w.format, "map");
  static const ds_map_entry map[] = {{DS_FIELD_ARRIVAL, MS, "t"}, {DS_FIELD_INPUT, 0, "use.in"},
                                     {DS_FIELD_OUTPUT, 0, "use.out"}, {DS_FIELD_SESSION, 0, "who"},
                                     {DS_FIELD_STATUS, 0, "st"}};
  memcpy(w.map, map, sizeof map);
  w.n_map = 5;
  must_read(&w,
            "{\"t\": 1.5, \"use\": {\"in\": 5, \"out\": 6, \"other\": [1]}, \"who\": 7, \"st\": 200}\n"
            "{\"t\": \"3\", \"use\": {\"in\": 8, \"out\": 9}, \"who\": \"x\", \"st\": 500}\n"
            "{\"t\": 4, \"use\": {\"in\": 8, \"out\": 9}}\n",
            "map", 2);
  is(1, 2500000, 8, 9);
  cr_assert_str_eq(o.session[0], "7");
  must_read(&w, "who,use.out,use.in,T\n\"a\",1,2,3\nb,4,5,6e0\n", "map", 2);
  is(1, 3 * MS, 5, 4);
  read_text(&w, "who,use.out,T\na,1,2\n");
  cr_assert(!o.good && strstr(o.d.text, "no column use.in") != NULL);
}

/* ---- rows that are not simply good ---- */

typedef enum fate { KEPT, DROPPED_ZERO, DROPPED_FAILED, DROPPED_CACHED, REFUSED, NOT_A_ROW } fate;

typedef struct dirty_line {
  const char *text;
  fate by_default, by_lenient; /* alone under the header, as each line is a file of its own */
  uint32_t in, out;            /* when kept */
  int column;                  /* when refused */
  const char *reason;
} dirty_line;

static fate fate_of(void) {
  if (!o.good) return o.report.rows_read == 0 && strstr(o.d.text, "no request") != NULL ? NOT_A_ROW : REFUSED;
  return KEPT;
}

static void judge_lines(const char *header, const char *good, const dirty_line *line, size_t n) {
  char text[4000];
  for (size_t i = 0; i < n; i++) {
    for (int soft = 0; soft < 2; soft++) {
      ds_workload w = soft ? lenient() : workload();
      fate want = soft ? line[i].by_lenient : line[i].by_default;
      /* Behind a good row, so that a dropped one leaves something. */
      snprintf(text, sizeof text, "%s%s%s", header, good, line[i].text);
      read_text(&w, text);
      const char *how = soft ? "lenient" : "default";
      if (want == REFUSED) {
        cr_assert_not(o.good, "%s: read: %s", how, line[i].text);
        cr_assert(strstr(o.d.text, line[i].reason) != NULL, "%s: \"%s\" lacks \"%s\": %s", how, o.d.text, line[i].reason, line[i].text);
        cr_assert(o.d.column == line[i].column, "%s: column %lld (%s): %s", how, (long long)o.d.column, o.d.text, line[i].text);
        continue;
      }
      cr_assert(o.good, "%s: %s: %s", how, o.d.text, line[i].text);
      cr_assert_eq(fate_of(), KEPT);
      uint64_t zero = want == DROPPED_ZERO, failed = want == DROPPED_FAILED, cached = want == DROPPED_CACHED;
      bool malformed = soft && line[i].by_default == REFUSED && want == NOT_A_ROW;
      cr_assert_eq(o.n, want == KEPT ? 2u : 1u, "%s: %zu kept (%s): %s", how, o.n, o.account, line[i].text);
      cr_assert(o.report.dropped_zero == zero && o.report.dropped_failed == failed && o.report.dropped_cached == cached &&
                    o.report.dropped_malformed == (malformed ? 1u : 0u),
                "%s: %s: %s", how, o.account, line[i].text);
      const ds_trace_report *p = &o.report;
      cr_assert_eq(p->rows_read, p->kept + p->dropped_zero + p->dropped_failed + p->dropped_cached + p->dropped_malformed);
      if (want == KEPT) {
        size_t k = o.r[0].input_tokens == line[i].in && o.r[0].output_tokens == line[i].out ? 0 : 1;
        cr_assert(o.r[k].input_tokens == line[i].in && o.r[k].output_tokens == line[i].out, "%s", line[i].text);
      }
    }
  }
}
#define MALFORMED NOT_A_ROW /* lenient: counted as unreadable and left */

Test(readers, dirty_azure_lines) {
  static const dirty_line lines[] = {
      {"2023-11-16 18:15:46.6805900,374,44\r\n", KEPT, KEPT, 374, 44, 0, ""},
      {"2023-11-16 18:15:45.0000001,396,109\r\n", REFUSED, KEPT, 396, 109, 1, "earlier than in a row before"},
      {"\"2023-11-16 18:15:50.9951690\",\"879\",\"55\"\r\n", KEPT, KEPT, 879, 55, 0, ""},
      {"2024-05-10 00:00:00.009930+00:00,2162,5\r\n", KEPT, KEPT, 2162, 5, 0, ""},
      {"2024-05-10 00:00:01+00:00,10,0\r\n", REFUSED, DROPPED_ZERO, 0, 0, 30, "GeneratedTokens is 0"},
      {"2024-05-10T00:00:02Z,91.0,16\r\n", REFUSED, MALFORMED, 0, 0, 22, "not a whole number"},
      {"2024-05-10 00:00:03.5,0,7\r\n", REFUSED, DROPPED_ZERO, 0, 0, 23, "ContextTokens is 0"},
      {"\r\n", NOT_A_ROW, NOT_A_ROW, 0, 0, 0, ""},
      {"2024-05-10 00:00:04.1,abc,9\r\n", REFUSED, MALFORMED, 0, 0, 23, "not a number"},
      {"2024-05-10 00:00:05.1,100\r\n", REFUSED, MALFORMED, 0, 0, 23, "a row of 2 cells"},
      {"2024-05-10 00:00:06.1,4294967296,12\r\n", REFUSED, MALFORMED, 0, 0, 23, "too large"},
      {"2024-05-10 00:00:07.1,-5,12\r\n", REFUSED, MALFORMED, 0, 0, 23, "negative"},
      {"2024-05-10 00:00:08.1,100,20", KEPT, KEPT, 100, 20, 0, ""},
  };
  judge_lines("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n", "2023-11-16 18:15:46.6805900,1,1\r\n", lines, DS_ARRAY_LEN(lines));
}

Test(readers, dirty_mooncake_lines) {
  static const dirty_line lines[] = {
      {"{\"timestamp\": 0.5, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [0, 1]}\n", KEPT, KEPT, 1024, 1, 0, ""},
      {"\n", NOT_A_ROW, NOT_A_ROW, 0, 0, 0, ""},
      {"{\"created_time\": 20, \"input_tokens\": 512, \"output_tokens\": 8, \"hash_ids\": [0]}\n", KEPT, KEPT, 512, 8, 0, ""},
      {"{\"timestamp\": 10, \"input_length\": 5000, \"output_length\": 8, \"hash_ids\": [0, 2]}\n", REFUSED, MALFORMED, 0, 0, 73, "2 block ids for 5000 input tokens"},
      {"{\"session_id\": \"s1\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": 40}\n", KEPT, KEPT, 300, 40, 0, ""},
      {"{\"timestamp\": 40, \"input_length\": 0, \"output_length\": 8, \"hash_ids\": []}\n", REFUSED, DROPPED_ZERO, 0, 0, 35, "input_length is 0"},
      {"{\"timestamp\": 41, \"input_length\": 100, \"output_length\": 0, \"hash_ids\": [9]}\n", REFUSED, DROPPED_ZERO, 0, 0, 57, "output_length is 0"},
      {"{\"timestamp\": 42, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [9], \"unknown_key\": {\"a\": [1, 2, {\"b\": \"c\\\"]}\"}]}}\n", KEPT, KEPT, 100, 5, 0, ""},
      {"{\"timestamp\": 43, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [18446744073709551615]}\n", KEPT, KEPT, 100, 5, 0, ""},
      {"{\"timestamp\": 43, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [18446744073709551616]}\n", REFUSED, MALFORMED, 0, 0, 73, "too large"},
      {"{\"timestamp\": 44, \"text_input\": \"hello\", \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 0, "without input_length"},
      {"{\"timestamp\": 45, \"input_length\": 10\n", REFUSED, MALFORMED, 0, 0, 37, "ends too early"},
      {"{\"input_length\": 10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 0, "without timestamp"},
      {"{\"timestamp\": 45, \"input_length\": -10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 35, "is negative"},
      {"{\"timestamp\": 45, \"input_length\": 10, \"input_tokens\": 10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 55, "appears twice"},
      {"{\"timestamp\": 45, \"input_length\": 10.5, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 35, "not a whole number"},
      {"{\"timestamp\": \"x\", \"input_length\": 10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 15, "not a number"},
      {"[1]\n", REFUSED, MALFORMED, 0, 0, 1, "not a JSON object"},
  };
  judge_lines("", "{\"timestamp\": 0, \"input_length\": 655, \"output_length\": 52, \"hash_ids\": [0, 1]}\n", lines, DS_ARRAY_LEN(lines));
  /* A delay without an arrival, where recorded arrivals are asked for. */
  ds_workload w = workload();
  w.open_loop = true;
  read_text(&w, "{\"session_id\": \"s1\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": 40}\n"
                "{\"session_id\": \"s1\", \"delay\": 2000, \"input_length\": 450, \"output_length\": 20}\n");
  cr_assert(!o.good && strstr(o.d.expected, "closed-loop") != NULL && o.d.line == 2);
}

Test(readers, dirty_burstgpt_lines) {
  static const dirty_line lines[] = {
      {"45,ChatGPT,1087,230,1317,Conversation log\n", KEPT, KEPT, 1087, 230, 0, ""},
      {"118,GPT-4,300,0,300,API log\n", DROPPED_ZERO, DROPPED_ZERO, 0, 0, 0, ""},
      {"119,ChatGPT,0,0,0,API log\n", DROPPED_ZERO, DROPPED_ZERO, 0, 0, 0, ""},
      {"119.0,ChatGPT,12,3,16,API log\n", KEPT, KEPT, 12, 3, 0, ""}, /* the total is not looked at */
      {"119.0,ChatGPT,1e3,91.0,16,API log\n", KEPT, KEPT, 1000, 91, 0, ""},
      {"119.0,ChatGPT,,3,16,API log\n", REFUSED, MALFORMED, 0, 0, 15, "Request tokens is empty"},
      {",ChatGPT,1,3,16,API log\n", REFUSED, MALFORMED, 0, 0, 1, "Timestamp is empty"},
      {"119.0,ChatGPT,1.5,3,16,API log\n", REFUSED, MALFORMED, 0, 0, 15, "not a whole number"},
      {"119.0,ChatGPT,1,3\n", REFUSED, MALFORMED, 0, 0, 17, "a row of 4 cells"},
      {"119.0,ChatGPT,1,3,4,x,y\n", REFUSED, MALFORMED, 0, 0, 23, "a row of 7 cells"},
      {"119.0,Cha\"tGPT,1,3,4,x\n", REFUSED, MALFORMED, 0, 0, 10, "a stray quote"},
      {"119.0,\"ChatGPT\"x,1,3,4,x\n", REFUSED, MALFORMED, 0, 0, 16, "a stray quote"},
      {"119.0,\"ChatGPT,1,3,4,x\n", REFUSED, MALFORMED, 0, 0, 7, "does not end"},
      {"119.0,ChatGPT,9007199254740993,3,4,x\n", REFUSED, MALFORMED, 0, 0, 15, "too large"},
  };
  judge_lines("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n", "5,ChatGPT,472,18,490,Conversation log\n", lines, DS_ARRAY_LEN(lines));
}

Test(readers, what_is_no_trace_is_named) {
  static const struct {
    const char *text, *found, *expected;
  } bad[] = {
      {"{\"timestamp\": \"2026-04-23T17:23:06.245972+00:00\", \"status\": \"success\", \"prompt_tokens\": 8, \"completion_tokens\": 1}\n",
       "log of completion times", "startTime"},
      {"{\"timestamp\": 0, \"input_length\": 2358, \"output_length\": 52, \"hash_ids\": [0, 1, 2]}\n", "3 block ids for 2358 input tokens",
       "blocks of 1024 tokens would fit"},
      {"0,1.5,1.1,Gamma,0.8,0.9\n", "ServeGen", "list formats"},
      {"{\"id\": \"x\", \"conversations\": []}\n", "ShareGPT", "list formats"},
      {"{\"duration\": 3, \"ttfts\": [], \"request_throughput\": 3}\n", "without its requests", "--save-detailed"},
      {"{\"request_rate\": 4.0, \"input_lens\": [1], \"output_lens\": [2], \"ttfts\": [0.5]}\n", "no start_times", "newer file"},
      {"{\"input_lens\": [1, 2], \"output_lens\": [2], \"start_times\": [0.5, 1]}\n", "output_lens has 1 entries", "one for each"},
      {"trace_version: 2\ntime_unit: microseconds\n", "without its rows", "CSV"},
      {"trace_version: 2\ntime_unit: seconds\nrequest_id,arrival_time_us\n", "not in microseconds", "microseconds"},
      {"{\"id\":\"w\",\"hash_id_scope\":\"local\"}\n", "without requests", "requests"},
      {"{\"chat_id\": 1, \"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n{\"chat_id\": 1, \"timestamp\": 0, "
       "\"input_length\": 1, \"output_length\": 1}\n",
       "chat_id 1 appears a second time", "of its own"},
  };
  ds_workload w = workload();
  for (size_t i = 0; i < DS_ARRAY_LEN(bad); i++) {
    read_text(&w, bad[i].text);
    cr_assert(!o.good && o.d.exit == DS_EXIT_INPUT, "case %zu was read", i);
    cr_assert(strstr(o.d.text, bad[i].found) != NULL, "case %zu: %s", i, o.d.text);
    cr_assert(strstr(o.d.expected, bad[i].expected) != NULL, "case %zu: %s", i, o.d.expected);
  }
}

/* ---- repairs ---- */

Test(readers, block_tail_and_size_are_options) {
  ds_workload w = workload();
  static const char floor_text[] = "{\"timestamp\":0,\"input_length\":40,\"output_length\":1,\"hash_ids\":[5,6]}\n";
  read_text(&w, floor_text);
  cr_assert(!o.good && strstr(o.d.expected, "blocks of 16") != NULL);
  w.block_tokens = 16;
  must_read(&w, floor_text, "mooncake", 1);
  cr_assert(!o.more[0].tail && o.more[0].block_tokens == 16);
  w.block_tail = 'c';
  read_text(&w, floor_text);
  cr_assert_not(o.good);
  w.block_tail = 'f';
  must_read(&w, floor_text, "mooncake", 1);
}

Test(readers, where_block_ids_mean_something_is_an_option) {
  static const char text[] = "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":512,\"output_length\":1,\"hash_ids\":[5]}\n"
                             "{\"session_id\":\"b\",\"timestamp\":1,\"input_length\":512,\"output_length\":1,\"hash_ids\":[5]}\n";
  ds_workload w = workload();
  must_read(&w, text, "mooncake", 2);
  cr_assert(o.more[0].scope == 0 && o.more[1].scope == 0);
  w.hash_scope = 's';
  must_read(&w, text, "mooncake", 2);
  cr_assert(o.more[0].scope != 0 && o.more[0].scope != o.more[1].scope);
  w = workload();
  w.hash_scope = 'g';
  must_read(&w, weka, "weka", 3);
  cr_assert(o.more[0].scope == 0 && o.report.dropped_zero == 1);
  w.hash_scope = 0;
  w.block_tokens = 16;
  read_text(&w, "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n");
  cr_assert(!o.good && strstr(o.d.text, "block_tokens does not apply") != NULL);
  /* No ids at all: nothing is known of a short prompt; of a long one ids are missing. */
  w = workload();
  must_read(&w, "{\"timestamp\":0,\"input_length\":100,\"output_length\":1,\"hash_ids\":[]}\n", "mooncake", 1);
  read_text(&w, "{\"timestamp\":0,\"input_length\":1000,\"output_length\":1,\"hash_ids\":[]}\n");
  cr_assert(!o.good && strstr(o.d.text, "0 block ids for 1000") != NULL);
}

Test(readers, incremental_sessions_add_up) {
  ds_workload w = workload();
  static const char text[] =
      "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":1024,\"output_length\":10,\"hash_ids\":[1,2]}\n"
      "{\"session_id\":\"b\",\"timestamp\":1,\"input_length\":100,\"output_length\":1}\n"
      "{\"session_id\":\"a\",\"timestamp\":2,\"input_length\":512,\"output_length\":20,\"hash_ids\":[3]}\n"
      "{\"session_id\":\"a\",\"timestamp\":3,\"input_length\":7,\"output_length\":5,\"hash_ids\":[4]}\n";
  must_read(&w, text, "mooncake", 4);
  is(3, 3 * MS, 7, 5);
  cr_assert_eq(o.report.looks_incremental, 2);
  w.session_input = 'd';
  must_read(&w, text, "mooncake", 4);
  is(2, 2 * MS, 1024 + 10 + 512, 20);
  is(3, 3 * MS, 1024 + 10 + 512 + 20 + 7, 5);
  cr_assert(o.blocks[2] == 3 && o.blocks[3] == 4 && o.first_block[3] == 1 && o.report.accumulated == 2);
}

Test(readers, quantised_arrivals_are_spread) {
  char text[60000];
  size_t used = 0;
  for (int tick = 0; tick < 60; tick++)
    for (int k = 0; k < 10; k++)
      used += (size_t)sprintf(text + used, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":1}\n", tick * 3000 + (tick % 3), tick * 10 + k + 1);
  ds_workload w = workload();
  w.dequantize_ns = 3 * S;
  must_read(&w, text, "mooncake", 600);
  double sum = 0;
  for (size_t i = 0; i < 600; i++) {
    cr_assert_eq(o.r[i].input_tokens, i + 1, "in order");
    if (i > 0) cr_assert_geq(o.r[i].arrival_ns, o.r[i - 1].arrival_ns);
    int64_t tick = (int64_t)(i / 10), at = (tick * 3000 + tick % 3) * MS;
    sum += (double)(o.r[i].arrival_ns - at);
    cr_assert(o.r[i].arrival_ns >= at && o.r[i].arrival_ns < at + 3003 * MS);
  }
  /* Uniform in 3 s: the mean of 600 draws is 1.5 s with a standard error of 0.035 s; six of them. */
  cr_assert_lt(fabs(sum / 600 / 1e9 - 1.5), 0.22);
  cr_assert_eq(o.report.spread, 600);
  int64_t first = o.r[17].arrival_ns;
  must_read(&w, text, "mooncake", 600);
  cr_assert_eq(o.r[17].arrival_ns, first, "the same seed, the same times");
}

Test(readers, windows_keep_sessions_whole_and_thinning_takes_them_whole) {
  char text[60000];
  size_t used = 0;
  for (int k = 0; k < 400; k++)
    used += (size_t)sprintf(text + used, "{\"session_id\":\"s%d\",\"timestamp\":%d,\"input_length\":%d,\"output_length\":1}\n", k % 100, k * 100, k + 1);
  ds_workload w = workload();
  w.window_from_ns = 5 * S;
  w.window_to_ns = 10 * S;
  must_read(&w, text, "mooncake", 50);
  w.whole_sessions = true;
  must_read(&w, text, "mooncake", 200); /* sessions 50 to 99, four turns each */
  cr_assert_eq(o.report.outside_window, 200);
  is(199, 34900 * MS, 400, 1);
  w = workload();
  w.share = 0.3;
  read_text(&w, text);
  cr_assert(o.good && o.n % 4 == 0 && o.report.thinned == 400 - o.n, "%zu kept", o.n);
  /* 100 sessions at 0.3: 30 with a standard deviation of 4.6; five of them. */
  cr_assert(o.n / 4 >= 7 && o.n / 4 <= 53);
  w = workload();
  w.drop_duplicates = true;
  must_read(&w, "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n0,1,2\n0,1,3\n1,1,2\n", "vidur", 3);
  cr_assert_eq(o.report.dropped_duplicate, 1);
}

Test(readers, closed_loops_survive_what_is_left_out) {
  ds_workload w = workload();
  w.closed_loop = true;
  w.zero = DS_REPAIR_DROP;
  w.zero_given = true;
  must_read(&w,
            "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":9,\"output_length\":1}\n"
            "{\"session_id\":\"a\",\"timestamp\":10,\"input_length\":0,\"output_length\":1}\n"
            "{\"session_id\":\"b\",\"timestamp\":11,\"input_length\":5,\"output_length\":1}\n"
            "{\"session_id\":\"a\",\"timestamp\":30,\"input_length\":7,\"output_length\":1}\n",
            "mooncake", 3);
  is(1, 0, 7, 1);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 30 * MS && o.r[2].after == 0);
  cr_assert_str_eq(o.account, "4 rows read = 3 kept + 1 zero tokens; 1 pause for the recorded gap between arrivals");
}
