# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fixes of the kernel's governors as mails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sources import kernel_sources

ROOT = Path(__file__).resolve().parents[2]
FILE = "drivers/cpuidle/governors/haltpoll.c"


def post(fix: str, tree: Path) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    identity = {
        f"GIT_{who}_{what}": "nobody@localhost"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "post_fix.py", fix, tree],
        env={**os.environ, **identity, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_git_am_takes_a_fix(tmp_path):
    tree = kernel_sources("6.12")
    posted = post("haltpoll-usable", tree)
    assert posted.returncode == 0, posted.stderr
    below = posted.stdout.split("\n---\n")[1]
    assert "disabled: state 0 is chosen" in below
    assert "with this fix: no breach" in below
    assert str(tree) not in posted.stdout

    def git(*words: str, **how: str) -> None:
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, text=True, **how)

    git("init", "-q")
    (tmp_path / FILE).parent.mkdir(parents=True)
    shutil.copy(tree / FILE, tmp_path / FILE)
    git("add", ".")
    git("commit", "-q", "-m", "before")
    git("am", "-q", input=posted.stdout)
    assert "haltpoll_usable" in (tmp_path / FILE).read_text(encoding="utf-8")


def test_a_fix_needs_a_tree_with_its_file(tmp_path):
    posted = post("haltpoll-usable", tmp_path)
    assert posted.returncode == 1
    assert "has no drivers/cpuidle/governors/haltpoll.c" in posted.stderr
