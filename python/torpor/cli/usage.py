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
        hint = _where_listed(error, context)
    return f"{said}\nhint: {hint}"


def _near(error: click.ClickException, context: click.Context) -> str:
    """Return the names that are nearest to an unknown one."""
    names: list[str] = []
    typed = ""
    if isinstance(error, click.NoSuchOption):
        typed = error.option_name
        names = [name for known in context.command.params for name in known.opts]
    elif isinstance(context.command, click.Group):
        typed = _unknown_command(error)
        names = context.command.list_commands(context)
    if not names:
        return ""
    # Imported here: it takes longer than all else that a wrong option needs.
    import difflib

    near = difflib.get_close_matches(typed, names, n=2, cutoff=0.7)
    return " or ".join(f"`{name}`" for name in near)


def _where_listed(error: click.ClickException, context: click.Context) -> str:
    """Return the command that lists what is allowed."""
    if isinstance(error, click.MissingParameter) and error.param is not None:
        kind = error.param.name
        if kind in ("platform", "workload"):
            return f"`torpor {kind} list` lists those that ship; a file works, too"
    if _unknown_command(error) == "help":
        return f"`{context.command_path} COMMAND --help` explains a command"
    return f"`{context.command_path} --help` lists what is allowed"


def _unknown_command(error: click.ClickException) -> str:
    found = re.match("No such command '(.+)'", error.message)
    return found[1] if found else ""


def _possible(error: click.ClickException) -> list[str]:
    return getattr(error, "possibilities", None) or []
