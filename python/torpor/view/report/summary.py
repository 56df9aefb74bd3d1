# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The beginning of a page of governors: a verdict, its certainty, one picture, and what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from markupsafe import Markup

from torpor._engine import TorporError
from torpor.results import types as results
from torpor.results.brief import explained, that_matter
from torpor.results.catalogue import RUNS, leading, title_text, unit_text
from torpor.results.comparison import (
    Section,
    base_text,
    class_shares,
    percent,
    short_labels,
    sources_text,
)
from torpor.results.kinds import explain
from torpor.results.numbers import number_text
from torpor.results.picture import Chart, Point, Series
from torpor.results.sentences import (
    best_other,
    differences,
    groups,
    is_reference,
    known_row,
)
from torpor.results.table import Verdict, counted
from torpor.view.chart import inline_both
from torpor.view.report.environment import table_html
from torpor.view.report.parts import Chip, Part

#: Colours of governors that compete, in their order; the next ones have dashed lines.
_COLOURS = ("--ink", "--link", "--above", "--below")
_DASHES = ("", "5 3", "2 2", "8 3 2 3")
#: The picture has these powers, the whole machine's first, against this delay.
_POWERS, _DELAY = leading("cost", *RUNS), leading("delay", *RUNS)[0]
#: A reference with so many times the power of the governors would hide their differences.
_FAR = 2.5
#: From so large a ratio on, the axis of delays is logarithmic.
_LOG_RATIO = 8
#: With a smaller share of known timers, a replay says little.
_RECORDED_SHARE_MIN = 0.5
#: Sentences next to the picture; the rest is with the limits.
_SENTENCES = 3


class Style(NamedTuple):
    """Color and marker of a governor in all pictures of a page."""

    colour: str
    dashes: str


def styles(runs: Sequence[results.RunOutcome]) -> dict[str, Style]:
    """Return each governor's colour and dashes."""
    found, count = {}, 0
    for run in runs:
        if run["governor"] in found:
            continue
        if run["kind"] == "oracle":
            found[run["governor"]] = Style("--oracle", "")
        elif is_reference(run["governor"]):
            found[run["governor"]] = Style("--muted", _DASHES[len(found) % len(_DASHES)])
        else:
            dashes = _DASHES[count // len(_COLOURS) % len(_DASHES)]
            found[run["governor"]] = Style(_COLOURS[count % len(_COLOURS)], dashes)
            count += 1
    return found


def beginning(
    section: Section,
    verdict: Verdict | None,
    finding: str,
    compared: results.Comparison,
    draws: str,
    looks: Mapping[str, Style],
) -> Part:
    """Return the beginning of a section, or of all of them if ``compared`` is over recordings.

    ``draws`` is what the samples of a paired comparison are.
    """
    runs = section["runs"]
    base, other = compared["base"], best_other(compared, runs)
    more = []
    if draws == "recording" and base is not None and other is not None:
        more = [differences(compared, base, other)]
    title = str(verdict or "")
    oracle = cast("results.OracleOutcome | None", section.get("oracle"))
    charts = picture(compared, runs, oracle)
    caption = _caption(compared, runs) if charts else ""
    figure = Markup(
        '<figure class="plotted">{}<figcaption class="caption">{}</figcaption></figure>'
    )
    is_whole = finding.rstrip(".") == title.rstrip(".")
    return Part(
        "",
        title,
        chips=_chips(section, compared, draws),
        finding="" if is_whole else finding,
        sentences=more,
        picture=figure.format(charts, caption) if charts else Markup(""),
        body=_matters(compared, runs, marks(compared, runs, looks)),
    )


def marks(
    compared: results.Comparison,
    runs: Sequence[results.RunOutcome],
    looks: Mapping[str, Style],
) -> dict[str, Markup]:
    """Return the dot of each governor's column."""
    dot = Markup('<i class="dot" style="background:var({})"></i>')
    short = short_labels(list(compared["labels"]))
    return {
        label: dot.format(looks[run["governor"]].colour)
        for label, run in zip(short, runs, strict=True)
    }


def line(style: Style) -> Markup:
    """Return a piece of a governor's line."""
    dashes = Markup(' stroke-dasharray="{}"').format(style.dashes) if style.dashes else ""
    return Markup(
        '<svg class="line" viewBox="0 0 24 8" aria-hidden="true">'
        '<path d="M0 4H24" stroke="var({})" stroke-width="2"{}/></svg>'
    ).format(style.colour, dashes)


def _matters(
    compared: results.Comparison, runs: Sequence[results.RunOutcome], dots: Mapping[str, Markup]
) -> Markup:
    """Return the rows that matter, and how to read them."""
    found = groups(compared)
    if not found:
        return Markup("")
    table = that_matter(compared, runs)._replace(title="What matters")
    rows = {row[0].term: row for row in table.rows}
    shown = [(name, [rows[row["key"]] for row in own]) for name, own in found]
    said = []
    if (base := compared["base"]) is not None:
        label = compared["labels"][base]
        text = f"In brackets: the change against {label} (pp: percentage points)"
        if compared["sampling"] == "paired" and compared["samples"] > 1:
            text += ", ± half of its 95 % interval: a change smaller than that may be chance"
        said.append(f"{text}.")
    if compared["sampling"] == "single":
        said.append("No governor is marked as best: one recording has no measure of chance.")
    else:
        said.append(
            "Bold with a dot: the row's best governor, or those that cannot be told from it."
        )
    said += explained(compared, runs)
    said.append(base_text(compared) or "")
    caption = Markup('<p class="caption">{}</p>').format(" ".join(said))
    return table_html(table, shown, marks=dots, css="matters") + caption


def sentences(result: Any, section: Any, verdict: str) -> tuple[list[str], str]:
    """Return what is next to the picture, and what the result cannot show."""
    compared = section["comparison"]
    other = best_other(compared, section["runs"])
    one = {**result, "traces": [section]} if "traces" in result else result
    words = [label.partition(" ")[0] for label in compared["labels"]]
    name = words[other] if other is not None and words.count(words[other]) == 1 else None
    try:
        said = explain(one, governor=name)
    except TorporError:
        return [], ""
    limits = said[-1] if said and said[-1].startswith("This cannot show") else ""
    # The first one is the title, and the verdict has its own place.
    return [text for text in said[1:] if text not in (limits, verdict)][:_SENTENCES], limits


def _chips(section: Section, compared: results.Comparison, draws: str) -> list[Chip]:
    found = []
    if compared["sampling"] == "paired":
        count = compared["samples"]
        found.append(Chip(counted(count, draws), count < 2))
        if tests := compared.get("tests", 0):
            found.append(Chip(f"95 % intervals, {tests} comparisons corrected for (Holm)"))
    base = compared["base"]
    wakeups = known_row(compared, "wakeups")
    if wakeups and base is not None and (count := wakeups["cells"][base]["value"]) is not None:
        found.append(Chip(f"{number_text(round(count))} wake-ups"))
    if "trace" not in section or draws == "recording":
        return found
    sources = section["inputs"]["sleep_length_sources"]
    if shares := class_shares(sources):
        text = f"next timer {sources_text(sources)}"
        found.append(Chip(text, shares["recorded"] < _RECORDED_SHARE_MIN))
    agreement = section.get("agreement")
    if agreement:
        verdict = agreement["verdict"]
        share = percent(verdict["agreement"])
        word = "verified" if verdict["is_verified"] else "not verified"
        text = f"{word}: recorded decisions explained, {share}"
        found.append(Chip(text, not verdict["is_verified"]))
    else:
        found.append(Chip("recorded decisions not compared"))
    lost = sum(loss["count"] for loss in section["trace"]["losses"] if loss["severity"] != "info")
    if lost:
        found.append(Chip(f"{number_text(lost)} pieces lost", is_warning=True))
    return found


def picture(
    compared: results.Comparison,
    runs: Sequence[results.RunOutcome],
    oracle: results.OracleOutcome | None,
) -> Markup | None:
    """Draw power over delay, for wide pages and for phones; None where one is not known.

    ``oracle`` is what a replay proves, which is a line that no point can be below.
    """
    power, delay = known_row(compared, *_POWERS), known_row(compared, _DELAY)
    places = _drawn(compared, runs)
    if power is None or delay is None or len(places) < 2:
        return None
    style = styles(runs)
    short = short_labels(list(compared["labels"]))
    series = []
    for place in places:
        run, (x, y) = runs[place], (delay["cells"][place], power["cells"][place])
        is_small = run["kind"] == "oracle" or is_reference(run["governor"])
        point = Point(
            x["value"],
            y["value"],
            f"{run['governor']}: {_text(power, y)}, {_text(delay, x)}",
            f"{short[place]} {y['text']}",
            is_small and run["kind"] != "oracle",
            _ends(delay, place, compared["base"]),
            _ends(power, place, compared["base"]),
        )
        series.append(Series("", [point], style[run["governor"]].colour, 4.5 if is_small else 6.0))
    delays = [point.x for one in series for point in one.points]
    least = next((place for place in places if runs[place]["governor"] == "oracle"), None)
    bound = oracle["bound_mw"] if oracle and oracle["found_mw"] else None
    floor = None
    if oracle and bound is not None and least is not None and compared["sampling"] == "single":
        found = power["cells"][least]["value"]
        floor = (found * bound / oracle["found_mw"], "no sequence of choices gets here")
    is_log = min(delays) > 0 and max(delays) / min(delays) > _LOG_RATIO
    return inline_both(
        Chart(
            f"{power['title']} over {delay['title']}",
            f"{title_text(delay)}{' (log)' if is_log else ''}",
            title_text(power),
            series,
            is_log_x=is_log,
            floor=floor,
        )
    )


def _drawn(compared: results.Comparison, runs: Sequence[results.RunOutcome]) -> list[int]:
    """Return the columns of the picture: those with both values, references not too far off."""
    power, delay = known_row(compared, *_POWERS), known_row(compared, _DELAY)
    if power is None or delay is None:
        return []
    known = [
        place
        for place, run in enumerate(runs)
        if not run["error"]
        and power["cells"][place]["value"] is not None
        and delay["cells"][place]["value"] is not None
    ]
    others = [power["cells"][p]["value"] for p in known if not is_reference(runs[p]["governor"])]
    most = _FAR * max(others, default=float("inf"))
    return [p for p in known if power["cells"][p]["value"] <= most]


def _caption(compared: results.Comparison, runs: Sequence[results.RunOutcome]) -> str:
    said = ["Lower left is better."]
    base = compared["base"]
    if compared["sampling"] == "paired" and compared["samples"] > 1 and base is not None:
        said.append(f"Bars: 95 % interval of the difference from {compared['labels'][base]}.")
    drawn = _drawn(compared, runs)
    if any(is_reference(runs[place]["governor"]) for place in drawn):
        said.append("Hollow: references, which always take the same state.")
    power = known_row(compared, *_POWERS)
    far = [
        f"{run['governor']} ({_text(power, power['cells'][place])})"
        for place, run in enumerate(runs)
        if not run["error"] and place not in drawn and power["cells"][place]["value"] is not None
    ]
    if far:
        said.append(f"Beyond the picture: {', '.join(far)}.")
    return " ".join(said)


def _ends(row: Any, place: int, base: int | None) -> tuple[float, float] | None:
    """Return the interval of a column: that of its difference, from the base's value on."""
    change = row["cells"][place]["change"]
    if base is None or not change or change["low"] is None:
        return None
    start = row["cells"][base]["value"]
    return start + change["low"], start + change["high"]


def _text(row: Any, cell: Any) -> str:
    return f"{cell['text']} {unit_text(row['unit'])}".rstrip()
