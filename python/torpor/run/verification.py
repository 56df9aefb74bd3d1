# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Verifying a recording: does the hosted governor decide as the recorded kernel's did?"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import _engine
from torpor._engine import TorporError
from torpor.results.load import parse_json, read_text
from torpor.results.record import Fidelity, Record
from torpor.run import options, recordings
from torpor.run.sleep_outcomes import outcomes

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Path = str | os.PathLike[str]


@options.documented(options.FidelityOptions)
def fidelity(
    trace: _Path,
    *,
    platform: _Path | None = None,
    governors: str | Iterable[str] = (),
    before: _Path | None = None,
    after: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **given: "Unpack[options.FidelityOptions]",
) -> Fidelity | Record:
    """Ask governors the questions of the recorded governor, and compare the decisions.

    Unlike in a replay, governors see the outcome of the *recorded* decision and the recorded tick.

    Args:
        trace: A recording with timer events, task switches and ``cpu_idle``.
        platform: The machine that was recorded: a name, a TOML file, or a dump of its sysfs.
            Default: ``before``, the dump that was saved with the recording, or the machine that
            the recording names, if that ships.
        governors: Tried in addition to every built-in one.
        before: Dump of the machine's idle counters before the recording, of any form.
        after: The same after it. Default for both: the dumps saved with the recording.
        progress: Called with (what, done, total).
        {options}

    The keys of the result: ``trace``, ``platform``, ``hz``, ``states`` (names), ``decisions``
    (what was ``compared``, and the share of the ``commonest`` state), ``verdict`` (``best``,
    ``agreement``, ``next_best``, the wrong-family ``control``), ``governors`` (best first, each
    with ``agreeing``, ``agreement`` from 0 to 1, ``confusion``, ``by_source``), ``assumptions``
    (what was tried and chosen), ``disagreements`` of the best governor with every input,
    ``counters`` (Torpor's, the kernel's events, sysfs) and ``notes``. Times are in ns.

    A recording without timers or task switches has no questions that could be asked again. Its
    result has ``kind`` ``outcomes``, and compares its sleeps with other counts: ``trace``,
    ``platform``, ``lacks`` (events), ``sleeps``, ``verdicts`` (on how many sleeps the kernel's
    ``above`` and ``below`` agree with its rule; None without ``cpu_idle_miss``),
    ``verdict_source``, and ``states``, by ``cluster`` and ``state``: ``usage``, ``time_ns``,
    ``above``, ``below``, and ``sysfs``, the same between the dumps, with ``rejected``.

    Raises:
        TraceError: The recording is missing or unreadable.
        PlatformError: The machine is unknown, or the recording does not name it.
        GovernorError: A named governor is unknown or does not compile.
        EngineError: The recording has no sleeps, or was made on another machine.
    """
    path = Path(trace)
    dumps = recordings.dumps_to_use(path, before, after)
    platform = recordings.recorded_machine([trace], dumps) if platform is None else platform
    if isinstance(governors, str):
        governors = [governors]
    try:
        verified = _engine.verify(
            os.fspath(trace),
            os.fspath(platform),
            list(governors),
            dumps,
            options.to_json(options.FidelityOptions, given, reset_at_ns=_reset_at_ns(path)),
            progress,
        )
    except _engine.EngineError:
        counted = outcomes(trace, platform=platform, dumps=dumps, progress=progress)
        if counted is None:
            raise
        return counted
    return Fidelity(verified)


def _reset_at_ns(trace: Path) -> int | None:
    """When `torpor record` had the governor reset, which perf's recordings cannot hold."""
    facts = trace.with_name(f"{trace.name}.machine.json")
    try:
        at_ns = parse_json(read_text(facts), facts)["window"]["governor_reset_end_ns"]
    except (OSError, TorporError, KeyError, TypeError):
        return None
    return at_ns if isinstance(at_ns, int) else None
