# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Builds modules out of tree, by the Makefile in kernel/ that Torpor carries along.

They are built in a folder of the cache and appear where they are wanted when they are whole: what
is there can be loaded, whatever ended the process that built it.
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from torpor import _engine
from torpor.machine.kernel.errors import KernelError, KilledError
from torpor.machine.kernel.modules import CORE, Governor
from torpor.machine.kernel.system import System
from torpor.machine.kernel_sources import cache_folder
from torpor.machine.record.machine import read
from torpor.results.files import open_regular, read_bytes

#: File in which headers name their release.
_RELEASE = "include/config/kernel.release"

#: Paths that make, its shell and Kbuild read literally: other characters are syntax to one of them.
_PLAIN_PATH = re.compile(r"[\w./+@-]+", re.A)

#: In a folder with an unfinished build.
_UNFINISHED = "unfinished"

#: Packages of headers, by ID or ID_LIKE of os-release; {0} is the release.
_HEADERS = {
    "debian": "apt-get install linux-headers-{0}",
    "ubuntu": "apt-get install linux-headers-{0}",
    "fedora": "dnf install kernel-devel-{0}",
    "rhel": "dnf install kernel-devel-{0}",
    "suse": "zypper install kernel-devel",
    "arch": "pacman -S linux-headers (of the kernel's flavour: linux-lts-headers, ...)",
    "alpine": "apk add linux-lts-dev (of the kernel's flavour: linux-virt-dev, ...)",
}


def carried_files() -> dict[str, bytes]:
    """Return what governors and drivers are built from as modules, by path below the project."""
    policies = Path(__file__).parents[2] / "policies"
    ours = {str(p.relative_to(policies)): p for p in policies.glob("kernel/**/*") if p.is_file()}
    governors = {f"governors/cpuidle/{p.name}": p for p in policies.glob("cpuidle/*.c")}
    return {name: read_bytes(path) for name, path in sorted((ours | governors).items())}


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
        self._files = carried_files()
        text = repr(sorted(self._files.items())).encode()
        # Modules of one release and one version of Torpor; what changed has another place.
        self._version = hashlib.sha256(text).hexdigest()[:12]
        self._cache = _cache(system)
        place = Path(self.release) / self._version
        self._work = (self._cache / "build" / place).absolute()
        self.out = (out or self._cache / "modules" / place).absolute()

    def path(self, module: str) -> Path:
        return self.out / f"{module}.ko"

    def build_missing(self, governors: Sequence[Governor]) -> None:
        """Build those that were not built before for this kernel."""
        missing = [g for g in governors if not self.path(g.module).exists()]
        if missing or not self.path(CORE).exists():
            self.build(missing)

    def build(self, governors: Sequence[Governor]) -> list[Path]:
        """Build governors, the core and the drivers; return all paths.

        Raises :class:`KernelError` when headers or tools are missing, or a file does not compile.
        """
        headers = self.find_headers()
        tree = (self._cache / "sources" / self._version).absolute()
        for path in (headers, tree, self._work):
            _refuse_path(path)
        settings = {"KDIR": str(headers), "OUT": str(self._work), "VERSION": _engine.__version__}
        settings |= _compiler(headers)
        wanted = [CORE, *(g.module for g in governors)]
        if self._system.is_dry_run:
            self._make(tree, settings, governors)
            return [self.path(module) for module in wanted]
        with self._building():
            _write(tree, self._files)
            self._make(tree, settings, governors)
            sources = [name for name in self._files if re.match(r"kernel/drivers/.*\.c", name)]
            drivers = [f"torpor_{Path(name).stem}" for name in sources]
            # Not every driver is for every architecture.
            wanted += [name for name in drivers if (self._work / f"{name}.ko").exists()]
            return [_publish(self._work / f"{name}.ko", self.path(name)) for name in wanted]

    def _make(self, tree: Path, settings: Mapping[str, str], governors: Sequence[Governor]) -> None:
        plain = [f"{tree}/governors/cpuidle/{g.builtin}.c" for g in governors if g.is_plain_builtin]
        others = [g for g in governors if not g.is_plain_builtin]
        if plain or not others:
            self._system.make(tree / "kernel", {**settings, "GOVERNORS": " ".join(plain)})
        # One call each, as the Makefile takes one foreign file at a time.
        for governor in others:
            folder = tree.with_name(governor.name)
            if not self._system.is_dry_run:
                _write(folder, governor.files)
            main = str(folder / governor.main)
            source = {"GOVERNORS": "", "GOVERNOR": main, "NAME": governor.name}
            try:
                self._system.make(tree / "kernel", {**settings, **source})
            except KernelError as error:
                # The compiler's messages are about the user's file.
                said = str(error).replace(f"{main}:", f"{governor.spec}:")
                raise type(error)(said) from error

    @contextmanager
    def _building(self) -> Iterator[None]:
        """Be the only one that builds here, and in a folder where every build has ended.

        After one that was killed make takes what was half written for newer than its sources.
        """
        unfinished = self._work / _UNFINISHED
        try:
            self._work.parent.mkdir(parents=True, exist_ok=True)
            with open(self._cache / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if unfinished.exists():
                    shutil.rmtree(self._work)
                self._work.mkdir(exist_ok=True)
                unfinished.touch()
                try:
                    yield
                except KilledError:
                    raise
                except KernelError:
                    # make has deleted what it could not build.
                    unfinished.unlink()
                    raise
                unfinished.unlink()
        except OSError as error:
            raise KernelError(f"`{error.filename}` cannot be written: {error.strerror}") from error

    def find_headers(self) -> Path:
        """Return the folder of the kernel's headers; raise :class:`KernelError` without one."""
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
                f"`{found}` is a kernel source without a build: it has no `{_RELEASE}`",
                "configure it and run make modules_prepare, or better, build that kernel in it",
            )
        if release != self.release:
            raise KernelError(
                f"`{found}` contains the headers of {release}, not of {self.release}",
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
    """Return the folder of builds: root loads modules, so only root may write to its folder."""
    if system.is_root:
        return system.machine.path("/var/cache/torpor")
    return cache_folder()


def _compiler(headers: Path) -> dict[str, str]:
    """Check that there are tools, those that have built the kernel."""
    configuration = headers / "include/config/auto.conf"
    is_clang = "CONFIG_CC_IS_CLANG=y" in (read(configuration) or "").splitlines()
    compiler = "clang" if is_clang else os.environ.get("CROSS_COMPILE", "") + "gcc"
    for tool in ("make", compiler):
        if not shutil.which(tool):
            raise KernelError(f"no `{tool}` on this machine, and building a module requires it")
    return {"LLVM": "1"} if is_clang else {}


def _refuse_path(path: Path) -> None:
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise KernelError(
            f"`{path}` cannot be used for a build: a kernel build accepts paths of letters, digits "
            "and `_`, `-`, `.`, `+`, `@`",
            "set XDG_CACHE_HOME to another folder for builds, or use --headers for headers",
        )


def _publish(made: Path, place: Path) -> Path:
    """Let a file appear at its place, whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open_regular(made) as source, open(new, "wb") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.replace(new, place)
    finally:
        new.unlink(missing_ok=True)
    return place


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what differs: make rebuilds what is newer."""
    for name, data in files.items():
        path = folder / name
        if not path.exists() or read_bytes(path) != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if path.suffix == ".sh":
            path.chmod(0o755)
