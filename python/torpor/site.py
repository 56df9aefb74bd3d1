# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor serve`: results and stores of a folder as a site for this machine alone.

It reads and never writes. Who asks is on this machine (the address is the loopback's, and the name
asked for as well, or another site could ask through a browser); what is asked for is in the folder.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torpor import records, report
from torpor._engine import TorporError, __version__
from torpor.posting.model import counted
from torpor.report.environment import page

ADDRESS = "127.0.0.1"
PORT = 8321
#: Folders below the folder; a store has thousands of files, which nobody wants to see.
_DEPTH = 4
#: What is written to is shown anew; what was not for so long is finished, or was killed.
_LIVE_S = 15
_REFRESH_S = 2
#: Files that are larger are named and not read.
_RESULT_BYTES = 256 << 20


class Entry(NamedTuple):
    """Something to show: a result, a store, runs that go on, or a page."""

    name: str
    kind: str
    title: str
    modified_ns: int

    @property
    def address(self) -> str:
        return f"/view/{urllib.parse.quote(self.name)}"

    @property
    def is_live(self) -> bool:
        return time.time_ns() - self.modified_ns < _LIVE_S * 10**9

    @property
    def is_running(self) -> bool:
        """Whether more is to come: results and pages are written at once."""
        is_open = self.kind in ("ab", "counters") or self.title.endswith(" open")
        return is_open and self.is_live

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.modified_ns // 10**9))


class Answer(NamedTuple):
    """What a request is answered with."""

    status: int
    body: str
    is_live: bool = False


class Site:
    """The site of a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Hold the folder. Raises TorporError if there is none."""
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise TorporError(f"`{root}` is not a folder")
        # A page takes memory while it is made, and one reader wants one.
        self._one = threading.Lock()

    def answer(self, target: str) -> Answer:
        """Answer a request for a path of the site."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
        with self._one:
            if path == "/":
                return self._index()
            if path.startswith("/view/") and (found := self._inside(path[len("/view/") :])):
                return self._view(found)
        return _message(404, "There is nothing of this name.")

    def entries(self) -> list[Entry]:
        """Return all there is to show, the newest first."""
        found = sorted(self._walk(self.root, _DEPTH), key=lambda e: (-e.modified_ns, e.name))
        return list(found)

    def _inside(self, name: str) -> Path | None:
        """Return the file or folder of this name, unless it is outside: by `..` or by a link."""
        if "\0" in name:
            return None
        path = (self.root / name).resolve()
        return path if path.is_relative_to(self.root) and path.exists() else None

    def _walk(self, folder: Path, depth: int) -> Iterator[Entry]:
        try:
            inside = sorted(folder.iterdir())
        except OSError:
            return
        for path in inside:
            if path.name.startswith(".") or self._inside(os.fspath(path)) is None:
                continue
            entry = _entry(path, os.fspath(path.relative_to(self.root)))
            if entry is not None:
                yield entry
            elif path.is_dir() and depth:
                yield from self._walk(path, depth - 1)

    def _index(self) -> Answer:
        entries = self.entries()
        body = page("site.html.j2", root=os.fspath(self.root), entries=entries, version=__version__)
        return Answer(200, body, any(entry.is_live for entry in entries))

    def _view(self, path: Path) -> Answer:
        entry = _entry(path, os.fspath(path.relative_to(self.root)))
        show = _SHOWN.get(entry.kind) if entry else None
        if entry is None or show is None:
            return _message(404, "This is no result, store or page.")
        try:
            return Answer(200, show(path), entry.is_live)
        except (TorporError, OSError, ValueError, KeyError) as error:
            return _message(422, f"{entry.name}: {error}", entry.is_live)


def _message(status: int, text: str, is_live: bool = False) -> Answer:
    body = page("message.html.j2", title=f"{status}", text=text)
    return Answer(status, body, is_live)


def _entry(path: Path, name: str) -> Entry | None:
    """What a path is; None for what nobody shows."""
    if (path / "store.json").is_file():
        files = [*(path / "points").glob("*.parquet"), *(path / "open").glob("*.jsonl")]
        return Entry(name, "store", _store_title(files), max(map(_modified, files), default=0))
    if (path / records.RESULT_FILE).is_file():
        kind, title = _described(path / records.RESULT_FILE)
        return Entry(name, kind, title, _modified(path / records.RESULT_FILE))
    if not path.is_file():
        return None
    if path.suffix == ".html":
        return Entry(name, "page", "", _modified(path))
    if path.suffix == ".json" and path.name != records.RESULT_FILE:
        kind, title = _described(path)
        return Entry(name, kind, title, _modified(path)) if kind else None
    if path.suffix == ".jsonl":
        kind = _kind_of_lines(path)
        return Entry(name, kind, "", _modified(path)) if kind else None
    return None


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _store_title(files: list[Path]) -> str:
    running = sum(file.suffix == ".jsonl" for file in files)
    going_on = f", {running} open" if running else ""
    return f"{counted(len(files) - running, 'shard')}{going_on}"


def _described(path: Path) -> tuple[str, str]:
    """The kind and title of a result; no kind for another JSON file."""
    stat = path.stat()
    return _read_description(path, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(4096)
def _read_description(path: Path, _modified_ns: int, size: int) -> tuple[str, str]:
    from torpor.posting import posted

    if size > _RESULT_BYTES:
        return "", ""
    try:
        found: Any = records.load(path)
        several = found if isinstance(found, list) else [found]
        parsed = [one.to_dict() if hasattr(one, "to_dict") else one for one in several]
        return "result", "; ".join(posted(one).title for one in parsed)
    except (TorporError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", ""


def _kind_of_lines(path: Path) -> str:
    """Of a file of lines: what `torpor ab -o` or `torpor stat --json` writes, or nothing."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError):
        return ""
    if not isinstance(first, dict):
        return ""
    if first.get("kind") == "diff":
        return "counters"
    return "ab" if {"governors", "command", "rounds"} <= set(first) else ""


def _result(path: Path) -> str:
    found: Any = records.load(path)
    several = [one.to_dict() if hasattr(one, "to_dict") else one for one in
               (found if isinstance(found, list) else [found])]  # fmt: skip
    return report.render(several if isinstance(found, list) else several[0])


def _store(path: Path) -> str:
    from torpor.report import sweep
    from torpor.sweeps import open_store

    return sweep.render(open_store(path).rows(), path.name)


def _html(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _lines(path: Path) -> list[Any]:
    """The whole lines of a file that may be written to."""
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines() if line]


def _counters(path: Path) -> str:
    return report.render(_lines(path)[-1])


def _ab(path: Path) -> str:
    """The rounds that are finished so far."""
    from torpor.kernel import ab

    head, *runs = _lines(path)
    count = len(head["governors"])
    whole = [
        run
        for run in runs
        if run["round"] > 0 and sum(r["round"] == run["round"] for r in runs) == count
    ]
    if not whole:
        raise TorporError("no round is finished yet")
    return report.render(ab.result(ab.Comparison(head, whole)))


_SHOWN: dict[str, Callable[[Path], str]] = {
    "result": _result,
    "store": _store,
    "page": _html,
    "counters": _counters,
    "ab": _ab,
}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET and HEAD, and refuses all else."""

    server_version = f"Torpor/{__version__}"
    sys_version = ""
    site: Site

    def do_GET(self) -> None:
        self._respond(has_body=True)

    def do_HEAD(self) -> None:
        self._respond(has_body=False)

    def _respond(self, *, has_body: bool) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in ("127.0.0.1", "localhost"):
            answer = _message(403, "This site is for this machine alone.")
        else:
            answer = self.site.answer(self.path)
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Frame-Options", "DENY")
        # A page in the folder may be anybody's: its script sees that page and nothing else.
        allowed = "allow-scripts allow-popups allow-popups-to-escape-sandbox allow-forms"
        self.send_header("Content-Security-Policy", f"sandbox {allowed} allow-top-navigation")
        if answer.is_live:
            self.send_header("Refresh", str(_REFRESH_S))
        self.end_headers()
        if has_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: who asks sees the answer."""


def server(root: str | os.PathLike[str], port: int = PORT) -> http.server.ThreadingHTTPServer:
    """Return a server of a folder's site; port 0 is any that is free.

    Call its ``serve_forever``, and its ``shutdown`` from another thread.

    Raises TorporError if there is no such folder, and OSError if the port is taken.
    """
    handler = type("Handler", (_Handler,), {"site": Site(root)})
    return http.server.ThreadingHTTPServer((ADDRESS, port), handler)
