# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The pictures of a report as Altair charts, for notebooks and papers.

Requires Altair (``pip install 'torpor[plot]'``). Each function takes what :func:`torpor.replay` or
:func:`torpor.simulate` returned, and returns an ``altair.Chart``: display it, change it, or
``save`` it.

>>> result = torpor.replay(recording, platform="pixel6", governors=["menu", "teo"])
>>> torpor.plot.residency(result).to_dict()["mark"]["type"]
'bar'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torpor._engine import TorporError
from torpor.results.comparison import section_name, sections, title_text
from torpor.results.record import Compared
from torpor.view.chart import Chart, Point, Series
from torpor.view.report import bars, palette

__all__ = ["comparison", "front", "latency", "residency", "strip", "wrong_depth"]

_RUNNING = "#e7e6e1"
_ABOVE, _BELOW = "#a8390f", "#5b3c9e"
_WIDTH = 480


def residency(result: Compared) -> Any:
    """Draw where each cluster's CPU time went, running and per idle state."""
    rows, colours = [], {"running": _RUNNING}
    for name, section in _sections(result):
        platform = result._dict["platform"]
        colours |= _state_colours(platform)
        for panel in bars.residency(platform, section["runs"]):
            for bar in _list(panel["bars"]):
                rows += [
                    {
                        **{"recording": name, "cluster": panel["name"]},
                        **{"governor": bar["governor"], "state": segment["name"]},
                        **{"share": float(segment["width"]) / 100, "order": order},
                    }
                    for order, segment in enumerate(bar["segments"])
                ]
    alt = _altair()
    return _faceted(
        alt.Chart(alt.Data(values=rows), title="Where the time went")
        .mark_bar()
        .encode(
            x=alt.X("share:Q", stack="zero", axis=alt.Axis(format="%"), title="CPU time"),
            y=alt.Y("governor:N", sort=None, title=None),
            color=alt.Color("state:N", scale=_scale(colours), title="state"),
            order="order:Q",
            tooltip=["cluster:N", "governor:N", "state:N", alt.Tooltip("share:Q", format=".2%")],
        ),
        rows,
        "cluster",
    )


def wrong_depth(result: Compared) -> Any:
    """Draw which sleeps were too deep (left) or too shallow, by state, in percent of all sleeps."""
    rows: list[dict[str, object]] = []
    for name, section in _sections(result):
        rows += [
            {
                **{"recording": name, "cluster": of.cluster, "governor": run["governor"]},
                **{"order": of.place, "state": f"{of.cluster} {of.state}"},
                **{"depth": depth, "percent": percent},
            }
            for run in bars.finished(section["runs"])
            for of in bars.depths(run)
            for depth, percent in (("too deep", 0 - of.above), ("too shallow", of.below))
        ]
    alt = _altair()
    colours = {"too deep": _ABOVE, "too shallow": _BELOW}
    return _faceted(
        alt.Chart(alt.Data(values=rows), title="Wrong depth, by the state entered")
        .mark_bar()
        .encode(
            x=alt.X("percent:Q", title="% of all sleeps: too deep, too shallow"),
            y=alt.Y("state:N", sort=None, title=None),
            color=alt.Color("depth:N", scale=_scale(colours), title=None),
            tooltip=["governor:N", "state:N", "depth:N", alt.Tooltip("percent:Q", format=".2f")],
        ),
        rows,
        "governor",
    )


def latency(result: Compared) -> Any:
    """Draw the share of wake-ups within a latency, one line a governor."""
    rows = []
    for name, section in _sections(result):
        for run in bars.finished(section["runs"]):
            own, seen = run["latency"], 0
            for bound, count in own["histogram"]:
                seen += count
                rows.append(
                    {
                        **{"recording": name, "governor": run["governor"]},
                        "latency_us": min(bound, own["max_ns"] or bound) / 1e3,
                        "share": seen / own["count"],
                    }
                )
    alt = _altair()
    return _faceted(
        alt.Chart(alt.Data(values=rows), title="Wake-up latency")
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("latency_us:Q", scale=alt.Scale(type="log"), title="latency, µs"),
            y=alt.Y("share:Q", axis=alt.Axis(format="%"), title="wake-ups within"),
            color=alt.Color("governor:N", sort=None),
        ),
        rows,
        "recording",
    )


def comparison(result: Compared, metric: str) -> Any:
    """Draw a metric of every governor; of several seeds, with each of them as a dot.

    Raises KeyError for a metric that the result does not have.
    """
    rows, dots = [], []
    info = _metric(result, metric)
    for name, section in _sections(result):
        for run in section["runs"]:
            value = run["metrics"].get(metric)
            where = {"recording": name, "governor": run["governor"]}
            if value is not None:
                rows.append({**where, "value": value})
            seeds: Any = run.get("seeds", ())
            dots += [
                {**where, "value": seed["metrics"][metric]}
                for seed in seeds
                if seed["metrics"].get(metric) is not None
            ]
    alt = _altair()
    encoded: dict[str, Any] = {
        "x": alt.X("value:Q", title=title_text(info)),
        "y": alt.Y("governor:N", sort=None, title=None),
    }
    drawn = alt.Chart(alt.Data(values=rows), title=info["title"]).mark_bar(color="#93c2f2")
    drawn = drawn.encode(**encoded, tooltip=["governor:N", "value:Q"])
    if dots:
        seeds_drawn = alt.Chart(alt.Data(values=dots)).mark_point(color="#1a1a19", size=14)
        return alt.layer(drawn, seeds_drawn.encode(**encoded)).properties(width=_WIDTH)
    return _faceted(drawn, rows, "recording")


def front(results: Mapping[str, Compared] | Compared, x: str, y: str) -> Any:
    """Draw one metric against another, a dot a governor: what a parameter gains and costs.

    ``results`` is one result, or several by name, each with a colour of its own.

    Raises KeyError for a metric that a result does not have.
    """
    named = results if isinstance(results, Mapping) else {"": results}
    first = next(iter(named.values()))
    across, up = _metric(first, x), _metric(first, y)
    series: dict[str, list[Point]] = {}
    for name, result in named.items():
        for recording, section in _sections(result):
            own = series.setdefault(" ".join(filter(None, (name, recording))), [])
            for run in section["runs"]:
                at, height = run["metrics"].get(x), run["metrics"].get(y)
                if at is not None and height is not None:
                    own.append(Point(at, height, "", run["governor"]))
    title = f"{up['title']} over {across['title']}"
    drawn = [Series(name, points, "") for name, points in series.items()]
    return _points(Chart(title, title_text(across), title_text(up), drawn))


def _points(chart: Chart) -> Any:
    """Return the points of a chart, a colour for each series, with their labels."""
    rows = [
        {"of": series.name, "name": point.label, "x": point.x, "y": point.y}
        for series in chart.series
        for point in series.points
    ]
    alt = _altair()
    dots = alt.Chart(alt.Data(values=rows), title=chart.title).encode(
        x=alt.X("x:Q", title=chart.x_title, scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=chart.y_title, scale=alt.Scale(zero=False)),
        color=alt.Color("of:N", title=None),
        tooltip=["of:N", "name:N", "x:Q", "y:Q"],
    )
    text = dots.mark_text(align="left", dx=7).encode(text="name:N")
    return alt.layer(dots.mark_point(filled=True, size=60), text).properties(width=_WIDTH)


def strip(
    result: Compared, *, cpu: int | None = None, start_ms: float = 0, length_ms: float = 100
) -> Any:
    """Draw one CPU's sleeps in a part of its time, one row a governor; by default the busiest's.

    Raises TorporError if the result was made without its ``strip``, or does not have the CPU.
    """
    rows, titles = [], []
    colours: dict[str, str] = {}
    for name, section in _sections(result):
        strips = section["strips"]
        if not strips:
            continue
        kept = strips[0] if cpu is None else next((s for s in strips if s["cpu"] == cpu), None)
        if kept is None:
            known = ", ".join(str(number) for number in sorted(s["cpu"] for s in strips))
            raise TorporError(f"there is no CPU {cpu} in {name}: expected one of {known}")
        platform = result._dict["platform"]
        clusters = [
            c for run in section["runs"] for c in run["clusters"] if kept["cpu"] in c["cpus"]
        ]
        states = [state["name"] for state in clusters[0]["states"]]
        own = next(c for c in platform["clusters"] if c["name"] == clusters[0]["name"])
        colours |= {
            state: palette.state_colour(i, len(states), own["states"][i]["polling"])
            for i, state in enumerate(states)
        }
        titles.append(f"CPU {kept['cpu']} of {name}")
        for row in kept["rows"]:
            for begin, end, state in row["segments"]:
                since, until = ((t - kept["start_ns"]) / 1e6 for t in (begin, end))
                if state >= 0 and since < start_ms + length_ms and until > start_ms:
                    place = {"recording": name, "governor": row["governor"]}
                    rows.append({**place, "from": since, "to": until, "state": states[state]})
    if not titles:
        raise TorporError("this result has no strip\nhint: make it with `strip=True`")
    alt = _altair()
    ends = [start_ms, start_ms + length_ms]
    return _faceted(
        alt.Chart(alt.Data(values=rows), title=", ".join(titles))
        .mark_bar(clip=True)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=ends, nice=False), title="ms"),
            x2="to:Q",
            y=alt.Y("governor:N", sort=None, title=None),
            color=alt.Color("state:N", scale=_scale(colours), title="state"),
            tooltip=["governor:N", "state:N", "from:Q", "to:Q"],
        ),
        rows,
        "recording",
    )


def _sections(result: Compared) -> list[tuple[str, Any]]:
    return [(section_name(section), section) for section in sections(result._dict)]


def _list(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


def _state_colours(platform: Mapping[str, Any]) -> dict[str, str]:
    return {
        state["name"]: palette.state_colour(index, len(cluster["states"]), state["polling"])
        for cluster in platform["clusters"]
        for index, state in enumerate(cluster["states"])
    }


def _scale(colours: Mapping[str, str]) -> Any:
    return _altair().Scale(domain=list(colours), range=list(colours.values()))


def _metric(result: Compared, key: str) -> Mapping[str, Any]:
    known = {metric["key"]: metric for metric in result._dict["catalogue"]}
    if key not in known:
        raise KeyError(f"{key!r}: expected one of {list(known)}")
    found: Mapping[str, Any] = known[key]
    return found


def _faceted(chart: Any, rows: Iterable[Mapping[str, Any]], by: str) -> Any:
    """One chart below the other where there are several of what it is by."""
    if len({(row["recording"], row.get(by)) for row in rows}) < 2:
        return chart.properties(width=_WIDTH)
    several = len({row["recording"] for row in rows}) > 1
    alt = _altair()
    fields = {"row": alt.Row(f"{by}:N", sort=None, title=None)}
    if several and by != "recording":
        fields["column"] = alt.Column("recording:N", sort=None, title=None)
    return chart.encode(**fields).properties(width=_WIDTH // (2 if several else 1))


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise ImportError("torpor.plot requires Altair: pip install 'torpor[plot]'") from None
    return altair
