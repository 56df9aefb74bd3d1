# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Common options of the commands that run many points: their axes, and how points are run."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli import options
from torpor.cli.console import print_note
from torpor.cli.kernel import obtain
from torpor.cli.options import option
from torpor.cli.progress import ProgressBar
from torpor.run.options import ReplayOptions, SimulateOptions, fields
from torpor.run.sweeps.axes import OPTIONS, REPLAY_OPTIONS, Axes

if TYPE_CHECKING:
    from torpor.run.sweeps.run import Progress

Metrics = Annotated[
    list[str] | None, option("--metric -m KEY", "A metric's key; default: idle_power_mw.")
]
StorePath = Annotated[Path, option("--store -o DIR", "Where points are kept.")]

#: Shown if no metric is named.
DEFAULT_METRICS = ("idle_power_mw",)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.I)


def _size(text: str | None) -> int | None:
    """Read a size: 500M is 500 million bytes, 500Mi is 500 * 1024 * 1024."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"--memory {text}: expected a size, such as 500M or 2GiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))


def _single(of: Any) -> Any:
    return Annotated[of.kind | None, option(of.spelled, of.help, min=of.least)]


#: Options of every such command: shared by all points, and about how they are run.
_MORE = {
    **{name: _single(fields(ReplayOptions)[name][1]) for name in REPLAY_OPTIONS},
    **{n: _single(fields(SimulateOptions)[n][1]) for n in ("seeds", "duration", "warm_up")},
}
_HOW = {
    "threads": options.Threads,
    "memory": Annotated[
        str | None,
        option(
            "SIZE",
            "Memory bound for recordings and running points together: 2G. Default: none.",
        ),
    ],
    "dask": Annotated[
        str | None,
        option(
            "ADDRESS", "Run the points on a Dask cluster: tcp://host:8786. Needs torpor[cluster]."
        ),
    ],
}


def many(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the axes of a sweep but some, and the options of how points are run.

    It gets those axes that were typed as ``typed``, for :func:`filled`, and the others as ``how``.
    """

    def extend(command: Callable[..., None]) -> Callable[..., None]:
        axes = {n: _axis(option) for n, option in OPTIONS.items() if n not in without}
        extra = axes | _MORE | _HOW
        inner = inspect.signature(command).parameters.values()
        own = [p for p in inner if p.name not in ("typed", "how")]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in extra.items()
        ]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            typed = {name: given.pop(name) for name in (*axes, *_MORE)}
            how = {name: given.pop(name) for name in _HOW}
            how["memory"] = _size(how["memory"])
            with kept(given["store"]):
                command(**given, typed=typed, how=how)

        # Parameters without a default come first; all are passed by name.
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        parameters = [*own, *added]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

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


def _axis(of: Any) -> Any:
    kind = list[int] | None if of.kind is int else list[str] | None
    return Annotated[kind, option(of.spelled, of.help)]


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


def shown_by(bar: ProgressBar | None) -> "Callable[[Progress], None] | None":
    """Return what shows a sweep's progress on a bar, if there is one."""
    if bar is None:
        return None

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
            raise typer.BadParameter(f"`{text}`: expected AXIS=PATTERN, such as platform=pixel6")
        found[axis] = pattern
    return found
