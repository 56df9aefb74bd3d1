# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Options that several commands have."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from torpor.run import options
from torpor.run.option import Option
from torpor.view.post import FORMS


def option(spelled: str, text: str, **more: Any) -> Any:
    """Declare an option: flags, unless they are the parameter's name, and what follows them."""
    return Option(text, spelled, **more)


@functools.cache
def _described(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of a function's arguments, from its docstring."""
    text = inspect.cleandoc(function.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    parts = re.split(r"^    (\w+): ", text.replace("``", "`"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (" ".join(part.split()) for part in parts[1::2]), strict=True))


def like(function: Callable[..., Any], name: str, spelled: str, **more: Any) -> Any:
    """Declare an option that does what an argument of the library does, in the same words."""
    return option(spelled, _described(function).get(name, ""), **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Declare an argument of a command."""
    return Option(text, metavar, is_argument=True, **more)


_Command = Callable[..., None]


def extended(
    command: _Command,
    more: Mapping[str, Option],
    *,
    after: str | None = None,
    without: Iterable[str] = (),
) -> _Command:
    """Declare more options of a command, behind a parameter or at the end.

    The parameters ``without`` are no options: the command's wrapper gives them.
    """
    command.declared = (more, after, set(without))  # type: ignore[attr-defined]
    return command


def of(group: type, after: str) -> Callable[[_Command], _Command]:
    """Give a command a group of the library's options; it gets those that were typed."""
    more = {name: _repeatable(told) for name, (_, told) in options.fields(group).items()}
    shown = {name: told for name, told in more.items() if told.flags}
    return lambda command: extended(command, shown, after=after)


def _repeatable(told: Option) -> Option:
    return told._replace(help=f"{told.help} Can be repeated.") if told.kind is list else told


def governor(default: Iterable[str]) -> Any:
    """The option for governors, without which these run."""
    return option(
        "--governor -g G",
        "NAME, PATH.c, FOLDER/, NAME@TREE or NAME@TREE:REV, each with ,param=value; can be "
        "repeated. The others are compared with the first one. "
        f"Default: {', '.join(default)}.",
    )


def machine(text: str) -> Any:
    """The option for one machine, with a text that says which."""
    return option("--platform -p P", text)


Threads = Annotated[
    int | None, option("-j --threads N", "Number of threads; default: one per core.", least=1)
]


Form = Annotated[
    str,
    option(
        "--format F",
        "text, the default; lkml: plain ASCII in 80 columns, as on kernel mailing lists; "
        "mail: in 72 columns, to reply with; markdown, csv, or json, the whole result.",
        choices=("text", *FORMS),
    ),
]
TextOrJson = Annotated[
    str, option("--format F", "text, the default, or json.", choices=("text", "json"))
]
Metrics = Annotated[
    list[str] | None,
    option(
        "--metric -m KEY",
        "Rows of the tables: a metric's key or a pattern, such as 'latency*'; can be "
        "repeated. JSON, CSV and pages have all.",
    ),
]
StoreFolder = Annotated[Path, argument("STORE", "The folder of a sweep's points.")]
RunsPath = Annotated[
    Path | None,
    option(
        "--store DIR",
        "Keep finished runs here, as points of a sweep: the same command continues from "
        "there. Default: in the user's cache, until all are finished.",
    ),
]
RecordedMachine = Annotated[
    str | None,
    machine(
        "The machine that was recorded: a name, a .toml file, or a dump of its sysfs. "
        "Default: the dump that was saved with the recording, if any."
    ),
]
Before = Annotated[str | None, option("DUMP", "The machine's counters before recording.")]
After = Annotated[str | None, option("DUMP", "The same afterwards.")]
ReportPath = Annotated[Path | None, option("FILE", "Write the result as one HTML page.")]
DryRun = Annotated[bool, option("--dry-run -n", "Only print what would be done.")]
Force = Annotated[bool, option("--force -f", "Overwrite the output.")]
# Name of a machine that is described again.
MachineName = Annotated[str | None, option("NAME", "Default: the output file's name.")]
MachineTitle = Annotated[str | None, option("TEXT", "A description of the machine.")]
MachineHz = Annotated[int | None, option("N", "The kernel's tick rate (CONFIG_HZ).")]
