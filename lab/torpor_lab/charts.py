# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Charts of studies, contests and reproductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torpor.plugin import (
    COLOURS,
    Chart,
    Point,
    Post,
    Rows,
    Series,
    change_unit,
    minus,
    numbers,
    stacked,
    svg,
)
from torpor_lab.questions import metric_of
from torpor_lab.reproduction import judged_cells

if TYPE_CHECKING:
    from torpor_lab.contest.run import Contest
    from torpor_lab.contest.score import Standing
    from torpor_lab.questions import Answer, Mean
    from torpor_lab.reproduction import Reproduction
    from torpor_lab.studies.adaptation import Adaptation
    from torpor_lab.studies.io_boost import Scatter, Setting

#: Energies of a contest's front beyond this are named instead: they would hide the differences.
_FAR_PCT = 150.0
#: How to read a chart of IO boosts.
_IO_BOOST = (
    "Up and left is better. On the line no other fixed frequency gives more IOPS for less energy; "
    "small dots are the rest of them. Point at a dot to read it."
)
#: Least delay, as a ratio, on a logarithmic axis.
_LEAST_RATIO = 0.01


def with_io_boost(found: Post, result: Scatter) -> Post:
    """Return the table of a study of IO boosts with its chart, for a page."""
    facts = [*found.facts, f"{result['seeds']} runs of {result['duration']} each"]
    notes = [*found.notes, _IO_BOOST]
    return found._replace(facts=facts, notes=notes, picture=io_boost(result))


def io_boost(result: Scatter) -> Chart:
    """Return IOPS over energy of IO boosts and of fixed frequencies."""
    settings = result["settings"]
    front = sorted((s for s in settings if s["is_front"]), key=lambda s: s["iops"])
    others = [s for s in settings if s["kind"] == "fixed" and not s["is_front"]]
    families: dict[str, list[Setting]] = {}
    for setting in settings:
        if setting["kind"] == "boost":
            families.setdefault(setting["name"].partition(",")[0], []).append(setting)
    series = [
        Series("", [_setting(s, "") for s in others], "--strong", 2.0),
        Series(
            "best fixed frequencies, MHz",
            [_setting(s, s["name"].partition(" MHz")[0]) for s in front],
            "--muted",
            3.0,
            is_line=True,
        ),
    ]
    for place, (name, own) in enumerate(families.items()):
        colour = COLOURS[place % len(COLOURS)]
        series.append(Series(name, [_setting(s, s["name"]) for s in own], colour, 5.0))
    return Chart(
        "IO boosts: IOPS over energy an IO",
        "µJ an IO, all of the machine",
        "IOPS",
        series,
        (
            f"{result['workload']}; {result['platform']}",
            f"idle {result['governor']}, {result['cpufreq']}",
        ),
        size=(960.0, 620.0),
        hollow="with other parameters",
    )


def _setting(setting: Setting, label: str) -> Point:
    freqs = ", ".join(f"{name} {mhz:.0f} MHz" for name, mhz in setting["freq_mhz"].items())
    iops, uj, mw = (numbers.number_text(setting[key]) for key in ("iops", "uj_per_io", "power_mw"))
    hint = f"{setting['name']}: {iops} IOPS, {uj} µJ an IO, {mw} mW; on average {freqs}"
    is_hollow = setting["kind"] == "boost" and "," in setting["name"]
    return Point(setting["uj_per_io"], setting["iops"], hint, label, is_hollow)


#: A step is named that is at least this part of the widest line's reach.
_STEP_PART = 0.12


def steps(found: Answer) -> str:
    """Draw histories: the answer's metric, and those of its unit, since the first of each."""
    first = change_unit(metric_of(found["metrics"][0]))
    keys = [key for key in found["metrics"] if change_unit(metric_of(key)) == first]
    return svg(*(_steps(found, governor, keys, first) for governor in found["steps"]))


def _steps(found: Answer, governor: str, keys: list[str], unit: str) -> Chart:
    names = found["steps"][governor]
    of = {(m["contrast"], m["metric"]): m for m in found["means"] if m["of"] == "all"}
    lines = {key: _since(key, [of.get((name, key)) for name in names]) for key in keys}
    reach = max((abs(y) for line in lines.values() for y in line), default=0.0)
    topics = [name.removeprefix(f"{governor} ").rpartition(" (")[0] or name for name in names]
    series = []
    for place, (key, line) in enumerate(lines.items()):
        points = [Point(0.0, 0.0, "before the first step")]
        for at, (topic, y) in enumerate(zip(topics, line, strict=True), 1):
            is_large = abs(y - points[-1].y) > _STEP_PART * reach and place == 0
            hint = f"{at}. {topic}: {minus(f'{y:+.3g}')} {unit} since the first"
            points.append(Point(float(at), y, hint, str(at) if is_large else ""))
        title = str(metric_of(key)["title"])
        series.append(Series(title, points, COLOURS[place % len(COLOURS)], is_line=True))
    named = [f"{p.label}. {topics[int(p.x) - 1]}" for p in series[0].points if p.label]
    return Chart(
        f"{governor}: change since the first of {len(names) + 1} versions",
        "step",
        unit,
        series,
        tuple(named),
        size=(960.0, 330.0 + 16.0 * len(named)),
    )


def _since(key: str, means: list[Mean | None]) -> list[float]:
    """Add up the changes of steps: points of a share, or per cent of per cent."""
    found, level = [], 0.0
    is_share = metric_of(key)["kind"] == "share"
    for mean in means:
        change = mean["mean"] if mean else 0.0
        level = level + change if is_share else level + change + level * change / 100
        found.append(level)
    return found


def adaptation(found: Adaptation) -> str:
    """Draw idle energy over the time since a change, a chart for each load."""
    window_s = found["window_ms"] / 1000
    charts = []
    for load in dict.fromkeys(curve["load"] for curve in found["curves"]):
        own = [curve for curve in found["curves"] if curve["load"] == load]
        series = []
        for place, curve in enumerate(own):
            at = [((n + 0.5) * window_s, value) for n, value in enumerate(curve["windows_pct"])]
            points = [Point(x, y, _hint(curve["governor"], x, y)) for x, y in at]
            colour = COLOURS[(place + 1) % len(COLOURS)]
            series.append(Series(curve["governor"], points, colour, is_line=True))
        title = f"{found['platform']}: idle energy after a change to {load}, oracle = 100"
        charts.append(Chart(title, "s since the change", "%", series, size=(960.0, 300.0)))
    return svg(*charts)


def front(found: Contest) -> str:
    """Draw energy over delay of all replays: the oracle's front, and the governors."""
    return svg(_front(found, found.front))


def front_of_page(found: Contest) -> Chart | None:
    """Return the standings for a page; None where no energy is known."""
    chart = _front(found, found.standings)
    return chart if chart.points else None


def _front(found: Contest, governors: Sequence[Standing]) -> Chart:
    oracles = [one for one in found.front if one.governor.partition(",")[0] == "oracle"]
    known = [
        (one.governor, one.delay_pct, one.energy_pct)
        for one in dict.fromkeys((*governors, *oracles))
        if one.delay_pct is not None and one.energy_pct is not None
    ]
    oracle, far = list[Point](), list[str]()
    entries = Series("entry" if found.entries else "", [], "--link", 6.0)
    base = Series("", [], "--ink", 5.0)
    others = Series("", [], "--strong", 4.0)
    for name, delay, energy in known:
        x = max(1 + delay / 100, _LEAST_RATIO)
        hint = f"{name}: delay {minus(f'{delay:+.4g}')} %, energy {minus(f'{energy:+.4g}')} %"
        if name.partition(",")[0] == "oracle":
            oracle.append(Point(x, energy, hint))
        elif energy <= _FAR_PCT:
            of = entries if name in found.entries else base if name == found.base else others
            of.points.append(Point(x, energy, hint, name))
        else:
            far.append(hint)
    taken: list[Point] = []
    series = [
        Series("oracle" if oracle else "", sorted(oracle), "--oracle", is_line=True),
        *(one._replace(points=_labelled(one.points, taken)) for one in (entries, base, others)),
    ]
    # Entries are above all others.
    series[1:] = [one for one in reversed(series[1:]) if one.points]
    title = f"Energy over delay, all replays of corpus {found.corpus.title}, from {found.base}"
    facts = (f"beyond the picture: {'; '.join(far)}",) if far else ()
    axes = (f"delay, {found.base} = 1 (log)", f"energy from {found.base}, %")
    return Chart(title, *axes, series, facts, size=(620.0, 420.0), is_log_x=True)


#: Points that are nearer than this part of an axis share no label: the first one has it.
_BESIDE = 0.07


def _labelled(points: Sequence[Point], taken: list[Point]) -> list[Point]:
    """Return points without the label of those that are beside one in ``taken``."""
    found = []
    for point in points:
        is_beside = any(
            abs(math.log(point.x / other.x)) < _BESIDE * -math.log(_LEAST_RATIO)
            and abs(point.y - other.y) < _BESIDE * _FAR_PCT
            for other in taken
        )
        taken += [] if is_beside else [point]
        found.append(point._replace(label="") if is_beside else point)
    return found


def _hint(name: str, x: float, y: float) -> str:
    return f"{name}: {x:.4g}, {y:.4g}"


#: What is judged, in a reader's words.
_ASPECTS = {"sign": "signs", "order": "orders", "size": "sizes", "range": "ranges"}


def judged(result: Reproduction) -> Rows:
    """Return the judged cells by aspect: right, within the published runs, wrong."""
    rows = []
    for aspect, name in _ASPECTS.items():
        cells = [one for one in judged_cells(result) if aspect in (one.cell["right"] or {})]
        right = sum(bool(one.cell["right"] and one.cell["right"][aspect]) for one in cells)
        spread = sum(
            one.is_so == "spread" and not (one.cell["right"] or {})[aspect] for one in cells
        )
        counts = (
            ("right", "--oracle", right),
            ("within the published runs", "--strong", spread),
            ("wrong", "--above", len(cells) - right - spread),
        )
        if cells:
            parts = [(what, colour, count, str(count)) for what, colour, count in counts]
            rows.append(stacked(name, parts, f"{right} of {len(cells)}"))
    return Rows("", "", rows, (0.0, 100.0))


#: Ratios beyond are drawn at the end of the axes.
_RATIO_MAX = 10.0


def changes(result: Reproduction) -> Chart | None:
    """Return each change as published and as simulated; None without two numbers to compare."""
    series = [
        Series("sign right", [], "--oracle", 5.0),
        Series("sign wrong", [], "--above", 5.0),
        Series("calibrated, or not judged", [], "--muted", 5.0),
    ]
    right, wrong, open_ = series
    for table in result["tables"]:
        for row in table["rows"]:
            cells = list(row["cells"].items())
            for column, cell in cells[1:]:
                base = cells[0][1]
                there = _ratio(cell["published"], base["published"])
                here = _ratio(cell["ours"], base["ours"])
                if there is None or here is None:
                    continue
                hint = (
                    f"{row['title']}, {column}: {minus(f'{100 * (there - 1):+.1f}')} % published, "
                    f"{minus(f'{100 * (here - 1):+.1f}')} % here"
                )
                judged = cell["right"]
                x, y = (min(max(ratio, 1 / _RATIO_MAX), _RATIO_MAX) for ratio in (there, here))
                is_far = (x, y) != (there, here)
                point = Point(x, y, hint, is_hollow=judged is None or is_far)
                of = open_ if judged is None else right if judged.get("sign", True) else wrong
                of.points.append(point)
    count = sum(len(one.points) for one in series)
    if not count:
        return None
    title = f"{count} changes, as published and as simulated"
    axes = ("change as published", "change as simulated")
    return Chart(title, *axes, series, is_change=True, size=(560.0, 520.0))


def _ratio(value: object, base: object) -> float | None:
    if not isinstance(value, int | float) or not isinstance(base, int | float):
        return None
    return value / base if value > 0 and base > 0 else None
