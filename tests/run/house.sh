#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The gates of the build see what they are for: each is given a small tree that breaks one rule, and must say so.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
check() { # description, expected status, expected text, command...
  local what=$1 want=$2 text=$3 out status
  shift 3
  out=$("$@" 2>&1)
  status=$?
  if [ $status -eq "$want" ] && [[ $out == *"$text"* ]]; then
    echo "ok - $what"
  else
    printf '%s\n' "$out" "status $status, expected $want and: $text"
    echo "not ok - $what"
    fail=1
  fi
}

tree() { # an empty tree with the layers
  rm -rf "$tmp/t"
  mkdir -p "$tmp"/t/{tests/naive,.ci,models,hwprofiles,studies,plots} \
    "$tmp"/t/sim/{base,spec,cost,kv,metric,engine,sched,route,core,io,stat,gen,study,report,cli}
}
source_file() { # path, text after the licence line
  case $1 in
  sim/base/* | sim/kv/* | sim/cost/* | sim/engine/* | sim/sched/*)
    printf '// SPDX-License-Identifier: Apache-2.0\n%s\n' "$2" >"$tmp/t/$1" ;;
  *) printf '// SPDX-License-Identifier: GPL-3.0-or-later\n%s\n' "$2" >"$tmp/t/$1" ;;
  esac
}
dag() { ROOT=$tmp/t "$here/sim/packaging/check-dag.sh"; }
headers() { ROOT=$tmp/t "$here/sim/packaging/check-headers.sh"; }

tree
source_file sim/engine/a.c '#include "base/b.h"'
check 'an include to the left is fine' 0 '' dag
source_file sim/base/b.c '#include "engine/a.h"'
check 'an include to the right is refused' 1 'base must not include engine' dag
tree
source_file sim/cost/a.c '#include "kv/pool.h"'
check 'neighbours do not include each other' 1 'cost must not include kv' dag
tree
source_file sim/kv/a.c '#include "pool.h"'
check 'an include without its layer is refused' 1 'not written as layer/file.h' dag
tree
source_file sim/base/a.c '#include <stdio.h>'
check 'stdio in the core is refused' 1 'sim/base/a.c' dag
tree
source_file sim/io/a.c '#include <stdio.h>'
check 'stdio above the line is fine' 0 '' dag
tree
source_file sim/base/x.c ''
source_file sim/kv/x.c ''
check 'a file name used twice is refused' 1 'x.c' dag
tree
echo 'int a;' >"$tmp/t/sim/io/a.c"
check 'a file without its licence is refused' 1 'no SPDX line' dag
tree
source_file tests/naive/naive.c '#include "base/types.h"'
check 'the naive simulator must not include sim' 1 'naive.c' dag

tree
source_file sim/kv/a.h $'#ifndef DS_KV_A_H\n#define DS_KV_A_H\n#include <stddef.h>\nsize_t a(void);\n#endif'
check 'a header that stands alone is fine' 0 '1 headers' headers
source_file sim/kv/b.h $'#ifndef DS_KV_B_H\n#define DS_KV_B_H\nsize_t b(void);\n#endif'
check 'a header that needs another first is refused' 1 'kv/b.h does not compile' headers
source_file sim/kv/b.h $'#ifndef DS_KV_A_H\n#define DS_KV_A_H\nint b(void);\n#endif'
check 'a wrong guard is refused' 1 'its guard is not DS_KV_B_H' headers

pure() { # a body in C; the gate on an archive of just this
  mkdir -p "$tmp/p"
  printf '%s\n' "$1" >"$tmp/p/a.c"
  rm -f "$tmp/p/libdscore.a"
  ${CC:-gcc} -std=c11 -O2 -fno-common -c -o "$tmp/p/a.o" "$tmp/p/a.c" && ar rcs "$tmp/p/libdscore.a" "$tmp/p/a.o" || return 9
  BUILD=$tmp/p ROOT=$tmp/t PATH=$tmp/none:/usr/bin:/bin "$here/sim/packaging/check-pure.sh" | grep -v wasm
  return "${PIPESTATUS[0]}"
}
tree
check 'a call of libm is refused' 1 'the core needs exp' pure 'double exp(double); double f(double x) { return exp(x); }'
check 'a writable global is refused' 1 'writable globals' pure 'int f(void); int f(void) { static int n = 3; return n++; }'
check 'a zeroed global is refused' 1 'writable globals' pure 'int f(void); int f(void) { static int n; return n++; }'
exit $fail
