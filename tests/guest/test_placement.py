# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Decisions of a hosted kernel beside those of the same kernel in a guest, under one load.

By the figures of tests/data/decisions.json, without a guest; where guests are booted for long
anyway, also by new ones.
"""

import os

import pytest
from sources import kernel_sources

from apparatus import decisions
from apparatus.decisions import Figures
from machines import here

IS_FULL = bool(os.environ.get("TORPOR_GUEST_FULL"))

DOCUMENT = decisions.ROOT / "docs" / "concepts" / "simulation.md"

#: By unit, how far a hosted kernel may be off: a share in points, the others in parts of the
#: guest's value, or by so many a second, as a guest has a few timers and workers more.
SHARE_POINTS = 6
RATE_RATIO, RATE_PER_S = 0.15, 16
MHZ_RATIO = 0.1
#: The guest counts the start of its programs, too.
PROGRAMMINGS_RATIO = 0.3

CASES = [(machine, load) for machine in decisions.MACHINES for load in decisions.LOADS]


def check(guest: Figures, simulated: Figures, slack: float) -> None:
    """Hold each row of the table to `slack` times its bound."""
    for title, name, part in decisions.ROWS:
        one, other = (decisions.value(of, name, part) for of in (guest, simulated))
        if one is None:
            continue
        if "%" in title:
            most = SHARE_POINTS
        elif "MHz" in title:
            most = MHZ_RATIO * one
        elif name == "programmings":
            most = PROGRAMMINGS_RATIO * one
        else:
            most = max(RATE_PER_S, RATE_RATIO * one)
        assert abs(other - one) <= slack * most, f"{title}: {one} and {other}"


@pytest.fixture(scope="module")
def hosted() -> dict[tuple[str, str], Figures]:
    kernel = str(kernel_sources("6.12"))
    return {
        (machine, load): decisions.hosted(decisions.MACHINES[machine], load, kernel)
        for machine, load in CASES
    }


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_hosted_kernel_decides_as_the_guest_does(hosted, case):
    check(decisions.kept()[case], hosted[case], 1)


def test_one_load_is_no_other(hosted):
    for machine in decisions.MACHINES:
        with pytest.raises(AssertionError):
            check(decisions.kept()[machine, "frames"], hosted[machine, "periodic"], 3)


def test_equal_cpus_are_no_pixel_6(hosted):
    with pytest.raises(AssertionError):
        check(decisions.kept()["pixel6", "frames"], hosted["equal", "frames"], 3)


def test_the_document_has_this_table(hosted):
    table = decisions.table(decisions.kept(), hosted)
    assert table in DOCUMENT.read_text(encoding="utf-8"), (
        "make it anew: python -m apparatus.decisions KERNEL"
    )


@pytest.mark.skipif(not IS_FULL, reason="not run, because TORPOR_GUEST_FULL is not set")
@pytest.mark.parametrize("machine", decisions.MACHINES)
def test_hosted_kernel_decides_as_a_guest(hosted, machine):
    for load, guest in here(decisions.in_guest, decisions.MACHINES[machine]).items():
        check(guest, hosted[machine, load], 1.5)
