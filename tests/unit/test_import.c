// SPDX-License-Identifier: GPL-3.0-or-later
/* What an import makes of rows that are not simply good, under the defaults and leniently, and what
 * its options do. */
#include "readers.h"

TestSuite(import, .init = make_folder, .fini = remove_folder);

static ds_workload lenient(void) {
  ds_workload w = workload();
  w.zero = DS_REPAIR_DROP;
  w.unsorted = DS_REPAIR_SORT;
  w.zero_given = w.unsorted_given = w.drop_malformed = true;
  return w;
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
  if (!o.good)
    return o.report.rows_read == 0 && strstr(o.d.text, "no request") != NULL ? NOT_A_ROW : REFUSED;
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
        cr_assert(strstr(o.d.text, line[i].reason) != NULL, "%s: \"%s\" lacks \"%s\": %s", how,
                  o.d.text, line[i].reason, line[i].text);
        cr_assert(o.d.column == line[i].column, "%s: column %lld (%s): %s", how,
                  (long long)o.d.column, o.d.text, line[i].text);
        continue;
      }
      cr_assert(o.good, "%s: %s: %s", how, o.d.text, line[i].text);
      cr_assert_eq(fate_of(), KEPT);
      uint64_t zero = want == DROPPED_ZERO, failed = want == DROPPED_FAILED,
               cached = want == DROPPED_CACHED;
      bool malformed = soft && line[i].by_default == REFUSED && want == NOT_A_ROW;
      cr_assert_eq(o.n, want == KEPT ? 2u : 1u, "%s: %zu kept (%s): %s", how, o.n, o.account,
                   line[i].text);
      cr_assert(o.report.dropped_zero == zero && o.report.dropped_failed == failed &&
                    o.report.dropped_cached == cached &&
                    o.report.dropped_malformed == (malformed ? 1u : 0u),
                "%s: %s: %s", how, o.account, line[i].text);
      const ds_trace_report *p = &o.report;
      cr_assert_eq(p->rows_read, p->kept + p->dropped_zero + p->dropped_failed + p->dropped_cached +
                                     p->dropped_malformed);
      if (want == KEPT) {
        size_t k = o.r[0].input_tokens == line[i].in && o.r[0].output_tokens == line[i].out ? 0 : 1;
        cr_assert(o.r[k].input_tokens == line[i].in && o.r[k].output_tokens == line[i].out, "%s",
                  line[i].text);
      }
    }
  }
}
#define MALFORMED NOT_A_ROW /* lenient: counted as unreadable and left */

Test(import, dirty_azure_lines) {
  static const dirty_line lines[] = {
      {"2023-11-16 18:15:46.6805900,374,44\r\n", KEPT, KEPT, 374, 44, 0, ""},
      {"2023-11-16 18:15:45.0000001,396,109\r\n", REFUSED, KEPT, 396, 109, 1,
       "earlier than in a row before"},
      {"\"2023-11-16 18:15:50.9951690\",\"879\",\"55\"\r\n", KEPT, KEPT, 879, 55, 0, ""},
      {"2024-05-10 00:00:00.009930+00:00,2162,5\r\n", KEPT, KEPT, 2162, 5, 0, ""},
      {"2024-05-10 00:00:01+00:00,10,0\r\n", REFUSED, DROPPED_ZERO, 0, 0, 30,
       "GeneratedTokens is 0"},
      {"2024-05-10T00:00:02Z,91.0,16\r\n", REFUSED, MALFORMED, 0, 0, 22, "not a whole number"},
      {"2024-05-10 00:00:03.5,0,7\r\n", REFUSED, DROPPED_ZERO, 0, 0, 23, "ContextTokens is 0"},
      {"\r\n", NOT_A_ROW, NOT_A_ROW, 0, 0, 0, ""},
      {"2024-05-10 00:00:04.1,abc,9\r\n", REFUSED, MALFORMED, 0, 0, 23, "not a number"},
      {"2024-05-10 00:00:05.1,100\r\n", REFUSED, MALFORMED, 0, 0, 23, "a row of 2 cells"},
      {"2024-05-10 00:00:06.1,4294967296,12\r\n", REFUSED, MALFORMED, 0, 0, 23, "too large"},
      {"2024-05-10 00:00:07.1,-5,12\r\n", REFUSED, MALFORMED, 0, 0, 23, "negative"},
      {"2024-05-10 00:00:08.1,100,20", KEPT, KEPT, 100, 20, 0, ""},
  };
  judge_lines("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n",
              "2023-11-16 18:15:46.6805900,1,1\r\n", lines, DS_ARRAY_LEN(lines));
}

Test(import, dirty_mooncake_lines) {
  static const dirty_line lines[] = {
      {"{\"timestamp\": 0.5, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [0, 1]}\n",
       KEPT, KEPT, 1024, 1, 0, ""},
      {"\n", NOT_A_ROW, NOT_A_ROW, 0, 0, 0, ""},
      {"{\"created_time\": 20, \"input_tokens\": 512, \"output_tokens\": 8, \"hash_ids\": [0]}\n",
       KEPT, KEPT, 512, 8, 0, ""},
      {"{\"timestamp\": 10, \"input_length\": 5000, \"output_length\": 8, \"hash_ids\": [0, 2]}\n",
       REFUSED, MALFORMED, 0, 0, 73, "2 block ids for 5000 input tokens"},
      {"{\"session_id\": \"s1\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": "
       "40}\n",
       KEPT, KEPT, 300, 40, 0, ""},
      {"{\"timestamp\": 40, \"input_length\": 0, \"output_length\": 8, \"hash_ids\": []}\n",
       REFUSED, DROPPED_ZERO, 0, 0, 35, "input_length is 0"},
      {"{\"timestamp\": 41, \"input_length\": 100, \"output_length\": 0, \"hash_ids\": [9]}\n",
       REFUSED, DROPPED_ZERO, 0, 0, 57, "output_length is 0"},
      {"{\"timestamp\": 42, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [9], "
       "\"unknown_key\": {\"a\": [1, 2, {\"b\": \"c\\\"]}\"}]}}\n",
       KEPT, KEPT, 100, 5, 0, ""},
      {"{\"timestamp\": 43, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": "
       "[18446744073709551615]}\n",
       KEPT, KEPT, 100, 5, 0, ""},
      {"{\"timestamp\": 43, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": "
       "[18446744073709551616]}\n",
       REFUSED, MALFORMED, 0, 0, 73, "too large"},
      {"{\"timestamp\": 44, \"text_input\": \"hello\", \"output_length\": 5}\n", REFUSED, MALFORMED,
       0, 0, 0, "without input_length"},
      {"{\"timestamp\": 45, \"input_length\": 10\n", REFUSED, MALFORMED, 0, 0, 37,
       "ends too early"},
      {"{\"input_length\": 10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0, 0, 0,
       "without timestamp"},
      {"{\"timestamp\": 45, \"input_length\": -10, \"output_length\": 5}\n", REFUSED, MALFORMED, 0,
       0, 35, "is negative"},
      {"{\"timestamp\": 45, \"input_length\": 10, \"input_tokens\": 10, \"output_length\": 5}\n",
       REFUSED, MALFORMED, 0, 0, 55, "appears twice"},
      {"{\"timestamp\": 45, \"input_length\": 10.5, \"output_length\": 5}\n", REFUSED, MALFORMED, 0,
       0, 35, "not a whole number"},
      {"{\"timestamp\": \"x\", \"input_length\": 10, \"output_length\": 5}\n", REFUSED, MALFORMED,
       0, 0, 15, "not a number"},
      {"[1]\n", REFUSED, MALFORMED, 0, 0, 1, "not a JSON object"},
  };
  judge_lines(
      "",
      "{\"timestamp\": 0, \"input_length\": 655, \"output_length\": 52, \"hash_ids\": [0, 1]}\n",
      lines, DS_ARRAY_LEN(lines));
  /* A delay without an arrival, where recorded arrivals are asked for. */
  ds_workload w = workload();
  w.open_loop = true;
  read_text(
      &w,
      "{\"session_id\": \"s1\", \"timestamp\": 30, \"input_length\": 300, \"output_length\": 40}\n"
      "{\"session_id\": \"s1\", \"delay\": 2000, \"input_length\": 450, \"output_length\": 20}\n");
  cr_assert(!o.good && strstr(o.d.expected, "closed-loop") != NULL && o.d.line == 2);
}

Test(import, dirty_burstgpt_lines) {
  static const dirty_line lines[] = {
      {"45,ChatGPT,1087,230,1317,Conversation log\n", KEPT, KEPT, 1087, 230, 0, ""},
      {"118,GPT-4,300,0,300,API log\n", DROPPED_ZERO, DROPPED_ZERO, 0, 0, 0, ""},
      {"119,ChatGPT,0,0,0,API log\n", DROPPED_ZERO, DROPPED_ZERO, 0, 0, 0, ""},
      {"119.0,ChatGPT,12,3,16,API log\n", KEPT, KEPT, 12, 3, 0,
       ""}, /* the total is not looked at */
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
  judge_lines("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
              "5,ChatGPT,472,18,490,Conversation log\n", lines, DS_ARRAY_LEN(lines));
}

Test(import, what_is_no_trace_is_named) {
  static const struct {
    const char *text, *found, *expected;
  } bad[] = {
      {"{\"timestamp\": \"2026-04-23T17:23:06.245972+00:00\", \"status\": \"success\", "
       "\"prompt_tokens\": 8, \"completion_tokens\": 1}\n",
       "log of completion times", "startTime"},
      {"{\"timestamp\": 0, \"input_length\": 2358, \"output_length\": 52, \"hash_ids\": [0, 1, "
       "2]}\n",
       "3 block ids for 2358 input tokens", "blocks of 1024 tokens would fit"},
      {"0,1.5,1.1,Gamma,0.8,0.9\n", "ServeGen client whose histograms", "NAME-dataset.json"},
      {"{\"id\": \"x\", \"conversations\": []}\n", "ShareGPT", "list formats"},
      {"{\"duration\": 3, \"ttfts\": [], \"request_throughput\": 3}\n", "without its requests",
       "--save-detailed"},
      {"{\"request_rate\": 4.0, \"input_lens\": [1], \"output_lens\": [2], \"ttfts\": [0.5]}\n",
       "no start_times", "newer file"},
      {"{\"input_lens\": [1, 2], \"output_lens\": [2], \"start_times\": [0.5, 1]}\n",
       "output_lens has 1 entries", "one for each"},
      {"trace_version: 2\ntime_unit: microseconds\n", "without its rows", "CSV"},
      {"trace_version: 2\ntime_unit: seconds\nrequest_id,arrival_time_us\n", "not in microseconds",
       "microseconds"},
      {"{\"id\":\"w\",\"hash_id_scope\":\"local\"}\n", "without requests", "requests"},
      {"{\"chat_id\": 1, \"timestamp\": 0, \"input_length\": 1, \"output_length\": "
       "1}\n{\"chat_id\": 1, \"timestamp\": 0, "
       "\"input_length\": 1, \"output_length\": 1}\n",
       "chat_id 1 appears a second time", "of its own"},
      {"{\"timestamp\": 0, \"input_lenght\": 5, \"output_length\": 5}\n", "without input_length",
       "input_length in every request"},
      {"{\"timestamp\": NaN, \"input_length\": 5, \"output_length\": 5}\n", "not JSON",
       "one JSON object a line"},
      {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [\"x\"]}\n",
       "hash_ids holds \"x\", which is not a whole number", "whole numbers"},
  };
  ds_workload w = workload();
  for (size_t i = 0; i < DS_ARRAY_LEN(bad); i++) {
    read_text(&w, bad[i].text);
    cr_assert(!o.good && o.d.exit == DS_EXIT_INPUT, "case %zu was read", i);
    cr_assert(strstr(o.d.text, bad[i].found) != NULL, "case %zu: %s", i, o.d.text);
    cr_assert(strstr(o.d.expected, bad[i].expected) != NULL, "case %zu: %s", i, o.d.expected);
    const char *nan = strstr(bad[i].text, "NaN");
    if (nan != NULL) cr_assert_eq(o.d.column, nan - bad[i].text + 1);
  }
}

/* ---- repairs ---- */

Test(import, block_tail_and_size_are_options) {
  ds_workload w = workload();
  static const char floor_text[] =
      "{\"timestamp\":0,\"input_length\":40,\"output_length\":1,\"hash_ids\":[5,6]}\n";
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

Test(import, where_block_ids_mean_something_is_an_option) {
  static const char text[] = "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":512,\"output_"
                             "length\":1,\"hash_ids\":[5]}\n"
                             "{\"session_id\":\"b\",\"timestamp\":1,\"input_length\":512,\"output_"
                             "length\":1,\"hash_ids\":[5]}\n";
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
  must_read(&w, "{\"timestamp\":0,\"input_length\":100,\"output_length\":1,\"hash_ids\":[]}\n",
            "mooncake", 1);
  read_text(&w, "{\"timestamp\":0,\"input_length\":1000,\"output_length\":1,\"hash_ids\":[]}\n");
  cr_assert(!o.good && strstr(o.d.text, "0 block ids for 1000") != NULL);
}

Test(import, incremental_sessions_add_up) {
  ds_workload w = workload();
  static const char text[] =
      "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":1024,\"output_length\":10,\"hash_"
      "ids\":[1,2]}\n"
      "{\"session_id\":\"b\",\"timestamp\":1,\"input_length\":100,\"output_length\":1}\n"
      "{\"session_id\":\"a\",\"timestamp\":2,\"input_length\":512,\"output_length\":20,\"hash_"
      "ids\":[3]}\n"
      "{\"session_id\":\"a\",\"timestamp\":3,\"input_length\":7,\"output_length\":5,\"hash_ids\":["
      "4]}\n";
  must_read(&w, text, "mooncake", 4);
  is(3, 3 * MS, 7, 5);
  cr_assert_eq(o.report.looks_incremental, 2);
  w.session_input = 'd';
  must_read(&w, text, "mooncake", 4);
  is(2, 2 * MS, 1024 + 10 + 512, 20);
  is(3, 3 * MS, 1024 + 10 + 512 + 20 + 7, 5);
  cr_assert(o.blocks[2] == 3 && o.blocks[3] == 4 && o.first_block[3] == 1 &&
            o.report.accumulated == 2);
}

Test(import, quantised_arrivals_are_spread) {
  char text[60000];
  size_t used = 0;
  for (int tick = 0; tick < 60; tick++)
    for (int k = 0; k < 10; k++)
      used += (size_t)sprintf(text + used,
                              "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":1}\n",
                              tick * 3000 + (tick % 3), tick * 10 + k + 1);
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
  /* Uniform in 3 s: the mean of 600 draws is 1.5 s with a standard error of 0.035 s; six of them.
   */
  cr_assert_lt(fabs(sum / 600 / 1e9 - 1.5), 0.22);
  cr_assert_eq(o.report.spread, 600);
  int64_t first = o.r[17].arrival_ns;
  must_read(&w, text, "mooncake", 600);
  cr_assert_eq(o.r[17].arrival_ns, first, "the same seed, the same times");
}

Test(import, windows_keep_sessions_whole_and_thinning_takes_them_whole) {
  char text[60000];
  size_t used = 0;
  for (int k = 0; k < 400; k++)
    used += (size_t)sprintf(
        text + used,
        "{\"session_id\":\"s%d\",\"timestamp\":%d,\"input_length\":%d,\"output_length\":1}\n",
        k % 100, k * 100, k + 1);
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
  must_read(&w, "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n0,1,2\n0,1,3\n1,1,2\n",
            "vidur", 3);
  cr_assert_eq(o.report.dropped_duplicate, 1);
}

Test(import, closed_loops_survive_what_is_left_out) {
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
  cr_assert_str_eq(
      o.account,
      "4 rows read = 3 kept + 1 zero tokens; 1 pause for the recorded gap between arrivals");
}
