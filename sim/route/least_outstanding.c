// SPDX-License-Identifier: Apache-2.0
#include "engine/route.h"

static uint32_t pick(void *state, const void *config, const ds_route_view *v) {
  (void)state;
  (void)config;
  return v->least_outstanding;
}

extern const ds_route_ops ds_route_least_outstanding;
const ds_route_ops ds_route_least_outstanding = {
    .name = "least-outstanding",
    .summary = "the replica with the fewest requests routed and not finished; ties to the lowest index",
    .reference = "least-request balancing (Envoy LEAST_REQUEST with full scan, nginx least_conn)",
    .needs_outstanding = true,
    .pick = pick,
};
