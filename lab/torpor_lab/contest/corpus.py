# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The manifest of a corpus: which recordings, workloads and machines a contest is about."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from torpor import SweepError
from torpor.plugin import cause, file_hash, toml_file
from torpor_lab.studies.files import FOLDER as STUDIES

#: The corpus that ships.
SHIPPED = Path(__file__).parent / "corpus-v2.toml"
_Half = Literal["open", "held-out"]
#: Halves of the corpus: governors may be tuned on the first only.
HALVES = get_args(_Half)

_SUFFIXES = (
    *(".perf.data", ".data", ".dat", ".dat.gz", ".perfetto-trace", ".pftrace"),
    *(".html", ".txt", ".txt.gz"),
)

#: The class of replays on machines whose power is not known: shown, not scored with the others.
RELATIVE = "relative energy"
#: The class of simulations.
CLOSED_LOOP = "closed loop"
#: The class of machines some of whose states may not be used: a condition, not a part of the score.
RESTRICTED = "restricted"


@dataclass(frozen=True)
class Recording:
    """A recording, identified by the hash of its bytes. ``path`` is its place if it ships."""

    name: str
    half: _Half
    sha256: str
    licence: str
    machine: str
    hz: int
    #: Class of the time to the next timer, as a replay has it for most decisions.
    timers: Literal["recorded", "guessed", "none"]
    origin: Literal["machine", "guest", "simulated"]
    #: Class of load: each counts once, however many scenarios it has.
    load: str
    path: str = ""
    machines: tuple[str, ...] = ()
    #: Machines of the other classes that have fewer CPUs than it.
    not_on: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The class whose scores can be compared with its own."""
        return self.origin if self.timers == "recorded" else f"{self.origin}, timers guessed"

    @property
    def is_counted(self) -> bool:
        """Whether it counts in a score: without timers it says little of a governor."""
        return self.timers != "none"


@dataclass(frozen=True)
class Workload:
    """A workload that ships; with ``study``, one of a study."""

    name: str
    half: _Half
    load: str
    study: bool = False
    machines: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """As a recording's."""
        return CLOSED_LOOP

    @property
    def is_counted(self) -> bool:
        """As a recording's."""
        return True

    @property
    def source(self) -> str:
        """The name, or the file, as a simulation takes it."""
        return os.fspath(STUDIES / "workloads" / f"{self.name}.toml") if self.study else self.name


@dataclass(frozen=True)
class Variant:
    """A machine of the corpus that is another's with a restriction, or a file beside the corpus."""

    name: str
    platform: str
    disabled_states: tuple[str, ...] = ()
    latency_limit: str = ""


@dataclass(frozen=True)
class Scenario:
    """A recording or workload on a machine."""

    name: str
    half: str
    kind: str
    source: str
    machine: Variant
    #: Class of load.
    load: str
    #: Its class: where the recording comes from, or what the machine is.
    group: str = CLOSED_LOOP
    is_counted: bool = True

    @property
    def is_relative(self) -> bool:
        """Whether the machine's power is not known."""
        return self.group == RELATIVE


@dataclass(frozen=True)
class Corpus:
    """The corpus of a contest."""

    title: str
    version: int
    machines: tuple[str, ...]
    duration: str
    seeds: int
    recording: tuple[Recording, ...]
    workload: tuple[Workload, ...]
    #: Participants besides teo and the oracle.
    baselines: tuple[str, ...] = ()
    #: Machines whose power is not known, for replays.
    relative_machines: tuple[str, ...] = ()
    #: Machines among them that are virtual, for `haltpoll`.
    virtual_machines: tuple[str, ...] = ()
    #: Variants that make a class of their own.
    restricted_machines: tuple[str, ...] = ()
    variant: tuple[Variant, ...] = ()

    def scenarios(
        self,
        folders: Sequence[str | os.PathLike[str]] = (),
        *,
        half: str | None = None,
        only: Iterable[str] = (),
    ) -> tuple[list[Scenario], list[Recording]]:
        """Return what can be run, and the recordings that are in none of the folders.

        Args:
            folders: Where recordings are looked for: at their paths, as in the working directory,
                and by content, in all files that have a recording's suffix.
            half: ``open`` or ``held-out``; default: both.
            only: Patterns: only scenarios whose ``NAME, MACHINE`` or name matches one.

        Raises :class:`SweepError` for a recording at its path with other content, and for a
        pattern that matches none.
        """
        found: list[Scenario] = []
        missing = []
        patterns = list(only)
        matched: set[str] = set()
        variants = {variant.name: variant for variant in self.variant}

        def add(of: Recording | Workload, kind: str, source: str) -> None:
            places = [(machine, of.group) for machine in of.machines or self.machines]
            if isinstance(of, Recording):
                relative = [name for name in self.relative_machines if name not in of.not_on]
                places += [(name, RELATIVE) for name in relative]
                if not of.machines:
                    places += [(machine, RESTRICTED) for machine in self.restricted_machines]
            for name, group in places:
                hits = {p for p in patterns if _matches(of.name, name, p)}
                matched.update(hits)
                if hits or not patterns:
                    machine = variants.get(name) or Variant(name, name)
                    found.append(
                        Scenario(
                            *(of.name, of.half, kind, source, machine),
                            *(of.load, group, of.is_counted),
                        )
                    )

        by_hash: dict[str, str] | None = None
        for recording in self.recording:
            if half is not None and recording.half != half:
                continue
            path = _at_its_path(recording, [".", *folders])
            if path is None:
                by_hash = _by_content(folders) if by_hash is None else by_hash
                path = by_hash.get(recording.sha256)
            if path is None:
                missing.append(recording)
                matched.update(p for p in patterns if fnmatchcase(recording.name, p))
            else:
                add(recording, "replay", path)
        for workload in self.workload:
            if half is None or workload.half == half:
                add(workload, "simulation", workload.source)
        for pattern in patterns:
            if pattern not in matched:
                entries: list[Recording | Workload] = [*self.recording, *self.workload]
                names = [each.name for each in entries]
                raise SweepError(
                    f"no scenario of the corpus matches `{pattern}`: expected one of "
                    f"{', '.join(names)}, or NAME,MACHINE"
                )
        if patterns:
            missing = [r for r in missing if any(fnmatchcase(r.name, p) for p in patterns)]
        return found, missing


def read_corpus(path: str | os.PathLike[str] = SHIPPED) -> Corpus:
    """Read a manifest. Raises :class:`SweepError` that names the entry and what is allowed."""
    try:
        data = toml_file(path, Corpus, SweepError, "read corpus")
    except OSError as error:
        raise SweepError(f"read corpus `{path}`: {cause(error)}") from None
    kinds = {"recording": Recording, "workload": Workload, "variant": Variant}
    entries = {
        name: [_made(kind, row) for row in data.get(name, [])] for name, kind in kinds.items()
    }
    names = [entry.name for entry in entries["recording"] + entries["workload"]]
    for name in names:
        if names.count(name) > 1:
            raise SweepError(f"read corpus `{path}`: the name `{name}` is used twice")
    for place, variant in enumerate(entries["variant"]):
        if not re.fullmatch(r"(\d+us)?", variant.latency_limit):
            raise SweepError(
                f"read corpus `{path}`: {variant.name} has the latency_limit "
                f"`{variant.latency_limit}`: expected whole us, as 150us"
            )
        # A machine's file is beside the manifest.
        if (file := Path(path).parent / variant.platform).is_file():
            entries["variant"][place] = replace(variant, platform=os.fspath(file))
    made: Corpus = _made(Corpus, data | entries)
    return made


def _made(kind: Any, row: dict[str, Any]) -> Any:
    """Make a record of a table, whose lists become immutable."""
    return kind(**{k: tuple(each) if isinstance(each, list) else each for k, each in row.items()})


def _matches(name: str, machine: str, pattern: str) -> bool:
    wanted, comma, on = pattern.partition(",")
    return fnmatchcase(name, wanted) and (not comma or fnmatchcase(machine, on.strip()))


def _at_its_path(recording: Recording, folders: Sequence[str | os.PathLike[str]]) -> str | None:
    for folder in folders:
        path = Path(folder) / recording.path
        if not recording.path or not path.is_file():
            continue
        if (found := file_hash(os.path.abspath(path))) != recording.sha256:
            raise SweepError(
                f"`{path}` is not the corpus's recording {recording.name}: its SHA-256 is "
                f"{found[:16]}..., expected {recording.sha256[:16]}..."
            )
        return os.fspath(path)
    return None


def _by_content(folders: Sequence[str | os.PathLike[str]]) -> dict[str, str]:
    """Hash the files that may be recordings. Folders of builds and of git are not looked into."""
    found: dict[str, str] = {}
    for top in folders:
        for folder, inner, files in os.walk(top):
            inner[:] = sorted(n for n in inner if n[0] != "." and n not in ("build", "target"))
            for name in sorted(files):
                if name.endswith(_SUFFIXES):
                    path = os.path.join(folder, name)
                    found.setdefault(file_hash(path), path)
    return found
