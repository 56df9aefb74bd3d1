#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# aarch64.sh: builds what compiles, loads and contains governors for aarch64 on another machine, and
# runs its unit tests there under QEMU's user emulation.
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
cross=aarch64-linux-gnu-gcc
sysroot=/usr/aarch64-linux-gnu

for tool in qemu-aarch64 $cross rustup; do
    command -v $tool >/dev/null || {
        echo "missing: $tool; install qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, rustup" >&2
        exit 1
    }
done
rustup target add $target 2>/dev/null

export CARGO_BUILD_TARGET=$target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $sysroot"
# Also what governors are compiled with.
export CC=$cross
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0

# One after another: the emulator of a process with several threads does not always survive a fork.
cargo test --release -p torpor-governor --lib --test containment --test isolation \
    -- --test-threads 1
