#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# install-deps.sh STAGE...   Look for what the stages of needs.txt name; say what is missing and install it (Debian and
# its relatives). NO_INSTALL=1 only says. Silent when everything is there.
set -u
export LC_ALL=C
here=$(dirname "$0")
cc=${CC:-gcc}
command -v "$cc" >/dev/null 2>&1 || cc=cc
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

present() { # kind, then its words
  kind=$1
  shift
  case $kind in
  cmd) command -v "$1" >/dev/null 2>&1 ;;
  lib)
    header=$1
    shift
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" >"$tmp/probe.c"
    # shellcheck disable=SC2086 # flags are words; CPPFLAGS and LDFLAGS of people with libraries elsewhere
    "$cc" ${CPPFLAGS:-} ${CFLAGS:-} -o "$tmp/probe" "$tmp/probe.c" ${LDFLAGS:-} "$@" >/dev/null 2>&1
    ;;
  fuzz)
    printf 'int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return p == 0 && n > 0; }\n' >"$tmp/probe.c"
    clang -fsanitize=fuzzer,address -o "$tmp/probe" "$tmp/probe.c" >/dev/null 2>&1
    ;;
  esac
}

look() { # stages; sets `missing` to the packages
  missing=
  for stage in "$@"; do
    while read -r s package words; do
      # shellcheck disable=SC2086
      [ "$s" = "$stage" ] && { present $words || missing="$missing $package"; }
    done <"$here/needs.txt"
  done
  missing=${missing# }
  case " $missing " in *" gcc "*) missing="gcc libc6-dev${missing#gcc}" ;; esac
}

look "$@"
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "dryserve: missing, by the names that Debian gives them: $missing" >&2
  echo "dryserve: install them with this system's package manager; README.md, \"Other systems\", has their names there" >&2
  exit 1
fi
if [ "${NO_INSTALL:-}" = 1 ]; then
  echo "dryserve: missing: $missing" >&2
  echo "dryserve: to install: apt-get install -y --no-install-recommends $missing" >&2
  exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "dryserve: missing: $missing" >&2
    echo "dryserve: neither root nor sudo here; as root: apt-get install -y --no-install-recommends $missing" >&2
    exit 1
  fi
  as_root=sudo
fi
echo "dryserve: will install with ${as_root:+sudo }apt-get: $missing"
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null >"$tmp/log" 2>&1; }
# The lists of a machine may be old or absent, so the first failure is answered by fetching them.
# shellcheck disable=SC2086
if ! apt install --no-install-recommends $missing; then
  if ! { apt update && apt install --no-install-recommends $missing; }; then
    tail -n 20 "$tmp/log" >&2
    echo "dryserve: apt-get failed; the end of its log is above" >&2
    exit 1
  fi
fi
look "$@"
if [ -n "$missing" ]; then
  echo "dryserve: still missing after installing: $missing" >&2
  exit 1
fi
