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
                count = node.end_lineno - node.lineno + 1
                long += [f"{name}: {node.name} has {count} lines"] if count > 70 else []
    assert long == []


def test_csv_has_one_writer():
    """It quotes what a spreadsheet would run."""
    modules = {n: ast.parse(t) for n, t in sources(".py").items() if n.startswith("python/torpor/")}
    found = [name for name, module in modules.items() if "csv" in imported(module)]
    assert found == ["python/torpor/results/text.py"]


#: Reads of what is no file of somebody else's: the package's own stub before it is imported, what
#: a checkout has fetched before it is built, and a device that must stay open.
OTHER_READS = {
    "python/torpor/__init__.py",
    "python/torpor/machine/kernel_sources.py",
    "python/torpor/machine/record/machine.py",
}


def direct_reads(node: ast.AST) -> Iterator[str]:
    """Yield the calls of a module that read a path of whatever kind: a FIFO never ends."""
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        name = ast.unparse(call.func)
        mode = [
            a.value
            for a in (*call.args, *(k.value for k in call.keywords if k.arg == "mode"))
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        is_read = not any(set(m) <= set("rwxabt+") and set(m) & set("wxa") for m in mode)
        owner = name.rpartition(".")[0]
        is_path = name == "open" or (name.endswith(".open") and owner not in ("os", "tarfile"))
        is_whole = name.endswith((".read_text", ".read_bytes")) and owner != "saved"
        if is_whole or (is_path and is_read):
            yield name


def test_python_files_are_read_by_one_reader():
    found = [
        f"{name}: {call} is banned, use torpor.results.files"
        for name, text in sources(".py").items()
        if name.startswith("python/torpor/") and name not in OTHER_READS
        for call in direct_reads(ast.parse(text))
    ]
    assert found == []
    assert list(direct_reads(ast.parse("open(a); b.open('rb'); c.read_text(); open(d, 'w')"))) == [
        "open",
        "b.open",
        "c.read_text",
    ]


#: A read of a path of whatever kind.
RUST_READ = re.compile(r"\bfs::read(?:_to_string)?\(|\bFile::open\(")
#: The readers themselves, of files and of recordings, which may be pipes; and files of the cache,
#: which are locked or marked as used.
RUST_READERS = {
    "crates/torpor-machine/src/units/file.rs",
    "crates/torpor-trace/src/bytes/mod.rs",
    "crates/torpor-machine/src/cache.rs",
    "crates/torpor-trace/src/cached.rs",
}


def test_rust_files_are_read_by_one_reader():
    texts = sources(".rs")
    tests = set(re.findall(r"#\[cfg\(test\)\]\nmod (\w+);", "\n".join(texts.values())))
    found = [
        f"{name}: {read[0]} is banned, use units::read_regular or units::open_input"
        for name, text in texts.items()
        if re.match(r"crates/torpor-\w+/src/", name) and name not in RUST_READERS
        if Path(name).stem not in tests
        for read in RUST_READ.finditer(text.partition("#[cfg(test)]\nmod ")[0])
    ]
    assert found == []


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
