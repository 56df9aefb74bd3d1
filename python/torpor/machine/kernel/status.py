# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Loaded governors, the current one, and what is in the way."""

from typing import TypedDict

from torpor.machine.kernel import governors, support
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.modules import module_of
from torpor.machine.kernel.system import System


class Timers(TypedDict):
    """Expiries of a governor's own timers on a CPU, while idle and while a task ran."""

    cpu: int
    idle: int
    busy: int


class Offered(TypedDict):
    """A governor that the kernel offers, and the module that provides it if that is Torpor's.

    ``timers`` has a row per CPU since it was loaded, or none where only root can read them or the
    governor sets none.
    """

    name: str
    module: str | None
    timers: list[Timers]


class Loaded(TypedDict):
    """One of Torpor's modules."""

    name: str
    references: int | None
    holders: list[str]
    parameters: dict[str, str]


class Status(TypedDict):
    """Result of :func:`status`."""

    kernel: str
    driver: str | None
    governor: str | None
    governors: list[Offered]
    modules: list[Loaded]
    refused: list[str]


def status(system: System) -> Status:
    """Return ``kernel``, ``driver``, ``governor``, ``governors``, ``modules`` and ``refused``.

    ``governors`` are those that the kernel offers, each with its ``module`` if it is Torpor's, and
    the counts of its own ``timers``;
    ``modules`` have ``name``, ``references``, ``holders`` and ``parameters``; ``refused`` are the
    reasons why this kernel cannot load Torpor's modules.
    """
    refused = list(support.reasons_against(system))
    release = system.machine.release()
    try:
        support.refuse_release(release)
    except KernelError as error:
        refused.insert(0, str(error))
    return {
        "kernel": release,
        "driver": system.driver,
        "governor": system.governor,
        "governors": [
            {
                "name": name,
                "module": module_of(name) if governors.is_ours(system, name) else None,
                "timers": _timers(system, name),
            }
            for name in system.governors
        ],
        "modules": [
            {
                "name": name,
                "references": system.references(name),
                "holders": system.holders(name),
                "parameters": system.parameters(name),
            }
            for name in system.modules()
        ],
        "refused": refused,
    }


def _timers(system: System, governor: str) -> list[Timers]:
    rows = (system.read(f"/sys/kernel/debug/torpor/timers/{governor}") or "").splitlines()[1:]
    counts = ([int(word) for word in row.split()] for row in rows)
    return [{"cpu": cpu, "idle": idle, "busy": busy} for cpu, idle, busy in counts]
