# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Journals: where long commands keep the runs that are finished, until their result is delivered.

A journal is found again by the command that began it. What is in it is keyed by the content of all
that decides a run, so a changed workload, governor, platform or Torpor finds nothing old.
"""

import contextlib
import json
import os
import stat
import time
from functools import cache
from pathlib import Path

from torpor import _engine

#: Journals older than this are deleted.
_KEPT_S = 30 * 24 * 3600


@cache
def engine_id() -> str:
    """Return what tells this build of the engine from every other: the hash of its file."""
    import hashlib

    return hashlib.sha256(Path(str(_engine.__file__)).read_bytes()).hexdigest()


def beside(output: Path) -> Path:
    """Return where the journal of a command is that writes a file."""
    return output.with_name(f"{output.name}.journal")


def of_command(*words: object) -> Path | None:
    """Return where the journal of a command is that writes no file: in the user's cache.

    None where there is no such folder that is the user's alone: another could put runs into it.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        return None
    folder = Path(base) / "torpor" / "journals"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not (stat.S_ISDIR(found.st_mode) and is_ours):
        return None
    _remove_old(folder)
    import hashlib

    told = json.dumps([os.getcwd(), *map(str, words)])
    return folder / hashlib.sha256(told.encode()).hexdigest()[:16]


def _remove_old(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.stat().st_mtime < time.time() - _KEPT_S:
                path.unlink()
