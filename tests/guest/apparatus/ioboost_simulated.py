# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The guest's reader in the simulator: what is read and asked for, here and there.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.ioboost_simulated

prints both as a table, from summary.csv in tests/data/ioboost.
"""

import csv
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torpor

from . import ioboost
from .packages import ROOT

#: CPUs of one thread, for the loads that have one.
CPUS = {"reader": "0-5", "reader-little": "0-3", "reader-big": "4-5"}

#: Differences of the guest's machine from an RK3399: frequencies are granted at once, and
#: interrupts take as long on any CPU, next to nothing on one of 1 ns an instruction.
UNLIKE_AN_RK3399 = {
    "\nhz = 250\n": '\nhz = 250\ntick_handling_us = 0\ntick_handling_source = "left out"\n',
    "\nclock_latency_ns = 40000\n": "\nclock_latency_ns = 0\nfast_switch = true\n",
}

#: More than there are in a run.
READS = 1_000_000

#: There is no cpuidle driver: an idle CPU waits for an interrupt.
IDLE_GOVERNOR = "shallowest"


@dataclass(frozen=True)
class Compared:
    """A load with a boost: reads a second, and average MHz asked for by domain, in both."""

    boost: str
    load: str
    iops: tuple[float, float]
    mhz: dict[str, tuple[float, float]]

    @property
    def domain(self) -> str:
        """Return the domain that the task is in for most of the time."""
        is_moved = ioboost.COARSE in self.boost and self.load == "reader"
        return "big" if is_moved or self.load == "reader-big" else "little"

    @property
    def distances(self) -> tuple[float, float]:
        """Return the ratios of the simulator to the guest: of the reads and of the task's domain's
        frequency."""
        (reads, our_reads), (mhz, our_mhz) = self.iops, self.mhz[self.domain]
        return our_reads / reads - 1, our_mhz / mhz - 1


def platform() -> str:
    """An RK3399 as the guest is one; raises LookupError if its file has other lines."""
    text = (ROOT / "platforms" / "rk3399.toml").read_text(encoding="utf-8")
    for line, other in UNLIKE_AN_RK3399.items():
        if line not in text:
            raise LookupError(f"platforms/rk3399.toml: no line {line.strip()!r}")
        text = text.replace(line, other)
    return text


def workload(load: str, cpu_ns: int, first_us: int) -> str:
    """One thread that computes once, and then reads and computes after each read."""
    once = f"{{ run_us = {first_us} }}, " if first_us else ""
    read = f'{{ run_us = {cpu_ns / 1000} }}, {{ io = "disk" }}'
    return f"""
name = "{load}"
title = "random_reader with one thread"
source = "tests/guest/apparatus/workloads/random_reader.c"
[[task]]
name = "reader"
cpus = "{CPUS[load]}"
phase = [{once}{{ repeat = {READS}, do = [{read}] }}]
[[device]]
name = "disk"
service_us = {ioboost.COMPLETION_NS / 1000}
"""


def compare(first_us: int = 0) -> list[Compared]:
    """Simulate all recorded runs of one thread, which computes for so long at first.

    `iowait` stands for the kernel's own boost.
    """
    with (ioboost.CORPUS / "summary.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["load"] in CPUS]
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder, "guest.toml")
        machine.write_text(platform(), encoding="utf-8")
        return [_compared(row, machine, first_us) for row in rows if row["boost"] != "iowait"]


def _compared(row: dict[str, str], machine: Path, first_us: int) -> Compared:
    boost = row["boost"]
    file = machine.with_name("workload.toml")
    file.write_text(workload(row["load"], int(row["cpu_ns"]), first_us), encoding="utf-8")
    result = torpor.simulate(
        file,
        platform=machine,
        governors=IDLE_GOVERNOR,
        cpufreq=f"schedutil,rate_limit_us={ioboost.DELAY_US}",
        io_boosts="iowait" if boost == ioboost.KERNELS_OWN else boost,
        duration=f"{ioboost.DURATION_S}s",
        seeds=1,
    )
    (run,) = result.to_dict()["runs"]
    khz = {domain["name"]: domain["freq_khz"] for domain in run["perf_domains"]}
    return Compared(
        boost,
        row["load"],
        (int(row["iops"]), run["metrics"]["iops"]),
        {name: (int(row[f"{name}_khz"]) / 1000, khz[name] / 1000) for name in khz},
    )


def table(compared: list[Compared]) -> str:
    """Guest and simulator side by side, in Markdown."""
    lines = [
        "| load, boost | reads a second: guest, simulated | | little, MHz | big, MHz | |",
        "|---|---|---|---|---|---|",
    ]
    for one in sorted(compared, key=lambda one: list(CPUS).index(one.load)):
        cells = [f"{a:,.0f}, {b:,.0f}" for a, b in (one.iops, *one.mhz.values())]
        reads, asked = (f"{round(100 * distance, 1) + 0.0:+.1f} %" for distance in one.distances)
        head = f"`{one.load}`, `{one.boost}`"
        lines.append("| " + " | ".join([head, cells[0], reads, *cells[1:], asked]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table."""
    sys.stdout.write(table(compare()))


if __name__ == "__main__":
    main()
