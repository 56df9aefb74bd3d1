# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wake-ups at a known rate, and the time that passes under them."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from signal import Signals as Signal
from typing import Protocol

from torpor.machine.record.signals import Signals

#: A process of its own for each CPU: it sleeps until its next turn, at whole periods of the clock,
#: and does nothing else. Other CPUs' turns lie between.
_WAKER = """
import os, sys, time
cpu, period, phase = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
start = time.monotonic() + phase * period
turn = 0
while os.getppid() == int(sys.argv[4]):
    turn = max(turn + 1, int((time.monotonic() - start) / period) + 1)
    time.sleep(max(start + turn * period - time.monotonic(), 0))
"""


class Load(Protocol):
    """Effects of a calibration on time and CPUs."""

    def now_s(self) -> float: ...

    def waking(
        self, cpus: Sequence[int], rate_hz: float
    ) -> contextlib.AbstractContextManager[None]:
        """Wake each of these CPUs at a given rate while the context is active."""

    def wait(self, seconds: float) -> Signal | None:
        """Let time pass; the signal that is to stop the program, if one came."""


class Wakers:
    """The real ones."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def now_s(self) -> float:
        return time.monotonic()

    @contextlib.contextmanager
    def waking(self, cpus: Sequence[int], rate_hz: float) -> Iterator[None]:
        processes = [
            subprocess.Popen(
                [sys.executable, "-IS", "-c", _WAKER]
                + [str(part) for part in (cpu, 1 / rate_hz, place / len(cpus), os.getpid())],
                stdin=subprocess.DEVNULL,
            )
            for place, cpu in enumerate(cpus)
        ]
        try:
            yield
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()

    def wait(self, seconds: float) -> Signal | None:
        until_s = self.now_s() + seconds
        while (stopping := self._signals.wait(0)) is None and self.now_s() < until_s:
            self._signals.wait(until_s - self.now_s())
        return stopping
