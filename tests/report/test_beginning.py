# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The beginning of a page: its verdict, one picture, and the rows that matter."""

from __future__ import annotations

import re

import pytest

import sample
from torpor.results.sentences import best_other, is_reference
from torpor.view import report
from torpor.view.report import summary
from torpor_lab import charts


@pytest.fixture(scope="module")
def html() -> str:
    return report.render(sample.pixel())


def test_page_begins_with_verdict_picture_and_eight_rows(html: str) -> None:
    title = re.search(r"<h1>(.*?)</h1>", html, re.S)
    assert title and re.match(
        r"\S+ takes [\d,.]+\xa0% (more|less) idle power than \S+ and ", title[1]
    )
    before, folded = html.split("<details", 1)
    rows = re.findall(r'<tr data-key="(\w+)">', before)
    assert len(rows) == 8 and rows[:2] == ["idle_power_mw", "over_oracle_pct"]
    assert before.index("<svg") < before.index("<table")
    assert len(re.findall(r'<tr data-key="(\w+)">', folded)) > len(rows)


def test_picture_and_table_show_the_same_numbers(html: str) -> None:
    labels = re.findall(r"<text[^>]*>(?:menu|teo|oracle)\S* ([\d.]+)</text>", html)
    row = re.search(r'<tr data-key="idle_power_mw">(.*?)</tr>', html, re.S)
    assert labels and row
    shown = {text.replace(",", "") for text in re.findall(r">([\d.,]+)</data>", row[1])}
    assert set(labels) <= shown


def test_the_floor_is_what_a_proof_bounds() -> None:
    section = sample.pixel()["traces"][0]
    compared, runs = section["comparison"], section["runs"]

    def drawn(**changes: object) -> str:
        return str(summary.picture(compared, runs, section["oracle"] | changes))

    assert section["oracle"]["proof"] != "open"
    assert "no sequence of choices" in drawn()
    assert "no sequence of choices" not in drawn(proof="open", bound_mw=None)
    assert "no sequence of choices" not in str(summary.picture(compared, runs, None))
    assert drawn() != drawn(bound_mw=section["oracle"]["found_mw"] * 0.9)


def test_the_title_is_of_the_least_power() -> None:
    result = sample.pixel()
    section = result["traces"][0]
    other = best_other(section["comparison"], section["runs"])
    row = next(r for r in section["comparison"]["rows"] if r["key"] == "idle_power_mw")
    rivals = [
        cell["value"]
        for place, (cell, run) in enumerate(zip(row["cells"], section["runs"], strict=True))
        if place and run["kind"] == "governor" and not is_reference(run["governor"])
    ]
    assert other is not None and row["cells"][other]["value"] == min(rivals)


def test_a_reproduction_marks_right_and_wrong() -> None:
    def cell(published: float, ours: float, right: dict | None) -> dict:
        return {"published": published, "ours": ours, "right": right}

    rows = [
        {"title": "a", "cells": {"x": cell(10, 10, None), "y": cell(5, 6, {"sign": True})}},
        {"title": "b", "cells": {"x": cell(10, 10, None), "y": cell(5, 12, {"sign": False})}},
    ]
    drawn = charts.changes({"tables": [{"rows": rows}]})
    dots = [(series.colour, point.hint) for series in drawn.series for point in series.points]
    assert dots == [
        ("--oracle", "a, y: −50.0 % published, −40.0 % here"),
        ("--above", "b, y: −50.0 % published, +20.0 % here"),
    ]
