# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report: a replay's result as one HTML file that needs nothing else.

The same result gives the same bytes. The page makes no network request, and says so to the
browser (a content security policy that allows its own script and nothing more).
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from torpor.files import write_whole

from .page import render

if TYPE_CHECKING:
    from torpor import results
    from torpor.comparison import Result

__all__ = ["render", "write", "write_recorded"]


def write_recorded(stats: results.TraceStats, path: str | PathLike[str]) -> None:
    """Write the page of what a recorded machine did, as :func:`torpor.trace_stats` counted it.

    Raises OSError if the file cannot be written.
    """
    from .recorded import render

    write_whole(path, render(stats))


def write(result: Result, path: str | PathLike[str]) -> None:
    """Write the report of `result` (the engine's JSON, parsed) to `path`, in UTF-8.

    Raises OSError if the file cannot be written.
    """
    write_whole(path, render(result))
