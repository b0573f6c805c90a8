// SPDX-License-Identifier: Apache-2.0
/* Umbrella header of the pure core: what a program that embeds dryserve includes. */
#ifndef DS_CORE_DRYSERVE_H
#define DS_CORE_DRYSERVE_H

#include "core/registry.h"
#include "engine/sim.h"

#define DS_VERSION "0.1.0"

#endif
