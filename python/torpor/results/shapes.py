# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whether data that was read has the shape of a Python type, and what is wrong with it, in words.

A record is declared once, as a typed dict or a dataclass. msgspec checks data against it:

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Limit:
    ...     metric: str
    ...     most: Annotated[int, Meta(ge=0)] = 0
    >>> problem(Limit, {"metric": "idle_power_mw", "most": 4})
    >>> problem(Limit, {"metric": "idle_power_mw", "most": -1})
    '`most` is -1: expected a whole number >= 0'

and makes the JSON schema that is published and that editors use (:func:`schemas_of`).
"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, inspect

#: A list with at least one item.
Some = Meta(min_length=1)
Texts = Annotated[list[str], Some]
#: Number of a CPU, in the engine's range.
CpuNumber = Annotated[int, Meta(ge=0, le=2**32 - 1)]
#: Two ends of a range.
Pair = Annotated[list[float], Meta(min_length=2, max_length=2)]

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a record",
    "array": "a list",
    "list": "a list",
}
#: A message cuts a value longer than this.
_QUOTED = 60


def problem(shape: Any, data: Any, *, is_strict: bool = False) -> str | None:
    """Return what is wrong with plain data of this type, with its place, or None.

    A key that a record lacks is wrong only where ``is_strict``: a later Torpor may write more.
    """
    if is_strict and (found := _unknown(inspect.type_info(shape), data, "")):
        return found
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        return _in_words(str(error), shape, data)
    return None


def _unknown(info: Any, data: Any, place: str) -> str | None:
    """Return the first key that its record does not have."""
    items = data.items() if isinstance(data, dict) else ()
    for key, value in enumerate(data) if isinstance(data, list) else items:
        inside = _under(place, key)
        if isinstance(data, dict) and (known := _names(info)) and key not in known:
            return f"`{inside}` is unknown: expected one of {', '.join(known)}"
        if found := _unknown(_within(info, key), value, inside):
            return found
    return None


def _under(place: str, key: Any) -> str:
    return f"{place}[{key}]" if isinstance(key, int) else f"{place}.{key}".lstrip(".")


def _options(info: Any) -> tuple[Any, ...]:
    return getattr(info, "types", (info,))


def _names(info: Any) -> list[str]:
    """Return the names of a record's fields, in their order."""
    records = [each.cls for each in _options(info) if hasattr(each, "fields")]
    return [name for record in records for name in get_type_hints(record)]


def _within(info: Any, key: Any) -> Any:
    """Return the type of a record's field, or of the items of a list or dictionary."""
    for each in _options(info):
        for field in getattr(each, "fields", ()):
            if field.name == key:
                return field.type
        if found := getattr(each, "item_type" if isinstance(key, int) else "value_type", None):
            return found
    return inspect.AnyType()


def _in_words(message: str, shape: Any, data: Any) -> str:
    """Return msgspec's message with the value, and in words of those who write files.

    msgspec says ``Expected `int` >= 1, got `str` - at `$.limit[2].most` ``.
    """
    said, _, path = message.partition(" - at `$")
    value, info, place = data, inspect.type_info(shape), ""
    for name, index, _any in re.findall(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])", path):
        key = name or (int(index) if index else _culprit(value, shape, data))
        value, info, place = value[key], _within(info, key), _under(place, key)
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", said):
        return f"`{_under(place, missing[1])}` is missing"
    if said.startswith("Invalid enum value"):
        expected = f"expected {' or '.join(_allowed(info))}"
    else:
        expected = re.sub("`[^`]*`", _named, said.partition(", got")[0])
    return f"`{place or 'the whole'}` is {quoted(value)}: {expected[0].lower()}{expected[1:]}"


def _allowed(info: Any) -> Iterator[str]:
    for option in _options(info):
        name = type(option).__name__.removesuffix("Type").lower()
        yield from [*map(json.dumps, getattr(option, "values", ()))] or [_WORDS.get(name, name)]


def _named(types: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(each, each) for each in types[0].strip("`").split(" | "))


def _culprit(values: dict[str, Any], shape: Any, data: Any) -> str:
    """Return the key of the value that does not fit: msgspec says that one of the dictionary's."""
    whole = dict(values)
    try:
        for key, value in whole.items():
            values.clear()
            values[key] = value
            try:
                msgspec.convert(data, shape)
            except msgspec.ValidationError:
                return key
    finally:
        values.clear()
        values.update(whole)
    raise AssertionError("one of them does not fit")


def schemas_of(*shapes: Any) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each record that these types need, by name."""
    _, defs = msgspec.json.schema_components(shapes)
    for record in defs.values():
        del record["title"]
        # An undeclared key is a mistake.
        record["additionalProperties"] = False
    return defs


def quoted(value: Any) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, (dict, list)):
        return "a record" if isinstance(value, dict) else f"a list of {len(value)}"
    text = json.dumps(value, default=str)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
