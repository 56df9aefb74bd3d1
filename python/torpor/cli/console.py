# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Output of the command line: data to stdout, everything else to stderr.

All of it leaves here, escaped: names and messages come from recordings, from files of other people
and from compilers, and a terminal does what it reads.
"""

import contextlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from torpor.cli.exits import EXIT_FAILURE
from torpor.cli.parsing import is_verbose
from torpor.results.text import UNLIMITED, printable

if TYPE_CHECKING:
    from rich.live import Live

    from torpor.machine.record.machine import Machine
    from torpor.results.table import Post, Table

#: Running text is hard to read in longer lines.
_TEXT_WIDTH = 100

#: Marks Torpor's own colours until the text is written. No file can guess it.
_OUR_ESCAPE = f"\x1b{os.urandom(8).hex()}"

# Some terminals and log collectors still know ASCII only.
_ASCII = str.maketrans({"−": "-", "×": "x", "µ": "u", "–": "-", "…": "..."})


def print_error(message: str) -> None:
    """Print ``error: ...`` to stderr."""
    print_note(f"error: {message.rstrip()}")


def print_note(message: str) -> None:
    """Print a hint or a caution to stderr.

    A closed stream is no error.
    """
    with contextlib.suppress(OSError):
        _write(f"{message}\n", sys.stderr, 2)


def note_if_never_idle(machine: "Machine", *, needs_driver: bool = False) -> None:
    """Say so at once where this machine gives governors nothing to decide.

    With ``needs_driver`` a machine without idle driver is an error.
    """
    from torpor.machine.record.idleness import NO_DRIVER, why_never_idle

    found = why_never_idle(machine)
    if needs_driver and found == NO_DRIVER:
        fail(*found)
    if found:
        print_note("note: {}\nhint: {}".format(*found))


def fail(message: str, hint: str | None = None) -> NoReturn:
    """End with an error the user can mend."""
    print_error(f"{message}\nhint: {hint}" if hint else message)
    raise click.exceptions.Exit(EXIT_FAILURE)


def write_stdout(text: str) -> bool:
    """Write text to stdout, ending in a newline; return whether the reader is still there.

    A reader that exits early (``torpor governor list | head``) changes nothing, the exit status
    neither. Raises OSError where the text cannot be written, to a full disk for one.
    """
    try:
        _write(text if text.endswith("\n") else f"{text}\n", sys.stdout, 1)
    except BrokenPipeError:
        return False
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None
    return True


def painted(text: str) -> str:
    """Return text for a terminal: escaped, except for Torpor's colours."""
    return "\x1b".join(printable(part) for part in text.split(_OUR_ESCAPE))


class InPlace:
    """Text on a terminal that the next one replaces."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._live: Live | None = None

    def show(self, text: str) -> None:
        """Replace what was shown before."""
        from rich.text import Text

        if self._live is None:
            from rich.live import Live

            self._live = Live(auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text.from_ansi(painted(text)), refresh=True)

    def end(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _write(text: str, stream: TextIO, descriptor: int) -> None:
    text = _encodable(painted(text), stream)
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # Buffered output would fail once more at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        raise


def stdout_width() -> int:
    """Columns to design for: the terminal's, or no limit if stdout is not a terminal.

    COLUMNS decides where it is set, as everywhere.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        import shutil

        return shutil.get_terminal_size().columns
    return UNLIMITED


def text_width(width: int) -> int:
    """Columns for running text where there are ``width``: fewer on a wide terminal."""
    return width if width >= UNLIMITED else min(width, _TEXT_WIDTH)


def write_post(found: "Post", form: str | None = None) -> bool:
    """Write tables to stdout in a form, by default as text; return whether anybody still reads."""
    return write_stdout(post_text(found, form))


def post_text(found: "Post", form: str | None = None) -> str:
    """Return tables in a form, by default as text for stdout."""
    from torpor.view import post

    more = "" if is_verbose() else "-v"
    return post.post_text(found, form, stdout_width(), _escape(), more)


def table_text(*tables: "Table", width: int | None = None) -> str:
    """Return tables as text for stdout, by default of its width."""
    from torpor.view.paint import tables_text

    return tables_text(tables, stdout_width() if width is None else width, _escape())


def _escape() -> str:
    """Return what starts a colour: nothing where stdout is no terminal."""
    return _OUR_ESCAPE if sys.stdout.isatty() else ""


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
