# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Decisions of a hosted kernel beside those of the same kernel in a guest, under one load.

By the figures of tests/data/decisions.json, without a guest; where guests are booted for long
anyway, also by new ones.
"""

import os
from itertools import pairwise

import pytest
from sources import kernel_sources

from apparatus import decisions
from apparatus.decisions import CASES, Figures, Guests
from apparatus.packages import ROOT
from machines import here

IS_FULL = bool(os.environ.get("TORPOR_GUEST_FULL"))

DOCUMENTS = [ROOT / "docs" / "concepts" / "simulation.md", *(ROOT / "docs" / "guides").glob("*.md")]

#: By unit, how far a hosted kernel may be off: a share in points, the others in parts of the
#: guest's value, or by so many a second, as a guest has a few timers and workers more.
SHARE_POINTS = 6
#: Many sleeps of this load last nearly as long as the deepest state's target residency, and a
#: program's own work, which takes no time here, moves them across it.
PROGRAMS_SHARE_POINTS = {("sched-ext", "chains", "too deep %"): 16}
RATE_RATIO, RATE_PER_S = 0.15, 16
MHZ_RATIO = 0.06
#: Ticks and IPIs that find nothing to do: guests have had 329 and 589 a second under one load.
ENDED_RATIO = 0.7
#: Two tasks lock into a pattern for the length of a section, and microseconds choose which.
SECTION_PREEMPTED_RATIO = 0.35
#: The guest counts the start of its programs, too.
PROGRAMMINGS_RATIO = 0.3

#: Of a quota, in a load of 40 periods.
PERIODS = 3
THROTTLED_RATIO = 0.1


def check(load: str, guests: list[Figures], simulated: Figures, slack: float, of: str = "") -> None:
    """Hold each row of the table to `slack` times its bound, from the nearest guest's value."""
    for title, name, part in decisions.rows(load, guests[0]):
        found = [decisions.value(guest, name, part) for guest in guests]
        if None in found:
            continue
        least, most, other = min(found), max(found), decisions.value(simulated, name, part)
        if "%" in title:
            bound = PROGRAMS_SHARE_POINTS.get((of, load, title), SHARE_POINTS)
        elif "period" in title:
            bound = PERIODS
        elif "throttled ms" in title:
            bound = THROTTLED_RATIO * most
        elif "MHz" in title:
            bound = MHZ_RATIO * most
        elif name == "ended_by" and part in ("ipi", "timer"):
            bound = max(RATE_PER_S, ENDED_RATIO * most)
        elif name == "preempted" and decisions.changes(load):
            bound = max(RATE_PER_S, SECTION_PREEMPTED_RATIO * most)
        elif name == "programmings":
            bound = PROGRAMMINGS_RATIO * most
        else:
            bound = max(RATE_PER_S, RATE_RATIO * most)
        assert least - slack * bound <= other <= most + slack * bound, f"{title}: {found}, {other}"


@pytest.fixture(scope="module")
def guests() -> dict[str, Guests]:
    return {name: Guests.kept(name) for name in decisions.MACHINES}


@pytest.fixture(scope="module")
def hosted(guests) -> dict[tuple[str, str], Figures]:
    """Figures by machine and section."""
    kernel = str(kernel_sources("6.12"))
    return {
        (name, title): found
        for name, one in decisions.MACHINES.items()
        for load in one.loads
        for title, found in decisions.hosted(name, load, kernel, guests[name]).items()
    }


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_hosted_kernel_decides_as_the_guest_does(guests, hosted, case):
    name, load, title = case
    figures = [guest[title] for guest in guests[name].figures]
    check(load, figures, hosted[name, title], 1, name)


def test_one_load_is_no_other(guests, hosted):
    for name in ("pixel6", "equal"):
        with pytest.raises(AssertionError):
            check("frames", [guests[name].figures[0]["frames"]], hosted[name, "periodic"], 3)


def test_equal_cpus_are_no_pixel_6(guests, hosted):
    with pytest.raises(AssertionError):
        check("frames", [guests["pixel6"].figures[0]["frames"]], hosted["equal", "frames"], 3)


@pytest.mark.parametrize("name", ["limits", "shifts"])
def test_every_change_of_a_section_shows(guests, hosted, name):
    (load,) = decisions.MACHINES[name].loads
    titles = [title for of, _, title in CASES if of == name]
    for before, after in pairwise(titles):
        with pytest.raises(AssertionError):
            check(load, [guest[before] for guest in guests[name].figures], hosted[name, after], 1)


@pytest.mark.parametrize("names", decisions.TABLES, ids="+".join)
def test_a_document_has_this_table(guests, hosted, names):
    table = decisions.table(names, guests, hosted)
    assert any(table in one.read_text(encoding="utf-8") for one in DOCUMENTS), (
        "make it anew: python -m apparatus.decisions KERNEL"
    )


@pytest.mark.skipif(not IS_FULL, reason="not run, because TORPOR_GUEST_FULL is not set")
@pytest.mark.parametrize("name", decisions.MACHINES)
def test_hosted_kernel_decides_as_a_guest(hosted, name):
    guests = here(Guests.boot, decisions.MACHINES[name])
    for of, load, title in CASES:
        if of == name:
            figures = [guest[title] for guest in guests.figures]
            check(load, figures, hosted[name, title], 1.5, name)
