#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Makes the simulated recordings of the contest's corpus, next to this script. With another engine
# they become others; the corpus knows those in the tree by their SHA-256.
#
# Usage: TORPOR=build/venv/bin/torpor tests/data/simulated/make.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
studies=$here/../../../lab/torpor_lab/studies/workloads

record() {
	name=$1
	shift
	"${TORPOR:-torpor}" simulate "$@" -g teo --seeds 1 --seed 11 --trace "$here/$name.txt" >"$here/$name.log"
	rm "$here/$name.log"
	gzip -9 --no-name --force "$here/$name.txt"
}

record server requests -p i5-10600k --background background-vm --duration 500ms
record desktop frames -p i5-10600k --background background-vm --duration 2s
record laptop "$studies/video.toml" -p kabylake-i7-7500u --background background-vm --duration 2s
record phone "$studies/browsing.toml" -p pixel6 --duration 2s
record board fio-randread -p rk3399 --duration 500ms
