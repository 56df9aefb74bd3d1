# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The README's moving picture shows what a replay of today gives."""

import sys

from pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import picture


def test_readme_picture_matches_a_replay():
    for path, text in picture.pictures().items():
        name = str(path.relative_to(ROOT))
        assert path.read_text("utf-8") == text, f"`{name}`: run `python docs/picture.py`"
        assert name in (ROOT / "README.md").read_text("utf-8")


def test_sleeps_are_in_order_within_the_picture():
    result = picture.torpor.replay(ROOT / picture.RECORDING, platform="pixel6", governors="menu")
    found = picture.sleeps(result, "menu")
    ends = [time for begin, end, *_ in found for time in (begin, end)]
    assert len(found) > 20 and ends == sorted(ends) and ends[0] >= 0 and ends[-1] <= 100
