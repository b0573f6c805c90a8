// SPDX-License-Identifier: Apache-2.0
#include "engine/route.h"

static uint32_t pick(void *state, const void *config, const ds_route_view *v) {
  uint32_t *next = state, replica = *next;
  (void)config;
  *next = replica + 1 < v->n_replicas ? replica + 1 : 0;
  return replica;
}

extern const ds_route_ops ds_route_round_robin;
const ds_route_ops ds_route_round_robin = {
    .name = "round-robin",
    .summary = "each replica in turn",
    .reference = "what most load balancers do by default (nginx upstream, Kubernetes kube-proxy in ipvs rr mode)",
    .state_bytes = sizeof(uint32_t),
    .pick = pick,
};
