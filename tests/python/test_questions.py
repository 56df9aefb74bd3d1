# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Contrasts of a sweep's sides over machines, and the questions that they answer."""

import json

import pytest

from torpor import SweepError, platforms
from torpor.machine.catalog import OTHER, class_of
from torpor.results.catalogue import RUNS, metrics
from torpor.run.sweeps import contrasts
from torpor.run.sweeps.columns import SCENARIO
from torpor.run.sweeps.ranks import metric_info
from torpor_lab import questions
from torpor_lab.cli.answer import post, sentence

QUESTION = {
    "question": "Is teo cheaper?",
    "metrics": ["power_mw"],
    "grid": [{}],
    "contrast": [
        {"name": "teo instead of menu", "base": {"governor": "menu"}, "other": {"governor": "teo"}}
    ],
    "limits": ["none"],
}
POWER = metric_info("power_mw")


def row(governor, machine, value, *, seed=1, source="w", error=None):
    """A point as a store returns it, with one metric."""
    found = dict.fromkeys([*SCENARIO, *metrics(*RUNS)], None)
    found |= {"kind": "simulation", "options": "{}", "source": source, "platform": machine}
    return found | {"governor": governor, "seed": seed, "error": error, "power_mw": value}


def pairs(*ratios, **how):
    """Rows of menu and teo, a machine for each ratio of teo's power to menu's."""
    return [
        row(governor, f"m{number}", value, **how)
        for number, ratio in enumerate(ratios)
        for governor, value in (("menu", 100.0), ("teo", 100.0 * ratio))
    ]


def test_known_answer_has_its_interval():
    found = questions.answered(QUESTION, pairs(0.90, 0.91, 0.89))
    (over_all, over_class) = found["means"]
    assert over_all["mean"] == pytest.approx(-10.0, abs=0.02)
    assert over_all["low"] < -10 < over_all["high"] < -7
    assert over_class["of"] == OTHER
    assert str(sentence(found)).startswith("teo instead of menu: power −10 % (−12 to −7.5)")


def test_chance_is_no_answer():
    text = str(sentence(questions.answered(QUESTION, pairs(0.9, 1.1, 1.0))))
    assert "no difference in power beyond chance" in text


def test_ties_turn_nothing():
    found = questions.answered(QUESTION, pairs(1.0, 1.0, 1.0))
    assert found["turns"] == []
    assert found["means"][0]["mean"] == 0.0
    assert "no difference" in str(sentence(found))


def test_one_machine_has_no_interval():
    found = questions.answered(QUESTION, pairs(0.9))
    assert found["means"][0]["low"] is None
    assert "fewer than three machines give no interval" in str(sentence(found))


def test_more_workloads_narrow_no_interval():
    few = questions.answered(QUESTION, pairs(0.8, 0.9, 1.0))
    several = [*pairs(0.8, 0.9, 1.0), *pairs(0.8, 0.9, 1.0, source="v")]
    many = questions.answered(QUESTION, several)
    assert many["means"][0]["low"] == pytest.approx(few["means"][0]["low"])
    assert many["means"][0]["scenarios"] == 6


def test_failed_point_is_counted_and_named():
    rows = [*pairs(0.9, 0.9), row("teo", "m2", None, error="crashed"), row("menu", "m2", 1.0)]
    found = questions.answered(QUESTION, rows)
    assert (found["failed"], found["alone"]) == (1, 1)
    assert found["means"][0]["machines"] == 2
    assert post(found).notes[0] == "1 point failed: crashed"


def test_only_failures_are_an_error():
    rows = [row(g, "m", None, error="crashed") for g in ("menu", "teo")]
    with pytest.raises(questions.QuestionError, match="2 failed\nthe first error: crashed"):
        questions.answered(QUESTION, rows)


def test_turn_needs_every_seed():
    rows = [*pairs(0.5, 0.5, 1.1), *pairs(0.5, 0.5, 1.2, seed=2)]
    (turn,) = questions.answered(QUESTION, rows)["turns"]
    assert turn["machine"] == "m2"
    rows = [*pairs(0.5, 0.5, 1.1), *pairs(0.5, 0.5, 0.9, seed=2)]
    assert questions.answered(QUESTION, rows)["turns"] == []


def test_params_pair_a_machine_with_itself():
    rows = [row("teo", "m", 10.0), row("teo", "m,a.C1.latency_us=5", 11.0)]
    found = contrasts.contrast(rows, {"params": ""}, {"params": ["x", "*latency_us=*"]})
    (change,) = found.changes(POWER)
    assert (change.machine, contrasts.in_unit(POWER, change.part)) == ("m", pytest.approx(10.0))
    assert (
        contrasts.contrast(rows, {"params": ""}, {"params": "!"}).pairs.keys() == found.pairs.keys()
    )


def test_share_has_a_level_without_base():
    rows = [row("teo", "m", 10.0) | {"over_oracle_pct": 7.0}]
    found = contrasts.contrast(rows, None, {"governor": "teo"})
    assert found.changes(metric_info("over_oracle_pct"))[0].part == 7.0
    assert found.changes(POWER) == []


def test_sides_share_no_point():
    with pytest.raises(SweepError, match="both sides"):
        contrasts.contrast([row("teo", "m", 1.0)], {"governor": "*"}, {"governor": "teo"})
    with pytest.raises(SweepError, match="governor"):
        contrasts.contrast([], {"governer": "menu"}, {"governor": "teo"})


def test_shipped_questions_have_points():
    assert questions.names()
    for name in questions.names():
        question = questions.load(name)
        # A history needs a clone of Linux: test_commits.py has one.
        assert name == "commits" or questions.points(question), name
        for key in question["metrics"]:
            questions.metric_of(key)


def test_each_machine_has_a_class():
    assert [p["name"] for p in platforms() if class_of(p["name"]) == "other"] == []


def test_metric_is_a_share_of_another():
    rows = [row("teo", "m0", 200.0) | {"idle_power_mw": 50.0}]
    asked = QUESTION | {"metrics": ["idle_power_mw/power_mw"]}
    asked["contrast"] = [{"name": "idle", "other": {"governor": "teo"}}]
    (over_all, _) = questions.answered(asked, rows)["means"]
    assert over_all["mean"] == 25.0


@pytest.mark.parametrize(("by", "names"), [("machine", {"m0", "m1"}), ("source", {"w"})])
def test_rows_are_of_machines_or_sources(by, names):
    found = questions.answered(QUESTION | {"by": by}, pairs(0.9, 0.8))
    assert names == {mean["of"] for mean in found["means"]} - {"all", OTHER}


def test_recording_is_replayed_where_it_fits(tmp_path):
    path = tmp_path / "q.toml"
    path.write_text(
        'question = "?"\nmetrics = ["power_mw"]\nlimits = []\nsteps = [["menu", "teo"]]\n'
        '[[grid]]\naxes = { trace = ["tests/data/simulated/server.txt.gz"], '
        'platform = ["juno", "i5-10600k"], governor = ["menu", "teo"] }\n'
    )
    assert {p.platform for p in questions.points(questions.load(path))} == {"i5-10600k"}


def test_question_is_answered_from_its_store(torpor, tmp_path):
    args = ["study", "answer", "teo-default", "-o", tmp_path / "s", "--duration", "50ms"]
    args += ["--only", "platform=pixel6,source=periodic", "--only", "governor=*@6.12"]
    first = torpor(*args, "--format", "json", check=0).stdout
    assert json.loads(first)["means"][0]["machines"] == 1
    assert torpor(*args, "--format", "json", check=0).stdout == first


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "question"), ('question = "a"', "missing"), ("[", "read question")],
)
def test_wrong_file_is_an_error(tmp_path, text, message):
    path = tmp_path / "q.toml"
    path.write_text(text)
    with pytest.raises(questions.QuestionError, match=message):
        questions.load(path)
    with pytest.raises(questions.QuestionError, match="expected one of"):
        questions.load("teo-defalt")
