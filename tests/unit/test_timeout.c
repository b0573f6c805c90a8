// SPDX-License-Identifier: GPL-3.0-or-later
/* Clients that give up and ask again, worked by hand. An iteration takes 10 ms, 0.1 ms for each prompt token and 1 ms
 * for each row that decodes; one request runs at a time. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "report/summary.h"
#include "study/driver.h"

#define MS 1000000LL

static ds_drive drive;
static ds_scenario sc;

static const ds_result *run(const char *scheduler, const char *requests, const char *client) {
  char text[2000];
  snprintf(text, sizeof text,
           "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, pools: "
           "[{kv_blocks: 20, kv_block_tokens: 10, scheduler: %s}], workload: {requests: [%s], client: {%s}}}",
           scheduler, requests, client);
  ds_data_dirs dirs = {{"."}, 1};
  ds_diag d = {0};
  memset(&drive, 0, sizeof drive);
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
  ds_drive_options opt = {.sim = {.records = true}};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
  return drive.result;
}

static void done(void) {
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

#define ONE_SEAT "vllm-v1, scheduler_options: {max_num_seqs: 1}"

/* The first would end at 15 + 19 x 11 = 224 ms; at 100 ms it is in an iteration that ends at 103, with nine tokens. The
 * second has waited all the time. The third enters at 103: its prompt ends at 118, its last token comes at 140. */
Test(timeout, running_and_waiting_requests_leave_before_the_next_plan) {
  const ds_result *r = run(ONE_SEAT,
                           "{arrival_ns: 0, input_tokens: 50, output_tokens: 20}, {arrival_ns: 0, input_tokens: 50, "
                           "output_tokens: 3}, {arrival: 50 ms, input_tokens: 50, output_tokens: 3}",
                           "timeout: 100 ms");
  cr_assert_eq(r->completed, 1);
  cr_assert_eq(r->timed_out, 2);
  cr_assert_eq(r->vain_attempts, 2);
  cr_assert_eq(r->partial_output_tokens, 9);
  cr_assert_eq(r->output_tokens, 3);
  cr_assert_eq(r->outputs[0], 0);
  cr_assert_eq(r->outputs[1], 0);
  cr_assert_eq(r->ttft_ns[2], 68 * MS);
  cr_assert_eq(r->e2e_ns[2], 90 * MS);
  cr_assert_eq(r->last_finish_ns, 140 * MS);
  cr_assert_eq(r->e2e_ns[0], 100 * MS); /* when it was given up */
  cr_assert_eq(r->queue_ns[1], 100 * MS);
  cr_assert_eq(r->itl->count, 2); /* those between the nine tokens are no answer's */
  cr_assert_eq(r->itl->max_ns, 11 * MS);
  ds_summary s;
  cr_assert(ds_summary_of(&sc.run, r, &drive.arrivals, 0, &s));
  cr_assert_eq(s.failed, 2);
  cr_assert_eq(s.ttft.count, 1);
  cr_assert_float_eq(s.e2el.mean, 90, 1e-9);
  cr_assert_float_eq(s.slo_attainment, 1.0 / 3, 1e-12);
  done();
}

/* Alone it ends at 15 + 2 x 11 = 37 ms. */
Test(timeout, an_answer_at_the_very_end_is_in_time) {
  const char *one = "{arrival_ns: 0, input_tokens: 50, output_tokens: 3}";
  cr_assert_eq(run(ONE_SEAT, one, "timeout: 37 ms")->completed, 1);
  done();
  const ds_result *r = run(ONE_SEAT, one, "timeout: 36999999 ns");
  cr_assert_eq(r->completed, 0);
  cr_assert_eq(r->timed_out, 1);
  cr_assert_eq(r->last_finish_ns, 36999999);
  done();
}

/* The second starts at 37 and is given up at 40, seen at 52 with one token out. Asked again at 50 it ends at 89. */
Test(timeout, a_retry_is_one_request_with_one_latency) {
  const ds_result *r = run(ONE_SEAT,
                           "{arrival_ns: 0, input_tokens: 50, output_tokens: 3}, {arrival_ns: 0, input_tokens: 50, "
                           "output_tokens: 3}",
                           "timeout: 40 ms, retries: 1, backoff: 10 ms, jitter: 0");
  cr_assert_eq(r->completed, 2);
  cr_assert_eq(r->vain_attempts, 1);
  cr_assert_eq(r->retries, 1);
  cr_assert_eq(r->partial_output_tokens, 1);
  cr_assert_eq(r->e2e_ns[1], 89 * MS);
  cr_assert_eq(r->ttft_ns[1], 67 * MS);
  const int64_t *blame = r->records[1].blame_ns;
  cr_assert_eq(blame[DS_CAUSE_RETRY], 50 * MS);
  cr_assert_eq(blame[DS_CAUSE_QUEUE], 2 * MS);
  cr_assert_eq(blame[DS_CAUSE_PREFILL_OWN], 15 * MS);
  cr_assert_eq(r->records[1].retries, 1);
  done();
}

/* Pauses of 10, 20 and 25 ms after attempts of 30 ms: sent at 0, 40, 90 and 145, given up for good at 175. */
Test(timeout, pauses_grow_up_to_their_limit) {
  const ds_result *r = run(ONE_SEAT, "{arrival_ns: 0, input_tokens: 50, output_tokens: 9}",
                           "timeout: 30 ms, retries: 3, backoff: 10 ms, backoff_max: 25 ms, jitter: 0");
  cr_assert_eq(r->timed_out, 1);
  cr_assert_eq(r->vain_attempts, 4);
  cr_assert_eq(r->retries, 3);
  cr_assert_eq(r->last_finish_ns, 175 * MS);
  done();
}

Test(timeout, jitter_shortens_a_pause_and_is_drawn_by_request) {
  int64_t end[2][2];
  for (int k = 0; k < 2; k++) {
    const ds_result *r = run(ONE_SEAT,
                             "{arrival_ns: 0, input_tokens: 50, output_tokens: 9}, {arrival_ns: 0, input_tokens: 50, "
                             "output_tokens: 9}",
                             "timeout: 30 ms, retries: 1, backoff: 100 ms, jitter: 0.5");
    for (int i = 0; i < 2; i++) {
      end[k][i] = r->e2e_ns[i];
      cr_assert(end[k][i] >= 110 * MS && end[k][i] <= 160 * MS, "%lld", (long long)end[k][i]);
    }
    done();
  }
  cr_assert_eq(end[0][0], end[1][0]);
  cr_assert_neq(end[0][0], end[0][1]);
}

/* Ready at 37 ms, it is there for the client at 57 ms, who has gone at 50: in vain, and nobody drops it. */
Test(timeout, the_round_trip_counts) {
  const char *one = "{arrival_ns: 0, input_tokens: 50, output_tokens: 3}";
  const ds_result *r = run(ONE_SEAT, one, "timeout: 50 ms, rtt: 20 ms");
  cr_assert_eq(r->timed_out, 1);
  cr_assert_eq(r->partial_output_tokens, 3);
  done();
  r = run(ONE_SEAT, one, "timeout: 57 ms, rtt: 20 ms");
  cr_assert_eq(r->completed, 1);
  cr_assert_eq(r->e2e_ns[0], 57 * MS);
  done();
}

/* A batch runs from 0 to 37. The second waits, enters at 37, is given up at 40, and runs to 74 all the same; the third
 * is given up while it waits. */
Test(timeout, a_static_batch_runs_to_its_end) {
  const ds_result *r = run("static, scheduler_options: {max_batch_size: 1}",
                           "{arrival_ns: 0, input_tokens: 50, output_tokens: 3}, {arrival_ns: 0, input_tokens: 50, "
                           "output_tokens: 3}, {arrival: 1 ms, input_tokens: 50, output_tokens: 3}, {arrival: 50 ms, "
                           "input_tokens: 50, output_tokens: 1}",
                           "timeout: 40 ms");
  cr_assert_eq(r->completed, 2);
  cr_assert_eq(r->timed_out, 2);
  cr_assert_eq(r->partial_output_tokens, 3);
  cr_assert_eq(r->e2e_ns[3], 39 * MS); /* from 74 to 89 */
  done();
}

/* The same, where all tokens come at the end of the batch: no gaps, and three tokens at 37 ms and one at 89. */
Test(timeout, a_static_batch_that_answers_at_its_end_has_no_gaps) {
  const ds_result *r = run("static, scheduler_options: {max_batch_size: 1, emit: batch-end}",
                           "{arrival_ns: 0, input_tokens: 50, output_tokens: 3}, {arrival_ns: 0, input_tokens: 50, "
                           "output_tokens: 3}, {arrival: 1 ms, input_tokens: 50, output_tokens: 3}, {arrival: 50 ms, "
                           "input_tokens: 50, output_tokens: 1}",
                           "timeout: 40 ms");
  cr_assert_eq(r->completed, 2);
  cr_assert_eq(r->itl->count, 0);
  ds_summary s;
  cr_assert(ds_summary_of(&sc.run, r, &drive.arrivals, 0, &s));
  cr_assert_eq(s.max_output_tokens_per_s, 4);
  done();
}

Test(timeout, nobody_is_served_and_no_limit_is_met) {
  const ds_result *r = run(ONE_SEAT, "{arrival_ns: 0, input_tokens: 50, output_tokens: 9}", "timeout: 1 ms");
  ds_summary s;
  sc.run.slo.run[0] = (ds_slo_limit){DS_METRIC_TTFT, 99, 1000 * MS};
  sc.run.slo.n_run = 1;
  cr_assert(ds_summary_of(&sc.run, r, &drive.arrivals, 0, &s));
  cr_assert_eq(s.completed, 0);
  cr_assert_not(s.slo_met);
  cr_assert(s.busy_fraction <= 1);
  done();
}
