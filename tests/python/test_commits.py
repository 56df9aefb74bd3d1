# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A range of commits as a governor's name, and the steps that a question makes of it."""

import subprocess
import xml.etree.ElementTree as ET

import pytest

from torpor.run.sweeps import axes, commits
from torpor.run.sweeps.ranks import metric_info
from torpor_lab import questions
from torpor_lab.charts import steps as drawn

FILE = "drivers/cpuidle/governors/teo.c"


@pytest.fixture
def linux(tmp_path, monkeypatch):
    """A tree with two commits on teo.c, one of them on a branch that is merged, and one beside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", "linux", *identity, *words], check=True, capture_output=True)

    def commit(path, text, subject):
        place = tmp_path / "linux" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        git("add", "-A")
        git("commit", "-qm", subject)

    subprocess.run(["git", "init", "-q", "-b", "main", "linux"], check=True)
    commit(FILE, "1", "base")
    git("tag", "v1")
    git("checkout", "-q", "-b", "fixes")
    commit(FILE, "2", "cpuidle: teo: Fix")
    git("checkout", "-q", "main")
    commit("Makefile", "x", "elsewhere")
    git("merge", "-q", "--no-ff", "-m", "merge", "fixes")
    commit(FILE, "3", 'Revert "cpuidle: teo: Fix"')
    git("tag", "v2")
    return tmp_path / "linux"


def test_range_is_each_commit_on_the_file(linux):
    found = commits.steps("teo@linux:v1..v2")
    assert [step.subject for step in found] == ["cpuidle: teo: Fix", 'Revert "cpuidle: teo: Fix"']
    assert found[0].after == found[1].before
    assert len(commits.expand("teo@linux:v1..v2")) == 3


def test_axis_takes_a_range(linux):
    found = axes.Axes(workload=["periodic"], platform=["pixel6"], governor=["teo@linux:v1..v2"])
    found.seeds = 1
    assert len(found.points()) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("teo@linux:v1..v9", "v9"),
        ("teo@nowhere:v1..v2", "clone of Linux"),
        ("menu@linux:v1..v2", "0 commits change"),
    ],
)
def test_wrong_range_is_an_error(linux, spec, message):
    with pytest.raises(commits.CommitsError, match=message):
        commits.expand(spec)


def test_history_is_steps_and_a_picture(linux):
    question = {"question": "?", "metrics": ["power_mw"], "limits": [], "grid": [{}]}
    question["steps"] = [["teo@linux:v1..v2"]]
    names = commits.expand("teo@linux:v1..v2")
    rows = [
        dict.fromkeys([*contrast_columns(), "power_mw"], None)
        | {"governor": name, "platform": f"m{machine}", "source": "w", "options": "{}"}
        | {"seed": 1, "error": None, "power_mw": power, "kind": "simulation"}
        for machine in range(3)
        for name, power in zip(names, (100.0, 150.0, 100.0), strict=True)
    ]
    found = questions.answered(question, rows)
    assert [round(mean["mean"]) for mean in found["means"] if mean["of"] == "all"] == [50, -33]
    (own,) = found["steps"].values()
    assert [name.partition(" (")[0] for name in own] == ["teo Fix", "teo Revert Fix"]
    assert metric_info("power_mw")["title"] in drawn(found)
    assert ET.fromstring(drawn(found)).tag.endswith("svg")


def contrast_columns():
    """Return the columns of a point that sides can name."""
    from torpor.run.sweeps.contrasts import COLUMNS

    return [name for name in COLUMNS if name != "params"]
