# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which module a governor becomes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torpor import _engine
from torpor.machine import catalog as library
from torpor.machine.kernel.errors import KernelError

CORE = "torpor_core"

#: As kernel/Makefile has it: the kernel has a menu of its own.
_PREFIX = "t-"
#: CPUIDLE_NAME_LEN, minus the end of the string, `-`, and the digits that distinguish sources.
_NAME_MAX, _DIGITS = 15, 6

#: Name of a governor's own file in the build folder.
_MAIN = "governor.c"
#: Neither the shell nor make reads anything else into it.
_PLAIN_NAME = re.compile(r"\w[\w.+-]*", re.A)


@dataclass(frozen=True)
class Governor:
    """A governor as a module."""

    spec: str
    #: Under which the kernel offers it.
    name: str
    #: As the kernel takes them: NAME=VALUE.
    parameters: tuple[str, ...] = ()
    #: One of Torpor's as it is; others are built around ``main`` of ``files``, whatever its name
    #: was.
    is_plain_builtin: bool = True
    main: str = ""
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def builtin(self) -> str:
        """The name that one of Torpor's has here."""
        return self.name.removeprefix(_PREFIX)

    @property
    def module(self) -> str:
        return module_of(self.name)


def module_of(governor: str) -> str:
    """Return the module's name; what is offered as t-menu-3.7 is torpor_t_menu_3_7.

    >>> module_of("t-menu-3.7")
    'torpor_t_menu_3_7'
    """
    return "torpor_" + re.sub(r"[-.]", "_", governor)


def resolve(spec: str) -> Governor:
    """Find a governor's source, and the name that it will be offered under.

    One of Torpor's is `t-NAME`. Others, and Torpor's with parameters, have six digits of a hash
    after their name: one name is one source with one setting, and several go side by side.

    Raises :class:`torpor.GovernorError` when there is none, or it has no such parameter, and
    :class:`KernelError` where a file has a name that cannot be had.

    >>> resolve("teo").name, resolve("teo,util_shift=5").name[:-6]
    ('t-teo', 'teo-')
    """
    _refuse_name(spec)
    place, comma, rest = spec.partition(",")
    # People have read it as the kernel offers it.
    if place.removeprefix(_PREFIX) in _builtins():
        place = place.removeprefix(_PREFIX)
    source = _engine.governor_source(place + comma + rest)
    name, files = source["name"], source["files"]
    settings = tuple(f"{key}={value}" for key, value in source["params"])
    if source["is_builtin"] and not settings:
        return Governor(spec, _PREFIX + name)
    digest = hashlib.sha256(repr((sorted(files.items()), settings)).encode()).hexdigest()
    stem = re.sub(r"[^\w.-]", "_", name, flags=re.A)[: _NAME_MAX - 1 - _DIGITS]
    name = f"{stem}-{digest[:_DIGITS]}"
    main, staged = _staged(spec, source["main"], files)
    return Governor(spec, name, settings, False, main, staged)


def _refuse_name(spec: str) -> None:
    try:
        spec.encode()
    except UnicodeEncodeError:
        raise KernelError(
            f"governor {spec!a}: the name is not UTF-8", "rename the file, or link to it"
        ) from None
    if found := re.search(r",(CONFIG_\w+)=", spec):
        raise KernelError(
            f"governor `{spec}`: a module uses the configuration of its kernel, so {found[1]} "
            f"cannot be set"
        )


def _staged(spec: str, main: str, files: Mapping[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """Return the files as a build takes them: make and its shell read their names.

    The governor's own has a fixed name. The names that it includes others by are in its text.
    """
    others = {name: text for name, text in files.items() if name != main}
    for name in others:
        if not _PLAIN_NAME.fullmatch(name) or name == _MAIN:
            raise KernelError(
                f"governor `{spec}` includes `{name}`, a name that a kernel build does not accept: "
                f"expected letters, digits, `_`, `-`, `.` and `+`, and not `{_MAIN}`"
            )
    return _MAIN, {_MAIN: files[main], **others}


def every_builtin() -> list[Governor]:
    """Return all of Torpor's governors that a kernel can have: not the oracle."""
    return [Governor(name, _PREFIX + name) for name in _builtins()]


def _builtins() -> list[str]:
    return [g["name"] for g in library.governors() if g["origin"] == "built in"]
