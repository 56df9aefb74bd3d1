# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Makes a small perf.data of a large one: the first samples, without the records that name the
machine's processes and their files.

usage: trim.py INPUT OUTPUT BYTES_OF_RECORDS
"""

import struct
import sys

# COMM, EXIT, FORK, MMAP2, KSYMBOL, BPF_EVENT, CGROUP, AUX_OUTPUT_HW_ID, and perf's own ID_INDEX,
# THREAD_MAP, CPU_MAP: not needed to read a tracepoint's sample.
DROPPED = {3, 4, 7, 10, 17, 18, 19, 21, 69, 73, 74}
SAMPLE = 9


def records(data, begin, end):
    while begin < end:
        kind, _misc, size = struct.unpack_from("<IHH", data, begin)
        yield kind, data[begin : begin + size]
        begin += size


def main():
    source, target, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(source, "rb") as file:
        data = file.read()
    data_at, data_size = struct.unpack_from("<QQ", data, 40)
    flags = struct.unpack_from("<4Q", data, 72)
    features = [bit for bit in range(256) if flags[bit // 64] >> (bit % 64) & 1]

    kept = b""
    is_full = False
    for kind, record in records(data, data_at, data_at + data_size):
        is_full |= kind == SAMPLE and len(kept) + len(record) > limit
        if kind not in DROPPED and not (kind == SAMPLE and is_full):
            kept += record

    out = bytearray(data[:data_at]) + kept
    struct.pack_into("<Q", out, 48, len(kept))
    table, sections = b"", b""
    sections_at = len(out) + 16 * len(features)
    for index in range(len(features)):
        offset, size = struct.unpack_from("<QQ", data, data_at + data_size + 16 * index)
        table += struct.pack("<QQ", sections_at + len(sections), size)
        sections += data[offset : offset + size]
    with open(target, "wb") as file:
        file.write(out + table + sections)


if __name__ == "__main__":
    main()
