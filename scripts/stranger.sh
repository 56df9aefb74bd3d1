#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# stranger.sh WHEEL SUITE...: what somebody goes through who has a bare Debian and a wheel, timed.
#
# For each suite (bookworm, trixie): a chroot with Python alone; as root and as a user, the wheel is
# installed, gives a first table, simulates without compiler and kernel source, and, once there is a
# compiler, replays with the user's own governor. Each begins with an empty home.
# Its results have to be those that this machine's Torpor ($TORPOR, if given) gives, byte for byte.
# Needs root, mmdebstrap and a network; chroots stay in build/stranger. A wheel of another
# architecture needs qemu-user-static and arch-test, too, and its times are the emulator's.
set -eu
cd "$(dirname "$0")/.."
wheel=$(realpath "$1")
shift
own=docs/tutorials/own-governor-to-gate.md
recording=demo/web-server.perf.data
first="simulate frames -p pixel6 --duration 1s --seeds 2"
table="replay /opt/stranger/web-server.perf.data -p pixel6"
simulation="simulate frames -p pixel6 -g menu -g teo --duration 500ms --format csv"
# A name ends with one tag or several, each with the architecture.
case $wheel in
*manylinux*_x86_64.whl) architecture=x86_64 debian=amd64 ;;
*manylinux*_aarch64.whl) architecture=aarch64 debian=arm64 ;;
*) echo "$wheel is not a manylinux wheel for x86_64 or aarch64" >&2 && exit 1 ;;
esac
houses=build/stranger/wheels-$debian
[ "$architecture" = "$(uname -m)" ] || arch-test "$debian" || {
    echo "nothing runs $debian here: install qemu-user-static and arch-test; in a container, mount" \
        "binfmt_misc and write /usr/lib/binfmt.d/qemu-$architecture.conf to its register" >&2
    exit 1
}

timed() {
    name=$1
    shift
    begin=$(date +%s%N)
    "$@" >build/stranger/log 2>&1 || { cat build/stranger/log >&2; echo "FAILED: $name" >&2; exit 1; }
    printf '  %-44s %6d ms\n' "$name" $((($(date +%s%N) - begin) / 1000000))
}

mkdir -p "$houses"
for suite in "$@"; do
    root=build/stranger/$suite-$debian
    [ -e "$root/etc/os-release" ] || mmdebstrap --quiet --arch="$debian" --variant=minbase \
        --include=python3-venv,ca-certificates --aptopt='Acquire::Languages "none"' "$suite" "$root"
    python=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$suite, $debian, Python $python"
    # Dependencies of the wheel, and the lab's if its wheel lies next to it; by the host's network.
    lab=$(echo "${wheel%/*}"/torpor_lab-*.whl)
    [ -e "$lab" ] || lab=
    # shellcheck disable=SC2086 # none is no word
    python3 -m pip download --quiet --only-binary=:all: --python-version "$python" \
        --platform "manylinux_2_17_$architecture" --platform "manylinux2014_$architecture" \
        --dest "$houses" "$wheel" $lab
    rm -rf "$root/opt/wheels" "$root/opt/stranger"
    cp -r "$houses" "$root/opt/wheels"
    mkdir "$root/opt/stranger"
    cp "$recording" "$root/opt/stranger/"
    sed -n '/^<!-- file: next.c -->/,/^```$/p' "$own" | sed '1,2d;$d' >"$root/opt/stranger/next.c"
    # /proc and a resolver, for apt.
    cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    chroot "$root" id stranger >/dev/null 2>&1 || chroot "$root" useradd --create-home stranger

    in_chroot() {
        who=$1
        shift
        chroot "$root" env -i HOME="/$who" PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8 \
            setpriv --reuid "$(basename "$who")" --regid "$(basename "$who")" --init-groups -- "$@"
    }
    users="root home/stranger"
    # Left by an earlier run.
    [ ! -e "$root/usr/bin/gcc" ] || timed "gcc and libc6-dev removed" chroot "$root" \
        apt-get purge --yes --auto-remove gcc libc6-dev
    if chroot "$root" sh -c 'command -v cc gcc clang || ls -d /usr/src/linux*' 2>/dev/null; then
        echo "$root is not bare: it has the above" >&2
        exit 1
    fi
    for who in $users; do
        echo " as $(basename "$who"), without compiler and kernel source"
        chroot "$root" sh -c "rm -rf /$who/venv /$who/.cache"
        torpor=/$who/venv/bin/torpor
        timed "a venv" in_chroot "$who" python3 -m venv "/$who/venv"
        timed "the wheel and what it depends on" in_chroot "$who" "/$who/venv/bin/pip" install \
            --no-index --find-links /opt/wheels "torpor${lab:+[lab]}"
        [ -z "$lab" ] || timed "the lab's studies" in_chroot "$who" $torpor study run
        # shellcheck disable=SC2086 # words
        timed "the first table" in_chroot "$who" $torpor $table
        # shellcheck disable=SC2086
        timed "the first simulation" in_chroot "$who" $torpor $first
        grep -q passes build/stranger/log
        # shellcheck disable=SC2086
        timed "a simulation" in_chroot "$who" sh -c "$torpor $simulation >/$who/simulated.csv"
        if [ -n "${TORPOR:-}" ]; then
            # shellcheck disable=SC2086
            "$TORPOR" $simulation >build/stranger/here.csv
            cmp build/stranger/here.csv "$root/$who/simulated.csv"
            echo "  the simulation's figures are this machine's, byte for byte"
        fi
        timed "torpor doctor" in_chroot "$who" sh -c "$torpor doctor || [ \$? = 1 ]"
    done
    timed "gcc and libc6-dev, by apt" chroot "$root" \
        sh -c 'apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev'
    for who in $users; do
        # shellcheck disable=SC2086
        timed "a table of one's own governor, as $(basename "$who")" in_chroot "$who" \
            "/$who/venv/bin/torpor" $table -g menu -g /opt/stranger/next.c
        grep -q 'next.c' build/stranger/log
    done
    umount "$root/proc"
done
