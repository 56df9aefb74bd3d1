# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whether a result is what the schema says."""

import json
from functools import cache
from typing import Any

import pytest

from torpor.results import schema as shapes


@cache
def _validator(kind: str) -> Any:
    jsonschema = pytest.importorskip(
        "jsonschema", reason="not run, because jsonschema is not installed"
    )
    schema = shapes.schema()
    # Held to its own kind, and not to any: what is wrong is said of the place.
    del schema["oneOf"]
    schema["$ref"] = f"#/$defs/{schema['kinds'][kind]}"
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def problems(result: Any, kind: str | None = None) -> list[str]:
    """Return what is wrong with a result of this kind, or of its own, each with its place."""
    data = json.loads(json.dumps(result))
    found = _validator(kind or data["kind"]).iter_errors(data)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]
