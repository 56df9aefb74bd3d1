#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Installs what only some tests need, if this may be done without a question: as root, or with a
# sudo that asks for no password, on a Debian or Ubuntu. Asks apt once. Names what is still missing:
# a test that needs it says so and does not run; nothing else depends on it.
set -u
PACKAGES="qemu-system-x86 qemu-system-arm qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    device-tree-compiler flex bison bc cpio kmod libelf-dev trace-cmd linux-perf chromium
    chromium-driver git xz-utils zstd util-linux"
LOG=build/test-packages.log

missing() {
    for package in $PACKAGES; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            printf ' %s' "$package"
    done
}

names() {
    echo "not installed, so that some tests do not run:$1" >&2
    echo "  $2" >&2
    exit 0
}

# Rust's library for the hosts that some tests emulate.
TARGET=aarch64-unknown-linux-gnu
if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx $TARGET; then
    mkdir -p build
    timeout 300 rustup target add $TARGET >"$LOG" 2>&1 ||
        echo "not installed, so that some tests do not run: Rust's $TARGET" >&2
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    names " $(echo $PACKAGES)" "this machine has no apt-get: install what it calls these"
fi
wanted=$(missing)
[ -n "$wanted" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        names "$wanted" "install them with: sudo apt-get install$wanted"
    fi
    as_root="sudo -n env DEBIAN_FRONTEND=noninteractive"
fi

echo "set up:$wanted (log: $LOG)"
mkdir -p build
{
    export DEBIAN_FRONTEND=noninteractive
    $as_root timeout 120 apt-get update
    # shellcheck disable=SC2086 # a list of words
    $as_root timeout 600 apt-get install -y --no-install-recommends $wanted || {
        # One name that this release lacks must not keep the others away.
        for package in $wanted; do
            $as_root timeout 300 apt-get install -y --no-install-recommends "$package"
        done
    }
} >"$LOG" 2>&1 </dev/null

wanted=$(missing)
[ -z "$wanted" ] || names "$wanted" "why: see $LOG"
