#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# install.sh VENV: builds Torpor and installs it into VENV; says how far it is if that takes long.
set -eu
venv=$1
log=build/install.log

# Optimizing across crates gains a replay some 5 %, and makes the build longer; it also would
# build all anew for the tests, which do without. A wheel (`pip install .`) has it.
export CARGO_PROFILE_RELEASE_LTO=off

# Shows cargo's progress, by the crates that it names in the log: on one line of a terminal, else a
# line every half minute. A build that has little to do says nothing.
follow() {
    total=$(cargo tree -p torpor-py -e normal,build --prefix none 2>/dev/null |
        sed 's/ (\*)$//' | sort -u | wc -l)
    seconds=0
    # A signal that ends the script alone leaves this loop without an owner.
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        seconds=$((seconds + 1))
        crates=$(grep -c '^ *Compiling' "$log" || true)
        if [ -t 2 ]; then
            [ "$crates" -lt 3 ] || printf '\rbuild: %s of at most %s crates, %d:%02d ' \
                "$crates" "$total" $((seconds / 60)) $((seconds % 60)) >&2
        elif [ $((seconds % 30)) = 0 ]; then
            echo "build: $crates of at most $total crates, $((seconds / 60)) min $((seconds % 60)) s" >&2
        fi
    done
}

[ -e build/installed ] || echo "build: Rust and C, a few minutes the first time (log: $log)"
: >"$log"
follow &
follower=$!
trap 'kill "$follower" 2>/dev/null || true' EXIT
status=0
"$venv/bin/python" -m pip install -v --no-build-isolation --no-deps --force-reinstall . \
    >"$log" 2>&1 || status=$?
kill "$follower" 2>/dev/null || true
[ ! -t 2 ] || printf '\r%60s\r' "" >&2
if [ "$status" != 0 ]; then
    cat "$log" >&2
    echo "the build failed; the first error is above" >&2
    exit 1
fi
# Reference, manual pages, types: of this build.
"$venv/bin/python" docs/generate.py
touch build/installed
