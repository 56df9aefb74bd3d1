# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The lab: a package of its own, on what a user has, joined by entry points alone."""

import ast
import re
import sys
from pathlib import Path

import pytest

import torpor
import torpor.plugin
from processes import ran
from torpor.results import entry_points
from torpor.results.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab" / "torpor_lab"
PUBLIC = {"torpor": torpor.__all__, "torpor.plugin": torpor.plugin.__all__}


def test_lab_imports_public_names_only():
    found = []
    for path in LAB.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and re.match(r"torpor(\.|$)", str(node.module)):
                known = [*PUBLIC.get(str(node.module), []), "plugin"]
                found += [f"{path.name}: {a.name}" for a in node.names if a.name not in known]
            if isinstance(node, ast.Import):
                found += [f"{path.name}: {a.name}" for a in node.names if "torpor." in a.name]
    assert found == []


def test_torpor_never_names_the_lab():
    sources = (*ROOT.glob("python/torpor/**/*.py*"), *ROOT.glob("crates/*/src/**/*.rs"))
    assert [p.name for p in sources if p.suffix != ".pyc" and "torpor_lab" in p.read_text()] == []


def test_public_names_of_plugins_exist():
    missing = [name for name in torpor.plugin.__all__ if not hasattr(torpor.plugin, name)]
    assert missing == []


def test_version_is_torpors():
    text = (ROOT / "lab" / "pyproject.toml").read_text("utf-8")
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text("utf-8"), re.M)[1]
    assert f'\nversion = "{version}"\n' in text
    assert f'"torpor=={version}"' in text


#: Torpor as somebody has it who did not install the lab.
ALONE = """
import sys
from torpor.results import entry_points
entry_points.listed = lambda group: {}
"""


def alone(script: str):
    return ran(sys.executable, "-c", f"{ALONE}\n{script}")


def test_torpor_runs_without_the_lab():
    done = alone("from torpor.cli.app import app; app(['study', 'run'])")
    assert done.returncode == 2
    assert "study" in done.stderr
    done = alone("from torpor.cli.app import app; app(['platform', 'list'])")
    assert done.returncode == 0, done.stderr
    done = alone("import torpor; print('Reproduction' in torpor.schema()['$defs'])")
    assert done.stdout == "False\n", done.stderr


def test_own_commands_read_no_entry_points():
    done = ran(
        sys.executable,
        "-c",
        "from torpor.results import entry_points\n"
        "def refuse(group): raise AssertionError(group)\n"
        "entry_points.listed = refuse\n"
        "from torpor.cli.app import app; app(['trace', 'stats', '--help'])",
    )
    assert done.returncode == 0, done.stderr


def test_entry_points_load_lazily():
    script = (
        "import sys; from torpor.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "own = ('torpor_lab.cli', 'torpor_lab.studies', 'importlib.metadata')\n"
        "print([name for name in sys.modules if name.startswith(own)])"
    )
    done = ran(sys.executable, "-c", script)
    assert "contest" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_kinds_of_plugins_come_last():
    assert list(KINDS)[-1] == "reproduction"
    assert KINDS["reproduction"].name == "reproduction"
    with pytest.raises(KeyError):
        KINDS["unheard of"]


def test_first_entry_point_of_a_name_counts(tmp_path, monkeypatch):
    for folder, home in (("a", "one:X"), ("b", "two:X")):
        place = tmp_path / folder / "plug-1.dist-info"
        place.mkdir(parents=True)
        text = f"[console_scripts]\nx = no:X\n\n[torpor.commands]\nx = {home}\n\n[z]\nx = no:Y\n"
        (place / "entry_points.txt").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), "/no/where"])
    entry_points.listed.cache_clear()
    try:
        assert entry_points.listed("torpor.commands") == {"x": "one:X"}
        with pytest.raises(
            torpor.TorporError, match=r"(?s)`x` of `torpor.commands`.*hint: .*`one`"
        ):
            entry_points.load("torpor.commands", "x")
        assert entry_points.load("torpor.commands", "y") is None
    finally:
        entry_points.listed.cache_clear()
