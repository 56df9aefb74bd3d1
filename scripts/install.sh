#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# install.sh VENV: builds Torpor and installs it into VENV. Says nothing when all goes well.
set -eu
venv=$1
log=build/install.log

# Optimizing across crates gains a replay some 5 %, and makes the build longer; it also would
# build all anew for the tests, which do without. A wheel (`pip install .`) has it.
export CARGO_PROFILE_RELEASE_LTO=off

[ -e build/installed ] || echo "build: Rust and C, a few minutes the first time (log: $log)"
if ! "$venv/bin/python" -m pip install --no-build-isolation --no-deps --force-reinstall . \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "the build failed; the first error stands above" >&2
    exit 1
fi
touch build/installed
