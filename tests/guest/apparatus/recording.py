# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recordings of guests: what each needs to be verified, as `torpor record` would have made it.

The guest copies the ring buffer's pages and formats out, and trace.dat is written here. So it takes
no tool in the guest but its shell, and nothing that would run beside the workload.
"""

import gzip
import io
import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from torpor.machine.record import trace_dat
from torpor.machine.record.events import everything
from torpor.machine.record.probes import PROBES

from . import machine
from .packages import Kernel

#: The menus of 2012 get the utilization for the load, which tracepoints tell only in part.
WATCHED = {**PROBES, "sched_cpu_util": "u64"}

SCRIPT = Path(__file__).with_name("record.sh")

#: For each CPU. The longest recording fills a third of it.
BUFFER_KB = 8192


@dataclass(frozen=True)
class Job:
    """One recording: the governor by its name in sysfs, and the workload's command."""

    name: str
    governor: str
    workload: str


@dataclass(frozen=True)
class Recording:
    """One recording, and the counters before and after it."""

    trace: bytes
    before: bytes
    after: bytes

    def save(self, folder: Path) -> Path:
        """Write it, compressed, with its dumps where `torpor fidelity` looks for them."""
        folder.mkdir(parents=True, exist_ok=True)
        trace = folder / "trace.dat.gz"
        trace.write_bytes(gzip.compress(self.trace, mtime=0))
        (folder / "sysfs-before.txt").write_bytes(self.before)
        (folder / "sysfs-after.txt").write_bytes(self.after)
        return trace


def script(setup: str, jobs: list[Job], *, has_probes: bool = True) -> str:
    """Return the guest's script: `setup`, which loads the governors, then one job after another."""
    names = " ".join(name.replace(":", "/") for name in everything())
    probed = " ".join(f"{name}:{kind}" for name, kind in WATCHED.items()) if has_probes else ""
    settings = f'events="{names}"\nprobes="{probed}"\nbuffer_kb={BUFFER_KB}\n'
    calls = "".join(f"record {job.name} {job.governor} {job.workload}\n" for job in jobs)
    return f"{settings}{setup}\n{SCRIPT.read_text(encoding='utf-8')}\n{calls}"


def collect(kernel: Kernel, result: machine.Result) -> dict[str, Recording]:
    """Make the recordings of what a guest has left, by name; an error if events were lost."""
    files = result.files
    ends = "/sysfs-after.txt"
    folders = [name.removesuffix(ends) for name in sorted(files) if name.endswith(ends)]
    return {f.removeprefix("recordings/"): _collect(kernel, files, f) for f in folders}


def _collect(kernel: Kernel, files: dict[str, bytes], folder: str) -> Recording:
    pages, stats = {}, {}
    for name, data in files.items():
        if name.startswith(f"{folder}/cpu") and name.endswith("/pages"):
            cpu = int(name.split("/")[-2].removeprefix("cpu"))
            pages[cpu], stats[cpu] = data, files[f"{folder}/cpu{cpu}/stats"]
            if b"overrun: 0\n" not in stats[cpu]:
                raise machine.GuestError(f"{folder}: CPU {cpu} has lost events; enlarge its buffer")
    formats: dict[str, list[bytes]] = {}
    for name, data in sorted(files.items()):
        if name.startswith("formats/") and name.endswith("/format"):
            formats.setdefault(name.split("/")[1], []).append(data)
    machines = {"amd64": "x86_64", "arm64": "aarch64"}
    header = trace_dat.Header(
        page_size=4096,
        header_page=files["formats/header_page"],
        header_event=files["formats/header_event"],
        ftrace_formats=formats.pop("ftrace"),
        formats=formats,
        trace_clock=files["formats/trace_clock"],
        uname=f"Linux - {kernel.release} {machines[kernel.arch]}",
        kallsyms=_symbols(files["kallsyms"], pages.values()),
        saved_cmdlines=files[f"{folder}/saved_cmdlines"],
        stats=stats,
    )
    trace = io.BytesIO()
    trace_dat.write(trace, header, {cpu: io.BytesIO(data) for cpu, data in pages.items()})
    return Recording(
        trace.getvalue(), files[f"{folder}/sysfs-before.txt"], files[f"{folder}/sysfs-after.txt"]
    )


def _symbols(kallsyms: bytes, pages) -> bytes:
    """The symbols whose addresses occur in the pages, of the 100,000 that a kernel has.

    Each with the next one behind it, so that no address beyond is taken for it.
    """
    words: set[int] = set()
    for data in pages:
        # Fields are aligned to 4 bytes.
        for begin in (0, 4):
            count = (len(data) - begin) // 8
            words.update(struct.unpack_from(f"<{count}Q", data, begin))
    lines = {int(line.split()[0], 16): line for line in kallsyms.splitlines(keepends=True)}
    addresses = sorted(lines)
    kept = set()
    for word in words:
        # A probe's address may lie some bytes after the function's.
        place = bisect_right(addresses, word)
        if 0 < place < len(addresses):
            kept.update(addresses[place - 1 : place + 1])
    return b"".join(lines[address] for address in sorted(kept))
