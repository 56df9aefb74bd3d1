# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records governors at work in guests: what tests verify, and what tests/data/guest holds.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.corpus [FOLDER]

makes the recordings of tests/data/guest anew, in that folder or in another.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import build, cases, machine, packages, recording
from .packages import ROOT, Kernel

CORPUS = ROOT / "tests" / "data" / "guest"

#: By name, as the guest's shell runs them.
WORKLOADS = {
    "mix": "mix",
    "predict": "idle_predict -n 3 -l 20 -t 500 -s 3",
    "rates": "rates",
    "pingpong": "pingpong 400 80",
    "ipi": "ipi_burst 20 10 120 3000",
    "disk": "disk_reader /dev/nullb0 600 150",
}

OURS = sorted(f"t-{path.stem}" for path in (ROOT / "governors" / "cpuidle").glob("*.c"))

#: Kernels by architecture and series, and the governors whose mix is kept. To poll all the time, as
#: shallowest does on x86-64, makes too large a recording.
MIXED = {
    ("amd64", "6.12"): ["menu", *(name for name in OURS if name != "t-shallowest")],
    ("arm64", "6.12"): ["menu", "t-ladder", "t-menu", "t-menu-3.8", "t-shallowest", "t-teo"],
    ("amd64", "6.1"): ["menu", "t-menu", "t-menu-3.7", "t-teo"],
}


@dataclass(frozen=True)
class Guest:
    """Kernel and emulator of recordings that simulations are compared with, see machine.run().

    The idle driver serves exit latencies as `serve` says.
    """

    arch: str
    series: str
    serve: str = "count"
    icount_shift: int = machine.ICOUNT_SHIFT
    #: By load.
    turns_us: dict[str, int] = field(default_factory=dict)


#: By the first part of their names. Each is recorded under menu and teo. Short turns are only for a
#: guest that is busy: the second CPU of one that mostly sleeps loses wake-ups for 21 s, until RCU
#: complains.
COMPARED = {
    "amd64-6.12-time": Guest(
        *("amd64", "6.12", "time", 0),
        turns_us={"rates": 5, "predict": 5, "ipi": 5},
    ),
    "arm64-6.12": Guest("arm64", "6.12"),
}
COMPARED_GOVERNORS = ["menu", "t-teo-6.12"]

SETUP = """
insmod /mod/torpor_core.ko assume_kvm=1
for governor in {governors}; do
	module=/mod/torpor_$(echo $governor | tr .- __).ko
	[ ! -f $module ] || insmod $module
done
insmod /mod/torpor_idle.ko states={states} serve={serve}
"""


def record(
    kernel: Kernel,
    governors: list[str],
    workloads: list[str],
    modules: dict[str, Path],
    *,
    timeout_s: float = machine.TIMEOUT_S,
    smp: int | None = None,
    serve: str = "count",
    icount_shift: int = machine.ICOUNT_SHIFT,
    turn_us: int | None = None,
) -> dict[tuple[str, str], recording.Recording]:
    """Record each governor with each workload, in one guest: by governor and workload.

    The guest has as many CPUs as it can, or `smp`. Of the last three see `Guest` and machine.run().

    `modules` are those of torpor_core, torpor_idle and the governors. Raises GuestError if the
    kernel complained or events were lost, and NotHereError where guests cannot be.
    """
    # haltpoll leaves its polling limit in the device, where the others poll by it.
    ordered = sorted(governors, key=lambda name: name == "t-haltpoll")
    jobs = [
        recording.Job(f"{governor}/{name}", governor, WORKLOADS[name])
        for governor in ordered
        for name in workloads
    ]
    setup = SETUP.format(
        governors=" ".join(ordered), states=machine.STATES[kernel.arch], serve=serve
    )
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        **{f"mod/{name}.ko": kernel.module(name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in build.programs(kernel.arch).items()},
    }
    result = machine.run(
        kernel,
        recording.script(setup, jobs),
        files,
        cpus=smp or cpus(kernel),
        timeout_s=timeout_s,
        icount_shift=icount_shift,
        turn_us=turn_us,
    )
    if result.status != 0 or result.complaints:
        raise machine.GuestError(f"{result.complaints}\n{result.console[-2000:]}")
    made = recording.collect(kernel, result)
    return {
        (governor, name): made[f"{governor}/{name}"] for governor in ordered for name in workloads
    }


def cpus(kernel: Kernel) -> int:
    """Debian's 6.1 for x86-64 hangs with a second CPU when instructions are counted."""
    return 1 if (kernel.arch, kernel.series) == ("amd64", "6.1") else 2


def main() -> None:
    """Make all that is kept."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    for (arch, series), governors in MIXED.items():
        keep(f"{arch}-{series}", Guest(arch, series), governors, ["mix"], folder)
    for name, guest in COMPARED.items():
        keep(name, guest, COMPARED_GOVERNORS, list(cases.CASES), folder)


def keep(name: str, guest: Guest, governors: list[str], loads: list[str], folder: Path) -> None:
    """Record and save workloads or cases; one guest each, as its memory does not hold more.

    Raises as :func:`record` and :func:`packages.fetch`.
    """
    kernel = packages.fetch(guest.arch, guest.series)
    modules = build.modules(kernel)
    for load in loads:
        case = cases.CASES.get(load)
        workload, smp = (case.workload, case.cpus) if case else (load, None)
        made = record(
            *(kernel, governors, [workload], modules),
            timeout_s=1200,
            smp=smp,
            serve=guest.serve,
            icount_shift=guest.icount_shift,
            turn_us=guest.turns_us.get(load),
        )
        for (governor, _), one in made.items():
            print(one.save(folder / f"{name}-{governor}-{load}"))


if __name__ == "__main__":
    main()
