# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor serve`: its pages, who may see them, and that it writes nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import torpor
from torpor.run import loopback
from torpor.run.loopback import Server
from torpor.run.sweeps.parts import nested
from torpor.view import site

GUEST = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
Ask = Callable[..., http.client.HTTPResponse]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of several kinds, a store, and what is none of these."""
    root = tmp_path_factory.mktemp("site")
    made = root / "results"
    made.mkdir()
    diff = torpor.diff(GUEST / "sysfs-before.txt", GUEST / "sysfs-after.txt")
    (made / "counters.json").write_text(diff.to_json())
    simulated = torpor.simulate("periodic", platform="pixel6", duration="200ms", seeds=2)
    simulated.write_tables(made / "tables")
    (made / "more<b>.json").write_text(simulated.to_json())
    axes = torpor.Axes(
        workload=["periodic"],
        platform=["pixel6"],
        governor=["menu", "teo"],
        seeds=1,
        options={"duration": "100ms"},
    )
    torpor.sweep(axes, store=root / "store")
    (root / "lines.jsonl").write_text(f"{json.dumps(diff)}\n" * 2 + '{"half')
    (root / "other.json").write_text('{"a": 1}')
    (root / "notes.txt").write_text("secret")
    (root / ".hidden.json").write_text(diff.to_json())
    (root.parent / "outside.json").write_text(diff.to_json())
    (root / "link.json").symlink_to(root.parent / "outside.json")
    old = time.time() - 3600
    for path in root.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (old, old))
    return root


def _serving(root: Path) -> Iterator[tuple[Server, Ask]]:
    with site.server(root, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def asked(path: str, method: str = "GET", host: str = "localhost") -> tuple:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            connection.request(method, path, headers={"Host": f"{host}:{server.server_port}"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

        yield server, asked
        server.shutdown()


@pytest.fixture(scope="module")
def ask(folder: Path) -> Iterator[Ask]:
    for _, asked in _serving(folder):
        yield asked


def test_every_listed_result_is_shown(ask: Ask) -> None:
    status, headers, index = ask("/")
    assert status == 200 and "Refresh" not in headers
    links = re.findall(r'href="(/view/[^"]+)">([^<]+)<', index)
    assert {name for _, name in links} == {
        *("results/counters.json", "results/tables", "results/more&lt;b&gt;.json"),
        *("store", "lines.jsonl"),
    }
    assert "idle counters: sysfs-after" in index and "periodic: simulation on pixel6" in index
    titles = {}
    for address, name in links:
        status, headers, page = ask(address)
        assert status == 200, page
        assert headers["Content-Security-Policy"].startswith("sandbox ")
        titles[name] = re.search("<h1>(.*?)</h1>", page)[1]
    assert titles["results/counters.json"] == titles["lines.jsonl"]
    assert titles["lines.jsonl"].startswith("CPU 0-1: 501 sleeps")
    assert titles["results/tables"].startswith("Against menu, teo ")
    assert " than menu, on average over 1 scenario" in titles["store"]


@pytest.mark.parametrize(
    "path",
    [
        *("/view/../outside.json", "/view/..%2foutside.json", "/view/%2e%2e/outside.json"),
        *("/view/link.json", "/view//etc/passwd", "/view/%2fetc/passwd", "/view/notes.txt"),
        *("/view/other.json", "/view/results", "/view/no", "/view/%00", "/view/", "/index"),
    ],
)
def test_paths_outside_are_not_served(ask: Ask, path: str) -> None:
    status, _, page = ask(path)
    assert status == 404
    assert "root:" not in page and "secret" not in page and "idle counters" not in page


def test_only_this_machine_is_answered(ask: Ask) -> None:
    assert ask("/", host="evil.example")[0] == 421
    assert ask("/", host="127.0.0.1")[0] == 200
    assert loopback.ADDRESS == "127.0.0.1"


def test_store_page_selects_points(ask: Ask) -> None:
    part = "/view/store?governor=menu&platform="
    assert ask(part)[0] == 200 and "1 point:" in ask(part)[2]
    assert "no point is left" in ask("/view/store?governor=nobody")[2]
    assert ask("/view/store?x=1")[0] == 422


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(ask: Ask, folder: Path, method: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert ask("/view/results/counters.json", method)[0] == 501
    ask("/view/store")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert ask("/", "HEAD")[2] == ""


def test_growing_result_is_refreshed(ask: Ask, folder: Path) -> None:
    record = json.loads((folder / "lines.jsonl").read_text().splitlines()[0])
    live = folder / "live.jsonl"
    live.write_text(json.dumps(record) + "\n")
    try:
        os.utime(folder / "results" / "counters.json")
        for path in ("/", "/view/live.jsonl"):
            assert ask(path)[1]["Refresh"] == "2"
        # The result is new as well, but was written at once.
        assert ask("/")[2].count(" running</td>") == 1
        record["groups"][0]["columns"][0]["label"] = "the second one"
        with live.open("a") as file:
            file.write(json.dumps(record) + "\n")
        assert "the second one" in ask("/view/live.jsonl")[2]
        assert "Refresh" not in ask("/view/store")[1]
    finally:
        live.unlink()


def test_a_slow_page_reloads_less_often() -> None:
    times = (0.1, 20.0)
    assert [site._answer(200, "", True, s).headers["Refresh"] for s in times] == ["2", "60"]


def test_a_running_sweep_shows_finished_points(ask: Ask, folder: Path) -> None:
    rows = torpor.open_store(folder / "store").rows()
    other = folder / "other-store"
    store = torpor.open_store(other, create=True)
    try:
        with store.writer() as writer:
            assert "no points" in ask("/view/other-store")[2]
            writer.add(nested(rows[0]))
            status, headers, page = ask("/view/other-store")
            assert status == 200 and int(headers["Refresh"]) >= 2 and ">1 point: " in page
            writer.add(nested(rows[1]))
            assert ">2 points: " in ask("/view/other-store")[2]
    finally:
        for path in sorted(other.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        other.rmdir()


def test_rounds_that_are_finished_are_compared(ask: Ask, folder: Path) -> None:
    governors = [
        {"label": name, "name": name, "module": None, "parameters": []} for name in ("menu", "teo")
    ]
    head = {
        "torpor": {"version": "0"}, "kernel": "6.12", "driver": "fake", "cpu_count": 1,
        "governors": governors, "command": ["true"], "rounds": 5, "metric": None, "seed": None,
        "warm_up": 1, "energy_zones_unreadable": [],
    }  # fmt: skip

    def run(number: int, name: str, above: int) -> dict:
        counts = {"usage": 100, "time_us": 5000, "above": above, "below": 1, "rejected": 0}
        counters = {
            "elapsed_ns": 10_000_000,
            "notes": [],
            "groups": [{"cpus": [0], "states": [{"name": "C1", **counts}]}],
        }
        return {
            "round": number, "governor": name, "began_at_ns": 0, "duration_ns": 10_000_000,
            "figure": 1.0, "energy_uj": {}, "counters": counters, "output": "",
        }  # fmt: skip

    lines = [head, run(0, "menu", 90), run(1, "menu", 10), run(1, "teo", 20), run(2, "teo", 99)]
    file = folder / "ab.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines[:3]))
    try:
        assert "no round is finished yet" in ask("/view/ab.jsonl")[2]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        status, _, page = ask("/view/ab.jsonl")
        assert status == 200 and "1 of 5 rounds" in page
        assert "too deep 20.00 %" in page and "99.00" not in page
    finally:
        file.unlink()


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(torpor.TorporError, match="is not a folder"):
        site.Site(tmp_path / "none")


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple]:
    root = tmp_path / "hostile"
    root.mkdir()
    for server, asked in _serving(root):
        yield root, asked, server


def test_a_hostile_folder_is_listed_all_the_same(hostile: tuple) -> None:
    root, asked, _ = hostile
    diff = torpor.diff(GUEST / "sysfs-before.txt", GUEST / "sysfs-after.txt")
    (root / "fine.json").write_text(diff.to_json())
    (root / "loop").symlink_to("loop")
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "deep.json").write_text("[" * 200_000)
    (root / "deep.jsonl").write_text("[" * 200_000 + "\n")
    os.mkfifo(root / "pipe.json")
    os.mkfifo(root / "pipe.html")
    with open(os.fsencode(root) + b"/\xff\xfe.html", "w") as file:
        file.write("<p>bytes")
    status, _, index = asked("/")
    assert status == 200 and "fine.json" in index and "pipe" not in index
    assert asked("/view/%FF%FE.html")[::2] == (200, "<p>bytes")
    assert asked("/view/fine.json")[0] == 200


def test_damaged_result_page_gives_the_reason(hostile: tuple) -> None:
    root, asked, _ = hostile
    made = torpor.simulate("periodic", platform="pixel6", duration="100ms", seeds=1).to_dict()
    made["runs"][0]["metrics"]["sleeps"] = "many"
    (root / "bad.json").write_text(json.dumps(made))
    assert "damaged" in asked("/")[2]
    status, _, page = asked("/view/bad.json")
    assert status == 422 and "runs[0].metrics.sleeps" in page


def test_links_outside_the_folder_are_hidden(hostile: tuple) -> None:
    root, asked, _ = hostile
    diff = torpor.diff(GUEST / "sysfs-before.txt", GUEST / "sysfs-after.txt")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "result.json").write_text(diff.to_json())
    (outside / "shard.jsonl").write_text("{}\n")
    (root / "d").mkdir()
    (root / "d" / "result.json").symlink_to(outside / "result.json")
    torpor.open_store(root / "store", create=True)
    (root / "store" / "open").mkdir(exist_ok=True)
    (root / "store" / "open" / "x.jsonl").symlink_to(outside / "shard.jsonl")
    assert "idle counters" not in asked("/")[2]
    assert asked("/view/d")[0] == 404
    status, _, page = asked("/view/store")
    assert status == 422 and "leads out of the folder" in page


def test_a_large_page_is_not_held_in_memory(hostile: tuple) -> None:
    root, asked, server = hostile
    with (root / "large.html").open("wb") as file:
        file.truncate(4 << 30)
    with (root / "large.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    before = _peak_kb()
    assert "large.html" in asked("/")[2]
    request = b"GET /view/large.html HTTP/1.0\r\nHost: localhost\r\n\r\n"
    with _sent(server.server_port, request) as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.0 200")
    assert _peak_kb() - before < 300_000


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _sent(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(data)
    return connection


def test_silent_connections_take_no_more_than_their_places(hostile: tuple) -> None:
    _, asked, server = hostile
    threads = threading.active_count()
    silent = [_sent(server.server_port, b"GET / HT") for _ in range(200)]
    assert asked("/")[0] == 200
    assert threading.active_count() - threads <= 2 * loopback._CONNECTIONS
    for connection in silent:
        connection.close()


def test_a_request_that_is_late_is_dropped(hostile: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked, server = hostile
    monkeypatch.setattr(loopback, "_REQUEST_S", 0.2)
    with _sent(server.server_port, b"GET /") as slow:
        # A byte now and then does not make it wait longer.
        with contextlib.suppress(OSError):
            for _ in range(20):
                time.sleep(0.1)
                slow.sendall(b"x")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(100) == b""
    assert not server._waiting
    assert asked("/")[0] == 200
