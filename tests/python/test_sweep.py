# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sweeps: points by content, a store that survives its writers, and what is read from it."""

import fcntl
import json
import os
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest

import torpor
from processes import start, wait_for
from torpor.run.sweeps import parts, points, run, store
from torpor.run.sweeps.axes import read_toml
from torpor.run.sweeps.identity import Identities

ROOT = Path(__file__).resolve().parents[2]

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def stored(where):
    """Return how many points a store has, which may not exist yet."""
    return len(torpor.open_store(where).rows()) if (where / "store.json").exists() else 0


def axes(recording, **given):
    """Two governors on two machines, replayed."""
    usual = {
        "trace": [str(recording)],
        "platform": ["pixel6", "rk3399"],
        "governor": ["menu", "teo"],
    }
    return torpor.Axes(**(usual | given))


def test_a_sweep_is_the_product_of_its_axes(recording):
    found = axes(recording, workload=["periodic"], seeds=3, hz=[250, 1000]).points()
    replays = [point for point in found if point.kind == "replay"]
    assert len(replays) == 2 * 2 * 2
    assert len(found) - len(replays) == 2 * 2 * 2 * 3
    assert len(set(found)) == len(found)


def test_axes_of_simulations_do_not_multiply_replays(recording):
    found = axes(recording, cpufreq=["schedutil", "performance"], seeds=5).points()
    assert len(found) == 4


def test_cpufreq_file_is_part_of_the_key(tmp_path):
    mine = tmp_path / "mine.c"
    mine.write_text("/* one */", encoding="utf-8")
    asked = [f"{mine}", f"{mine},x=1", "schedutil"]
    made = torpor.Axes(
        workload=["periodic"], platform=["pixel6"], governor=["menu"], cpufreq=asked, seeds=1
    )

    def keys() -> list[str]:
        names = Identities()
        return [names.key(point) for point in made.points()]

    before = keys()
    assert len(set(before)) == 3
    mine.write_text("/* two */", encoding="utf-8")
    assert [old == new for old, new in zip(before, keys(), strict=True)] == [False, False, True]


def test_a_background_is_part_of_a_points_name(tmp_path):
    mine = tmp_path / "mine.toml"
    text = torpor.workload_toml("background-vm")
    made = torpor.Axes(
        workload=["periodic"],
        platform=["pixel6"],
        governor=["menu"],
        seeds=1,
        options={"background": str(mine)},
    )
    (point,) = made.points()
    mine.write_text(text, encoding="utf-8")
    before = Identities().key(point)
    assert Identities().key(point) == before
    mine.write_text(f"{text}# changed\n", encoding="utf-8")
    assert Identities().key(point) != before


def test_ties_take_the_place_of_the_product(recording):
    made = axes(recording, platform=[], trace=[], hz=[250, 1000])
    made.ties = [
        {"trace": str(recording), "platform": "pixel6"},
        {"workload": "frames", "platform": ["rk3399", "i5-10600k"]},
    ]
    made.seeds = 1
    pairs = {(p.source, p.platform) for p in made.points()}
    assert pairs == {
        (str(recording), "pixel6"),
        ("frames", "rk3399"),
        ("frames", "i5-10600k"),
    }
    assert len(made.points()) == 3 * 2 * 2


def test_patterns_find_governors_that_ship_and_files(recording, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").touch()
    found = axes(recording, governor=["teo*", f"{tmp_path}/*.c,x=1|2"], platform=["pixel6"])
    files = [f"{tmp_path}/{name}.c,x={x}" for name in "ab" for x in (1, 2)]
    assert [p.governor for p in found.points()] == ["teo-6.12", "teo-6.6", "teo", *files]


def test_numbers_of_machines_and_workloads_are_axes(recording):
    made = axes(recording, workload=["periodic"], seeds=1, platform=["rk3399", "pixel6,hz=100|300"])
    made.param = [
        "platform.ipi_delivery_us=1..2",
        "workload.blinker.count=3",
        "device.emmc.parallelism=2",
    ]
    found = made.points()
    behind = ["ipi_delivery_us=1,io_device.emmc.parallelism=2"]
    behind.append(behind[0].replace("=1,", "=2,"))
    names = ["rk3399", "pixel6,hz=100", "pixel6,hz=300"]
    assert {p.platform for p in found} == {f"{name},{text}" for name in names for text in behind}
    assert {p.source for p in found} == {str(recording), "periodic,blinker.count=3"}


def test_exclusions_match_all_of_their_patterns(recording):
    made = axes(recording)
    made.excluded = [{"platform": "rk*", "governor": "teo"}]
    assert ("rk3399", "teo") not in {(p.platform, p.governor) for p in made.points()}
    assert len(made.points()) == 3


def test_a_point_is_named_by_content(recording, tmp_path):
    copy = tmp_path / "copy.data"
    copy.write_bytes(recording.read_bytes())
    other = tmp_path / "other.data"
    other.write_bytes(recording.read_bytes() + b"x")
    names = Identities()

    def name(**given):
        point, *_ = axes(recording, platform=["pixel6"], governor=["teo"], **given).points()
        return names.key(point)

    first = name()
    assert name(trace=[str(copy)]) == first
    assert name(hz=[1000]) != first
    assert name(latency_limit=["50us"]) != first
    assert name(trace=[str(other)]) != first


def test_a_changed_governor_runs_its_points_alone(recording, tmp_path):
    mine = tmp_path / "mine.c"
    text = (ROOT / "governors/cpuidle/shallowest.c").read_text()
    mine.write_text(text)
    made = axes(recording, governor=["menu", str(mine)])
    where = tmp_path / "store"
    assert (torpor.sweep(made, where).done, torpor.sweep(made, where).done) == (4, 0)
    mine.write_text(text + "\n/* changed */\n")
    again = torpor.sweep(made, where)
    assert (again.done, again.known) == (2, 2)


def test_points_equal_the_commands_that_repeat_them(recording, tmp_path):
    made = axes(recording, workload=["periodic"], seeds=2, options={"duration": "1s"})
    done = torpor.sweep(made, tmp_path / "store")
    rows = done.store.rows()
    replayed = torpor.replay(recording, platform="rk3399", governors=["teo"]).runs[0]["metrics"]
    simulated = torpor.simulate(
        "periodic", platform="pixel6", governors=["menu", "teo"], seeds=2, duration="1s"
    ).to_dict()["runs"][1]["seeds"][1]["metrics"]
    for wanted, kind, platform, seed in (
        (replayed, "replay", "rk3399", None),
        (simulated, "simulation", "pixel6", 2),
    ):
        (row,) = [
            row
            for row in rows
            if (row["kind"], row["platform"], row["governor"], row["seed"])
            == (kind, platform, "teo", seed)
        ]
        assert {key: row[key] for key in wanted} == wanted


def test_crashed_governor_is_a_row_with_error(recording, crash, tmp_path):
    made = axes(recording, governor=["menu", str(crash)])
    done = torpor.sweep(made, tmp_path / "store")
    assert (done.done, done.failed) == (4, 2)
    errors = [row["error"] for row in done.store.rows() if row["governor"] == str(crash)]
    assert all("crash" in error for error in errors)
    assert torpor.sweep(made, tmp_path / "store").done == 0
    assert torpor.sweep(made, tmp_path / "store", retry=True).done == 2


def test_a_damaged_recording_is_rows_with_an_error(recording, tmp_path):
    bad = tmp_path / "bad.perf.data"
    bad.write_bytes(recording.read_bytes()[:100])
    done = torpor.sweep(axes(recording, trace=[str(recording), str(bad)]), tmp_path / "store")
    assert (done.done, done.failed) == (8, 4)


def test_shards_are_disjoint_and_whole(recording):
    planned = run.plan(
        axes(recording, governor=["menu", "teo", "ladder"], hz=[100, 250, 1000]).points()
    )
    parts = [run.shard(planned, index, 4) for index in range(4)]
    assert sum(map(len, parts)) == len(planned)
    assert set().union(*parts) == set(planned)


def test_killed_shares_are_finished_by_the_next_run(tmp_path):
    """Two shares at a time on one store, each killed in its midst, then run to the end."""
    where = tmp_path / "store"
    command = ["sweep", "-o", where, "-w", "periodic", "-p", "pixel6", "-g", "menu"]
    command += ["--seeds", "40", "--duration", "10s", "-j", "1"]
    shares = [start(*command, "--shard", f"{n}/2", **QUIET) for n in (1, 2)]
    wait_for(lambda: stored(where) > 4)
    for share in shares:
        share.kill()
        share.wait()
    kept = len(torpor.open_store(where).rows())
    assert 4 < kept <= 40
    again = [start(*command, "--shard", f"{n}/2", **QUIET) for n in (1, 2)]
    assert [share.wait(120) for share in again] == [0, 0]
    rows = torpor.open_store(where).rows()
    assert sorted(row["seed"] for row in rows) == list(range(1, 41))
    assert not any(row["error"] for row in rows)


def test_stores_merge_and_several_sweeps_write_to_one(recording, tmp_path):
    made = axes(recording)
    for index in range(2):
        torpor.sweep(made, tmp_path / f"part-{index}", part=(index, 2))
    merged = torpor.open_store(tmp_path / "whole", create=True)
    others = [torpor.open_store(tmp_path / f"part-{index}") for index in range(2)]
    assert merged.merge(others) == 4
    assert merged.merge(others) == 0
    assert torpor.sweep(made, merged.path).done == 0
    # Two that write at a time: neither waits, both are read.
    with merged.writer() as one, merged.writer() as other:
        row = {**parts.nested(merged.rows()[0])}
        one.add({**row, "point": "0" * 32})
        other.add({**row, "point": "1" * 32})
        assert len(merged.rows()) == 6
        assert merged.gc() == (0, 0) or len(merged.open_files) == 2
    assert len(merged.rows()) == 6
    assert merged.open_files == []


def test_a_reader_survives_that_shards_become_one(recording, tmp_path, monkeypatch):
    done = torpor.sweep(axes(recording), tmp_path / "store")
    gone = tmp_path / "store" / "points" / "gone.parquet"
    listings = iter([[gone, *done.store.shards]])
    real = store.Store.shards.fget
    monkeypatch.setattr(
        store.Store, "shards", property(lambda self: next(listings, None) or real(self))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(done.store.rows()) == 4


def test_batch_of_slow_points_is_handed_over_in_time(monkeypatch):
    """Cheap points go in batches, of which slow ones after them are given back."""
    every = torpor.Axes(workload=["periodic"], platform=["pixel6"], governor=["menu"], seeds=60)
    named = [(f"{number:032x}", point) for number, point in enumerate(every.points())]
    slow = {name for name, _ in named[40:]}

    def run_point(name, *_):
        time.sleep(0.006 * (name in slow))
        return parts.Line(name.encode(), False, 6.0 if name in slow else 0.01)

    monkeypatch.setattr(points, "run_point", run_point)
    batches = [
        [line.text.decode() for line in lines] for lines in run._Threads(1, None).lines(named)
    ]
    assert sorted(name for batch in batches for name in batch) == [name for name, _ in named]
    assert max(map(len, batches)) > 5
    assert max(len(slow.intersection(batch)) for batch in batches) <= 2


def test_ctrl_c_keeps_finished_points(tmp_path):
    where = tmp_path / "store"
    command = ["sweep", "-o", where, "-w", "frames", "-p", "pixel6", "-g", "menu"]
    process = start(*command, "--seeds", "200", "--duration", "30s", "-j", "1")
    wait_for(lambda: stored(where))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command continues from there" in said
    assert 0 < len(torpor.open_store(where).rows()) < 200
    assert torpor.open_store(where).open_files == []


def test_a_torn_line_costs_its_point_alone(recording, tmp_path):
    done = torpor.sweep(axes(recording), tmp_path / "store")
    rows = [parts.nested(row) for row in done.store.rows()]
    for shard in done.store.shards:
        shard.unlink()
    lines = "".join(json.dumps({**row, "check": parts.check(row)}) + "\n" for row in rows)
    (done.store.path / "open" / "left.jsonl").write_text(lines[:-20])
    assert len(done.store.rows()) == 3


def test_sweep_adopts_lines_of_a_killed_one(recording, tmp_path):
    done = torpor.sweep(axes(recording), tmp_path / "store")
    row = parts.nested(done.store.rows()[0])
    names = {"mine": store._HOST + "-left", "written": store._HOST + "-busy", "far": "else-left"}
    paths = {key: done.store.path / "open" / f"{name}.jsonl" for key, name in names.items()}
    for number, path in enumerate(paths.values()):
        mine = row | {"point": f"{number}" * 32}
        path.write_text(json.dumps(mine | {"check": parts.check(mine)}) + "\n")
    with open(paths["written"], "rb") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        torpor.sweep(axes(recording, governor=["ladder"]), tmp_path / "store")
    assert [path.exists() for path in paths.values()] == [False, True, True]
    found = [parts.read_part(path) for path in done.store.shards]
    names = [record["point"] for part in found for record in part.records]
    assert names.count("0" * 32) == 1
    assert not {"1" * 32, "2" * 32} & set(names)


def test_a_full_disk_keeps_what_was_added(recording, tmp_path, monkeypatch):
    opened = torpor.open_store(tmp_path / "store", create=True)
    done = torpor.sweep(axes(recording), tmp_path / "other")
    row = parts.nested(done.store.rows()[0])
    limit = 0

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            if limit and len(data) > limit:
                return self.file.write(data[:limit])
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    with pytest.raises(OSError, match="No space"), opened.writer() as writer:
        writer._file = Full(writer._file)
        writer.add({**row, "point": "a" * 32})
        limit = 10
        writer.add({**row, "point": "b" * 32})
    assert [r["point"] for r in opened.rows()] == ["a" * 32]


def test_stores_of_others_are_refused(tmp_path):
    with pytest.raises(torpor.SweepError, match=r"is not a store: it has no store\.json"):
        torpor.open_store(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(torpor.SweepError, match="not empty"):
        torpor.open_store(tmp_path, create=True)
    (tmp_path / "store.json").write_text('{"format": 99, "kind": "sweep"}')
    with pytest.raises(torpor.SweepError, match="format 99, and this Torpor reads format"):
        torpor.open_store(tmp_path)
    (tmp_path / "store.json").write_text("[")
    with pytest.raises(torpor.SweepError, match="is not a store"):
        torpor.open_store(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trace": []}, "neither a recording nor a workload"),
        ({"governor": []}, "the axis `governor` is empty"),
        ({"platform": []}, "the axis `platform` is empty"),
        ({"trace": ["nothing/*.dat"]}, "no recording matches `nothing"),
        ({"platform": ["zz*"]}, "no platform matches `zz"),
        ({"workload": ["zz*"]}, "no workload matches `zz"),
        ({"governor": ["teo,x=5..1"]}, "the range 5..1 is empty"),
        ({"ties": [{"platfrom": "pixel6"}]}, "`tie` names `platfrom`"),
        ({"ties": [{"platform": "pixel6"}]}, "both on its own and in `tie`"),
        ({"excluded": [{"governer": "x"}]}, "`exclude` names `governer`"),
        ({"param": ["hz=1"]}, "expected platform.PATH=VALUES"),
        ({"param": ["platform.hz"]}, "expected platform.PATH=VALUES"),
        ({"param": ["workload.x=1"]}, "`workload.x=1`: there is no workload"),
        ({"options": {"duraton": "1s"}}, "did you mean `duration`"),
        ({"excluded": [{"platform": "*"}]}, "leaves no point"),
    ],
)
def test_impossible_sweep_gives_the_reason(recording, tmp_path, given, message):
    with pytest.raises(torpor.SweepError, match=message.replace("*", r"\*")):
        torpor.sweep(axes(recording, **given), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_unknown_parameter_stops_it_early(recording, tmp_path):
    made = axes(recording, governor=["menu", "teo,no_such=1..3"])
    with pytest.raises(torpor.GovernorError, match="no_such"):
        torpor.sweep(made, tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("param", "message"),
    [
        ("platform.hertz=100", "`hertz` is not a number of its file"),
        ("platform.name=1", "`name` is not a number of its file"),
        ("platform.hz=fast", "hz: `fast` is not a number"),
        ("platform.hz=251", "100, 250, 300 or 1000"),
        ("platform.hz=100|-1", "allowed: 100, 250, 300 or 1000"),
        ("platform.exit_latency_us=1", "`exit_latency_us` occurs 6 times in its file"),
    ],
)
def test_impossible_number_stops_the_sweep_early(recording, tmp_path, param, message):
    made = axes(recording, platform=["rk3399"], param=[param])
    with pytest.raises(torpor.PlatformError, match=message):
        torpor.sweep(made, tmp_path / "store")
    made = axes(recording, workload=["frames"], param=["workload.task.ui.phase.9.run_us=1"])
    with pytest.raises(torpor.WorkloadError, match="is not a number of its file"):
        torpor.sweep(made, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_number_makes_points_of_its_own(recording, tmp_path):
    made = axes(recording, platform=["rk3399"], governor=["menu"], param=["platform.hz=100|1000"])
    done = torpor.sweep(made, tmp_path / "store")
    plain = torpor.sweep(
        axes(recording, platform=["rk3399"], governor=["menu"]), tmp_path / "store"
    )
    assert (done.done, plain.done) == (2, 1)
    found = {row["platform"]: row["idle_power_mw"] for row in plain.store.rows()}
    wanted = torpor.replay(recording, platform="rk3399,hz=100", governors=["menu"]).runs[0]
    assert found["rk3399,hz=100"] == wanted["metrics"]["idle_power_mw"]
    assert len(found) == 3


def test_memory_bounds_a_recording(recording, tmp_path):
    size = recording.stat().st_size
    held = torpor.load_trace(recording).held_bytes
    assert held > size
    for room, message in (
        (size - 1, "and --memory is"),
        (held - 1, "of memory, which is the bound"),
    ):
        with pytest.raises(torpor.SweepError, match=message):
            torpor.sweep(axes(recording), tmp_path / "store", memory=room)
    # One point at a time if no two fit.
    assert torpor.sweep(axes(recording), tmp_path / "store", memory=4 * held).done == 4


def test_a_product_beyond_the_limit_is_refused(recording, tmp_path):
    with pytest.raises(torpor.SweepError, match="4 points, and 3 are the most"):
        torpor.sweep(axes(recording), tmp_path / "store", points_max=3)


def test_file_equals_the_options(recording, tmp_path):
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        f"""
        [axes]
        trace = "{recording}"
        platform = ["pixel6", "rk3399"]
        governor = ["menu", "teo"]
        [[exclude]]
        platform = "rk3399"
        governor = "teo"
        """
    )
    expected = axes(recording)
    expected.excluded = [{"platform": "rk3399", "governor": "teo"}]
    assert read_toml(spec).points() == expected.points()
    for text, message in (
        ("axis = 1", "`axis` is unknown: expected one of axes"),
        ("[axes]\ntraces = 1", "`axes.traces` is unknown: expected one of trace"),
        ("[axes]\nseeds = 0", "`axes.seeds` is 0: expected a whole number >= 1"),
        ("[", "read sweep"),
    ):
        spec.write_text(text)
        with pytest.raises(torpor.SweepError, match=message):
            read_toml(spec)


def test_polars_reads_a_store_without_torpor(recording, tmp_path):
    polars = pytest.importorskip("polars")
    done = torpor.sweep(axes(recording), tmp_path / "store")
    frame = polars.read_parquet(os.fspath(tmp_path / "store" / "points" / "*.parquet"))
    assert sorted(frame["governor"].to_list()) == ["menu", "menu", "teo", "teo"]
    assert done.store.to_polars().collect().equals(frame)


def test_frames_have_each_point_once(recording, tmp_path):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    empty = torpor.open_store(tmp_path / "empty", create=True)
    assert empty.to_polars().collect().height == empty.to_dataset().count_rows() == 0
    done = torpor.sweep(axes(recording), tmp_path / "store")
    row, *_ = (parts.nested(row) for row in done.store.rows())
    left = [row, row | {"point": "0" * 32}]
    text = "".join(json.dumps({**each, "check": parts.check(each)}) + "\n" for each in left)
    (done.store.path / "open" / "left.jsonl").write_text(text)
    frame = done.store.to_polars()
    assert frame.collect().height == len(done.store.rows()) == 5
    assert frame.collect_schema().names() == list(done.store.table().to_dict())
    assert done.store.to_dataset().count_rows() == 6
