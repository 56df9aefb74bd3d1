# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every governor and driver in a kernel that looks for mistakes: lockdep, KASAN and UBSAN."""

import os
from pathlib import Path

import pytest

from apparatus import build, machine, sanitized
from machines import here

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(
    not os.environ.get("TORPOR_GUEST_SANITIZED"),
    reason="not run, because TORPOR_GUEST_SANITIZED is not set; it builds a kernel",
)

ROUNDS = 5


def run(name: str, settings: str) -> machine.Result:
    """Run a script that stock kernels run, too."""
    kernel = here(sanitized.build)
    files = {
        **{f"mod/{name}.ko": path for name, path in here(build.modules, kernel).items()},
        **{f"mod/{name}.ko": kernel.module(name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in here(build.programs, kernel.arch).items()},
    }
    script = f"STATES={machine.STATES[kernel.arch]}\n{settings}\n"
    script += (HERE / name).read_text(encoding="utf-8")
    return machine.run(kernel, script, files, memory_mb=1024, timeout_s=1800)


def test_nothing_is_found_while_governors_work():
    result = run("governors.sh", "")
    assert result.status == 0, result.console[-2000:]
    assert result.complaints == []
    assert result.text("left") == ""


def test_nothing_is_found_while_governors_come_and_go():
    result = run("rounds.sh", f"ROUNDS={ROUNDS}")
    assert result.status == 0, result.console[-2000:]
    assert result.text("rounds").strip() == str(ROUNDS)
    assert result.complaints == []


def test_the_kernel_does_look():
    kernel = here(sanitized.build)
    result = machine.run(kernel, "dmesg > /out/boot", {}, memory_mb=1024, timeout_s=600)
    assert "Lock dependency validator" in result.text("boot")
    assert "KernelAddressSanitizer initialized" in result.text("boot")
