// SPDX-License-Identifier: Apache-2.0
/* The router seam: one file in sim/route exports one const ds_route_ops. It picks a replica for each arrival. */
#ifndef DS_ENGINE_ROUTE_H
#define DS_ENGINE_ROUTE_H

#include "base/status.h"
#include "spec/param.h"

typedef struct ds_route_view {
  int64_t now_ns;
  uint32_t n_replicas;
  const uint32_t *outstanding; /* routed and not finished, by replica, exact at now_ns; NULL unless needs_outstanding */
  uint32_t least_outstanding;  /* its first minimum; 0 unless needs_outstanding */
  uint64_t request_index;
} ds_route_view;

typedef struct ds_route_ops {
  const char *name, *summary, *reference;
  const ds_param *params;
  size_t n_params, config_bytes, state_bytes;
  bool needs_outstanding; /* replicas are then brought up to date at every arrival that could see a change */
  uint32_t (*pick)(void *state, const void *config, const ds_route_view *v); /* < n_replicas */
} ds_route_ops;

#endif
