# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Builds modules out of tree, by the Makefile in kernel/ that Torpor carries along."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from torpor import _engine
from torpor.kernel.errors import KernelError
from torpor.kernel.modules import CORE, Governor
from torpor.kernel.system import System
from torpor.record.machine import read

#: Where headers tell whose they are.
_RELEASE = "include/config/kernel.release"

#: Who has which package of headers, by ID or ID_LIKE of os-release; {0} is the release.
_HEADERS = {
    "debian": "apt-get install linux-headers-{0}",
    "ubuntu": "apt-get install linux-headers-{0}",
    "fedora": "dnf install kernel-devel-{0}",
    "rhel": "dnf install kernel-devel-{0}",
    "suse": "zypper install kernel-devel",
    "arch": "pacman -S linux-headers (of the kernel's flavour: linux-lts-headers, ...)",
    "alpine": "apk add linux-lts-dev (of the kernel's flavour: linux-virt-dev, ...)",
}


class Builder:
    """Builds modules for one kernel."""

    def __init__(
        self,
        system: System,
        release: str | None = None,
        headers: Path | None = None,
        out: Path | None = None,
    ) -> None:
        self._system = system
        self.release = release or (headers and _release(headers)) or system.machine.release()
        self._headers = headers
        self._files = _engine.kernel_files()
        text = repr(sorted(self._files.items())).encode()
        # Modules of one release and one version of ours; what changed has another place.
        self._version = hashlib.sha256(text).hexdigest()[:12]
        self._cache = _cache(system)
        self.out = (out or self._cache / "modules" / self.release / self._version).absolute()

    def path(self, module: str) -> Path:
        return self.out / f"{module}.ko"

    def build_missing(self, governors: Sequence[Governor]) -> None:
        """Build those that were not built before for this kernel."""
        missing = [g for g in governors if not self.path(g.module).exists()]
        if missing or not self.path(CORE).exists():
            self.build(missing)

    def build(self, governors: Sequence[Governor]) -> list[Path]:
        """Build governors, and beside them the core and the drivers; return all paths.

        Raises :class:`KernelError` when headers or tools are missing, or a file does not compile.
        """
        headers = self._find_headers()
        tree = self._cache / "sources" / self._version
        settings = {"KDIR": str(headers), "OUT": str(self.out), "VERSION": _engine.__version__}
        settings |= _compiler(headers)
        if not self._system.is_dry_run:
            _write(tree, self._files)
        plain = [f"{tree}/governors/cpuidle/{g.builtin}.c" for g in governors if g.is_plain_builtin]
        others = [g for g in governors if not g.is_plain_builtin]
        if plain or not others:
            self._system.make(tree / "kernel", settings | {"GOVERNORS": " ".join(plain)})
        # One call each, as the Makefile takes one foreign file at a time.
        for governor in others:
            folder = self._cache / "sources" / governor.name
            if not self._system.is_dry_run:
                _write(folder, governor.files)
            source = {"GOVERNORS": "", "GOVERNOR": str(folder / governor.main)}
            self._system.make(tree / "kernel", settings | source | {"NAME": governor.name})
        stems = [Path(name).stem for name in self._files if re.match("kernel/drivers/.*c$", name)]
        drivers = [self.path(f"torpor_{stem}") for stem in stems]
        # Not every driver is for every architecture.
        return [
            *map(self.path, (CORE, *(g.module for g in governors))),
            *(path for path in drivers if path.exists()),
        ]

    def _find_headers(self) -> Path:
        root = self._system.machine
        usual = [f"/lib/modules/{self.release}/build", f"/usr/src/linux-headers-{self.release}"]
        places = [self._headers] if self._headers else [root.path(place) for place in usual]
        found = next((p for p in places if p and (p / "Makefile").exists()), None)
        if found is None:
            raise KernelError(
                f"no headers of Linux {self.release} in `{places[0]}`, "
                "and a module is built against them",
                self._package_hint(),
            )
        release = _release(found)
        if release is None:
            raise KernelError(
                f"`{found}` is a kernel's source that nothing was built in: it has no `{_RELEASE}`",
                "configure it, then: make modules_prepare; better, build that kernel in it",
            )
        if release != self.release:
            raise KernelError(
                f"`{found}` holds the headers of {release}, not of {self.release}",
                f"--kernel {release} builds for that kernel",
            )
        return found.absolute()

    def _package_hint(self) -> str:
        text = self._system.read("/etc/os-release") or ""
        ids = re.findall(r"^ID(?:_LIKE)?=(.*)$", text, re.M)
        for name in " ".join(ids).replace('"', "").split():
            if name in _HEADERS:
                return (
                    f"{_HEADERS[name].format(self.release)}; a kernel of another origin: "
                    "--headers names the folder that it was built in"
                )
        return "install the package of its headers, or name them by --headers DIR"


def _release(headers: Path) -> str | None:
    return read(headers / _RELEASE)


def _cache(system: System) -> Path:
    """Root loads what it has built itself, from where nobody else writes."""
    if system.is_root:
        return system.machine.path("/var/cache/torpor")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "torpor"


def _compiler(headers: Path) -> dict[str, str]:
    """Check that there are tools, those that have built the kernel."""
    configuration = headers / "include/config/auto.conf"
    is_clang = "CONFIG_CC_IS_CLANG=y" in (read(configuration) or "").splitlines()
    compiler = "clang" if is_clang else os.environ.get("CROSS_COMPILE", "") + "gcc"
    for tool in ("make", compiler):
        if not shutil.which(tool):
            raise KernelError(f"no `{tool}` on this machine, and a module is built with it")
    return {"LLVM": "1"} if is_clang else {}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what differs: make rebuilds what is newer."""
    for name, data in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if path.suffix == ".sh":
            path.chmod(0o755)
