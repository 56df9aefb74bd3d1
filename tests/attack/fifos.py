# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks with a FIFO that nobody writes to, in the place of each path that a command takes."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

from attack.judge import BrokenError

#: Each command with the FIFO in one place. ``{tree}`` is a kernel tree whose Makefile is one,
#: ``{store}`` a store whose store.json is one; ``{limits}`` and ``{sound}`` are sound.
COMMANDS = [
    "replay {fifo} -p pixel6 -g menu",
    "replay {sound} -p {fifo} -g menu",
    "replay {sound} -p pixel6 -g {fifo}",
    "replay {sound} -p pixel6 -g menu --recorded-on {fifo}",
    "replay {sound} -p pixel6 -g menu@{tree}",
    "simulate {fifo} -p pixel6 -g menu",
    "simulate frames -p {fifo} -g menu",
    "simulate frames -p pixel6 -g {fifo}",
    "simulate frames -p pixel6 -g menu --cpufreq {fifo}",
    "simulate frames -p pixel6 -g menu --background {fifo}",
    "simulate frames -p pixel6 -g menu --kernel {fifo}",
    "simulate frames -p pixel6 -g menu --kernel {tree}",
    "simulate frames -p pixel6 -g menu --store {fifo}",
    "sweep {fifo} -o out",
    "sweep -t {fifo} -p pixel6 -g menu -o out",
    "sweep -w {fifo} -p pixel6 -g menu -o out",
    "sweep -w frames -p pixel6 -g menu -o {fifo}",
    "sweep -w frames -p pixel6 -g menu -o {store}",
    "study run {fifo}",
    "study io-boost {fifo} -p pixel6 -g menu",
    "study adaptation -p {fifo} -g menu",
    "study answer {fifo}",
    "contest {fifo} -o out",
    "contest -o {fifo}",
    "contest --corpus {fifo} -o out",
    "contest --data {fifo} -o out",
    "governor check {fifo}",
    "governor tune {fifo} --param x=1..2 -w frames -p pixel6 -o out",
    "governor tune teo --param util_shift=2..3 -t {fifo} -p pixel6 -o out",
    "try {fifo}",
    "try {fifo} --onto {fifo}",
    "platform show {fifo}",
    "platform import {fifo}",
    "platform measure {fifo} -p pixel6",
    "workload show {fifo}",
    "workload extract {fifo}",
    "trace info {fifo}",
    "trace stats {fifo}",
    "trace spans {fifo}",
    "trace convert {fifo} out.perfetto-trace",
    "compare {fifo} {fifo}",
    "gate {fifo} {fifo} -l {limits}",
    "gate {sound} {sound} -l {fifo}",
    "gate {store} {store} -l {limits}",
    "store list {fifo}",
    "store list {store}",
    "show {fifo}",
    "show {fifo} --report out.html",
    "store gc {fifo}",
    "store merge out {fifo}",
    "store merge {fifo} out",
    "store export {fifo} -o out.csv",
    "serve {fifo}",
    "stat --root {fifo}",
    "shadow {fifo} -p pixel6 -g menu",
    "shadow {fifo} -p pixel6 -g menu --follow",
    "shadow {sound} -p {fifo} -g menu",
    "show {store}",
    "snapshot --root {fifo} -o out.txt",
    "diff {fifo} {fifo}",
    "kernel build {fifo} -o out",
    "kernel build --headers {tree} -o out",
    "fidelity {fifo}",
    "fidelity {sound} -p {fifo}",
]
#: Commands that take no path to read, or change the machine that runs the attack.
SKIPPED = {
    *("governor list", "platform list", "platform calibrate", "workload list", "schema", "doctor"),
    *("workload idle-predict", "record", "ab", "kernel status", "kernel load", "kernel use"),
    *("kernel unload", "kernel restore", "kernel fetch"),
}
#: Time after which a command that still waits for a writer gets a signal, and has to end.
_WAIT_SECONDS, _END_SECONDS = 4.0, 5.0


def fifos(rng: random.Random, folder: Path) -> None:
    """A FIFO as a path: the command refuses it at once, or ends at a signal."""
    command = rng.choice(COMMANDS)
    number = rng.choice([signal.SIGINT, signal.SIGTERM])
    held(command, number, folder)


def held(text: str, number: signal.Signals, folder: Path) -> None:
    """Run one command; raise :class:`BrokenError` unless it refuses or ends at the signal."""
    from attack.outside import ROOT, _session, _start

    places = _places(folder)
    places["sound"] = next(ROOT.glob("demo/*.perf.data"))
    process = _start([word.format(**places) for word in text.split()], folder)
    what = f"`{text}` after {number.name}"
    try:
        try:
            _, said = process.communicate(timeout=_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            try:
                _, said = process.communicate(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                raise BrokenError(f"{what}: goes on") from None
            # Until main() has set up its handlers, the signal is Python's own.
            if number == signal.SIGINT and b"cli/__init__.py" not in said:
                return
        if b"Traceback (most recent" in said or b"panicked at" in said:
            raise BrokenError(f"{what}: {said.decode(errors='replace')[-1500:]}")
        time.sleep(0.1)
        if left := _session(process.pid):
            raise BrokenError(f"{what}: still running: {left}")
    finally:
        if _session(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _places(folder: Path) -> dict[str, Path]:
    fifo, tree, store, limits = (folder / name for name in ("fifo", "tree", "store", "limits.toml"))
    for path in (fifo, tree / "Makefile", store / "store.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.mkfifo(path)
    limits.write_text('[[limit]]\nmetric = "idle_power_mw"\nworse_than = "2 %"\n')
    return {"fifo": fifo, "tree": tree, "store": store, "limits": limits}


OUTSIDE = {"fifos": fifos}
