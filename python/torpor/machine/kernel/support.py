# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernels that accept our modules, and the reasons why others do not."""

import re
from collections.abc import Iterator

from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.system import System
from torpor.machine.record.idleness import NO_DRIVER

OLDEST = (5, 15)
NEWEST_TESTED = (6, 12)
ARCHITECTURES = ("x86_64", "aarch64")

#: Symbols with which torpor_core finds all others.
_NEEDED_SYMBOLS = ("register_kprobe", "kallsyms_lookup_name")


def version(release: str) -> tuple[int, int] | None:
    """Return the first two numbers of a release.

    >>> version("6.12.117+deb12-cloud-amd64"), version("6.6-rc3"), version("next")
    ((6, 12), (6, 6), None)
    """
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None


def refuse_release(release: str) -> None:
    """Raise :class:`KernelError` for a kernel that modules are not built for."""
    found = version(release)
    # It names folders, which make reads.
    if found is None or not re.fullmatch(r"[\w.+~-]+", release, re.A):
        raise KernelError(f"`{release}` is not a kernel release: expected one such as 6.12.9-amd64")
    if found < OLDEST:
        raise KernelError(
            f"Linux {release} is older than {_dotted(OLDEST)}, the oldest release that modules "
            f"support"
        )


def refuse(system: System) -> None:
    """Raise :class:`KernelError` if the running kernel does not accept our modules."""
    release = system.machine.release()
    refuse_release(release)
    reasons = list(reasons_against(system))
    if reasons:
        raise KernelError("this kernel cannot load governors: " + "; ".join(reasons))
    if (version(release) or OLDEST) > NEWEST_TESTED:
        system.tell(f"# Linux {release} is newer than {_dotted(NEWEST_TESTED)}, the newest tested")


def refuse_without_driver(system: System) -> None:
    """Raise :class:`KernelError` if no governor decides anything here."""
    if system.driver is None:
        raise KernelError(*NO_DRIVER)


def refuse_others_than_root(system: System) -> None:
    """Raise :class:`KernelError` unless the machine may be changed."""
    if not (system.is_root or system.is_dry_run):
        raise KernelError(
            "changing the kernel requires root",
            "use sudo; --dry-run shows what would be done",
        )


def reasons_against(system: System) -> Iterator[str]:
    """Say what is in the way of our modules."""
    if system.architecture not in ARCHITECTURES:
        yield f"it runs on {system.architecture}, and modules are for {', '.join(ARCHITECTURES)}"
    if not system.has_cpuidle:
        yield "it has no cpuidle (CONFIG_CPU_IDLE)"
    elif system.read("/sys/module/cpuidle/parameters/off") == "1":
        yield "cpuidle is off (`cpuidle.off=1` on its command line)"
    if system.read("/proc/modules") is None:
        yield "it loads no modules (CONFIG_MODULES)"
    if system.read("/proc/sys/kernel/modules_disabled") == "1":
        yield "it loads no more modules until the next boot (sysctl kernel.modules_disabled)"
    lockdown = system.read("/sys/kernel/security/lockdown") or ""
    if (found := re.search(r"\[(\w+)\]", lockdown)) and found[1] != "none":
        yield f"it is locked down ({found[1]}), which refuses unsigned modules"
    elif system.read("/sys/module/module/parameters/sig_enforce") == "Y":
        yield "it demands signed modules (`module.sig_enforce`, or CONFIG_MODULE_SIG_FORCE)"
    yield from _missing_symbols(system)


def _missing_symbols(system: System) -> Iterator[str]:
    symbols = system.read("/proc/kallsyms")
    if not symbols:
        yield "it does not list its symbols (CONFIG_KALLSYMS)"
        return
    for name in _NEEDED_SYMBOLS:
        if not re.search(rf" [Tt] {name}$", symbols, re.M):
            yield f"it has no {name} (CONFIG_KPROBES, CONFIG_KALLSYMS)"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
