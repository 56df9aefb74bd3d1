# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks a result that was read against the schema of results, before anything renders it.

It knows the keywords that :func:`torpor.schema` uses. A key that the schema does not have is
ignored: a later Torpor with the same format may write more.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from torpor._engine import TorporError
from torpor.results import contradictions
from torpor.results.schema import schema as results_schema

_Schema = dict[str, Any]
_Check = Callable[[Any], None]

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
#: No shorter number is of use, and no longer one fits what computes with it.
_INTEGERS = range(-(2**63), 2**64)
_DAMAGED = "the file is damaged; make the result again"
#: Deepest nesting of a value that the schema leaves open.
_DEPTH = 20
#: A value longer than this is cut where a message quotes it.
_QUOTED = 60


class _Misfit(Exception):  # noqa: N818
    """A value that its schema does not allow; ``path`` grows from the value to the root."""

    def __init__(self, value: Any, expected: str) -> None:
        self.value = value
        self.expected = expected
        self.path: list[str] = []

    def under(self, step: str) -> "_Misfit":
        self.path.append(step)
        return self


class _Checks:
    """The schema's records, each compiled to a function when it is first met."""

    def __init__(self, schema: _Schema) -> None:
        self._defs: dict[str, _Schema] = schema["$defs"]
        self._named: dict[str, _Check] = {}

    def named(self, name: str) -> _Check:
        if name not in self._named:
            self._named[name] = self._of(self._defs[name])
        return self._named[name]

    def _of(self, schema: _Schema | bool) -> _Check:
        if schema is True or not schema:
            return _plain
        assert isinstance(schema, dict)
        if reference := schema.get("$ref"):
            name = reference.rpartition("/")[2]
            return lambda value: self.named(name)(value)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._one_of(options)
        if "enum" in schema or "const" in schema:
            return _equal(schema.get("enum") or [schema["const"]])
        return self._typed(schema)

    def _one_of(self, options: list[_Schema]) -> _Check:
        checks = [self._of(option) for option in options]
        is_optional = {"type": "null"} in options
        only = [check for check, of in zip(checks, options, strict=True) if of != {"type": "null"}]
        expected = " or ".join(dict.fromkeys(map(_in_words, options)))

        def check(value: Any) -> None:
            if value is None and is_optional:
                return
            if len(only) == 1:
                # Its own complaint names the place within the record.
                only[0](value)
                return
            for each in only:
                try:
                    each(value)
                except _Misfit:
                    continue
                return
            raise _Misfit(value, expected)

        return check

    def _typed(self, schema: _Schema) -> _Check:
        named = schema["type"]
        names = [named] if isinstance(named, str) else named
        types = tuple(of for name in names for of in _TYPES[name])
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        expected = _in_words(schema)
        inner = {"object": self._object, "array": self._array}
        insides = {_TYPES[name][0]: inner[name](schema) for name in names if name in inner}

        def check(value: Any) -> None:
            of = type(value)
            if of not in types:
                raise _Misfit(value, expected)
            if of is int and (value not in _INTEGERS or not low <= value <= high):
                raise _Misfit(value, expected)
            if of is float and not (math.isfinite(value) and low <= value <= high):
                raise _Misfit(value, expected)
            if of is str and not value.isascii() and not _is_text(value):
                raise _Misfit(value, "text")
            if inside := insides.get(of):
                inside(value)

        return check

    def _object(self, schema: _Schema) -> _Check:
        properties = {key: self._of(of) for key, of in schema.get("properties", {}).items()}
        required = schema.get("required", ())
        patterns = schema.get("patternProperties", {}).values()
        others = next(iter(patterns), schema.get("additionalProperties") or True)
        other = self._of(others)

        def check(value: Any) -> None:
            for key in required:
                if key not in value:
                    raise _Misfit(None, f"a record with `{key}`")
            for key, item in value.items():
                if not key.isascii() and not _is_text(key):
                    raise _Misfit(key, "a key that is text")
                try:
                    properties.get(key, other)(item)
                except _Misfit as misfit:
                    raise misfit.under(f".{key}") from None

        return check

    def _array(self, schema: _Schema) -> _Check:
        item = self._of(schema.get("items", True))
        places = [self._of(of) for of in schema.get("prefixItems", ())]

        def check(value: Any) -> None:
            if places and len(value) != len(places):
                raise _Misfit(value, f"a list of {len(places)}")
            try:
                for place, each in enumerate(value):
                    (places[place] if places else item)(each)
            except _Misfit as misfit:
                raise misfit.under(f"[{place}]") from None

        return check


def _is_text(value: str) -> bool:
    """Whether no half of a UTF-16 pair, which JSON can spell, stands alone."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any, depth: int = _DEPTH) -> None:
    """Allow anything that what walks a result can walk."""
    if isinstance(value, str) and not value.isascii() and not _is_text(value):
        raise _Misfit(value, "text")
    if not isinstance(value, (dict, list)):
        return
    if depth == 0:
        raise _Misfit(value, f"no more than {_DEPTH} levels")
    items = [*value, *value.values()] if isinstance(value, dict) else value
    for item in items:
        _plain(item, depth - 1)


def _equal(allowed: list[Any]) -> _Check:
    expected = " or ".join(json.dumps(each) for each in allowed)

    def check(value: Any) -> None:
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise _Misfit(value, expected)

    return check


def _in_words(schema: _Schema) -> str:
    """A schema in words."""
    if reference := schema.get("$ref"):
        return f"a record {reference.rpartition('/')[2]}"
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(each) for each in schema.get("enum") or [schema["const"]])
    named = schema.get("type", "a value")
    text = named if isinstance(named, str) else " or ".join(named)
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in schema
    ]
    return " ".join([text, *bounds])


@cache
def _checks() -> tuple[dict[str, str], _Checks]:
    schema = results_schema()
    return schema["kinds"], _Checks(schema)


def check(result: dict[str, Any], name: str) -> None:
    """Raise TorporError if a result does not have the shape of its kind, or contradicts itself.

    ``name`` is the file's.
    """
    kinds, _ = _checks()
    kind = result.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        expected = ", ".join(sorted(kinds))
        raise TorporError(f"`{name}`: `kind` is {_quoted(kind)}: expected one of {expected}")
    check_record(result, kinds[kind], name)
    if problem := contradictions.first(result):
        raise TorporError(f"`{name}` contradicts itself: {problem}\nhint: {_DAMAGED}")


def check_record(data: Any, record: str, name: str) -> None:
    """Raise TorporError if data does not have the shape of this record of the schema."""
    _, checks = _checks()
    try:
        checks.named(record)(data)
    except _Misfit as misfit:
        path = "".join(reversed(misfit.path)).lstrip(".") or "the whole"
        value = _quoted(misfit.value)
        text = f"`{name}`: `{path}` is {value}: expected {misfit.expected}"
        if misfit.expected.startswith("a record with"):
            text = f"`{name}`: `{path}`: expected {misfit.expected}"
        raise TorporError(f"{text}\nhint: {_DAMAGED}") from None
    except RecursionError:
        raise TorporError(f"`{name}` is nested too deeply to be a result") from None


def _quoted(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a record" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
