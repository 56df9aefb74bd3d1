# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Parsing of commands: an option is given once; a group may have a default command."""

import shlex
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: The words of the command that runs: there is one in a process.
_typed: list[str] = []


def typed() -> str:
    """Return the command that runs, as it was typed."""
    return shlex.join(_typed)


class OnceCommand(TyperCommand):
    """A command that refuses a second value of an option that takes one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, once for what was given in which order, and once as ever."""
        _typed[:] = ["torpor", *ctx.command_path.split()[1:], *args]
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        met = set()
        for param in order:
            is_repeatable = param.multiple or getattr(param, "is_flag", False)
            if param in met and not is_repeatable and param.param_type_name == "option":
                names = " or ".join(param.opts)
                raise typer.BadParameter(f"{names} is given twice: expected once", ctx=ctx)
            met.add(param)
        return super().parse_args(ctx, args)


class DefaultGroup(TyperGroup):
    """A group whose command ``run`` is meant where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name in front, unless there is one, or help is wanted."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)
