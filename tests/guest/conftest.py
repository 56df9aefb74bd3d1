# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Guests, each booted once for all tests that look at it."""

from pathlib import Path

import pytest

from apparatus import build, machine, packages
from machines import here


@pytest.fixture(scope="session", params=["amd64", "arm64"])
def kernel(request) -> packages.Kernel:
    """Debian's kernel 6.12 for an architecture."""
    return here(packages.fetch, request.param, "6.12")


@pytest.fixture(scope="session")
def modules(kernel) -> dict[str, Path]:
    """All our modules, built for the kernel without a warning."""
    return here(build.modules, kernel)


@pytest.fixture(scope="session")
def guest(kernel, modules) -> machine.Result:
    """Return the guest that governors.sh ran in."""
    programs = here(build.programs, kernel.arch)
    script = Path(__file__).with_name("governors.sh").read_text(encoding="utf-8")
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        **{f"mod/{name}.ko": here(kernel.module, name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in programs.items()},
    }
    result = here(machine.run, kernel, f"STATES={machine.STATES[kernel.arch]}\n{script}", files)
    print(f"{kernel.release}: {result.wall_s:.0f} s")
    return result
