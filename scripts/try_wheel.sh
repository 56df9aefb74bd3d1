#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# try_wheel.sh WHEEL [PYTHON]: installs a wheel into an empty venv, and uses it where no compiler is.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "$1")
python=$(command -v "${2:-python3}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$python" -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "$wheel"
cd "$place"
# Nothing but the venv is in reach: what starts a compiler fails.
run() { env -i PATH="$place/venv/bin" HOME="$place" LC_ALL=C.UTF-8 "$place/venv/bin/torpor" "$@"; }
run --version
run governor list >governors.txt
sed -n 1,4p governors.txt
run replay "$root/demo/web-server.perf.data" --platform pixel6 --report report.html >table.txt
grep 'idle power' table.txt
run simulate frames -p pixel6 -g menu -g teo --duration 100ms >table.txt
grep -m 1 'passes' table.txt
# Each tick rate has an image.
for hz in 100 300 1000; do
    run simulate frames -p "pixel6,hz=$hz" -g menu --duration 20ms >table.txt
done
test -s report.html
# With the lab, if its wheel lies next to it.
for lab in "${wheel%/*}"/torpor_lab-*.whl; do
    [ -e "$lab" ] || continue
    run study run >table.txt 2>&1 && { echo "there is a lab before it is installed" >&2; exit 1; }
    "$place/venv/bin/pip" install --quiet --no-deps "$lab"
    run study run >table.txt
    grep pixel6-teo table.txt
done
status=0
run doctor >doctor.txt || status=$?
cat doctor.txt
[ "$status" -le 1 ]
