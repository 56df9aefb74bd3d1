# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sweeps on a Dask cluster give the same rows as local ones, even if a worker dies."""

import json
import os
import signal
import types
from pathlib import Path

import pytest

import torpor
from torpor.run.sweeps import cluster
from torpor.run.sweeps.batches import Waiting
from torpor.run.sweeps.parts import Line

distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Two worker processes, with folders of their own."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as made:
        yield made


def same(rows):
    """Return the common part of two runs of a point."""
    return [{key: value for key, value in row.items() if key != "run_ms"} for row in rows]


def test_a_worker_that_dies_costs_time_alone(workers, recording, tmp_path):
    mine = tmp_path / "mine.c"
    mine.write_text((ROOT / "governors/cpuidle/shallowest.c").read_text())
    machine = tmp_path / "machine.toml"
    machine.write_text(torpor.platform_toml("rk3399"))
    axes = torpor.Axes(
        trace=[str(recording)],
        workload=["periodic"],
        platform=["pixel6", f"{machine},hz=1000"],
        governor=["menu", f"{mine}"],
        seeds=12,
        options={"duration": "200ms"},
    )
    with distributed.Client(workers, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())

        def kill(state):
            if state.done == 3:
                os.kill(pids[0], signal.SIGKILL)

        there = torpor.sweep(
            axes, tmp_path / "there", dask=workers.scheduler_address, progress=kill
        )
        client.wait_for_workers(2, timeout=60)
        now = client.run(os.getpid).values()
    assert pids[0] not in now and pids[1] in now
    assert (there.done, there.failed, there.is_interrupted) == (2 * 2 * 13, 0, False)
    here = torpor.sweep(axes, tmp_path / "here")
    assert same(there.store.rows()) == same(here.store.rows())
    # Whatever a worker's points share, it got once.
    copies = list(Path(workers.workers[1].local_directory).rglob("*.perf.data"))
    assert len(copies) <= 2


def test_a_batch_that_kills_workers_names_the_point(monkeypatch):
    """Points of a batch whose workers died go alone, and the one that kills has the error."""

    class Dead:
        def result(self):
            worker = types.SimpleNamespace(address="tcp://127.0.0.1:1")
            raise distributed.KilledWorker("torpor-1", worker, 3)

    monkeypatch.setattr(distributed, "Client", lambda *_, **__: None)
    made = cluster.Cluster("nowhere")
    points = torpor.Axes(workload=["periodic"], platform=["pixel6"], governor=["menu"], seeds=20)
    named = [(f"{number:032x}", point) for number, point in enumerate(points.points())]
    made._waiting = Waiting(named, aim_ms=250.0)
    made._waiting.learn([Line(b"", False, 0.0)] * 8)
    batch = made._next_batch(1)
    assert 1 < len(batch) < 20
    assert made._lines_of(Dead(), batch) == []
    left = [made._next_batch(1) for _ in batch]
    assert sorted(name for ((name, _),) in left) == sorted(name for name, _ in batch)
    (line,) = made._lines_of(Dead(), left[0])
    row = json.loads(line.text)
    assert line.has_error and row["point"] == left[0][0][0] and "died" in row["error"]


def test_parcels_are_named_by_content(recording, tmp_path):
    copy = tmp_path / recording.name
    copy.write_bytes(recording.read_bytes())
    (one, files), (other, _) = (cluster._file_parcel(str(path)) for path in (recording, copy))
    assert one == other
    assert files() == {recording.name: recording.read_bytes()}
    assert cluster._file_parcel("periodic") is None
    # A tree's governor keeps the place from which its kernel is known.
    folder = tmp_path / "linux/drivers/cpuidle/governors"
    folder.mkdir(parents=True)
    (tmp_path / "linux/Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\n")
    (folder / "mine.c").write_text((ROOT / "governors/cpuidle/shallowest.c").read_text())
    parcel, files = cluster._governor_parcel(f"{folder}/mine.c,x=1")
    assert parcel.main == "drivers/cpuidle/governors/mine.c"
    assert set(files()) == {parcel.main, "Makefile"}


def test_unreachable_dask_scheduler_is_reported(recording, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    axes = torpor.Axes(trace=[str(recording)], platform=["pixel6"], governor=["menu"])
    with pytest.raises(torpor.SweepError, match="no Dask scheduler answers"):
        torpor.sweep(axes, tmp_path / "s", dask="127.0.0.1:9")
    assert not (tmp_path / "s").exists()
