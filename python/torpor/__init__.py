# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs Linux CPU-idle governors against recorded traces and reports the cost of each.

>>> import torpor
>>> [p["name"] for p in torpor.platforms() if p["name"].startswith("pixel")]
['pixel-watch-2', 'pixel10', 'pixel6', 'pixel9']

:func:`replay` is the main job. What it returns, :class:`Replay`, holds tables that polars, pandas
and pyarrow open without a copy. Every error is a :class:`TorporError`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def exporting(module: dict[str, Any]) -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a module, by its ``globals()``: names of its stub.

    Names are loaded on first use. Until the command line handles SIGINT, Ctrl-C prints Python's
    traceback; the fewer the imports before that, the shorter the time.
    """
    homes: dict[str, tuple[str, str]] = {}
    with open(f"{module['__file__']}i", encoding="utf-8") as stub:
        for line in stub:
            if line.startswith("from "):
                home, names = line[5:].rstrip().split(" import ")
                for name, known_as, public in (n.partition(" as ") for n in names.split(", ")):
                    # Others are the stub's own.
                    if known_as:
                        homes[public] = (home, name)

    def load(name: str) -> Any:
        own = module["__name__"]
        if name not in homes:
            raise AttributeError(f"module `{own}` has no attribute `{name}`", name=name, obj=own)
        path, there = homes[name]
        home = import_module(path)
        found = getattr(home, there) if hasattr(home, there) else import_module(f"{path}.{there}")
        module[name] = found
        return found

    return load, sorted(homes)


__getattr__, __all__ = exporting(globals())


def __dir__() -> list[str]:
    return __all__
