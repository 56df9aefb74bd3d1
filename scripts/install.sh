#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# install.sh VENV: builds Torpor and installs it into VENV; says how far it is if that takes long.
set -eu
venv=$1
log=build/install.log

# Optimizing across crates gains a replay some 5 %, and makes the build longer; it also would
# build all anew for the tests, which do without. A wheel (`pip install .`) has it.
export CARGO_PROFILE_RELEASE_LTO=off

. scripts/followed.sh

[ -e build/installed ] || echo "build: Rust and C, a few minutes the first time (log: $log)"
: >"$log"
followed "$log" "$venv/bin/python" -m pip install -v --no-build-isolation --no-deps \
    --force-reinstall . || {
    cat "$log" >&2
    echo "the build failed; the first error is above" >&2
    exit 1
}
"$venv/bin/python" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall ./lab
# Reference, manual pages, types: of this build.
"$venv/bin/python" docs/generate.py
touch build/installed
