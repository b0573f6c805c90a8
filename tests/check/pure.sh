#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The purity of the core with nothing skipped: gcc -O2, and wasm32.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=gcc-O2 lib || exit 1
NEED_WASM=1 BUILD=$O/gcc-O2 sim/packaging/check-pure.sh
