# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks on ``torpor serve``: a hostile folder, and connections that never send a request."""

import contextlib
import copy
import http.client
import json
import os
import random
import resource
import socket
import threading
from functools import cache
from pathlib import Path

import torpor
from attack.judge import BrokenError
from attack.mutate import change_bytes
from torpor.view import site

ROOT = Path(__file__).resolve().parents[2]
#: A secret outside the folder, which must not be in any answer.
_SECRET = "torpor-attack-secret"
#: More than the server needs for a page, and less than a large file has.
_GROWTH_KB = 600_000


@cache
def _sound() -> list[dict]:
    """Results of several kinds."""
    guest = ROOT / "tests/data/guest/amd64-6.12-menu-mix"
    demo = next(ROOT.glob("demo/*.perf.data"))
    short = {"platform": "pixel6", "governors": ["menu", "teo"]}
    return [
        torpor.simulate("frames", duration="50ms", seeds=2, strip=True, **short).to_dict(),
        torpor.replay(demo, strip=True, **short).to_dict(),
        torpor.diff(guest / "sysfs-before.txt", guest / "sysfs-after.txt"),
        torpor.trace_stats(demo),
    ]


def _damaged(rng: random.Random, data: dict) -> dict:
    """One value of another kind or size, one key or item less, one item more."""
    whole = node = copy.deepcopy(data)
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.9:
            node = node[key]
            continue
        match rng.randrange(4):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node.append(copy.deepcopy(node[key]))
            case 2:
                node[key] = rng.choice([None, True, "", "x\ud800", "<script>", [], {}])
            case _:
                node[key] = rng.choice([0, -1, 2**31, 2**63, 2**64, 10**400, 1e308, float("nan")])
        return whole


def _store(rng: random.Random, folder: Path) -> None:
    torpor.open_store(folder, create=True)
    for name in ("points", "open"):
        (folder / name).mkdir(exist_ok=True)
    lines = ["null", "5", "{}", "[]", '{"point":null}', "[" * 100_000, '{"point":"a","kind":1}']
    (folder / "open" / "a.jsonl").write_text("\n".join(rng.sample(lines, 3)) + "\n")
    match rng.randrange(4):
        case 0:
            os.mkfifo(folder / "open" / "pipe.jsonl")
        case 1:
            (folder / "points" / "x.parquet").write_bytes(rng.randbytes(500))
        case 2:
            (folder / "store.json").write_text(rng.choice(["", "{}", "[" * 100_000, "null"]))


def _fill(rng: random.Random, root: Path, outside: Path) -> None:
    """Put many things into the folder, most of which cannot be shown."""
    (outside / "result.json").write_text(json.dumps(_sound()[2]).replace("sysfs", _SECRET))
    for number in range(8):
        data = json.dumps(_damaged(rng, rng.choice(_sound())))
        if rng.random() < 0.2:
            data = change_bytes(rng, data.encode(errors="replace")).decode(errors="replace")
        (root / f"r{number}.json").write_text(data, errors="replace")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "secret.html").symlink_to(outside / "result.json")
    (root / "d").mkdir()
    (root / "d" / "result.json").symlink_to(outside / "result.json")
    (root / "deep.json").write_text("[" * rng.choice([500, 5000, 200_000]))
    (root / "lines.jsonl").write_text(rng.choice(["[" * 99_999, '{"kind":"diff"}\n', "\n", "{}\n"]))
    heads = {"governors": rng.choice([1, [], [None]]), "command": [], "rounds": "x"}
    (root / "ab.jsonl").write_text(json.dumps(heads) + "\n" + "5\n" * rng.randrange(3))
    os.mkfifo(root / rng.choice(["p.json", "p.html", "p.jsonl"]))
    odd = rng.choice([b"\xff\xfe.html", b"a\nb.html", b"%2e%2e.html", b"<b>.html"])
    with open(os.fsencode(root) + b"/" + odd, "w") as file:
        file.write("<p>odd")
    with (root / rng.choice(["large.html", "large.json", "large.jsonl"])).open("wb") as file:
        file.truncate(rng.choice([1 << 20, 300 << 20, 3 << 30]))
    _store(rng, root / "store")


def _ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20)


_REQUESTS = [
    *("/", "/view/", "/view/%00", "/view/..", "/view/%2e%2e/outside/result.json", "/view/loop"),
    *("/view/up", "/view/secret.html", "/view/d", "/view/store", "/view/lines.jsonl", "//", "*"),
    *("/view/ab.jsonl", "/view/deep.json", "/view/%FF%FE.html", "/view/p.html", "/view/a%0Ab.html"),
    *(f"/view/r{number}.json" for number in range(8)),
    *("/view/large.html", "/view/large.json", "/view/large.jsonl"),
]


def _half_open(rng: random.Random, port: int, count: int) -> list[socket.socket]:
    opened = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        start = rng.choice([b"", b"G", b"GET / HTTP/1.0\r\n", b"GET /view/large.html HTTP/1.0\r\n"])
        with contextlib.suppress(OSError):
            connection.sendall(start)
        opened.append(connection)
    return opened


def serve(rng: random.Random, folder: Path) -> None:
    """A hostile folder and silent connections: every request has an answer, none leads outside."""
    root, outside = folder / "root", folder / "outside"
    root.mkdir()
    outside.mkdir()
    _fill(rng, root, outside)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = threading.active_count()
    with site.server(root, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        silent = _half_open(rng, server.server_port, rng.choice([0, 5, 100]))
        try:
            for path in rng.sample(_REQUESTS, 12):
                _judge(path, server.server_port)
        finally:
            for connection in silent:
                connection.close()
            server.shutdown()
    if (grown := threading.active_count() - threads) > 40:
        raise BrokenError(f"{grown} threads more than before")
    if (grown := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) > _GROWTH_KB:
        raise BrokenError(f"{grown >> 10} MiB more at the peak")


def _judge(path: str, port: int) -> None:
    try:
        status, body = _ask(port, path)
    except (OSError, http.client.HTTPException) as error:
        raise BrokenError(f"{path}: no answer: {type(error).__name__}: {error}") from None
    if status not in (200, 400, 404, 422):
        raise BrokenError(f"{path}: status {status}")
    if _SECRET.encode() in body:
        raise BrokenError(f"{path}: shows what is outside of the folder")
    if path == "/" and status != 200:
        raise BrokenError(f"the index is not shown: {body[-500:]!r}")
