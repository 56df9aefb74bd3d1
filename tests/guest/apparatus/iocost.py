# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""CPU time of a request under each of fio's engines, in a stock kernel, by instructions.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.iocost [ARCH]

boots Debian's 6.12 with a `null_blk` drive and prints instructions of the asking task for each
request: its submission and its result, past the page cache, through it, and from it. The
interrupt's work is not in it, nor fio's own.
"""

import sys

from . import build, machine, packages

ENGINES = ("psync", "libaio", "io_uring")

#: One CPU at 1 ns an instruction: times are instructions.
ICOUNT_SHIFT = 0

#: The kernel tests its own cryptography in a thread for some seconds after the boot, at the
#: expense of what runs then.
SETTLED_S = 8

#: Mitigations take up to 10,000 instructions a system call, as the CPU's model has them.
ARGUMENTS = "mitigations=off randomize_kstack_offset=off"

#: Way, operation, KiB, depth, requests.
CASES = (
    ("direct", "read", 4, 1, 2000),
    ("direct", "read", 4, 32, 640),
    ("direct", "read", 128, 1, 400),
    ("direct", "write", 4, 1, 2000),
    ("buffered", "read", 4, 1, 2000),
    ("buffered", "read", 4, 32, 640),
    ("buffered", "read", 128, 1, 400),
    ("cached", "read", 4, 1, 2000),
    ("cached", "read", 128, 1, 400),
    ("read-ahead", "read", 4, 1, 6400),
    ("read-ahead", "read", 128, 1, 400),
    ("buffered", "write", 4, 1, 2000),
    ("buffered", "write", 128, 1, 200),
)


def _script() -> str:
    lines = ["insmod /mod/configfs.ko", f"sleep {SETTLED_S}"]
    for way, operation, kib, depth, requests in CASES:
        # A read of 0.1 ms; where many are under way, none may end before all are submitted.
        time_ns = 100_000 if depth == 1 else 10_000_000
        settings = f"nr_devices=1 gb=1 irqmode=2 completion_nsec={time_ns}"
        lines.append(f"insmod /mod/null_blk.ko {settings}")
        for engine in ENGINES:
            if engine == "psync" and depth > 1:
                continue
            lines.append("sync; echo 3 > /proc/sys/vm/drop_caches")
            asked = f"{engine} {way} {operation} {kib} {depth} /dev/nullb0 {requests}"
            lines.append(f"io_cost {asked} >> /out/costs")
        lines.append("sync; rmmod null_blk")
    return "\n".join(lines)


def measure(arch: str = "amd64") -> dict[tuple[str, ...], tuple[int, int]]:
    """Return instructions to submit and to get a result, by engine, way, operation, KiB, depth."""
    kernel = packages.fetch(arch, "6.12")
    files = {
        "bin/io_cost": build.programs(arch)["io_cost"],
        **{f"mod/{name}.ko": kernel.module(name) for name in ("configfs", "null_blk")},
    }
    ran = machine.run(
        kernel, _script(), files, cpus=1, icount_shift=ICOUNT_SHIFT, arguments=ARGUMENTS
    )
    if ran.status:
        raise machine.GuestError(f"status {ran.status}:\n{ran.console[-2000:]}")
    found = {}
    for line in ran.text("costs").splitlines():
        *case, submit, complete = line.split()
        found[tuple(case)] = (int(submit), int(complete))
    return found


def main() -> None:
    """Print a table."""
    print("| engine | | | KiB | depth | submission | result | both |")
    print("|---|---|---|---|---|---|---|---|")
    for case, (submit, complete) in measure(*sys.argv[1:2]).items():
        print(f"| {' | '.join(case)} | {submit} | {complete} | {submit + complete} |")


if __name__ == "__main__":
    main()
