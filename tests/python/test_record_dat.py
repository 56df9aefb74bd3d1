# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""trace.dat as written, read by the manual page's words."""

import io
import struct
import sys

from torpor.machine.record import trace_dat


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size : self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), sys.byteorder)

    def text(self):
        end = self.data.index(b"\0", self.at)
        return self.take(end + 1 - self.at)[:-1].decode()

    def formats(self):
        return [self.take(self.number(8)) for _ in range(self.number(4))]


def header(**kwargs):
    return trace_dat.Header(
        page_size=4096,
        header_page=b"page",
        header_event=b"event",
        ftrace_formats=[b"print"],
        formats={"power": [b"cpu_idle", b"cpu_idle_miss"], "sched": [b"switch"]},
        trace_clock=b"local [mono]\n",
        uname="Linux 6.12",
        **kwargs,
    )


def written(header, pages):
    file = io.BytesIO()
    trace_dat.write(file, header, {cpu: io.BytesIO(data) for cpu, data in pages.items()})
    return file.getvalue()


def test_parts_are_where_the_manual_page_says():
    known = header(
        kallsyms=b"symbols", printk_formats=b"printk", saved_cmdlines=b"7 sh\n", stats={0: b"x: 1"}
    )
    # CPU 1 is missing, for example offline. Its place in the table stays.
    pages = {0: b"a" * 8192, 2: b"c" * 4096}
    data = written(known, pages)
    file = Reader(data)
    assert file.take(10) == b"\x17\x08\x44tracing"
    assert file.text() == "6"
    assert file.number(1) == (sys.byteorder == "big") and file.number(1) == struct.calcsize("P")
    assert file.number(4) == 4096
    assert file.text() == "header_page" and file.take(file.number(8)) == b"page"
    assert file.text() == "header_event" and file.take(file.number(8)) == b"event"
    assert file.formats() == [b"print"]
    systems = {file.text(): file.formats() for _ in range(file.number(4))}
    assert systems == {"power": [b"cpu_idle", b"cpu_idle_miss"], "sched": [b"switch"]}
    assert file.take(file.number(4)) == b"symbols"
    assert file.take(file.number(4)) == b"printk"
    assert file.take(file.number(8)) == b"7 sh\n"
    assert file.number(4) == 3
    assert file.take(10) == b"options  \0"
    options = []
    while option := file.number(2):
        options.append((option, file.take(file.number(4))))
    assert options == [(2, b"CPU: 0\nx: 1\0"), (4, b""), (5, b"Linux 6.12\0")]
    assert file.take(10) == b"flyrecord\0"
    places = [(file.number(8), file.number(8)) for _ in range(3)]
    assert file.take(file.number(8)) == b"local [mono]\n"
    assert [size for _, size in places] == [8192, 0, 4096]
    for cpu, (offset, size) in enumerate(places):
        assert offset % 4096 == 0 and offset >= file.at
        assert data[offset : offset + size] == pages.get(cpu, b"")


def test_empty_recording_is_a_valid_file():
    assert written(header(), {}).startswith(b"\x17\x08\x44tracing6\0")
    assert written(header(), {0: b""}).endswith(b"\0")
