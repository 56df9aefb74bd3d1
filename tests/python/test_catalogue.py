# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A metric and a kind of result are each declared in one place; the rest asks for them."""

import ast
import json
import re
from pathlib import Path

import torpor
from torpor.results import catalogue, kinds
from torpor.results.schema import schema

PRODUCT = Path(__file__).resolve().parents[2] / "python" / "torpor"
KIND = '''
from typing import Literal, TypedDict
from torpor.results.kind import Column, Kind, Sample
from torpor.results.table import Post, Table, number, word

class MadeUp(TypedDict):
    """A made-up result."""

    format: int
    kind: Literal["made_up"]
    torpor: dict[str, str]
    sleeps: int

def post(result):
    return Post("made up", [], [Table("t", "", ["", "sleeps"], [[word("all"), number(1)]])], [])

def columns(result):
    yield Column("one", {"above_pct": float(result["sleeps"])}, {"kind": "made_up"})

def samples(result):
    yield Sample("scenario", "one", 0, {"above_pct": 1.0})

def contradictions(result):
    if result["sleeps"] < 0:
        yield "`sleeps` is negative"

KIND = Kind(
    "made_up", post, "it was made up.", lambda result, _: [f"{result['sleeps']} sleeps."],
    shape=MadeUp, columns=columns, samples=samples, contradictions=contradictions,
)
'''


def lists(tree):
    """Names in lists of constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}


def test_no_file_lists_metrics_by_hand():
    keys = catalogue.metrics().keys()
    found = [
        f"{file.name}:{line}"
        for file in PRODUCT.rglob("*.py")
        for line, names in lists(ast.parse(file.read_text()))
        if len(names & keys) > 2
    ]
    assert found == []
    scripts = " ".join(file.read_text() for file in PRODUCT.rglob("*.js"))
    assert {key for key in keys if "_" in key} & set(re.findall(r"\w+", scripts)) == set()


def test_only_its_module_names_a_kind():
    generic = [*PRODUCT.glob("results/*.py"), *PRODUCT.glob("results/kinds/__init__.py")]
    compared = re.compile(r"result\[\"kind\"\] (?:==|in|!=) ")
    assert [file.name for file in generic if compared.search(file.read_text())] == []


def test_leading_metrics_are_of_the_catalogue():
    for place in ("cost", "sentence", "line", "shadow", "work", "power", "delay", "depth"):
        assert catalogue.leading(place)
    assert catalogue.leading("cost", "replay")[0] == "idle_power_mw"
    assert catalogue.common_key("idle_pct") == "idle_residency_pct"
    assert catalogue.metrics()["idle_energy_uj"]["noun"] == "idle energy"


def test_a_kind_of_result_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "made_up.py").write_text(KIND)
    monkeypatch.setitem(vars(kinds.KINDS), "_names", [*kinds.KINDS._names, "made_up"])
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    data = {"format": torpor.results.record._engine.FORMAT, "kind": "made_up"}
    data |= {"torpor": {"version": "1"}, "sleeps": 3}
    assert schema()["kinds"]["made_up"] == "MadeUp"
    assert torpor.explain(data) == ["3 sleeps."]
    assert "made up" in str(torpor.results.record.Record(data))
    both = torpor.compare(data, data | {"sleeps": 4})
    assert both["comparison"]["rows"][0]["cells"][1]["value"] == 4.0
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data))
    page = tmp_path / "page.html"
    torpor.results.record.Record(data).write_report(page)
    assert "it was made up." in page.read_text()
