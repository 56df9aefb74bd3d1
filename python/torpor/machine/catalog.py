# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Catalogue of governors and machines, and the contents of a recording."""

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from torpor import _engine
from torpor.machine.toml import toml_file

#: Class of a machine that does not ship.
OTHER = "other"


class Param(TypedDict):
    """A module parameter."""

    name: str
    type: str
    default: str
    description: str | None


class Policy(TypedDict):
    """A governor or an IO boost."""

    name: str
    summary: str
    rating: int | None
    origin: str
    source_sha256: str | None
    params: list[Param]


class Machine(TypedDict):
    """A machine that ships."""

    name: str
    title: str
    cpus: int
    clusters: list[str]
    states: list[str]
    has_power: bool
    power_includes: list[str]
    power_missing: list[str]


class Work(TypedDict):
    """A workload that ships."""

    name: str
    title: str
    tasks: list[str]


class Activity(TypedDict):
    """Common factor of sleeps close to each other, as a workload's ``activity``."""

    sd: float
    mean_ns: int
    share: float


class Section(TypedDict):
    """Part of a recording with a load of its own; times from the recording's begin."""

    begin_ns: int
    duration_ns: int
    busy_cpus: float
    switches_per_s: float


class Extracted(TypedDict):
    """Workload made from a recording, and the ends of its waits."""

    duration_ns: int
    tasks: int
    woken_by_tasks: int
    woken_by_timers: int
    timers_guessed: int
    woken_by_interrupts: int
    wakings_unseen: int
    idle_interrupts: int
    activity: Activity | None
    sections: list[Section]


class ExtractedTask(TypedDict):
    """A task as recorded and as simulated; CPU times at full capacity."""

    name: str
    recorded_cpu_ns: float
    simulated_cpu_ns: float
    recorded_wakeups: int
    simulated_wakeups: int


class IdleDistance(TypedDict):
    """Distance between two distributions of idle lengths."""

    recorded: int
    simulated: int
    recorded_idle_ns: int
    simulated_idle_ns: int
    ks: float
    decades: float


class Lag(TypedDict):
    """Autocorrelation of sleeps with others of their CPU that began so long after them."""

    from_ns: int
    to_ns: int
    sleeps: int
    sleep_length: float | None
    timer_distance: float | None
    mean_ns: float


class Autocorrelation(TypedDict):
    """Autocorrelation of the logarithms of sleep lengths, and of the times to the next timer."""

    lags: list[Lag]
    sd: float


class ExtractionCheck(TypedDict):
    """A recording compared with the simulation of the workload extracted from it."""

    governor: str
    duration_ns: int
    tasks: list[ExtractedTask]
    idle: IdleDistance
    recorded_autocorrelation: Autocorrelation
    simulated_autocorrelation: Autocorrelation


def governors() -> list[Policy]:
    """Return the built-in governors, the engine's oracle among them.

    Each has ``name``, ``summary``, ``rating`` (the kernel's, None for the oracle), ``origin`` and
    ``params``: a list of ``name``, ``type``, ``default`` and ``description``, from the source's
    ``module_param`` and ``MODULE_PARM_DESC``.

    >>> {"menu", "teo", "shallowest", "deepest", "oracle"} <= {g["name"] for g in governors()}
    True
    """
    found: list[Policy] = _engine.governors()
    return found


def ioboosts() -> list[Policy]:
    """Return the built-in IO boosts, as ``governors`` does; their ``rating`` is None.

    >>> sorted(boost["name"] for boost in ioboosts())
    ['intel-pstate', 'iowait', 'none', 'per-task', 'per-task-v2']
    """
    found: list[Policy] = _engine.ioboosts()
    return found


def cpufreq_governors() -> list[Policy]:
    """Return the kernel's cpufreq governors, each with ``name`` and ``summary``.

    >>> [governor["name"] for governor in cpufreq_governors()]
    ['conservative', 'ondemand', 'performance', 'powersave', 'schedutil', 'userspace']
    """
    found: list[Policy] = _engine.cpufreqs()
    return found


def platforms() -> list[Machine]:
    """Return the machines that ship with Torpor.

    Each has ``name``, ``title``, ``cpus`` (count), ``clusters`` and ``states`` (names), and
    ``has_power``: False if no power was measured, so that energy is not known on this machine.
    ``power_includes`` are the parts whose power is known, ``power_missing`` says what is not.

    >>> next(p["cpus"] for p in platforms() if p["name"] == "pixel6")
    8
    """
    found: list[Machine] = _engine.platforms()
    return found


def class_of(platform: str) -> str:
    """Return the class of a machine that ships, or :data:`OTHER`.

    >>> class_of("pixel6"), class_of("./mine.toml")
    ('phone', 'other')
    """
    return _classes().get(platform, {}).get("class", OTHER)


def power_of(platform: str) -> str:
    """Return where a machine's idle power comes from: "measured", "modelled" or "unknown".

    >>> power_of("rk3399")
    'modelled'
    """
    return _classes().get(platform, {}).get("power", "unknown")


@functools.cache
def _classes() -> dict[str, dict[str, str]]:
    path = Path(__file__).parent / "machines.toml"
    shape = dict[str, dict[str, str]]
    found: dict[str, dict[str, str]] = toml_file(path, shape, _engine.TorporError, "read classes")
    return found


def idle_predict_toml(threads: int = 8, loop: int = 10, *, delay_us: float = 20) -> str:
    """Return the workload of a command line of ``idle_predict``, as TOML text.

    Args:
        threads: How many there are.
        loop: Sleeps per round; the last one takes a second.
        delay_us: Length of the other sleeps.

    Raises ValueError for less than one thread or two sleeps, and for a length that is negative.

    >>> "count = 4" in torpor.idle_predict_toml(threads=4)
    True
    """
    if threads < 1 or loop < 2 or not 0 <= delay_us < float("inf"):
        raise ValueError(
            f"threads={threads}, loop={loop}, delay_us={delay_us}: expected at least 1 thread, "
            "2 sleeps per round, and a length of at least 0 us"
        )
    # All digits, without a needless fraction.
    return workload_toml(
        f"idle_predict --threads {threads} --loop {loop} --delay_us {delay_us:.15g}"
    )


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of every kind of result; see docs/reference/schema.md.

    >>> " ".join(sorted(schema()["kinds"])[:9])
    'ab beside check diff fidelity latency outcomes replay reproduction'
    """
    from torpor.results import schema as shapes

    return shapes.schema()


#: Android's names of the devices of a machine: as in `gs101-oriole.dts` and `gs101-raven.dts` of
#: Linux, or in the recordings of such a device.
_DEVICES = {"oriole": "pixel6", "raven": "pixel6", "bluejay": "pixel6"}
#: Words that CPUs and titles have between those that name a model.
_NOISE = r"(?i)\((?:r|tm)\)|\bcpu\b|(?:@|\bat) [\d.]+ghz|\b\d+-core processor"


def platform_named(machine: str, cpus: int) -> str | None:
    """Return the machine that ships with as many CPUs under a name that a recording has.

    The name is a CPU's model, or an Android device with its SoC. None if no machine, or more than
    one, is called so: a virtual machine has the model of its host, and fewer CPUs.

    >>> platform_named("google/bluejay/bluejay", 8), platform_named("vendor/x/x (SM8750)", 8)
    ('pixel6', 'sm8750')
    >>> platform_named("Intel(R) Core(TM) i5-10600K CPU @ 4.10GHz", 12)
    'i5-10600k'
    >>> platform_named("Intel(R) Core(TM) i5-10600K CPU @ 4.10GHz", 2)
    >>> platform_named("AMD EPYC", 128)
    """
    model = _model(machine)
    words = set(re.split(r"[^\w-]+", model))
    has_number = any(character.isdigit() for character in model)
    devices = {_DEVICES[word] for word in words & _DEVICES.keys()}
    found = [
        known["name"]
        for known in platforms()
        if known["cpus"] == cpus
        and (
            known["name"] in words | devices
            or (has_number and f" {model} " in f" {_model(known['title'].split('(')[0])} ")
        )
    ]
    return found[0] if len(found) == 1 else None


def _model(text: str) -> str:
    return " ".join(re.sub(_NOISE, " ", text).casefold().split())


def platform_toml(name: str) -> str:
    """Return the TOML text of a machine, its sources included, with numbers replaced if given.

    Raises :class:`torpor.PlatformError` when no machine has that name, or its file no such number.

    >>> "exit_latency_us" in platform_toml("pixel6")
    True
    """
    return _engine.platform_toml(name)


def import_platform(
    root: str | os.PathLike[str] = "/sys/devices/system/cpu",
    *,
    name: str = "imported",
    title: str | None = None,
    hz: int | None = None,
    energy_model: str | os.PathLike[str] | None = None,
) -> tuple[str, list[str]]:
    """Describe a machine from its sysfs, or any dump of it, or from its device tree.

    ``root`` is what :func:`torpor.snapshot` reads, or a ``.dts``, ``.dtsi`` (which need ``cpp`` and
    ``dtc``) or ``.dtb``. ``energy_model`` is a dump of ``/sys/kernel/debug/energy_model``.
    ``hz`` is the kernel's tick rate: 100, 250, 300 or 1000.

    Returns the TOML text and notes on what these lack (the power of idle, for one).

    Raises :class:`torpor.PlatformError` when there is no machine in ``root``, or a number in it is
    not one that a kernel accepts.
    """
    model = None if energy_model is None else os.fspath(energy_model)
    text, _, notes = _engine.import_platform(os.fspath(root), name, title, hz, model)
    return text, notes


def workloads() -> list[Work]:
    """Return the workloads that ship with Torpor: ``name``, ``title`` and ``tasks`` (names).

    >>> "periodic" in [w["name"] for w in workloads()]
    True
    """
    found: list[Work] = _engine.workloads()
    return found


def workload_toml(name: str) -> str:
    """Return the text of a workload, to read or to start from, with numbers replaced if given.

    Raises :class:`torpor.WorkloadError` when none has that name, or its file no such number.

    >>> "[[task]]" in workload_toml("periodic")
    True
    """
    return _engine.workload_toml(name)


def extract_workload(
    trace: str | os.PathLike[str],
    *,
    platform: str | os.PathLike[str] | None = None,
    name: str = "recording",
    background: Iterable[str] | None = None,
) -> tuple[str, Extracted]:
    """Make a workload of a recording; its TOML text, and what it holds.

    ``platform`` is the machine that was recorded; without it, all CPUs are taken to be alike. The
    keys of the second part are ``duration_ns``, ``tasks``, and by what ended waits (counts):
    ``woken_by_tasks``, ``woken_by_timers`` (of which ``timers_guessed``), ``woken_by_interrupts``,
    ``wakings_unseen``; ``idle_interrupts`` woke a CPU and no task. ``activity`` is what sleeps
    close to each other have in common, None where they have nothing: ``share`` of the variance of
    their logarithms, as ``sd`` and for ``mean_ns``.

    ``background`` is names of tasks, with ``*`` at the end for any rest: what those did is repeated
    without end, on every CPU if a task belongs to one; see ``--background`` of a simulation.

    Raises :class:`torpor.TraceError` or :class:`torpor.WorkloadError` when nothing can be made of
    the recording.
    """
    machine = None if platform is None else os.fspath(platform)
    tasks = None if background is None else list(background)
    return _engine.extract_workload(os.fspath(trace), machine, name, tasks)


def check_extraction(
    trace: str | os.PathLike[str],
    *,
    platform: str | os.PathLike[str],
    governor: str = "menu",
) -> ExtractionCheck:
    """Simulate a recording on the machine it came from, and say how near it comes.

    The keys are ``tasks`` (``name``, ``recorded_cpu_ns``, ``simulated_cpu_ns``,
    ``recorded_wakeups``, ``simulated_wakeups``; CPU times at full capacity) and ``idle``: how far
    apart the lengths of idleness are, as ``ks`` (Kolmogorov and Smirnov's) and ``decades``
    (Wasserstein's, over the decimal logarithm). ``recorded_autocorrelation`` and
    ``simulated_autocorrelation`` have, by the time between two sleeps (``lags``), the correlation
    of their lengths and of their distances to the next timer.
    """
    found: ExtractionCheck = _engine.check_extraction(
        os.fspath(trace), os.fspath(platform), governor
    )
    return found
