# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor doctor`: what works on this machine."""

import json
from typing import Annotated

from torpor import __version__
from torpor.cli import options
from torpor.cli.console import print_note, stdout_width, wrap, write_stdout
from torpor.cli.options import option
from torpor.machine.doctor import clean
from torpor.machine.doctor import doctor as examine
from torpor.results.table import counted

_WIDTH_MAX = 100


def doctor(
    form: options.TextOrJson = "text",
    is_clean: Annotated[
        bool,
        option("--clean", "Instead delete the parsed recordings that the cache keeps."),
    ] = False,
) -> None:
    """Report what works on this machine, what does not, and what to install."""
    if is_clean:
        count, sum_bytes = clean()
        if form == "json":
            write_stdout(json.dumps({"deleted": {"recordings": count, "bytes": sum_bytes}}))
        else:
            write_stdout(f"deleted {counted(count, 'cached recording')}, {sum_bytes / 1e6:.1f} MB")
        return
    findings = examine()
    if form == "json":
        write_stdout(json.dumps({"torpor": __version__, "findings": findings}, indent=1))
        return
    width = min(stdout_width(), _WIDTH_MAX)
    column = max(len(finding["name"]) for finding in findings) + 2
    lines = [f"torpor {__version__}"]
    for finding in findings:
        mark = "ok" if finding["is_usable"] else "no"
        head = f"{mark}  {finding['name']:<{column}}"
        indent = " " * len(head)
        lines.append(wrap(f"{head}{finding['found'] or finding['reason']}", width, indent))
        if not finding["is_usable"]:
            lines.append(wrap(f"{indent}needed for: {finding['needed_for']}", width, indent))
            if finding["hint"]:
                lines.append(wrap(f"{indent}hint: {finding['hint']}", width, indent))
    write_stdout("\n".join(lines))
    print_note(
        "Replay with built-in governors needs none of these; simulation needs the default kernel."
    )
