# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Stores that are damaged, odd, begun by many at once, or may not be written."""

import csv
import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from attack.stores import a_row

import torpor
from torpor.results.catalogue import RUNS, metrics
from torpor.run.sweeps import parts, store
from torpor.run.sweeps.parts import StoreWarning
from torpor.run.sweeps.ranks import view


def filled(folder: Path, count: int = 20) -> store.Store:
    """A store with one shard."""
    made = torpor.open_store(folder, create=True)
    with made.writer() as writer:
        for number in range(count):
            writer.add(a_row(number))
    return made


def line_of(record: dict) -> str:
    """Return a writer's line of a point."""
    return json.dumps({**record, "check": parts.check(record)}) + "\n"


def test_no_flipped_bit_of_a_shard_is_read(tmp_path):
    made = filled(tmp_path / "store")
    (shard,) = made.shards
    sound = shard.read_bytes()
    draw = random.Random(2)
    for _ in range(150):
        data = bytearray(sound)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        shard.write_bytes(data)
        with pytest.warns(StoreWarning, match=f"{shard.name}` is damaged"):
            assert made.rows() == []
    shard.write_bytes(sound)
    assert len(made.rows()) == 20


def test_a_ratio_keeps_its_fraction(tmp_path):
    made = torpor.open_store(tmp_path / "store", create=True)
    record = a_row(metrics={"sleeps_per_io": 0.43})
    with made.writer() as writer:
        writer.add(record)
    assert [row["sleeps_per_io"] for row in made.rows()] == [0.43]
    (made.path / "open" / f"{store._HOST}-left.jsonl").write_text(
        line_of(a_row(1, metrics=record["metrics"]))
    )
    assert [row["sleeps_per_io"] for row in made.rows()] == [0.43, 0.43]


@pytest.mark.parametrize("reader", ["to_polars", "to_dataset", "table", "names"])
def test_every_reader_leaves_a_damaged_shard_out(tmp_path, reader):
    if reader == "to_dataset":
        pytest.importorskip("pyarrow")
    made = filled(tmp_path / "store", 3)
    (first,) = made.shards
    with made.writer() as writer:
        writer.add(a_row(9))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.warns(StoreWarning, match="is damaged"):
        found = getattr(made, reader)()
    counts = {
        "to_polars": lambda: found.collect().height,
        "to_dataset": lambda: found.count_rows(),
        "names": lambda: len(found),
    }
    assert counts.get(reader, lambda: found.num_rows)() == 1


def test_points_of_a_damaged_shard_run_again(recording, tmp_path):
    axes = torpor.Axes(trace=[str(recording)], platform=["pixel6"], governor=["menu", "teo"])
    done = torpor.sweep(axes, tmp_path / "store")
    before = {row["point"]: row["wakeups"] for row in done.store.rows()}
    (shard,) = done.store.shards
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.warns(StoreWarning, match="the next sweep runs them again"):
        again = torpor.sweep(axes, tmp_path / "store")
    assert (again.done, again.known) == (2, 0)
    with pytest.warns(StoreWarning, match=r"it is now `.*\.damaged`"):
        again.store.gc()
    assert {row["point"]: row["wakeups"] for row in again.store.rows()} == before
    assert sorted(path.suffix for path in shard.parent.iterdir()) == [".damaged", ".parquet"]


ODD = {
    "null": "null",
    "a number": "5",
    "an object": "{}",
    "a list": "[]",
    "no point": '{"point": null}',
    "deep": "[" * 100_000,
    "torn": line_of(a_row())[:50],
    "not UTF-8": "\udcff",
    "a changed digit": line_of(a_row()).replace("1.25", "1.35"),
    "NaN": json.dumps({**a_row(metrics={"idle_power_mw": float("nan")}), "check": "0" * 16}),
    **{
        f"{key} of {value!r}": line_of({**a_row(), key: value})
        for key, value in [
            ("point", "x"),
            ("point", None),
            ("kind", "contest"),
            ("governor", 5),
            ("source", "\ud800"),
            ("hz", True),
            ("seed", 1 << 70),
            ("run_ms", "1"),
            ("run_ms", 10**400),
            ("options", "[]"),
            ("options", "{"),
            ("metrics", None),
            ("metrics", {"wakeups": 1.5}),
            ("metrics", {"idle_power_mw": "1"}),
            ("metrics", {"idle_power_mw": [1]}),
        ]
    },
}


@pytest.mark.parametrize("line", ODD.values(), ids=ODD)
def test_an_odd_line_is_named_and_costs_itself(tmp_path, line):
    made = filled(tmp_path / "store", 1)
    left = made.path / "open" / f"{store._HOST}-left.jsonl"
    text = line_of(a_row(5)) + line.rstrip("\n") + "\n" + line_of(a_row(6))
    left.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.warns(StoreWarning, match=r"left\.jsonl`:2: "):
        assert [row["source"] for row in made.rows()] == [f"recording-{n}.dat" for n in (0, 0, 1)]
    with pytest.warns(StoreWarning, match=r"left\.jsonl`:2: .* it is now"):
        made.gc()
    assert len(made.rows()) == 3


def test_commands_name_an_odd_line_and_go_on(tmp_path, torpor_process):
    made = filled(tmp_path / "store", 1)
    (made.path / "open" / f"{store._HOST}-left.jsonl").write_text("{}\nnull\n")
    page = ["show", "--report", tmp_path / "page.html"]
    for words in (["show"], ["store", "list"], page, ["store", "gc"]):
        done = torpor_process(*words, made.path, check=0)
        assert "left.jsonl`:1: " in done.stderr
        assert "more lines of it that cannot be read: 1" in done.stderr
    assert len(made.rows()) == 1


def test_fifo_in_a_store_does_not_block(tmp_path, torpor_process):
    made = filled(tmp_path / "store", 2)
    os.mkfifo(made.path / "open" / f"{store._HOST}-pipe.jsonl")
    os.mkfifo(made.path / "points" / f"{'0' * 64}.parquet")
    (made.path / "points" / "gone.parquet").symlink_to("nothing")
    (made.path / "points" / "loop.parquet").symlink_to("loop.parquet")
    (made.path / "points" / "folder.parquet").mkdir()
    done = torpor_process("show", made.path, check=0)
    assert done.stderr.count("count as not done") == 5
    with pytest.warns(StoreWarning) as said:
        made.gc()
    assert len(said) == 5
    assert len(made.rows()) == 2
    os.remove(made.path / "store.json")
    os.mkfifo(made.path / "store.json")
    done = torpor_process("show", made.path, check=2)
    assert "not a regular file" in done.stderr


@pytest.mark.parametrize(
    "head",
    [
        {"format": -1, "kind": "sweep"},
        {"format": True, "kind": "sweep"},
        {"format": 1, "kind": "sweep"},
        {"format": 2.0, "kind": "sweep"},
        {"format": store.FORMAT, "kind": "contest"},
        {"format": store.FORMAT},
        [],
    ],
)
def test_head_of_another_format_or_kind_is_refused(tmp_path, head):
    made = filled(tmp_path / "store", 1)
    (made.path / "store.json").write_text(json.dumps(head))
    for create in (False, True):
        with pytest.raises(torpor.SweepError, match=r"is not a store|this Torpor reads format"):
            torpor.open_store(made.path, create=create)


def test_a_shard_by_another_hand_is_refused(tmp_path):
    made = filled(tmp_path / "store", 1)
    for record in (a_row(1, kind="x"), a_row(2, point="x"), a_row(3, options="5")):
        data = store._table([record]).to_parquet()
        (made.path / "points" / f"{hashlib.sha256(data).hexdigest()}.parquet").write_bytes(data)
    data = b"PAR1 and nothing that follows PAR1"
    (made.path / "points" / f"{hashlib.sha256(data).hexdigest()}.parquet").write_bytes(data)
    for reader in (made.rows, made.names):
        with pytest.warns(StoreWarning, match="is not a shard of a store") as said:
            assert len(reader()) == 1
        assert len(said) == 4


def test_a_number_by_another_hand_is_named_when_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    made = filled(tmp_path / "store", 1)
    table = pyarrow.table(store._table([a_row(1)]))
    place = table.column_names.index("idle_power_mw")
    table = table.set_column(place, "idle_power_mw", pyarrow.array([float("nan")]))
    parquet.write_table(table, tmp_path / "odd.parquet")
    data = (tmp_path / "odd.parquet").read_bytes()
    path = made.path / "points" / f"{hashlib.sha256(data).hexdigest()}.parquet"
    path.write_bytes(data)
    points = made.points()
    assert sorted(points["wakeups"]) == [7, 8]
    with pytest.raises(torpor.SweepError, match=rf"{path.name}.*`idle_power_mw` is not finite"):
        points["idle_power_mw"]
    with pytest.warns(StoreWarning, match=r"it is now `.*\.damaged`"):
        made.gc()
    assert len(made.rows()) == 1


def test_a_table_decodes_its_own_metrics_alone(tmp_path, monkeypatch):
    made = filled(tmp_path / "store")
    read = set()
    decode = parts._decoded
    monkeypatch.setattr(
        parts, "_decoded", lambda data, names: read.update(names) or decode(data, names)
    )
    view(made.points())
    keys = set(metrics(*RUNS))
    assert [name for name in read if name in keys] == ["idle_power_mw"]


def test_equal_texts_of_a_column_are_one_object(tmp_path):
    made = filled(tmp_path / "store")
    platforms = made.points()["platform"]
    assert len(platforms) == 20 and len(set(map(id, platforms))) == 1


def test_a_table_has_the_points_of_open_files_too(tmp_path):
    made = filled(tmp_path / "store", 2)
    # JSON may write a whole number with a point.
    left = a_row(2, metrics={"wakeups": 7.0}, error="crashed")
    (made.path / "open" / "left.jsonl").write_text(line_of(left))
    table = made.table().to_dict()
    assert list(table) == list(store._table([]).to_dict())
    assert table["wakeups"] == [7, 8, 7] and type(table["wakeups"][2]) is int
    assert table["idle_power_mw"] == [1.25, 2.25, None]
    assert table["error"] == [None, None, "crashed"]


def test_a_run_without_error_counts(tmp_path):
    """The names of shards are hashes: any of two runs may come first."""
    for number in range(3):
        made = torpor.open_store(tmp_path / f"store-{number}", create=True)
        for error in ("crashed", None):
            made.add([a_row(1, error=error, run_ms=number)])
        assert made.names() == {f"{1:032x}": False}
        assert [row["error"] for row in made.rows()] == [None]
        made.gc()
        assert [row["error"] for row in made.rows()] == [None]


def test_gc_leaves_full_shards_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_SHARD_POINTS", 8)
    made = torpor.open_store(tmp_path / "store", create=True)
    for numbers in (range(8), range(8, 13), range(13, 20), [3]):
        made.add([a_row(number) for number in numbers])
    (full,) = (path for path in made.shards if parts.read_columns(path).length == 8)
    before = made.rows()
    gone, dropped = made.gc()
    # The point that two shards have is in one of them alone.
    lengths = [parts.read_columns(path).length for path in made.shards]
    assert (gone, dropped, sorted(lengths)) in [(3, 0, [4, 8, 8]), (4, 0, [4, 8, 8])]
    assert full in made.shards or gone == 4
    assert made.rows() == before
    assert made.gc("another build") == (3, 20) and made.rows() == []


_BEGIN = """
import sys
from torpor.run.sweeps.store import open_store
for line in sys.stdin:
    try:
        open_store(line.strip(), create=True)
    except BaseException as error:
        print(error, flush=True)
    else:
        print("ok", flush=True)
"""


def test_processes_that_begin_a_store_together_all_succeed(tmp_path):
    command = [sys.executable, "-c", _BEGIN]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    several = [subprocess.Popen(command, **pipes) for _ in range(8)]
    try:
        for number in range(200):
            for process in several:
                process.stdin.write(f"{tmp_path}/store-{number}\n")
                process.stdin.flush()
            assert [process.stdout.readline() for process in several] == ["ok\n"] * 8
    finally:
        for process in several:
            process.stdin.close()
            process.wait()
    assert sorted(os.listdir(tmp_path / "store-0")) == ["open", "points", "store.json"]


def test_bits_of_a_results_table_flip_without_panic(tmp_path):
    table = store._table([a_row(number) for number in range(50)])
    draw = random.Random(1)
    for suffix in ("arrow", "parquet"):
        path = tmp_path / f"table.{suffix}"
        table.write(os.fspath(path))
        sound = path.read_bytes()
        for _ in range(300):
            data = bytearray(sound)
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
            try:
                torpor.load(path).to_dict()
            except (torpor.TorporError, ValueError) as error:
                assert "panic" not in str(error)


def test_an_export_runs_in_no_spreadsheet(tmp_path):
    made = torpor.open_store(tmp_path / "store", create=True)
    with made.writer() as writer:
        writer.add({**a_row(), "source": "=1+1", "error": "@sum(a1)"})
    made.export(tmp_path / "points.csv")
    (row,) = csv.DictReader((tmp_path / "points.csv").open())
    assert (row["source"], row["error"]) == ("'=1+1", "'@sum(a1)")
