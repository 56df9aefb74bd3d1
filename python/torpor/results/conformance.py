# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks a result that was read against the type of its kind, before anything renders it.

A key that the type does not have is ignored: a later Torpor with the same format may write more.
"""

from typing import Any

from torpor._engine import TorporError
from torpor.results import contradictions, types
from torpor.results.kinds import KINDS
from torpor.results.shapes import problem, quoted

_DAMAGED = "the file is damaged; make the result again"


def check(result: dict[str, Any], name: str) -> None:
    """Raise TorporError if a result does not have the shape of its kind, or contradicts itself.

    ``name`` is the file's.
    """
    kind = result.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        expected = ", ".join(sorted(KINDS))
        raise TorporError(f"`{name}`: `kind` is {quoted(kind)}: expected one of {expected}")
    check_record(result, KINDS[kind].shape or types.of_kind(kind), name)
    if found := contradictions.first(result):
        raise TorporError(f"`{name}` contradicts itself: {found}\nhint: {_DAMAGED}")


def check_record(data: Any, shape: Any, name: str) -> None:
    """Raise TorporError if data does not have this shape."""
    if found := problem(shape, data):
        raise TorporError(f"`{name}`: {found}\nhint: {_DAMAGED}")
