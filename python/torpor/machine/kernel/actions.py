# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Calls behind `torpor kernel`, on a machine that announces each change."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from torpor.machine.kernel import command as running
from torpor.machine.kernel import governors, journal, modules, support
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.system import System
from torpor.machine.record.signals import Signals


def build(
    system: System,
    wanted: Sequence[str] = (),
    release: str | None = None,
    headers: Path | None = None,
    output: Path | None = None,
) -> list[Path]:
    """Build governors as modules, with the core and the idle drivers; return their files."""
    builder = Builder(system, release, headers, output)
    support.refuse_release(builder.release)
    chosen = list(map(modules.resolve, wanted)) if wanted else modules.every_builtin()
    return list(builder.build(chosen))


def load(system: System, wanted: Sequence[str], folder: Path | None = None) -> list[str]:
    """Load governors; return the names under which the kernel offers them."""
    support.refuse(system)
    support.refuse_others_than_root(system)
    chosen = list(map(modules.resolve, wanted))
    with (
        Signals(),
        journal.locked(system, "torpor kernel load"),
        governors.undone_on_failure() as undo,
    ):
        governors.load(system, Builder(system, out=folder), chosen, undo)
    return [governor.name for governor in chosen]


def use(system: System, name: str, command: Sequence[str] = ()) -> int | None:
    """Make a governor the current one, or only while a command runs, whose status this is."""
    if not system.has_cpuidle:
        raise KernelError("this kernel has no cpuidle (CONFIG_CPU_IDLE)")
    support.refuse_others_than_root(system)
    if not command:
        with Signals(), journal.locked(system, "torpor kernel use"):
            governors.use(system, name)
        return None
    with (
        Signals() as signals,
        journal.kept(system, "torpor kernel use") as keeper,
        ExitStack() as undo,
    ):
        governors.keep(system, undo, keeper)
        governors.use(system, name, is_for_a_while=True)
        system.tell(shlex.join(command))
        ended = None if system.is_dry_run else running.run(list(command), signals)
    if system.unrestored:
        raise KernelError(f"not restored: {', '.join(system.unrestored)}")
    if ended is None:
        return None
    return 128 + ended.stopped_by if ended.stopped_by else ended.status or 0


def unload(system: System, names: Sequence[str] = ()) -> bool:
    """Unload Torpor's governors, by default all; return whether any was loaded."""
    support.refuse_others_than_root(system)
    with Signals(), journal.locked(system, "torpor kernel unload"):
        return bool(governors.unload(system, list(names)))


def restore(system: System) -> bool:
    """Undo what a killed command left; return whether there was anything."""
    support.refuse_others_than_root(system)
    with Signals(), journal.locked(system, "torpor kernel restore"):
        return governors.restore(system) is not None
