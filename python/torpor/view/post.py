# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results in the forms in which people post them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from torpor._engine import TorporError
from torpor.results.kinds import posted
from torpor.results.table import Post
from torpor.view import paint

__all__ = ["FORMS", "post", "post_text", "posted"]

_PAINTERS: dict[str, Callable[[Sequence[Post]], str]] = {
    "lkml": paint.lkml,
    "mail": paint.mail,
    "markdown": paint.markdown,
    "csv": paint.csv,
}
#: The forms that :func:`post` writes.
FORMS = (*_PAINTERS, "json")


def post(result: Any, form: str = "lkml") -> str:
    """Write a result, or several, as tables to post.

    Args:
        result: What :func:`torpor.replay`, :func:`torpor.simulate`, :func:`torpor.diff` or any
            other call returned, or :func:`torpor.load` has read; or a list of these.
        form: ``lkml`` (plain ASCII in 80 columns, in the layouts of the kernel's mailing lists),
            ``markdown``, ``csv`` (all tables in one, distinguished by their first column) or
            ``json`` (the result itself).

    Raises:
        TorporError: The form is not known, or this kind of result has no tables.

    >>> result = torpor.simulate("periodic", platform="pixel6", duration="1s", seeds=1)
    >>> torpor.post(result, "lkml").splitlines()[0]
    'periodic: simulation on pixel6, 1 seed of 1.00 s, tick 250 Hz'
    """
    several = list(result) if isinstance(result, list | tuple) else [result]
    parsed = [one.to_dict() if hasattr(one, "to_dict") else one for one in several]
    if form == "json":
        return json.dumps(parsed if isinstance(result, list | tuple) else parsed[0], indent=1)
    if form not in _PAINTERS:
        raise TorporError(f"no form `{form}`: expected {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    return _PAINTERS[form]([posted(one) for one in parsed])


def post_text(
    found: Post,
    form: str | None = None,
    width: int = paint.WIDTH,
    escape: str = "",
    more: str = "",
) -> str:
    """Write tables in a form; by default as text for a terminal of this width.

    ``more`` says how to see what a result in brief leaves out; without it, nothing is.
    """
    painter = _PAINTERS.get(form or "")
    return painter([found]) if painter else paint.terminal(found, width, escape, more)
