# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison of governors: rows from the metric catalogue, changes against the first one.

Every place that shows the comparison (terminal, notebook, CSV) takes it from here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

NOT_KNOWN = "not known"
FAILED = "failed"

# From ten times on, a factor reads better than a percentage.
_FACTOR_FROM = 10.0

# The catalogue is ASCII; people are used to the sign.
_UNITS = {"us": "µs", "uJ": "µJ", "uW": "µW"}


class Cell(NamedTuple):
    """One governor's value of one metric, ready to print."""

    text: str
    change: str = ""
    #: Better than the first governor, by the metric's direction; None when that says nothing.
    is_better: bool | None = None

    @property
    def full(self) -> str:
        """The value with its change, as ``187.8 (−10.17 %)``."""
        return f"{self.text} ({self.change})" if self.change else self.text


class Row(NamedTuple):
    """One metric over all governors."""

    key: str
    title: str
    unit: str
    definition: str
    cells: list[Cell]

    @property
    def heading(self) -> str:
        """The title with the unit, so that no cell repeats it."""
        unit = _UNITS.get(self.unit, self.unit)
        return f"{self.title} {unit}" if unit else self.title


def rows(result: dict[str, Any], trace: dict[str, Any]) -> list[Row]:
    """Return the comparison of one trace, one row a metric in the catalogue's order."""
    runs = trace["runs"]
    table = []
    for metric in result["catalogue"]:
        values = [run["metrics"].get(metric["key"]) for run in runs]
        if is_left_out(metric, values):
            continue
        cells = []
        for index, (run, value) in enumerate(zip(runs, values, strict=True)):
            if run["error"]:
                cells.append(Cell(FAILED))
            elif value is None:
                cells.append(Cell(NOT_KNOWN))
            else:
                base = values[0] if index and not runs[0]["error"] else None
                interval = run.get("differences", {}).get(metric["key"])
                cells.append(_cell(metric, value, base, interval))
        table.append(
            Row(metric["key"], metric["title"], metric["unit"], metric["definition"], cells)
        )
    return table


def is_left_out(metric: dict[str, Any], values: list[float | None]) -> bool:
    """Whether a row would say nothing: an optional metric that is 0 or not known for everyone."""
    return metric.get("is_optional", False) and not any(values)


def short_labels(governors: list[str]) -> list[str]:
    """Shorten governors to what tells them apart, for the head of a column.

    >>> short_labels(["menu", "teo@/src/linux-6.12", "./my/teo.c,x=1"])
    ['menu', 'teo@linux-6.12', 'teo.c,x=1']
    >>> short_labels(["teo@a/linux", "teo@b/linux"])
    ['teo@a/linux', 'teo@b/linux']
    """
    short = [_short_label(governor) for governor in governors]
    return [s if short.count(s) == 1 else g for s, g in zip(short, governors, strict=True)]


def _short_label(governor: str) -> str:
    place, comma, params = governor.partition(",")
    # A path before the `@` belongs to a file whose folder has one in its name.
    name, at, tree = place.partition("@")
    if at and "/" not in name:
        return f"{name}@{_base_name(tree)}{comma}{params}"
    return f"{_base_name(place)}{comma}{params}"


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _cell(
    metric: dict[str, Any],
    value: float,
    base: float | None,
    interval: dict[str, float] | None,
) -> Cell:
    text = _value_text(metric, value)
    if base is None or metric["direction"] == "none":
        return Cell(text)
    if text == _value_text(metric, base):
        # Two values that read alike differ by less than anyone can act on.
        return Cell(text)
    is_better = (value < base) == (metric["direction"] == "lower")
    # A change of a percentage in per cent would be read as percentage points.
    change = "" if metric["unit"] == "%" else format_change(base, value)
    if interval is not None:
        change = _with_margin(metric, change, base, interval)
        if interval["low"] <= 0 <= interval["high"]:
            return Cell(text, change)
    return Cell(text, change, is_better)


def _with_margin(
    metric: dict[str, Any], change: str, base: float, interval: dict[str, float]
) -> str:
    """A change with half its confidence interval, in the change's own unit."""
    margin = (interval["high"] - interval["low"]) / 2
    if metric["unit"] == "%":
        return f"{interval['mean']:+.2g} ±{margin:.2g}".replace("-", "−")
    if not change or change.startswith("×"):
        return change
    return f"{change} ±{abs(100 * margin / base):.2g}"


def _value_text(metric: dict[str, Any], value: float) -> str:
    # A metric without unit is a count.
    return format_number(value) if metric["unit"] else f"{value:.0f}"


def format_number(value: float) -> str:
    """Format with as many digits as a reader compares by.

    >>> [format_number(v) for v in (104086.4, 2716.4, 187.83, 9.614, 1.0, 0.00123, 0.0)]
    ['104086', '2716.4', '187.8', '9.61', '1.00', '0.00123', '0']
    """
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude >= 10_000:
        text = f"{value:.0f}"
    elif magnitude >= 100:
        text = f"{value:.1f}"
    elif magnitude >= 1:
        text = f"{value:.2f}"
    elif magnitude >= 0.1:
        text = f"{value:.3f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−", 1)


def format_change(base: float, value: float) -> str:
    """Format the change from base to value; nothing can be said of a base of 0.

    >>> format_change(209.1, 187.8), format_change(1.5, 46.0), format_change(0, 3)
    ('−10.19 %', '×30.7', '')
    """
    if base == 0:
        return ""
    ratio = value / base
    if ratio >= _FACTOR_FROM:
        return f"×{ratio:.1f}" if ratio < 100 else f"×{ratio:.0f}"
    return f"{(ratio - 1) * 100:+.2f} %".replace("-", "−")


def sources_text(counts: dict[str, int], words: dict[str, str]) -> str:
    """Format counts as shares, the largest first, leaving out what never occurred.

    >>> sources_text({"probe": 0, "timer_events": 3, "tick_only": 1}, SLEEP_LENGTH_WORDS)
    'timer events 75 %, the tick only 25 %'
    """
    total = sum(counts.values())
    shares = sorted(((n, key) for key, n in counts.items() if n), key=lambda s: -s[0])
    return ", ".join(f"{words.get(key, key)} {_share(n, total)}" for n, key in shares)


def percent(share: float | None) -> str:
    """Write a share with two digits; 100 % only where nothing is missing."""
    if share is None:
        return "-"
    whole = 100 * share if share >= 1 else min(100 * share, 99.99)
    return f"{whole:.2f} %"


def agreement_text(agreement: dict[str, Any]) -> str:
    """Say how far the recorded decisions are those of the governor that fits them best."""
    verdict = agreement["verdict"]
    text = (
        f"Recorded decisions, {agreement['decisions']['compared']:,}, asked again: "
        f"{' or '.join(verdict['best'])} agrees in {percent(verdict['agreement'])}"
    )
    if verdict["control"] is not None:
        text += f", {verdict['control']} as a control in {percent(verdict['control_agreement'])}"
    return f"{text}. `torpor fidelity` tells more."


def _share(count: int, total: int) -> str:
    if count == total:
        return "100 %"
    percent = 100 * count / total
    # 99.97 % is not all, and 0.02 % is not nothing.
    if percent >= 99.5:
        return f"{min(percent, 99.99):.2f} %"
    return f"{percent:.0f} %" if percent >= 0.5 else f"{max(percent, 0.01):.2f} %"


def task_rows(result: dict[str, Any]) -> tuple[list[str], list[Row]]:
    """Return a simulation's tasks: the governors that finished, and rows whose key is the task."""
    runs = [run for run in result["traces"][0]["runs"] if not run["error"]]
    names = short_labels([run["governor"] for run in runs])
    span_s = result["options"]["duration_ns"] / 1e9 * result["options"]["seeds"]
    table = []
    for index, kind in enumerate(runs[0]["tasks"] if runs else []):
        does_io = any(run["tasks"][index]["ios"] for run in runs)
        for title, unit, value in _OF_A_TASK + _OF_ITS_IO * does_io:
            values = [value(run["tasks"][index], span_s) for run in runs]
            cells = [Cell(NOT_KNOWN if v is None else format_number(v)) for v in values]
            table.append(Row(kind["name"], f"{kind['name']}: {title}", unit, "", cells))
    return names, table


def _us(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e3


#: What is told of a kind of task: title, unit, and how it follows from the result.
_OF_A_TASK: list[tuple[str, str, Callable[[dict[str, Any], float], float | None]]] = [
    ("passes", "1/s", lambda task, span_s: task["passes"] / span_s),
    ("CPU time", "%", lambda task, span_s: task["cpu_time_ns"] / 1e7 / span_s),
    ("pass time, mean", "us", lambda task, _: _us(task["pass_time"]["mean_ns"])),
    ("pass time, p99", "us", lambda task, _: _us(task["pass_time"]["p99_ns"])),
    ("wake-up latency, mean", "us", lambda task, _: _us(task["latency"]["mean_ns"])),
    ("wake-up latency, p99", "us", lambda task, _: _us(task["latency"]["p99_ns"])),
]

#: And of one that asks devices.
_OF_ITS_IO: list[tuple[str, str, Callable[[dict[str, Any], float], float | None]]] = [
    ("IO", "1/s", lambda task, span_s: task["ios"] / span_s),
    ("IO latency, mean", "us", lambda task, _: _us(task["io_latency"]["mean_ns"])),
    ("IO latency, p99", "us", lambda task, _: _us(task["io_latency"]["p99_ns"])),
]


SLEEP_LENGTH_WORDS = {
    "probe": "the kernel's own answer",
    "timer_events": "timer events",
    "waking_timer": "the timer that woke",
    "tick_only": "the tick only",
}


def to_csv(result: dict[str, Any]) -> str:
    """Return one line a trace and governor, one column a metric; not known is empty."""
    import csv
    import io

    keys = [metric["key"] for metric in result["catalogue"]]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["trace", "platform", "governor", "error", *keys])
    for trace in result["traces"]:
        for run in trace["runs"]:
            head = [trace["trace"]["path"], result["platform"]["name"], run["governor"]]
            values = [run["metrics"].get(key) for key in keys]
            writer.writerow([*head, run["error"], *values])
    return out.getvalue()
