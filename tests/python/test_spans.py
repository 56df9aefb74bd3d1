# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Idle spans, the causal bound, and the study of adaptation."""

import csv
import io
import json

import polars as pl
import pytest

import torpor as library
import torpor_lab
from torpor_lab.cli.spans import _verdict
from torpor_lab.studies.adaptation import adaptation


def test_rows_are_the_same_in_every_form(tmp_path, torpor, recording):
    found = torpor_lab.spans(recording, platform="pixel6")
    frame = pl.DataFrame(found)
    assert len(found) == len(frame) == 5158
    for name in ("spans.parquet", "spans.arrow"):
        done = torpor("trace", "spans", recording, "-p", "pixel6", "-o", tmp_path / name)
        assert done.stdout == "" and f"spans: {tmp_path / name}" in done.stderr
        read = pl.read_parquet if name.endswith("parquet") else pl.read_ipc
        assert read(tmp_path / name).drop("trace").equals(frame.drop("trace"))
    text = torpor("trace", "spans", recording, "-p", "pixel6").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [int(row["length_ns"]) for row in rows] == frame["length_ns"].to_list()
    torpor("trace", "spans", recording, "-p", "pixel6", "-o", tmp_path / "spans.csv")
    assert (tmp_path / "spans.csv").read_text(encoding="utf-8") == text


def test_a_row_has_knowledge_outcome_and_costs(recording):
    frame = pl.DataFrame(torpor_lab.spans(recording, platform="pixel6"))
    cpu = frame.filter(pl.col("cpu") == 0)
    assert cpu["last_ns"].to_list()[1:] == cpu["length_ns"].to_list()[:-1]
    assert (frame["sleep_length_ns"] > 0).mean() > 0.9
    # By the break-even definition c2 pays off from 2 ms on; its exit of 160 us counts as sleep.
    length, best = frame["length_ns"], frame["best_state"]
    assert (best.filter(length > 2_000_000) == 1).all()
    assert (best.filter(length < 1_800_000) == 0).all()
    assert (frame.filter(pl.col("length_ns") < 1_800_000)["state1_outcome"] == "above").all()
    assert frame["state1_delay_ns"].max() < 300_000
    cheapest = frame.select(pl.min_horizontal("state0_energy_uj", "state1_energy_uj")).to_series()
    chosen = frame.select(
        pl.when(best_state=1).then("state1_energy_uj").otherwise("state0_energy_uj")
    ).to_series()
    assert cheapest.to_list() == chosen.to_list()
    limited = pl.DataFrame(torpor_lab.spans(recording, platform="pixel6", latency_limit="10us"))
    assert limited["state1_energy_uj"].null_count() == len(limited)


def test_more_knowledge_bounds_higher_below_the_oracle(torpor, recording):
    done = torpor("trace", "spans", recording, "-p", "pixel6", "--bound", "--format", "json")
    rows = json.loads(done.stdout)
    assert rows == torpor_lab.bound(recording, platform="pixel6")
    by = {(row["knows"], row["own_timers"]): row for row in rows}
    closed = [row["closed_pct"] for row in rows if row["cells"]]
    assert len(closed) == 6
    for own in (False, True):
        levels = ("timer, tick", "+ last length", "+ util, nr_iowait")
        values = [by[level, own]["closed_pct"] for level in levels]
        assert values == sorted(values)
    limit = by["oracle at teo's delay", False]["closed_pct"]
    assert all(0 < value < limit <= 100 for value in closed)
    # Plans are learnt span by span, while delay adds up over spans: where cells are few, those
    # learnt on other spans may do a little better.
    bounds = [row for row in rows if row["cells"]]
    assert all(row["cross_validated_pct"] < row["closed_pct"] + 1 for row in bounds)


def test_a_bound_needs_power(torpor, recording):
    with pytest.raises(library.EngineError, match="power is not known"):
        torpor_lab.bound(recording, platform="genoa-9354")
    done = torpor("trace", "spans", recording, "-p", "pixel6", "-o", "x.txt", check=2)
    assert "must end in .parquet, .arrow or .csv" in done.stderr


def test_adaptation_is_steady_and_repeatable():
    found = adaptation(platform="pixel6", governors=["teo", "deepest"], changes=4)
    assert found == adaptation(platform="pixel6", governors=["teo", "deepest"], changes=4)
    by = {(curve["governor"], curve["load"]): curve for curve in found["curves"]}
    assert found["changes"] == 4 and len(by) == 4
    # One that learns nothing has nothing to lose, once the clock has followed the load.
    assert by["deepest", "long waits"]["settled_ms"] <= found["window_ms"]
    steady = {key: curve["steady_pct"] for key, curve in by.items()}
    assert 100 <= steady["deepest", "long waits"] < steady["teo", "long waits"]
    assert steady["deepest", "short waits"] > steady["teo", "short waits"] > 100
    # The first window after a change to long waits is what teo has learnt of short ones.
    curve = by["teo", "long waits"]
    assert curve["windows_pct"][0] > curve["steady_pct"]


def test_a_bounds_verdict_names_what_its_plan_knows():
    def row(knows, cells, learnt, *, own=False):
        return {"knows": knows, "own_timers": own, "cells": cells, "cross_validated_pct": learnt}

    rows = [row("timer, tick", 9, 20.0), row("+ last length", 99, 24.5, own=True)]
    (said,) = _verdict([row("teo", None, 0.0), *rows, row("oracle", None, 100.0)], "teo")
    assert said.startswith("A plan that knows timer, tick, last length and sets timers of its own")
    assert "closes 24.5 % of teo's gap" in said
