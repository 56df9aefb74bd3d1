#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Copies the sources of the DKMS package to a folder: dkms_source.sh FOLDER VERSION PREFIX
set -eu

folder=$1 version=$2 prefix=$3
root=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$folder"
mkdir -p "$folder/governors"
cp -r "$root/governors/cpuidle" "$folder/governors/"
mkdir "$folder/kernel"
for part in Makefile Kbuild compat drivers scripts; do
	cp -r "$root/kernel/$part" "$folder/kernel/"
done

{
	echo "PACKAGE_VERSION=\"$version\""
	cat "$root/kernel/dkms.conf"
	echo
	echo "add_module torpor_core"
	for file in "$root"/kernel/drivers/*.c; do
		name=$(basename "$file" .c)
		case $name in
		*_arm64) echo "[ \"\$arch\" != aarch64 ] || add_module torpor_$name" ;;
		*) echo "add_module torpor_$name" ;;
		esac
	done
	for file in "$root"/governors/cpuidle/*.c; do
		echo "add_module torpor_$(echo "$prefix$(basename "$file" .c)" | tr .- __)"
	done
} >"$folder/dkms.conf"
