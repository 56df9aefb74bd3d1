# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The recorded reader in the simulator: reads and requested frequencies are the guest's."""

import pytest

from apparatus import ioboost, ioboost_simulated

#: Tolerances of the reads, and of the requested frequency.
READS, ASKED = 0.09, 0.05

#: A few reads in an interval decide at which level it ends.
UNSETTLED = [(f"per-task-v2,{ioboost.COARSE}", load) for load in ("reader", "reader-little")]


@pytest.fixture(scope="module")
def compared() -> dict[tuple[str, str], ioboost_simulated.Compared]:
    return {(one.boost, one.load): one for one in ioboost_simulated.compare()}


def test_reads_and_frequencies_are_the_guests(compared):
    assert len(compared) == 18
    for key, one in compared.items():
        reads, asked = one.distances
        assert abs(reads) < READS, one
        assert abs(asked) < ASKED or key in UNSETTLED, one
