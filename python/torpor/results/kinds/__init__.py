# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every kind of result: each module here is one, with its ``KIND``.

All that shows, explains, checks or compares results asks :data:`KINDS`; no other file names a kind.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from torpor._engine import TorporError
from torpor.results import entry_points
from torpor.results.kind import Kind
from torpor.results.table import Post

__all__ = ["KINDS", "explain", "posted", "unverified"]


class _Kinds(Mapping[str, Kind]):
    """The kinds by name, those of other packages after Torpor's.

    The module of that name is loaded when a result of the kind is met.
    """

    @cached_property
    def _names(self) -> list[str]:
        return [module.name for module in iter_modules(__path__)]

    def __getitem__(self, name: str) -> Kind:
        kind: Kind | None
        if name in self._names:
            kind = import_module(f"{__name__}.{name}").KIND
        else:
            kind = entry_points.load("torpor.kinds", name)
        if kind is None:
            raise KeyError(name)
        return kind

    def __iter__(self) -> Iterator[str]:
        yield from self._names
        yield from entry_points.listed("torpor.kinds")

    def __len__(self) -> int:
        return sum(1 for _ in self)


KINDS: Mapping[Any, Kind] = _Kinds()


def posted(result: Any) -> Post:
    """Return the tables of a result of any kind.

    Raises :class:`torpor.TorporError` for a kind that has no tables.
    """
    found = KINDS.get(_name(result))
    if found is None:
        expected = ", ".join(KINDS)
        raise TorporError(f"a result of kind `{_name(result)}` has no tables: expected {expected}")
    return found.post(result)._replace(verdict=found.verdict(result, None))


def explain(result: Any, *, governor: str | None = None) -> list[str]:
    """Return up to seven sentences on a result.

    ``result`` is what any call returned, or :func:`torpor.load` has read. ``governor`` is the one
    compared with the first; by default the first other that finished and is no reference.

    Raises :class:`torpor.TorporError` for a kind of result that has nothing to explain, and for a
    governor that is not in it.

    >>> result = torpor.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    >>> torpor.explain(result)[0][:53]
    'teo takes 0.87 % more idle power than menu and wakes '
    """
    data = result.to_dict() if hasattr(result, "to_dict") else result
    found = KINDS.get(_name(data))
    if found is None or found.explain is None:
        expected = ", ".join(name for name, kind in KINDS.items() if kind.explain)
        raise TorporError(
            f"nothing to explain in a result of kind `{_name(data)}`: expected {expected}"
        )
    verdict = found.verdict(data, governor)
    said = [str(verdict)] if verdict else []
    return [*said, *(sentence for sentence in found.explain(data, governor) if sentence)]


def unverified(result: Any) -> list[str]:
    """Return the recordings whose decisions the machine that the user named does not explain."""
    return KINDS[_name(result)].unverified(result)


def _name(result: Any) -> str:
    return str(result.get("kind")) if isinstance(result, Mapping) else "None"
