# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Modules and programs for a guest."""

import os
import shutil
import subprocess
from pathlib import Path

from .packages import CACHE, ROOT, Kernel, NotHere

WORKLOADS = Path(__file__).parent / "workloads"

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
    done = subprocess.run(command, env=_own_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return {path.stem: path for path in sorted(out.glob("*.ko"))}


def programs(arch: str) -> dict[str, Path]:
    """Build the workloads, static: paths by program name."""
    _, prefix, packages = _tools(arch)
    out = CACHE / "programs" / arch
    out.mkdir(parents=True, exist_ok=True)
    built = {}
    for source in sorted(WORKLOADS.glob("*.c")):
        built[source.stem] = out / source.stem
        command = [f"{prefix}gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]
        done = subprocess.run(
            [*command, "-o", built[source.stem], source], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotHere(f"{source.name} for {arch} ({packages}): {done.stderr}")
    return built


def _tools(arch: str) -> tuple[str, str, str]:
    tools = TOOLS[arch]
    if not shutil.which(f"{tools[1]}gcc") or not shutil.which("make"):
        raise NotHere(f"no compiler for {arch}; it is in {tools[2]}")
    return tools


def _own_environment() -> dict[str, str]:
    """The environment without what an outer make has left for inner ones."""
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
