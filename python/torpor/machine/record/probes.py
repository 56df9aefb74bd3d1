# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Return probes: the kernel's answers to its governor, and the governor's decisions.

They make a verification exact. They are the only thing outside the recorder's own tracefs instance:
dynamic events belong to the whole machine, so they carry the recorder's PID and are removed again.
"""

import os
from pathlib import Path

from torpor.machine.record import owner
from torpor.machine.record.errors import WriteError, write

#: The function, and how its return value is stored.
PROBES = {
    "tick_nohz_get_sleep_length": "s64",
    "cpuidle_select": "s32",
    "rcu_needs_cpu": "u8",
}

#: Function-entry probes cost least; kretprobes are what kernels before 6.5 have.
DEFINITIONS = (
    "f:{group}/{function} {function}%return ret=$retval:{type}",
    "r:{group}/{function} {function} ret=$retval:{type}",
)


class ReturnProbes:
    """Sets the probes up on entry, and takes them away on exit."""

    def __init__(self, tracefs: Path) -> None:
        self._file = definitions_file(tracefs)
        #: Watched events, as SYSTEM:EVENT.
        self.names: list[str] = []
        #: Events that are not watched, and why.
        self.notes: list[str] = []

    def __enter__(self) -> "ReturnProbes":
        if self._file is None:
            self.notes.append("no return probes: this kernel has no dynamic events")
            return self
        try:
            for function, type_ in PROBES.items():
                self._add(self._file, function, type_)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self.names and self._file is not None:
            remove(self._file, self.names.pop().replace(":", "/"))

    def _add(self, file: Path, function: str, type_: str) -> None:
        group = owner.probe_group()
        reason = ""
        for definition in DEFINITIONS:
            line = definition.format(group=group, function=function, type=type_)
            try:
                _append(file, line)
            except WriteError as error:
                reason = error.reason
                continue
            self.names.append(f"{group}:{function}")
            return
        self.notes.append(f"no return probe on {function}: {reason}")


def definitions_file(tracefs: Path) -> Path | None:
    """Return the file that takes definitions of dynamic events, by either name it has had."""
    files = (tracefs / name for name in ("dynamic_events", "kprobe_events"))
    return next((file for file in files if file.exists()), None)


def remove(file: Path, event: str) -> None:
    """Remove a dynamic event, GROUP/EVENT."""
    _append(file, f"-:{event}")


def _append(file: Path, line: str) -> None:
    # To open the file with O_TRUNC, as `>` does, removes everybody's dynamic events.
    write(file, f"{line}\n", os.O_APPEND)
