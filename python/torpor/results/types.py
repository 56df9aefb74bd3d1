# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records of results that the engine makes, as types: its Rust structs define them.

At run time a record is made of the engine's JSON schema when it is first named, so that msgspec can
check data against it. Type checkers read ``types.pyi``, which docs/generate.py writes from that
schema.
"""

from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypedDict

from torpor import _engine

_SIMPLE = {"number": float, "string": str, "boolean": bool, "null": None}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in engine_schema()["$defs"]:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return _named(name)


@cache
def engine_schema() -> dict[str, Any]:
    """Return the engine's records as ``$defs``, and the name of that of each kind as ``kinds``."""
    found: dict[str, Any] = _engine.schema()
    return found


def of_kind(kind: str) -> Any:
    """Return the record of a kind of result that the engine makes."""
    return _named(engine_schema()["kinds"][kind])


#: Types made so far: a record that is made again would be another type of the same name.
_made: dict[str, Any] = {}


def _named(name: str) -> Any:
    if name not in _made:
        _made[name] = _record(name)
    return _made[name]


def _record(name: str) -> Any:
    schema = engine_schema()["$defs"][name]
    if "properties" not in schema:
        return _type(schema)
    if "required" not in schema:
        # A later Torpor may have more metrics.
        return dict[str, float | None]
    fields = {key: _type(field) for key, field in schema["properties"].items()}
    needed = {key: fields.pop(key) for key in schema["required"]}
    record: Any = TypedDict(name, needed)  # type: ignore[operator]
    if fields:

        class Record(record, TypedDict(name, fields, total=False)):  # type: ignore[misc,operator]
            pass

        Record.__name__ = name
        return Record
    return record


def _type(schema: Any) -> Any:
    if reference := schema is not True and schema.get("$ref"):
        return _named(reference.rpartition("/")[2])
    if schema is True or not schema.keys() & {"type", "enum", "const", "anyOf", "oneOf"}:
        return Any
    if "enum" in schema or "const" in schema:
        return Literal[tuple(schema.get("enum") or [schema["const"]])]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return reduce(or_, map(_type, options))
    kind = schema["type"]
    if isinstance(kind, list):
        return reduce(or_, (_type(schema | {"type": each}) for each in kind))
    if kind == "integer":
        from msgspec import Meta

        return Annotated[int, Meta(ge=schema.get("minimum"), le=schema.get("maximum"))]
    if kind == "array":
        places = tuple(map(_type, schema.get("prefixItems", ())))
        return tuple[places] if places else list[_type(schema["items"])]  # type: ignore[misc,valid-type]
    if kind == "object":
        patterns = [*schema.get("patternProperties", {}).values()]
        values = patterns[0] if patterns else schema.get("additionalProperties") or True
        return dict[str, _type(values)]  # type: ignore[misc]
    return _SIMPLE[kind]
