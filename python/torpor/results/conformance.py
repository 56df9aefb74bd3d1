# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks a result that was read against the schema of results, before anything renders it.

A key that the schema does not have is ignored: a later Torpor with the same format may write more.
"""

from functools import cache
from typing import Any

from torpor._engine import TorporError
from torpor.results import contradictions
from torpor.results.schema import schema as results_schema
from torpor.results.shapes import Shapes, quoted

_DAMAGED = "the file is damaged; make the result again"


@cache
def _checks() -> tuple[dict[str, str], Shapes]:
    schema = results_schema()
    return schema["kinds"], Shapes(schema["$defs"])


def check(result: dict[str, Any], name: str) -> None:
    """Raise TorporError if a result does not have the shape of its kind, or contradicts itself.

    ``name`` is the file's.
    """
    kinds, _ = _checks()
    kind = result.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        expected = ", ".join(sorted(kinds))
        raise TorporError(f"`{name}`: `kind` is {quoted(kind)}: expected one of {expected}")
    check_record(result, kinds[kind], name)
    if problem := contradictions.first(result):
        raise TorporError(f"`{name}` contradicts itself: {problem}\nhint: {_DAMAGED}")


def check_record(data: Any, record: str, name: str) -> None:
    """Raise TorporError if data does not have the shape of this record of the schema."""
    _, shapes = _checks()
    try:
        problem = shapes.problem(record, data)
    except RecursionError:
        raise TorporError(f"`{name}` is nested too deeply to be a result") from None
    if problem is not None:
        raise TorporError(f"`{name}`: {problem}\nhint: {_DAMAGED}")
