# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor history` and `bisect`, on a small tree with a history of its own."""

import re
import subprocess
from pathlib import Path

import pytest

import torpor
from processes import ran
from torpor.ask import history
from torpor.results.table import Post, Table, number, word

ROOT = Path(__file__).resolve().parents[2]
FILE = "drivers/cpuidle/governors/shallowest.c"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A governor that commits change: its text, a comment, no C, then for the worse, a comment."""
    folder = tmp_path_factory.mktemp("linux")

    def git(*words):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    deepest = (ROOT / "governors/cpuidle/deepest.c").read_text()
    shallowest = (ROOT / "governors/cpuidle/shallowest.c").read_text()
    good = re.sub(r"\bdeepest\b", "shallowest", deepest)
    file = folder / FILE
    file.parent.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 0\n")
    for subject, text in (
        ("good", good),
        ("a comment", good + "/* 1 */\n"),
        ("no C", "not C at all\n"),
        ("worse", shallowest),
        ("another comment", shallowest + "/* 2 */\n"),
    ):
        file.write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", subject)
        # Not the governor's.
        (folder / "README").write_text(subject)
        git("add", ".")
        git("commit", "-q", "-m", f"after {subject}")
    return folder


@pytest.fixture
def axes(recording):
    return torpor.Axes(trace=[str(recording)], platform=["pixel6", "rk3399"])


def root_of(tree):
    words = ["git", "rev-list", "--max-parents=0", "HEAD"]
    return ran(*words, cwd=tree).stdout.strip()


def test_revisions_are_those_that_changed_the_governor(tree):
    steps = history.revisions(f"shallowest@{tree}", root_of(tree))
    assert [s.subject for s in steps] == ["good", "a comment", "no C", "worse", "another comment"]
    assert steps[1].governor == f"shallowest@{tree}:{steps[1].commit[:12]}"
    named = history.revisions(f"shallowest@{tree},x=1", root_of(tree), "HEAD~6")
    assert [s.subject for s in named] == ["good", "a comment"]
    assert named[1].governor.endswith(",x=1")


def test_a_bisection_finds_the_first_bad_revision(tree, axes, tmp_path):
    steps = history.revisions(f"shallowest@{tree}", root_of(tree))
    said = []
    asked = {"metric": "latency_mean_us", "worse_than": -50.0}
    # Latency falls by more than half: taken as worse by a limit below zero.
    with pytest.raises(torpor.SweepError, match="the bad revision is not worse"):
        history.bisect(steps, axes, tmp_path / "s", metric="latency_mean_us", worse_than=1.0)
    asked = {"metric": "idle_power_mw", "worse_than": 0.1}
    found = history.bisect(steps, axes, tmp_path / "s", tell=said.append, **asked)
    # A revision that does not compile hides which of the two it was.
    assert found.first_bad is None
    assert [step.subject for step in found.suspects] == ["no C", "worse"]
    assert found.changes[steps[2].commit] is None
    assert any("cannot be judged" in line for line in said)
    without = [step for step in steps if step.subject != "no C"]
    found = history.bisect(without, axes, tmp_path / "s", **asked)
    assert found.first_bad.subject == "worse"
    assert found.changes[steps[1].commit] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("spec", "first", "message"),
    [
        ("shallowest", "HEAD", "expected NAME@TREE"),
        ("shallowest@/nowhere", "HEAD", "there is no folder `/nowhere`"),
        ("shallowest@{tree}", "v9.9", "has no revision `v9.9`"),
    ],
)
def test_source_without_history_is_refused(tree, spec, first, message):
    with pytest.raises(torpor.SweepError, match=message):
        history.revisions(spec.format(tree=tree), first)


def test_a_folder_without_git_has_no_revision(tmp_path):
    with pytest.raises(torpor.SweepError, match="has no revision `HEAD`"):
        history.revisions(f"menu@{tmp_path}", "HEAD")


def test_metrics_are_checked_first(tree, axes, tmp_path):
    steps = history.revisions(f"shallowest@{tree}", root_of(tree))
    for metric, message in (("idle_powr_mw", "idle_power_mw"), ("wakeups", "neither better")):
        with pytest.raises(torpor.SweepError, match=message):
            history.bisect(steps, axes, tmp_path / "s", metric=metric, worse_than=1.0)


def test_the_commands_show_a_history(torpor, tree, recording, tmp_path):
    spec, first = f"shallowest@{tree}", root_of(tree)
    runs = ["-t", recording, "-p", "pixel6", "-p", "rk3399", "-o", tmp_path / "store"]
    shown = torpor(
        "governor", "history", spec, "--from", first, *runs, "--format", "markdown", check=1
    )
    lines = [line for line in shown.stdout.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.split("|")[3:-1]] for line in lines[2:]]
    assert [c[0] for c in cells] == ["good", "a comment", "no C", "worse", "another comment"]
    assert cells[0][1:] == ["+0.00", "+0.00"]
    assert cells[2][1:] == ["-", "-"]
    # The last one is a comment: equal to the one before, not to the first.
    assert cells[4][1] == cells[3][1] != "+0.00"
    assert cells[4][2] == "+0.00"
    limits = ["-m", "idle_power_mw", "--worse-than", "0.1%"]
    found = torpor(
        "governor", "bisect", spec, "--good", first, "--bad", "HEAD", *limits, *runs, check=1
    )
    assert "the first bad revision is one of:" in found.stdout
    # The ladder has run them all.
    assert "no C" in found.stdout and "worse" in found.stdout
    bad = torpor(
        "governor", "bisect", spec, "--good", first, "--bad", "HEAD", "-m", "x", *limits[2:], *runs
    )
    assert bad.returncode == 2
    wrong = ["-m", "idle_power_mw", "--worse-than", "much"]
    assert (
        torpor(
            "governor", "bisect", spec, "--good", first, "--bad", "HEAD", *wrong, *runs
        ).returncode
        == 2
    )


def test_history_names_the_largest_change():
    def line(commit, total, since):
        changes = [number(value, 2, is_signed=True) for value in (total, since)]
        return [word(commit), word("2026"), word(f"subject of {commit}"), *changes]

    rows = [line("a", 0.0, 0.0), line("b", 3.0, 3.0), line("c", 1.0, -2.0), line("d", None, None)]
    headings = ["revision", "date", "subject", "from first %", "from last %"]
    shown = Post("", [], [Table("power_mw", "power", headings, rows, 3)], [])
    assert history.ladder_sentences(shown) == [
        "From a to c, power changes by +1.00 %, most by b (+3.00 %: subject of b)."
    ]
