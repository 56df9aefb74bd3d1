# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A result in a few sentences: rules over its numbers, each sentence with its figure.

What differs by more than chance; the states, CPUs and time it is found in; what the governors
saw; and what the result cannot show. A sentence whose numbers are missing is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torpor._engine import TorporError
from torpor.results.sentences.others import (
    of_beside,
    of_diff,
    of_fidelity,
    of_outcomes,
    of_reproduction,
    of_stats,
)
from torpor.results.sentences.runs import of_ab, of_compared

__all__ = ["explain"]


def explain(result: Any, *, governor: str | None = None) -> list[str]:
    """Return three to five sentences on a result.

    ``result`` is what any call returned, or :func:`torpor.load` has read. ``governor`` is the one
    to hold against the first; without it, the first other that finished and is no reference.

    Raises :class:`torpor.TorporError` for a kind of result that has nothing to explain, and for a
    governor that is not in it.

    >>> result = torpor.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    >>> torpor.explain(result)[0].partition(":")[0]
    'teo against menu'
    """
    data = result.to_dict() if hasattr(result, "to_dict") else result
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind not in _KINDS:
        expected = ", ".join(_KINDS)
        raise TorporError(f"nothing to explain in a result of kind `{kind}`: expected {expected}")
    return [sentence for sentence in _KINDS[kind](data, governor) if sentence]


_KINDS: dict[str, Callable[[Any, str | None], list[str]]] = {
    "replay": of_compared,
    "simulation": of_compared,
    "diff": of_diff,
    "ab": of_ab,
    "reproduction": of_reproduction,
    "trace_stats": of_stats,
    "fidelity": of_fidelity,
    "outcomes": of_outcomes,
    "beside": of_beside,
}
