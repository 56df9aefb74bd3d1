# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Energy as the processor counts it (RAPL), by the kernel's powercap."""

import re
from dataclasses import dataclass
from pathlib import Path

from torpor.machine.record.machine import Machine, read

POWERCAP = "/sys/class/powercap"

#: A zone is `intel-rapl:N` (a package, or psys: the platform) or `intel-rapl:N:M` within one. AMD's
#: have the same name. Of those within, only dram is not part of the package's figure.
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
_KINDS = {"package": "package", "dram": "dram", "psys": "platform"}


@dataclass
class _Zone:
    kind: str
    file: Path
    range_uj: int
    last_uj: int


class Meter:
    """Adds up what the zones count; each counter starts again at its range."""

    def __init__(self, machine: Machine) -> None:
        self._zones: list[_Zone] = []
        #: Microjoules since the start by `package`, `dram` and `platform`, those there are.
        self.energy_uj: dict[str, int] = {}
        #: Zones that did not let themselves be read.
        self.unreadable: list[str] = []
        for folder in sorted(machine.path(POWERCAP).glob("intel-rapl:*")):
            kind = _KINDS.get((read(folder / "name") or "").partition("-")[0])
            if kind is None or not _ZONE.fullmatch(folder.name):
                continue
            now, most = read(folder / "energy_uj"), read(folder / "max_energy_range_uj")
            if now is None or most is None:
                self.unreadable.append(folder.name)
                continue
            self._zones.append(_Zone(kind, folder / "energy_uj", int(most), int(now)))
            self.energy_uj[kind] = 0

    def update(self) -> None:
        """Take what was counted since; often enough that no counter comes round twice."""
        for zone in self._zones:
            text = read(zone.file)
            if text is None:
                # Half a sum would be a wrong figure.
                self.energy_uj.pop(zone.kind, None)
                continue
            now_uj = int(text)
            grown_uj = now_uj - zone.last_uj
            if grown_uj < 0:
                grown_uj += zone.range_uj
            if zone.kind in self.energy_uj:
                self.energy_uj[zone.kind] += grown_uj
            zone.last_uj = now_uj
