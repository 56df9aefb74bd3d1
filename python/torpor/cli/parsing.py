# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commands and their groups: modules are imported when a command of theirs runs."""

import os
import shlex
from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from torpor.cli import completion

#: Plain help and usage errors: they are read in logs and pipes as often as on a terminal, and the
#: import of what colours them takes longer than a short replay.
SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "no_args_is_help": True,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

#: The words of the command that runs: a process runs one.
_typed: list[str] = []


def typed() -> str:
    """Return the running command as it was typed."""
    return shlex.join(_typed)


#: Options that the help lists under separate headings if there are many.
_OUTPUT = ("metrics", "form", "is_json", "is_csv", "parquet", "decisions", "trace", "report")
_MANY = 10


class _Typed:
    """Takes over typed texts, numbers and paths with which nothing is wrong; typer has the rest.

    Newer typer makes an adapter of pydantic's for each parameter, typed or not. Importing pydantic
    and making them takes longer than a short replay.
    """

    def __init__(self, param: Any) -> None:
        """Stand before the adapter of a parameter, which is made if it is needed."""
        self._adapter = param.get_runtime_param
        annotation = param.type_descriptor.annotation
        self._kind = next(iter(get_args(annotation)), annotation)
        self._info = param.type_descriptor.parameter_info

    def itself(self) -> "_Typed":
        """Return it instead of the adapter."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what typer would, or the error that it raises."""
        is_several = param.multiple or param.nargs == -1
        if value is None:
            return () if is_several else None
        if not is_several:
            found = self._plain(value)
            return self._adapter().coerce(value, param, ctx) if found is None else found
        several = [self._plain(one) for one in value]
        return self._adapter().coerce(value, param, ctx) if None in several else several

    def _plain(self, value: Any) -> Any:
        """Return the value, or None if it needs a closer look."""
        if isinstance(value, self._kind):
            return value
        if self._kind is Path and (not os.path.exists(value) or os.access(value, os.R_OK)):
            return Path(value)
        if self._kind is int and value.isascii() and value.isdigit() and len(value) < 20:
            least, most = self._info.min, self._info.max
            if (least is None or least <= int(value)) and (most is None or int(value) <= most):
                return int(value)
        return None


def _without_adapters(params: list[Any]) -> list[Any]:
    for param in params:
        if hasattr(param, "get_runtime_param") and "get_runtime_param" not in vars(param):
            param.get_runtime_param = _Typed(param).itself
    return params


class OnceCommand(TyperCommand):
    """A command that refuses a second value of an option that takes one."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments."""
        return _without_adapters(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line's words: typer has brackets and dots of its own."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_argument, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and if there are many, those of the output apart."""
        params = self.get_params(ctx)
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Output": []}
        for param in params:
            heading = "Options"
            if param.param_type_name == "argument":
                heading = "Arguments"
            elif len(params) > _MANY and param.name in _OUTPUT:
                heading = "Output"
            if record := param.get_help_record(ctx):
                rows[heading].append(record)
        for heading, records in rows.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse twice: first for the order of the options, then as usual."""
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


class Command(NamedTuple):
    """A command: the function ``module.function`` in :mod:`torpor.cli`, and its line in the help.

    ``runs_command``: options after the command to run belong to that command.
    """

    home: str
    summary: str
    runs_command: bool = False

    def load(self, name: str) -> Any:
        """Import the function and make a command of it."""
        module, _, function = self.home.partition(".")
        called = getattr(import_module(f"torpor.cli.{module}"), function or module)
        completion.attach(called)
        settings = SETTINGS["context_settings"] | {"allow_interspersed_args": not self.runs_command}
        made = typer.Typer(add_completion=False, rich_markup_mode=None)
        made.command(
            name,
            cls=OnceCommand,
            help=cleandoc(called.__doc__),
            short_help=self.summary,
            context_settings=settings,
        )(called)
        command: Any = typer.main.get_command(made)
        for param in command.params:
            if param.param_type_name == "argument":
                # A metavar says more than Python's name of a type.
                param.display_type_rich = lambda ctx: None
        return command


def _argument(param: Any) -> str:
    """Return an argument as a man page spells it: brackets if it may be left out, dots."""
    text = param.metavar or param.name.upper()
    text += "..." * (param.nargs == -1 and "..." not in text)
    return text if param.required or text.startswith("[") else f"[{text}]"


class Group(NamedTuple):
    """Commands of one noun, and its line in the help."""

    summary: str
    commands: "Mapping[str, Command]"
    #: Command that runs where none of them is named.
    default: str | None = None

    def load(self, name: str) -> Any:
        """Make a group; its commands are imported later."""
        made = LazyGroup({"Commands": self.commands}, name=name, help=self.summary, **SETTINGS)
        made.default = self.default
        return made


class _Commands(dict[str, Any]):
    """Commands by name, imported when they are looked up."""

    def __init__(self, entries: Mapping[str, Command | Group]) -> None:
        super().__init__(entries)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = super().__getitem__(name).load(name)
        return self._loaded[name]

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


class LazyGroup(TyperGroup):
    """A group whose help has sections, and imports no command."""

    #: Heading, and the commands under it.
    sections: Mapping[str, Mapping[str, Command | Group]]
    default: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command before what names none."""
        known = (*self.sections["Commands"], "-h", "--help") if self.default else ()
        if self.default and (not args or args[0] not in known):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def __init__(
        self, sections: Mapping[str, Mapping[str, Command | Group]], **settings: Any
    ) -> None:
        """Take the commands by heading."""
        settings.pop("commands", None)
        super().__init__(**settings)
        self.sections = sections
        self.commands = _Commands({n: e for under in sections.values() for n, e in under.items()})

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group itself, and `--help`."""
        return _without_adapters(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; of a group with a default command, that command's with the others."""
        if self.default is None:
            super().format_help(ctx, formatter)
            return
        command = self.commands[self.default]
        of = type(ctx)(command, info_name=ctx.info_name, parent=ctx.parent)
        command.format_usage(of, formatter)
        command.format_help_text(of, formatter)
        self.format_commands(ctx, formatter)
        command.format_options(of, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each heading."""
        width = max(len(name) for name in self.commands)
        for heading, under in self.sections.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", entry.summary) for name, entry in under.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the names that begin so, without importing their modules."""
        entries = [pair for under in self.sections.values() for pair in under.items()]
        loaded = self.commands
        self.commands = {n: TyperCommand(n, short_help=entry.summary) for n, entry in entries}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded
