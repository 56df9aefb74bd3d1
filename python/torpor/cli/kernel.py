# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor kernel`: governors in the running kernel."""

import json
from pathlib import Path
from typing import Annotated

import click

from torpor import _engine
from torpor.cli import options
from torpor.cli.console import print_note, write_stdout
from torpor.cli.options import argument, option
from torpor.cli.sources import fetched
from torpor.machine.kernel import actions
from torpor.machine.kernel.status import Status
from torpor.machine.kernel.status import status as find
from torpor.machine.kernel.system import System

_SPEC_HELP = "One of Torpor's, PATH.c, NAME@TREE or NAME@TREE:REV, with ,param=value."


def make_system(*, is_dry_run: bool = False) -> System:
    """Return the machine; each change of it is printed to stderr before it is made."""
    return System(print_note, is_dry_run=is_dry_run)


def build(
    governors: Annotated[
        list[str] | None, argument("[GOVERNOR...]", f"{_SPEC_HELP} Default: all of Torpor's.")
    ] = None,
    release: Annotated[
        str | None, option("--kernel RELEASE", "Default: the running kernel.")
    ] = None,
    headers: Annotated[
        Path | None, option("DIR", "Its headers; default: those installed for it.")
    ] = None,
    output: Annotated[
        Path | None, option("--output -o DIR", "Default: a cache; `load` uses root's.")
    ] = None,
    is_dry_run: options.DryRun = False,
) -> None:
    """Build governors as modules, with the core and the idle drivers. Does not require root.

    For another architecture set ARCH and CROSS_COMPILE, as for the kernel itself.
    """
    system = make_system(is_dry_run=is_dry_run)
    built = actions.build(system, governors or (), release, headers, output)
    if not is_dry_run:
        write_stdout("\n".join(map(str, built)))


def load(
    governors: Annotated[list[str], argument("GOVERNOR...", _SPEC_HELP)],
    folder: Annotated[
        Path | None,
        option("--modules DIR", "Built by `build -o DIR`, possibly on another machine."),
    ] = None,
    is_dry_run: options.DryRun = False,
) -> None:
    """Load governors into the running kernel; the current one does not change. Requires root.

    Builds them if necessary, and prints the names under which the kernel offers them. On failure
    nothing remains loaded.
    """
    system = make_system(is_dry_run=is_dry_run)
    names = actions.load(system, governors, folder)
    if system.driver is None:
        print_note("note: this machine has no idle driver, so no governor decides anything")
    if not is_dry_run:
        write_stdout("\n".join(names))


def use(
    name: Annotated[str, argument("NAME", "As the kernel offers it.")],
    command: Annotated[
        list[str] | None,
        argument("[-- COMMAND...]", "Run this command, then restore the previous governor."),
    ] = None,
    is_dry_run: options.DryRun = False,
) -> None:
    """Make a governor the current one, permanently or while a command runs. Requires root.

    The exit status is the command's.
    """
    if status := actions.use(make_system(is_dry_run=is_dry_run), name, command or ()):
        raise click.exceptions.Exit(status)


def unload(
    names: Annotated[
        list[str] | None, argument("[NAME...]", "Default: all of Torpor's governors, and the core.")
    ] = None,
    is_dry_run: options.DryRun = False,
) -> None:
    """Unload Torpor's governors. Requires root.

    If one of them is current, the previous governor becomes current.
    """
    if not actions.unload(make_system(is_dry_run=is_dry_run), names or ()):
        print_note("none of Torpor's governors is loaded")


def restore(is_dry_run: options.DryRun = False) -> None:
    """Undo the changes of an `ab` or `use -- COMMAND` that was killed. Requires root.

    The previous governor becomes current again, and modules loaded since then are unloaded.
    """
    if not actions.restore(make_system(is_dry_run=is_dry_run)):
        print_note("there is nothing to restore")


def status(form: options.TextOrJson = "text") -> None:
    """Report which governors the kernel has, and which of Torpor's modules are loaded."""
    found = find(make_system())
    write_stdout(json.dumps(found, indent=1) if form == "json" else _text(found))


def fetch(
    kernel: Annotated[
        str | None, argument("[VERSION]", "Such as 6.1. Default: that of `simulate`.")
    ] = None,
) -> None:
    """Fetch the source of a kernel to simulate, as Debian packages it. Does not require root.

    Prints its folder. It stays in the user's cache; what is there is not fetched again.
    """
    write_stdout(str(fetched(kernel or _engine.default_kernel())))


def _text(found: Status) -> str:
    offered = [f"{g['name']} (Torpor)" if g["module"] else g["name"] for g in found["governors"]]
    lines = [
        f"kernel     {found['kernel']}",
        f"driver     {found['driver'] or 'none: no governor decides anything'}",
        f"governor   {found['governor'] or 'none'}",
        f"available  {', '.join(offered) or 'none'}",
    ]
    for governor in found["governors"]:
        if timers := governor["timers"]:
            idle, busy = (sum(row[key] for row in timers) for key in ("idle", "busy"))
            lines.append(
                f"timers     {governor['name']} woke idle CPUs {idle} times, and interrupted tasks "
                f"{busy} times"
            )
    for number, module in enumerate(found["modules"]):
        facts = [f"references {module['references']}"]
        facts += [f"{name}={value}" for name, value in module["parameters"].items()]
        if module["holders"]:
            facts.append(f"held by {', '.join(module['holders'])}")
        head = "" if number else "modules"
        lines.append(f"{head:<10} {module['name']}: {', '.join(facts)}")
    if not found["modules"]:
        lines.append("modules    none of Torpor's")
    lines += [f"refused    {reason}" for reason in found["refused"]]
    return "\n".join(lines)
