# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""State of the machine, on disk before a command changes it for a while, and the command that does.

A process that is killed undoes nothing. The next one finds what that one has noted.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.system import System
from torpor.results.files import read_text

#: Emptied at each boot, as the kernel is.
_JOURNAL = "/run/torpor/journal.json"
_LOCK = "/run/torpor/lock"


@dataclass
class Journal:
    """Changes to undo: each entry is on disk before its change is made."""

    #: Owner of the changes: the command and its process.
    command: str
    pid: int
    #: Current before.
    governor: str | None = None
    #: Loaded since, in this order.
    modules: list[str] = field(default_factory=list)

    def described(self) -> str:
        governor = f"governor `{self.governor}` before" if self.governor else ""
        modules = f"loaded since: {', '.join(self.modules)}" if self.modules else ""
        return "; ".join(filter(None, (governor, modules))) or "nothing changed yet"


class Keeper:
    """Notes changes in the journal. A dry run notes none."""

    def __init__(self, system: System, journal: Journal) -> None:
        self._system = system
        self._journal = journal

    def governor(self, name: str) -> None:
        self._journal.governor = name
        self._write()

    def module(self, name: str) -> None:
        self._journal.modules.append(name)
        self._write()

    def _write(self) -> None:
        if self._system.is_dry_run:
            return
        file = self._system.machine.path(_JOURNAL)
        new = file.with_suffix(".new")
        try:
            new.write_text(json.dumps(asdict(self._journal)) + "\n")
            os.replace(new, file)
        except OSError as error:
            raise KernelError(f"`{file}` cannot be written: {error.strerror}") from error


@contextmanager
def locked(system: System, command: str) -> Iterator[None]:
    """Be the only one that changes governors.

    Raises :class:`KernelError` where another process holds the journal.
    """
    if system.is_dry_run:
        yield
        return
    file = system.machine.path(_LOCK)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = open(file, "a+")  # noqa: SIM115
    except OSError as error:
        raise KernelError(f"`{file}` cannot be written: {error.strerror}") from error
    # Child processes do not inherit the file: the lock ends with this process.
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise KernelError(
                f"the kernel's governors are being changed by {holder}", "wait until it ends"
            ) from None
        handle.truncate(0)
        handle.write(f"`{command}`, process {os.getpid()}\n")
        handle.flush()
        yield
        handle.truncate(0)


@contextmanager
def kept(system: System, command: str) -> Iterator[Keeper]:
    """Change the machine temporarily: exclusively, and with a journal until all is undone.

    Raises :class:`KernelError` if an earlier process was killed and left changes.
    """
    with locked(system, command):
        refuse_leftovers(system)
        try:
            yield Keeper(system, Journal(command, os.getpid()))
        finally:
            # Changes that were not undone remain for `restore`.
            if not system.unrestored:
                remove(system)


def refuse_leftovers(system: System) -> None:
    """Raise :class:`KernelError` if a process was killed before it had undone its changes."""
    left = read(system)
    if left is not None:
        raise KernelError(
            f"`{left.command}` (process {left.pid}) ended without restoring the previous state: "
            f"{left.described()}",
            "torpor kernel restore restores it",
        )


def read(system: System) -> Journal | None:
    """Return what is left to be undone."""
    file = system.machine.path(_JOURNAL)
    try:
        return Journal(**json.loads(read_text(file)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise KernelError(
            f"`{file}` cannot be read: {error}",
            "if governor and modules are correct, remove it",
        ) from error


def remove(system: System) -> None:
    """Nothing is left to be undone."""
    if not system.is_dry_run:
        system.machine.path(_JOURNAL).unlink(missing_ok=True)
