# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checking a governor against legal calls at random and at the edges."""

from collections.abc import Callable
from typing import TypedDict

from torpor import _engine
from torpor.results.kinds.check import DEFAULT_HZ
from torpor.results.record import Record, headed

DEFAULT_SEED = 1
DEFAULT_DECISIONS = 1_000_000


class CheckKind(TypedDict):
    """A kind of finding."""

    name: str
    title: str
    definition: str


def check_kinds() -> list[CheckKind]:
    """Return what counts as a breach: ``name``, ``title`` and the exact ``definition`` of each.

    >>> {"index", "disabled", "latency", "tick", "memory", "leak"} <= {
    ...     kind["name"] for kind in check_kinds()
    ... }
    True
    """
    found: list[CheckKind] = _engine.check_kinds()
    return found


def check(
    governor: str,
    *,
    seed: int = DEFAULT_SEED,
    decisions: int = DEFAULT_DECISIONS,
    hz: int = DEFAULT_HZ,
    progress: Callable[[int], None] | None = None,
) -> Record:
    """Drive a governor with random and adversarial legal calls, under sanitizers.

    ``governor`` is named as everywhere: ``NAME``, ``PATH.c`` or ``NAME@TREE``. Needs a C compiler
    with AddressSanitizer. ``progress`` receives the number of ``decisions`` made so far.

    The keys of the report: ``governor``, ``source_sha256``, ``hz``, ``seed``, ``decisions``,
    ``sequences``, ``ended_early`` (why, or None), ``timing`` (``p50_ns``, ``p99_ns``, ``worst_ns``
    of a decision without sanitizers; None after a crash), ``percpu_bytes`` and ``findings``. Each
    finding has its ``kind``, ``what`` happened, the sanitizer's ``words``, the ``count`` of such
    breaches, the ``seed`` that repeats it, and the shortest sequence found that shows it:
    ``states``, ``cpus``, ``clock_ns`` and ``calls``, of which ``call`` (from 1) on ``cpu`` is the
    one.

    Raises :class:`torpor.GovernorError` when the governor or the program around it cannot be
    compiled.
    """
    return headed("check", _engine.check(governor, seed, decisions, hz, progress))
