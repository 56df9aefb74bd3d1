# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Completion for shells: names of the kind that an option's metavar gives.

Where nothing matches, shells complete file names.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import get_args

from typer.models import ParameterInfo


def attach(command: Callable[..., None]) -> None:
    """Give every option and argument of a command the completion of its metavar."""
    for parameter in inspect.signature(command).parameters.values():
        for info in (parameter.default, *get_args(parameter.annotation)):
            if isinstance(info, ParameterInfo) and info.autocompletion is None:
                metavar = (info.metavar or "").strip("[].")
                info.autocompletion = _BY_METAVAR.get(metavar)


def governors(incomplete: str) -> Iterable[str]:
    """Names of built-in governors; after an @, releases whose sources are installed."""
    from torpor.machine import catalog as library

    name, at, release = incomplete.partition("@")
    if at:
        return [f"{name}@{known}" for known in _releases(release)]
    return _starting(incomplete, (g["name"] for g in library.governors()))


def io_boosts(incomplete: str) -> Iterable[str]:
    """Names of built-in IO boosts."""
    from torpor.machine import catalog as library

    return _starting(incomplete, (b["name"] for b in library.ioboosts()))


def platforms(incomplete: str) -> Iterable[str]:
    """Names of machines that ship."""
    from torpor.machine import catalog as library

    return _starting(incomplete, (p["name"] for p in library.platforms()))


def workloads(incomplete: str) -> Iterable[str]:
    """Names of workloads that ship."""
    from torpor.machine import catalog as library

    return _starting(incomplete, (w["name"] for w in library.workloads()))


def studies(incomplete: str) -> Iterable[str]:
    """Names of studies that ship."""
    from torpor.ask.studies.files import names

    return _starting(incomplete, names())


def cpufreq_governors(incomplete: str) -> Iterable[str]:
    """Names of cpufreq governors, without their tunables."""
    from torpor.machine import catalog as library

    return _starting(incomplete, (p["name"] for p in library.cpufreq_governors()))


def _releases(incomplete: str) -> Iterable[str]:
    from torpor.machine.doctor import source_packages

    return _starting(incomplete, (release for release, _ in source_packages()))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


_BY_METAVAR = {
    "G": governors,
    "GOVERNOR": governors,
    "P": platforms,
    "PLATFORM": platforms,
    "WORKLOAD": workloads,
    "STUDY": studies,
    "B": io_boosts,
    "K": _releases,
    "POLICY": cpufreq_governors,
}
