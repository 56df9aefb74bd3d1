# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commands and their groups: modules are imported when a command of theirs runs.

A command is a function. Its signature declares the options, as ``Annotated[type, option(...)]``;
here they become Click's.
"""

import enum
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import click

from torpor.cli import completion
from torpor.results import entry_points
from torpor.run.option import Option

#: The words of the command that runs: a process runs one.
_typed: list[str] = []
#: Its options that every command of a kind has, by name.
_given: dict[str, bool] = {}


def typed() -> str:
    """Return the running command as it was typed."""
    import shlex

    return shlex.join(_typed)


def is_verbose() -> bool:
    """Whether the running command is to print all that its result has."""
    return _given.get("verbose", False)


def is_forced() -> bool:
    """Whether the running command may overwrite its outputs."""
    return _given.get("force", False)


#: Options that commands with such a parameter have, unless they declare them.
_COMMON = {
    "form": ("verbose", Option("Print all rows and notes.", "--verbose -v")),
    "report": ("force", Option("Overwrite the page.", "--force -f")),
}
#: Options that the help lists under separate headings if there are many.
_OUTPUT = ("metrics", "form", "verbose", "parquet", "decisions", "trace", "report", "force")
_MANY = 10
_HELP = {"help_option_names": ["-h", "--help"]}


class _Choice(click.Choice[Any]):
    """Members of an enumeration, typed by their values."""

    def __init__(self, members: type[enum.Enum]) -> None:
        super().__init__([str(member.value) for member in members])
        self._members = members

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the member."""
        if isinstance(value, self._members):
            return value
        return self._members(super().convert(value, param, ctx))


class Argument(click.Argument):
    """An argument that the help describes, spelled as a man page spells it."""

    def __init__(self, names: list[str], text: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.text = text
        # Click's own attribute may be a mark that none was given.
        self.shown_default = settings.get("default")

    def make_metavar(self, ctx: Any = None) -> str:
        """Return the name, in brackets if it may be left out, with dots if it can be repeated."""
        text = self.metavar or self.human_readable_name.upper()
        text += "..." * (self.nargs == -1 and "..." not in text)
        return text if self.required or text.startswith("[") else f"[{text}]"

    def described(self) -> tuple[str, str]:
        """Return its line of the help."""
        more = ["[required]"] if self.required else []
        if self.shown_default not in (None, ""):
            more = [f"[default: {self.shown_default}]"]
        return self.metavar or self.human_readable_name.upper(), "  ".join([self.text, *more])


def _kind(annotation: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there may be several."""
    if annotation is list:
        return str, True
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not type(None)]
    if get_origin(annotation) is list:
        return kinds[0], True
    if get_origin(kinds[0]) is list:
        return get_args(kinds[0])[0], True
    return kinds[0], False


def _click_type(kind: Any, told: Option) -> Any:
    from pathlib import Path

    if kind in (int, float) and (told.least, told.most) != (None, None):
        return (click.IntRange if kind is int else click.FloatRange)(told.least, told.most)
    if told.choices:
        return click.Choice(told.choices)
    if kind is Path:
        return click.Path(path_type=Path)
    return _Choice(kind) if issubclass(kind, enum.Enum) else kind


def _parameter(name: str, kind: Any, several: bool, told: Option, default: Any) -> click.Parameter:
    """Make Click's parameter. What was not typed is None or empty."""
    settings: dict[str, Any] = {
        "metavar": told.metavar,
        "shell_complete": completion.of(told),
    }
    # Click asks for no value where it has a default, even None.
    if default is inspect.Parameter.empty:
        settings["required"] = True
    else:
        settings["default"] = None if several else default
    if told.is_argument:
        settings |= {"type": _click_type(kind, told), "nargs": -1 if several else 1}
        return Argument([name], told.help, **settings)
    if kind is bool:
        settings |= {"is_flag": True, "metavar": None}
    else:
        settings |= {"type": _click_type(kind, told), "multiple": several}
        settings["show_default"] = default not in (None, "") and not (several or told.choices)
        if isinstance(default, enum.Enum):
            settings["default"] = default.value
    flags = told.flags or (f"--{name.replace('_', '-')}",)
    return click.Option([name, *flags], help=told.help, **settings)


def _parameters(function: Callable[..., Any]) -> list[click.Parameter]:
    """Return the options and arguments of a command, in the order of its help."""
    hints = get_type_hints(function, include_extras=True)
    more, after, without = getattr(function, "declared", ({}, None, ()))
    added = [_parameter(name, *_kind(told.kind), told, None) for name, told in more.items()]
    made = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD and name not in without:
            annotation, told = get_args(hints[name])
            made.append(_parameter(name, *_kind(annotation), told, parameter.default))
        if name == after:
            made += added
    found = made if after else made + added
    names = {parameter.name for parameter in found}
    for of, (name, told) in _COMMON.items():
        if of in names and name not in names:
            found.append(_parameter(name, bool, False, told, False))
    return found


class OnceCommand(click.Command):
    """A command that refuses a second value of an option that takes one."""

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that looks at the order of the options."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            found = parse(args)
            met = set()
            for param in found[2]:
                may_come_again = param.multiple or getattr(param, "is_flag", False)
                if param in met and not may_come_again and param.param_type_name == "option":
                    names = " or ".join(param.opts)
                    raise click.BadParameter(f"{names} is given twice: expected once", ctx=ctx)
                met.add(param)
            return found

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and keep the words."""
        _typed[:] = ["torpor", *ctx.command_path.split()[1:], *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and if there are many, those of the output apart."""
        params = self.get_params(ctx)
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Output": []}
        for param in params:
            if isinstance(param, Argument):
                rows["Arguments"].append(param.described())
            elif record := param.get_help_record(ctx):
                is_output = len(params) > _MANY and param.name in _OUTPUT
                rows["Output" if is_output else "Options"].append(record)
        for heading, records in rows.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Command(NamedTuple):
    """A command: the function ``module.function`` in :mod:`torpor.cli`, and its line in the help.

    A function of another package is ``package.module:function``.
    ``runs_command``: options after the command to run belong to that command.
    """

    home: str
    summary: str
    runs_command: bool = False

    def load(self, name: str) -> click.Command:
        """Import the function and make a command of it."""
        module, colon, function = self.home.partition(":")
        if not colon:
            name_here, _, function = self.home.partition(".")
            module, function = f"torpor.cli.{name_here}", function or name_here
        called = getattr(import_module(module), function)

        def run(**values: Any) -> Any:
            own = inspect.signature(called).parameters
            for name, _ in _COMMON.values():
                _given[name] = bool(values.get(name))
                if name not in own:
                    values.pop(name, None)
            # The function's own defaults hold for what was not typed.
            given = {name: value for name, value in values.items() if value not in (None, ())}
            several = {n: list(value) for n, value in given.items() if isinstance(value, tuple)}
            return called(**given | several)

        settings: dict[str, Any] = {"allow_interspersed_args": not self.runs_command}
        return OnceCommand(
            name,
            callback=run,
            params=_parameters(called),
            help=cleandoc(called.__doc__ or ""),
            short_help=self.summary,
            context_settings=_HELP | settings,
        )


class Group(NamedTuple):
    """Commands of one noun, and its line in the help."""

    summary: str
    commands: "Mapping[str, Command]"

    def load(self, name: str) -> "LazyGroup":
        """Make a group; its commands are imported later."""
        sections = {"Commands": self.commands}
        return LazyGroup(sections, f"{name}.", name=name, help=self.summary)


class LazyGroup(click.Group):
    """A group whose help has sections, and imports no command.

    Other packages add commands by entry points, which are read when somebody asks for what is not
    Torpor's own, or for all.
    """

    def __init__(
        self,
        sections: Mapping[str, Mapping[str, Command | Group]],
        prefix: str = "",
        **settings: Any,
    ) -> None:
        """Take the commands by heading.

        ``prefix`` is that of other packages' commands in this group.
        """
        super().__init__(**settings, context_settings=_HELP, no_args_is_help=True)
        self._own = sections
        self._prefix = prefix

    @cached_property
    def _sections(self) -> dict[str, dict[str, Command | Group]]:
        sections = {heading: dict(under) for heading, under in self._own.items()}
        heading = "Commands" if self._prefix else "Of other packages"
        for full in entry_points.listed("torpor.commands"):
            name = full.removeprefix(self._prefix)
            if full == self._prefix + name and "." not in name:
                found = entry_points.load("torpor.commands", full)
                sections.setdefault(heading, {})[name] = found
        return sections

    @property
    def _entries(self) -> dict[str, Command | Group]:
        return {n: e for under in self._sections.values() for n, e in under.items()}

    def _entry(self, name: str) -> Command | Group | None:
        own = (under[name] for under in self._own.values() if name in under)
        return next(own, None) or self._entries.get(name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(self._entries)

    def get_command(self, ctx: Any, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in self.commands and (entry := self._entry(cmd_name)) is not None:
            self.commands[cmd_name] = entry.load(cmd_name)
        return self.commands.get(cmd_name)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the group's own options, then its commands, a section for each heading."""
        click.Command.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each heading."""
        width = max(len(name) for name in self._entries)
        for heading, under in self._sections.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", entry.summary) for name, entry in under.items()]
                formatter.write_dl(rows)

    def load_all(self, *, is_own: bool = False) -> dict[str, click.Command]:
        """Return every command, or Torpor's own ones, for what documents them."""
        sections = self._own if is_own else self._sections
        return {n: e.load(n) for under in sections.values() for n, e in under.items()}

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the names that begin so, without importing their modules."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]
