# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A kernel of our own that finds mistakes: lockdep, KASAN and UBSAN, of Debian's source.

It takes 5 to 10 minutes to build, and some GB in build/guest until it is built.
"""

import os
import shutil
import subprocess
from pathlib import Path

from .build import own_environment
from .packages import CACHE, HOST_ARCH, Kernel, NotHereError, download, fetch, locked

SERIES = "6.12"

FRAGMENT = Path(__file__).with_name("sanitized.config")

#: What of the source no configuration of this fragment compiles: most of it.
LEFT_OUT = [
    "arch/[!xu]*/*.[chS]",
    "arch/[!x]*/boot/dts",
    *("Documentation/[a-z]*/*.rst", "sound/*.[ch]", "tools/testing"),
    *(
        f"drivers/{name}/*.[ch]"
        for name in ("gpu", "infiniband", "media", "net", "scsi", "staging")
    ),
]

#: What it takes of this machine, beside a compiler.
TOOLS = {
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "make": "make",
    "gcc": "gcc",
    "xz": "xz-utils",
}


def build() -> Kernel:
    """The kernel for x86-64, built if need be.

    Raises NotHereError where a tool for it is missing or the source cannot be fetched.
    """
    missing = sorted(package for tool, package in TOOLS.items() if not shutil.which(tool))
    if not Path("/usr/include/libelf.h").exists():
        missing.append("libelf-dev")
    if missing:
        raise NotHereError(f"a kernel cannot be built here; it takes {' '.join(missing)}")
    busybox = fetch(HOST_ARCH, SERIES).busybox
    root = CACHE / f"{HOST_ARCH}-{SERIES}-sanitized"
    with locked(root):
        stamp = root / "complete"
        if not stamp.exists() or stamp.read_bytes() != FRAGMENT.read_bytes():
            _build(root, _source(root))
            stamp.write_bytes(FRAGMENT.read_bytes())
    image = next(root.glob("boot/vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    return Kernel(HOST_ARCH, f"{SERIES}-sanitized", release, image, root / "out", busybox)


def _source(root: Path) -> Path:
    source = root / f"linux-source-{SERIES}"
    if not (source / "Makefile").exists():
        (package,) = download(HOST_ARCH, source.name, folder=root / "packages")
        archive = f"./usr/src/{source.name}.tar.xz"
        left_out = " ".join(f"--exclude='{source.name}/{pattern}'" for pattern in LEFT_OUT)
        _run(
            f"dpkg-deb --fsys-tarfile '{package}' | tar xO '{archive}' | xz -dc -T0 | "
            f"tar x -C '{root}' {left_out}"
        )
        shutil.rmtree(package.parent)
    return source


def _build(root: Path, source: Path) -> None:
    out = root / "out"
    make = f"make -s -C '{source}' O='{out}' -j{os.cpu_count()}"
    _run(f"{make} tinyconfig")
    _run(
        f"cd '{out}' && '{source}/scripts/kconfig/merge_config.sh' -m .config '{FRAGMENT}' && "
        f"{make} olddefconfig"
    )
    _refuse_what_was_dropped(out)
    _run(f"{make} bzImage modules")
    shutil.rmtree(root / "boot", ignore_errors=True)
    (root / "boot").mkdir()
    _run(f"{make} INSTALL_MOD_PATH='{root}' modules_install")
    release = (out / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    shutil.copy(out / "arch/x86/boot/bzImage", root / "boot" / f"vmlinuz-{release}")


def _refuse_what_was_dropped(out: Path) -> None:
    """A kernel without what was asked for would find nothing, and nobody would know."""
    made = set((out / ".config").read_text(encoding="utf-8").splitlines())
    wanted = FRAGMENT.read_text(encoding="utf-8").splitlines()
    dropped = [line for line in wanted if line.startswith("CONFIG_") and line not in made]
    if dropped:
        raise RuntimeError(f"the kernel's configuration has not taken {', '.join(dropped)}")


def _run(command: str) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=own_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
