# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Options that several commands have."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer


def governor(default: Iterable[str]) -> Any:
    """The option for governors, without which these run."""
    return typer.Option(
        "--governor",
        "-g",
        metavar="G",
        help="NAME, PATH.c, NAME@TREE or NAME@TREE:REV, each with ,param=value; repeat it. "
        "The first is what the others are compared with. "
        f"Default: {', '.join(default)}.",
    )


LatencyLimit = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="PM QoS bound on the exit latency, such as 50us."),
]
Hz = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tick rate, 100, 250, 300 or 1000; default: the machine's."),
]
DisableState = Annotated[
    list[str] | None,
    typer.Option(metavar="[CPU:]N", help="Switch an idle state off; repeat it."),
]
EnableState = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATE",
        help="Switch an idle state on that the machine has off: its name or index; repeat it.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("-j", "--threads", metavar="N", min=1, help="Threads; default: one a core."),
]
Isolate = Annotated[
    bool | None,
    typer.Option(
        "--isolate/--no-isolate",
        help="Run each governor in a process of its own, or all in this one; default: those that "
        "do not ship in their own.",
    ),
]
WholeAsJson = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
JournalPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where finished runs are kept until all are: the same command, called again, goes on "
        "from there. Default: beside the output, or in the user's cache.",
    ),
]
ReportPath = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the result as one HTML page.")
]
