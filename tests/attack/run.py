# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Goes through the families in turn, counts outcomes and keeps findings."""

import json
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from attack import fifos, outside, stores
from attack.judge import BrokenError
from attack.pool import Worker

_INSIDE = [
    *("recordings", "workloads", "platforms", "dumps", "options", "governors", "oracles"),
    *stores.INSIDE,
]
_OUTSIDE = outside.OUTSIDE | stores.OUTSIDE | fifos.OUTSIDE
FAMILY_NAMES = [*_INSIDE, *_OUTSIDE]
#: Findings that are known and not fixed yet, with what they are; not run again.
OPEN: dict[str, str] = json.loads((Path(__file__).parent / "open.json").read_text("utf-8"))
#: Outcomes that are no finding.
_FINE = {"ok", "refused", "open"}
#: Time goes to families by these weights: a case of some is much dearer than one of others.
_WEIGHTS = {
    "recordings": 6,
    "workloads": 3,
    "platforms": 2,
    "governors": 3,
    "signals": 3,
}
#: Longest turn of a family of weight 1 before the next one's, in seconds.
_TURN_SECONDS = 3.0


class Attack:
    """Cases by name, their outcomes and the findings among them."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._worker = Worker(out / "worker")
        self.outcomes: dict[str, Counter] = {}
        self.findings: list[dict] = []

    def __enter__(self) -> "Attack":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()
        shutil.rmtree(self._out / "outside", ignore_errors=True)

    def case(self, seed: int, family: str, index: int) -> dict:
        """Run one case; the answer has ``outcome`` and ``detail``."""
        if family in _INSIDE:
            return self._worker.run({"seed": seed, "family": family, "index": index})
        folder = self._out / "outside"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            _OUTSIDE[family](random.Random(f"{seed}/{family}/{index}"), folder)
        except BrokenError as error:
            return {"outcome": "broken", "detail": str(error)}
        except Exception:
            return {"outcome": "exception", "detail": traceback.format_exc()}
        return {"outcome": "ok", "detail": ""}

    def run(self, families: list[str], *, seed: int, seconds: float) -> None:
        """Attack with each family in turn until the time is over."""
        end = time.monotonic() + seconds
        done = dict.fromkeys(families, 0)
        share = seconds / sum(_WEIGHTS.get(family, 1) for family in families)
        unit = min(_TURN_SECONDS, share)
        while time.monotonic() < end:
            for family in families:
                turn = time.monotonic() + unit * _WEIGHTS.get(family, 1)
                while time.monotonic() < min(turn, end):
                    self._count(seed, family, done[family])
                    done[family] += 1

    def run_first(self, counts: dict[str, int], *, seed: int) -> None:
        """Attack with the first so many cases of each family."""
        for family, count in counts.items():
            for index in range(count):
                self._count(seed, family, index)

    def _count(self, seed: int, family: str, index: int) -> None:
        name = f"{seed}/{family}/{index}"
        answer = {"outcome": "open"} if name in OPEN else self.case(seed, family, index)
        outcome = answer["outcome"]
        self.outcomes.setdefault(family, Counter())[outcome] += 1
        if outcome in _FINE:
            return
        self.findings.append({"case": name, **answer})
        last = answer["detail"].strip().splitlines()[-1:] or [""]
        print(f"finding {name}: {outcome}: {last[0][:200]}", file=sys.stderr, flush=True)

    def table(self) -> str:
        """Cases and findings, a family a line."""
        lines = [f"{'family':<12}{'cases':>8}{'ok':>8}{'refused':>9}{'open':>6}{'findings':>10}"]
        for family, counts in self.outcomes.items():
            findings = sum(n for outcome, n in counts.items() if outcome not in _FINE)
            lines.append(
                f"{family:<12}{counts.total():>8}{counts['ok']:>8}{counts['refused']:>9}"
                f"{counts['open']:>6}{findings:>10}"
            )
        return "\n".join(lines)
