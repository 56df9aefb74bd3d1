# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the guests of several tests have in common."""

import pytest

from guest.packages import NotHereError

#: What each guest wears: the states of a Comet Lake desktop, and of a Pixel 6's little cores.
STATES = {
    "amd64": "POLL,C1:2:2,C1E:10:20,C3:70:100,C6:85:200",
    "arm64": "WFI:1:1,c2:230:2000",
}


def here(function, *args):
    """Call it; skip, with the reason, where this machine lacks something for it."""
    try:
        return function(*args)
    except NotHereError as missing:
        pytest.skip(f"not run, because {missing}")
