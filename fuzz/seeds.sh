#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Writes the seeds of every target to fuzz/corpus. Needs `torpor` in PATH, to record simulations.
set -eu
cd "$(dirname "$0")"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for workload in frames idle-predict; do
    for end in perfetto-trace txt; do
        torpor simulate "$workload" -p pixel6 -g menu --duration 200ms --seeds 1 \
            --trace "$made/$workload.$end" >/dev/null
    done
done
python3 make_seeds.py corpus/perfetto "$made"/*.perfetto-trace
python3 make_seeds.py corpus/perf_data ../crates/torpor-trace/tests/data/*.data
cargo run --release --manifest-path ../Cargo.toml -p torpor-trace --example perf_seeds -- corpus/perf_data
cargo run --release --manifest-path ../Cargo.toml -p torpor-trace --example dat_seeds -- corpus/trace_dat
python3 make_seeds.py corpus/ftrace_text ../crates/torpor-trace/tests/data/*.txt "$made"/*.txt
python3 make_packed.py corpus/packed ../crates/torpor-trace/tests/data/*.txt
python3 make_dumps.py corpus/counters
python3 make_mails.py corpus/patches
mkdir -p corpus/device_tree
cp ../crates/torpor-machine/tests/data/*.dtb corpus/device_tree
