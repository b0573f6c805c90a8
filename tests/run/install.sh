#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# make install below DESTDIR gives a program that works from any folder with the installed data, and make uninstall leaves
# nothing; the registry is the listing of the policy folders; the installer names what is missing and installs nothing.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
unset MAKEFLAGS MFLAGS DRYSERVE_DATA
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
check() { # description, expected status, expected text, command...
  local what=$1 want=$2 text=$3 out status
  shift 3
  out=$("$@" 2>&1 </dev/null)
  status=$?
  if [ $status -eq "$want" ] && [[ $out == *"$text"* ]]; then
    echo "ok - $what"
  else
    printf '%s\n' "$out" "status $status, expected $want and: $text"
    echo "not ok - $what"
    fail=1
  fi
}

# The data folder is compiled in, so the program is linked anew for a place of this test.
build=${BUILD:-build/release}
prefix=/opt/dryserve
place=$tmp/dest$prefix
value() { make -s --no-print-directory O="$(dirname "$build")" CONFIG="$(basename "$build")" "print-$1"; }
link() {
  local object=$tmp/main.o cli
  eval "$(value CC) $(value APP_FLAGS) -DDS_INSTALLED_DATA_DIR='\"$place/share/dryserve\"' -MF $tmp/main.d -c -o $object sim/cli/main.c" || return 1
  cli=$(find sim/cli -name '*.c' ! -name main.c | sed "s|^|$build/|; s|c$|o|")
  # shellcheck disable=SC2046,SC2086 # flags are words
  $(value LINK) -o "$tmp/dryserve" $object $cli "$build/libdsapp.a" "$build/libdscore.a" $(value LIBS)
}
put() { sim/packaging/install.sh "$tmp/dryserve" "$place" models hwprofiles traces studies; }
check 'links for another prefix' 0 '' link
check 'install' 0 'installed' put
check 'install again over it' 0 'installed' put
check 'nothing half-written stays' 0 '' test -z "$(find "$tmp/dest" -name '.*' ! -name . | head -n 1)"
mkdir -p "$tmp/empty"
cd "$tmp/empty" || exit 1
check 'the installed program finds its cards from any folder' 0 'h200-sxm' "$place/bin/dryserve" list hardware
check 'and runs an installed study' 0 'TTFT' "$place/bin/dryserve" run "$place/share/dryserve/studies/chat-h200.yaml"
cd "$root" || exit 1
check 'uninstall' 0 '' make -s uninstall DESTDIR="$tmp/dest" PREFIX="$prefix"
check 'uninstall leaves no file' 0 '' test -z "$(find "$tmp/dest" -type f | head -n 1)"

tables=$(sim/packaging/make-registry.sh sim/sched/zeta.c sim/sched/alpha.c sim/route/only.c)
check 'policies are listed by name' 0 '{&ds_sched_alpha, &ds_sched_zeta, NULL}' echo "$tables"
check 'routers too' 0 'ds_n_routers = 1;' echo "$tables"

check 'a missing library is named, not installed' 1 'libfyaml-dev' env CC=false NO_INSTALL=1 sim/packaging/install-deps.sh build
exit $fail
