#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# release.sh: makes all files of a release in build/dist, with their checksums; publishes nothing.
#
# From a clean tree of the version that CHANGELOG.md begins with: the sdist, wheels for x86-64 and
# aarch64, the lab's wheel, the corresponding source of the kernel's images, and with buildah and root
# a container image. The aarch64 wheel takes gcc-aarch64-linux-gnu and Rust's target.
set -eu
cd "$(dirname "$0")/.."
dist=build/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
first=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)

refuse() { echo "no release: $1" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes; commit them, or remove them"
echo "$first" | grep -qx "$version - 20[0-9][0-9]-[01][0-9]-[0-3][0-9]" ||
    refuse "CHANGELOG.md begins with \`$first\`: expected \`$version - YEAR-MONTH-DAY\`"
grep -qx "version = \"$version\"" lab/pyproject.toml ||
    refuse "lab/pyproject.toml has another version than Cargo.toml's $version"
tagged=$(git tag --list "v$version")
[ -z "$tagged" ] || [ "$(git rev-parse "v$version^{commit}")" = "$(git rev-parse HEAD)" ] ||
    refuse "v$version is another commit: the next release has a version of its own"
command -v aarch64-linux-gnu-gcc >/dev/null || refuse "install gcc-aarch64-linux-gnu"

rustup target add aarch64-unknown-linux-gnu 2>/dev/null
scripts/wheel.sh x86_64 aarch64
if command -v buildah >/dev/null && command -v mmdebstrap >/dev/null && [ "$(id -u)" = 0 ]; then
    scripts/container.sh
else
    echo "no container image: it takes root, buildah and mmdebstrap" >&2
fi

cd $dist
sha256sum -- * | grep -v ' SHA256SUMS$' >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS
echo "Torpor $version, in $dist:"
du -b -- * | awk '{ printf "%8.1f MB  %s\n", $1 / 1e6, $2 }'
