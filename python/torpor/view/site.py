# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor serve`: results and stores of a folder as a site for this machine alone.

It reads and never writes. The folder's files are not trusted: links that lead out of it are not
followed, only regular files up to a size are read, and a file that cannot be shown gets a page that
says why.
"""

from __future__ import annotations

import functools
import json
import math
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from torpor._engine import TorporError, __version__
from torpor.results import conformance
from torpor.results import load as saved
from torpor.results.files import open_regular
from torpor.results.kind import Kind
from torpor.results.kinds import KINDS, posted
from torpor.results.record import RESULT_FILE
from torpor.results.table import Cell, Table, counted, word
from torpor.run.loopback import Answer, Server
from torpor.view import report
from torpor.view.report.environment import page, table_html

PORT = 8321
#: Depth of folders that are listed; a store has thousands of files, which are not.
_DEPTH = 4
#: Files written less than this ago are reloaded; older ones are finished, or their writer was
#: killed.
_LIVE_S = 15
_REFRESH_S = 2
#: Files that are larger are not read, and neither is a longer first line.
_RESULT_BYTES = 256 << 20
_LINE_BYTES = 16 << 20
_EMPTY = (
    "There is nothing yet: `torpor simulate … --json > result.json`, "
    "`torpor sweep SPEC.toml --store STORE`, `torpor ab -o runs.jsonl` and "
    "`torpor stat --json > counters.jsonl` write what is shown here."
)
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # A page in the folder may be anybody's: its script sees that page and nothing else.
    "Content-Security-Policy": "sandbox allow-scripts allow-popups "
    "allow-popups-to-escape-sandbox allow-forms allow-top-navigation",
}


class Entry(NamedTuple):
    """Something to show: a result, a store, runs that go on, or a page."""

    name: str
    kind: str
    title: str
    modified_ns: int

    @property
    def address(self) -> str:
        # A name that is no text is found again by its bytes.
        return f"/view/{urllib.parse.quote(os.fsencode(self.name))}"

    @property
    def is_live(self) -> bool:
        return time.time_ns() - self.modified_ns < _LIVE_S * 10**9

    @property
    def is_running(self) -> bool:
        """Whether more is to come: results and pages are written at once."""
        is_open = self.kind in KINDS or self.title.endswith(" open")
        return is_open and self.is_live

    @property
    def when(self) -> str:
        try:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.modified_ns // 10**9))
        except (OverflowError, ValueError, OSError):
            return ""


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
        target, _, query = target.partition("?")
        path = urllib.parse.unquote(target, errors="surrogateescape")
        try:
            with self._one:
                if path == "/":
                    return self._index()
                if path.startswith("/view/") and (found := self._inside(path[len("/view/") :])):
                    return self._view(found, urllib.parse.parse_qs(query))
        except Exception as error:
            # A result that fits its schema may still contradict itself, anywhere in a page.
            return _message(422, f"This cannot be shown: {type(error).__name__}: {error}")
        return _message(404, "There is nothing of this name.")

    def entries(self) -> list[Entry]:
        """Return all there is to show, the newest first."""
        found = sorted(self._walk(self.root, _DEPTH), key=lambda e: (-e.modified_ns, e.name))
        return list(found)

    def _inside(self, name: str) -> Path | None:
        """Return the file or folder of this name, unless it is outside: by `..` or by a link."""
        try:
            path = (self.root / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            # Not there, a zero byte, or a link to itself.
            return None
        return path if path.is_relative_to(self.root) else None

    def _walk(self, folder: Path, depth: int) -> Iterator[Entry]:
        try:
            inside = sorted(folder.iterdir())
        except OSError:
            return
        for path in inside:
            if path.name.startswith(".") or self._inside(os.fspath(path)) is None:
                continue
            entry = self._entry(path)
            if entry is not None:
                yield entry
            elif path.is_dir() and depth:
                yield from self._walk(path, depth - 1)

    def _index(self) -> Answer:
        entries = self.entries()
        text = f"{len(entries)} results, stores and pages, the newest first." if entries else _EMPTY
        rows = [
            [
                Cell(entry.name, entry.name, link=entry.address),
                *(word(entry.kind), word(entry.title)),
                word(f"{entry.when}{' running' * entry.is_running}"),
            ]
            for entry in entries
        ]
        headings = ["Name", "kind", "of", "written"]
        found = table_html(Table("folder", "What is in the folder", headings, rows, keys=4))
        return _page(200, os.fspath(self.root), text, found, any(e.is_live for e in entries))

    def _view(self, path: Path, only: dict[str, list[str]]) -> Answer:
        entry = self._entry(path)
        if entry is None:
            return _message(404, "This is no result, store or page.")
        try:
            if entry.kind == "store":
                self._refuse_links(path)
                started_s = time.monotonic()
                body = _store(path, only)
                return _answer(200, body, entry.is_live, time.monotonic() - started_s)
            return _answer(200, _SHOWN[entry.kind](path), entry.is_live)
        except (TorporError, OSError) as error:
            return _message(422, f"{entry.name}: {error}", entry.is_live)

    def _entry(self, path: Path) -> Entry | None:
        """Return the entry of a path; None for a hidden one, or one outside of the folder."""
        for name in (_STORE_FILE, RESULT_FILE):
            if os.path.lexists(path / name) and self._inside(os.fspath(path / name)) is None:
                return None
        return _entry(path, os.fspath(path.relative_to(self.root)))

    def _refuse_links(self, store: Path) -> None:
        """Raise TorporError if what is read of a store is outside the folder."""
        for path in (store / _STORE_FILE, *store.glob("points/*"), *store.glob("open/*")):
            if self._inside(os.fspath(path)) is None:
                raise TorporError(f"`{path.relative_to(store)}` leads out of the folder")


def _message(status: int, text: str, is_live: bool = False) -> Answer:
    return _page(status, f"{status}", text, "", is_live)


def _page(status: int, title: str, text: str, found: str, is_live: bool) -> Answer:
    body = page("site.html.j2", title=title, text=text, list=found, version=__version__)
    return _answer(status, body, is_live)


def _answer(
    status: int, body: str | BinaryIO, is_live: bool = False, took_s: float = 0.0
) -> Answer:
    # A browser that is left open takes a quarter of a core at most.
    refresh = {"Refresh": str(max(_REFRESH_S, math.ceil(3 * took_s)))} if is_live else {}
    return Answer(status, body, _HEADERS | refresh)


_STORE_FILE = "store.json"


def _entry(path: Path, name: str) -> Entry | None:
    if (path / _STORE_FILE).is_file():
        files = [*(path / "points").glob("*.parquet"), *(path / "open").glob("*.jsonl")]
        return Entry(name, "store", _store_title(files), max(map(_modified, files), default=0))
    if (path / RESULT_FILE).is_file():
        kind, title = _described(path / RESULT_FILE)
        return Entry(name, kind or "damaged", title, _modified(path / RESULT_FILE))
    if not path.is_file():
        return None
    if path.suffix == ".html":
        return Entry(name, "page", "", _modified(path))
    if path.suffix == ".json" and path.name != RESULT_FILE:
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
    if size > _RESULT_BYTES:
        return "damaged", f"larger than {_RESULT_BYTES >> 20} MiB"
    try:
        return "result", "; ".join(posted(one).title for one in _parsed(path))
    except (saved.ForeignError, OSError):
        return "", ""
    except Exception:
        # Its page says why.
        return "damaged", ""


def _kind_of_lines(path: Path) -> str:
    """Return the kind of a file of lines, as `torpor ab -o` or `torpor stat --json` writes it, or
    nothing."""
    try:
        with open_regular(path) as file:
            first = json.loads(file.readline(_LINE_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(first, dict):
        return ""
    growing = (kind.name for kind in KINDS.values() if kind.growing and kind.growing.begins(first))
    return next(growing, "")


def _parsed(path: Path) -> list[Any]:
    """The results in a file or folder, each as plain data."""
    found: Any = saved.load_bounded(path, _RESULT_BYTES)
    several = found if isinstance(found, list) else [found]
    return [one.to_dict() if hasattr(one, "to_dict") else one for one in several]


def _result(path: Path) -> str:
    several = _parsed(path)
    return report.render(several[0] if len(several) == 1 else several)


def _store(path: Path, only: dict[str, list[str]]) -> str:
    """The page of a store's points that match one pattern of each column."""
    from torpor.run.sweeps import ranks
    from torpor.run.sweeps.store import open_store
    from torpor.view.report import sweep

    points = ranks.filtered(ranks.against_oracle(open_store(path).points()), only)
    return sweep.render(points, path.name, is_served=True)


def _html(path: Path) -> BinaryIO:
    """A page as it is: it is sent piece by piece."""
    return open_regular(path)


def _lines(path: Path) -> list[Any]:
    """The whole lines of a file that may be written to."""
    whole = saved.read_text(path, _RESULT_BYTES).rpartition("\n")[0]
    return [saved.parse_json(line, path) for line in whole.split("\n") if line]


def _growing(kind: Kind, path: Path) -> str:
    """The page of the lines that there are so far."""
    assert kind.growing is not None
    result = kind.growing.result(
        _lines(path), functools.partial(conformance.check_record, name=path.name)
    )
    return report.render(saved.checked(result, path))


_SHOWN: dict[str, Callable[[Path], str | BinaryIO]] = {
    "result": _result,
    "damaged": _result,
    "page": _html,
    **{kind.name: functools.partial(_growing, kind) for kind in KINDS.values() if kind.growing},
}


def server(root: str | os.PathLike[str], port: int = PORT) -> Server:
    """Return a server of a folder's site, which is yet to be started.

    Raises TorporError if there is no such folder, and OSError if the port is taken.
    """
    return Server(Site(root).answer, port)
