# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The table of releases in the guide to kernel trees is what a replay of each gives.

Linux 6.1 and 6.12 are fetched by other tests as well; the others are compared where they have been
fetched before (``python tests/docs/releases.py``), or with ``TORPOR_ALL_RELEASES=1``.
"""

import os
from pathlib import Path

import pytest
import releases


@pytest.mark.parametrize("release", releases.RELEASES)
def test_table_matches_a_replay(release):
    home = Path(os.environ.get("TORPOR_KERNEL_SOURCES", releases.ROOT / "build" / "kernel-sources"))
    at_hand = (home / f"linux-source-{release}" / "Makefile").is_file()
    if not at_hand and release not in ("6.1", "6.12") and "TORPOR_ALL_RELEASES" not in os.environ:
        pytest.skip(f"not run: linux-source-{release} has not been fetched")
    tree = releases.sources(release)
    if tree is None or not (tree / "Makefile").is_file():
        pytest.skip(f"not run: linux-source-{release} cannot be had, or was fetched in part")
    row = releases.written(release)
    assert row, f"the table has no row of {release}"
    shown, here = row.split("|")[1].strip(), releases.stable(tree)
    if shown != here:
        pytest.skip(f"not run: the table is of {shown}, the package of {here}")
    assert row == releases.row(release, tree)


def test_every_release_has_a_figure_of_each_governor():
    assert releases.HEAD in releases.PAGE.read_text(encoding="utf-8")
    for release in releases.RELEASES:
        row = releases.written(release)
        assert row and row.count("|") == len(releases.GOVERNORS) + 2, release
