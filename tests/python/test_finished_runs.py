# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Stores of `simulate` and `study run`: finished runs are not lost."""

import contextlib
import json
import os
import re
import shutil
import signal
import warnings
from pathlib import Path

import pytest

import torpor as library
from processes import start, wait_for
from torpor.plugin import workload_content
from torpor.run.sweeps import parts
from torpor.run.sweeps.parts import StoreWarning
from torpor.run.sweeps.store import Writer, open_store

ROOT = Path(__file__).resolve().parents[2]
SIMULATE = ("simulate", "periodic", "-p", "pixel6", "-g", "menu", "-g", "teo", "--format", "json")


def simulate(tmp_path, **options):
    kept = {
        "platform": "pixel6",
        "governors": ["menu", "teo"],
        "duration": "50ms",
        "seeds": 3,
        "store": tmp_path / "store",
    }
    return library.simulate("periodic", **(kept | options))


def test_stored_run_equals_a_fresh_run(tmp_path):
    fresh = simulate(tmp_path, store=None)
    first = simulate(tmp_path)
    again = simulate(tmp_path)
    assert (fresh.resumed_runs, first.resumed_runs, again.resumed_runs) == (0, 0, 6)
    assert fresh.to_json() == first.to_json() == again.to_json()
    # With more seeds, only those are run; on any number of threads.
    more = simulate(tmp_path, seeds=4, threads=1)
    assert more.resumed_runs == 6
    assert more.to_json() == simulate(tmp_path, seeds=4, store=None).to_json()


@pytest.mark.parametrize("workload", ["frames", "fio-randread", "pipe"])
def test_every_kind_of_count_comes_back(tmp_path, workload):
    """Devices, histograms of many values, energies beyond 64 bits, the oracle's share."""
    options = {"platform": "rk3399", "governors": ["teo", "oracle"], "duration": "20ms"}
    runs = [
        library.simulate(workload, **options, seeds=2, store=store)
        for store in (None, tmp_path / "store", tmp_path / "store")
    ]
    assert runs[2].resumed_runs == 2
    assert runs[0].to_json() == runs[1].to_json() == runs[2].to_json()


def toml(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


OTHERS = {
    "duration": {"duration": "60ms"},
    "seed": {"seed": 10},
    "hz": {"hz": 1000},
    "a latency limit": {"latency_limit": "50us"},
    "a disabled state": {"disabled_states": [1]},
    "a frequency policy": {"cpufreq": ["powersave"]},
    "a governor's parameter": {"governors": ["ladder"]},
    "an IO boost": {"cpufreq": ["schedutil"], "io_boosts": ["none"]},
    "the oracle beside": {"governors": ["menu", "teo", "oracle"]},
}


def test_other_inputs_find_nothing(tmp_path):
    simulate(tmp_path)
    assert {what: simulate(tmp_path, **OTHERS[what]).resumed_runs for what in OTHERS} == (
        dict.fromkeys(OTHERS, 0)
    )


def test_inputs_are_recognised_by_content(tmp_path):
    text = library.platform_toml("pixel6")
    mine = toml(tmp_path, "mine.toml", text)
    simulate(tmp_path, platform=mine)
    other = re.sub(r"^hz = \d+", "hz = 100", text, count=1, flags=re.M)
    assert other != text
    assert simulate(tmp_path, platform=toml(tmp_path, "mine.toml", other)).resumed_runs == 0
    (tmp_path / "elsewhere").mkdir()
    moved = toml(tmp_path / "elsewhere", "mine.toml", text)
    assert simulate(tmp_path, platform=moved).resumed_runs == 6

    source = (ROOT / "governors" / "cpuidle" / "menu.c").read_text(encoding="utf-8")
    governor = toml(tmp_path, "mine.c", source)
    simulate(tmp_path, governors=[str(governor)])
    assert simulate(tmp_path, governors=[str(governor)]).resumed_runs == 3
    changed = re.sub(r"#define BUCKETS \d+", "#define BUCKETS 6", source)
    changed = changed if changed != source else source.replace("return 0;", "return 0 ;", 1)
    changed += "\nint changed_by_a_test = 1;\n"
    toml(tmp_path, "mine.c", changed)
    assert simulate(tmp_path, governors=[str(governor)]).resumed_runs == 0


def test_another_build_of_the_engine_finds_nothing(tmp_path, monkeypatch):
    from torpor.run.sweeps import identity

    simulate(tmp_path)
    monkeypatch.setattr(identity, "engine_id", lambda: "another")
    assert simulate(tmp_path).resumed_runs == 0


@pytest.mark.parametrize("damage", ["cut", "flip", "junk", "empty line"])
def test_damage_costs_a_run_and_never_a_result(tmp_path, damage):
    whole = simulate(tmp_path).to_json()
    path = as_killed(tmp_path / "store")
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[len(content) - 100 :]
    elif damage == "flip":
        # Within a line: without its end, two lines were one.
        content[content.index(b":", len(content) // 2)] ^= 1
    elif damage == "junk":
        content[:0] = bytes(range(256))
    else:
        content[:0] = b"\n\n"
    path.write_bytes(content)
    # The unfinished line of a writer that was killed is no damage.
    with contextlib.nullcontext() if damage == "cut" else pytest.warns(StoreWarning):
        again = simulate(tmp_path)
    # Junk before the first line makes that one unreadable.
    assert again.resumed_runs == (6 if damage == "empty line" else 5)
    assert again.to_json() == whole
    # Lost runs are there again, whole.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert simulate(tmp_path).resumed_runs == 6


@pytest.mark.parametrize("workload", ["periodic.toml", "in memory"])
def test_a_workload_of_ones_own_resumes(tmp_path, workload):
    text = library.workload_toml("periodic")
    if workload == "in memory":
        given = workload_content("periodic")
        other = {**given, "title": "another"}
    else:
        given = other = toml(tmp_path, workload, text)
    kept = {"platform": "pixel6", "governors": "menu", "duration": "50ms", "seeds": 2}
    kept["store"] = tmp_path / "store"
    assert library.simulate(given, **kept).resumed_runs == 0
    assert library.simulate(given, **kept).resumed_runs == 2
    if other is given:
        toml(tmp_path, workload, text.replace("title = ", "title = 'Another' # "))
    assert library.simulate(other, **kept).resumed_runs == 0


def test_a_point_of_a_sweep_is_counted_again(tmp_path):
    """A sweep keeps metrics alone, from which no simulation can continue."""
    axes = library.Axes(
        workload=["periodic"],
        platform=["pixel6"],
        governor=["menu", "teo"],
        seeds=3,
        options={"duration": "50ms"},
    )
    library.sweep(axes, tmp_path / "store")
    assert [simulate(tmp_path).resumed_runs for _ in range(2)] == [0, 6]
    store = library.open_store(tmp_path / "store")
    assert len(store.rows()) == 6
    assert "counts" not in store.rows()[0]
    # Merged stores continue, too.
    other = open_store(tmp_path / "other", create=True)
    other.merge([store])
    assert simulate(tmp_path, store=tmp_path / "other").resumed_runs == 6


def test_a_name_of_a_release_needs_no_source(tmp_path):
    kept = {"governors": ["menu-6.1", "teo-6.1,util_mode=step"]}
    made = [simulate(tmp_path, **kept) for _ in range(2)]
    assert [(one.resumed_runs, one.store_failure) for one in made] == [(0, None), (6, None)]


def test_a_full_disk_costs_the_store_alone(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "there")

    monkeypatch.setattr(Writer, "add", full)
    first = simulate(tmp_path)
    assert first.store_failure == "`there`: No space left on device"
    assert first.to_json() == simulate(tmp_path, store=None).to_json()


def as_killed(store):
    """Return a store's points as the file of a sweep that was killed."""
    (shard,) = open_store(store).shards
    lines = [parts.line_of(record) for record in parts.read_part(shard).records]
    shard.unlink()
    path = store / "open" / "elsewhere-1.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def started(args, cwd):
    return start(*args, cwd=cwd, env={**os.environ, "XDG_CACHE_HOME": str(cwd / "cache")})


def stores_in(folder):
    return list((folder / "cache" / "torpor" / "runs").glob("*"))


def wait_for_lines(folder, count, process):
    def has_lines():
        assert process.poll() is None, "the command ended before"
        found = [path for store in stores_in(folder) for path in store.glob("open/*.jsonl")]
        return found and found[0].read_bytes().count(b"\n") >= count

    wait_for(has_lines)


# Long enough that the end of it is far when a signal comes, on any machine.
LONG = (*SIMULATE, "--duration", "30s", "--seeds", "20", "-j", "1")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Output of the long simulation, and the store that the user named for it."""
    folder = tmp_path_factory.mktemp("fresh")
    out, _ = started((*LONG, "--store", "other"), folder).communicate(timeout=120)
    return out, folder / "other"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_interrupted_simulation_resumes(tmp_path, number, uninterrupted):
    process = started(LONG, tmp_path)
    wait_for_lines(tmp_path, 5, process)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGKILL: -9}.get(number, 128 + number), errors
    if number != signal.SIGKILL:
        result = json.loads(out)
        assert result["interrupted"] and 0 < result["options"]["seeds"] < 20
        assert "the same command continues from there" in errors
    resumed = started(LONG, tmp_path)
    out, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0
    assert "resumed: finished runs are taken from" in errors
    # Delivered, it is not kept.
    assert stores_in(tmp_path) == []
    fresh, named = uninterrupted
    assert fresh == out
    # A store that the user named is kept.
    assert len(library.open_store(named).rows()) == 40


STUDY = """
title = "t"
source = ["s"]
platform = "pixel6"
duration = "30s"
seeds = 20
calibration = "none"
[[column]]
name = "menu"
governor = "menu"
[[column]]
name = "teo"
governor = "teo"
[[table]]
title = "t"
workload = "periodic"
columns = ["menu", "teo"]
[[table.row]]
title = "power"
metric = "idle_power_mw"
published = { menu = 10, teo = 9 }
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_interrupted_study_resumes(tmp_path, number, status):
    toml(tmp_path, "mine.toml", STUDY)
    command = ("study", "run", "./mine.toml", "-j", "1")
    process = started(command, tmp_path)
    wait_for_lines(tmp_path, 5, process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == status
    # Half of the seeds are no result.
    assert out == ""
    resumed = started(command, tmp_path)
    out, errors = resumed.communicate(timeout=120)
    assert "resumed: finished runs are taken from" in errors
    assert "power" in out
    assert stores_in(tmp_path) == []


def test_a_sweep_knows_the_points_of_a_simulation(tmp_path):
    simulate(tmp_path)
    axes = library.Axes(
        workload=["periodic"],
        platform=["pixel6"],
        governor=["menu", "teo"],
        seeds=3,
        options={"duration": "50ms"},
    )
    assert library.sweep(axes, tmp_path / "store").done == 0
    swept = library.sweep(axes, tmp_path / "other")
    assert swept.done == 6
    rows = [
        [(row["governor"], row["seed"], row["idle_power_mw"]) for row in opened.rows()]
        for opened in (library.open_store(tmp_path / "store"), swept.store)
    ]
    assert sorted(rows[0]) == sorted(rows[1])


def test_world_writable_folder_has_no_store(tmp_path, monkeypatch):
    from torpor.run.finished import folder_of_command

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = folder_of_command("simulate", "x")
    assert path is not None and path.parent.stat().st_mode & 0o777 == 0o700
    assert path == folder_of_command("simulate", "x") != folder_of_command("simulate", "y")
    path.parent.chmod(0o777)
    assert folder_of_command("simulate", "x") is None
    shutil.rmtree(path.parent)
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    assert folder_of_command("simulate", "x") is None
