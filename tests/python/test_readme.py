# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The README's table is what the demo prints, and its links lead somewhere."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import update_readme  # noqa: E402


def test_the_readme_shows_what_the_demo_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    due = "the demo's numbers have changed: run python scripts/update_readme.py"
    assert update_readme.with_block(text, update_readme.demo_block()) == text, due


def test_every_option_that_the_readme_names_exists(torpor):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    help_text = torpor("replay", "--help").stdout + torpor("simulate", "--help").stdout
    for option in set(re.findall(r"`(--[a-z-]+|-[A-Za-z])\b", text)):
        assert re.search(rf"(?<![\w-]){option}\b", help_text), option
