# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Energy by what the machine has: RAPL, a hwmon sensor, or the battery."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from torpor.machine.calibration.errors import CalibrationError
from torpor.machine.kernel.rapl import POWERCAP
from torpor.machine.kernel.rapl import Meter as Rapl
from torpor.machine.record.machine import Machine, read

_HWMON = "/sys/class/hwmon"
_BATTERIES = "/sys/class/power_supply"

#: A counter of 32 bits in units of 15 µJ comes round in a minute at a kilowatt.
_LOOK_COUNTER_S = 10.0
#: Sensors average over so long, or longer.
_LOOK_POWER_S = 0.1


class Meter(Protocol):
    """Adds up energy between two looks."""

    #: Name for the source of a number.
    name: str
    #: Longest time between two looks at it, in s.
    look_s: float

    def update(self, now_s: float) -> None: ...

    def energy_uj(self) -> float: ...


class _OfRapl:
    """All packages; what they take apart from cores is the same under every state."""

    def __init__(self, machine: Machine) -> None:
        self._meter = Rapl(machine)
        self.look_s = _LOOK_COUNTER_S
        self.name = "RAPL, all packages"
        self.is_there = "package" in self._meter.energy_uj
        self.is_hidden = bool(self._meter.unreadable)

    def update(self, now_s: float) -> None:
        self._meter.update()

    def energy_uj(self) -> float:
        if "package" not in self._meter.energy_uj:
            raise CalibrationError("the RAPL counter could not be read any more")
        return float(self._meter.energy_uj["package"])


class _OfCounter:
    """A sensor's energy counter, in µJ."""

    def __init__(self, file: Path, name: str) -> None:
        self.name = name
        self.look_s = _LOOK_COUNTER_S
        self._file = file
        self._now = self._first = _number(file)

    def update(self, now_s: float) -> None:
        self._now = _number(self._file)

    def energy_uj(self) -> float:
        return self._now - self._first


class _OfPower:
    """A power sensor, in µW: two readings are taken as the power in between."""

    def __init__(self, power_uw: Callable[[], float], name: str) -> None:
        self.name = name
        self.look_s = _LOOK_POWER_S
        self._power_uw = power_uw
        self._last: tuple[float, float] | None = None
        self._energy_uj = 0.0

    def update(self, now_s: float) -> None:
        power_uw = self._power_uw()
        if self._last is not None:
            then_s, before_uw = self._last
            self._energy_uj += (now_s - then_s) * (power_uw + before_uw) / 2
        self._last = now_s, power_uw

    def energy_uj(self) -> float:
        return self._energy_uj


def find(machine: Machine, wanted: str = "auto") -> Meter:
    """Return the meter of that name: ``rapl``, ``hwmon``, ``battery``, or a file of either's kind.

    ``auto`` takes the first of the three that exists. Raises :class:`CalibrationError` if there
    is none.
    """
    rapl = _OfRapl(machine)
    if wanted in ("auto", "rapl") and rapl.is_there:
        return rapl
    places = {
        "hwmon": (_hwmon, machine.path(_HWMON)),
        "battery": (_battery, machine.path(_BATTERIES)),
    }
    for kind, (look, folder) in places.items():
        if wanted in ("auto", kind) and (found := next(look(folder), None)) is not None:
            return found
    if "/" in wanted:
        return _of_file(Path(wanted))
    if rapl.is_hidden and wanted in ("auto", "rapl"):
        raise CalibrationError("RAPL counters are readable by root only", "use sudo")
    kinds = (
        f"RAPL ({POWERCAP}), no sensor of power or energy ({_HWMON}), and no battery that reports "
        f"its power ({_BATTERIES})"
    )
    raise CalibrationError(
        f"nothing here measures energy: no {kinds}" if wanted == "auto" else f"no `{wanted}` here",
        "RAPL requires the module intel_rapl_msr and, in most cases, no virtual machine; "
        "--meter FILE names another sensor's `energy1_input` (µJ) or `power1_input` (µW)",
    )


def _of_file(file: Path) -> Meter:
    _number(file)
    if file.name.startswith("energy"):
        return _OfCounter(file, str(file))
    if file.name.startswith("power"):
        return _OfPower(lambda: _number(file), str(file))
    raise CalibrationError(
        f"`{file}`: expected a file named `energy…` (µJ) or `power…` (µW), as hwmon has them"
    )


def _hwmon(folder: Path) -> Iterator[Meter]:
    """INA2xx and others; a counter of energy before a sensor of power."""
    for kind in ("energy", "power"):
        for file in sorted(folder.glob(f"hwmon*/{kind}*_input")):
            chip = read(file.parent / "name") or file.parent.name
            label = read(file.parent / file.name.replace("_input", "_label")) or file.name
            meter = _of_file(file)
            meter.name = f"hwmon {chip}, {label}"
            yield meter


def _battery(folder: Path) -> Iterator[Meter]:
    """While it discharges, its power is the whole machine's."""
    for supply in sorted(folder.glob("*")):
        if read(supply / "type") != "Battery" or read(supply / "status") != "Discharging":
            continue
        name = f"battery {supply.name}, the whole machine"
        if (power := supply / "power_now").exists():
            yield _OfPower(lambda power=power: _number(power), name)  # type: ignore[misc]
        elif (current := supply / "current_now").exists():
            voltage = supply / "voltage_now"
            yield _OfPower(lambda c=current, v=voltage: _number(c) * _number(v) / 1e6, name)  # type: ignore[misc]


def _number(file: Path) -> float:
    text = read(file)
    try:
        return float(text or "")
    except ValueError:
        problem = "cannot be read" if text is None else f"says `{text}`, which is not a number"
        raise CalibrationError(f"`{file}` {problem}") from None
