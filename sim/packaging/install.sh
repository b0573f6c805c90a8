#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# install.sh PROGRAM ROOT FOLDER...   The program to ROOT/bin, the data folders to ROOT/share/dryserve. Each is first
# written beside its place and then renamed, so that a running dryserve never sees half of one.
set -eu
program=$1
root=$2
shift 2
umask 022
share=$root/share/dryserve
mkdir -p "$root/bin" "$share"
for folder in "$@"; do
  [ -d "$folder" ] || continue
  rm -rf "$share/.$folder.new" "$share/.$folder.old"
  cp -R "$folder" "$share/.$folder.new"
  chmod -R u+rwX,go+rX,go-w "$share/.$folder.new"
  [ ! -e "$share/$folder" ] || mv "$share/$folder" "$share/.$folder.old"
  mv "$share/.$folder.new" "$share/$folder"
  rm -rf "$share/.$folder.old"
done
cp "$program" "$root/bin/.dryserve.new"
chmod 755 "$root/bin/.dryserve.new"
mv -f "$root/bin/.dryserve.new" "$root/bin/dryserve"
echo "installed $root/bin/dryserve and $share"
