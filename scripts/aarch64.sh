#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# aarch64.sh: builds what compiles, loads and contains governors for aarch64 on another machine, and
# runs its unit tests there under QEMU's user emulation.
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
cross=aarch64-linux-gnu-gcc
sysroot=/usr/aarch64-linux-gnu

qemu=${QEMU:-qemu-aarch64}

for tool in $qemu $cross rustup; do
    command -v $tool >/dev/null || {
        echo "missing: $tool; install qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, rustup" >&2
        exit 1
    }
done
rustup target add $target 2>/dev/null

export CARGO_BUILD_TARGET=$target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$qemu -L $sysroot"
# Also what governors are compiled with.
export CC=$cross
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0

case $($qemu --version) in
*" version "[1-7].*)
    echo "$qemu is too old: what it emulates does not survive a fork from several threads; install" \
        "qemu-user 10 (Debian 13), or name one: QEMU=... $0" >&2
    exit 1
    ;;
esac

cargo test --release -p torpor-governor --lib --test containment
cargo test --release -p torpor-governor --test all isolation::
# Without the hostile governors, whose ends are measured in time.
cargo test --release -p torpor-engine --lib --test all -- --skip hostile::
