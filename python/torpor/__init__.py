# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs Linux CPU-idle governors against recorded traces and reports the cost of each.

>>> import torpor
>>> [p["name"] for p in torpor.platforms() if p["name"].startswith("pixel")]
['pixel-watch-2', 'pixel10', 'pixel6', 'pixel9']

:func:`replay` is the main job. What it returns, :class:`Replay`, holds tables that polars, pandas
and pyarrow open without a copy. Every error is a :class:`TorporError`.
"""

from importlib import import_module
from typing import Any

# Names are loaded on first use. Until the command line handles SIGINT, Ctrl-C prints Python's
# traceback; the fewer the imports before that, the shorter the time.
_HOMES: dict[str, tuple[str, str]] = {}
with open(f"{__file__}i", encoding="utf-8") as _stub:
    for _line in _stub:
        if _line.startswith("from "):
            _module, _names = _line[5:].rstrip().split(" import ")
            for _name, _, _public in (one.partition(" as ") for one in _names.split(", ")):
                _HOMES[_public] = (_module, _name)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `torpor` has no attribute `{name}`", name=name, obj=__name__)
    module, own = _HOMES[name]
    home = import_module(module)
    found = getattr(home, own) if hasattr(home, own) else import_module(f"{module}.{own}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
