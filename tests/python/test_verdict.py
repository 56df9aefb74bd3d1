# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A result's verdict: one sentence, with which its page and its text begin."""

import html
import re

import pytest

from torpor.cli.progress import OneLine
from torpor.results.table import Brief, Post, Table, Verdict, number, word
from torpor.view.paint import terminal
from torpor.view.report import parts

#: No printed line is longer, but for what an option with a path adds.
WIDEST = 132


def title_of(page):
    """Return the headline of a page, with plain blanks."""
    found = re.search(r"<h1>(.*?)</h1>", page.read_text(encoding="utf-8"), re.S)
    return html.unescape(found[1]).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def commands(recording):
    """Commands by kind of result."""
    return {
        "replay": ("replay", recording, "-p", "i5-10600k"),
        "several": ("replay", recording, recording, "-p", "pixel6"),
        "simulation": ("simulate", "periodic", "-p", "pixel6", "--duration", "1s", "--seeds", "3"),
        "trace_stats": ("trace", "stats", recording, "-p", "i5-10600k"),
    }


@pytest.mark.parametrize("kind", ["replay", "several", "simulation", "trace_stats"])
def test_page_and_text_begin_alike(torpor, commands, tmp_path, kind):
    page = tmp_path / "page.html"
    text = torpor(*commands[kind], "--report", page, check=0).stdout
    assert text.splitlines()[0] == title_of(page)
    full = torpor(*commands[kind], "-v", check=0).stdout
    assert full.splitlines()[0] == title_of(page)


@pytest.mark.parametrize("kind", ["replay", "several", "simulation"])
def test_brief_text_has_eight_rows_and_three_notes(torpor, commands, kind):
    text = torpor(*commands[kind], check=0).stdout
    lines = text.splitlines()
    table = text.split("\n\n")[1].splitlines()
    assert len(table) <= 1 + 8
    assert len([line for line in lines if line.startswith("* ")]) <= 3
    assert len(lines) < 25 and lines[-1].endswith("More: -v")
    assert all(len(line) <= WIDEST for line in lines if "/" not in line)


def test_oracle_is_shown_for_power_alone(torpor, commands):
    text = torpor(*commands["replay"], check=0).stdout
    deep = next(line for line in text.splitlines() if line.startswith("too deep"))
    power = next(line for line in text.splitlines() if line.startswith("total idle power"))
    assert len(power.split()) > len(deep.split())
    assert "only its power is a bound" in text
    assert "only its power is a bound" in torpor(*commands["replay"], "-v", check=0).stdout


def test_asked_rows_are_shown(torpor, commands):
    text = torpor(*commands["replay"], "-m", "idle_energy*", check=0).stdout
    assert re.search(r"^total idle energy", text, re.M) and not re.search(r"^wake-ups", text, re.M)
    by = torpor(*commands["replay"], "-g", "menu", "--by", "task", check=0).stdout
    assert "what ended the sleeps" in by


def test_a_page_is_not_overwritten_unasked(torpor, commands, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    refused = torpor(*commands["replay"], "--report", page, check=2)
    assert f"`{page}` exists\nhint: choose another file, or use --force" in refused.stderr
    assert page.read_text() == "mine"
    torpor(*commands["replay"], "--report", page, "--force", check=0)
    assert "<h1>" in page.read_text(encoding="utf-8")


def test_a_compilation_is_told_once(capsys):
    line = OneLine()
    line("periodic", 1, 2)
    assert capsys.readouterr().err == ""
    for done in range(3):
        line("compiling Linux 6.12", done, 80)
    assert capsys.readouterr().err == "compiling Linux 6.12: 80 files, once; images are kept\n"


def test_a_fold_does_not_cut_a_key():
    rows = [[word(f"row {n // 3}"), word(str(n % 3)), number(n)] for n in range(30)]
    first, folds = parts.opened(Table("t", "", ["a", "b", "c"], rows, keys=2))
    assert str(first).count("<tr>") == 1 + 9 and folds[0].title == "21 more rows"


def test_a_wide_table_is_folded_in_a_pipe():
    cells = [[word("x"), *(number(1234567, 2) for _ in range(20))]]
    table = Table("t", "", ["key", *(f"column {n}" for n in range(20))], cells)
    post = Post("title", [], [table], [], verdict=Verdict("a", "beats b", "ten runs"))
    text = terminal(post, 10_000)
    assert max(map(len, text.splitlines())) <= WIDEST
    assert text.startswith("a beats b (ten runs).\n\ntitle\n")
    brief = post._replace(brief=Brief([], [f"note {n}" for n in range(5)], ["what ran."]))
    assert terminal(brief, 80, more="-v").splitlines() == [
        "a beats b (ten runs).",
        "",
        *("* note 0", "* note 1", "* note 2"),
        "",
        "what ran. More: -v",
    ]
