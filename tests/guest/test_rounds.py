# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors come and go, many times, while the machine works and CPUs go offline and online."""

import fnmatch
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from apparatus import build, machine
from machines import here

#: One round of all governors takes about 3 s; of one, a tenth of that.
ROUNDS = os.environ.get("TORPOR_GUEST_ROUNDS")

#: Limits the tests to one governor, by its file's name.
GOVERNOR = os.environ.get("TORPOR_GUEST_GOVERNOR", "*")


@pytest.mark.skipif(not ROUNDS, reason="not run, because TORPOR_GUEST_ROUNDS is not set (1000)")
def test_governors_come_and_go(kernel, modules):
    script = Path(__file__).with_name("rounds.sh").read_text(encoding="utf-8")
    pattern = re.sub("[-.]", "_", GOVERNOR)
    governors = fnmatch.filter(modules, f"torpor_t_{pattern}")
    assert governors, f"no governor {GOVERNOR}"
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        **{f"bin/{name}": path for name, path in here(build.programs, kernel.arch).items()},
    }
    settings = f"ROUNDS={ROUNDS} STATES={machine.STATES[kernel.arch]} GOVERNORS='{pattern}'\n"
    result = machine.run(kernel, settings + script, files, timeout_s=300 + 10 * int(ROUNDS))
    assert result.status == 0, result.console[-2000:]
    assert result.text("rounds").strip() == ROUNDS
    assert len(result.text("used").split()) == int(ROUNDS) * len(governors)
    assert len(result.text("hotplugs").split()) >= int(ROUNDS)
    expired = Counter()
    for line in result.files.get("timers", b"").decode().splitlines():
        name, _, idle, busy = line.split()
        expired[name] += int(idle) + int(busy)
    print(expired)
    assert expired["t-tide"] > 0 or "torpor_t_tide" not in governors
    assert "unloaded_in_use" not in result.files
    assert result.complaints == []
