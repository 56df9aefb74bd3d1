# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Boots a kernel in QEMU, runs a script in it, and brings files out.

The emulated CPUs count instructions instead of time (`-icount`): all times in a guest are exact,
idle time passes at once, and a run can be repeated to the byte, as long as nothing in it changes
and QEMU is the same. Each executed instruction takes 2 ** icount_shift ns, of all CPUs together.
"""

import io
import resource
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import initramfs
from .devicetree import IdleState, edited
from .packages import Kernel, NotHereError

ICOUNT_SHIFT = 1

#: States of guests: those of a Comet Lake desktop, and of a Pixel 6's little cores.
STATES = {
    "amd64": "POLL,C1:2:2,C1E:10:20,C3:70:100,C6:85:200",
    "arm64": "WFI:1:1,c2:230:2000",
}

#: CPU time limit for a whole run: a boot takes 4 to 11 s. A machine that is busy with other work
#: takes longer by the clock, and that is no failure of the guest's.
TIMEOUT_S = 120

#: By the clock, so many times that.
PATIENCE = 20

COMMON = [
    *("-accel", "tcg"),
    *("-rtc", "base=2024-01-01T00:00:00,clock=vm"),
    *("-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"),
]


#: With that, CPUs run at the same time as far as tasks can notice.
TURN_US = 10

#: The emulator gives its turn to another CPU when a timer of any device expires. This one is of a
#: filter on a network without a device in the guest.
TURNS = "-netdev hubport,id=hub,hubid=0 -object filter-buffer,id=turns,netdev=hub,interval={}"

#: Messages that no healthy kernel writes into its log. Architectures differ in how they spell a
#: trace.
COMPLAINTS = (
    *("WARNING:", "BUG:", "UBSAN:", "Oops", "Call Trace", "Call trace", "lockup"),
    *("INFO: rcu", "INFO: task"),
)


@dataclass(frozen=True)
class Board:
    """Board that QEMU emulates for an architecture, and its second serial line."""

    emulator: str
    package: str
    options: list[str]
    console: str
    line: str
    line_options: str


#: No random numbers from the CPU or the device tree: they would move the kernel and its timers.
BOARDS = {
    "amd64": Board(
        "qemu-system-x86_64",
        "qemu-system-x86",
        ["-cpu", "max,-rdrand,-rdseed"],
        "ttyS0",
        "/dev/ttyS1",
        "-serial file:{}",
    ),
    "arm64": Board(
        "qemu-system-aarch64",
        "qemu-system-arm",
        ["-M", "virt,dtb-randomness=off", "-cpu", "cortex-a57"],
        "ttyAMA0",
        "/dev/ttyS0",
        "-chardev file,id=out,path={} -device pci-serial,chardev=out",
    ),
}

#: Names of busybox in the scripts.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys /tmp /out
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs tracing /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
cd /
sh -e /run.sh
echo $? > /out/status
dmesg > /out/dmesg
stty -F {line} raw -echo
tar cz -C /out . > {line}
reboot -f
"""


class GuestError(Exception):
    """A guest that did not come to an orderly end; its message ends with its console."""


@dataclass
class Result:
    """Remains of a guest: the files below its /out, its console, and its duration."""

    files: dict[str, bytes] = field(repr=False)
    console: str = field(repr=False)
    wall_s: float

    @property
    def status(self) -> int:
        """The script's exit status."""
        return int(self.files["status"])

    def text(self, name: str) -> str:
        """A file as text; raises KeyError where the script has not written it."""
        return self.files[name].decode(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """Lines of the kernel's log that hold one of COMPLAINTS."""
        lines = self.text("dmesg").splitlines()
        return [line for line in lines if any(text in line for text in COMPLAINTS)]


def run(
    kernel: Kernel,
    script: str,
    files: dict[str, bytes | Path],
    *,
    cpus: int = 2,
    memory_mb: int = 512,
    timeout_s: float = TIMEOUT_S,
    arguments: str = "",
    psci_states: tuple[IdleState, ...] = (),
    capacities: tuple[int, ...] = (),
    icount_shift: int = ICOUNT_SHIFT,
    turn_us: int | None = None,
) -> Result:
    """Boot `kernel` with `files` in its root, by path, and run `script` with busybox's shell.

    The script stops at the first command that fails. What it leaves in /out comes back, beside
    its exit status and the kernel's log. `arguments` are added to the kernel's command line.
    A CPU's turn takes `turn_us` at most, while others are awake; without, it takes until the next
    timer of any of them.
    An arm64 machine can have idle states of its own, `psci_states`, and be told the `capacities` of
    its CPUs, in DMIPS for each MHz.

    Raises NotHereError without QEMU, and GuestError where a guest panics, hangs or says nothing.
    """
    board = BOARDS[kernel.arch]
    if not shutil.which(board.emulator):
        raise NotHereError(f"{board.emulator} is not on this machine; it is in {board.package}")

    content = {
        "bin/busybox": kernel.busybox,
        "init": INIT.format(line=board.line).encode(),
        "run.sh": script.encode(),
        **files,
    }
    with tempfile.TemporaryDirectory(prefix="guest-") as folder:
        root, out = Path(folder, "root.gz"), Path(folder, "out.tar.gz")
        root.write_bytes(initramfs.pack(content))
        hardware = [*board.options, "-smp", str(cpus), "-m", str(memory_mb)]
        if psci_states or capacities:
            emulator = [board.emulator, *hardware]
            tree = edited(emulator, psci_states, capacities, Path(folder))
            hardware += ["-dtb", str(tree)]
        if turn_us:
            hardware += TURNS.format(turn_us).split()
        command = [
            *(board.emulator, *COMMON, "-icount", f"shift={icount_shift},sleep=off", *hardware),
            *board.line_options.format(out).split(),
            *("-kernel", str(kernel.image), "-initrd", str(root)),
            *("-append", f"console={board.console} quiet panic=-1 {arguments}".strip()),
        ]
        begin = time.monotonic()
        console = _boot(command, timeout_s)
        wall_s = time.monotonic() - begin
        try:
            return Result(_unpack(out.read_bytes()), console, wall_s)
        except (OSError, EOFError, tarfile.TarError) as error:
            raise GuestError(f"no files came out ({error}):\n{console[-4000:]}") from error


def _boot(command: list[str], timeout_s: float) -> str:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as emulator:
        limit_s = int(timeout_s)
        resource.prlimit(emulator.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        try:
            output, _ = emulator.communicate(timeout=PATIENCE * timeout_s)
        except subprocess.TimeoutExpired:
            emulator.kill()
            output, _ = emulator.communicate()
    console = output.decode(errors="replace")
    if emulator.returncode < 0:
        raise GuestError(f"not done after {limit_s} s of a core's time:\n{console[-4000:]}")
    return console


def _unpack(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name.removeprefix("./"): tar.extractfile(member).read()
            for member in tar
            if member.isfile()
        }
