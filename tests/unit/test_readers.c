// SPDX-License-Identifier: GPL-3.0-or-later
/* The readers of foreign trace formats, row by row: what is kept, how it is repaired, what is
 * refused and why. Rows are made up here; their forms are those of the public files. */
#include "readers.h"

TestSuite(readers, .init = make_folder, .fini = remove_folder);

/* ---- each format, as it should be ---- */

Test(readers, mooncake_and_its_dialects) {
  ds_workload w = workload();
  must_read(
      &w,
      "{\"timestamp\": 5, \"input_length\": 655, \"output_length\": 52, \"hash_ids\": [0, 1]}\n"
      "{\"timestamp\": 5.5, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": "
      "[0,18446744073709551615]}\r\n"
      "\n"
      "{\"created_time\": 20, \"input_tokens\": 512, \"output_tokens\": 8, \"hash_ids\": [0], "
      "\"unknown\": {\"a\": "
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
  must_read(
      &w,
      "{\"session_id\": \"a\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": 40}\n"
      "{\"session_id\": \"b\", \"timestamp\": 40, \"input_length\": 310, \"output_length\": 41}\n"
      "{\"session_id\": \"a\", \"delay\": 2000, \"input_length\": 450, \"output_length\": 20}\n"
      "{\"session_id\": \"a\", \"delay_ms\": 1500, \"input_length\": 600, \"output_length\": 20, "
      "\"priority\": 5}\n",
      "mooncake", 4);
  cr_assert(o.closed);
  is(0, 0, 300, 40);
  is(1, 0, 450, 20);
  is(2, 0, 600, 20);
  is(3, 10 * MS, 310, 41);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 2 * S && o.r[2].after == 2 &&
            o.r[2].think_ns == 1500 * MS);
  cr_assert(o.r[0].after == 0 && o.r[3].after == 0);
  cr_assert_eq(o.r[2].priority, -5, "a larger number is more urgent there");
  cr_assert_str_eq(o.session[3], "b");
  /* Agentic rows: a graph of requests. */
  must_read(
      &w,
      "{\"request_id\":\"p\",\"timestamp\":100,\"input_length\":9,\"output_length\":1,\"wait_for\":"
      "[]}\n"
      "{\"request_id\":\"q\",\"input_length\":8,\"output_length\":2,\"wait_for\":[\"p\"],\"delay\":"
      "1,\"tool_wait_ms\":2.5}\n"
      "{\"request_id\":\"r\",\"input_length\":7,\"output_length\":3,\"wait_for\":[\"p\"]}\n"
      "{\"request_id\":\"s\",\"input_length\":6,\"output_length\":4,\"wait_for\":[\"q\",\"r\"]}\n",
      "mooncake", 4);
  cr_assert(o.closed && o.report.several_parents == 1 && o.report.missing_parents == 0);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 3500000 && o.r[2].after == 1 &&
            o.r[3].after == 3);
  cr_assert_str_eq(o.id[3], "s");
}

Test(readers, bailian_chains_of_chats) {
  static const char text[] =
      "{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 37, "
      "\"output_length\": 20, \"type\": "
      "\"text\", \"turn\": 1, \"hash_ids\": [1089, 1090, 1091]}\n"
      "{\"chat_id\": 161, \"parent_chat_id\": -1, \"timestamp\": 62.0, \"input_length\": 32, "
      "\"output_length\": 4, \"type\": "
      "\"thinking\", \"turn\": 1, \"hash_ids\": [3000, 3001]}\n"
      "{\"chat_id\": 162, \"parent_chat_id\": 999, \"timestamp\": 63, \"input_length\": 16, "
      "\"output_length\": 3, \"type\": "
      "\"search\", \"turn\": 4, \"hash_ids\": [5000]}\n"
      "{\"chat_id\": 160, \"parent_chat_id\": 159, \"timestamp\": 75.5, \"input_length\": 66, "
      "\"output_length\": 12, \"type\": "
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
            "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API "
            "log\n118,GPT-4,300,0,300,API log\n"
            "118,GPT-4,417,276,693,API log\n119.0,ChatGPT,0,0,0,API "
            "log\n119.5,ChatGPT,12,3.0,15,API log\n",
            "burstgpt", 4);
  is(0, 0, 472, 18);
  is(2, 113 * S, 417, 276);
  is(3, 114500 * MS, 12, 3);
  cr_assert_eq(o.report.dropped_zero, 2, "zero is normal here");
  must_read(&w,
            "\xef\xbb\xbfTimestamp,Session ID,Elapsed time,Model,Request tokens,Response "
            "tokens,Total tokens,Log Type\r\n"
            "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\r\n"
            "19440161.0,,2,ChatGPT,36,29,65,API "
            "log\r\n\"19440161.0\",\"x,\"\"y\"\"\",,ChatGPT,7,8,15,\"a\nb\"",
            "burstgpt", 3);
  is(1, 51 * S, 36, 29);
  cr_assert(o.more[0].e2e_ns == 43 * S && o.more[1].e2e_ns == 2 * S && o.more[2].e2e_ns == -1);
  cr_assert_str_eq(o.session[0], "1722ac82-0a46");
  cr_assert_str_eq(o.session[1], "");
  cr_assert_str_eq(o.session[2], "x,\"y\"");
}

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
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 2500 * MS,
            "the agent starts 2.5 s after its parent's call");
  cr_assert(o.r[2].after == 2 && o.r[2].think_ns == 1750 * MS);
  cr_assert(o.r[3].after == 3 && o.r[3].think_ns == 11 * S,
            "the parent went on 11 s after the agent was over");
  cr_assert_str_eq(o.session[1], "w:x");
  cr_assert(o.more[0].ttft_ns == 500 * MS && o.more[0].e2e_ns == 2500 * MS && !o.more[0].tail);
  cr_assert(o.more[0].scope != 0 && o.more[0].scope == o.more[1].scope,
            "ids mean something within the file");
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
  used = (size_t)sprintf(text,
                         "{\"timestamp\":0,\"input_length\":%zu,\"output_length\":3,\"hash_ids\":[",
                         n_ids * 512);
  for (size_t i = 0; i < n_ids; i++)
    used += (size_t)sprintf(text + used, i > 0 ? ",%zu" : "%zu", i);
  used += (size_t)sprintf(text + used,
                          "]}\n{\"timestamp\":1,\"input_length\":5,\"output_length\":3}\n");
  cr_assert_gt(used, 4000000u);
  write_file("t", text, used);
  free(text);
  ds_workload w = workload();
  read_with(&w, 7);
  cr_assert(o.good && o.n == 2 && o.blocks[0] == n_ids, "%s", o.d.text);
  cr_assert_eq(o.r[0].n_spans, 1u, "ids that count up are one span");
}

Test(readers, a_csv_line_of_four_megabytes) {
  static const char head[] = "when,in,out,note\n0,5,6,\"";
  size_t n = 4u << 20;
  char *text = malloc(n + 100);
  memcpy(text, head, sizeof head - 1);
  memset(text + sizeof head - 1, 'x', n);
  size_t used = sizeof head - 1 + n;
  used += (size_t)sprintf(text + used, "\"\n1,7,8,y\n");
  write_file("t", text, used);
  free(text);
  ds_workload w = workload();
  strcpy(w.format, "map");
  static const ds_map_entry map[] = {
      {DS_FIELD_ARRIVAL, S, "when"}, {DS_FIELD_INPUT, 0, "in"}, {DS_FIELD_OUTPUT, 0, "out"}};
  memcpy(w.map, map, sizeof map);
  w.n_map = 3;
  read_with(&w, 7);
  cr_assert(o.good && o.n == 2, "%s", o.d.text);
  is(1, S, 7, 8);
}

Test(readers, other_formats) {
  ds_workload w = workload();
  must_read(&w,
            "{\"input_toks\": 50, \"output_toks\": 6, \"arrival_time_ns\": 2000000000, "
            "\"input_tok_ids\": "
            "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}\n"
            "{\"session_id\": \"g\", \"arrival_time_ns\": 1000000000, \"sub_requests\": "
            "[{\"input_toks\": 5, \"output_toks\": "
            "6, \"tool_duration_ns\": 300}, {\"input_toks\": 7, \"output_toks\": 8}]}\n",
            "llmservingsim", 3);
  cr_assert(o.closed && o.report.out_of_order > 0);
  is(0, 0, 5, 6);
  cr_assert(o.r[1].after == 1 && o.r[1].think_ns == 300 && o.blocks[2] == 1);
  is(2, S, 50, 6);
  must_read(&w, "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374.0,44\n4.314579,396,109",
            "vidur", 2);
  is(1, 4314579000, 396, 109);
  must_read(
      &w,
      "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n9,8,17,1\n",
      "vidur", 2);
  is(1, 0, 9, 8);
  must_read(
      &w,
      "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
      "7,2,0,1.5,1,100,20\n8,2,0,2.25,1,101,21\n",
      "splitwise", 2);
  is(1, 750 * MS, 101, 21);
  cr_assert_str_eq(o.id[1], "8");
  static const char tracev2[] =
      "request_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,input_"
      "tokens,output_tokens,"
      "arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status,error_message,"
      "think_time_us\n"
      "a,t,chat,s,0,sys,64,100,10,5,6,106,1006,ok,,0\nb,t,chat,s,1,,0,20,5,1000005,0,0,0,ok,,250\n"
      "c,t,chat,,0,,0,20,0,1000006,0,0,0,error,\"x, \"\"y\"\"\",0\n";
  must_read(&w, tracev2, "tracev2", 2);
  is(1, S, 20, 5);
  cr_assert(o.report.dropped_failed == 1 && o.more[0].ttft_ns == 100000 &&
            o.more[0].e2e_ns == 1000000);
  cr_assert(o.more[0].prefix_tokens == 64 && o.r[0].n_spans == 1 && o.more[1].think_ns == 250000);
  char headed[2000];
  snprintf(
      headed, sizeof headed,
      "trace_version: 2\ntime_unit: \"microseconds\"\nsession_context_growth: \"accumulate\"\n%s",
      tracev2);
  must_read(&w, headed, "tracev2", 2);
  is(1, S, 130, 5); /* 100 + 10 + 20 */
  cr_assert_eq(o.report.accumulated, 1);
  must_read(&w,
            "{\"duration\": 3, \"request_rate\": \"inf\",\n \"input_lens\": [5, 6, 7], "
            "\"output_lens\": [1, 0, 3], \"ttfts\": [0.1, 0, "
            "0.3],\n \"errors\": [\"\", \"x\", \"\"], \"start_times\": [10.5, 10.25, 11.0]}",
            "bench", 2);
  is(0, 0, 5, 1); /* the failed one was the earliest: it is not there any more */
  is(1, 500 * MS, 7, 3);
  cr_assert(o.more[1].ttft_ns == 300 * MS && o.report.dropped_failed == 1);
  must_read(&w,
            "{\"id\":\"a\",\"startTime\":1700000000.5,\"endTime\":1700000003.5,"
            "\"completionStartTime\":1700000001.0,\"status\":"
            "\"success\",\"prompt_tokens\":9,\"completion_tokens\":8,\"cache_hit\":null}\n"
            "{\"id\":\"b\",\"startTime\":\"2023-11-14T22:13:19.500000+00:00\",\"status\":"
            "\"success\",\"prompt_tokens\":7,"
            "\"completion_tokens\":6}\n"
            "{\"id\":\"c\",\"startTime\":1700000009,\"status\":\"failure\",\"prompt_tokens\":7,"
            "\"completion_tokens\":0}\n"
            "{\"id\":\"d\",\"startTime\":1700000009,\"status\":\"success\",\"prompt_tokens\":7,"
            "\"completion_tokens\":5,"
            "\"cache_hit\":\"True\"}\n",
            "litellm", 2);
  is(0, 0, 7, 6);
  is(1, S, 9, 8);
  cr_assert(o.more[1].e2e_ns == 3 * S && o.more[1].ttft_ns == 500 * MS);
  cr_assert(o.report.dropped_failed == 1 && o.report.dropped_cached == 1 &&
            o.report.out_of_order == 1);
  must_read(&w,
            "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[\n{\"spanId\":\"01\",\"name\":\"chat "
            "m\",\"startTimeUnixNano\":"
            "\"1700000000000000005\",\"endTimeUnixNano\":\"1700000001000000005\",\"attributes\":[{"
            "\"key\":"
            "\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"12\"}},{\"key\":\"gen_ai."
            "usage.output_tokens\",\"value\":{"
            "\"intValue\":\"34\"}},{\"key\":\"gen_ai.conversation.id\",\"value\":{\"stringValue\":"
            "\"k\"}}]},\n"
            "{\"name\":\"invoke_agent\",\"startTimeUnixNano\":\"1\",\"attributes\":[{\"key\":\"gen_"
            "ai.operation.name\",\"value\":{"
            "\"stringValue\":\"invoke_agent\"}},{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{"
            "\"intValue\":\"99\"}}]}]}]}]}\n",
            "otel", 1);
  is(0, 0, 12, 34);
  cr_assert(o.more[0].e2e_ns == S && strcmp(o.session[0], "k") == 0);
  must_read(&w,
            "{\"spans\":[{\"span_id\":\"1\",\"session_id\":\"q\",\"name\":\"chat "
            "m\",\"start_time\":\"2025-01-01T00:00:01\",\"status\":"
            "{\"code\":1},\"attributes\":{\"gen_ai.usage.prompt_tokens\":5,\"gen_ai.usage."
            "completion_tokens\":6}}]}\n",
            "otel", 1);
  is(0, 0, 5, 6);
  must_read(&w,
            "{\"event\":{\"schema\":\"dynamo.request.trace.v1\",\"event_type\":\"request_end\","
            "\"request\":{\"request_id\":\"r\","
            "\"input_tokens\":65,\"output_tokens\":2,\"request_received_ms\":1700000000000,\"ttft_"
            "ms\":1.5,\"replay\":{"
            "\"trace_block_size\":64,\"input_sequence_hashes\":[18446744073709551615,"
            "18446744073709551614]}}}}\n"
            "{\"schema\":\"dynamo.request.trace.v1\",\"event_type\":\"tool_end\"}\n",
            "dynamo", 1);
  cr_assert(o.blocks[0] == 2 && o.first_block[0] == UINT64_MAX && o.more[0].ttft_ns == 1500000);
  must_read(&w, "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,2,30,4\n",
            "azure", 1);
}

Test(readers, ragpulse_with_and_without_lengths) {
  static const char text[] =
      "{\"timestamp\": \"82\", \"input_length\": 40, \"output_length\": 5, \"hash_ids\": "
      "{\"sys_prompt\": [1], \"passages_ids\": [2], "
      "\"history\": [], \"web_search\": [], \"user_input\": [3]}, \"session_id\": \"a\"}\n"
      "{\"timestamp\": \"90\", \"input_length\": 50, \"output_length\": 6, \"hash_ids\": "
      "{\"sys_prompt\": [1], \"passages_ids\": [4], "
      "\"history\": [], \"web_search\": [], \"user_input\": [3]}, \"session_id\": \"a\"}\n"
      "{\"timestamp\": \"0\", \"input_length\": 40, \"output_length\": 5, \"hash_ids\": "
      "{\"sys_prompt\": [1]}}\n\n";
  ds_workload w = workload();
  must_read(&w, text, "ragpulse", 3);
  cr_assert(o.report.out_of_order == 1 && o.blocks[0] == 0);
  is(2, 90 * S, 50, 6);
  write_file("1_sys_prompt.jsonl", "{\"sys_prompt_id\": 1, \"token_length\": 20}\n", 41);
  static const char passages[] =
      "{\"passage_id\": 2, \"token_length\": 14}\n{\"passage_id\": 4, \"token_length\": 20}\n";
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
  static const ds_map_entry map[] = {{DS_FIELD_ARRIVAL, MS, "t"},
                                     {DS_FIELD_INPUT, 0, "use.in"},
                                     {DS_FIELD_OUTPUT, 0, "use.out"},
                                     {DS_FIELD_SESSION, 0, "who"},
                                     {DS_FIELD_STATUS, 0, "st"}};
  memcpy(w.map, map, sizeof map);
  w.n_map = 5;
  must_read(
      &w,
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

Test(readers, servegen_clients_are_drawn_from) {
  static const char csv[] =
      "0,0,0,,0,0\n600,2.0,1.5,Gamma,0.44,0.9\n1200,1.0,1.2,Weibull,0.8,0.7\n1800,0,0,,0,0\n";
  static const char json[] = "{\n  \"0\": {\"input_tokens\": \"{100: 0.25, 200: 0.75}\", "
                             "\"output_tokens\": \"{7: 1.0}\"},\n"
                             "  \"1200\": {\"input_tokens\": \"{50: 1e0}\", \"output_tokens\": "
                             "\"{9: 0.5, 11: 0.5}\"}, \"1800\": {}\n}\n";
  write_file("c-trace.csv", csv, sizeof csv - 1);
  write_file("c-dataset.json", json, sizeof json - 1);
  ds_workload w = workload();
  snprintf(w.path, sizeof w.path, "%s/c-trace.csv", folder);
  read_with(&w, 64);
  cr_assert(o.good && strcmp(o.format, "servegen") == 0, "%s", o.d.text);
  cr_assert_eq(o.n, 1800, "rate x 600 s: 1200 and 600");
  size_t small = 0, first = 0;
  for (size_t i = 0; i < o.n; i++) {
    bool in_first = o.r[i].arrival_ns < 1200 * S;
    first += in_first;
    small += in_first && o.r[i].input_tokens == 100;
    cr_assert(in_first ? o.r[i].output_tokens == 7 : o.r[i].input_tokens == 50);
    cr_assert(o.r[i].arrival_ns >= 600 * S && o.r[i].arrival_ns < 1800 * S);
  }
  cr_assert_eq(first, 1200);
  /* 1200 draws at 0.25: 300 with a standard deviation of 15; five of them. */
  cr_assert(small > 225 && small < 375, "%zu", small);
}
