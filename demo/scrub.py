#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Blanks the strings of a perf.data header that name a machine or a person.

Host name and command line are overwritten with zeros in place, and the kernel release is cut
after its version; nothing moves, so every offset in the file stays right. The layout is in
tools/perf/Documentation/perf.data-file-format.txt of the kernel.
"""

import re
import struct
import sys

HEADER_HOSTNAME, HEADER_OSRELEASE, HEADER_CMDLINE, HEADER_FEAT_BITS = 3, 4, 11, 256


def sections(data: bytes):
    """(feature bit, offset, size) of every feature section."""
    magic, _header_size, _attr_size = struct.unpack_from("<8sQQ", data)
    if magic != b"PERFILE2":
        sys.exit("this is no perf.data file")
    _attrs, (data_offset, data_size) = (struct.unpack_from("<QQ", data, at) for at in (24, 40))
    flags = int.from_bytes(data[72 : 72 + HEADER_FEAT_BITS // 8], "little")
    at = data_offset + data_size
    for bit in range(HEADER_FEAT_BITS):
        if flags >> bit & 1:
            yield bit, *struct.unpack_from("<QQ", data, at)
            at += 16


def strings(data: bytes, offset: int, count: int):
    """(offset, length) of `count` perf header strings: a length, then the padded text."""
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, offset)
        yield offset + 4, length
        offset += 4 + length


def scrub(data: bytearray) -> None:
    for bit, offset, _size in list(sections(data)):
        if bit == HEADER_HOSTNAME:
            blank = strings(data, offset, 1)
        elif bit == HEADER_CMDLINE:
            (count,) = struct.unpack_from("<I", data, offset)
            blank = strings(data, offset + 4, count)
        elif bit == HEADER_OSRELEASE:
            ((start, length),) = strings(data, offset, 1)
            version = re.match(rb"[0-9.]*", data[start : start + length]).end()
            blank = [(start + version, length - version)]
        else:
            continue
        for start, length in blank:
            data[start : start + length] = bytes(length)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: scrub.py PERF_DATA   (changes the file)")
    with open(sys.argv[1], "r+b") as file:
        data = bytearray(file.read())
        scrub(data)
        file.seek(0)
        file.write(data)


if __name__ == "__main__":
    main()
