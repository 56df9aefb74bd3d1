# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor fidelity`: is the replay to be believed?"""

import json
from typing import Annotated

import typer

from torpor import verification
from torpor.cli import EXIT_FINDING, options, progress, values
from torpor.cli.console import stdout_width, write_stdout


def fidelity(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Recording to verify.")],
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            "-p",
            metavar="P",
            help="The machine that was recorded: a name, a .toml file, or a dump of its sysfs. "
            "Default: the dump beside the recording.",
        ),
    ] = None,
    governors: Annotated[
        list[str] | None,
        typer.Option(
            "--governor",
            "-g",
            metavar="G",
            help="NAME, PATH.c, NAME@TREE or NAME@TREE:REV, tried beside all built-in ones; "
            "repeat it.",
        ),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="DUMP", help="The machine's counters before recording.")
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="DUMP", help="The same afterwards.")] = None,
    latency_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="The machine's PM QoS limit, such as 50us.")
    ] = None,
    disable_state: Annotated[
        list[str] | None,
        typer.Option(metavar="[CPU:]N", help="A state that was off there; repeat it."),
    ] = None,
    without_probes: Annotated[
        bool, typer.Option("--without-probes", help="Leave aside what probes recorded.")
    ] = False,
    no_fit: Annotated[
        bool, typer.Option("--no-fit", help="Fit no assumption to the recording.")
    ] = False,
    disagreements: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many of the first ones to show.")
    ] = verification.DEFAULT_DISAGREEMENTS,
    at_least: Annotated[
        float | None,
        typer.Option(
            metavar="PCT", min=0, max=100, help="Exit with 1 if no governor agrees so far."
        ),
    ] = None,
    isolate: options.Isolate = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Verify a recording: ask governors what the recorded one was asked, and compare."""
    limit_ns = values.duration_ns(latency_limit)
    bar = progress.if_watched()
    try:
        result = verification.fidelity(
            trace,
            platform=platform,
            governors=governors or (),
            before=before,
            after=after,
            latency_limit=None if limit_ns is None else f"{limit_ns}ns",
            disabled_states=[values.disabled_state(text) for text in disable_state or ()],
            probes=not without_probes,
            fit=not no_fit,
            disagreements=disagreements,
            isolate=isolate,
            progress=bar,
        )
    finally:
        if bar is not None:
            bar.stop()
    if is_json:
        write_stdout(json.dumps(result, indent=1))
    else:
        from torpor.cli.fidelity_text import fidelity_text

        write_stdout(fidelity_text(result, stdout_width()))
    if at_least is not None and 100 * result["verdict"]["agreement"] < at_least:
        raise typer.Exit(EXIT_FINDING)
