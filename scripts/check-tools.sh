#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Says what is missing to build Torpor, one line each with how to get it. Prints the Python to use.
set -u
PATH="$PATH:$HOME/.cargo/bin"
is_missing=0

missing() {
    echo "missing: $1; install it with: $2" >&2
    is_missing=1
}

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo "

# Debian 12 ships Rust 1.63, so apt is no help here.
rust=$(rustc --version 2>/dev/null | sed 's/^rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
if [ -z "$rust" ]; then
    missing "Rust 1.85 or newer" "rustup (https://rustup.rs), then open a new shell"
elif ! echo "$rust" | awk '{ exit !($1 > 1 || $2 >= 85) }'; then
    missing "Rust 1.85 or newer (found $(echo "$rust" | tr ' ' .))" \
        "rustup update (or rustup, https://rustup.rs)"
elif ! command -v cargo >/dev/null; then
    missing "cargo" "rustup (https://rustup.rs)"
fi

command -v "${CC:-cc}" >/dev/null || missing "a C compiler" "${as_root}apt-get install gcc libc6-dev"

python=
for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    missing "Python 3.10 or newer" "${as_root}apt-get install python3 python3-venv"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    missing "Python's venv module" "${as_root}apt-get install python3-venv"
fi

[ "$is_missing" = 0 ] || exit 1
echo "$python"
