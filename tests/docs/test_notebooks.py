# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every notebook of the documentation runs, and what it shows can be shown."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "lab" / "notebooks"


def show(value: Any) -> str | None:
    """Return a notebook's view of a value, in the order in which it asks."""
    for method in ("_repr_mimebundle_", "_repr_html_"):
        if hasattr(value, method):
            return str(getattr(value, method)())
    return None if value is None else repr(value)


def run_cells(cells: list[str]) -> list[str | None]:
    """Run cells as a notebook does: what the last expression of each comes to is shown."""
    names: dict[str, Any] = {}
    shown = []
    for number, source in enumerate(cells):
        body = ast.parse(source)
        last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, f"cell {number}", "exec"), names)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        shown.append(show(value))
    return shown


class App:
    """As much of marimo as a test needs: the cells, in the order of the file."""

    def __init__(self) -> None:
        self.cells: list[Callable[..., Any]] = []

    def cell(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.cells.append(function)
        return function

    def sources(self) -> list[str]:
        """The cells' bodies, without what they return to others."""
        found = []
        for function in self.cells:
            (defined,) = ast.parse(inspect.getsource(function)).body
            assert isinstance(defined, ast.FunctionDef)
            assert isinstance(defined.body[-1], ast.Return)
            found.append(ast.unparse(ast.Module(defined.body[:-1], [])))
        return found


def cells_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        # Outputs depend on the machine and the version, so none is committed.
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
        return ["".join(cell["source"]) for cell in code]
    stand_in = types.ModuleType("marimo")
    stand_in.App = App  # type: ignore[attr-defined]
    stand_in.md = inspect.cleandoc  # type: ignore[attr-defined]
    stand_in.Html = str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "marimo", stand_in)
    spec = importlib.util.spec_from_file_location("notebook", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sources: list[str] = module.app.sources()
    return sources


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.*")), ids=lambda path: path.name)
def test_notebook_shows_tables_and_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    shown = [text for text in run_cells(cells_of(path, monkeypatch)) if text]
    assert any("<table" in text for text in shown)
    assert any("<iframe" in text and "srcdoc" in text for text in shown)


def test_there_are_three_notebooks() -> None:
    assert sorted(path.suffix for path in FOLDER.glob("*.*")) == [".ipynb", ".ipynb", ".py"]
