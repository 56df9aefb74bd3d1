# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Plans a trial: what each file is for, the columns, and what runs if nothing is named."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torpor
from torpor import _engine
from torpor.ask.trial.base import Base
from torpor.ask.trial.series import Series, patched
from torpor.machine.catalog import OTHER, class_of
from torpor.results.kinds.trial import TrialFile

#: Governor of the kernel for a machine whose tick stops.
DEFAULT_GOVERNOR = "menu"
_GOVERNOR = re.compile(r"drivers/cpuidle/governors/(\w[\w-]*)\.c")
_GOVERNORS = "drivers/cpuidle/governors/"
#: Drivers whose files are tables of idle states.
_TABLES = re.compile(r"drivers/idle/.*\.c|drivers/cpuidle/cpuidle-.*\.c")

#: Machines of the standing set by their class, with what runs on each.
MACHINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "phones": ("pixel6", ("frames", "requests")),
    "desktops": ("i5-10600k", ("requests", "clients")),
    "servers": ("rome-7502", ("requests", "clients")),
    "boards": ("rk3399", ("frames", "clients")),
}


@dataclass(frozen=True)
class Column:
    """A base with some of the patches, by the names that the engine reads."""

    label: str
    patches: tuple[int, ...]
    subject: str
    #: Kernel of its simulations.
    kernel: str
    #: Source of each governor that the series changes.
    governors: dict[str, str] = field(default_factory=dict)
    #: Whether code that runs here changes from the column before.
    has_effect: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """What it runs: equal for columns with the same code."""
        return (self.kernel, *self.governors.values())


def files_of(
    series: Series, base: Base, hz: int, progress: Callable[[str, int, int], None] | None
) -> list[TrialFile]:
    """Return what each file of a series is for."""
    paths = series.paths()
    inputs: set[str] = set()
    if any(_may_be_hosted(path) for path in paths):
        inputs = set(_engine.hosted_inputs(base.spec, hz, progress))
    return [_file(path, inputs) for path in paths]


def _may_be_hosted(path: str) -> bool:
    return path.endswith((".c", ".h")) and not path.startswith(_GOVERNORS)


def _file(path: str, inputs: set[str]) -> TrialFile:
    if path.startswith(_GOVERNORS) and path.endswith((".c", ".h")):
        return {"path": path, "effect": "governor", "why": "replayed and simulated"}
    if path in inputs:
        return {"path": path, "effect": "hosted", "why": "compiled or read by the hosted kernel"}
    why = "the hosted kernel does not have it"
    if _TABLES.fullmatch(path):
        why = "a table of idle states: needs a platform file"
    elif not path.endswith((".c", ".h")):
        why = "no code"
    return {"path": path, "effect": "none", "why": why}


def governors_of(files: Sequence[TrialFile]) -> list[str]:
    """Return the governors that a series changes; those of the kernel for a header of all."""
    named = [found[1] for f in files if (found := _GOVERNOR.fullmatch(f["path"]))]
    has_header = any(f["effect"] == "governor" and f["path"].endswith(".h") for f in files)
    return named or (["menu", "teo"] if has_header else [])


def columns_of(
    series: Series, base: Base, files: Sequence[TrialFile], how: str = "cumulative"
) -> list[Column]:
    """Return the columns: ``cumulative``, ``last`` or ``each``."""
    effect = {f["path"]: f["effect"] for f in files}
    size, names = len(series.patches), governors_of(files)
    added = added_by(series)
    kinds: list[set[str]] = [
        {effect[f["path"]] for f in patch["files"]} for patch in series.patches
    ]

    def sources_at(place: int, tree: str) -> dict[str, str]:
        """Name each governor's source; before its file is there, the default one's."""
        return {
            name: f"{name if place >= added.get(name, 0) else DEFAULT_GOVERNOR}@{tree}"
            for name in names
        }

    columns = [Column("base", (), base.name, base.spec, sources_at(0, base.spec))]
    if how == "each":
        return [*columns, *_alone(series, base, kinds, names)]
    # A column's kernel and governor are those of the last patch that changes one.
    kernel = source = base.spec
    has_effect = False
    numbers = [patch["number"] for patch in series.patches]
    for place, (patch, own) in enumerate(zip(series.patches, kinds, strict=True), 1):
        number = patch["number"]
        whole = patched(base.spec, series.path, numbers[0], number)
        kernel = whole if "hosted" in own else kernel
        source = whole if "governor" in own else source
        has_effect = own != {"none"} or (how == "last" and has_effect)
        if how == "last" and place < size:
            continue
        subject = f"all {size} patches" if how == "last" and size > 1 else patch["subject"]
        sources, upto = sources_at(number, source), tuple(numbers[:place])
        columns.append(Column(f"+{number}", upto, subject, kernel, sources, has_effect))
    return columns


def _alone(
    series: Series, base: Base, kinds: Sequence[set[str]], names: Sequence[str]
) -> Iterator[Column]:
    """Yield a column for each patch alone."""
    for patch, own in zip(series.patches, kinds, strict=True):
        number = patch["number"]
        whole = patched(base.spec, series.path, number, number)
        kernel = whole if "hosted" in own else base.spec
        tree = whole if "governor" in own else base.spec
        sources = {name: f"{name}@{tree}" for name in names}
        yield Column(f"{number}", (number,), patch["subject"], kernel, sources, own != {"none"})


def added_by(series: Series) -> dict[str, int]:
    """Return the governors that a series adds, and the number of the patch that does."""
    return {
        found[1]: patch["number"]
        for patch in series.patches
        for file in patch["files"]
        if file["kind"] == "add" and (found := _GOVERNOR.fullmatch(file["path"]))
    }


@dataclass(frozen=True)
class Scenario:
    """What runs under each governor of each column."""

    kind: str
    machines: str
    platform: str
    #: A file, or a workload.
    source: str
    #: Whether it replays a recording of this workload, made by a simulation.
    is_made: bool = False


def scenarios_of(
    recordings: Sequence[str],
    platforms: Sequence[str],
    workloads: Sequence[str],
    *,
    is_replayed: bool,
) -> list[Scenario]:
    """Return what runs: what was named, and the standing set for what was not."""
    machines = {p: (_several(class_of(p)), workloads) for p in platforms} or {
        platform: (name, workloads or own) for name, (platform, own) in MACHINES.items()
    }
    # Who names recordings alone asks for no simulation, and the other way round.
    has_simulations = bool(workloads) or not recordings
    has_replays = is_replayed and (bool(recordings) or not workloads)
    found = []
    for platform, (name, own) in machines.items():
        if has_replays:
            taken = recordings or shipped_recordings()
            found += [Scenario("replay", name, platform, source) for source in taken]
        own = own or MACHINES.get(name, MACHINES["desktops"])[1]
        if has_replays and not recordings:
            found.append(Scenario("replay", name, platform, own[0], is_made=True))
        if has_simulations:
            found += [Scenario("simulation", name, platform, source) for source in own]
    return found


def _several(kind: str) -> str:
    """Return the machines of a class in words."""
    return "machines" if kind == OTHER else f"{kind}s"


def shipped_recordings() -> list[str]:
    """Return the recordings that the package, or the checkout around it, has."""
    folder = Path(torpor.__file__).parent / "demo"
    return [str(path) for path in sorted(folder.glob("*.perf.data"))]
