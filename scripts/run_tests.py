# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs every check of the project, the next ones too when one fails, and counts.

The last line is ``N passed, N failed, N skipped``: cargo's and pytest's tests, and one for each
check that is no test runner. What does not run says why.

``--since REVISION`` runs what a change since then needs: lints of the languages that it touches,
the tests of its crates, its test files, and the Python tests that name its modules.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON_FOLDERS = ["python", "lab", "kernel", "tests", "scripts", "docs", "demo", "benches"]
PACKAGES = "(python/torpor|lab/torpor_lab)/"
RUST_DOC = ["cargo", "doc", "--release", "--workspace", "--no-deps", "--document-private-items"]
#: Rustup's name of a part, and Debian's for a Rust that apt installed.
RUST_PART = "{} is not installed (rustup component add {}, or apt-get install {})"
SUMMARY = ROOT / "build" / "test-summary.txt"


@dataclass
class Count:
    """Tests by outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_cargo(output: str) -> Count:
    """Sum the closing lines of all test binaries."""
    count = Count()
    for line in re.findall(r"^test result: .*", output, re.M):
        passed, failed, ignored = (int(n) for n in re.findall(r"(\d+) (?:p|f|i)\w+;", line)[:3])
        count += Count(passed, failed, ignored)
    # A Rust test cannot skip itself: it says so and returns, which cargo takes for a pass.
    not_run = len(re.findall(r"^not run: ", output, re.M))
    return Count(count.passed - not_run, count.failed, count.skipped + not_run)


class CargoFilter:
    """Leaves out what passing tests print, but for why one did not run."""

    def __init__(self) -> None:
        self._is_hidden = False

    def __call__(self, line: str) -> bool:
        """Whether to show this line."""
        if line.startswith("successes:"):
            self._is_hidden = True
        elif line.startswith(("failures:", "test result:")):
            self._is_hidden = False
        return not self._is_hidden or line.startswith("not run: ")


def count_pytest(output: str) -> Count:
    """Read pytest's closing line."""
    lines = re.findall(r"^=+ (.* in [\d.:]+s.*) =+$", output, re.M)
    found = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", lines[-1] if lines else "")}
    failed = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    return Count(found.get("passed", 0), failed, found.get("skipped", 0) + found.get("xfailed", 0))


def count_step(output: str) -> Count:
    """Count a check that is no test runner: its exit status says it all."""
    return Count(passed=1)


def run(name: str, command: list[str], count_output=count_step, is_shown=None) -> Count:
    """Run a command, its output shown as it comes, and count."""
    print(f"\n--- {name}", flush=True)
    started_s = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if is_shown is None or is_shown(line):
            print(line, end="", flush=True)
    status = process.wait()
    count = count_output("".join(lines))
    if status != 0 and count.failed == 0:
        # A build that broke, a crash before the closing line.
        count = Count(0 if count_output is count_step else count.passed, 1, count.skipped)
    print(f"--- {name}: {count} ({time.monotonic() - started_s:.0f} s)", flush=True)
    return count


def not_run(name: str, reason: str) -> Count:
    """Say why a check does not run, and count it as skipped."""
    print(f"\n--- {name}: not run, because {reason}", flush=True)
    return Count(skipped=1)


def has_cargo(component: str) -> bool:
    """Whether a part of the Rust toolchain is installed (rustup's minimal profile lacks some)."""
    done = subprocess.run(["cargo", component, "--version"], capture_output=True, check=False)
    return done.returncode == 0


def changed_since(revision: str) -> list[str]:
    """Return the files that differ from a revision, uncommitted and new ones too."""
    names = []
    for command in (
        ["git", "diff", "--name-only", "--diff-filter=d", f"{revision}...", "--"],
        ["git", "diff", "--name-only", "--diff-filter=d", "HEAD", "--"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names += done.stdout.splitlines()
    return sorted(set(names))


def tests_of(names: list[str]) -> list[str]:
    """Return pytest's arguments for changed files: test files, pages, and what names a module."""
    found = {name for name in names if re.fullmatch(r"tests/.*/test_\w+\.py", name)}
    modules = [Path(name) for name in names if re.fullmatch(rf"{PACKAGES}.*\.py", name)]
    for path in sorted((ROOT / "tests" / "python").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for module in modules:
            named = ".".join(module.parts[-2:]).removesuffix(".py")
            is_command = module.parent.name == "cli" and f'"{module.stem}"' in text
            if is_command or named in text or path.stem == f"test_{module.stem}":
                found.add(str(path.relative_to(ROOT)))
    if modules:
        found.add("tests/python/test_doc_examples.py")
    if any(name.endswith(".md") for name in names):
        found.add("tests/docs/test_pages.py")
    return [*sorted(found), *(page for page in pages() if page.split("[")[1][:-1] in names)]


def pages() -> list[str]:
    """Return pytest's names of the pages with examples that are quick: it refuses any other."""
    collect = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "tests/docs/test_examples.py",
    ]
    done = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, check=False)
    return re.findall(r"^\S+::test_examples\[\S+\]$", done.stdout, re.M)


def run_since(revision: str) -> Count:
    """Run what a change since a revision needs."""
    names, total, python = changed_since(revision), Count(), sys.executable
    if scripts := [n for n in names if n.endswith(".py")]:
        total += run("Python lint", [python, "-m", "ruff", "check", *scripts])
        total += run("Python format", [python, "-m", "ruff", "format", "--check", *scripts])
    if any(re.match(PACKAGES, name) for name in names):
        total += run("Python types", [python, "-m", "mypy", "python/torpor", "lab/torpor_lab"])
    total += run("Spelling", [python, "-m", "codespell_lib", *names])
    crates = sorted({n.split("/")[1] for n in names if re.match(r"crates/[\w-]+/", n)})
    if crates:
        total += run("Rust format", ["cargo", "fmt", "--all", "--check"])
    for crate in crates:
        lint = [
            "cargo",
            "clippy",
            "--release",
            "-p",
            crate,
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]
        total += run(f"Rust lint of {crate}", lint)
        # The Python tests test the extension.
        if crate != "torpor-py":
            command = ["cargo", "test", "--release", "-p", crate, "--", "--show-output"]
            total += run(f"Rust tests of {crate}", command, count_cargo, CargoFilter())
    if tests := tests_of(names):
        command = [python, "-m", "pytest", "-n", "auto", *tests]
        total += run("Python tests", command, count_pytest)
    return total


def main() -> int:
    """Run all checks, or those of a change; 0 if none failed."""
    if sys.argv[1:2] == ["--since"]:
        os.environ["CARGO_PROFILE_RELEASE_LTO"] = "off"
        os.environ.setdefault("TORPOR_KERNEL_SOURCES", str(ROOT / "build" / "kernel-sources"))
        total = run_since(sys.argv[2])
        print(f"\n{total}", flush=True)
        return 1 if total.failed else 0
    # Optimizing across crates gains a replay some 5 %, and costs each of the many test binaries a
    # link of many seconds. What is installed, and what is measured, is built with it.
    os.environ["CARGO_PROFILE_RELEASE_LTO"] = "off"
    os.environ["RUSTDOCFLAGS"] = "-D warnings"
    total = Count()
    python = sys.executable
    # Simulations compile it.
    sources = ROOT / "build" / "kernel-sources"
    os.environ.setdefault("TORPOR_KERNEL_SOURCES", str(sources))
    total += run("Kernel source", ["tests/kernel_sources.sh", "6.12"])
    if has_cargo("fmt"):
        total += run("Rust format", ["cargo", "fmt", "--all", "--check"])
    else:
        total += not_run("Rust format", RUST_PART.format("rustfmt", "rustfmt", "rustfmt"))
    total += run("Python lint", [python, "-m", "ruff", "check", *PYTHON_FOLDERS])
    total += run("Python format", [python, "-m", "ruff", "format", "--check", *PYTHON_FOLDERS])
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    total += run("Spelling", [python, "-m", "codespell_lib", *tracked.stdout.split()])
    total += run("Python types", [python, "-m", "mypy", "python/torpor", "lab/torpor_lab"])
    total += run("Stub of the engine", [python, "-m", "mypy.stubtest", "torpor._engine"])
    # The extension module is left out here: the Python tests test it from outside. Benchmarks have
    # no tests; the lint has compiled them.
    workspace = ["--release", "--workspace", "--exclude", "torpor-py"]
    workspace += ["--exclude", "torpor-benches"]
    if has_cargo("clippy"):
        clippy = ["cargo", "clippy", "--release", "--workspace", "--all-targets"]
        total += run("Rust lint", [*clippy, "--", "-D", "warnings"])
    else:
        total += not_run("Rust lint", RUST_PART.format("clippy", "clippy", "rust-clippy"))
    total += run("Rust documentation", RUST_DOC)
    total += run(
        "Rust tests",
        ["cargo", "test", *workspace, "--no-fail-fast", "--", "--show-output"],
        count_cargo,
        CargoFilter(),
    )
    in_parallel = ["-n", "auto", "--maxprocesses", "8", "--durations=25"]
    total += run("Python tests", [python, "-m", "pytest", *in_parallel, "tests"], count_pytest)
    SUMMARY.parent.mkdir(exist_ok=True)
    SUMMARY.write_text(f"{total}\n", encoding="utf-8")
    print(f"\n{total}", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
