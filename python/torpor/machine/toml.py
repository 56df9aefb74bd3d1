# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads TOML on every Python that Torpor runs on."""

import os
import sys
from collections.abc import Callable
from typing import Any

from torpor.results.files import read_text


def toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text. Raises ValueError if it is not TOML."""
    # Imported here: the parser compiles four patterns.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found]

    content: dict[str, Any] = tomllib.loads(text)
    return content


def toml_file(
    path: str | os.PathLike[str], shape: Any, error: Callable[[str], Exception], what: str
) -> Any:
    """Return the content of a file that has this shape, a typed dict.

    Raises OSError if it cannot be read, and ``error`` for what does not belong there: ``what``, the
    path, and the place in it.
    """
    from torpor.results import shapes

    try:
        content = toml(read_text(path))
    except ValueError as wrong:
        raise error(f"{what} `{path}`: {wrong}") from None
    if found := shapes.problem(shape, content, is_strict=True):
        raise error(f"{what} `{path}`: {found}")
    return content
