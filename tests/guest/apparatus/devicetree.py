# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Additions to an emulated arm64 machine's device tree about its CPUs, for any kernel to read.

Idle states: QEMU answers PSCI's CPU_SUSPEND by waiting for an interrupt, as WFI does, and serves no
latency. Capacities: all of QEMU's CPUs are as fast, whatever is said of them.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .packages import NotHereError


@dataclass(frozen=True)
class IdleState:
    """A state below WFI. Bit 16 of `suspend_param` would be a power-down, which QEMU rejects."""

    name: str
    suspend_param: int
    entry_latency_us: int
    exit_latency_us: int
    min_residency_us: int


def edited(
    machine: list[str], states: tuple[IdleState, ...], capacities: tuple[int, ...], folder: Path
) -> Path:
    """Write the device tree of QEMU's `machine` (its command line), with these things added.

    `states` are those of all CPUs, and `capacities` the capacity-dmips-mhz of each. Raises
    NotHereError without the device tree compiler.
    """
    if not shutil.which("dtc"):
        raise NotHereError("dtc is not on this machine; it is in device-tree-compiler")
    plain, source, out = folder / "plain.dtb", folder / "machine.dts", folder / "machine.dtb"
    dump = [f"{word},dumpdtb={plain}" if word.startswith("virt") else word for word in machine]
    _run([*dump, "-display", "none"])
    _run(["dtc", "-q", "-I", "dtb", "-O", "dts", "-o", source, plain])
    text = source.read_text(encoding="utf-8")
    if states:
        text = _add_states(text, states)
    for cpu, capacity in enumerate(capacities):
        text = _add_to_cpu(text, f"{cpu:x}", f"capacity-dmips-mhz = <{capacity}>;")
    source.write_text(text, encoding="utf-8")
    _run(["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", out, source])
    return out


def _add_to_cpu(text: str, number: str, line: str) -> str:
    """Add a property to the CPU of this number, a regular expression."""
    return re.sub(rf"(cpu@{number} \{{\n)", rf"\1{line}\n", text)


def _add_states(text: str, states: tuple[IdleState, ...]) -> str:
    references = " ".join(f"&idle_{index}" for index in range(len(states)))
    text = _add_to_cpu(text, r"\w+", f"cpu-idle-states = <{references}>;")
    nodes = "".join(_node(index, state) for index, state in enumerate(states))
    # A node's properties come before its children, of which a CPU is the first or a later one.
    before, cpu, after = re.split(r"(\n\s*cpu@0 \{)", text, maxsplit=1)
    return f'{before}\nidle-states {{ entry-method = "psci";\n{nodes}}};\n{cpu}{after}'


def _node(index: int, state: IdleState) -> str:
    return f"""idle_{index}: {state.name} {{
        compatible = "arm,idle-state";
        idle-state-name = "{state.name}";
        arm,psci-suspend-param = <{state.suspend_param:#x}>;
        entry-latency-us = <{state.entry_latency_us}>;
        exit-latency-us = <{state.exit_latency_us}>;
        min-residency-us = <{state.min_residency_us}>;
    }};
    """


def _run(command: list) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
