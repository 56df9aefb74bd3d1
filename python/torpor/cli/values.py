# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Values as typed on the command line."""

import click

from torpor import TorporError, _engine


def duration_ns(text: str | None) -> int | None:
    """Read ``50us``; a bare number is refused."""
    if text is None:
        return None
    try:
        value = _engine.parse_duration_ns(text)
    except TorporError as error:
        raise click.BadParameter(str(error)) from None
    if value < 0:
        raise click.BadParameter(f"`{text}` is negative")
    return value
