# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records through tracefs, in an instance of its own, so that other tracing is not disturbed."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from torpor import _engine
from torpor.machine.record import events, owner, trace_dat
from torpor.machine.record.backend import Saved
from torpor.machine.record.errors import NEEDS_ROOT, RecordError, WriteError, write
from torpor.machine.record.machine import Machine, read, text_symbols
from torpor.results.files import read_bytes

#: Each CPU's buffer: all together take no more than an eighth of the memory that is free.
_BUFFER_KB_MAX = 16 << 10
_BUFFER_KB_MIN = 512
_MEMORY_RATIO = 8


def why_unusable(tracefs: Path) -> RecordError | None:
    """Return why no instance can be made, or None."""
    folder = tracefs / "instances"
    if not os.path.isdir(folder):
        return RecordError(
            f"`{folder}` is missing", "CONFIG_TRACING is required; try --backend perf"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return RecordError(f"`{folder}` may not be written to", NEEDS_ROOT)
    return None


class Tracefs:
    """A tracefs instance, from its creation on entry to its removal on exit."""

    name = "tracefs"

    def __init__(
        self,
        machine: Machine,
        tracefs: Path,
        names: Iterable[str],
        output: Path,
        buffer_kb: int | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._machine, self._tracefs, self._names = machine, tracefs, list(names)
        self._instance = tracefs / "instances" / owner.instance_name()
        self._output = output
        self._buffer_kb = buffer_kb or _buffer_kb(machine)
        self._streams: list[_Stream] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> "Tracefs":
        with contextlib.ExitStack() as cleanup:
            make_instance(self._instance)
            cleanup.callback(remove_instance, self._instance)
            write(self._instance / "tracing_on", "0")
            write(self._instance / "trace_clock", "mono")
            write(self._instance / "buffer_size_kb", str(self._buffer_kb))
            self._enable()
            self._header = _header(self._tracefs, self._instance, self._names)
            for folder in (self._instance / "per_cpu").glob("cpu*"):
                stream = _Stream(folder, self._header.page_size, self._output.parent)
                cleanup.callback(stream.close)
                self._streams.append(stream)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def start(self) -> None:
        write(self._instance / "tracing_on", "1")

    def mark(self, text: str) -> None:
        write(self._instance / "trace_marker", f"{text}\n")

    def tend(self) -> int:
        """Empty the buffers that are half full, and no others: to read is to disturb."""
        for stream in self._streams:
            if stream.stats().get("bytes", 0) * 2 > self._buffer_kb << 10:
                stream.drain()
        return sum(stream.pages.tell() for stream in self._streams)

    def stop(self) -> None:
        write(self._instance / "tracing_on", "0")

    def save(self) -> Saved:
        for stream in self._streams:
            stream.drain()
        header = self._header
        header.kallsyms = text_symbols(self._machine) or b""
        header.printk_formats = _bytes(self._tracefs / "printk_formats")
        header.saved_cmdlines = _bytes(self._tracefs / "saved_cmdlines")
        header.stats = {stream.cpu: _bytes(stream.folder / "stats") for stream in self._streams}
        with _engine.WholeFile(os.fspath(self._output)) as file:
            trace_dat.write(file, header, {s.cpu: s.pages for s in self._streams})
        stats = [stream.stats() for stream in self._streams]
        lost = ("overrun", "commit overrun", "dropped events")
        return Saved(
            events_count=sum(s.get("read events", 0) for s in stats),
            lost_count=sum(s.get(key, 0) for s in stats for key in lost),
        )

    def _enable(self) -> None:
        for name in self._names:
            try:
                write(events.event_dir(self._instance, name) / "enable", "1")
            except WriteError as error:
                if name == events.CPU_IDLE:
                    raise
                self.notes.append(f"{name} cannot be recorded: {error.reason}")


class _Stream:
    """One CPU's ring buffer, and the file that takes its pages."""

    def __init__(self, folder: Path, page_size: int, output_dir: Path) -> None:
        self.cpu, self.folder = int(folder.name.removeprefix("cpu")), folder
        self._page_size = page_size
        self._pipe = os.open(folder / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        # It has no name, so nothing of it remains whatever happens.
        self.pages: BinaryIO = open_unnamed(output_dir)

    def close(self) -> None:
        os.close(self._pipe)
        self.pages.close()

    def stats(self) -> dict[str, int]:
        found = re.findall(r"^(.+): (\d+)$", read(self.folder / "stats") or "", re.M)
        return {key: int(value) for key, value in found}

    def drain(self) -> None:
        # The kernel hands out a page at a time, the last one with what it holds so far.
        with contextlib.suppress(BlockingIOError):
            while page := os.read(self._pipe, self._page_size):
                self.pages.write(page)


def open_unnamed(folder: Path) -> BinaryIO:
    return tempfile.TemporaryFile(dir=folder)


def make_instance(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as error:
        raise RecordError(f"make `{path}`: {error.strerror}", NEEDS_ROOT) from error


def remove_instance(path: Path) -> None:
    path.rmdir()


def _header(tracefs: Path, instance: Path, names: Iterable[str]) -> trace_dat.Header:
    """Collect what must be read while the events, probes among them, are there."""
    pages = instance / "events"
    if not (pages / "header_page").exists():
        pages = tracefs / "events"
    header_page = _bytes(pages / "header_page")
    found = re.search(rb"\bdata;\s*offset:(\d+);\s*size:(\d+)", header_page)
    if found is None:
        raise RecordError(f"`{pages / 'header_page'}` does not contain the size of a page")
    formats: dict[str, list[bytes]] = {}
    for name in names:
        data = _bytes(events.event_dir(instance, name) / "format")
        formats.setdefault(name.partition(":")[0], []).append(data)
    uname = os.uname()
    return trace_dat.Header(
        page_size=int(found[1]) + int(found[2]),
        header_page=header_page,
        header_event=_bytes(pages / "header_event"),
        ftrace_formats=[_bytes(p) for p in sorted(tracefs.glob("events/ftrace/*/format"))],
        formats=formats,
        trace_clock=_bytes(instance / "trace_clock"),
        # The second field is the host's name: leave it out.
        uname=f"{uname.sysname} - {uname.release} {uname.machine}",
    )


def _buffer_kb(machine: Machine) -> int:
    available_kb = machine.memory_available_kb()
    if available_kb is None:
        return _BUFFER_KB_MIN
    share_kb = available_kb // _MEMORY_RATIO // max(len(machine.cpus()), 1)
    return min(max(share_kb, _BUFFER_KB_MIN), _BUFFER_KB_MAX)


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError:
        return b""
