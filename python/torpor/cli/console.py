# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Where the command line writes: data to stdout, everything else to stderr."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from torpor.cli import EXIT_FAILURE

if TYPE_CHECKING:
    from rich.console import RenderableType

#: No terminal, no line length: what reads a pipe or a file folds no lines.
_UNLIMITED = 10_000

# Some terminals and log collectors still know ASCII only.
_ASCII = str.maketrans({"−": "-", "×": "x", "µ": "u", "–": "-", "…": "..."})


def print_error(message: str) -> None:
    """Print ``error: ...`` to stderr."""
    print(_encodable(f"error: {message.rstrip()}", sys.stderr), file=sys.stderr)


def print_note(message: str) -> None:
    """Print a hint or a caution to stderr."""
    print(_encodable(message, sys.stderr), file=sys.stderr)


def fail(message: str, hint: str | None = None) -> NoReturn:
    """End with an error the user can mend."""
    print_error(f"{message}\nhint: {hint}" if hint else message)
    raise typer.Exit(EXIT_FAILURE)


def write_stdout(text: str) -> None:
    """Write text to stdout, ending in a newline."""
    try:
        sys.stdout.write(_encodable(text if text.endswith("\n") else text + "\n", sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`torpor governors | head`): no failure. The flush at exit
        # must find an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def stdout_width() -> int:
    """Columns to design for: the terminal's, or no limit where stdout is none.

    COLUMNS decides where it is set, as everywhere.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return _UNLIMITED


def render(*parts: "RenderableType", width: int) -> str:
    """Render for stdout: in colour on a terminal, plain elsewhere."""
    import io

    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        force_terminal=sys.stdout.isatty(),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def wrap(text: str, width: int, indent: str = "  ") -> str:
    """Fold a sentence, continuation lines indented."""
    import textwrap

    # A path or a hash stays in one piece, to be copied.
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _encodable(text: str, stream: object) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
