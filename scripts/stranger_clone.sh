#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# stranger_clone.sh SUITE...: what somebody goes through who has a bare Debian and a clone, timed.
#
# For each suite (bookworm, trixie): a chroot with what README.md asks for, and a fresh clone of
# HEAD; first as a user, then as root, in the same clone: `make demo`, `make docs`, and $TESTS, by
# default CONTRIBUTING.md's Python tests (`make test` takes half an hour on two idle cores). root
# compiles the crates anew: its cargo keeps them elsewhere. Needs root, mmdebstrap and a network; chroots
# stay in build/stranger. A suite whose Rust is too old has this machine's toolchain, in place of
# rustup's download.
set -eu
cd "$(dirname "$0")/.."
tests=${TESTS:-'make install-test && build/venv/bin/python -m pytest tests/python -q -n auto'}
certificates=/etc/ssl/certs/ca-certificates.crt
place=build/stranger
mkdir -p $place

timed() {
    label=$1
    shift
    begin=$(date +%s)
    "$@" >"$place/log" 2>&1 </dev/null || { tail -60 "$place/log" >&2; echo "FAILED: $label" >&2; exit 1; }
    printf '  %-34s %5d s  %s\n' "$label" $(($(date +%s) - begin)) \
        "$(grep -E '^[=]*[ ]*[0-9]+ (passed|failed)' "$place/log" | tail -1)"
}

# By an absolute path: /proc lists those.
mounted=
let_go() {
    for root in $mounted; do
        awk -v r="$root/" 'index($2, r) == 1 { print $2 }' /proc/mounts | sort -r |
            while read -r point; do umount -l "$point"; done
    done
}
trap let_go EXIT

for suite in "$@"; do
    root=$PWD/$place/clone-$suite
    [ -e "$root/etc/os-release" ] || mmdebstrap --quiet --variant=minbase \
        --include=ca-certificates,gcc,git,libc6-dev,make,python3,python3-venv \
        --aptopt='Acquire::Languages "none"' "$suite" "$root"
    mounted="$mounted $root"
    cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    # A proxy with a certificate of its own has it there.
    cp $certificates "$root$certificates"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    chroot "$root" id stranger >/dev/null 2>&1 || chroot "$root" useradd --create-home stranger
    path=/usr/bin:/bin:/usr/sbin:/sbin
    chroot "$root" apt-get -qq update
    if [ -n "$(chroot "$root" apt-cache madison cargo 2>/dev/null | awk '$3 >= "1.85"')" ]; then
        rust="apt's"
        [ -e "$root/usr/bin/cargo" ] || timed "cargo, by apt" \
            chroot "$root" apt-get install --yes --no-install-recommends cargo rustc
    else
        rust="this machine's"
        toolchain=$(rustc --print sysroot)
        mkdir -p "$root/opt/rust"
        mount --bind -o ro "$toolchain" "$root/opt/rust"
        path=/opt/rust/bin:$path
    fi
    rm -rf "$root/opt/torpor"
    git clone --quiet --no-hardlinks . "$root/opt/torpor"
    version() { chroot "$root" env PATH=$path sh -c "$1"; }
    echo "$suite: $(version 'python3 --version'), $(version 'rustc --version') ($rust)," \
        "$(git describe --always --dirty)"
    for who in home/stranger root; do
        name=$(basename "$who")
        echo " as $name"
        chroot "$root" chown -R "$name:" /opt/torpor
        rm -rf "$root/opt/torpor/build"
        as() {
            chroot "$root" env -i HOME="/$who" PATH="$path" LC_ALL=C.UTF-8 \
                CARGO_HTTP_CAINFO=$certificates PIP_CERT=$certificates \
                setpriv --reuid "$name" --regid "$name" --init-groups -- \
                sh -c "cd /opt/torpor && $1"
        }
        timed "make demo" as "make demo"
        timed "make docs" as "make docs"
        timed "tests" as "$tests"
    done
done
