# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Debian's kernels, unpacked into a folder of ours: nothing is installed, and no root is needed.

The packages come from where this machine's own come from, /etc/apt/sources.list. The newest kernel
of a series is taken, since Debian's archive does not keep the others.
"""

import lzma
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "build" / "guest"

#: The build tools among a kernel's headers run on the machine that builds.
HOST_ARCH = "amd64"

#: The package that depends on the newest image of a series, by the series. Images for clouds have
#: no cpufreq.
IMAGES = {
    "6.1": "linux-image-cloud-{arch}",
    "6.12": "linux-image-6.12-cloud-{arch}",
    "6.12-cpufreq": "linux-image-6.12-{arch}",
}

#: Longest age of a list of the archive's packages.
LISTS_AGE_MAX_S = 24 * 3600


class NotHereError(Exception):
    """Something that guests take is not on this machine, or cannot be fetched from it."""


@dataclass(frozen=True)
class Kernel:
    """One stock kernel: its image, its headers, and a shell for its guests."""

    arch: str
    series: str
    release: str
    image: Path
    headers: Path
    busybox: Path

    def module(self, name: str) -> bytes:
        """A module of the kernel's own, ready to be loaded.

        Raises NotHereError where it has none.
        """
        root = self.image.parents[1] / "lib" / "modules" / self.release
        for path in root.rglob(f"{name}.ko*"):
            data = path.read_bytes()
            return lzma.decompress(data) if path.suffix == ".xz" else data
        raise NotHereError(f"{self.release} has no module {name}")


def fetch(arch: str, series: str) -> Kernel:
    """Debian's newest kernel of the series for `arch` (amd64 or arm64), fetched if need be.

    Raises NotHereError where apt is missing or the archive cannot be reached.
    """
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise NotHereError(f"{tool} is not on this machine; guests take Debian's packages")
    with locked(CACHE):
        root = CACHE / f"{arch}-{series}"
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            _unpack(arch, series, root)
            (root / "complete").touch()
    image = next(root.glob("boot/vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    headers = root / "usr" / "src" / f"linux-headers-{release}"
    return Kernel(arch, series, release, image, headers, root / "bin" / "busybox")


def download(arch: str, *packages: str, folder: Path) -> list[Path]:
    """Fetch Debian's packages for `arch` into a folder; all that is in it then.

    Raises NotHereError where the archive cannot be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _apt(arch, "apt-get", "download", *packages, cwd=folder)
    return sorted(folder.glob("*.deb"))


def _unpack(arch: str, series: str, root: Path) -> None:
    image = _dependency(arch, IMAGES[series].format(arch=arch), r"linux-image-\d\S*")
    headers = image.replace("image", "headers")
    tools = [
        _dependency(arch, headers, r"linux-headers-\S+-common"),
        _dependency(arch, headers, r"linux-kbuild-\S+?(?=[,\s]|$)"),
    ]
    folder = root / "packages"
    download(arch, image, headers, "busybox-static", folder=folder)
    for package in download(HOST_ARCH, *tools, folder=folder):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    shutil.rmtree(folder)

    # It names the headers that all flavours share by where they would be installed.
    makefile = next(root.glob("usr/src/linux-headers-*[!n]/Makefile"))
    text = makefile.read_text(encoding="utf-8")
    makefile.write_text(text.replace("include /usr/", f"include {root}/usr/"), encoding="utf-8")


def _dependency(arch: str, package: str, pattern: str) -> str:
    """The first package that `package` depends on and whose name is of this pattern."""
    shown = _apt(arch, "apt-cache", "show", "--no-all-versions", package)
    depends = re.search(r"^Depends: (.*)$", shown, re.M)
    found = re.search(pattern, depends[1]) if depends else None
    if not found:
        raise NotHereError(
            f"{package} ({arch}): no package like {pattern} among what it depends on"
        )
    return found[0]


def _apt(arch: str, tool: str, *args: str, cwd: Path | None = None) -> str:
    """Ask apt as if this were a machine of another kind, with lists of our own."""
    home = CACHE / "apt" / arch
    options = {
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Sandbox::User": "root",
        "Dir::State": home / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": home / "cache",
    }
    listed = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    stamp = home / "updated"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > LISTS_AGE_MAX_S:
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        _ask(["apt-get", "-qq", *listed, "update"], cwd)
        stamp.touch()
    return _ask([tool, "-qq", *listed, *args], cwd)


def _ask(command: list[str], cwd: Path | None) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise NotHereError(
            f"{command[0]} {command[-1]}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


@contextmanager
def locked(folder: Path):
    """Let one of several test runs fetch while the others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        flock(lock, LOCK_EX)
        yield
