# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Build backend of pip: maturin, after a check that the machine can build at all.

Without Rust, maturin would have pip fetch a whole toolchain, without a word and for minutes.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import build_editable, build_sdist, build_wheel, prepare_metadata_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist

# Manual pages: generated after the first build, and maturin requires the folder.
Path("docs/wheel").mkdir(parents=True, exist_ok=True)

RUST_MIN = (1, 85)
_RUSTUP = "install it with rustup (https://rustup.rs), then open a new shell"


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what else the build needs: nothing. Exit if the machine lacks something."""
    rustup = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{rustup}"
    if missing := list(filter(None, [_rust(), _compiler()])):
        sys.exit(
            "\nTorpor cannot be built here:\n"
            + "".join(f"  missing: {line}\n" for line in missing)
            + "A wheel needs neither: see README.md, Install."
        )
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def _rust() -> str | None:
    wanted = f"Rust {'.'.join(map(str, RUST_MIN))} or newer"
    if not shutil.which("cargo") or not shutil.which("rustc"):
        return f"{wanted}; {_RUSTUP}"
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"rustc (\d+)\.(\d+)", done.stdout)
    if not found:
        return f"{wanted}, because `rustc --version` fails; {_RUSTUP}"
    if (int(found[1]), int(found[2])) < RUST_MIN:
        return f"{wanted} (found {found[1]}.{found[2]}); run rustup update, or {_RUSTUP}"
    return None


def _compiler() -> str | None:
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler.split()[0]):
        return None
    return f"a C compiler (`{compiler}`); install gcc and libc6-dev, or gcc and glibc-devel"
