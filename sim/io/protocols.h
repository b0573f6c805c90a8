// SPDX-License-Identifier: GPL-3.0-or-later
/* Benchmark tools whose rules a workload can follow. */
#ifndef DS_IO_PROTOCOLS_H
#define DS_IO_PROTOCOLS_H

#include <stddef.h>

typedef struct ds_protocol {
  const char *name, *rules, *keys, *source;
} ds_protocol;

extern const ds_protocol ds_protocols[];
extern const size_t ds_n_protocols;

#endif
