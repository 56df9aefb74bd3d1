# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The simulator against real kernels: the same load in guests and simulated, and how far apart.

By the recordings of tests/data/guest, without a guest; where guests are booted for long anyway,
also by new ones.
"""

import os
from pathlib import Path

import pytest

from apparatus import cases, compare, corpus, packages
from machines import here

IS_FULL = bool(os.environ.get("TORPOR_GUEST_FULL"))

DOCUMENT = packages.ROOT / "docs" / "concepts" / "simulation.md"

#: By kernel and case, the most that a simulation may be off: own wake-ups in percent, residency,
#: above and below in points, the median lateness in us, and lengths of sleeps in decades. Somewhat
#: more than it is off in the recordings that are kept. On arm64 those of `ipi` say little: the
#: emulator is why, see the letters in the document.
BOUNDS = {
    "amd64-6.12-time": {
        "rates": (0.1, 0.5, 2, 1, 3, 1),
        "predict": (2, 0.1, 2, 4, 15, 0.2),
        "predict-smp": (40, 0.2, 13, 7, 20, 0.4),
        "pingpong": (8, 8, 3, 11, 1, 0.05),
        "ipi": (2, 8, 2, 2, 4, 0.03),
    },
    "arm64-6.12": {
        "rates": (5.5, 7.5, 6, 6, 6.5, 1.2),
        "predict": (17, 1, 1, 2, 6, 0.3),
        "predict-smp": (7, 1, 10, 7.5, 6, 0.4),
        "pingpong": (4, 6, 4.5, 1, 1, 0.06),
        "ipi": (30, 40, 16.5, 5, 6, 0.2),
    },
}

NAMES = ("own wake-ups %", "residency", "above", "below", "late p50 us", "decades")


def case_of(row: compare.Row) -> str:
    """The case that a row is of."""
    return "rates" if row.case.endswith(" Hz") else row.case


def off(row: compare.Row) -> tuple[float, ...]:
    """Return the differences of a row, as BOUNDS has them."""
    found = row.distance
    own_pct = 100 * found.own_per_s / row.guest.own_per_s
    return own_pct, found.residency, found.above, found.below, found.late_p50_us, found.decades


def check(rows: list[compare.Row], slack: float) -> None:
    """Hold rows to `slack` times their bounds, and print each."""
    assert len(rows) == len(compare.GOVERNORS) * (len(cases.RATES_HZ) + len(cases.CASES) - 1)
    print(compare.table(rows))
    for row in rows:
        bounds = BOUNDS[row.kernel][case_of(row)]
        for name, found, most in zip(NAMES, off(row), bounds, strict=True):
            place = (row.case, row.kernel, row.governor, name)
            assert abs(found) <= slack * most, f"{place}: {found:.2f}"


@pytest.fixture(scope="module")
def kept() -> dict[str, list[compare.Row]]:
    """All rows of the recordings that are kept, by kernel."""
    return {kernel: compare.compare(corpus.CORPUS, kernel) for kernel in compare.KERNELS}


@pytest.mark.parametrize("kernel", compare.KERNELS)
def test_a_simulation_is_near_to_its_guest(kept, kernel):
    check(kept[kernel], 1)


@pytest.mark.parametrize("kernel", compare.KERNELS)
def test_periodic_wakeups_match_in_rate_and_lateness(kept, kernel):
    for row in kept[kernel]:
        if case_of(row) == "rates":
            # One of 411 may find its CPU awake.
            assert abs(row.distance.own_per_s) <= 1.5, row.case
            assert abs(row.distance.late_p50_us) <= 0.07 * row.guest.late_p50_us, row.case


def test_the_wrong_governor_is_farther_off(kept):
    """A bound that accepts everything would show nothing: teo's guest is no menu's simulation."""
    rows = {(row.case, row.governor): row for row in kept["arm64-6.12"]}
    menu, teo = rows["411 Hz", "menu"], rows["411 Hz", "t-teo-6.12"]
    crossed = compare.distance(teo.guest, menu.simulated)
    assert abs(crossed.residency) > 3 * abs(teo.distance.residency)
    assert crossed.decades > teo.distance.decades


def test_the_document_has_this_table(kept):
    table = compare.table([row for kernel in compare.KERNELS for row in kept[kernel]])
    assert table in DOCUMENT.read_text(encoding="utf-8"), (
        "make it anew: PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.compare"
    )


@pytest.mark.skipif(not IS_FULL, reason="not run, because TORPOR_GUEST_FULL is not set")
@pytest.mark.parametrize("kernel", compare.KERNELS)
def test_a_simulation_is_near_to_a_new_guest(kernel: str, tmp_path: Path):
    governors, guest = corpus.COMPARED_GOVERNORS, corpus.COMPARED[kernel]
    here(corpus.keep, kernel, guest, governors, list(cases.CASES), tmp_path)
    # Another compiler or emulator moves every start, and with it what falls together.
    check(compare.compare(tmp_path, kernel), 1.5)
