# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The description of an option. The shortest command imports it, so it imports nothing itself."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Option(NamedTuple):
    """The description of an option, apart from its name and type."""

    help: str
    #: Flags and metavar on the command line; only the library has an option without.
    spelled: str = ""
    #: Type on the command line: a text, several texts, a number or a switch.
    kind: Any = str
    #: The least number.
    least: int | None = None
    #: Default; None is for the engine to find out.
    default: object = None
    #: It decides something of the result.
    decides: bool = True
    #: The greatest number.
    most: int | None = None
    #: The valid texts; any without.
    choices: tuple[str, ...] = ()
    #: It has no flags: its place on the command line says what it is.
    is_argument: bool = False
    #: Names that a shell completes; without, those of the metavar.
    names: Callable[[], Iterable[str]] | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(word for word in self.spelled.split() if word.startswith("-"))

    @property
    def metavar(self) -> str | None:
        if self.is_argument:
            return self.spelled
        return next((word for word in self.spelled.split() if not word.startswith("-")), None)
