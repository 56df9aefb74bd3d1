# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fixtures of several guests' tests."""

import pytest

from apparatus.packages import NotHereError


def here(function, *args):
    """Call it; skip, with the reason, where this machine lacks something for it."""
    try:
        return function(*args)
    except NotHereError as missing:
        pytest.skip(f"not run, because {missing}")
