# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Idle states of the running machine: which there are, what they counted, and one at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torpor.machine.calibration.errors import CalibrationError
from torpor.machine.kernel.system import System
from torpor.machine.record.machine import read


class Cluster(NamedTuple):
    """CPUs with the same idle states."""

    name: str
    cpus: list[int]
    #: In the platform's order, each with its index in sysfs, without states that are off by
    #: default.
    states: list[tuple[int, str]]


class Counts(NamedTuple):
    """Counters of a cluster's CPUs, summed."""

    #: By state: time in it, in s, and entries.
    times_s: list[float]
    entries: list[int]


class Pins:
    """Switches idle states off, and restores them at exit."""

    def __init__(self, system: System, clusters: Sequence[Cluster]) -> None:
        self._system = system
        self._files = {
            (cpu, state): self._folder(cpu, state) / "disable"
            for cluster in clusters
            for cpu in cluster.cpus
            for state, _ in cluster.states
        }
        self._before: dict[tuple[int, int], str] = {}

    def __enter__(self) -> "Pins":
        for key, file in self._files.items():
            text = read(file)
            if text is None:
                raise CalibrationError(f"`{file}` cannot be read")
            self._before[key] = text
        return self

    def __exit__(self, *_: object) -> None:
        for key, text in self._before.items():
            try:
                self._write(self._files[key], text)
            except CalibrationError as error:
                self._system.unrestored.append(str(error))

    def pin(self, cluster: Cluster, place: int) -> None:
        """Leave one state to a cluster's CPUs, by its place in the cluster's states."""
        wanted, _ = cluster.states[place]
        # On before off, so that a CPU has a state at any time.
        for is_off in (False, True):
            for cpu in cluster.cpus:
                for state, _ in cluster.states:
                    if (state != wanted) == is_off:
                        self._write(self._files[cpu, state], "1" if is_off else "0")

    def counts(self, cluster: Cluster) -> Counts:
        times_s, entries = [], []
        for state, _ in cluster.states:
            folders = [self._folder(cpu, state) for cpu in cluster.cpus]
            times_s.append(sum(_count(folder / "time") for folder in folders) / 1e6)
            entries.append(sum(_count(folder / "usage") for folder in folders))
        return Counts(times_s, entries)

    def _folder(self, cpu: int, state: int) -> Path:
        return self._system.machine.cpu_dir / f"cpu{cpu}/cpuidle/state{state}"

    def _write(self, file: Path, text: str) -> None:
        if self._system.is_dry_run:
            return
        try:
            file.write_text(text)
        except OSError as error:
            raise CalibrationError(f"write `{text}` to `{file}`: {error.strerror}") from error


def _count(file: Path) -> int:
    text = read(file)
    if text is None or not text.isdigit():
        raise CalibrationError(f"`{file}`: expected a count, found `{text}`")
    return int(text)
