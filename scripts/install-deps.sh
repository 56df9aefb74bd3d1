#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# install-deps.sh VENV [EXTRA]: makes VENV and installs what pyproject.toml asks for, Torpor not yet.
set -eu
venv=$1
extra=${2:-}

# A folder that an interrupted run left behind, or whose Python is gone, is no venv.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(scripts/check-tools.sh)
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    echo "set up: $venv ($("$python" --version))"
    "$python" -m venv "$venv"
fi

# Python 3.10 reads no TOML, and pip no extras of a project alone: so ask for both by hand.
"$venv/bin/python" - "$extra" >build/requirements.txt <<'EOF'
import re, sys
texts = [open(name, encoding="utf-8").read() for name in ("pyproject.toml", "lab/pyproject.toml")]
def listed(key):
    found = [re.search(rf"^{key} = \[(.*?)\]$", text, re.M | re.S) for text in texts]
    names = [name for each in filter(None, found) for name in re.findall(r'"([^"]+)"', each[1])]
    # Torpor's own packages come last, from here.
    return [name for name in names if not name.startswith("torpor")]
names = listed("requires") + listed("dependencies")
if sys.argv[1]:
    names += listed(sys.argv[1])
print("\n".join(names))
EOF
echo "set up: Python packages"
"$venv/bin/python" -m pip install --quiet -r build/requirements.txt
