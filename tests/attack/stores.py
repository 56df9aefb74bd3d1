# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks on what Torpor wrote and reads again: stores of points, results and their tables."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torpor
from attack.judge import BrokenError, judge_csv
from attack.mutate import change_bytes, change_text
from torpor import _engine
from torpor.ask.fleet import fleet
from torpor.run.shadow.live import Window
from torpor.run.shadow.rollup import MINUTE_NS, Rollup
from torpor.run.sweeps.axes import Point
from torpor.run.sweeps.parts import StoreWarning
from torpor.run.sweeps.ranks import view
from torpor.run.sweeps.store import Store
from torpor.view.report.sweep import render

_ODD_LINES = ["null", "5", "{}", "[]", '{"point": null}', "[" * 50_000, "\x00", '{"check": 1}', ""]


def a_row(number: int = 0, **other: object) -> dict[str, Any]:
    """A point as a sweep writes it."""
    return {
        "point": f"{number:032x}",
        "kind": "replay",
        "source": f"recording-{number % 5}.dat",
        "platform": "pixel6",
        "governor": ["menu", "teo", "oracle"][number % 3],
        "kernel": None,
        "cpufreq": None,
        "kernel_args": None,
        "io_boost": None,
        "hz": 250,
        "latency_limit": None,
        "seed": None,
        "options": "{}",
        "error": None,
        "run_ms": 1.5,
        "torpor": "0.1.0",
        "engine": "0123456789ab",
        "metrics": {"idle_power_mw": 1.25 + number, "wakeups": 7 + number},
    } | other


def stores(rng: random.Random, folder: Path, _seeds: object) -> None:
    """A damaged store: no reader believes the damage, or drops a point without a warning."""
    made = torpor.open_store(folder / "store", create=True)
    for first in (0, 10):
        with made.writer() as writer:
            for number in range(first, first + 10):
                writer.add(a_row(number))
    left = made.path / "open" / "other-left.jsonl"
    with made.writer() as writer:
        for number in range(20, 26):
            writer.add(a_row(number))
        # As a killed sweep leaves it.
        left.write_bytes(writer._path.read_bytes())
        writer._lines.clear()
        os.ftruncate(writer._file.fileno(), 0)
    sound = {row["point"]: row for row in made.rows()}
    if len(sound) != 26:
        raise BrokenError(f"a sound store has {len(sound)} of 26 points")
    may_refuse = any([_damage_store(rng, made.path, left) for _ in range(rng.choice([1, 1, 2, 3]))])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = _read(rng, torpor.open_store(made.path))
        except torpor.SweepError as error:
            if may_refuse or "no point" in str(error):
                raise
            raise BrokenError(f"the whole store is refused: {error}") from None
    odd = [row["point"] for row in found if sound.get(row["point"]) != row]
    if odd:
        raise BrokenError(f"points that nobody wrote: {odd}")
    is_warned = any(issubclass(each.category, StoreWarning) for each in said)
    # Lines that are gone whole are as good as never written: their points are not done.
    in_shards = {f"{number:032x}" for number in range(20)}
    missing = in_shards - {row["point"] for row in found}
    if missing and not is_warned:
        raise BrokenError(f"{len(missing)} points of shards are missing, and no warning")


def _damage_store(rng: random.Random, store: Path, left: Path) -> bool:
    """Damage one place; return whether the store may be refused for it."""
    victim = rng.choice([*sorted((store / "points").glob("*.parquet")), left])
    aside = store / rng.choice(["open/a.jsonl", "points/a.parquet", f"points/{'0' * 64}.parquet"])
    match rng.randrange(10):
        case 0 | 1 | 2 if victim.is_file():
            victim.write_bytes(change_bytes(rng, victim.read_bytes()))
        case 3 if victim.is_file():
            data = victim.read_bytes()
            victim.write_bytes(data[: rng.randrange(len(data) + 1)])
        case 4 | 5 if left.is_file():
            lines = left.read_text(errors="surrogateescape").split("\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(_ODD_LINES))
            left.write_text("\n".join(lines), errors="surrogateescape")
        case 6 if left.is_file():
            text = left.read_text(errors="surrogateescape")
            left.write_text(change_text(rng, text), errors="surrogateescape")
        case 7 if not os.path.lexists(aside):
            rng.choice([os.mkfifo, os.mkdir, lambda p: os.symlink("a.parquet", p)])(aside)
        case 8 if victim.is_file() and not os.path.lexists(aside):
            aside.write_bytes(victim.read_bytes())
        case 9:
            head = store / "store.json"
            text = rng.choice(
                [
                    change_text(rng, head.read_text()),
                    '{"format": true, "kind": "sweep"}',
                    '{"format": 2, "kind": "contest"}',
                    '{"format": -1, "kind": "sweep"}',
                    "[" * 50_000,
                ]
            )
            head.write_text(text)
            return True
    return False


def _read(rng: random.Random, opened: Store) -> list[dict[str, Any]]:
    """Let one of the readers see the store; return its points."""
    match rng.randrange(5):
        case 0:
            opened.gc()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = opened.rows()
            if found:
                opened.table()
            return found
        case 1:
            found = opened.rows()
            view(opened.points())
            return found
        case 2:
            found = opened.rows()
            if found:
                render(opened.points(), "attacked")
            return found
        case 3:
            count = opened.to_polars().collect().height
            if count != len(found := opened.rows()):
                raise BrokenError(f"polars has {count} points, rows() {len(found)}")
            return found
        case _:
            return opened.rows()


def results(rng: random.Random, folder: Path, seeds: Any) -> None:
    """A damaged result or table: read, shown, drawn, or refused."""
    if not hasattr(seeds, "results"):
        seeds.results = _sound_results(folder, seeds)
    name = rng.choice(sorted(seeds.results))
    path = folder / name
    if name.endswith(".json"):
        text = seeds.results[name].decode()
        damaged = change_text(rng, text) if rng.random() < 0.4 else _change_json(rng, text)
        path.write_text(damaged)
    else:
        path.write_bytes(change_bytes(rng, seeds.results[name]))
    try:
        found = torpor.load(path)
    except ValueError as error:
        if "is not a table" in str(error):
            raise torpor.TorporError(str(error)) from None
        raise
    if isinstance(found, _engine.Table):
        found.to_dict()
        return
    repr(found)
    found._repr_html_()
    torpor.post(found)
    if hasattr(found, "to_csv"):
        found.to_csv()
    if hasattr(found, "write_report"):
        found.write_report(folder / "page.html")


def _sound_results(folder: Path, seeds: Any) -> dict[str, bytes]:
    sound = folder / "sound.perfetto-trace"
    sound.write_bytes(seeds.recordings["a.perfetto-trace"])
    replayed = torpor.replay(sound, platform="pixel6", governors=["menu", "teo", "oracle"])
    simulated = torpor.simulate(
        "frames", platform="pixel6", governors=["menu", "teo"], duration="20ms", seeds=2
    )
    judge_csv(replayed.to_csv())
    found = {"replay.json": replayed.to_json(), "simulation.json": simulated.to_json()}
    tables = {}
    for suffix in ("parquet", "arrow"):
        path = folder / f"table.{suffix}"
        replayed.write_table("summary", path)
        tables[path.name] = path.read_bytes()
    return {name: text.encode() for name, text in found.items()} | tables


def _change_json(rng: random.Random, text: str) -> str:
    """Change one value of a document: its type, its size, or whether it is there."""
    data = json.loads(text)
    at: Any = data
    while True:
        key = rng.choice(range(len(at)) if isinstance(at, list) else sorted(at))
        if not (isinstance(at[key], dict | list) and at[key]) or rng.random() < 0.15:
            break
        at = at[key]
    if rng.random() < 0.3:
        del at[key]
    else:
        odd = [None, True, -1, 0, 2**64, 1e308, "", "x", "\ud800", [], {}, [None], {"a": []}]
        at[key] = rng.choice(odd)
    return json.dumps(data)


_WRITER = """
import sys
sys.path.insert(0, sys.argv[4])
from attack.stores import a_row
from torpor.run.sweeps.store import open_store
with open_store(sys.argv[1], create=True).writer() as writer:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        writer.add(a_row(number))
        print(number, flush=True)
"""


def writers(rng: random.Random, folder: Path) -> None:
    """Writers that begin together, some killed, some with a full disk: what they added is kept."""
    store = folder / "store"
    running, sure = [], set()
    for index in range(rng.choice([3, 6])):
        first, count = 1000 * index, rng.choice([1, 20, 300])
        limit = rng.choice([None, None, 0, 3_000, 20_000])

        def shrink(limit: int | None = limit) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        tests = str(Path(__file__).resolve().parents[1])
        command = [sys.executable, "-c", _WRITER, store, str(first), str(first + count), tests]
        running.append(
            subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=shrink,
            )
        )
    is_killed = rng.random() < 0.5
    if is_killed:
        time.sleep(rng.uniform(0.2, 2.0))
        rng.choice(running).send_signal(rng.choice([signal.SIGKILL, signal.SIGINT]))
    for process in running:
        out, said = process.communicate(timeout=120)
        if "is not a store" in said or "panicked" in said:
            raise BrokenError(said[-1500:])
        sure.update(int(line) for line in out.splitlines() if line)
    if not sure:
        return
    found = {row["point"]: row for row in torpor.open_store(store).rows()}
    if missing := [number for number in sure if f"{number:032x}" not in found]:
        raise BrokenError(f"{len(missing)} points that were added are gone: {missing[:5]}")
    _read_only(store)


def _read_only(store: Path) -> None:
    """A store on a read-only file system is read; what writes to it fails with its name."""
    mount = f"mount --bind {store} {store} && mount -o remount,ro,bind {store} {store}"
    probe = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False
    )
    if probe.returncode != 0:
        return
    for words, status in (("store list", 0), ("store gc", 2)):
        command = f"{mount} && exec {sys.executable} -m torpor {words} {store}"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != status or "Traceback" in done.stderr:
            raise BrokenError(f"`{words}`, read-only: {done.returncode}: {done.stderr[-1000:]}")
        if status and store.name not in done.stderr:
            raise BrokenError(f"`{words}`, read-only, does not name the store: {done.stderr}")


#: 2026-01-01, 00:00 UTC.
_BEGIN_NS = 1_767_225_600 * 10**9
_FACTORS = {"menu": 1.0, "teo": 1.1, "ladder": 0.75}


def windows(rng: random.Random, folder: Path, _seeds: object) -> None:
    """Windows of shadows whose clocks are set, in stores that are joined and merged.

    Each governor takes the same multiple of a window's power, so that a change of another size
    has paired governors of different windows.
    """
    folders = [folder / f"shadow-{number}" for number in range(rng.choice([1, 2, 3]))]
    whole: set[tuple[str, int, float]] = set()
    for path in folders:
        for _ in range(rng.choice([1, 2, 2])):
            whole |= _shadowed(rng, path)
        if rng.random() < 0.3:
            torpor.open_store(path).gc()
    seen = []
    for order in (folders, folders[::-1]):
        merged = torpor.open_store(folder / f"merged-{len(seen)}", create=True)
        for path in order:
            merged.merge([torpor.open_store(path)])
        if rng.random() < 0.5:
            merged.gc()
        seen.append(_pairs(merged, whole))
    if seen[0] != seen[1]:
        raise BrokenError("the order of a merge changes a result")
    if fleet(folders)["groups"] != fleet([merged.path])["groups"]:
        raise BrokenError("the merged store has another result than its parts")


def _shadowed(rng: random.Random, path: Path) -> set[tuple[str, int, float]]:
    """Write the windows of a shadow; return those in which no governor has failed."""
    host, whole = rng.choice("ab"), set()
    begin_ns, load, found = _BEGIN_NS + rng.choice([0, 0, 1, 250 * 10**6]), 1.0, []
    for _ in range(rng.randrange(1, 40)):
        begin_ns += MINUTE_NS
        if rng.random() < 0.1:
            # A clock that is set, and another load from then on.
            begin_ns += rng.choice([-20, -1, 5]) * MINUTE_NS + rng.choice([0, 0, 1, -(10**6)])
            load = rng.choice([0.01, 1.0, 3.0])
        power = 100 * load + rng.randrange(5)
        values = {name: {"idle_power_mw": power * by} for name, by in _FACTORS.items()}
        if found and rng.random() < 0.1:
            del values[rng.choice(list(values))]
        else:
            whole.add((host, begin_ns, power))
        found.append(Window(begin_ns, MINUTE_NS, 0, values))
    point = Point("shadow", host, "server", "", options='{"under": "menu"}')
    with Rollup(path, point, list(_FACTORS)) as rollup:
        rollup.add(found)
        if rng.random() < 0.2:
            rollup.add(found)
    return whole


def _pairs(made: Store, whole: set[tuple[str, int, float]]) -> object:
    """Check the pairs of a store's readers; return what they show."""
    result = fleet([made.path])
    found = result["groups"][0]
    if found["minutes"] != len(whole):
        raise BrokenError(f"{found['minutes']} minutes, not {len(whole)}")
    limits = [torpor.Limit("idle_power_mw", worse_than_pct=2)]
    names = {"base_governor": "menu", "candidate_governor": "teo"}
    verdicts = torpor.gate(made.path, made.path, limits, **names)
    for verdict in verdicts:
        if abs(verdict["change"] / verdict["base"] - 0.1) > 1e-9:
            raise BrokenError(f"10 % more are {verdict}")
    cells = found["comparison"]["rows"][0]["cells"][1:]
    changes = [cell["change"]["relative_pct"] for cell in cells]
    if any(
        abs(change - 100 * (by - 1)) > 1e-6
        for change, by in zip(changes, list(_FACTORS.values())[1:], strict=True)
    ):
        raise BrokenError(f"changes of {changes} % in the fleet")
    return result["groups"], verdicts, view(made.points(), base="menu")


INSIDE = {"stores": stores, "results": results, "windows": windows}
OUTSIDE = {"writers": writers}
