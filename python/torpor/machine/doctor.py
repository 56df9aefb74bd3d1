# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reports what works on this machine, what does not, and what to install for it."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

from torpor import _engine
from torpor.machine import kernel_sources
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.rapl import Meter
from torpor.machine.kernel.status import status
from torpor.machine.kernel.system import System
from torpor.machine.record import perf, tracefs
from torpor.machine.record.idleness import NO_DRIVER

#: Long enough for a compiler on a busy machine, short enough to notice one that hangs.
_PATIENCE_S = 60

#: Machines that khost/src/stack.h switches stacks for.
_HOSTS = ("x86_64", "aarch64")

#: Tick rates that a kernel can be built with.
_RATES_HZ = (100, 250, 300, 1000)

_SANITIZERS = ("-fsanitize=address,undefined",)
_GCC = "install gcc and libc6-dev (Debian, Ubuntu), or gcc and glibc-devel (Fedora)"


class Finding(TypedDict):
    """One thing that commands depend on.

    ``found`` says what is there, ``reason`` why it cannot be used: one of them is None. ``hint``
    says how to get it. ``needed_for`` names the commands and options that need it; all else works
    without.
    """

    name: str
    is_usable: bool
    found: str | None
    reason: str | None
    hint: str | None
    needed_for: str


class _Unusable(Exception):  # noqa: N818
    """Why something cannot be used, and how to mend that."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        # Errors of other commands carry their hint as text.
        reason, _, own_hint = reason.partition("\nhint: ")
        super().__init__(reason)
        self.hint = hint or own_hint or None


def doctor(root: str | os.PathLike[str] = "/") -> list[Finding]:
    """Look for everything that some command depends on and that may be missing.

    Compiles two small C files, writes nothing else, and changes nothing. ``root`` is the folder
    that holds ``proc``, ``sys`` and ``lib``.

    >>> import torpor
    >>> {"C compiler", "kernel sources"} <= {finding["name"] for finding in torpor.doctor()}
    True
    """
    system = System(lambda _line: None, is_dry_run=True, root=Path(root))
    return [_finding(name, probe, needed_for, system) for name, needed_for, probe in _PROBES]


def clean() -> tuple[int, int]:
    """Delete the parsed recordings in the user's cache; return their number and their bytes."""
    count, sum_bytes = 0, 0
    for path in kernel_sources.cache_folder("recordings").glob("*-*"):
        # Another process may make room.
        with contextlib.suppress(FileNotFoundError):
            size_bytes = path.lstat().st_size
            path.unlink()
            count, sum_bytes = count + 1, sum_bytes + size_bytes
    return count, sum_bytes


def _finding(name: str, probe: Callable[[System], str], needed_for: str, system: System) -> Finding:
    found: str | None = None
    reason: str | None = None
    hint: str | None = None
    try:
        found = probe(system)
    except _Unusable as error:
        reason, hint = str(error), error.hint
    return {
        "name": name,
        "is_usable": reason is None,
        "found": found,
        "reason": reason,
        "hint": hint,
        "needed_for": needed_for,
    }


def _compiler(_system: System) -> str:
    version = _first_line([_compiler_name(), "--version"])
    with tempfile.TemporaryDirectory() as folder:
        _compile(Path(folder), "-shared", "-fPIC")
    return version


def _sanitizers(_system: System) -> str:
    with tempfile.TemporaryDirectory() as folder:
        done = _run([_compile(Path(folder), *_SANITIZERS)])
    if done.returncode != 0:
        raise _Unusable(f"a program built with them fails: {_last_line(done.stderr)}")
    return "AddressSanitizer, UndefinedBehaviorSanitizer"


def _sources(_system: System) -> str:
    found = [f"{name} ({where})" for name, where in source_packages()]
    if not found:
        raise _Unusable(
            "none in /usr/src, in $TORPOR_KERNEL_SOURCES or fetched",
            "`torpor kernel fetch 6.12`; a tree or tarball of your own needs only its path",
        )
    return ", ".join(found)


def _default_kernel(system: System) -> str:
    release = _engine.default_kernel()
    fetch = f"`torpor kernel fetch {release}`; the first simulation compiles it"
    if lacking := [hz for hz in _RATES_HZ if not _engine.has_hosted_kernel(release, hz)]:
        at = "" if len(lacking) == len(_RATES_HZ) else f" at {_rates(lacking)}"
        raise _Unusable(
            f"no image of Linux {release}{at} is installed, and its source is not here", fetch
        )
    images = _image_rates_hz(release, system.architecture)
    if compiled := [hz for hz in _RATES_HZ if hz not in images]:
        try:
            _compiler(system)
        except _Unusable as error:
            raise _Unusable(
                f"no image of Linux {release} at {_rates(compiled)} is installed, and its source "
                f"cannot be compiled: {error}",
                error.hint,
            ) from None
    return f"Linux {release}"


def _image_rates_hz(release: str, architecture: str) -> set[int]:
    """Return the tick rates of the images that ship for a machine."""
    folder = os.environ.get("TORPOR_KERNEL_IMAGES") or Path(_engine.__file__).parent / "kernels"
    found = Path(folder).glob(f"linux-{release}.*-{architecture}-*.so")
    return {int(path.stem.rpartition("-")[2]) for path in found}


def _rates(rates_hz: list[int]) -> str:
    return f"{', '.join(map(str, rates_hz))} Hz"


def _hosting(system: System) -> str:
    if system.architecture not in _HOSTS:
        known = " and ".join(_HOSTS)
        raise _Unusable(f"kernels are hosted on {known}, and this is {system.architecture}")
    _compiler(system)
    return f"{system.architecture}, C compiler"


def _git(_system: System) -> str:
    if shutil.which("git") is None:
        raise _Unusable("git is not installed", "install git")
    return _first_line(["git", "--version"])


def _idle_states(system: System) -> str:
    if not system.has_cpuidle:
        raise _Unusable("this kernel has no cpuidle (CONFIG_CPU_IDLE)")
    if system.driver is None:
        raise _Unusable(*NO_DRIVER)
    return f"driver {system.driver}, governor {system.governor}"


def _tracefs(system: System) -> str:
    mount = system.machine.tracefs()
    if mount is None:
        raise _Unusable("tracefs is not mounted", "mount -t tracefs tracefs /sys/kernel/tracing")
    if error := tracefs.why_unusable(mount):
        raise _Unusable(str(error))
    return str(mount)


def _perf(_system: System) -> str:
    if error := perf.why_unusable():
        raise _Unusable(str(error))
    return _first_line(["perf", "--version"])


def _modules(system: System) -> str:
    if reasons := status(system)["refused"]:
        raise _Unusable("; ".join(reasons))
    try:
        headers = Builder(system).find_headers()
    except KernelError as error:
        raise _Unusable(str(error)) from None
    if not system.is_root:
        raise _Unusable("loading modules requires root", "use sudo")
    return f"Linux {system.machine.release()}, headers in {headers}"


def _energy(system: System) -> str:
    meter = Meter(system.machine)
    if meter.energy_uj:
        return "RAPL: " + ", ".join(meter.energy_uj)
    if meter.unreadable:
        raise _Unusable("RAPL counters are readable by root only", "use sudo")
    raise _Unusable("this machine has no RAPL counters below /sys/class/powercap")


#: Name, what needs it, and how to find out.
_PROBES: tuple[tuple[str, str, Callable[[System], str]], ...] = (
    ("C compiler", "governors from files and kernel trees; `simulate --kernel`", _compiler),
    ("sanitizers", "`governor check`", _sanitizers),
    ("kernel sources", "governors and kernels by release: `teo@6.12`, `--kernel 6.12`", _sources),
    ("default kernel", "`simulate`", _default_kernel),
    ("hosted kernels", "`simulate --kernel`", _hosting),
    ("git", "governors and kernels by revision: `teo@TREE:REV`", _git),
    ("idle states", "`snapshot`, `stat`, `platform import`, `record`, `ab`", _idle_states),
    ("tracefs", "`record` with every event and return probes", _tracefs),
    ("perf", "`shadow`; `record` where tracefs cannot be written", _perf),
    ("kernel modules", "`kernel load`, `ab` with governors that the kernel lacks", _modules),
    ("energy counters", "energy in `ab`", _energy),
)


def source_packages() -> Iterator[tuple[str, str]]:
    """Yield the releases that are found by name, and where."""
    seen = set()
    for folder in kernel_sources.folders():
        for path in sorted(folder.glob("linux-source-*")):
            name = re.match(r"linux-source-(\d+\.\d+)", path.name)
            if name and name[1] not in seen:
                seen.add(name[1])
                yield name[1], str(folder)


def _compiler_name() -> str:
    name = os.environ.get("CC") or "cc"
    if shutil.which(name) is None:
        raise _Unusable(f"`{name}` is not installed", _GCC)
    return name


def _compile(folder: Path, *options: str) -> Path:
    """Compile a file that includes a header of the C library."""
    source, output = folder / "probe.c", folder / "probe"
    source.write_text("#include <stdint.h>\nint main(void) { return sizeof(uint64_t) != 8; }\n")
    done = _run([_compiler_name(), *options, "-o", output, source])
    if done.returncode != 0:
        raise _Unusable(f"it does not compile a small file: {_last_line(done.stderr)}", _GCC)
    return output


def _first_line(command: list[str | Path]) -> str:
    done = _run(command)
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines else str(command[0])


def _run(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except OSError as error:
        raise _Unusable(f"`{command[0]}` cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise _Unusable(f"`{command[0]}` did not end in {_PATIENCE_S} s") from None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
