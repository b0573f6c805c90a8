#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# `make new-scheduler NAME=x` writes one file that compiles without a warning and keeps every rule of the conformance suite.
set -u
export LC_ALL=C
root=$PWD
build=${BUILD:-build/release}
case $build in /*) ;; *) build=$root/$build ;; esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0
check() { # description, then a command that must succeed
  what=$1
  shift
  n=$((n + 1))
  if "$@" >"$tmp/log" 2>&1; then echo "ok $n - $what"; else
    echo "not ok $n - $what"
    sed 's/^/# /' "$tmp/log" | head -20
    failed=1
  fi
}
refused() { ! "$@"; }

mkdir -p "$tmp/t/sim/sched" "$tmp/t/sim/packaging"
cp sim/packaging/new-scheduler.sh sim/packaging/new-scheduler.txt "$tmp/t/sim/packaging/"
cd "$tmp/t" || exit 1
new=sim/packaging/new-scheduler.sh
check "it writes a file" "$new" first-try
check "of the folder of schedulers" test -s sim/sched/first_try.c
check "it does not write over one" refused "$new" first-try
check "it wants a name" refused "$new" ''
check "in lower case" refused "$new" 'My Policy'
cd "$root" || exit 1

flags=$(make -s CONFIG="${CONFIG:-release}" print-CORE_FLAGS 2>/dev/null)
link=$(make -s CONFIG="${CONFIG:-release}" print-LIBS 2>/dev/null)
sanitize=$(printf '%s\n' $flags | grep -e '^-fsanitize' | tr '\n' ' ')
cli=$(find sim/cli -name '*.c' | sed "s|^|$build/|; s|c$|o|")
cc=$(make -s CONFIG="${CONFIG:-release}" print-CC 2>/dev/null)
one() {
  sim/packaging/make-registry.sh sim/sched/*.c sim/sched/first_try.c sim/route/*.c >"$tmp/registry.c" &&
    $cc $flags -Werror -c -o "$tmp/first_try.o" "$tmp/t/sim/sched/first_try.c" &&
    $cc $flags -Isim -c -o "$tmp/registry.o" "$tmp/registry.c"
}
check "it compiles without a warning" one
# The suite and the program, with the registry that lists it before the archive's own.
suite() {
  $cc $flags -D_POSIX_C_SOURCE=200809L -Isim -w -o "$tmp/suite" tests/property/prop_conformance.c "$tmp/registry.o" "$tmp/first_try.o" \
    "$build/libdsapp.a" "$build/libdscore.a" $link -lm &&
    $cc $sanitize -o "$tmp/dryserve" $cli "$tmp/registry.o" "$tmp/first_try.o" "$build/libdsapp.a" "$build/libdscore.a" $link -lm &&
    DRYSERVE=$tmp/dryserve BUILD=$tmp "$tmp/suite" first-try
}
check "it keeps the rules" suite
echo "1..$n"
exit $failed
