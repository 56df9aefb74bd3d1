# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Modules and programs for a guest."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from .packages import CACHE, HOST_ARCH, ROOT, Kernel, NotHereError, locked

HERE = Path(__file__).parent
WORKLOADS = HERE / "workloads"

#: Flags with which governors are compiled for userspace, from crates/torpor-governor/src/flags.rs.
KAPI = [
    *("-std=gnu11", "-O2", "-fno-strict-aliasing", "-fno-strict-overflow", "-fno-builtin"),
    *("-nostdinc", "-U_FORTIFY_SOURCE", "-D__KERNEL__", "-include", "linux/kconfig.h"),
    *("-Wall", "-Wno-unused-function", "-I", str(ROOT / "kapi" / "include")),
]
IMAGE = ["-shared", "-nostdlib", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector"]

#: Compilers by architecture: the kernel's name of it, the prefix of the tools, Debian's packages.
TOOLS = {
    "amd64": ("x86_64", "", "gcc make libc6-dev"),
    "arm64": ("arm64", "aarch64-linux-gnu-", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
}


def modules(kernel: Kernel, **variables: str) -> dict[str, Path]:
    """Build all modules for the kernel, without a warning: paths by module name.

    `variables` are the Makefile's, such as GOVERNOR and NAME.
    """
    arch, prefix, _ = _tools(kernel.arch)
    out = CACHE / "modules" / f"{kernel.release}"
    settings = {
        "ARCH": arch,
        "CROSS_COMPILE": prefix,
        "KDIR": str(kernel.headers),
        "OUT": str(out),
        "W": "1",
        **variables,
    }
    command = ["make", "-C", str(ROOT / "kernel"), *(f"{k}={v}" for k, v in settings.items())]
    # Another test run builds in the same place.
    with locked(CACHE / "modules"):
        done = subprocess.run(
            command, env=own_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or done.stderr:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        # Objects of an earlier build are not counted.
        objects = (out / "modules.order").read_text(encoding="utf-8").split()
    return {name: out / f"{name}.ko" for name in sorted(Path(path).stem for path in objects)}


def programs(arch: str) -> dict[str, Path]:
    """Build the workloads, static: paths by program name."""
    _, prefix, packages = _tools(arch)
    out = CACHE / "programs" / arch
    compiler = [f"{prefix}gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]
    built = {}
    for source in sorted(WORKLOADS.glob("*.c")):
        built[source.stem] = out / source.stem
        _compile(compiler, built[source.stem], [source], packages)
    return built


@functools.cache
def feeder() -> Path:
    """Build the program that replays a log of decisions on a governor's image."""
    program = CACHE / "programs" / "feed"
    options = [*KAPI, "-DCONFIG_HZ=250", "-I", str(ROOT / "kernel" / "compat")]
    _compile(["gcc", *options], program, [HERE / "feed.c"], TOOLS[HOST_ARCH][2])
    return program


@functools.cache
def image(governor: str, hz: int = 250) -> Path:
    """Build a governor of ours as userspace has it, for a tick rate."""
    path = CACHE / "images" / f"{governor}-{hz}.so"
    sources = [ROOT / "kapi" / "image.c", ROOT / "governors" / "cpuidle" / f"{governor}.c"]
    options = [*KAPI, *IMAGE, f"-DCONFIG_HZ={hz}", "-Wl,-Bsymbolic"]
    _compile(["gcc", *options], path, sources, TOOLS[HOST_ARCH][2])
    return path


def _compile(compiler: list[str], out: Path, sources: list[Path], packages: str) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if not shutil.which(compiler[0]):
        raise NotHereError(f"{compiler[0]} is not on this machine; it takes {packages}")
    command = [*compiler, "-o", out, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}\nIt takes {packages}.")


def _tools(arch: str) -> tuple[str, str, str]:
    tools = TOOLS[arch]
    if not shutil.which(f"{tools[1]}gcc") or not shutil.which("make"):
        raise NotHereError(f"no compiler for {arch}; it is in {tools[2]}")
    return tools


def own_environment() -> dict[str, str]:
    """The environment without what an outer make has left for inner ones."""
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
