# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Completion for shells: names of the kind that an option's metavar gives.

Where nothing matches, shells complete file names.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torpor
from torpor.run.option import Option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def of(told: Option) -> Callable[[Any, Any, str], "list[CompletionItem]"]:
    """Return what completes the values of an option, as Click calls it."""
    names = _BY_METAVAR.get((told.metavar or "").strip("[]."))

    def complete(_ctx: Any, _param: Any, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        known = _starting(told.names(), incomplete) if told.names else []
        known = names(incomplete) if names else known
        found = [CompletionItem(name) for name in known]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _shipped(listed: str) -> Callable[[str], list[str]]:
    """Return the completion of the names of what ships, which ``torpor.LISTED()`` lists."""
    return lambda incomplete: _starting(
        (entry["name"] for entry in getattr(torpor, listed)()), incomplete
    )


def _governors(incomplete: str) -> list[str]:
    """Return names of built-in governors; after an @, releases whose sources are installed."""
    name, at, release = incomplete.partition("@")
    if at:
        return [f"{name}@{known}" for known in _releases(release)]
    return _shipped("governors")(incomplete)


def _releases(incomplete: str) -> list[str]:
    from torpor.machine.doctor import source_packages

    return _starting((release for release, _ in source_packages()), incomplete)


_BY_METAVAR = {
    "G": _governors,
    "GOVERNOR": _governors,
    "P": _shipped("platforms"),
    "PLATFORM": _shipped("platforms"),
    "WORKLOAD": _shipped("workloads"),
    "B": _shipped("ioboosts"),
    "K": _releases,
    "POLICY": _shipped("cpufreq_governors"),
}
