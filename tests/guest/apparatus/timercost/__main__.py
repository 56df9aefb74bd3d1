# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Instructions that an idle governor's own timer costs in a stock kernel.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.timercost [ARCH]

boots Debian's 6.12 on one idle CPU at 1 ns an instruction, loads `timer_cost.c`, and prints the
instructions of a reading of the clock, of `hrtimer_start()` for the first timer due, and of
`hrtimer_cancel()`; the last two without the reading. The device's own time is not in them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import build, machine, packages

HERE = Path(__file__).parent


def measure(arch: str = "amd64") -> tuple[int, int, int]:
    """Return instructions to read the clock, to start the timer, and to cancel it."""
    kernel = packages.fetch(arch, "6.12")
    target, prefix = {"amd64": ("x86_64", ""), "arm64": ("arm64", "aarch64-linux-gnu-")}[arch]
    with tempfile.TemporaryDirectory(prefix="timer-cost-") as folder:
        for name in ("Kbuild", "timer_cost.c"):
            shutil.copy(HERE / name, folder)
        command = ["make", "-C", kernel.headers, f"M={folder}", f"ARCH={target}"]
        command += [f"CROSS_COMPILE={prefix}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
        subprocess.run(command, env=build.own_environment(), check=True, stdout=subprocess.DEVNULL)
        module = Path(folder, "timer_cost.ko").read_bytes()
    ran = machine.run(
        kernel,
        "sleep 8; insmod /mod/timer_cost.ko",
        {"mod/timer_cost.ko": module},
        cpus=1,
        icount_shift=0,
        arguments="mitigations=off",
    )
    found = re.search(r"clock (\d+) start (\d+) cancel (\d+)", ran.text("dmesg"))
    if not found:
        raise machine.GuestError(f"status {ran.status}:\n{ran.console[-2000:]}")
    clock, start, cancel = map(int, found.groups())
    return clock, start - clock, cancel - clock


if __name__ == "__main__":
    for name, instructions in zip(
        ("clock", "start", "cancel"), measure(*sys.argv[1:2]), strict=True
    ):
        print(f"{name:8}{instructions:8}")
