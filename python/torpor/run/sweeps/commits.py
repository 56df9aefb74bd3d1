# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commits of a governor's file: ``teo@linux:v6.12..v7.1`` is the file at each that changes it."""

import re
from typing import NamedTuple

from torpor._engine import TorporError

_RANGE = r"(?P<name>[\w-]+)@(?P<tree>.+):(?P<first>[^:]+?)\.\.(?P<last>[^:.][^:]*)"
#: Commits of a range; a longer one is a mistake.
_MOST = 200


class CommitsError(TorporError):
    """A range of commits that cannot be read; the message says which and why."""


class Step(NamedTuple):
    """A commit that changes a governor's file."""

    subject: str
    #: The file before it, as a governor's name has it, and after it.
    before: str
    after: str


def is_range(spec: str) -> bool:
    """Whether a governor's name is a range of commits."""
    return re.fullmatch(_RANGE, spec) is not None


def steps(spec: str) -> list[Step]:
    """Return the commits of a range that change the governor's file, oldest first.

    The file before a commit is that of the commit before it among its ancestors, so that a branch
    is compared with what it was made from.
    """
    found = re.fullmatch(_RANGE, spec)
    assert found is not None
    name, tree, first, last = found["name"], found["tree"], found["first"], found["last"]
    file = f"drivers/cpuidle/governors/{name}.c"
    base = _git(tree, spec, "rev-parse", "--verify", "--short=12", f"{first}^{{commit}}").strip()
    words = ("log", "--no-merges", "--topo-order", "--reverse", "--abbrev=12")
    told = _git(tree, spec, *words, "--format=%h %s", f"{first}..{last}", "--", file)
    commits = [line.partition(" ") for line in told.splitlines()]
    if not 0 < len(commits) <= _MOST:
        raise CommitsError(f"`{spec}`: {len(commits)} commits change {file}: expected 1 to {_MOST}")
    known = {commit for commit, _, _ in commits}
    after = []
    for commit, _, subject in commits:
        line = ("log", "--no-merges", "-1", "--abbrev=12", "--format=%h", f"{commit}^", "--", file)
        before = _git(tree, spec, *line).strip()
        sides = (before if before in known else base, commit)
        after.append(Step(subject, *(f"{name}@{tree}:{side}" for side in sides)))
    return after


def expand(spec: str) -> list[str]:
    """Return a range's governors, that before its first commit among them; else the name alone."""
    if not is_range(spec):
        return [spec]
    return list(dict.fromkeys(side for step in steps(spec) for side in (step.before, step.after)))


def _git(tree: str, spec: str, *words: str) -> str:
    # A simulation imports this module for the name of a range.
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", tree, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise CommitsError(f"git cannot be started: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else "git says nothing"
        raise CommitsError(
            f"`{spec}`: {why}\nhint: NAME@TREE:A..B needs a clone of Linux at TREE, with A and B"
        )
    return done.stdout.decode("utf-8", "replace")
