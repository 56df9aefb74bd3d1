# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The recorded reader in the simulator: reads and requested frequencies are the guest's."""

import pytest

from apparatus import ioboost, ioboost_simulated

GUIDE = ioboost.ROOT / "docs" / "guides" / "io-boost-in-a-kernel.md"

#: Of the reads, and of the frequency asked for.
READS, ASKED = 0.03, 0.05

#: Which level it ends on depends on its first 100 ms.
UNSETTLED = (f"per-task-v2,{ioboost.COARSE}", "reader-little")


@pytest.fixture(scope="module")
def compared() -> dict[tuple[str, str], ioboost_simulated.Compared]:
    return {(one.boost, one.load): one for one in ioboost_simulated.compare()}


def test_reads_and_frequencies_are_the_guests(compared):
    assert len(compared) == 18
    for key, one in compared.items():
        reads, asked = one.distances
        if key != UNSETTLED:
            assert abs(reads) < READS and abs(asked) < ASKED, one


def test_a_level_hangs_on_how_the_thread_began(compared):
    assert compared[UNSETTLED].distances[1] > 0.3
    late = {(one.boost, one.load): one for one in ioboost_simulated.compare(first_us=2_000)}
    reads, asked = late[UNSETTLED].distances
    assert abs(reads) < READS and abs(asked) < ASKED


def test_the_guide_shows_this_table(compared):
    table = ioboost_simulated.table(list(compared.values()))
    assert table in GUIDE.read_text(encoding="utf-8")
