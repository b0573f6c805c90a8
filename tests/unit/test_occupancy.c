// SPDX-License-Identifier: GPL-3.0-or-later
/* KV over time: readings by hand, and the bounded series against one that keeps every second. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "io/scenario.h"
#include "metric/occupancy.h"
#include "study/driver.h"

static ds_occupancy read_by(const char *requests, const char *step, bool no_lease) {
  char text[1024];
  snprintf(text, sizeof text,
           "scenario: 1\n"
           "pools: [{name: main, scheduler: vllm-v1, kv_blocks: 10, kv_block_tokens: 4}]\n"
           "cost: {model: linear, step: %s, prefill_token: 0 ms, decode_sequence: 0 ms}\n"
           "workload: {requests: [%s]}\n",
           step, requests);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s", text);
  ds_drive_options opt = {.sim = {.occupancy = true, .no_lease = no_lease}};
  ds_drive drive = {0};
  cr_assert(ds_drive_run(&sc, &opt, &drive, &d));
  ds_occupancy o = *drive.result->occupancy;
  ds_drive_free(&drive);
  ds_scenario_free(&sc);
  return o;
}

Test(occupancy, by_hand) {
  /* Eight iterations of 0.3 s. The fourth, under way at 1 s, reads 8 tokens: 7 have KV, in 2 blocks; the seventh, at 2 s,
   * reads 11. Nothing runs at 3, 4 and 5 s; at 6 s the second request, in its fourth iteration, has 6 tokens in 2 blocks. */
  for (int no_lease = 0; no_lease < 2; no_lease++) {
    ds_occupancy o = read_by("{arrival_ns: 0, input_tokens: 5, output_tokens: 8},"
                             "{arrival_ns: 5050000000, input_tokens: 4, output_tokens: 5}",
                             "300 ms", no_lease);
    cr_assert_eq(o.width_s, 1);
    cr_assert_eq(o.last_s, 6);
    const ds_occupancy_point want[] = {{2, 7, 2}, {3, 10, 3}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {2, 6, 2}};
    for (size_t i = 0; i < DS_ARRAY_LEN(want); i++) {
      cr_assert(o.point[i].blocks == want[i].blocks && o.point[i].tokens == want[i].tokens &&
                    o.point[i].most_blocks == want[i].most_blocks,
                "at %zu s: %llu blocks, %llu tokens", i + 1, (unsigned long long)o.point[i].blocks,
                (unsigned long long)o.point[i].tokens);
    }
  }
}

Test(occupancy, an_iteration_of_many_seconds) {
  ds_occupancy o = read_by("{arrival_ns: 0, input_tokens: 5, output_tokens: 1}", "2500 ms", false);
  cr_assert_eq(o.last_s, 2);
  cr_assert(o.point[0].blocks == 2 && o.point[1].blocks == 2 && o.point[1].tokens == 0, "a prompt in the making");
}

Test(occupancy, points_merge) {
  enum { SECONDS = 5000 };
  static uint64_t blocks[SECONDS + 1], tokens[SECONDS + 1];
  static int64_t most[SECONDS + 1];
  uint64_t x = 88172645463325252u;
  ds_occupancy o;
  memset(&o, 0, sizeof o);
  int64_t last = 0;
  for (int i = 0; i < 2000; i++) { /* replicas, each at its own time */
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    int64_t from = 1 + (int64_t)(x % (uint64_t)(10 + 2 * i)), to = from + (int64_t)(x >> 40) % 200, b = (int64_t)(x >> 20) % 100;
    if (to > SECONDS) to = SECONDS;
    if (from > to) continue;
    ds_occupancy_add(&o, from, to, b, 3 * b);
    for (int64_t s = from; s <= to; s++) {
      blocks[s] += (uint64_t)b;
      tokens[s] += 3 * (uint64_t)b;
      if (b > most[s]) most[s] = b;
    }
    if (to > last) last = to;
  }
  cr_assert(o.last_s == last && o.width_s * DS_OCCUPANCY_POINTS >= last && o.width_s * DS_OCCUPANCY_POINTS / 2 < last);
  for (int64_t p = 0; p < DS_OCCUPANCY_POINTS; p++) {
    uint64_t b = 0, t = 0;
    int64_t m = 0;
    for (int64_t s = p * o.width_s + 1; s <= (p + 1) * o.width_s && s <= last; s++) {
      b += blocks[s];
      t += tokens[s];
      if (most[s] > m) m = most[s];
    }
    cr_assert(o.point[p].blocks == b && o.point[p].tokens == t && o.point[p].most_blocks == m);
  }
}
