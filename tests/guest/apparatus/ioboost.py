# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""IO boosts in a kernel: what frequencies schedutil asks for while disks are read.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.ioboost [FOLDER]

builds a kernel with all boosts in it, boots it with each on a machine that takes itself for an
RK3399, and writes requests.csv, each request in its time, and summary.csv, in that folder or in
tests/data/ioboost.
"""

import csv
import gzip
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ioboost import insert

from . import build, machine, source
from .packages import ROOT, Kernel

CORPUS = ROOT / "tests" / "data" / "ioboost"

#: Nothing on the command line: the kernel's own boost.
KERNELS_OWN = "kernel"

#: The first of eight levels is below the lowest frequency that is worth its energy: the first of
#: four is above it.
COARSE = "levels=4,level_util=204"

#: capacity-dmips-mhz of each CPU of an RK3399, Linux 6.12 arch/arm64/boot/dts/rockchip.
CAPACITIES = (485,) * 4 + (1024,) * 2


@dataclass(frozen=True)
class Domain:
    """CPUs of one clock: the first and the last, dynamic-power-coefficient, MHz and mV of OPPs."""

    name: str
    first: int
    last: int
    power_coefficient: int
    opps: tuple[tuple[int, int], ...]

    def parameter(self) -> str:
        """The domain as torpor_cpufreq takes it: power goes with MHz * V * V."""
        opps = ",".join(
            f"{mhz * 1000}:{self.power_coefficient * mhz * mv * mv // 1_000_000}"
            for mhz, mv in self.opps
        )
        return f"{self.first}-{self.last}@{opps}"


DOMAINS = (
    Domain(
        "little",
        0,
        3,
        100,
        ((408, 825), (600, 825), (816, 850), (1008, 925), (1200, 1000), (1416, 1125)),
    ),
    Domain(
        "big",
        4,
        5,
        436,
        (
            *((408, 825), (600, 825), (816, 825), (1008, 875)),
            *((1200, 950), (1416, 1025), (1608, 1100), (1800, 1200)),
        ),
    ),
)

#: Latency of the disk: about what leaves an RK3399 its 3,000 reads a second.
COMPLETION_NS = 250_000

#: The minimum time between two requests, schedutil's default if the driver sets none.
DELAY_US = 1000

DURATION_S = 3

#: An instruction takes 1 ns, as about on such a CPU.
ICOUNT_SHIFT = 0

#: By name, as the guest's shell runs them.
LOADS = {
    "reader": f"random_reader /dev/nullb0 1 {DURATION_S}",
    "readers": f"random_reader /dev/nullb0 2 {DURATION_S}",
    "reader-little": f"taskset f random_reader /dev/nullb0 1 {DURATION_S}",
    "reader-big": f"taskset 30 random_reader /dev/nullb0 1 {DURATION_S}",
}

SCRIPT = Path(__file__).with_name("ioboost.sh")


@dataclass(frozen=True)
class Run:
    """A load with a boost: the reads, and the requested frequencies."""

    boost: str
    load: str
    iops: int
    #: CPU time of a read on a CPU that was never slower than the fastest.
    cpu_ns: int
    #: By domain: when, from the load's start on, and kHz. The first is what was before.
    requests: dict[str, list[tuple[int, int]]]
    duration_ns: int
    #: Evaluations of a CPU's utilization, and those in which the kernel's own boost differs.
    asked: int
    other: int

    def khz(self, domain: str) -> float:
        """The requested frequency, averaged over the load's time."""
        requests = self.requests[domain]
        ends = [at_ns for at_ns, _ in requests[1:]] + [self.duration_ns]
        held = (khz * (end - at) for (at, khz), end in zip(requests, ends, strict=True))
        return sum(held) / self.duration_ns


def kernel() -> Kernel:
    """The kernel for arm64 with all boosts, built if need be; raises what `source.build` does."""
    boosts = sorted(insert.BOOSTS.glob("*.c"))
    files = [Path(insert.__file__), *insert.sources(boosts)]
    return source.build(
        "ioboost",
        "arm64",
        (Path(__file__).with_name("ioboost.config"),),
        lambda tree: insert.install(tree, boosts),
        b"".join(file.read_bytes() for file in files),
    )


def names() -> list[str]:
    """All boosts, the kernel's own before them, and those with coarse steps."""
    ours = sorted(file.stem for file in insert.BOOSTS.glob("*.c"))
    return [KERNELS_OWN, *ours, *(f"{name},{COARSE}" for name in ours if "per-task" in name)]


def run(own: Kernel, boost: str, loads: list[str], timeout_s: float = 600) -> list[Run]:
    """Boot the kernel with this boost and run the loads, one after another.

    Parameters may follow the boost's name: `per-task,levels=4`.

    Raises GuestError if the kernel complained or places tasks without the energy model, and
    NotHereError where guests cannot be.
    """
    files = {
        "mod/torpor_cpufreq.ko": build.modules(own)["torpor_cpufreq"],
        **{f"mod/{name}.ko": own.module(name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in build.programs(own.arch).items()},
    }
    settings = {
        "policies": "/".join(domain.parameter() for domain in DOMAINS),
        "firsts": " ".join(str(domain.first) for domain in DOMAINS),
        "completion_ns": COMPLETION_NS,
        "delay_us": DELAY_US,
    }
    script = "".join(f"{key}='{value}'\n" for key, value in settings.items())
    script += SCRIPT.read_text(encoding="utf-8")
    script += "".join(f"record {name} {LOADS[name]}\n" for name in loads)
    result = machine.run(
        own,
        script,
        files,
        cpus=len(CAPACITIES),
        capacities=CAPACITIES,
        icount_shift=ICOUNT_SHIFT,
        arguments=f"sched_verbose {_chosen(boost)}",
        timeout_s=timeout_s,
    )
    if result.status != 0 or result.complaints:
        raise machine.GuestError(f"{boost}: {result.complaints}\n{result.console[-2000:]}")
    if boost != KERNELS_OWN and result.text("boost").strip() != boost.split(",")[0]:
        raise machine.GuestError(f"the kernel has no boost {boost}")
    if "starting EAS" not in result.text("dmesg"):
        raise machine.GuestError(f"tasks are not placed by energy:\n{result.text('dmesg')[-2000:]}")
    return [_run(result, boost, name) for name in loads]


def _chosen(boost: str) -> str:
    """Return the kernel's command line option of a boost."""
    if boost == KERNELS_OWN:
        return ""
    name, *parameters = boost.split(",")
    module = name.replace("-", "_")
    return " ".join([f"ioboost={name}", *(f"{module}.{one}" for one in parameters)])


def _run(result: machine.Result, boost: str, load: str) -> Run:
    said = result.text(f"{load}/said").split()
    begin_ns = end_ns = 0
    requests = {
        domain.name: [(0, int(khz))]
        for domain, khz in zip(DOMAINS, result.text(f"{load}/before").split(), strict=True)
    }
    of_cpu = {domain.first: requests[domain.name] for domain in DOMAINS}
    for line in result.text(f"{load}/trace").splitlines():
        event = re.search(r" (\d+)\.(\d{6}): (\w+): (.*)", line)
        if not event:
            continue
        at_ns = int(event[1] + event[2]) * 1000
        if event[3] == "tracing_mark_write":
            begin_ns, end_ns = (at_ns, 0) if event[4] == "begin" else (begin_ns, at_ns)
        elif begin_ns and not end_ns:
            khz, cpu = map(int, re.findall(r"=(\d+)", event[4]))
            of_cpu[cpu].append((at_ns - begin_ns, khz))
    asked, other = (
        after - before
        for before, after in zip(
            *(map(int, result.text(f"{load}/{name}").split()) for name in ("counts", "counted")),
            strict=True,
        )
    )
    return Run(boost, load, int(said[1]), int(said[3]), requests, end_ns - begin_ns, asked, other)


SUMMARY = (
    *("boost", "load", "iops", "cpu_ns", "little_khz", "big_khz"),
    *("little_requests", "big_requests", "asked", "other"),
)


def summary(runs: list[Run]) -> str:
    """A line a run, with the frequencies' averages."""
    rows = [
        (
            *(one.boost, one.load, one.iops, one.cpu_ns),
            *(round(one.khz(domain.name)) for domain in DOMAINS),
            *(len(one.requests[domain.name]) - 1 for domain in DOMAINS),
            *(one.asked, one.other),
        )
        for one in runs
    ]
    return _csv(SUMMARY, rows)


def requests(runs: list[Run]) -> str:
    """A line a request, in the order of time within each run and domain."""
    rows = [
        (one.boost, one.load, domain, at_ns // 1000, khz)
        for one in runs
        for domain, asked in one.requests.items()
        for at_ns, khz in asked
    ]
    return _csv(("boost", "load", "domain", "time_us", "khz"), rows)


def _csv(header: tuple, rows: list[tuple]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    return text.getvalue()


def main() -> None:
    """Record all boosts with all loads."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    own = kernel()
    runs = [one for boost in names() for one in run(own, boost, list(LOADS))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.csv").write_text(summary(runs), encoding="utf-8")
    packed = gzip.compress(requests(runs).encode(), mtime=0)
    (folder / "requests.csv.gz").write_bytes(packed)
    print(summary(runs), end="")


if __name__ == "__main__":
    main()
