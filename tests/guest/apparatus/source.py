# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Kernels of our own, built of Debian's source.

It takes 5 to 10 minutes each, and some GB in build/guest.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from .build import TOOLS, own_environment
from .packages import CACHE, HOST_ARCH, Kernel, NotHereError, download, fetch, locked

SERIES = "6.12"

#: Parts of the source that no kernel of the tests compiles: most of it.
LEFT_OUT = [
    "arch/[!axu]*/*.[chS]",
    "arch/*/boot/dts",
    *("Documentation/[a-z]*/*.rst", "sound/*.[ch]", "tools/testing"),
    *(
        f"drivers/{name}/*.[ch]"
        for name in ("gpu", "infiniband", "media", "net/*", "scsi", "staging")
    ),
]

#: Programs that it requires of this machine, apart from a compiler for the kernel's architecture.
PROGRAMS = {
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "make": "make",
    "gcc": "gcc",
    "xz": "xz-utils",
}

#: By architecture: the folder in arch/, and the image in its boot/.
IMAGES = {"amd64": ("x86", "bzImage"), "arm64": ("arm64", "Image")}

#: Options that only arm64 has; other kernels are built of the same fragments.
OF_ARM64 = ("CONFIG_ARM64", "CONFIG_PCI_HOST_GENERIC", "CONFIG_SERIAL_AMBA")

#: Compile and load a scheduler of the kernel's own tools/sched_ext, by the package that has them.
SCHEDULER_PROGRAMS = {"clang": "clang", "llc": "llvm", "pahole": "pahole"}


def build(
    name: str,
    arch: str,
    fragments: tuple[Path, ...],
    change: Callable[[Path], None] = lambda source: None,
    stamp: bytes = b"",
) -> Kernel:
    """The kernel of that name, tinyconfig and `fragments`, built if need be.

    `change` is called with the source's folder before each build; `stamp` stands for what it does:
    where that or a fragment has changed the kernel is built again.

    Raises NotHereError where a tool for it is missing or the source cannot be fetched.
    """
    prefix, compiler = TOOLS[arch][1:]
    missing = {package for tool, package in PROGRAMS.items() if not shutil.which(tool)}
    if not Path("/usr/include/libelf.h").exists():
        missing.add("libelf-dev")
    if not shutil.which(f"{prefix}gcc"):
        missing.add(compiler)
    if missing:
        raise NotHereError(f"a kernel cannot be built here; it takes {' '.join(sorted(missing))}")
    busybox = fetch(arch, SERIES).busybox
    root = CACHE / f"{arch}-{SERIES}-{name}"
    stamp += b"".join(fragment.read_bytes() for fragment in fragments)
    with locked(root):
        built_of = root / "complete"
        if not built_of.exists() or built_of.read_bytes() != stamp:
            source = _source(root)
            change(source)
            _build(root, source, arch, fragments)
            built_of.write_bytes(stamp)
    image = next(root.glob("boot/vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    return Kernel(arch, f"{SERIES}-{name}", release, image, root / "out", busybox)


def _source(root: Path) -> Path:
    source = root / f"linux-source-{SERIES}"
    if not (source / "Makefile").exists():
        (package,) = download(HOST_ARCH, source.name, folder=root / "packages")
        archive = f"./usr/src/{source.name}.tar.xz"
        left_out = [f"--exclude={source.name}/{pattern}" for pattern in LEFT_OUT]
        _run(
            f"{_line('dpkg-deb', '--fsys-tarfile', package)} | {_line('tar', 'xO', archive)} | "
            f"xz -dc -T0 | {_line('tar', 'x', '-C', root, *left_out)}"
        )
        shutil.rmtree(package.parent)
    return source


def _build(root: Path, source: Path, arch: str, fragments: tuple[Path, ...]) -> None:
    out = root / "out"
    folder, image = IMAGES[arch]
    make = _line(
        *("make", "-s", "-C", source, f"O={out}", f"-j{os.cpu_count()}"),
        *(f"ARCH={folder}", f"CROSS_COMPILE={TOOLS[arch][1]}"),
    )
    merge = _line(source / "scripts/kconfig/merge_config.sh", "-m", ".config", *fragments)
    _run(f"{make} tinyconfig")
    _run(f"{_line('cd', out)} && {merge} && {make} olddefconfig")
    _refuse_what_was_dropped(out, arch, fragments)
    _run(f"{make} {image} modules")
    shutil.rmtree(root / "boot", ignore_errors=True)
    (root / "boot").mkdir()
    _run(f"{make} {_line(f'INSTALL_MOD_PATH={root}')} modules_install")
    release = (out / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    shutil.copy(out / f"arch/{folder}/boot/{image}", root / "boot" / f"vmlinuz-{release}")


def scheduler(kernel: Kernel, name: str) -> Path:
    """The program that loads a scheduler of the built kernel's own tools/sched_ext.

    Raises NotHereError where a tool for it is missing.
    """
    missing = {package for tool, package in SCHEDULER_PROGRAMS.items() if not shutil.which(tool)}
    if missing:
        raise NotHereError(f"no scheduler is built here; it takes {' '.join(sorted(missing))}")
    root = kernel.headers.parent
    made = root / "schedulers" / "build"
    program = made / f"{name}.static"
    if not program.exists():
        folder = root / f"linux-source-{SERIES}" / "tools" / "sched_ext"
        made.parent.mkdir(exist_ok=True)
        types = f"VMLINUX_BTF={kernel.headers / 'vmlinux'}"
        _run(_line("make", "-C", folder, "CLANG=clang", "LLC=llc", types, f"O={made.parent}", name))
        # A guest has no libraries.
        parts = (made / "obj" / "sched_ext" / f"{name}.o", made / "obj" / "libbpf" / "libbpf.a")
        _run(_line("gcc", "-static", "-o", program, *parts, "-lelf", "-lz", "-lpthread"))
    return program


def _refuse_what_was_dropped(out: Path, arch: str, fragments: tuple[Path, ...]) -> None:
    """A kernel without the requested options would find nothing, and no test would notice."""
    made = set((out / ".config").read_text(encoding="utf-8").splitlines())
    wanted = [line for each in fragments for line in each.read_text(encoding="utf-8").splitlines()]
    if arch != "arm64":
        wanted = [line for line in wanted if not line.startswith(OF_ARM64)]
    dropped = [line for line in wanted if line.startswith("CONFIG_") and line not in made]
    if dropped:
        raise RuntimeError(f"the kernel's configuration has not taken {', '.join(dropped)}")


def _line(*words: object) -> str:
    return shlex.join(map(str, words))


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
