# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""From what a user names to a series that a kernel's name can have."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine.kernel_sources import cache_folder
from torpor.results.kinds.trial import TrialPatch, TrialSeries

_RANGE = re.compile(r"(?:(?P<tree>.+):)?(?P<first>[^:]+?)\.\.(?P<last>[^:.][^:]*)?")
#: Commits of a range; a longer one is a mistake.
_COMMITS_MAX = 200
#: Bytes of a series on standard input.
BYTES_MAX = 64 << 20


class TrialError(TorporError):
    """A series that cannot be tried, and why."""


@dataclass(frozen=True)
class Series:
    """A series: where the engine reads it, and what is in it."""

    path: str
    #: What ``_engine.read_series`` found.
    read: "_engine.Series"
    #: Repository and first revision of a range.
    repository: str | None = None
    start: str | None = None

    @property
    def patches(self) -> "list[_engine.Patch]":
        return self.read["patches"]

    def paths(self) -> list[str]:
        """Return the files that it changes, each once."""
        names = (f["path"] for patch in self.patches for f in patch["files"])
        return list(dict.fromkeys(names))

    def as_result(self) -> TrialSeries:
        """Return it as a result has it."""
        keys = ("number", "total", "subject", "author", "message_id", "patch_id")
        patches: list[TrialPatch] = [
            {key: patch[key] for key in keys}  # type: ignore[misc,literal-required]
            for patch in self.patches
        ]
        return {
            "subject": self.read["subject"],
            "version": self.read["version"],
            "message_id": self.read["message_id"],
            "patch_id": self.read["patch_id"],
            "patches": patches,
            "missing": list(self.read["missing"]),
            "notes": list(self.read["notes"]),
        }


def git(tree: str, *words: str, timeout_s: float = 60, given: bytes | None = None) -> str | None:
    """Return what git prints, or None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", tree, *words],
            input=given,
            stdin=None if given is not None else subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
    except OSError as error:
        raise TrialError(f"git cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def commit_of(tree: str, revision: str) -> str | None:
    """Return the commit that a revision names in a repository, if there is one."""
    found = git(tree, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return found.strip() if found else None


def read_source(source: str, given: bytes | None = None) -> Series:
    """Read a series: a path, ``-`` with the bytes ``given``, or a range of git.

    Raises :class:`TrialError` for a source that is none of these, or that has no patch.
    """
    if source == "-":
        if not given:
            raise TrialError("standard input is empty: expected a mailbox with patches")
        if len(given) > BYTES_MAX:
            raise TrialError(f"standard input has more than {BYTES_MAX >> 20} MiB")
        return _kept(given)
    if os.path.exists(source):
        path = os.path.abspath(source)
        return Series(path, _read(path))
    found = _RANGE.fullmatch(source)
    if found is None:
        raise TrialError(
            f"there is no `{source}`\n"
            "hint: name a mailbox, a folder of patches, `-`, or a range: TREE:A..B"
        )
    return _of_range(found["tree"] or ".", found["first"], found["last"] or "HEAD")


def _read(path: str) -> "_engine.Series":
    found = _engine.read_series(path)
    if not found["patches"]:
        raise TrialError(f"`{path}` has no patch")
    return found


def _of_range(tree: str, first: str, last: str) -> Series:
    top = git(tree, "rev-parse", "--show-toplevel") if os.path.isdir(tree) else None
    if top is None:
        raise TrialError(f"`{tree}` is no git repository: expected TREE:A..B")
    tree = top.strip()
    commits = []
    for text in (first, last):
        commit = commit_of(tree, text)
        if commit is None:
            raise TrialError(f"`{tree}` has no revision `{text}`")
        commits.append(commit)
    span = f"{commits[0]}..{commits[1]}"
    count = int(git(tree, "rev-list", "--count", "--no-merges", span) or 0)
    if not 0 < count <= _COMMITS_MAX:
        raise TrialError(f"`{first}..{last}` has {count} commits: expected 1 to {_COMMITS_MAX}")
    words = ("--stdout", "--no-signature", "--full-index", "--no-ext-diff", "--no-textconv")
    mails = git(tree, "format-patch", *words, "--no-renames", f"--base={commits[0]}", span)
    if mails is None:
        # A base must be an ancestor; a branch's may not be.
        mails = git(tree, "format-patch", *words, "--no-renames", span)
    if not mails:
        raise TrialError(f"git cannot write `{first}..{last}` as patches")
    made = _kept(mails.encode("utf-8", "surrogateescape"))
    return Series(made.path, made.read, tree, commits[0])


def _kept(mails: bytes) -> Series:
    """Keep a series in the user's cache under its patch-id, so that a kernel's name can have it."""
    folder = cache_folder("series")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".mbox", delete=False) as file:
        file.write(mails)
    try:
        read = _read(file.name)
        place = folder / f"{read['patch_id'][:40]}.mbox"
        os.replace(file.name, place)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
    return Series(str(place), read)


def patched(base: str, series: str, first: int, last: int) -> str:
    """Name a base with some patches of a series, by their numbers, as the engine reads it."""
    return f"{base}+{series}:{first}-{last}"
