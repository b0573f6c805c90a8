#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Includes of sim/ point only to the left, or stay in their folder:
#   base -> spec -> {cost, kv, metric} -> engine -> {sched, route} -> core | {io, stat, gen} -> study -> report -> cli
# and are written "layer/file.h"; file names are unique; the pure core includes no system header that needs a system;
# every file starts with its licence; the naive simulator of the tests knows nothing of sim/.
set -u
export LC_ALL=C
cd "${ROOT:-$(dirname "$0")/../..}" || exit 1
fail=0

complain() { # what is checked, lines of complaint
  if [ -n "$2" ]; then
    printf '%s\n' "$2"
    echo "not ok - $1"
    fail=1
  else
    echo "ok - $1"
  fi
}

files=$(find sim tests -name '*.[ch]' | sort)
complain 'includes point left' "$(
  # shellcheck disable=SC2086
  awk '
    BEGIN {
      n = split("base:0 spec:1 cost:2 kv:2 metric:2 engine:3 sched:4 route:4 core:5 io:6 stat:6 gen:6 study:7 report:8 cli:9", w, " ")
      for (i = 1; i <= n; i++) { split(w[i], kv, ":"); rank[kv[1]] = kv[2] }
    }
    FNR == 1 { split(FILENAME, path, "/"); mine = path[1] == "sim" ? path[2] : "" }
    mine in rank && /^[ \t]*#[ \t]*include[ \t]*"/ {
      split($0, q, "\""); split(q[2], part, "/"); theirs = part[1]
      where = FILENAME ":" FNR ": "
      if (!(theirs in rank) || q[2] !~ /^[a-z]+\/[a-z0-9_]+\.h$/)
        print where "\"" q[2] "\" is not written as layer/file.h"
      else if (theirs != mine && rank[theirs] >= rank[mine])
        print where "\"" q[2] "\": " mine " must not include " theirs
    }' $files
)"

complain 'the pure core includes only freestanding headers and string.h' "$(
  for layer in base spec cost kv metric engine sched route core; do
    grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<' -r "sim/$layer" --include='*.[ch]' |
      grep -vE '<(stdbool|stddef|stdint|limits|float|string|stdalign|stdnoreturn)\.h>'
  done
)"

complain 'no feature macros in sources, no locale' "$(
  grep -nE '^[[:space:]]*#[[:space:]]*define[[:space:]]+_(POSIX_C|XOPEN|GNU|DEFAULT)_SOURCE' -r sim --include='*.[ch]'
  grep -nE 'setlocale[[:space:]]*\(' -r sim --include='*.[ch]'
)"

complain 'file names are unique' "$(find sim -name '*.[ch]' | sed 's|.*/||' | sort | uniq -d)"

complain 'every file names its licence' "$(
  for f in $files $(find sim tests .ci -name '*.sh' | sort) Makefile .ci/run; do
    case $f in
    sim/base/* | sim/spec/* | sim/cost/* | sim/kv/* | sim/metric/* | sim/engine/* | sim/sched/* | sim/route/* | sim/core/*)
      want=Apache-2.0 ;;
    *) want=GPL-3.0-or-later ;;
    esac
    [ -e "$f" ] || continue
    head -n 2 "$f" | grep -q "SPDX-License-Identifier: $want" || echo "$f: no SPDX line with $want in its first two lines"
  done
  for f in $(find models hwprofiles studies plots -name '*.y*ml' -o -name '*.gp' 2>/dev/null | sort); do
    head -n 2 "$f" | grep -q 'SPDX-License-Identifier: ' || echo "$f: no SPDX line in its first two lines"
  done
)"

complain 'the naive simulator shares nothing with sim/' "$(
  [ ! -d tests/naive ] || grep -nE '#[[:space:]]*include[[:space:]]*"|sim/' -r tests/naive --include='*.[ch]' | grep '#'
)"
exit $fail
