# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Errors of usage, which Click finds, in the words of all others."""

import re

import click


def message(error: click.ClickException) -> str:
    """Return what is wrong, and a hint: the nearest names, or where all are listed."""
    said = error.message if _possible(error) else error.format_message()
    # Click quotes as Python does, and ends with a full stop.
    said = re.sub(r"'([^']*)'", r"`\1`", said).rstrip(".")
    said = said[:1].lower() + said[1:]
    context = getattr(error, "ctx", None)
    if context is None:
        return said
    if near := _near(error, context):
        hint = f"did you mean {near}?"
    else:
        hint = f"`{context.command_path} --help` lists what is allowed"
    return f"{said}\nhint: {hint}"


def _near(error: click.ClickException, context: click.Context) -> str:
    """Return the names that are nearest to an unknown one."""
    found = _possible(error)
    unknown = re.match(r"No such command '(.+)'", error.message)
    if unknown and isinstance(context.command, click.Group):
        # Imported here: it takes longer than all else that a wrong option needs.
        import difflib

        names = context.command.list_commands(context)
        found = difflib.get_close_matches(unknown[1], names)
    return " or ".join(f"`{name}`" for name in found)


def _possible(error: click.ClickException) -> list[str]:
    return getattr(error, "possibilities", None) or []
