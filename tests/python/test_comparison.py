# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison: numbers, changes, and how it fits a terminal."""

import csv
import io

import pytest

import small_result
from small_result import refill
from torpor.results.comparison import format_number, to_csv
from torpor.results.kinds import posted
from torpor.view.paint import terminal
from torpor.view.report.environment import fragment


def terminal_text(result, width):
    return terminal(posted(result), width)


def cells(result, key):
    refill(result)
    row = next(r for r in rows(result) if r["key"] == key)
    texts = [(cell["text"], (cell["change"] or {"text": ""})["text"]) for cell in row["cells"]]
    return [f"{text} ({change})" if change else text for text, change in texts]


def rows(result):
    return result["traces"][0]["comparison"]["rows"]


def marks(row):
    """Return each cell's marks: better than the base, and best."""
    return [
        ((cell["change"] or {"is_better": None})["is_better"], cell["is_best"])
        for cell in row["cells"]
    ]


def test_a_metric_without_direction_has_no_verdict():
    result = small_result.result()
    result["traces"][0]["runs"][1]["metrics"]["wakeups"] = 7000
    assert cells(result, "wakeups") == ["6809", "7000 (+2.81 %)", "6809"]
    assert marks(rows(result)[0]) == [(None, False)] * 3


def test_one_recording_marks_nothing():
    result = small_result.result(("menu", "teo"))
    for row in rows(result):
        assert marks(row) == [(None, False)] * 2


def test_a_failed_governor_leaves_the_others_standing():
    result = small_result.result(failed="teo")
    assert cells(result, "above_pct") == ["24.15", "failed", "0 (−24.15 pp)"]
    text = terminal_text(result, 120)
    assert "teo failed: crashed in select() on CPU 3" in text


def test_a_failed_base_is_replaced_on_every_page():
    result = small_result.result(failed="menu")
    assert cells(result, "idle_power_mw") == ["failed", "187.8", "205.5 (+9.42 %)"]
    note = "Changes are relative to teo, the first governor that finished."
    assert note in terminal_text(result, 100)
    assert note in fragment(posted(result))


def test_a_tiny_number_keeps_its_digits():
    assert format_number(0.000123) == "0.000123"
    assert format_number(-12.345) == "−12.35"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_no_line_is_wider_than_the_terminal(width, count):
    names = ("menu", "teo", "shallowest", "menu@6.12", "teo@6.12", "deepest", "oracle")[:count]
    text = terminal_text(small_result.result(names), width)
    assert max(map(len, text.splitlines())) <= width
    # Nothing was cut: each governor's name and each value is readable.
    assert "…" not in text
    for name in names:
        assert name in text
    assert "209.1" in text


def test_narrow_terminals_repeat_the_first_governor():
    names = ("menu", "teo", "shallowest", "menu@6.12", "teo@6.12", "deepest", "oracle")
    text = terminal_text(small_result.result(names), 60)
    headings = [line for line in text.splitlines() if " menu " in f"{line} "]
    assert len(headings) >= 2


def test_units_are_in_the_heading_once():
    text = terminal_text(small_result.result(), 200)
    assert text.count("mW") == 1
    assert "idle power mW" in text


def test_evidence_is_below_the_table():
    text = terminal_text(small_result.result(), 100)
    assert "Time to the next timer known from: timer events 75 %, the tick only 25 %." in text
    assert "Loss: 12 × events lost while recording" in text
    assert "* Open loop" in text


def test_csv_leaves_unknown_fields_empty():
    lines = list(csv.DictReader(io.StringIO(to_csv(small_result.result(has_power=False)))))
    assert [line["governor"] for line in lines] == ["menu", "teo", "shallowest"]
    assert lines[0]["above_pct"] == "24.15"
    assert lines[0]["idle_power_mw"] == ""
    assert lines[0]["platform"] == "pixel6"


def test_notebook_escapes_file_names():
    result = small_result.result()
    result["traces"][0]["trace"]["path"] = "<script>.data"
    assert "<script>" not in fragment(posted(result))
    assert "&lt;script&gt;.data" in fragment(posted(result))
