# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report of a true replay: the engine's results are what the samples say they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import sample
import torpor
from torpor.view import report

RECORDING = next((Path(__file__).parents[2] / "demo").glob("*.perf.data"), None)


@pytest.fixture(scope="module")
def result() -> dict:
    assert RECORDING
    replay = torpor.replay(
        str(RECORDING), platform="pixel6", governors=["shallowest", "menu", "oracle"]
    )
    return replay.to_dict()


def keys(value: object, path: str = "") -> set[str]:
    """Every path of keys in a result; what stands in a list counts once."""
    if isinstance(value, dict):
        # Names that come from the recording or the governor, and no part of the shape.
        if path.endswith(("event_counts", "carries", "metrics", "params", "cpu_map")):
            return {path}
        return set().union({path}, *(keys(v, f"{path}.{k}") for k, v in value.items()))
    if isinstance(value, list):
        return set().union({path}, *(keys(v, path) for v in value[:1]))
    return {path}


def test_samples_have_no_key_that_the_engine_lacks(result: dict) -> None:
    only_sampled = keys(sample.pixel(5)) - keys(result)
    # A recording without losses, a run without disabled states: nothing to compare with.
    assert {key for key in only_sampled if ".losses." not in key} == set()


def test_a_true_replay_renders_below_a_megabyte(result: dict) -> None:
    html = report.render(result)
    assert len(html.encode()) < 1_000_000
    for part in ("Where the time went", "Wake-up latency", "choice by choice", "Provenance"):
        assert part in html
    assert "nearest the oracle" in html


def test_the_page_shows_the_share_of_explained_decisions() -> None:
    guest = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
    dump = next(guest.glob("*before*"))
    replay = torpor.replay(
        str(next(guest.glob("trace.dat*"))),
        platform=str(dump),
        recorded_on=str(dump),
        governors=["menu-6.12", "teo-6.12"],
    )
    html = report.render(replay.to_dict())
    # Without the counters and with nothing fitted, so less than `torpor fidelity` finds.
    assert "verified: menu-6.12 agrees in 98." in html
