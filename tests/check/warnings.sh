#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# gcc and clang, with and without optimisation, build everything without one warning; the tests pass under clang too.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
fail=0
for config in gcc-O0 gcc-O3 clang-O0 clang-O3; do
  if make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=$config DEV=1 "$O/$config/dryserve" 2>&1; then
    echo "ok - $config builds without warnings"
  else
    echo "not ok - $config builds without warnings"
    fail=1
  fi
done
if make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=clang-O3 DEV=1 tests 2>&1 &&
  make -s --no-print-directory O="$O" CONFIG=clang-O3 DEV=1 run-tests >"$O/clang-tests.log" 2>&1; then
  echo "ok - tests under clang -O3: $(cat "$O/clang-O3/tests/summary")"
else
  [ ! -s "$O/clang-tests.log" ] || grep -A 60 '^FAIL' "$O/clang-tests.log"
  echo "not ok - tests under clang -O3"
  fail=1
fi
exit $fail
