# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which module a governor becomes."""

import hashlib
import re
from dataclasses import dataclass, field

from torpor import _engine, library

CORE = "torpor_core"

#: As kernel/Makefile has it: the kernel has a menu of its own.
_PREFIX = "t-"
#: CPUIDLE_NAME_LEN, less the end of the string, `-`, and the digits that tell sources apart.
_NAME_MAX, _DIGITS = 15, 6


@dataclass(frozen=True)
class Governor:
    """A governor as a module."""

    spec: str
    #: Under which the kernel offers it.
    name: str
    #: As the kernel takes them: NAME=VALUE.
    parameters: tuple[str, ...] = ()
    #: One of ours as it is; others are built around ``main`` of ``files``.
    is_plain_builtin: bool = True
    main: str = ""
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def builtin(self) -> str:
        """The name that one of ours has here."""
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

    One of ours is `t-NAME`. Others, and ours with parameters, have six digits of a hash behind
    their name: one name is one source with one setting, and several go side by side.

    Raises :class:`torpor.GovernorError` when there is none, or it has no such parameter.

    >>> resolve("teo").name, resolve("teo,util_shift=5").name[:-6]
    ('t-teo', 'teo-')
    """
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
    return Governor(spec, f"{stem}-{digest[:_DIGITS]}", settings, False, source["main"], files)


def every_builtin() -> list[Governor]:
    """Return all governors of ours that a kernel can have: not the oracle."""
    return [Governor(name, _PREFIX + name) for name in _builtins()]


def _builtins() -> list[str]:
    return [g["name"] for g in library.governors() if g["origin"] == "built in"]
