# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""IO boosts in a kernel of our own: the requested frequencies, and the reads."""

import os

import pytest

from apparatus import ioboost
from machines import here

pytestmark = pytest.mark.skipif(
    not os.environ.get("TORPOR_GUEST_IOBOOST"),
    reason="not run, because TORPOR_GUEST_IOBOOST is not set; it builds a kernel",
)

#: Loads that cannot leave the CPUs of one domain.
PINNED = {"reader-little": "little", "reader-big": "big"}

#: Every change moves the phases of all that follows.
TOLERANCE = 0.05


@pytest.fixture(scope="module")
def kernel():
    return here(ioboost.kernel)


@pytest.fixture(scope="module")
def runs(kernel) -> dict[tuple[str, str], ioboost.Run]:
    """One guest a boost, by boost and load."""
    loads = list(ioboost.LOADS)
    made = [run for boost in ioboost.names() for run in ioboost.run(kernel, boost, loads)]
    print(ioboost.summary(made))
    return {(run.boost, run.load): run for run in made}


@pytest.mark.parametrize("load", ioboost.LOADS)
def test_iowait_boosts_as_the_kernels_own_boost(runs, load):
    run = runs["iowait", load]
    assert run.asked > 1000
    assert run.other == 0


@pytest.mark.parametrize("load", PINNED)
def test_iowait_requests_the_kernels_own_frequencies(runs, load):
    ours, theirs = runs["iowait", load], runs[ioboost.KERNELS_OWN, load]
    khz = theirs.khz(PINNED[load])
    assert ours.khz(PINNED[load]) == pytest.approx(khz, rel=TOLERANCE)
    assert ours.iops == pytest.approx(theirs.iops, rel=TOLERANCE)


@pytest.mark.parametrize("load", PINNED)
def test_a_cpu_boost_requests_more_and_reads_more(runs, load):
    with_it, without = runs["iowait", load], runs["none", load]
    assert with_it.khz(PINNED[load]) > 1.5 * without.khz(PINNED[load])
    assert with_it.iops > 1.03 * without.iops


@pytest.mark.parametrize("load", PINNED)
@pytest.mark.parametrize("boost", ["per-task", "per-task-v2"])
def test_useless_boost_is_dropped(runs, boost, load):
    # The lowest levels ask for no more than the lowest frequency that is worth its energy, so no
    # level brings more reads than the one before.
    with_it, without = runs[boost, load], runs["none", load]
    assert with_it.khz(PINNED[load]) < 1.15 * without.khz(PINNED[load])
    assert with_it.iops == pytest.approx(without.iops, rel=TOLERANCE)


@pytest.mark.parametrize("boost", ["per-task", "per-task-v2"])
def test_a_boost_that_pays_is_kept(runs, boost):
    run, without = runs[f"{boost},{ioboost.COARSE}", "reader-little"], runs["none", "reader-little"]
    assert run.khz("little") > 1.5 * without.khz("little")
    assert run.iops > 1.05 * without.iops


def test_boosted_task_moves_to_a_big_cpu(kernel, runs):
    # A boost of the CPU ends at a little CPU's capacity, with the task on it. Whether the boosted
    # task moves depends on the phase, and what else is in the guest changes that.
    boost = f"per-task,{ioboost.COARSE}"
    phases = [runs[boost, "reader"]]
    for loads in (["reader"], ["reader", "readers"]):
        phases.append(ioboost.run(kernel, boost, loads)[0])
    theirs = runs[ioboost.KERNELS_OWN, "reader"]
    moved = [run for run in phases if len(run.requests["big"]) > 100]
    assert moved and len(theirs.requests["big"]) < 100
    assert all(run.iops > theirs.iops for run in moved)


def test_only_existing_frequencies_are_requested(runs):
    offered = {d.name: {mhz * 1000 for mhz, _ in d.opps} for d in ioboost.DOMAINS}
    for run in runs.values():
        for domain, requests in run.requests.items():
            assert {khz for _, khz in requests} <= offered[domain]


def test_a_run_can_be_repeated(kernel, runs):
    again = ioboost.run(kernel, "none", list(ioboost.LOADS))
    assert again == [runs["none", load] for load in ioboost.LOADS]
