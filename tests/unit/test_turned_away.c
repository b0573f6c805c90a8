// SPDX-License-Identifier: GPL-3.0-or-later
/* Servers that turn requests away, worked by hand. An iteration takes 10 ms, 0.1 ms for each prompt token and 1 ms for each
 * row that decodes; batches of one, and prompts of 10 tokens: a request of n tokens runs for 11 n ms. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "report/classes.h"
#include "report/summary.h"
#include "study/driver.h"

#define MS 1000000LL

static ds_drive drive;
static ds_scenario sc;
static ds_summary sum;

static const ds_result *run_text(const char *text) {
  ds_data_dirs dirs = {{"."}, 1};
  ds_diag d = {0};
  memset(&drive, 0, sizeof drive);
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
  ds_drive_options opt = {.sim = {.records = true}};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d), "%s", d.text);
  cr_assert(ds_summary_of(&sc.run, drive.result, &drive.arrivals, drive.oversize.n, &sum));
  return drive.result;
}

static const ds_result *run(const char *pool, const char *options, const char *workload) {
  char text[3000];
  snprintf(text, sizeof text,
           "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, slo: {e2e: 60 ms}, "
           "router: {policy: least-outstanding}, pools: [{%sscheduler: triton-dynamic, scheduler_options: {max_batch_size: 1, %s}}], "
           "workload: {%s}}",
           pool, options, workload);
  return run_text(text);
}

static void done(void) {
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
}

#define AT(ms, tokens) "{arrival: " #ms " ms, input_tokens: 10, output_tokens: " #tokens "}, "

/* The second waits from 1 to 55 ms and ends at 66, the third finds it waiting at 2, the fourth finds nobody at 60. */
Test(turned_away, at_the_door_it_is_a_failure_and_no_latency) {
  const ds_result *r = run("", "max_queue_size: 1", "requests: [" AT(0, 5) AT(1, 1) AT(2, 7) AT(60, 1) "]");
  cr_assert_eq(r->turned_away, 1);
  cr_assert_eq(r->timed_out, 0);
  cr_assert_eq(r->vain_attempts, 1);
  cr_assert_eq(r->completed, 3);
  cr_assert_eq(r->output_tokens, 7);
  cr_assert_eq(r->outputs[2], 0);
  cr_assert_eq(r->ttft_ns[2], DS_TTFT_TURNED_AWAY);
  cr_assert_eq(r->e2e_ns[2], 0); /* at once */
  cr_assert_eq(r->records[2].failed, DS_FAILED_TURNED_AWAY);
  cr_assert_eq(r->last_finish_ns, 77 * MS);
  cr_assert_eq(sum.submitted, 4);
  cr_assert_eq(sum.failed, 1);
  cr_assert_eq(sum.rejected, 1);
  cr_assert_eq(sum.turned_away, 1);
  cr_assert_eq(sum.e2el.count, 3);
  cr_assert_float_eq(sum.e2el.mean, (55 + 65 + 17) / 3.0, 1e-9);
  cr_assert_float_eq(sum.slo_attainment, 0.5, 1e-12); /* 55 and 17 are good; 65 is late, and who has no answer is not good */
  cr_assert_float_eq(sum.slo_attainment_completed, 2 / 3.0, 1e-12);
  cr_assert_float_eq(sum.request_goodput, 2 / 0.077, 1e-9);
  done();
}

/* Nobody runs, and two are waited for: at 20 ms and a nanosecond the first has waited too long, then nobody is there. */
Test(turned_away, an_idle_server_rejects_when_the_timeout_is_over) {
  const ds_result *r = run("", "preferred_batch_sizes: [1], max_queue_delay: 1 s, default_timeout: 20 ms, timeout_action: reject",
                           "requests: [" AT(0, 1) "]");
  cr_assert_eq(r->completed, 1); /* one is as many as are preferred */
  done();
  r = run_text("{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, pools: [{scheduler: "
               "triton-dynamic, scheduler_options: {max_batch_size: 2, max_queue_delay: 1 s, default_timeout: 20 ms, timeout_action: "
               "reject}}], workload: {requests: [" AT(0, 1) AT(30, 1) AT(50, 1) "]}}");
  cr_assert_eq(r->turned_away, 1);
  cr_assert_eq(r->e2e_ns[0], 20 * MS + 1);
  cr_assert_eq(r->queue_ns[0], 20 * MS + 1);
  cr_assert_eq(r->e2e_ns[1], 32 * MS); /* at 50 ms it has waited 20 and not longer: both go, 12 ms */
  cr_assert_eq(r->completed, 2);
  done();
}

/* The first runs to 55 ms. The second is too old after 31 ms: rejected at 33, where an iteration ends, or at 55. */
Test(turned_away, a_busy_server_rejects_between_iterations_or_behind_the_batch) {
  const char *requests = "requests: [" AT(0, 5) AT(1, 1) "]";
  const ds_result *r = run("", "default_timeout: 30 ms, timeout_action: reject", requests);
  cr_assert_eq(r->e2e_ns[1], 32 * MS);
  done();
  r = run("", "default_timeout: 30 ms, timeout_action: reject, reject_while_busy: false", requests);
  cr_assert_eq(r->e2e_ns[1], 54 * MS);
  cr_assert_eq(r->turned_away, 1);
  done();
}

/* Batches of one. At 22 ms both of level 1 and the first of level 2 are too old. The walk rejects those, takes the second of
 * level 2, sees in the third that there are more, and stops: the old one of level 3 waits for the next walk, at 33 ms. */
Test(turned_away, a_walk_rejects_only_whom_it_comes_upon) {
  const ds_result *r = run("", "priority_levels: 3, default_timeout: 15 ms, timeout_action: reject, reject_while_busy: false",
                           "requests: [{arrival_ns: 0, input_tokens: 10, output_tokens: 2, priority: 1}, "
                           "{arrival: 1 ms, input_tokens: 10, output_tokens: 1, priority: 1}, "
                           "{arrival: 2 ms, input_tokens: 10, output_tokens: 1, priority: 1}, "
                           "{arrival: 3 ms, input_tokens: 10, output_tokens: 1, priority: 2}, "
                           "{arrival: 4 ms, input_tokens: 10, output_tokens: 1, priority: 3}, "
                           "{arrival: 20 ms, input_tokens: 10, output_tokens: 1, priority: 2}, "
                           "{arrival: 21 ms, input_tokens: 10, output_tokens: 1, priority: 2}]");
  cr_assert_eq(r->turned_away, 4);
  cr_assert_eq(r->e2e_ns[1], 21 * MS);
  cr_assert_eq(r->e2e_ns[2], 20 * MS);
  cr_assert_eq(r->e2e_ns[3], 19 * MS);
  cr_assert_eq(r->e2e_ns[4], 29 * MS);
  cr_assert_eq(r->e2e_ns[5], 13 * MS);
  cr_assert_eq(r->e2e_ns[6], 23 * MS);
  done();
}

/* The third is refused at 2 ms and hears of it at 4; asks again at 24, refused, hears at 26; asks at 66, when nobody waits (the
 * second began at 55), and ends at 77, seen at 79. The fourth is refused three times, at 3, 25 and 67 ms. */
Test(turned_away, clients_ask_again_without_a_timeout) {
  const ds_result *r = run("", "max_queue_size: 1",
                           "client: {rtt: 2 ms, retries: 2, backoff: 20 ms, backoff_factor: 2, jitter: 0}, requests: [" AT(0, 5)
                               AT(1, 2) AT(2, 1) AT(3, 1) "]");
  cr_assert_eq(r->completed, 3);
  cr_assert_eq(r->turned_away, 1);
  cr_assert_eq(r->vain_attempts, 5);
  cr_assert_eq(r->retries, 4);
  cr_assert_eq(r->e2e_ns[2], 88 * MS);
  cr_assert_eq(r->records[2].retries, 2);
  cr_assert_eq(r->records[2].blame_ns[DS_CAUSE_RETRY], 64 * MS);
  cr_assert_eq(r->records[2].blame_ns[DS_CAUSE_QUEUE], 11 * MS);
  cr_assert_eq(r->records[2].blame_ns[DS_CAUSE_CLIENT], 2 * MS);
  cr_assert_eq(r->e2e_ns[3], 66 * MS); /* from 3 ms to 67, and the way back */
  cr_assert_eq(r->records[3].retries, 2);
  done();
}

/* Three seats, one place to wait. The third is refused at once and its seat goes on: so are all behind it, at 0 ms. */
Test(turned_away, in_a_closed_loop_the_seat_is_free_at_once) {
  const ds_result *r = run("", "max_queue_size: 1",
                           "generate: {requests: 6, arrivals: {process: closed-loop, concurrency: 3}, input_tokens: 10, output_tokens: 5}");
  cr_assert_eq(r->completed, 1);
  cr_assert_eq(r->turned_away, 5);
  done();
}

/* Each replica runs one and keeps one place. The fifth is refused by the first replica at 3 ms, so that at 4 ms both have
 * two, and the first is asked again. */
Test(turned_away, routers_do_not_count_who_was_turned_away) {
  const ds_result *r = run("replicas: 2, ", "max_queue_size: 1",
                           "requests: [" AT(0, 90) AT(0, 90) AT(1, 90) AT(2, 90) AT(3, 90) AT(4, 90) "]");
  cr_assert_eq(r->turned_away, 2);
  cr_assert_eq(r->records[4].replica, 0);
  cr_assert_eq(r->records[5].replica, 0);
  done();
}

/* Who has given up before the timeout of the server counts as given up. */
Test(turned_away, a_client_may_be_faster_than_the_server) {
  const ds_result *r = run("", "default_timeout: 30 ms, timeout_action: reject", "client: {timeout: 25 ms}, requests: [" AT(0, 2) AT(1, 9)
                               AT(2, 1) "]");
  cr_assert_eq(r->turned_away, 0);
  cr_assert_eq(r->timed_out, 2);
  done();
}

/* Two workloads of one arrival each, and one that comes too often. */
Test(turned_away, each_class_counts_its_own) {
  ds_classes c;
  const ds_result *r = run_text(
      "{scenario: 1, cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}, pools: [{scheduler: "
      "triton-dynamic, scheduler_options: {max_batch_size: 1, max_queue_size: 1}}], workloads: [{class: a, generate: {requests: 2, "
      "arrivals: {process: constant, rate: 1 /s}, input_tokens: 10, output_tokens: 9}}, {class: b, generate: {requests: 3, arrivals: "
      "{process: constant, rate: 100 /s}, input_tokens: 10, output_tokens: 9}}]}");
  cr_assert(ds_classes_of(&sc, &drive, &c));
  cr_assert_gt(r->turned_away, 0);
  cr_assert_eq(c.of[0].summary.turned_away + c.of[1].summary.turned_away, r->turned_away);
  for (size_t k = 0; k < 2; k++) {
    const ds_summary *s = &c.of[k].summary;
    cr_assert_eq(s->completed + s->rejected, s->submitted);
    cr_assert_eq(s->failed, s->rejected);
    cr_assert_eq(s->timed_out, 0);
    cr_assert_eq(s->e2el.count, s->completed);
  }
  ds_classes_free(&c);
  done();
}
