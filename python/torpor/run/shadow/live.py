# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The engine's session over a feed, and what it has found so far."""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals as Stop
from typing import Any, NamedTuple

from torpor import _engine
from torpor.machine.record.machine import Machine, read
from torpor.machine.record.signals import Signals
from torpor.results.catalogue import leading, wrong_pct
from torpor.run import options
from torpor.run.shadow.cost import Meter
from torpor.run.shadow.feed import Feed, Following, Recorder

#: Between two looks at the pipe: at most the interval, less while much comes, so that half of it is
#: filled.
_LEAST_PAUSE_S = 0.01
#: One minute in ten is the least that a budget leaves.
_LONGEST_PAUSE_S = 9 * 60.0
#: Time without a closed window after which a part of a budgeted run is abandoned.
_PATIENCE_S = 180.0

#: A shorter window, which the end of a recording cuts, is no sample.
_SAMPLE_NS = 45 * 10**9
#: Time that perf has to end.
_END_S = 30.0


@dataclass(frozen=True)
class Plan:
    """Governors to run, their input, and the end of the run."""

    platform: str
    governors: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: None is this machine.
    source: Path | None = None
    follow: bool = False
    interval_s: float = 2.0
    duration_s: float | None = None
    #: Most CPU time, as a share of one core.
    budget: float | None = None

    @property
    def request(self) -> str:
        """The session's request."""
        given = json.loads(options.to_json(options.ShadowOptions, self.options, threads=1))
        return json.dumps(
            {
                "platform": self.platform,
                "governors": list(self.governors),
                "options": given,
                "name": "this machine" if self.source is None else str(self.source),
            }
        )


class Window(NamedTuple):
    """A minute that is over."""

    #: Wall clock.
    begin_ns: int
    duration_ns: int
    lost_events: int
    #: Metrics of the catalogue by governor; without those that have failed.
    values: dict[str, dict[str, float]]

    @property
    def is_sample(self) -> bool:
        """Whether it counts as a sample: nothing is lost, and most of the minute was recorded."""
        return not self.lost_events and self.duration_ns >= _SAMPLE_NS


@dataclass
class Sums:
    """One governor's, over all windows without losses."""

    sleeps: int = 0
    above: int = 0
    below: int = 0
    delay_ns: int = 0
    #: By cluster, in µJ; empty if the machine's power is not known.
    energy_uj: dict[str, float] = field(default_factory=dict)
    error: str | None = None


class Tally:
    """Paired differences from the base, a window each: their mean and Student's 95 % interval.

    It holds a few numbers, however many windows there are.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._differences = _engine.Moments()
        self._base = 0.0
        self._sign = 0
        #: Wall clock of the window since which the verdict is what it is.
        self.since_ns: int | None = None

    def add(self, base: float, other: float, at_ns: int) -> None:
        """Take a window."""
        self._differences.add(other - base)
        self._base += (base - self._base) / self.count
        if self.since_ns is None or self._sign != self.sign:
            self._sign, self.since_ns = self.sign, at_ns

    @property
    def count(self) -> int:
        """The number of windows."""
        return self._differences.count

    @property
    def difference(self) -> tuple[float, float | None, float | None]:
        """The mean difference and its interval, in the metric's unit."""
        return self._differences.interval()

    @property
    def change(self) -> tuple[float | None, float | None, float | None]:
        """The same in percent of the base's mean; None where that is 0."""
        if not self._base:
            return None, None, None
        mean, low, high = (end and 100 * end / self._base for end in self.difference)
        return mean, low, high

    @property
    def sign(self) -> int:
        """-1 if it is surely less than the base, 1 if it is surely more, else 0."""
        _, low, high = self.difference
        if low is None or high is None:
            return 0
        return -1 if high < 0 else 1 if low > 0 else 0


class Shadow:
    """A shadow that runs."""

    def __init__(self, plan: Plan, machine: Machine | None = None) -> None:
        """Check the request: an unknown governor or machine raises here."""
        self.plan, self._machine = plan, machine or Machine()
        self.sums = {name: Sums() for name in plan.governors}
        self.tallies = {name: Tally() for name in plan.governors[1:]}
        self.judged: str | None = None
        self.meter = Meter()
        self.windows = self.lossy_windows = 0
        #: Signal that ended it, if not the time or the feed.
        self.stopped_by: Stop | None = None
        #: Time of the windows without losses, and of the others.
        self.seconds = self.lossy_seconds = 0.0
        self.began_ns = time.time_ns()
        #: Reasons for restarts, and what the budget has removed.
        self.notes: deque[str] = deque(maxlen=9)
        self._events = self._lost_events = 0
        self._sessions = 0
        self._session = _engine.ShadowSession(plan.request)
        self._found: dict[str, Any] = {}

    @property
    def events(self) -> int:
        """Events of all sessions."""
        return self._events + int(self._found.get("events", 0))

    @property
    def lost_events(self) -> int:
        """Events that the kernel or a damaged stream has lost."""
        return self._lost_events + int(self._found.get("lost_events", 0))

    @property
    def is_one_session(self) -> bool:
        """Whether one result has all."""
        return self._sessions == 1

    @property
    def result(self) -> str:
        """The last session's result, as JSON text: of the whole run where it was one session."""
        return self._session.result()

    def run(self, tell: Callable[["Shadow", list[Window]], None]) -> None:
        """Run until the feed ends, a signal comes or the time is over.

        ``tell`` gets the windows that have closed, at every interval. Raises RecordError if this
        machine cannot be recorded.
        """
        until_s = math.inf
        if self.plan.duration_s is not None:
            until_s = time.monotonic() + self.plan.duration_s
        if self.plan.source is not None:
            # Opened before signals are held back: they end the wait for the writer of a FIFO.
            with (
                Following(self.plan.source, follow=self.plan.follow) as feed,
                Signals() as signals,
            ):
                self._watch(feed, signals, until_s, lambda _new: False, tell)
            return
        with Signals() as signals:
            self._run_here(signals, until_s, tell)

    def _run_here(
        self,
        signals: Signals,
        until_s: float,
        tell: Callable[["Shadow", list[Window]], None],
    ) -> None:
        budget = _Budget(self.plan.budget, self.meter)
        while True:
            before = self._state()
            budget.begin()

            def is_done(new: list[Window], before: tuple[str | None, float] = before) -> bool:
                online, asleep_s = self._state()
                has_slept = asleep_s > before[1] + 1
                if has_slept or online != before[0]:
                    what = "was suspended" if has_slept else f"has CPUs {online} online now"
                    self.notes.append(f"begun anew: the machine {what}")
                    return True
                return budget.is_over(self.notes) if new else budget.is_stuck

            with Recorder(self._machine, is_lean=budget.level > 0) as feed:
                if self._watch(feed, signals, until_s, is_done, tell):
                    return
            self.stopped_by = signals.wait(min(budget.pause_s, until_s - time.monotonic()))
            if self.stopped_by is not None:
                return
            if time.monotonic() >= until_s:
                return
            self._begin_anew()

    def _state(self) -> tuple[str | None, float]:
        """Return the CPUs that are online and the time that the machine was suspended, in s.

        perf does not see CPUs that come later, and the timers' clock stands still in a suspend.
        """
        asleep_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        return read(self._machine.cpu_dir / "online"), asleep_s

    def _begin_anew(self) -> None:
        self._events, self._lost_events = self.events, self.lost_events
        self._found = {}
        self._session = _engine.ShadowSession(self.plan.request)

    def _watch(
        self,
        feed: Feed,
        signals: Signals,
        until_s: float,
        is_done: Callable[[list[Window]], bool],
        tell: Callable[["Shadow", list[Window]], None],
    ) -> bool:
        """Read a feed to its end, and return whether that was asked for by a signal or the time."""
        self._sessions += 1
        interval_s = self.plan.interval_s
        is_ending = is_stopped = False
        shown_s = read_s = time.monotonic()
        give_up_s = math.inf
        while not feed.is_over and time.monotonic() < give_up_s:
            size = 0
            for piece in feed.pieces():
                self._session.push(piece)
                size += len(piece)
            now_s = time.monotonic()
            if feed.is_behind or (now_s >= shown_s + interval_s and not is_ending):
                shown_s = now_s
                new = self._advance(until_end=False)
                tell(self, new)
                if not is_ending and is_done(new):
                    is_ending = True
                    feed.end()
                feed.ask()
            # Not woken by every write: waking this process is an event itself.
            taken_s, read_s = now_s - read_s, now_s
            pause_s = taken_s * feed.room_bytes / size if size else interval_s
            if is_ending:
                give_up_s = min(give_up_s, now_s + _END_S)
            if is_ending or feed.is_behind:
                pause_s = _LEAST_PAUSE_S
            left_s = min(pause_s, shown_s + interval_s - now_s, until_s - now_s)
            self.stopped_by = signals.wait(max(left_s, _LEAST_PAUSE_S))
            is_late = time.monotonic() >= until_s
            if (self.stopped_by is not None or is_late) and not is_stopped:
                is_stopped = is_ending = True
                feed.end()
        try:
            tell(self, self._advance(until_end=True))
        except _engine.TorporError as error:
            # CPUs that never slept: the next part may have some.
            if is_stopped or self.plan.source is not None:
                raise
            self.notes.append(str(error).partition("\n")[0])
        return is_stopped

    def _advance(self, *, until_end: bool) -> list[Window]:
        self._found = self._session.advance(until_end)
        self.meter.read()
        offset_ns = time.time_ns() - self._now_ns()
        new = [self._window(found, offset_ns) for found in self._found["windows"]]
        for window in new:
            self._count(window)
        return new

    def _now_ns(self) -> int:
        """Return the recording's clock now: this machine's, or as far as the recording is."""
        if self.plan.source is None:
            return time.monotonic_ns()
        return int(self._found.get("settled_ns") or 0)

    def _window(self, found: Mapping[str, Any], offset_ns: int) -> Window:
        values = {}
        for name, run in zip(self.plan.governors, found["runs"], strict=True):
            sums = self.sums[name]
            if run["error"] is not None:
                sums.error = run["error"]
                continue
            values[name] = values_of(run, found["duration_ns"], self._found["cpus"])
            if not found["lost"]:
                _add(sums, run)
        return Window(found["start_ns"] + offset_ns, found["duration_ns"], found["lost"], values)

    def _count(self, window: Window) -> None:
        if window.lost_events:
            self.lossy_windows += 1
            self.lossy_seconds += window.duration_ns / 1e9
            return
        self.windows += 1
        self.seconds += window.duration_ns / 1e9
        base = window.values.get(self.plan.governors[0])
        if base is None or not window.is_sample:
            return
        self.judged = self.judged or next((key for key in leading("cost") if key in base), None)
        for name, tally in self.tallies.items():
            other = window.values.get(name)
            if other is not None and self.judged in other and self.judged in base:
                tally.add(base[self.judged], other[self.judged], window.begin_ns)


def values_of(run: Mapping[str, Any], duration_ns: int, cpus: int) -> dict[str, float]:
    """Return the metrics of the catalogue that one governor's window of so many CPUs has, and the
    share of wrong depths."""
    sleeps = run["sleeps"]
    found: dict[str, float] = {"sleeps": sleeps, "delay_total_us": run["delay_sum_ns"] / 1e3}
    if sleeps:
        for key in ("above", "below"):
            found[f"{key}_pct"] = 100 * run[key] / sleeps
        found["wrong_pct"] = wrong_pct(found) or 0.0
    if run["latency_count"]:
        found["latency_mean_us"] = run["latency_sum_ns"] / run["latency_count"] / 1e3
    if (energy_uj := run["idle_energy_uj"]) is not None:
        found["idle_energy_uj"] = energy_uj
        found["idle_power_mw"] = energy_uj / duration_ns * 1e6
    if (relative_s := run["relative_energy"]) is not None and cpus:
        found["relative_idle_power_pct"] = 100 * relative_s / (duration_ns / 1e9 * cpus)
    return found


def _add(sums: Sums, run: Mapping[str, Any]) -> None:
    sums.sleeps += run["sleeps"]
    sums.above += run["above"]
    sums.below += run["below"]
    sums.delay_ns += run["delay_sum_ns"]
    for cluster in run["clusters"]:
        if cluster["idle_energy_uj"] is not None:
            name = cluster["name"]
            sums.energy_uj[name] = sums.energy_uj.get(name, 0.0) + cluster["idle_energy_uj"]


class _Budget:
    """Share of the machine that a shadow may take; it leaves things out to stay below it.

    First the events that make inputs more exact, then minutes.
    """

    def __init__(self, share: float | None, meter: Meter) -> None:
        self._share, self._meter = share, meter
        self.level = 0
        self._cpu_ns, self._began_s = 0, 0.0

    def begin(self) -> None:
        self._meter.read()
        self._cpu_ns, self._began_s = self._meter.cpu_ns, time.monotonic()

    @property
    def _cost_s(self) -> float:
        return (self._meter.cpu_ns - self._cpu_ns) / 1e9

    @property
    def is_stuck(self) -> bool:
        """Whether a part that should have lasted one minute still has no end after a long time."""
        return self.level > 1 and time.monotonic() - self._began_s > _PATIENCE_S

    def is_over(self, notes: deque[str]) -> bool:
        """Whether the part that runs should end after this minute."""
        if self._share is None:
            return False
        cost = self._cost_s / (time.monotonic() - self._began_s)
        if cost > self._share and self.level < 2:
            self.level += 1
            what = "records fewer events" if self.level == 1 else "leaves out minutes"
            notes.append(f"{cost:.2%} of a core, and the budget is {self._share:.2%}: {what}")
            return True
        return self.level > 1

    @property
    def pause_s(self) -> float:
        """Time without recording that brings the mean down to the budget."""
        if self._share is None or self.level < 2:
            return 0.0
        taken_s = time.monotonic() - self._began_s
        return min(max(self._cost_s / self._share - taken_s, 0.0), _LONGEST_PAUSE_S)
