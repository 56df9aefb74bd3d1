# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Properties of the sources that no linter checks."""

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import ran

ROOT = Path(__file__).resolve().parents[2]

#: Paths of one machine.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/")
#: `if let A = a && ...` in one line, or as rustfmt breaks it: Rust 1.85 (Cargo.toml) refuses it.
LET_CHAIN = re.compile(
    r"&&\s+let\s"
    r"|\b(?:if|while) let (?:[^;{]|\{[^{}\n]*\} =)*\n\s*&& "
    r"|\b(?:if|while) let [^;=\n]* = (?:[^;{(|\n]|\([^()\n]*\))*&& "
)


def sources(*suffixes: str) -> dict[str, str]:
    """Return the text of each file that git knows, by path."""
    done = ran("git", "ls-files", cwd=ROOT)
    if done.returncode != 0:
        pytest.skip("not run, because this is no git checkout")
    names = [name for name in done.stdout.splitlines() if name.endswith(suffixes)]
    return {
        name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).is_file()
    }


def test_no_source_names_a_machines_path():
    texts = sources(".rs", ".py", ".pyi", ".c", ".h", ".sh", ".toml", ".js", ".md")
    assert [name for name, text in texts.items() if MACHINE_PATH.search(text)] == []


def test_no_rust_source_chains_let():
    assert LET_CHAIN.search("if let Some(a) = b(c) && d {")
    assert not LET_CHAIN.search("if let Some(a) = b.find(|b| c && d) {")
    assert [name for name, text in sources(".rs").items() if LET_CHAIN.search(text)] == []


def test_python_functions_have_at_most_70_lines():
    long = []
    for name, text in sources(".py").items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                # Without its parameters and docstring: a command's options and its help.
                first = node.body[1 if ast.get_docstring(node) and node.body[1:] else 0]
                count = node.end_lineno - first.lineno + 1
                long += [f"{name}: {node.name} has {count} lines"] if count > 70 else []
    assert long == []


def test_csv_has_one_writer():
    """It quotes what a spreadsheet would run."""
    modules = {n: ast.parse(t) for n, t in sources(".py").items() if n.startswith("python/torpor/")}
    found = [name for name, module in modules.items() if "csv" in imported(module)]
    assert found == ["python/torpor/results/text.py"]


def imported(node: ast.AST) -> Iterator[str]:
    """Yield what a module imports when it runs, in functions, too; a name with its module."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def test_no_modules_import_each_other():
    modules = {
        name[len("python/") :].removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for name, text in sources(".py").items()
        if name.startswith("python/torpor/")
    }
    graph = {
        module: {n if n in modules else n.rpartition(".")[0] for n in imported(ast.parse(text))}
        for module, text in modules.items()
    }
    # The error is a graphlib.CycleError, which lists the modules of the cycle.
    graphlib.TopologicalSorter({m: found - {m} for m, found in graph.items()}).prepare()
