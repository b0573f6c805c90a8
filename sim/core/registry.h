// SPDX-License-Identifier: Apache-2.0
/* Every scheduler and router in the folders; the tables are generated from the folder listings by the build. */
#ifndef DS_CORE_REGISTRY_H
#define DS_CORE_REGISTRY_H

#include "engine/route.h"
#include "engine/sched.h"

extern const ds_sched_ops *const ds_schedulers[];
extern const size_t ds_n_schedulers;
extern const ds_route_ops *const ds_routers[];
extern const size_t ds_n_routers;

/* By exact name; NULL when there is none. */
const ds_sched_ops *ds_scheduler_find(const char *name);
const ds_route_ops *ds_router_find(const char *name);

#endif
