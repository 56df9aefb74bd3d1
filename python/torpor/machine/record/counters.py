# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's own counters, as `grep .` prints a folder: what people mail one another."""

import re
from collections.abc import Iterator
from pathlib import Path

from torpor.machine.record.machine import Machine, read


def dump(machine: Machine) -> str:
    """Return `PATH:VALUE` lines of every idle state of every CPU, and of the governor."""
    lines = []
    for path in _files(machine):
        name = "/" / path.relative_to(machine.root)
        lines += [f"{name}:{line}" for line in (read(path) or "").splitlines() if line]
    return "".join(f"{line}\n" for line in lines)


def _files(machine: Machine) -> Iterator[Path]:
    yield from _sorted(machine.cpu_dir / "cpuidle", "*")
    for cpu in machine.cpus():
        for state in _sorted(machine.cpu_dir / f"cpu{cpu}/cpuidle", "state*"):
            yield from (path for path in _sorted(state, "*") if path.is_file())


def _sorted(folder: Path, pattern: str) -> list[Path]:
    """Sort by number where names have one: state10 after state9."""

    def key(path: Path) -> tuple[str, int]:
        stem, number = re.fullmatch(r"(.*?)(\d*)", path.name).groups()  # type: ignore[union-attr]
        return stem, int(number or 0)

    return sorted(folder.glob(pattern), key=key)
