# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A guest's load for the simulator: the same tasks on the same states, as workload and platform.

What takes time in the guest is measured once a kernel, in recordings of its own menu: from an
interrupt to the task, and from step to step of each program. These medians then stand for every
governor. Of the recording that a simulation is compared with only the moments are taken at which
programs were started, against the tick.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from string import Template

import torpor

from .events import Story, Turn

TEMPLATES = Path(__file__).with_name("cases")


@dataclass(frozen=True)
class Case:
    """One comparison: one of corpus.WORKLOADS, its program, and CPUs of the guest."""

    workload: str
    program: str
    cpus: int


#: An emulator whose CPUs take turns gets only one CPU if one is enough.
CASES = {
    "rates": Case("rates", "periodic", 1),
    "predict": Case("predict", "idle_predict", 1),
    "predict-smp": Case("predict", "idle_predict", 2),
    "pingpong": Case("pingpong", "pingpong", 2),
    "ipi": Case("ipi", "ipi_burst", 2),
}

#: Rates of `rates`, a second each.
RATES_HZ = (5, 11, 23, 47, 97, 197, 411)

#: Debian's tick.
HZ = 250
#: Instructions of a round of poll_idle().
RELAX_INSTRUCTIONS = 7
_TICK_NS = 10**9 // HZ

#: A simulation begins so much before its first program.
_LEAD_NS = 25 * _TICK_NS


def exit_latencies_us(platform: str) -> list[float]:
    """The exit latency of each state in a platform's text."""
    lines = (line.partition(" = ") for line in platform.splitlines())
    return [float(value) for key, _, value in lines if key == "latency_us"]


@dataclass(frozen=True)
class Costs:
    """Times of a guest's kernel, in us: medians of its wake-ups, without exit latencies.

    From an interrupt to the switch to the task that it wakes, and from another CPU's call to the
    end of the sleep, and from there to the switch.
    """

    interrupt: float = 0.0
    ipi_delivery: float = 0.0
    ipi_handling: float = 0.0

    @classmethod
    def measure(cls, timed: list[Turn], called: list[Turn], latencies_us: list[float]) -> "Costs":
        """Return the costs by turns that began after a sleep: that timers ended, and calls."""

        def left_us(turn: Turn, since_ns: int) -> float:
            """From then until the idle state was left, apart from its exit latency."""
            sleep = turn.slept_in
            return (sleep.end_ns - since_ns) / 1000 - latencies_us[sleep.state]

        def switched_us(turn: Turn) -> float:
            return (turn.begin_ns - turn.slept_in.end_ns) / 1000

        fired = [turn for turn in timed if turn.slept_in and turn.fires_ns]
        found = (
            median(left_us(turn, turn.fires_ns) + switched_us(turn) for turn in fired),
            median(left_us(turn, turn.event_ns) for turn in called),
            median(map(switched_us, called)),
        )
        # A call that comes while the CPU leaves its state already takes less than the latency.
        return cls(*(max(0.0, round(us, 3)) for us in found))

    def toml(self, speed: float = 1.0) -> str:
        """The costs as keys of a platform, if the CPUs that have them are so fast."""
        return f"""tick_handling_us = {self.interrupt * speed:.3f}
tick_handling_source = "measured in the guest"
ipi_delivery_us = {self.ipi_delivery}
ipi_handling_us = {self.ipi_handling * speed:.3f}
overhead_source = "measured in the guest"
"""


#: By case, what its programs take from step to step, in us, by placeholder of its template.
Steps = dict[str, dict[str, float]]


def measure(stories: dict[str, Story], latencies_us: list[float]) -> tuple[Costs, Steps]:
    """Return a kernel's costs and the programs' steps, from all cases under one governor."""

    def turns(case: str) -> list[Turn]:
        story = stories[case]
        mine = (story.turns.get(pid, []) for pid in story.pids(CASES[case].program))
        # Programs start and end with much else than what they repeat.
        return [turn for each in mine if len(each) > 3 for turn in each[1:-1]]

    def to_idle(found: list[Turn]) -> float:
        return median((t.idle_ns - t.begin_ns) / 1000 for t in found if t.idle_ns)

    def chained(found: list[Turn]) -> dict[str, float]:
        waking = [t for t in found if t.wakes_ns and t.idle_ns]
        # The emulator may let the woken CPU go first: the quickest tenth was not held up.
        after = quantiles([(t.idle_ns - t.wakes_ns) / 1000 for t in waking], n=10)[0]
        before = median((t.wakes_ns - t.begin_ns) / 1000 for t in waking)
        return {"before": before, "after": after}

    woken = [t for t in turns("pingpong") if t.slept_in and t.fires_ns is None]
    ipi = turns("ipi")
    story = stories["rates"]
    workers = [*story.pids("kworker"), *story.pids("kcompactd")]
    background = [turn for pid in workers for turn in story.turns.get(pid, [])]
    steps = {
        "rates": {"run": to_idle(turns("rates"))},
        "predict": {"run": to_idle(turns("predict"))},
        "pingpong": chained(turns("pingpong")),
        "ipi": {
            **chained([t for t in ipi if t.fires_ns]),
            "run": to_idle([t for t in ipi if t.fires_ns is None]),
        },
    }
    for each in steps.values():
        each["background"] = to_idle(background)
    return Costs.measure(turns("rates"), woken, latencies_us), steps


def platform_toml(sysfs: Path, costs: Costs, icount_shift: int) -> str:
    """The guest as a machine: its states by sysfs, and what takes time in its kernel."""
    text, _ = torpor.import_platform(sysfs, name="guest", hz=HZ)
    relax_ns = RELAX_INSTRUCTIONS << icount_shift
    text = text.replace("\npolling = true", f"\npolling = true\nrelax_ns = {relax_ns}")
    return text.replace("\n[[cluster]]", f"{costs.toml()}\n[[cluster]]", 1)


def begin_ns(case: str, story: Story) -> int:
    """The recording's time at which its simulation begins: a tick."""
    first = min(story.first_sleep_ns[pid] for pid in story.pids(CASES[case].program))
    return first // _TICK_NS * _TICK_NS - _LEAD_NS


def workload_toml(case: str, story: Story, steps: Steps) -> str:
    """The case as a workload, its programs started when the recording's were."""
    zero_ns = begin_ns(case, story)
    pids = story.pids(CASES[case].program)
    values = {key: f"{value:.3f}" for key, value in steps[CASES[case].workload].items()}
    values["cpus"] = str(CASES[case].cpus)
    values["start"] = _us(story.first_sleep_ns[pids[0]] - zero_ns)
    if case == "rates":
        # Before its first wake-up was due by a period.
        for pid, hz in zip(pids, RATES_HZ, strict=True):
            due_ns = story.turns[pid][0].event_ns
            values[f"start_{hz}"] = _us(due_ns - 10**9 // hz - zero_ns)
    if CASES[case].workload == "predict":
        sleepers = [pid for pid in pids if len(story.turns[pid]) > 10]
        for number, pid in enumerate(sleepers):
            due_ns = story.turns[pid][0].event_ns
            values[f"start_{number}"] = _us(due_ns - 500_000 - zero_ns)
    parts = [f"{CASES[case].workload}.toml", "background.toml"]
    text = "".join((TEMPLATES / part).read_text(encoding="utf-8") for part in parts)
    return Template(text).substitute(values)


def _us(ns: int) -> str:
    return f"{ns / 1000:.3f}"
