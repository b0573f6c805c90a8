#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# What takes longer than `make check` may: the property tests on twenty times as many random worlds, valgrind over the
# golden cases, gcc's own analyzer, and the fuzz targets of tests/fuzz for FUZZ_SECONDS (60) each.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
: "${FUZZ_SECONDS:=60}"
passed=0
failed=0
skipped=0
verdict() { # status, text
  if [ "$1" -eq 0 ]; then
    echo "ok - $2"
    passed=$((passed + 1))
  else
    echo "not ok - $2"
    failed=$((failed + 1))
  fi
}
log=$O/deep.log

make -s -j"$(nproc)" --no-print-directory O="$O" tests || exit 1
for test in tests/property/prop_*.c; do
  name=$(basename "$test" .c)
  DRYSERVE_DEEP=1 DRYSERVE=$O/release/dryserve BUILD=$O/release DRYSERVE_DATA=$PWD "$O/release/tests/property/$name" >"$log" 2>&1 </dev/null
  status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || tail -n 40 "$log"
  [ $status -ne 77 ] || status=0
  verdict $status "deep: $name"
done

DRYSERVE_DEEP=1 "$O/release/tests/unit/test_validate" --filter 'calibrate/*' >"$log" 2>&1 </dev/null
status=$?
[ $status -eq 0 ] || tail -n 40 "$log"
verdict $status "deep: a hundred fits find what they should"

make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=debug "$O/debug/dryserve" || exit 1
while read -r name args; do
  case $name in '' | \#*) continue ;; esac
  # shellcheck disable=SC2086
  valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible \
    "$O/debug/dryserve" $args >/dev/null 2>"$log" </dev/null
  status=$?
  [ $status -ne 4 ] || status=0
  [ $status -eq 0 ] || tail -n 40 "$log"
  verdict $status "valgrind: $name"
done <tests/golden/cases.txt

# Its leak check takes ownership through a pointer to a member for a leak; the leak sanitizer and valgrind judge that.
for source in $(find sim -name '*.c' ! -path 'sim/packaging/*' | sort); do
  gcc -std=c11 -O2 -Isim -D_POSIX_C_SOURCE=200809L -fanalyzer -Wno-analyzer-malloc-leak -Werror -c -o /dev/null "$source" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] || cat "$log"
  verdict $status "gcc -fanalyzer: $source"
done

for source in tests/fuzz/fuzz_*.c; do
  [ -e "$source" ] || { skipped=$((skipped + 1)); echo "ok - fuzz # SKIP no targets"; continue; }
  name=$(basename "$source" .c)
  make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=fuzz "$O/fuzz/tests/fuzz/$name" >"$log" 2>&1 &&
    mkdir -p "$O/fuzz/corpus/$name" && "$O/fuzz/tests/fuzz/$name" -max_total_time="$FUZZ_SECONDS" -verbosity=0 -print_final_stats=1 \
    "$O/fuzz/corpus/$name" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] || tail -n 40 "$log"
  verdict $status "fuzz: $name, $FUZZ_SECONDS s"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
