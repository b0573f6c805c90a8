// SPDX-License-Identifier: GPL-3.0-or-later
/* Swapping KV to host memory: what it costs by bytes and by option, whose time it is, and how it ends without room. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "io/scenario.h"

static void *plain(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque, (void)old_bytes;
  if (new_bytes > 0) return realloc(old, new_bytes);
  free(old);
  return NULL;
}
static const ds_alloc heap = {plain, NULL};

/* Two requests of 8 + 6 tokens and KV for 24: one of them is swapped out when the other needs its third block. */
static ds_scenario scenario(const char *cost, const char *pool, const char *options) {
  char text[900];
  snprintf(text, sizeof text,
           "{scenario: 1, %s, pools: [{scheduler: vllm-v0, kv_blocks: 6, kv_block_tokens: 4%s, scheduler_options: "
           "{max_num_batched_tokens: 64, preemption_mode: swap%s}}], workload: {requests: [{arrival_ns: 0, "
           "input_tokens: 8, output_tokens: 6}, {arrival_ns: 0, input_tokens: 8, output_tokens: 6}]}}",
           cost, pool, options);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "swap", ".", NULL, 0, &dirs, &sc, &d), "%s", d.text);
  return sc;
}

typedef struct outcome {
  ds_status status;
  ds_error err;
  ds_record r[2];
  uint64_t preemptions, recomputed;
} outcome;

static outcome run(const ds_scenario *sc, bool no_lease) {
  static const ds_request two[] = {{.input_tokens = 8, .output_tokens = 6, .max_tokens = 6},
                                   {.input_tokens = 8, .output_tokens = 6, .max_tokens = 6}};
  outcome o = {0};
  ds_sim *s = NULL;
  bool more = true;
  ds_sim_options opt = {.records = true, .no_lease = no_lease};
  o.status = ds_sim_new(&sc->run, sc->sched, ds_router_find("round-robin"), &opt, &heap, &s, &o.err);
  cr_assert_eq(o.status, DS_OK, "%s", o.err.text);
  cr_assert_eq(ds_sim_feed(s, two, 2, &o.err), DS_OK, "%s", o.err.text);
  ds_sim_close(s);
  while (o.status == DS_OK && more) o.status = ds_sim_step(s, 1000, &more, &o.err);
  if (o.status == DS_OK) {
    memcpy(o.r, ds_sim_result(s)->records, sizeof o.r);
    o.preemptions = ds_sim_result(s)->num_preemptions;
    o.recomputed = ds_sim_result(s)->recomputed_tokens;
  }
  ds_sim_free(s);
  return o;
}

#define LINEAR "cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}"

Test(swap, time_is_put_to_transfer_for_who_goes_on_and_to_preempted_for_who_left) {
  ds_scenario sc = scenario(LINEAR, "", ", swap_time_per_block: 0.5 ms");
  for (int no_lease = 0; no_lease < 2; no_lease++) {
    outcome o = run(&sc, no_lease);
    cr_assert_eq(o.status, DS_OK, "%s", o.err.text);
    cr_assert_eq(o.preemptions, 1);
    cr_assert_eq(o.recomputed, 0); /* its KV came back as it was */
    /* three blocks out, 1.5 ms, beside the first one's third token */
    cr_assert_eq(o.r[0].blame_ns[DS_CAUSE_TRANSFER], 1500000);
    cr_assert_eq(o.r[0].finish_ns, 69100000);
    /* from the step that swapped it out to its next token, three blocks in included */
    cr_assert_eq(o.r[1].blame_ns[DS_CAUSE_PREEMPTED], 81600000 - 23600000);
    cr_assert_eq(o.r[1].blame_ns[DS_CAUSE_TRANSFER], 0);
    cr_assert_eq(o.r[1].finish_ns, 114600000);
  }
  ds_scenario_free(&sc);
}

Test(swap, costs_nothing_with_linear_cost_unless_told) {
  ds_scenario sc = scenario(LINEAR, "", "");
  outcome o = run(&sc, false);
  cr_assert_eq(o.r[0].blame_ns[DS_CAUSE_TRANSFER], 0);
  cr_assert_eq(o.r[1].finish_ns, 111600000); /* 114.6 ms less two times 1.5 */
  ds_scenario_free(&sc);
}

Test(swap, costs_its_bytes_over_the_host_link) {
  static const int ranks[] = {1, 2};
  for (size_t i = 0; i < 2; i++) {
    char pool[100];
    snprintf(pool, sizeof pool, ", hardware: h100-sxm, tensor_parallel: %d", ranks[i]);
    ds_scenario sc = scenario("model: llama-3.1-8b, cost: roofline", pool, "");
    outcome o = run(&sc, false);
    cr_assert_eq(o.status, DS_OK, "%s", o.err.text);
    /* 3 blocks of 4 tokens: keys and values of 32 layers, 8 heads of 128, two bytes each, split over the devices */
    double bytes = 3.0 * 4 * 2 * 32 * 8 * 128 * 2 / ranks[i], seconds = bytes / sc.run.pool.hw.host_bytes_per_s;
    cr_assert_gt(seconds, 1e-6);
    cr_assert_eq(o.r[0].blame_ns[DS_CAUSE_TRANSFER], llround(seconds * 1e9));
    ds_scenario_free(&sc);
  }
}

Test(swap, without_room_on_the_host_the_run_says_who_and_ends) {
  ds_scenario sc = scenario(LINEAR, "", ", cpu_blocks: 2");
  outcome o = run(&sc, false);
  cr_assert_eq(o.status, DS_E_STUCK);
  cr_assert_eq(o.err.request, 1);
  cr_assert_str_eq(o.err.text, "request 1 must be swapped out with 3 KV blocks, but host memory has room for 2");
  ds_scenario_free(&sc);
}
