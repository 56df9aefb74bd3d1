#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Installs what only some tests need, where this may be done without asking: as root, on a Debian
# or Ubuntu. A test whose package is missing says so and does not run; nothing depends on this.
set -u
PACKAGES="qemu-system-x86 qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    device-tree-compiler flex bison bc cpio kmod libelf-dev trace-cmd linux-perf chromium
    chromium-driver"

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "packages of some tests are not installed: needs root and apt-get" >&2
    exit 0
fi

missing=
for package in $PACKAGES; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "set up: $missing"
export DEBIAN_FRONTEND=noninteractive
{
    timeout 120 apt-get update &&
        # shellcheck disable=SC2086 # a list of words
        timeout 400 apt-get install -y --no-install-recommends $missing
} >build/ci-packages.log 2>&1 </dev/null ||
    echo "not all could be installed (log: build/ci-packages.log); tests that need them say so" >&2
