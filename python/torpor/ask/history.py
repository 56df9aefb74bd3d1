# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A governor's history in git: every revision that changed it, and the first that made it worse."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torpor.results.table import Post, Table, counted, minus, number, word
from torpor.run.sweeps.axes import Axes, SweepError
from torpor.run.sweeps.parts import Row
from torpor.run.sweeps.ranks import change_parts, change_unit, mean_change, metric_info, scenario_of
from torpor.run.sweeps.run import sweep

_FOLDER = "drivers/cpuidle/governors"
_QUOTED = re.compile(r'^\s*#\s*include\s+"([^"/]+)"', re.M)


@dataclass(frozen=True)
class Revision:
    """A commit that changed a governor, and the governor's name at that commit."""

    commit: str
    date: str
    subject: str
    governor: str


@dataclass(frozen=True)
class Bisected:
    """Result of a bisection. ``first_bad`` is None if several revisions could not be judged."""

    first_bad: Revision | None
    #: Revisions between the last good and the first bad one that have no verdict.
    suspects: list[Revision]
    #: The change from the good revision, of each that was judged, in order.
    changes: dict[str, float | None]


def revisions(
    spec: str, start: str, end: str = "HEAD", *, path: str | None = None
) -> list[Revision]:
    """Return the revisions of ``NAME@TREE`` that changed it, ``start`` first.

    Args:
        spec: ``NAME@TREE``, perhaps with ``,param=value``.
        start: The oldest revision, whether or not it changed the governor.
        end: The newest.
        path: The governor's file in the tree; default: where the kernel has its governors.

    Files that it includes in quotes from its own folder count as the governor's own. Raises
    :class:`SweepError` if the tree is no git repository or a revision is unknown.
    """
    found = re.fullmatch(r"([^@]+)@([^,]+)((?:,.*)?)", spec)
    if found is None:
        raise SweepError(f"`{spec}`: expected NAME@TREE, such as teo@../linux")
    name, tree, params = found.groups()
    if not Path(tree).is_dir():
        raise SweepError(f"`{spec}`: there is no folder `{tree}`")
    file = path or f"{_FOLDER}/{name}.c"
    first, last = (
        _git(tree, "rev-parse", "--verify", "--quiet", f"{r}^{{commit}}").strip()
        for r in (start, end)
    )
    for text, commit in ((start, first), (end, last)):
        if not commit:
            raise SweepError(f"`{tree}` has no revision `{text}`")
    folder = os.path.dirname(file)
    headers = {
        f"{folder}/{header}"
        for commit in (first, last)
        for header in re.findall(
            r'^\s*#\s*include\s+"([^"/]+)"', _git(tree, "show", f"{commit}:{file}"), re.M
        )
    }
    log = ("log", "--format=%H%x00%cs%x00%s", "--no-merges")
    lines = _git(tree, *log, "-1", first).splitlines()
    lines += _git(
        tree, *log, "--reverse", f"{first}..{last}", "--", file, *sorted(headers)
    ).splitlines()
    return [
        Revision(commit, date, subject, f"{name}@{tree}:{commit[:12]}{params}")
        for commit, date, subject in (line.split("\0") for line in lines)
    ]


def bisect(
    steps: Sequence[Revision],
    axes: Axes,
    store: str | os.PathLike[str],
    *,
    metric: str,
    worse_than: float,
    tell: Callable[[str], None] = lambda _text: None,
    **given: Any,
) -> Bisected:
    """Find the first revision that is worse than the first one by more than a limit.

    A revision's change from the first one is the geometric mean of ratios over the scenarios that
    both finished, or the mean difference of a share; so is the limit: percent, or percentage
    points. One that does not compile or run is skipped. The store keeps every run, so an
    interrupted bisection resumes.

    Raises :class:`SweepError` if the metric is not known, and if the last revision is not worse.
    """
    info = metric_info(metric, is_judged=True)
    if len(steps) < 2:
        raise SweepError("no revision between the good and the bad one changed the governor")
    unit = change_unit(info)
    changes: dict[str, float | None] = {}

    def judge(step: Revision) -> bool | None:
        """Whether it is worse; None if unknown."""
        if step.commit not in changes:
            asked = replace(axes, governor=[steps[0].governor, step.governor])
            done = sweep(asked, store, **given)
            if done.is_interrupted:
                raise KeyboardInterrupt
            rows = list(done.rows().values())
            changes[step.commit] = _change(rows, info, steps[0].governor, step.governor)
            change = changes[step.commit]
            shown = "cannot be judged" if change is None else f"{minus(f'{change:+.2f}')} {unit}"
            tell(f"{step.commit[:12]} {shown}  {step.subject}")
        change = changes[step.commit]
        if change is None:
            return None
        return (-change if info["direction"] == "higher" else change) > worse_than

    last = judge(steps[-1])
    if not last:
        shown = changes[steps[-1].commit]
        raise SweepError(
            f"the bad revision is not worse: {metric} "
            + (
                "cannot be judged"
                if shown is None
                else f"changes by {minus(f'{shown:+.2f}')} {unit}"
            )
        )
    good, bad = 0, len(steps) - 1
    passed: set[int] = set()
    while open_steps := [n for n in range(good + 1, bad) if n not in passed]:
        middle = min(open_steps, key=lambda n: abs(2 * n - good - bad))
        verdict = judge(steps[middle])
        if verdict is None:
            passed.add(middle)
        elif verdict:
            bad = middle
        else:
            good = middle
    suspects = [steps[n] for n in sorted(passed) if good < n < bad]
    return Bisected(
        None if suspects else steps[bad], [*suspects, steps[bad]] if suspects else [], changes
    )


def ladder_post(rows: Sequence[Row], steps: Sequence[Revision], metrics: Sequence[str]) -> Post:
    """Return the table of a history: a row a revision, changes from the first and the one before.

    Raises :class:`SweepError` for a metric that is not known.
    """
    tables = []
    for info in map(metric_info, metrics):
        lines = []
        before = steps[0]
        for step in steps:
            total = _change(rows, info, steps[0].governor, step.governor)
            since = _change(rows, info, before.governor, step.governor)
            cells = [word(step.commit[:12]), word(step.date), word(step.subject)]
            cells += [number(total, 2, is_signed=True), number(since, 2, is_signed=True)]
            lines.append(cells)
            if total is not None:
                before = step
        unit = change_unit(info)
        headings = ["revision", "date", "subject", f"from first {unit}", f"from last {unit}"]
        tables.append(Table(info["key"], info["title"], headings, lines, 3))
    failed = {row["governor"]: row["error"] for row in rows if row["error"]}
    notes = [f"{s.commit[:12]}: {failed[s.governor]}" for s in steps if s.governor in failed]
    scenarios = len({scenario_of(row) for row in rows})
    title = f"{len(steps)} revisions in {counted(scenarios, 'scenario')}"
    facts = ["mean over the scenarios and seeds that both revisions finished"]
    return Post(title, facts, tables, notes)


def ladder_sentences(shown: Post) -> list[str]:
    """Return for each metric of a history the whole change, and the revision with the largest."""
    said = []
    for table in shown.tables:
        known = [row for row in table.rows[1:] if isinstance(row[4].value, float)]
        if not known:
            continue
        unit = table.headings[3].rpartition(" ")[2]
        last = known[-1]
        most = max(known, key=lambda row: abs(float(row[4].value or 0)))
        said.append(
            f"From {table.rows[0][0].text} to {last[0].text}, {table.title} changes by "
            f"{last[3].text} {unit}, most by {most[0].text} ({most[4].text} {unit}: "
            f"{most[2].text})."
        )
    return said


def _change(rows: Sequence[Row], info: Mapping[str, Any], first: str, other: str) -> float | None:
    """The mean over the scenarios and seeds that both finished."""
    values: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for row in rows:
        if row["error"] is None:
            scenario = (scenario_of(row), row["seed"])
            values.setdefault(scenario, {})[row["governor"]] = row[info["key"]]
    pairs = ((pair.get(first), pair.get(other)) for pair in values.values())
    return mean_change(info, change_parts(info, pairs))


def _git(tree: str, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", tree, *words], capture_output=True, text=True, check=False, timeout=600
        )
    except OSError as error:
        raise SweepError(f"git cannot be started: {error.strerror}") from None
    if done.returncode != 0 and words[0] not in ("rev-parse", "show"):
        raise SweepError(f"git in `{tree}`: {done.stderr.strip()}")
    return done.stdout
