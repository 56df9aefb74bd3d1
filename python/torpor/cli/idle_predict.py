# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor workload idle-predict`: the workload with other numbers, or as a load of this machine."""

import contextlib
import json
from typing import Annotated

import click

from torpor.cli import options, values
from torpor.cli.console import print_note, write_stdout
from torpor.cli.deliver import write_toml
from torpor.cli.options import option
from torpor.machine import catalog as library
from torpor.machine import running as live

_THREADS_MAX = 1024
#: As long as a simulation; a sleep of centuries the system refuses.
_DURATION_MAX_NS = 30 * 86_400 * 10**9
#: A workload's phases repeat no more often than that.
_LOOP_MAX = 1_000_001


def idle_predict(
    is_run: Annotated[
        bool, option("--run", "Run it on this machine; Ctrl-C ends it early.")
    ] = False,
    threads: Annotated[int, option("N", "Number of threads.", least=1, most=_THREADS_MAX)] = 8,
    loop: Annotated[
        int, option("N", "Sleeps per round; the last one takes a second.", least=2, most=_LOOP_MAX)
    ] = 10,
    delay: Annotated[str, option("TIME", "Length of the other sleeps.")] = "20us",
    duration: Annotated[str, option("TIME", "With --run: how long.")] = "10s",
    form: options.TextOrJson = "text",
) -> None:
    """Threads with a few equal sleeps and then one of a second, which `menu` of 3.7 mispredicts.

    Without --run, print it as a workload to be simulated.
    """
    delay_ns, duration_ns = values.duration_ns(delay), values.duration_ns(duration)
    assert delay_ns is not None and duration_ns is not None
    if not is_run:
        text = library.idle_predict_toml(threads, loop, delay_us=delay_ns / 1e3)
        write_toml("workload", text, None)
        return
    if duration_ns > _DURATION_MAX_NS:
        raise click.BadParameter(f"--duration `{duration}`: expected 30 days (2592000s) at most")
    print_note(f"running for {duration}; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        done = live.idle_predict(duration, threads=threads, loop=loop, delay=delay)
    if done["elapsed_ns"] < duration_ns:
        print_note("interrupted")
    write_stdout(json.dumps(done) if form == "json" else _text(done, threads, delay))


def _text(done: live.Slept, threads: int, delay: str) -> str:
    lines = [f"{threads} threads, {done['elapsed_ns'] / 1e9:.2f} s"]
    for name, late in ((f"sleeps of {delay}", done["delays"]), ("sleeps of 1 s", done["pauses"])):
        line = f"{name}: {late['count']} wake-ups"
        if late["count"]:
            p50, p99, most = (late["p50_ns"] / 1e3, late["p99_ns"] / 1e3, late["max_ns"] / 1e3)
            line += f", late by {p50:.1f} us (p50), {p99:.1f} us (p99), {most:.1f} us at most"
        lines.append(line)
    return "\n".join(lines) + "\n"
