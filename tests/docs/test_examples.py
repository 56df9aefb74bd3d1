# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every example of the documentation runs, and prints what its page shows.

The examples of one page run in order, in a folder that looks like the repository's root: what they
write does not land in the repository. Output is compared where a block shows it; ``...`` stands
for anything, a line of it alone for any lines.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import refresh
from pages import PAGES, ROOT, Block, blocks, commands
from sources import kernel_sources

LANGUAGES = {"console", "python", "c", "toml", "text", "sh", "diff", "mermaid", "yaml"}
#: Two of the kernel's own sources, which a package holds.
RELEASES = ("6.1", "6.12")
#: Files that the pages call the reader's own.
STAND_INS = {
    "phone.perfetto-trace": "demo/web-server.perf.data",
    "first.perf.data": "demo/web-server.perf.data",
    "second.perf.data": "demo/web-server.perf.data",
    "my_teo.c": "governors/cpuidle/teo.c",
}


def runnable(page: Path) -> list[Block]:
    """Return the blocks that do something: what others need, or an example."""
    return [b for b in blocks(page) if b.what == "file" or b.language in ("console", "python")]


def matches(shown: str, printed: str) -> bool:
    """Whether the output is as shown, with ``...`` for anything.

    A page folds lines that are too long for it, which a pipe does not: any blanks are alike.
    """
    shown, printed = (
        "".join(line.rstrip() + "\n" for line in text.splitlines()) for text in (shown, printed)
    )
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, printed, flags)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Return the user's environment: Torpor's command in the path, and the user's cache.

    Compiling a kernel takes most of a minute: other tests have left its objects in the cache.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder with the repository's entries and none of its history."""
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "build", "target", "report.html"):
            (tmp_path / entry.name).symlink_to(entry)
    for name, stand_in in STAND_INS.items():
        # A copy: a page may write to its own files.
        shutil.copy(ROOT / stand_in, tmp_path / name)
    return tmp_path


@pytest.fixture(scope="session")
def linux_git(tmp_path_factory) -> Path:
    """A git repository of kernel governors with a tag for each release."""
    repository = tmp_path_factory.mktemp("git") / "linux"
    governors = repository / "drivers" / "cpuidle" / "governors"
    governors.mkdir(parents=True)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(
            ["git", "-C", repository, *identity, *arguments], check=True, capture_output=True
        )

    git("init", "-q", "-b", "master")
    for release in RELEASES:
        source = kernel_sources(release) / "drivers" / "cpuidle" / "governors"
        for file in source.glob("*.[ch]"):
            (governors / file.name).write_bytes(file.read_bytes())
        git("add", ".")
        git("commit", "-q", "-m", f"Linux {release}")
        git("tag", f"v{release}")
        # A revision that bisecting must skip.
        for number in (1, 2):
            with (governors / "teo.c").open("a") as teo:
                teo.write(f"/* {number} */\n")
            git("commit", "-q", "-a", "-m", f"cpuidle: teo: Comment {number} after {release}")
    return repository


def has_examples(page: Path, left_out: tuple[str, ...]) -> bool:
    return any(b.what not in left_out for b in runnable(page))


WITH_EXAMPLES = [p for p in PAGES if has_examples(p, ("not run", "slow"))]
SLOW = [p for p in PAGES if any(b.what == "slow" for b in runnable(p))]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples(page, root, environment, request, monkeypatch):
    run_page(page, ("not run", "slow"), root, environment, request, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda p: str(p.relative_to(ROOT)))
def test_slow_examples(page, root, environment, request, monkeypatch):
    run_page(page, ("not run",), root, environment, request, monkeypatch)


def run_page(page, left_out, root, environment, request, monkeypatch):
    """Run the examples of a page in order, except those that are left out."""
    todo = [b for b in runnable(page) if b.what not in left_out]
    needs = {b.value for b in todo if b.what == "needs"}
    if any(need.startswith("kernel ") for need in needs):
        folders = [kernel_sources(n.split()[1]).parent for n in needs if n.startswith("kernel ")]
        environment = environment | {"TORPOR_KERNEL_SOURCES": str(folders[0])}
    if "git" in needs:
        shutil.copytree(request.getfixturevalue("linux_git"), root / "linux")
    # Pages show the output of a pipe: lines of any length.
    for key in ("COLUMNS", "NO_COLOR", "PYTHONPATH"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(root)
    names: dict[str, object] = {}
    for block in todo:
        if block.what == "file":
            Path(block.value).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            run_console(block)
        else:
            run_python(block, names)


def run_console(block: Block) -> None:
    """Run the commands of a block; each must end and print as is shown."""
    for command, shown, status in commands(block):
        done = subprocess.run(
            ["bash", "-c", command],
            # Not the C library's environment, into which readline writes COLUMNS.
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            # A kernel may have to be compiled.
            timeout=3000 if "TORPOR_REFRESH_EXAMPLES" in os.environ else 300,
            check=False,
        )
        # The first example that needs a kernel says so.
        printed = re.sub(r"^compiling Linux .*\n", "", done.stdout, flags=re.M)
        said = f"{block.where}\n$ {command}\n--- printed\n{printed}--- shown\n{shown}"
        assert done.returncode == status, f"exit status {done.returncode}, not {status}\n{said}"
        if shown and not matches(shown, printed) and "TORPOR_REFRESH_EXAMPLES" in os.environ:
            now = refresh.refreshed(shown, printed)
            refresh.write(block, shown, now)
            shown = now
        assert not shown or matches(shown, printed), said


def run_python(block: Block, names: dict[str, object]) -> None:
    """Run a block as a session if it has prompts, else as a script."""
    if ">>>" not in block.text:
        exec(compile(block.text, block.where, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, {}, block.where, block.where, 0)
    test.globs = names
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)


NOT_RUN = [b for page in PAGES for b in runnable(page) if b.what == "not run"]


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda b: b.where)
def test_example_that_does_not_run(block):
    pytest.skip(f"not run: {block.value}")


def test_every_block_names_its_language():
    unknown = [b.where for page in PAGES for b in blocks(page) if b.language not in LANGUAGES]
    assert not unknown, f"give a language of {sorted(LANGUAGES)}: {unknown}"


def test_shown_output_is_compared():
    """The comparison itself can fail."""
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert matches("took ... s\n", "took 3 s\n")
    assert matches("a long\n  line\n", "a long line\n")
    assert not matches("a long line\n", "a longline\n")
    assert not matches("a\n...\nd\n", "a\nb\nc\n")
