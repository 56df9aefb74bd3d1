# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Common options of the commands that run many points: their axes, and how points are run."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from torpor.cli import options
from torpor.cli.console import print_note
from torpor.cli.options import option
from torpor.cli.progress import Bar
from torpor.cli.sources import obtain
from torpor.results.catalogue import leading
from torpor.run.option import Option
from torpor.run.options import ReplayOptions, SimulateOptions, fields
from torpor.run.sweeps.axes import OPTIONS, REPLAY_OPTIONS, Axes

if TYPE_CHECKING:
    from torpor.run.sweeps.run import Progress

Metrics = Annotated[
    list[str] | None,
    option("--metric -m KEY", f"A metric's key; default: {leading('cost', 'replay')[0]}."),
]
StorePath = Annotated[Path, option("--store -o DIR", "Where points are kept.")]

_SIZE = r"(?i)(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?"


def _size(text: str | None) -> int | None:
    """Read a size: 500M is 500 million bytes, 500Mi is 500 * 1024 * 1024."""
    if text is None:
        return None
    found = re.fullmatch(_SIZE, text.strip())
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"--memory {text}: expected a size, such as 500M or 2GiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))


#: Options of every such command: shared by all points, and about how they are run.
_MORE = {
    **{name: fields(ReplayOptions)[name][1] for name in REPLAY_OPTIONS},
    **{name: fields(SimulateOptions)[name][1] for name in ("seeds", "duration", "warm_up")},
}
_HOW = {
    "threads": fields(ReplayOptions)["threads"][1],
    "memory": option(
        "SIZE", "Memory bound for recordings and running points together: 2G. Default: none."
    ),
    "dask": option(
        "ADDRESS", "Run the points on a Dask cluster: tcp://host:8786. Needs torpor[cluster]."
    ),
}


def many(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the axes of a sweep but some, and the options of how points are run.

    It gets those axes that were typed as ``typed``, for :func:`filled`, and the others as ``how``.
    """

    def extend(command: Callable[..., None]) -> Callable[..., None]:
        axes = {name: _axis(told) for name, told in OPTIONS.items() if name not in without}

        @functools.wraps(command)
        def called(**given: Any) -> None:
            typed = {name: given.pop(name) for name in (*axes, *_MORE) if name in given}
            how = {name: given.pop(name, None) for name in _HOW}
            how["memory"] = _size(how["memory"])
            with kept(given["store"]):
                command(**given, typed=typed, how=how)

        return options.extended(called, axes | _MORE | _HOW, without=("typed", "how"))

    return extend


@contextlib.contextmanager
def kept(store: Path) -> Iterator[None]:
    """Say where finished points are if a signal ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        if store.is_dir():
            print_note(
                f"finished points are kept in `{store}`: the same command continues from there"
            )
        raise


def _axis(told: Option) -> Option:
    return told._replace(kind=list[int] if told.kind is int else list[str], least=None)


def filled(axes: Axes, typed: dict[str, Any]) -> Axes:
    """Overwrite the axes with the given options."""
    for name, value in typed.items():
        if not value:
            continue
        if name in ("duration", "warm_up", *REPLAY_OPTIONS):
            axes.options[name] = value
        else:
            setattr(axes, name, value)
    return axes


def obtain_kernels(axes: Axes) -> None:
    """Fetch the sources of kernels that the axes' simulations need and this machine lacks."""
    if axes.workload:
        obtain(axes.kernel)


def shown_by(bar: Bar) -> "Callable[[Progress], None]":
    """Return what shows a sweep's progress on a bar."""

    def show(state: "Progress") -> None:
        failed = f", {state.failed} failed" if state.failed else ""
        bar(f"points{failed}", state.done, state.total)

    return show


def patterns(text: str) -> dict[str, str]:
    """Read ``AXIS=PATTERN,...``."""
    found = {}
    for part in text.split(","):
        axis, equals, pattern = part.partition("=")
        if not equals or not axis or not pattern:
            raise click.BadParameter(f"`{text}`: expected AXIS=PATTERN, such as platform=pixel6")
        found[axis] = pattern
    return found


def filters(texts: list[str] | None) -> dict[str, list[str]]:
    """Read several of these; one axis may come again."""
    found: dict[str, list[str]] = {}
    for text in texts or []:
        for axis, pattern in patterns(text).items():
            found.setdefault(axis, []).append(pattern)
    return found
