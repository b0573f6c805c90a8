// SPDX-License-Identifier: Apache-2.0
#include "core/registry.h"

#include <string.h>

const ds_sched_ops *ds_scheduler_find(const char *name) {
  for (size_t i = 0; i < ds_n_schedulers; i++) {
    if (strcmp(ds_schedulers[i]->name, name) == 0) return ds_schedulers[i];
  }
  return NULL;
}

const ds_route_ops *ds_router_find(const char *name) {
  for (size_t i = 0; i < ds_n_routers; i++) {
    if (strcmp(ds_routers[i]->name, name) == 0) return ds_routers[i];
  }
  return NULL;
}
