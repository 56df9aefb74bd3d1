# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Shapes of data: JSON schemas of Python types, and whether data that was read fits one.

A file's content is declared once, as a Python type:

    >>> @dataclasses.dataclass
    ... class Limit:
    ...     metric: str
    ...     most: Annotated[float, ("minimum", 0)] = 0.0

:func:`schema_of` turns it into the JSON schema that is published and that editors use, one record
of ``$defs`` for each typed dict or dataclass. :class:`Shapes` turns the records of a schema into
functions that take a value, and raise where it does not fit. Each is a closure over those of its
parts, so that a large result is checked without reading the schema again:

    >>> shape = FileShape(Limit)
    >>> shape.problem({"metric": "idle_power_mw", "most": 4})
    >>> shape.problem({"metric": "idle_power_mw", "most": -1})
    '`most` is -1: expected a number from 0'
    >>> shape.problem({"metric": 7})
    '`metric` is 7: expected a text'

A misfit that is raised deep inside collects its path on the way up: ``limit[2].most``. Only the
keywords are known that results and the files of users need: no general validator is that fast, or
words its errors for people who write the file.
"""

import dataclasses
import json
import math
import types
from collections.abc import Callable, Iterable
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]
_Check = Callable[[Any], None]

_SIMPLE = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "object": "a record",
    "array": "a list",
}
#: No shorter number is of use, and no longer one fits what computes with it.
_INTEGERS = range(-(2**63), 2**64)
#: Deepest nesting of a value that the schema leaves open.
_DEPTH = 20
#: A message cuts a value longer than this.
_QUOTED = 60


def schema_of(hint: Any, defs: dict[str, Schema]) -> Schema:
    """Return the schema of a type. Records, which are typed dicts or dataclasses, go to ``defs``.

    ``Annotated`` adds keywords to the schema of a type, each with its value.
    """
    origin, args = get_origin(hint), get_args(hint)
    if is_typeddict(hint) or dataclasses.is_dataclass(hint):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}
            defs[hint.__name__] |= _record(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is Annotated:
        return {**schema_of(args[0], defs), **dict(args[1:])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(arg, defs) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(args[0], defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1], defs)}
    return {"type": _SIMPLE[hint]}


def _record(shape: Any, defs: dict[str, Schema]) -> Schema:
    hints = get_type_hints(shape, include_extras=True)
    return {
        "type": "object",
        "description": shape.__doc__,
        "properties": {name: schema_of(hint, defs) for name, hint in hints.items()},
        "required": [name for name in hints if name in _required(shape)],
        "additionalProperties": False,
    }


def _required(shape: Any) -> Iterable[str]:
    if is_typeddict(shape):
        return frozenset(shape.__required_keys__)
    missing = dataclasses.MISSING
    return [field.name for field in dataclasses.fields(shape) if field.default is missing]


class _Misfit(Exception):  # noqa: N818
    """A problem of a value; ``path`` grows from the value to the root."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path: list[str] = []

    def under(self, step: str) -> "_Misfit":
        self.path.append(step)
        return self


def _unfit(value: Any, expected: str) -> _Misfit:
    return _Misfit(f"is {quoted(value)}: expected {expected}")


class Shapes:
    """The records of a schema, each compiled to a function when it is first met."""

    def __init__(self, defs: dict[str, Schema], *, is_strict: bool = False) -> None:
        """Take records by name. A key that a record lacks is wrong only where ``is_strict``."""
        self._defs = defs
        self._is_strict = is_strict
        self._named: dict[str, _Check] = {}

    def problem(self, record: str, data: Any) -> str | None:
        """Return what is wrong with data of this record, with its place, or None."""
        try:
            self._check(record)(data)
        except _Misfit as misfit:
            path = "".join(reversed(misfit.path)).lstrip(".") or "the whole"
            return f"`{path}` {misfit.problem}"
        return None

    def _check(self, name: str) -> _Check:
        if name not in self._named:
            self._named[name] = self._of(self._defs[name])
        return self._named[name]

    def _of(self, schema: Schema | bool) -> _Check:
        if schema is True or not schema:
            return _plain
        assert isinstance(schema, dict)
        if reference := schema.get("$ref"):
            name = reference.rpartition("/")[2]
            return lambda value: self._check(name)(value)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._one_of(options)
        if "enum" in schema or "const" in schema:
            return _equal(schema.get("enum") or [schema["const"]])
        return self._typed(schema)

    def _one_of(self, options: list[Schema]) -> _Check:
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
            raise _unfit(value, expected)

        return check

    def _typed(self, schema: Schema) -> _Check:
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
                raise _unfit(value, expected)
            if of is int and (value not in _INTEGERS or not low <= value <= high):
                raise _unfit(value, expected)
            if of is float and not (math.isfinite(value) and low <= value <= high):
                raise _unfit(value, expected)
            if of is str and not value.isascii() and not _is_text(value):
                raise _unfit(value, "text")
            if inside := insides.get(of):
                inside(value)

        return check

    def _object(self, schema: Schema) -> _Check:
        properties = {key: self._of(of) for key, of in schema.get("properties", {}).items()}
        required = schema.get("required", ())
        patterns = schema.get("patternProperties", {}).values()
        others = next(iter(patterns), schema.get("additionalProperties") or True)
        other = self._of(others)
        is_closed = self._is_strict and schema.get("additionalProperties") is False
        expected = f"is unknown: expected one of {', '.join(properties)}"

        def check(value: Any) -> None:
            if is_closed and (unknown := value.keys() - properties):
                raise _Misfit(expected).under(f".{min(unknown)}")
            for key in required:
                if key not in value:
                    wanted = _in_words(schema["properties"][key])
                    raise _Misfit(f"is missing: expected {wanted}").under(f".{key}")
            for key, item in value.items():
                if not key.isascii() and not _is_text(key):
                    raise _unfit(key, "a key that is text")
                try:
                    properties.get(key, other)(item)
                except _Misfit as misfit:
                    raise misfit.under(f".{key}") from None

        return check

    def _array(self, schema: Schema) -> _Check:
        item = self._of(schema.get("items", True))
        places = [self._of(of) for of in schema.get("prefixItems", ())]
        least, most = _sizes(schema)
        expected = _in_words(schema)

        def check(value: Any) -> None:
            if not least <= len(value) <= most:
                raise _unfit(value, expected)
            try:
                for place, each in enumerate(value):
                    (places[place] if places else item)(each)
            except _Misfit as misfit:
                raise misfit.under(f"[{place}]") from None

        return check


class FileShape:
    """The shape of a file that users write: a typed dict or a dataclass, and its records."""

    def __init__(self, record: type) -> None:
        """Take the type of the whole file."""
        self.defs: dict[str, Schema] = {}
        schema_of(record, self.defs)
        self._record = record.__name__
        self._shapes = Shapes(self.defs, is_strict=True)

    def problem(self, data: Any) -> str | None:
        """Return what is wrong with the content of a file, with its place, or None."""
        return self._shapes.problem(self._record, data)


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
        raise _unfit(value, "text")
    if not isinstance(value, (dict, list)):
        return
    if depth == 0:
        raise _unfit(value, f"no more than {_DEPTH} levels")
    items = [*value, *value.values()] if isinstance(value, dict) else value
    for item in items:
        _plain(item, depth - 1)


def _equal(allowed: list[Any]) -> _Check:
    expected = " or ".join(json.dumps(each) for each in allowed)

    def check(value: Any) -> None:
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise _unfit(value, expected)

    return check


def _in_words(schema: Schema | bool) -> str:
    """A schema in words."""
    if not isinstance(schema, dict) or not schema:
        return "a value"
    if reference := schema.get("$ref"):
        return f"a record {reference.rpartition('/')[2]}"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_in_words, options)))
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(each) for each in schema.get("enum") or [schema["const"]])
    named = schema.get("type", "a value")
    words = [_WORDS.get(name, name) for name in ([named] if isinstance(named, str) else named)]
    least, most = _sizes(schema)
    bounds = [f"from {schema['minimum']}"] if "minimum" in schema else []
    bounds += [f"to {schema['maximum']}"] if "maximum" in schema else []
    bounds += [f"of {least}" + " or more" * (most > least)] if least else []
    return " ".join([" or ".join(words), *bounds])


def _sizes(schema: Schema) -> tuple[float, float]:
    """Return the least and the most items of a list."""
    count = len(schema.get("prefixItems", ()))
    if count:
        return count, count
    return schema.get("minItems", 0), schema.get("maxItems", math.inf)


def quoted(value: Any) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, (dict, list)):
        return "a record" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value, default=str)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
