# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which points of a store are compared with each other: by windows, builds, and files' order."""

import itertools
import os
import random
import time

import pytest
from attack.stores import a_row

import torpor
from torpor.ask.fleet import fleet
from torpor.run.shadow import live, rollup
from torpor.run.sweeps import parts, ranks, store
from torpor.run.sweeps.axes import Point

MINUTE_NS = rollup.MINUTE_NS
#: 2026-01-01, 00:00 UTC, and some milliseconds, as no shadow begins with a minute.
BEGIN_NS = 1_767_225_600_250_000_000
LIMITS = [torpor.Limit("idle_power_mw", worse_than_pct=2)]


def a_window(begin_ns, powers_mw):
    """A minute with the power of each governor."""
    values = {name: {"idle_power_mw": power} for name, power in powers_mw.items()}
    return live.Window(begin_ns, MINUTE_NS, 0, values)


def at_load(minute, load, offset_ns=0):
    """A minute in which teo takes 10 % more than menu, whatever the load."""
    powers = {"menu": 100.0 * load + minute % 7, "teo": 1.1 * (100.0 * load + minute % 7)}
    return a_window(BEGIN_NS + minute * MINUTE_NS + offset_ns, powers)


def kept(folder, windows, host="a", governors=("menu", "teo"), **more):
    """Write windows as a shadow does."""
    point = Point("shadow", host, "server", "", options='{"under": "menu"}')
    with rollup.Rollup(folder, point, governors, **more) as writer:
        writer.add(windows)
    return folder


def judged(folder):
    """The verdict on teo, against menu."""
    (verdict,) = torpor.gate(folder, folder, LIMITS, base_governor="menu", candidate_governor="teo")
    return verdict


def relative(result):
    """The change of teo from menu over all minutes, in percent, and their number."""
    group = result["groups"][0]
    return group["comparison"]["rows"][0]["cells"][1]["change"]["relative_pct"], group["minutes"]


def assert_ten_percent(folder, minutes):
    for is_joined in (False, True):
        if is_joined:
            torpor.open_store(folder).gc()
        verdict = judged(folder)
        assert verdict["is_broken"]
        assert verdict["change"] / verdict["base"] == pytest.approx(0.1)
        assert relative(fleet([folder])) == (pytest.approx(10), minutes)
        post = ranks.view(torpor.open_store(folder).points(), base="menu")
        assert post.tables[0].rows[0][3].value == pytest.approx(10)


@pytest.mark.parametrize("jitter_ns", [0, 1, 7 * 10**6])
def test_clock_set_back_mixes_no_windows(tmp_path, jitter_ns):
    before = [at_load(minute, 1) for minute in range(40)]
    # Twenty minutes come again, at three times the load.
    after = [at_load(minute, 3, jitter_ns) for minute in range(20, 60)]
    assert_ten_percent(kept(tmp_path / "s", before + after), 80)


@pytest.mark.parametrize("offset_ns", [0, 1, 9 * 10**9])
def test_two_shadows_of_a_host_stay_apart(tmp_path, offset_ns):
    kept(tmp_path / "s", [at_load(minute, 1) for minute in range(30)])
    kept(tmp_path / "s", [at_load(minute, 5, offset_ns) for minute in range(30)])
    assert_ten_percent(tmp_path / "s", 60)


def test_window_stored_twice_counts_once(tmp_path):
    windows = [at_load(minute, 1) for minute in range(20)]
    for name in ("a", "b"):
        kept(tmp_path / name, windows)
    kept(tmp_path / "a", windows[5:])
    assert relative(fleet([tmp_path / "a", tmp_path / "b"]))[1] == 20
    assert_ten_percent(tmp_path / "a", 20)


def test_gc_separates_no_window(tmp_path, monkeypatch):
    folder = tmp_path / "s"
    for first in range(0, 15, 3):
        kept(folder, [at_load(minute, 1) for minute in range(first, first + 3)])
    before = fleet([folder])["groups"]
    monkeypatch.setattr(store, "_SHARD_POINTS", 7)
    opened = torpor.open_store(folder)
    opened.gc()
    assert sorted(parts.read_columns(path).length for path in opened.shards) == [2, 7, 7, 7, 7]
    assert fleet([folder])["groups"] == before


def test_seed_has_the_begin_of_its_window():
    window = at_load(17, 1, 123)
    begin_ns = rollup.begin_ns(rollup.seed_of(window))
    assert begin_ns == window.begin_ns // 10**6 * 10**6
    # As earlier versions wrote it.
    assert rollup.begin_ns(BEGIN_NS // MINUTE_NS) == BEGIN_NS // MINUTE_NS * MINUTE_NS


def old_minutes(folder, minutes, powers_mw, first):
    """Minutes as earlier versions wrote them: the seed is the minute."""
    rows = [
        a_row(
            first + 10 * minute + number,
            kind="shadow",
            source="a",
            governor=governor,
            seed=BEGIN_NS // MINUTE_NS + minute,
            metrics={"idle_power_mw": power},
        )
        for minute in minutes
        for number, (governor, power) in enumerate(powers_mw.items())
    ]
    made = torpor.open_store(folder, create=True)
    made.name_governors(powers_mw)
    made.add(rows)


def test_ambiguous_minutes_are_left_out_and_counted(tmp_path):
    folder = tmp_path / "s"
    old_minutes(folder, range(20), {"menu": 100.0, "teo": 110.0}, 0)
    # The last five minutes have a second window each, at another load.
    old_minutes(folder, range(15, 20), {"menu": 300.0, "teo": 330.0}, 1000)
    assert relative(fleet([folder])) == (pytest.approx(10), 15)
    points = torpor.open_store(folder).points()
    assert points.paired.left_out == 20
    (note,) = points.paired.notes
    assert note in fleet([folder])["notes"] and note in ranks.view(points).notes
    with pytest.warns(parts.StoreWarning, match="20 points"):
        assert judged(folder)["change"] == pytest.approx(10)


def test_points_pair_within_a_build(tmp_path):
    made = torpor.open_store(tmp_path / "s", create=True)
    # Names by which each order of the builds comes up.
    numbers, factor = itertools.count(1), {"menu": 1, "teo": 1.1}
    for seed in range(8):
        cells = [(build, governor) for build in "xy" for governor in ("menu", "teo")]
        random.Random(seed).shuffle(cells)
        made.add(
            [
                a_row(
                    next(numbers),
                    kind="simulation",
                    source="frames",
                    seed=seed,
                    engine=build * 12,
                    governor=governor,
                    metrics={"idle_power_mw": {"x": 100, "y": 200}[build] * factor[governor]},
                )
                for build, governor in cells
            ]
        )
    # One build alone has this governor, so that the others of its sample are that build's.
    row = a_row(99, kind="simulation", source="frames", seed=0, engine="y" * 12, governor="ladder")
    made.add([row])
    points = made.points()
    paired = points.paired
    assert paired.left_out == 16
    assert {points["engine"][at][0] for at in paired.places if points["seed"][at] == 0} == {"y"}
    with pytest.warns(parts.StoreWarning):
        verdict = judged(tmp_path / "s")
    assert verdict["change"] / verdict["base"] == pytest.approx(0.1)


def test_edited_file_leaves_the_others_compared(tmp_path):
    made = torpor.open_store(tmp_path / "s", create=True)
    # The same path with other content is another point of the same name.
    for number, (governor, power) in enumerate(
        [("menu", 1.0), ("teo", 1.1), ("./my.c", 0.5), ("./my.c", 2.0)]
    ):
        metrics = {"idle_power_mw": power}
        made.add([a_row(number, source="r.dat", governor=governor, metrics=metrics)])
    points = made.points()
    assert sorted(points["governor"][at] for at in points.paired.places) == ["menu", "teo"]
    assert points.paired.left_out == 2


def drawn(rng, folder):
    """A few stores that have some points in common: shadows, failed runs, runs of two builds."""
    folders = [folder / name for name in "abc"]
    for path in folders:
        windows = [at_load(rng.randrange(4), rng.choice([1, 3])) for _ in range(5)]
        if rng.random() < 0.5:
            del windows[0].values["teo"]
        kept(path, windows, host=rng.choice("ab"))
        made = torpor.open_store(path)
        made.name_governors(["menu", "teo"])
        rows = []
        for _ in range(12):
            governor, seed, build = rng.choice("mt"), rng.randrange(3), rng.choice("xy")
            number = seed + 10 * "xy".index(build) + 100 * "mt".index(governor)
            error = rng.choice([None, None, "crashed", "ended"])
            power = 100.0 + number
            rows.append(
                a_row(
                    number,
                    kind="simulation",
                    source="frames",
                    seed=seed,
                    engine=build * 12,
                    governor={"m": "menu", "t": "teo"}[governor],
                    error=error,
                    metrics={} if error else {"idle_power_mw": power},
                    run_ms=float(rng.randrange(3)),
                )
            )
        made.add(rows[:6])
        made.add(rows[6:])
    return folders


def seen(folder):
    """What the readers show of a store."""
    points = torpor.open_store(folder).points()
    verdicts = torpor.gate(
        *(folder, folder, [torpor.Limit("idle_power_mw", most=1.0)]), candidate_governor="menu"
    )
    result = fleet([folder])
    shown = {key: result[key] for key in ("hosts", "groups", "notes")}
    return ranks.view(points, base="menu"), verdicts, shown


@pytest.mark.filterwarnings("ignore::torpor.run.sweeps.parts.StoreWarning")
@pytest.mark.parametrize("seed", range(3))
def test_results_ignore_merge_order_and_gc(tmp_path, seed):
    rng = random.Random(seed)
    folders = drawn(rng, tmp_path)
    found = []
    for number, order in enumerate([folders, folders[::-1], folders[1:] + folders[:1]]):
        merged = torpor.open_store(tmp_path / f"m{number}", create=True)
        for path in order:
            merged.merge([torpor.open_store(path)])
        found.append(seen(merged.path))
        merged.gc()
        found.append(seen(merged.path))
    assert all(each == found[0] for each in found)
    together = fleet(folders)
    assert {key: together[key] for key in ("hosts", "groups", "notes")} == found[0][2]


@pytest.mark.parametrize("order", [(None, "crashed"), ("crashed", None)])
def test_merge_keeps_a_success(tmp_path, order):
    made = []
    for name, error in zip("ab", order, strict=True):
        made.append(torpor.open_store(tmp_path / name, create=True))
        made[-1].add([a_row(1, error=error, metrics={} if error else {"idle_power_mw": 2.0})])
    assert made[0].merge([made[1]]) == (1 if order[0] else 0)
    assert [row["error"] for row in made[0].rows()] == [None]
    assert made[0].to_polars().collect()["error"].to_list() == [None]
    assert made[0].merge([made[1]]) == 0
    made[0].gc()
    assert [row["error"] for row in made[0].rows()] == [None]


@pytest.mark.parametrize("is_joined", [False, True])
def test_keep_deletes_own_old_minutes_alone(tmp_path, is_joined):
    folder, day_ns = tmp_path / "s", 24 * 60 * MINUTE_NS
    now_ns = time.time_ns()
    old, new = (
        [a_window(begin_ns + n * MINUTE_NS, {"menu": 1.0, "teo": 2.0}) for n in range(3)]
        for begin_ns in (now_ns - 9 * day_ns, now_ns - day_ns)
    )
    for host in "ab":
        kept(folder, old, host)
        kept(folder, new, host)
    made = torpor.open_store(folder)
    made.add([a_row(number) for number in range(5)])
    if is_joined:
        made.gc()
    else:
        # A shard's own age says nothing: one that was copied is as old as its source.
        for path in made.shards:
            os.utime(path, (0, 0))
    kept(folder, [], "a", keep_ns=7 * day_ns)
    points = made.points()
    sizes = [
        sum(pair == (kind, source) for pair in zip(points["kind"], points["source"], strict=True))
        for kind, source in (("shadow", "a"), ("shadow", "b"))
    ]
    assert sizes == [6, 12]
    assert points["kind"].count("replay") == 5
    hosts = zip(points["seed"], points["source"], strict=True)
    begins = [rollup.begin_ns(seed) for seed, host in hosts if host == "a"]
    assert min(begins) > now_ns - 7 * day_ns
