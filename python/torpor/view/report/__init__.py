# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report: any result as one HTML file that needs nothing else.

The same result gives the same bytes. The page makes no network request, and says so to the
browser (a content security policy that allows its own script and nothing more).
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from markupsafe import Markup

from torpor.results.files import write_whole
from torpor.view.report.page import render

_Path = str | PathLike[str]

__all__ = ["Page", "render", "write"]


class Page(str):
    """A page as HTML text. A notebook displays it in a frame of its own."""

    def __new__(cls, result: Any) -> Page:
        """Render a result, or a list of results."""
        return super().__new__(cls, render(result))

    def _repr_html_(self) -> str:
        return str(_FRAME.format(page=self))


#: Scripts of the page run, and reach nothing outside.
_FRAME = Markup(
    '<iframe title="Result" srcdoc="{page}" sandbox="allow-scripts" '
    'style="width: 100%; height: 720px; border: 0"></iframe>'
)


def write(
    result: Any,
    path: _Path,
    command: str | None = None,
    trace: _Path | None = None,
    why_no_trace: str | None = None,
) -> None:
    """Write the page of a result (parsed JSON), or of several, to `path`, in UTF-8.

    Raises OSError if the file cannot be written.
    """
    write_whole(path, render(result, command, trace, why_no_trace))
