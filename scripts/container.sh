#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# container.sh [WHEEL]: builds the Containerfile's image, and uses it, with no registry and no daemon.
#
# The base image is made by mmdebstrap under the name that the Containerfile asks for; buildah runs
# each step in a chroot. WHEEL is by default the one that scripts/wheel.sh left in build/dist, where
# the image lands as an OCI archive. Needs root, buildah, mmdebstrap and a network; everything else
# stays in build/container.
set -eu
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:-$(echo build/dist/*"$(uname -m)".whl)}")
place=$PWD/build/container
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
in_store() { buildah --root "$place/store" --runroot "$place/run" "$@"; }
base=$(sed -n 's/^FROM //p' Containerfile)
suite=trixie

mkdir -p "$place/context/build/dist"
if ! in_store inspect --type image "$base" >/dev/null 2>&1; then
    echo "base image: $base, of mmdebstrap's $suite"
    mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Languages "none"' "$suite" "$place/base.tar"
    container=$(in_store from scratch)
    in_store add --quiet "$container" "$place/base.tar" / >/dev/null
    in_store commit --quiet --rm "$container" "$base" >/dev/null
    rm "$place/base.tar"
fi

cp Containerfile "$place/context/"
rm -f "$place/context/build/dist/"*
cp "$wheel" "${wheel%/*}"/torpor_lab-*.whl "$place/context/build/dist/"
# A proxy with a certificate of its own has it there; where apt does not replace it.
printf '[global]\ncert = /mnt/certificates\n' >"$place/pip.conf"
in_store build --pull-never --volume "$place/pip.conf:/etc/pip.conf:ro" \
    --volume /etc/ssl/certs/ca-certificates.crt:/mnt/certificates:ro \
    --tag torpor "$place/context" >"$place/log" 2>&1 || { tail -40 "$place/log" >&2; exit 1; }
version=$(basename "$wheel" | cut -d - -f 2)
in_store push --quiet torpor "oci-archive:$PWD/build/dist/torpor-$version-$(uname -m).oci.tar:torpor:$version"
echo "built: $(in_store images --format '{{.Name}} {{.Size}}' torpor)"

container=$(in_store from --pull-never torpor)
trap 'in_store rm "$container" >/dev/null' EXIT
# Runs what `podman run torpor ARGUMENTS` runs: the entry point, as the image's user.
entry=$(in_store inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$container")
torpor() { in_store run --volume "$PWD/demo:/work:ro" "$container" -- "$entry" "$@"; }
torpor --version
torpor replay web-server.perf.data --platform pixel6 >"$place/table.txt"
grep 'idle power' "$place/table.txt"
torpor simulate frames -p pixel6 --duration 100ms >"$place/table.txt"
grep 'passes' "$place/table.txt"
in_store run --volume "$PWD/governors/cpuidle:/work:ro" "$container" -- "$entry" governor check \
    ./teo.c --decisions 300
status=0
torpor doctor >"$place/doctor.txt" || status=$?
sed -n 1,12p "$place/doctor.txt"
[ "$status" -le 1 ]
