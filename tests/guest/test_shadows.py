# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A shadow against the governor at work, by recordings of guests under the same load."""

from statistics import median

import pytest

from apparatus import shadows
from apparatus.packages import ROOT

GUIDE = ROOT / "docs" / "guides" / "shadow.md"


@pytest.fixture(scope="module")
def rows() -> list[shadows.Row]:
    return shadows.compare()


def test_a_shadow_predicts_better_than_nothing(rows):
    for metric in shadows.METRICS:
        # Of one load with two equilibria a shadow knows nothing, and is 33 points off.
        shadow, nothing = map(median, zip(*(row.errors(metric) for row in rows), strict=True))
        assert shadow < 0.6 * nothing, metric


def test_the_guide_shows_this_summary(rows):
    assert shadows.summary(rows) in GUIDE.read_text(encoding="utf-8")
