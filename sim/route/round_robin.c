// SPDX-License-Identifier: Apache-2.0
#include "engine/route.h"

static uint32_t pick(void *state, const void *config, const ds_route_view *v) {
  uint64_t *next = state;
  (void)config;
  return (uint32_t)((*next)++ % v->n_replicas);
}

extern const ds_route_ops ds_route_round_robin;
const ds_route_ops ds_route_round_robin = {
    .name = "round-robin",
    .summary = "each replica in turn",
    .reference = "what most load balancers do by default (nginx upstream, Kubernetes kube-proxy in ipvs rr mode)",
    .state_bytes = sizeof(uint64_t),
    .pick = pick,
};
