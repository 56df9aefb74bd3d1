# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A shadow against the governor at work, by recordings of guests under the same load."""

import pytest

from apparatus import shadows

GUIDE = shadows.ROOT / "docs" / "guides" / "shadow.md"


@pytest.fixture(scope="module")
def rows() -> list[shadows.Row]:
    return shadows.compare()


def test_a_shadow_predicts_better_than_nothing(rows):
    for metric in shadows.METRICS:
        errors = [row.errors(metric) for row in rows]
        assert sum(error for error, _ in errors) < 0.6 * sum(error for _, error in errors), metric


def test_the_guide_shows_these_tables(rows):
    text = GUIDE.read_text(encoding="utf-8")
    assert shadows.table(rows) in text
    assert shadows.summary(rows) in text
