#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# wheel.sh [ARCHITECTURE]...: builds the sdist and, from it alone, wheels for Linux; audits and tries them.
#
# A wheel has images of the default kernel for its architecture, and there is none without them;
# their corresponding source lands next to it. It is for any CPython from 3.10 on (abi3) and an old
# C library: zig links against the glibc that $GLIBC names. All land in build/dist, and so does the
# wheel of the lab. A wheel of this machine's architecture is installed into an empty venv, where no
# compiler is found, and has to give a first table.
set -eu
cd "$(dirname "$0")/.."
. scripts/followed.sh
architectures=${*:-$(uname -m)}
glibc=${GLIBC:-2.17}
tag=manylinux_$(echo "$glibc" | tr . _)
tools=build/venv-wheel
dist=build/dist
unpacked=build/sdist
commit=$(git describe --always --dirty --abbrev=12 --exclude="*" 2>/dev/null || true)

[ -x $tools/bin/maturin ] || {
    "${PYTHON:-python3}" -m venv $tools
    $tools/bin/pip install --quiet 'maturin>=1.12,<2' ziglang auditwheel
}
PATH=$PWD/$tools/bin:$PATH
rm -rf $dist $unpacked
mkdir -p $dist $unpacked

echo "manual pages, types, reference"
make --no-print-directory install

echo "images of the default kernel"
scripts/kernel_images.py $(printf -- '--arch %s ' $architectures) --archive || {
    echo "no wheel: a wheel has an image of the default kernel for each tick rate, and those cannot be" \
        "built here; the reason is above" >&2
    exit 1
}

echo "sdist"
maturin sdist --out $dist >build/wheel.log 2>&1 || { cat build/wheel.log >&2; exit 1; }
# With the time of now: all files of an sdist are of one date, by which cargo sees no change.
tar -xmzf $dist/torpor-*.tar.gz -C $unpacked --strip-components 1

# build_wheel ARCHITECTURE: a wheel of the sdist, with what it has to hold.
build_wheel() {
    target=$1-unknown-linux-gnu
    # Policies are for no C library: what the machine has compiles them.
    policy_cc=${CC:-cc}
    [ "$1" = "$(uname -m)" ] || policy_cc=$1-linux-gnu-gcc
    echo "wheel for $target, glibc $glibc (log: build/wheel.log)"
    # In the folder of the sdist.
    followed build/wheel.log env --chdir=$unpacked TORPOR_KERNEL_IMAGES="$PWD/images" \
        TORPOR_COMMIT="$commit" TORPOR_POLICY_CC="$policy_cc" CARGO_TARGET_DIR=../../target/wheel \
        maturin build --release --locked --zig --target "$target" --compatibility "$tag" \
        --out ../dist || { tail -40 build/wheel.log >&2; exit 1; }
    wheel=$(echo $dist/torpor-*"$1".whl)
    # Whole: a listing that nobody reads to its end is an error of Python's.
    listed=$(python3 -m zipfile -l "$wheel")
    for file in README.md manifest.json $(cd images && echo ./*-"$1"-*.so); do
        echo "$listed" | grep -q "^torpor/kernels/${file#./} " || {
            echo "$wheel has no torpor/kernels/$file" >&2
            exit 1
        }
    done
    auditwheel show "$wheel" >build/wheel-audit.txt
    cat build/wheel-audit.txt
    grep -q "$tag" build/wheel-audit.txt || { echo "$wheel is not $tag" >&2; exit 1; }
}

for architecture in $architectures; do
    build_wheel "$architecture"
done

# The lab is Python alone: one wheel for all.
$tools/bin/python -m pip wheel --quiet --no-deps --wheel-dir $dist ./lab
# pip makes it for its user alone.
chmod a+r $dist/*

for wheel in $dist/torpor-*.whl; do
    case $wheel in *"$(uname -m)".whl) scripts/try_wheel.sh "$wheel" ;; esac
    echo "built: $wheel"
done
