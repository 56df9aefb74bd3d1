# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""House style that a machine can check. Each message says what to do instead."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SPDX = "SPDX-License-Identifier: "
SOURCE_SUFFIXES = {".rs", ".py", ".pyi", ".c", ".h", ".sh", ".toml", ".S", ".lds", ".js", ".css"}
#: A handful of settings: nothing to license.
UNLICENSED = {"rustfmt.toml"}

#: (pattern, what to use instead, suffixes of the files it holds for)
BANNED = [
    (r"\b\w+_(?:nsecs?|nanos)\b", "the suffix _ns", {".rs", ".py"}),
    (r"\b\w+_(?:usecs?|micros)\b", "the suffix _us", {".rs", ".py"}),
    (r"\b\w+_(?:msecs?|millis)\b", "the suffix _ms", {".rs", ".py"}),
    (r"\b\w+_(?:percent|perc)\b(?!\()", "the suffix _pct", {".py", ".rs"}),
    (r"\b(?:TODO|FIXME|XXX|HACK)\b", "an issue", SOURCE_SUFFIXES),
    (r"\b(?:todo|unimplemented)!\(", "an issue, and an error that says so", {".rs"}),
    (r"(?<![\w.])/(?:home|root|work|Users)/", "a path relative to the project", SOURCE_SUFFIXES),
    (r"\bc-?states?\b.{0,20}\bindex \+ 1", "the kernel's own index", {".rs", ".py"}),
]
#: Tables of another program's names: what is quoted there is not Torpor's to name.
FOREIGN_NAMES = {
    "crates/torpor-sim/src/workload/command/fio/names.rs": "fio's options",
    "tests/guest/apparatus/iocost.py": "null_blk's parameters",
}
QUOTED = re.compile(r'"[^"]*"')
#: Names of the standard library and of libc.
NOT_OURS = re.compile(r"\b(?:as|from|subsec)_(?:nanos|micros|millis)\b|\btv_[nu]?sec\b")


def listed() -> list[Path]:
    """Files that git knows, or would if they were added."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("not run, because this is no git checkout")
    paths = (ROOT / line for line in done.stdout.splitlines())
    return sorted(p for p in paths if p.is_file())


def sources() -> list[Path]:
    return [path for path in listed() if path.suffix in SOURCE_SUFFIXES]


def told(findings: list[str]) -> None:
    assert not findings, "\n" + "\n".join(findings)


def test_every_source_file_names_its_license():
    told(
        [
            f"{path.relative_to(ROOT)}: no `{SPDX}` in the first 5 lines"
            for path in sources()
            if path.name not in UNLICENSED
            and SPDX not in "".join(path.read_text(encoding="utf-8").splitlines(True)[:5])
        ]
    )


def test_banned_words_do_not_come_back():
    findings = []
    for path in sources():
        if path == Path(__file__):
            continue
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            ours = NOT_OURS.sub("", QUOTED.sub("", line) if name in FOREIGN_NAMES else line)
            for pattern, instead, suffixes in BANNED:
                if path.suffix not in suffixes:
                    continue
                found = re.search(pattern, ours)
                if found:
                    findings.append(f"{name}:{number}: `{found.group()}` is banned, use {instead}")
    told(findings)


# `if let A = a && ...`, which the oldest Rust that builds Torpor (Cargo.toml) refuses; on one line,
# or as rustfmt breaks it.
LET_CHAIN = re.compile(
    r"&&\s+let\s"
    r"|\b(?:if|while) let (?:[^;{]|\{[^{}\n]*\} =)*\n\s*&& "
    r"|\b(?:if|while) let [^;=\n]* = (?:[^;{(|\n]|\([^()\n]*\))*&& "
)


def test_conditions_are_those_of_the_oldest_rust():
    for chain in (
        "if a && let Some(b) = c {",
        "if let P { s } = e\n    && b\n{",
        "while let A = b\n && c",
        "if let Some(a) = b(c) && d {",
    ):
        assert LET_CHAIN.search(chain), chain
    assert not LET_CHAIN.search("if let Some(a) = b.find(|b| c && d) {")
    assert not LET_CHAIN.search("if let Some(a) = b {\n    let c = d\n        && e;")
    told(
        [
            f"{path.relative_to(ROOT)}: a chain of `let`: `{found[0]}`"
            for path in listed()
            if path.suffix == ".rs"
            for text in [path.read_text(encoding="utf-8")]
            for found in LET_CHAIN.finditer(text)
        ]
    )
