# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads TOML on every Python that Torpor runs on."""

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]


def toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text. Raises ValueError if it is not TOML."""
    content: dict[str, Any] = tomllib.loads(text)
    return content
