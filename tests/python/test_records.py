# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results of any kind: their tables, and reading back what was written."""

import copy
import json
import os
import pickle
import random
from collections import Counter
from pathlib import Path

import pytest

import torpor
from torpor import _engine
from torpor.results import conformance
from torpor.results.record import Record
from valid import problems

GUEST = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
BRIEF = {"platform": "pixel6", "duration": "100ms", "seeds": 2}


@pytest.fixture(scope="module")
def simulation():
    return torpor.simulate("frames", governors=["menu", "teo"], **BRIEF)


@pytest.fixture(scope="module")
def replay(recording):
    return torpor.replay(recording, platform="pixel6", governors=["menu", "teo", "oracle"])


def test_a_simulation_has_its_own_shape(simulation):
    result = simulation.to_dict()
    assert (result["format"], result["kind"]) == (_engine.FORMAT, "simulation")
    assert "traces" not in result and "trace" not in result
    assert (
        [run["governor"] for run in result["runs"]]
        == ["menu", "teo"]
        == [run["governor"] for run in simulation.runs]
    )


def test_result_tables_have_columns_and_units(simulation, replay):
    declared = {(t["kind"], t["name"]): t for t in _engine.tables()}
    for kind, result in (("simulation", simulation), ("replay", replay)):
        catalogue = result.to_dict()["catalogue"]
        for name in set(result.tables) - {"decisions"}:
            table = result.table(name)
            columns = [column["name"] for column in declared[kind, name]["columns"]]
            metrics = catalogue if declared[kind, name]["has_metrics"] else []
            assert table.column_names == [*columns, *(m["key"] for m in metrics)]
            assert {
                m["key"]: m["unit"] for m in metrics if m["unit"]
            }.items() <= table.units.items()


def test_frequencies_and_means_keep_their_fractions(simulation):
    pl = pytest.importorskip("polars", reason="not run, because polars is not installed")
    summary, seeds = (simulation.table(name).to_polars() for name in ("summary", "seeds"))
    assert summary["freq_khz"].dtype == summary["wakeups"].dtype == pl.Float64
    assert seeds["wakeups"].dtype == pl.Int64
    mean = seeds.filter(pl.col("governor") == "menu")["wakeups"].mean()
    assert summary.filter(pl.col("governor") == "menu")["wakeups"].item() == mean


def test_comparison_table_equals_the_pages(simulation):
    pytest.importorskip("polars", reason="not run, because polars is not installed")
    frame = simulation.table("comparison").to_polars()
    for row in simulation.to_dict()["comparison"]["rows"]:
        found = frame.filter((frame["metric"] == row["key"]) & (frame["governor"] == "teo"))
        change = row["cells"][1]["change"]
        assert found["value"].item() == row["cells"][1]["value"]
        assert found["low"].item() == change["low"]


@pytest.mark.parametrize("name", ["replay", "simulation"])
def test_json_reads_back(name, request, tmp_path):
    made = request.getfixturevalue(name)
    (tmp_path / "r.json").write_text(made.to_json(), encoding="utf-8")
    found = torpor.load(tmp_path / "r.json")
    assert type(found) is type(made)
    assert found.to_json() == made.to_json() and found.to_csv() == made.to_csv()
    assert found.table("summary").column_names == made.table("summary").column_names


def test_a_folder_of_tables_keeps_decisions(replay, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="not run, because pyarrow is not installed")
    replay.write_tables(tmp_path / "t")
    found = torpor.load(tmp_path / "t")
    assert found.tables == replay.tables and "decisions" in found.tables
    assert pa.table(found.decisions).to_pylist() == pa.table(replay.decisions).to_pylist()
    table = torpor.load(tmp_path / "t" / "summary.parquet")
    assert pa.table(table).equals(pa.table(replay.summary))
    assert table.units["idle_power_mw"] == "mW"


def test_json_alone_has_no_decisions(replay, tmp_path):
    (tmp_path / "r.json").write_text(replay.to_json(), encoding="utf-8")
    found = torpor.load(tmp_path / "r.json")
    assert "decisions" not in found.tables
    with pytest.raises(torpor.EngineError, match="--parquet"):
        found.decisions  # noqa: B018


def test_other_kinds_are_records_with_tables(tmp_path):
    record = torpor.diff(GUEST / "sysfs-before.txt", GUEST / "sysfs-after.txt")
    (tmp_path / "d.json").write_text(record.to_json(), encoding="utf-8")
    found = torpor.load(tmp_path / "d.json")
    assert isinstance(found, Record) and found == record
    assert found.tables == ["states", "changes"]
    assert len(found.table("states")) > 0 == len(found.table("changes"))
    assert found.table("states").units["time_us"] == "us"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a result"),
        ("[1]", "`format` and `kind` are missing"),
        ('{"format": 99, "kind": "replay"}', "this Torpor reads"),
        ('{"format": true, "kind": "replay"}', "expected a number from 1"),
        ('{"format": 1, "kind": "story"}', "expected one of ab, beside"),
        ('{"format": 1, "kind": ["replay"]}', "expected one of ab, beside"),
        ('{"format": 1, "kind": "replay"}', "`torpor` is missing"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_foreign_json_is_refused(text, words, tmp_path):
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(torpor.TorporError, match=words):
        torpor.load(tmp_path / "r.json")


def test_field_of_a_later_version_is_kept(replay, tmp_path):
    later = json.loads(replay.to_json())
    later["weather"] = "cold"
    later["traces"][0]["runs"][0]["metrics"]["frost"] = 1.5
    (tmp_path / "r.json").write_text(json.dumps(later), encoding="utf-8")
    found = torpor.load(tmp_path / "r.json")
    assert found.to_dict() == later
    assert torpor.post(found, "csv") == torpor.post(replay, "csv")


DAMAGES = [
    (("runs", 0, "metrics", "sleeps"), "x", r"`runs\[0\].metrics.sleeps` is \"x\": expected"),
    (("runs", 1, "metrics"), None, "is null: expected a record"),
    (("runs", 0, "metrics", "sleeps"), float("nan"), "is not a result: JSON is malformed"),
    (("runs", 0, "metrics", "sleeps"), 10**400, "number out of range"),
    (("comparison", "rows"), {}, "`comparison.rows` is a record: expected a list"),
    (("options", "seeds"), -1, "expected a whole number >= 0"),
    (("interrupted",), 0, "expected true or false"),
    (("platform", "name"), "\ud800", "surrogate"),
    (("comparison", "base"), 7, "`base` is 7: expected one of 2 columns"),
    (("comparison", "rows", 0, "cells"), [], "0 cells for 2 columns"),
    (("comparison", "labels"), ["menu"], "cells for 1 columns"),
    (("runs",), [], "0 runs for 2 columns"),
    (("options", "given"), {"seeds": ["\ud800"]}, "surrogate"),
    (("options", "\ud800"), 1, "surrogate"),
    (("runs", 0, "clusters", 0, "name"), "x", "`menu` has a cluster `x`, the platform has none"),
    (("runs", 0, "cpus", 0, "states"), [], "states of `little` under `menu` are not the platform"),
    (("runs", 1, "clusters", 0, "states", 0, "index"), 4, "are not the platform's 0 to"),
]


@pytest.mark.parametrize(("place", "value", "words"), DAMAGES)
def test_a_damaged_result_is_refused_with_its_place(simulation, tmp_path, place, value, words):
    damaged = simulation.to_dict()
    inner = damaged
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    (tmp_path / "r.json").write_text(json.dumps(damaged), encoding="utf-8")
    with pytest.raises(torpor.TorporError, match=words):
        torpor.load(tmp_path / "r.json")


def _reverse(strips):
    strips[0]["rows"][0]["segments"].reverse()


def _deepen(strips):
    strips[0]["rows"][1]["segments"][-1][2] = 9


def _drop_a_column(strips):
    strips.append({**strips[0], "rows": strips[0]["rows"][1:]})


STRIP_DAMAGES = [
    (_reverse, "the sleeps of CPU 0 under `menu` are out of order"),
    (_deepen, "CPU 0 sleeps in state 9, which its cluster does not have"),
    (_drop_a_column, "the strip of CPU 0 does not have the columns of the one before"),
]


@pytest.mark.parametrize(("damage", "words"), STRIP_DAMAGES)
def test_strips_that_contradict_their_columns_are_refused(replay, tmp_path, damage, words):
    damaged = replay.to_dict()
    damage(damaged["traces"][0]["strips"])
    (tmp_path / "r.json").write_text(json.dumps(damaged), encoding="utf-8")
    with pytest.raises(torpor.TorporError, match=words):
        torpor.load(tmp_path / "r.json")


def test_arrow_blocks_cannot_exceed_the_file(simulation, tmp_path):
    file = tmp_path / "t.arrow"
    simulation.write_table("summary", file)
    sound, counted = file.read_bytes(), Counter()
    for place in range(len(sound) - 400, len(sound)):
        file.write_bytes(sound[:place] + b"\x7f" + sound[place + 1 :])
        try:
            torpor.load(file)
        except torpor.TorporError as error:
            counted["its blocks have more bytes" in str(error)] += 1
    assert counted[True] > 4, counted


def test_keys_of_a_later_torpor_are_ignored(simulation, tmp_path):
    later = simulation.to_dict()
    later["later"] = later["runs"][0]["later"] = {"a": [1, None]}
    (tmp_path / "r.json").write_text(json.dumps(later), encoding="utf-8")
    assert torpor.load(tmp_path / "r.json").metrics("teo") == simulation.metrics("teo")


def test_the_check_agrees_with_jsonschema(simulation):
    rng = random.Random(1)
    result = simulation.to_dict() | {"strips": []}
    verdicts = Counter()
    for _ in range(40):
        damaged = copy.deepcopy(result)
        if rng.random() < 0.8:
            _damage(rng, damaged)
        try:
            conformance.check(damaged, "r.json")
            is_fine = True
        except torpor.TorporError as error:
            # The schema does not check whether parts fit each other.
            is_fine = "contradicts itself" in str(error)
        verdicts[is_fine] += 1
        wrong = problems(damaged, "simulation")
        assert is_fine == (not wrong), wrong
    assert min(verdicts.values()) > 4


def _damage(rng, node):
    """Put a value of another kind somewhere, or take a key away."""
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.9:
            node = node[key]
        elif isinstance(node, dict) and rng.random() < 0.3:
            del node[key]
            return
        else:
            node[key] = rng.choice([None, -1, 2, 1.5, "x", True, [], {}])
            return


def test_a_pipe_is_refused_and_not_waited_for(tmp_path, torpor):
    os.mkfifo(tmp_path / "r.json")
    for command in (("compare", "r.json", "r.json"), ("show", "r.json")):
        done = torpor(*command, check=2)
        assert "not a regular file" in done.stderr
    done = torpor("diff", "r.json", "r.json", check=2)
    assert "r.json" in done.stderr


def test_a_number_too_large_for_a_table_is_an_error():
    record = Record({"kind": "ab", "runs": [{"round": 10**400}]})
    with pytest.raises(torpor.TorporError, match="too large"):
        record.table("runs")


def test_unknown_table_lists_the_valid_ones(simulation):
    with pytest.raises(torpor.TorporError, match=r"summary, seeds, states"):
        simulation.table("decisions")


def test_results_cross_to_other_processes(simulation, replay, recording):
    for result in (simulation, replay):
        copy = pickle.loads(pickle.dumps(result))
        assert type(copy) is type(result) and copy.to_json() == result.to_json()
        assert "decisions" not in copy.tables
    counted = torpor.trace_stats(recording)
    copy = pickle.loads(pickle.dumps(counted))
    assert type(copy) is Record and copy == counted and copy.tables == counted.tables


def test_a_notebook_shows_any_result_that_has_tables(recording):
    shown = torpor.trace_stats(recording)._repr_markdown_()
    assert "\n| :-- |" in shown, shown
    assert Record({"kind": "unheard of"})._repr_markdown_() is None
