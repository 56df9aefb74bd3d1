# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study`: studies over many settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from torpor import plugin
from torpor.plugin import (
    Cell,
    Post,
    Table,
    argument,
    fail,
    format_number,
    number,
    obtain,
    option,
    options,
    print_note,
    print_post,
    values,
    word,
    write_whole,
)
from torpor_lab.studies import adaptation as learning
from torpor_lab.studies import io_boost as study

if TYPE_CHECKING:
    from torpor_lab.studies.io_boost import Scatter

_Workload = Annotated[
    str | None,
    argument(
        "WORKLOAD",
        "A workload with IO: a name or a .toml file. Default: one job of random reads, "
        "calibrated on an RK3399.",
    ),
]
_Boosts = Annotated[
    list[str] | None,
    option(
        "--io-boost B",
        "A boost, with ,param=value; can be repeated. Default: all built-in ones, with "
        "their defaults "
        "and with one parameter changed.",
    ),
]


def io_boost(
    workload: _Workload = None,
    platform: Annotated[
        str, options.machine("Machine, with known power.")
    ] = study.DEFAULT_PLATFORM,
    governor: Annotated[str, option("--governor -g G", "The idle governor.")] = "teo",
    io_boosts: _Boosts = None,
    cpufreq: Annotated[
        str, option("POLICY", "The cpufreq governor to boost.")
    ] = study.DEFAULT_CPUFREQ,
    duration: Annotated[str, option("TIME", "Simulated time per run, such as 2s.")] = "10s",
    seeds: Annotated[int, option("N", "Runs per setting.", least=1)] = 1,
    threads: options.Threads = None,
    plot: Annotated[
        Path | None, option("FILE", "Plot IOPS over energy: .svg, or .html with a table.")
    ] = None,
    form: options.TextOrJson = "text",
) -> None:
    """Compare IO boosts by IOPS and energy with the best result of any fixed frequency.

    It tries all fixed frequencies of every cluster, with the work placed freely and with the work
    kept on one cluster. It lists those that no other beats in both.
    """
    if plot is not None and plot.suffix not in (".svg", ".html"):
        raise click.BadParameter(f"--plot `{plot}`: expected a name that ends in .svg or .html")
    if plot is not None and not plot.parent.is_dir():
        fail(f"`{plot}`: there is no folder `{plot.parent}`")
    obtain(())
    result = study.io_boost_study(
        workload or study.DEFAULT_WORKLOAD,
        platform=platform,
        governor=governor,
        io_boosts=io_boosts or study.DEFAULT_BOOSTS,
        cpufreq=cpufreq,
        duration=f"{values.duration_ns(duration)}ns",
        seeds=seeds,
        threads=threads,
    )
    found = settings(result)
    if plot is not None:
        from torpor_lab import charts

        if plot.suffix == ".html":
            write_whole(plot, plugin.render_posts([charts.with_io_boost(found, result)]))
        else:
            write_whole(plot, plugin.svg(charts.io_boost(result)))
        print_note(f"plot: {plot}")
    print_post(found, form, result)


def adaptation(
    platform: Annotated[str, options.machine("Machine, with known power.")] = "pixel6",
    governors: Annotated[list[str] | None, options.governor(learning.DEFAULT_GOVERNORS)] = None,
    plot: Annotated[Path | None, option("FILE", "Draw the curves: an .svg file.")] = None,
    form: options.Form = "text",
) -> None:
    """Show what a change of load costs governors that learn: idle energy by time since the change.

    A simulated job waits 0.5 ms in the mean for 3 s, then 8 ms for 3 s, and so on. Governors are
    replayed on its idle spans, and compared with the oracle in each window.
    """
    if plot is not None and plot.suffix != ".svg":
        raise click.BadParameter(f"--plot `{plot}`: expected a name that ends in .svg")
    obtain(())
    found = learning.adaptation(
        platform=platform, governors=governors or learning.DEFAULT_GOVERNORS
    )
    if plot is not None:
        from torpor_lab import charts

        write_whole(plot, charts.adaptation(found))
        print_note(f"plot: {plot}")
    lines = [
        [
            word(curve["load"]),
            word(curve["governor"]),
            number(curve["windows_pct"][0]),
            number(curve["steady_pct"]),
            number(curve["settled_ms"]),
            number(curve["lost_ms"]),
        ]
        for curve in found["curves"]
    ]
    headings = ["to", "governor", "first window %", "steady %", "settled ms", "lost ms"]
    table = Table(
        "adaptation", "Idle energy after a change, in % of the oracle's", headings, lines, 2
    )
    notes = [
        f"windows of {found['window_ms']} ms, each the sum over all changes to a load",
        f"settled: no later window of the first half is over {learning.STEADY_PCT:.0f} % above "
        "the steady state, which is the mean of the second half",
        "lost: energy above the steady state, as time of the steady state",
    ]
    title = f"{found['changes']} changes of load on {platform}"
    print_post(Post(title, [], [table], notes), form, found)


def settings(result: "Scatter") -> Post:
    """Return all boosts, and the fixed frequencies that no other beats."""
    fixed = [s for s in result["settings"] if s["kind"] == "fixed"]
    front = sorted((s for s in fixed if s["is_front"]), key=lambda s: s["iops"])
    boosts = [s for s in result["settings"] if s["kind"] == "boost"]
    rows = []
    for setting in (*boosts, *front):
        values = [setting["iops"], setting["uj_per_io"], setting["power_mw"]]
        values += setting["freq_mhz"].values()
        rows.append([word(setting["name"]), *(Cell(v, format_number(v)) for v in values)])
    headings = ["IO boost", "IOPS", "µJ an IO", "mW"]
    headings += [f"{name} MHz" for name in boosts[0]["freq_mhz"]]
    facts = [f"{result['platform']}; {result['governor']}, {result['cpufreq']}"]
    notes = [f"Fixed: the best {len(front)} of {len(fixed)}."]
    return Post(result["workload"], facts, [Table("settings", "", headings, rows)], notes)
