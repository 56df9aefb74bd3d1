# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Scripts and the Makefile: the commands of Torpor that they run, and failures that they miss."""

import re
from pathlib import Path

import click
import pytest

from torpor.cli.app import app

ROOT = Path(__file__).parents[2]
FILES = [*sorted(ROOT.glob("scripts/*.sh")), ROOT / "Makefile"]
#: Torpor as scripts call it: by its path, or by a function or variable that has it.
_TORPOR = r'(?:^\s*@?|[\s/"])(?:torpor|\$torpor|\$entry"|run(?= [a-z]))'
_CALL = re.compile(_TORPOR + r" ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?")
_PIPED = re.compile(r"(?:" + _TORPOR + r"|\bauditwheel|\bmaturin) [^|]*\|(?!\|)")


def lines(path: Path) -> list[str]:
    text = re.sub(r"\bTORPOR=\S+", "", path.read_text().replace("\\\n", " "))
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def is_command(first: str, second: str | None) -> bool:
    found = app.load_all().get(first)
    return found is not None and (
        not isinstance(found, click.Group) or second in found.list_commands(None)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_run_commands_that_exist(path):
    found = [call for line in lines(path) for call in _CALL.findall(line)]
    assert [call for call in found if not is_command(call[0], call[1] or None)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_pipe_hides_a_failure(path):
    assert [line for line in lines(path) if _PIPED.search(line)] == []


def test_the_patterns_see_what_they_are_for():
    assert _CALL.findall("run governors | sed -n 1,4p") == [("governors", "")]
    assert _CALL.findall('-- "$entry" check ./teo.c') == [("check", "")]
    assert _CALL.findall("\t@$(BIN)/torpor platform list") == [("platform", "list")]
    assert not is_command("governors", None) and not is_command("governor", "lost")
    assert _PIPED.search("run governors | sed -n 1,4p")
    assert _PIPED.search("\t@$(BIN)/torpor fidelity $(GUEST) | sed -n 1,6p")
    assert not _PIPED.search("run doctor >doctor.txt || status=$?")
