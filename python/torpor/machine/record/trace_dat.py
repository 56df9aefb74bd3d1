# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes trace.dat, version 6: the ring buffer's pages as the kernel gave them, and their formats.

The layout is that of the manual page trace-cmd.dat.v6(5); the numbers of the options, which it does
not list, are those of trace-cmd's own files. Version 6 and not 7, because it is simpler, every
reader has it, and the pages are not compressed while a machine is recorded.
"""

import os
import shutil
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

_MAGIC = b"\x17\x08\x44tracing"
_OPTION_CPUSTAT = 2
_OPTION_TRACECLOCK = 4
_OPTION_UNAME = 5


@dataclass
class Header:
    """The contents before the pages; each text as the kernel's file of that name has it."""

    #: Size of a page of the ring buffer, which since Linux 6.8 need not be one of memory.
    page_size: int
    header_page: bytes
    header_event: bytes
    #: The formats of events/ftrace/*.
    ftrace_formats: list[bytes]
    #: The formats of the events recorded, by system.
    formats: Mapping[str, list[bytes]]
    trace_clock: bytes
    uname: str
    kallsyms: bytes = b""
    printk_formats: bytes = b""
    saved_cmdlines: bytes = b""
    #: per_cpu/cpu*/stats, by CPU.
    stats: dict[int, bytes] = field(default_factory=dict)


class Writer(Protocol):
    """Destination of a recording."""

    def write(self, data: bytes, /) -> int:
        """Take all of it."""

    def tell(self) -> int:
        """Return how much was taken."""


def write(file: Writer, header: Header, pages: Mapping[int, BinaryIO]) -> None:
    """Write a whole file; ``pages`` holds each CPU's, from the start of its stream."""
    _write_head(file, header)
    # A reader takes a CPU's number from its place in the table.
    cpus = range(max(pages, default=-1) + 1)
    file.write(_u32(len(cpus)) + b"options  \0")
    for option, data in _options(header):
        file.write(struct.pack("=HI", option, len(data)) + data)
    file.write(struct.pack("=H", 0) + b"flyrecord\0")
    sizes = [pages[cpu].seek(0, os.SEEK_END) if cpu in pages else 0 for cpu in cpus]
    clock = _u64(len(header.trace_clock)) + header.trace_clock
    offset = _aligned(file.tell() + 16 * len(sizes) + len(clock), header.page_size)
    for size in sizes:
        file.write(_u64(offset) + _u64(size))
        offset = _aligned(offset + size, header.page_size)
    file.write(clock)
    for cpu in cpus:
        file.write(bytes(-file.tell() % header.page_size))
        if cpu in pages:
            pages[cpu].seek(0)
            shutil.copyfileobj(pages[cpu], file, 1 << 20)


def _write_head(file: Writer, header: Header) -> None:
    is_big = sys.byteorder == "big"
    file.write(_MAGIC + b"6\0" + bytes([is_big, struct.calcsize("P")]) + _u32(header.page_size))
    for name, data in (
        (b"header_page\0", header.header_page),
        (b"header_event\0", header.header_event),
    ):
        file.write(name + _u64(len(data)) + data)
    _write_formats(file, header.ftrace_formats)
    file.write(_u32(len(header.formats)))
    for system, formats in header.formats.items():
        file.write(system.encode() + b"\0")
        _write_formats(file, formats)
    file.write(_u32(len(header.kallsyms)) + header.kallsyms)
    file.write(_u32(len(header.printk_formats)) + header.printk_formats)
    file.write(_u64(len(header.saved_cmdlines)) + header.saved_cmdlines)


def _write_formats(file: Writer, formats: list[bytes]) -> None:
    file.write(_u32(len(formats)))
    for data in formats:
        file.write(_u64(len(data)) + data)


def _options(header: Header) -> Iterable[tuple[int, bytes]]:
    for cpu, stats in header.stats.items():
        yield _OPTION_CPUSTAT, f"CPU: {cpu}\n".encode() + stats + b"\0"
    # The clock itself follows the table of CPUs.
    yield _OPTION_TRACECLOCK, b""
    yield _OPTION_UNAME, header.uname.encode() + b"\0"


def _aligned(offset: int, size: int) -> int:
    return -(-offset // size) * size


def _u32(value: int) -> bytes:
    return struct.pack("=I", value)


def _u64(value: int) -> bytes:
    return struct.pack("=Q", value)
