# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Guests beside the hosted kernel."""

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import torpor

from .. import build, cases, events, machine, packages, recording, source
from ..cases import Costs
from ..packages import ROOT, Kernel
from .figures import Figures, figures, rows, shown, value
from .load import DURATION_S, duration_s, groups, load_command, sections, started_toml
from .machines import CASES, MACHINES, Machine, capacities, platform_toml, setup

CORPUS = ROOT / "tests" / "data" / "decisions.json"

#: Of kernels that are built, by the end of their series' name.
FRAGMENTS = {
    name: tuple(Path(__file__).parents[1] / f"{part}.config" for part in parts)
    for name, parts in {
        "changes": ("ioboost", "changes"),
        "sched-ext": ("ioboost", "changes", "ext"),
    }.items()
}


def costs(trace: Path, one: Machine) -> Costs:
    """Measure the costs of wake-ups in a recording of a load."""
    story = events.read(trace)
    latencies_us = cases.exit_latencies_us(platform_toml(one, Costs()))
    turns = [turn for each in story.turns.values() for turn in each]
    asleep = [turn for turn in turns if turn.slept_in and turn.slept_in.state < len(latencies_us)]

    called = [turn for turn in asleep if turn.fires_ns is None]
    return Costs.measure(asleep, called, latencies_us)


def kernel_of(one: Machine) -> Kernel:
    """The guest's kernel, of Debian's or built of its source; raises as what gets it."""
    name = one.series.removeprefix(f"{source.SERIES}-")
    if name in FRAGMENTS:
        return source.build(name, one.arch, FRAGMENTS[name])
    return packages.fetch(one.arch, one.series)


def record(one: Machine, kernel: Kernel, turn_us: int) -> dict[str, tuple[bytes, dict]]:
    """Boot the guest once: each load's trace.dat, and fields of `Figures` that it does not tell.

    Raises GuestError if the kernel complained, and NotHereError where guests cannot be.
    """
    prefix = "" if one.has_idle_driver else "counted "
    jobs = [recording.Job(load, "menu", prefix + load_command(load)) for load in one.loads]
    files = {
        **{f"mod/{name}.ko": path for name, path in build.modules(kernel).items()},
        **{f"mod/{name}.ko": kernel.module(name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in build.programs(one.arch).items()},
    }
    if one.scheduler:
        files[f"bin/{one.scheduler}"] = source.scheduler(kernel, one.scheduler)
    result = machine.run(
        kernel,
        recording.script(setup(one), jobs, has_probes=False),
        files,
        cpus=one.cpus,
        memory_mb=1024,
        capacities=capacities(one),
        arguments=f"sched_verbose mitigations=off {one.arguments}",
        timeout_s=1200,
        icount_shift=one.icount_shift,
        turn_us=turn_us,
    )
    if result.status != 0 or result.complaints:
        raise machine.GuestError(f"{result.complaints}\n{result.console[-2000:]}")
    if one.platform and "starting EAS" not in result.text("dmesg"):
        raise machine.GuestError("tasks are not placed by energy")
    return {
        load: (made.trace, _counted(load, result))
        for load, made in recording.collect(kernel, result).items()
    }


def _counted(load: str, result: machine.Result) -> dict:
    """The programmings a second that `counted` printed, and each group's cpu.stat."""
    said = result.text(f"recordings/{load}/workload.txt").splitlines()
    hits = [int(line.split()[1]) for line in said if "programmings" in line]
    throttled = {}
    for path, given in groups(load):
        if "cpu.max" in given:
            lines = result.text(f"cgroups/{load}/{path}/cpu.stat").splitlines()
            stat = {key: int(number) for key, number in map(str.split, lines)}
            usec = stat["throttled_usec"]
            throttled[path] = [stat["nr_periods"], stat["nr_throttled"], usec / 1000]
    programmings = round((hits[1] - hits[0]) / DURATION_S, 1) if hits else None
    return {"programmings": programmings, "throttled": throttled}


@dataclass(frozen=True)
class Guests:
    """Guests of one machine: the figures of each by section, and the costs of the first."""

    costs: Costs
    figures: list[dict[str, Figures]]

    @classmethod
    def boot(cls, one: Machine) -> "Guests":
        """Boot one after another; raises as :func:`record`."""
        found, measured = [], None
        for turn_us in one.turns_us:
            with tempfile.TemporaryDirectory(prefix="decisions-") as folder:
                of_loads = {}
                for load, (trace, counted) in record(one, kernel_of(one), turn_us).items():
                    path = Path(folder, f"{load}.dat")
                    path.write_bytes(trace)
                    if load == one.loads[-1] and one.has_idle_driver:
                        measured = measured or costs(path, one)
                    for title, of in figures(path, load, one).items():
                        of_loads[title] = replace(of, **counted)
                found.append(of_loads)
        return cls(measured or Costs(), found)

    @classmethod
    def kept(cls, name: str) -> "Guests":
        """Return the guests in CORPUS."""
        text = json.loads(CORPUS.read_text(encoding="utf-8"))[name]
        loads = [{load: Figures(**of) for load, of in each.items()} for each in text["figures"]]
        return cls(Costs(**text["costs"]), loads)


def program(one: Machine, kernel: str) -> str:
    """The file of a guest's scheduler in a kernel's tree."""
    return str(Path(kernel, "tools", "sched_ext", f"{one.scheduler}.bpf.c"))


def hosted(name: str, load: str, kernel: str, guests: Guests) -> dict[str, Figures]:
    """A guest's load on the same machine under a hosted kernel, begun as the first guest began:
    figures by section.
    """
    one, first = MACHINES[name], sections(load)[0].title
    text = started_toml(load, guests.figures[0][first].start_us)
    with tempfile.TemporaryDirectory(prefix="decisions-") as path:
        folder = Path(path)
        (folder / "guest.toml").write_text(platform_toml(one, guests.costs), encoding="utf-8")
        (folder / f"{load}.toml").write_text(text, encoding="utf-8")
        result = torpor.simulate(
            folder / f"{load}.toml",
            platform=folder / "guest.toml",
            governors="menu",
            kernels=",".join([kernel, *one.settings]),
            kernel_args=one.arguments or None,
            schedulers=[program(one, kernel)] if one.scheduler else None,
            duration=f"{duration_s(load)}s",
            seeds=1,
            trace=folder / "trace.txt",
        )
        assert not result.failures, f"{load}: {result.failures}"
        (run,) = result.to_dict()["runs"]
        # Of the whole run, which is nearly the same all along.
        programmings = run["metrics"]["timer_programmings_per_s"]
        throttled = {
            group["name"]: [group["nr_periods"], group["nr_throttled"], group["throttled_ns"] / 1e6]
            for group in run["cgroups"]
            if group["nr_periods"]
        }
        return {
            title: replace(of, programmings=programmings, throttled=throttled)
            for title, of in figures(folder / "trace.txt", load, one).items()
        }


def _compared(row: tuple, guests: list[Figures], simulated: Figures) -> str | None:
    """Return the range of the guests and the hosted kernel's value as text."""
    found = [value(one, *row[1:]) for one in (*guests, simulated)]
    if None in found:
        return None
    *of_guests, other = found
    between = dict.fromkeys(map(_number, (min(of_guests), max(of_guests))))
    return f"{'–'.join(between)} / {_number(other)}"


def _number(figure: float) -> str:
    return f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def _case(load: str, guests: list[Figures], simulated: Figures) -> dict[str, str]:
    """Return the cells of one case: its load's columns. Tests hold the other rows."""
    cells: dict[str, str] = {}
    for row in rows(load, guests[0]):
        title = row[0].rpartition(": ")[2]
        if title in shown(load) and (text := _compared(row, guests, simulated)):
            cells[title] = text
    return cells


def table(names: tuple[str, ...], of: dict[str, Guests], simulated: dict) -> str:
    """Return a row for each case of some machines, as *guests / hosted*, in Markdown.

    The hosted kernel's figures are by machine and section.
    """
    cases_of = {}
    for name, load, title in CASES:
        if name in names:
            guests = [guest[title] for guest in of[name].figures]
            prefix = f"{name} " if len(names) > 1 else ""
            cases_of[f"{prefix}`{title}`"] = _case(load, guests, simulated[name, title])
    titles = list(dict.fromkeys(title for cells in cases_of.values() for title in cells))
    lines = ["| " + " | ".join(["case", *titles]) + " |", "|---" * (1 + len(titles)) + "|"]
    for case, cells in cases_of.items():
        lines.append("| " + " | ".join([case, *(cells.get(title, "") for title in titles)]) + " |")
    return "\n".join(lines)
