# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records of results that the engine makes, as types.

Type checkers read ``types.pyi``, which docs/generate.py writes from the engine's schema. At run
time a record is a TypedDict by name only.
"""

from typing import Any, TypedDict


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return TypedDict(name, {})  # type: ignore[operator]
