# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""How templates become pages: escaped, and with nothing undefined."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Return a new environment of the templates; a page adds its own filters."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
