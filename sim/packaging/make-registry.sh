#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Print the C source of the tables of sim/core/registry.h, made from the names of the files given:
# sim/sched/vllm_v1.c exports ds_sched_vllm_v1, sim/route/round_robin.c exports ds_route_round_robin.
set -eu
export LC_ALL=C

tables() { # folder, prefix of the symbols, type, name of the table, name of its length
  printf '%s\n' "$files" | sed -n "s|^sim/$1/\(.*\)\.c\$|\1|p" | sort | awk -v p="$2" -v t="$3" -v a="$4" -v n="$5" '
    { name[NR] = $1; printf "extern const %s %s%s;\n", t, p, $1 }
    END {
      printf "const %s *const %s[] = {", t, a
      for (i = 1; i <= NR; i++) printf "&%s%s, ", p, name[i]
      printf "NULL};\nconst size_t %s = %d;\n\n", n, NR
    }'
}

files=$(printf '%s\n' "$@")
cat <<'END'
// SPDX-License-Identifier: Apache-2.0
/* Generated from the listings of sim/sched and sim/route. */
#include "core/registry.h"

END
tables sched ds_sched_ ds_sched_ops ds_schedulers ds_n_schedulers
tables route ds_route_ ds_route_ops ds_routers ds_n_routers
