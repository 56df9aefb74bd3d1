# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Properties of any result, whatever the input was."""

import csv
import io
import math

#: Kernel counters round; a share of them may be a hair over the whole.
_WHOLE_PCT = 100.0 + 1e-6


class BrokenError(Exception):
    """A result that cannot be true."""


def judge_csv(text: str) -> None:
    """Hold each metric of each governor against what its unit allows."""
    for row in csv.DictReader(io.StringIO(text)):
        for key, value in row.items():
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            _judge(f"{row.get('governor')}: {key}", key, number)


def _judge(where: str, key: str, value: float) -> None:
    if not math.isfinite(value):
        raise BrokenError(f"{where} is {value}")
    if value < 0 and "over_oracle" not in key:
        raise BrokenError(f"{where} is below 0: {value}")
    if key.endswith(("above_pct", "below_pct", "residency_pct")) and value > _WHOLE_PCT:
        raise BrokenError(f"{where} is above 100 %: {value}")
