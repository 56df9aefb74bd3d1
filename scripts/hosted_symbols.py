# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Lists what a hosted kernel is made of: the tree's files, and the symbols that the host supplies.

    scripts/hosted_symbols.py [KERNEL'S FOLDER IN THE CACHE]

By default that of the kernel that was compiled last, in $TORPOR_CACHE_DIR or ~/.cache/torpor.
"""

import os
import subprocess
import sys
from pathlib import Path


def latest() -> Path:
    cache = Path(os.environ.get("TORPOR_CACHE_DIR", Path.home() / ".cache/torpor"))
    images = cache.glob("kernels/*/kernel.so")
    return max(images, key=lambda image: image.stat().st_mtime).parent


def symbols(objects: list[Path], *options: str) -> set[str]:
    command = ["nm", "--format=just-symbols", "--no-sort", *options, *map(str, objects)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line for line in lines if line and not line.endswith(":")}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else latest()
    hosted = (folder / "hosted").read_text().split()
    objects = sorted((folder / "objects").iterdir())
    names = {name.replace("/", "-").removesuffix(".c") for name in hosted}
    theirs = [o for o in objects if o.name.removesuffix(".o") in names]
    ours = [o for o in objects if o not in theirs]
    if len(theirs) != len(hosted):
        sys.exit(f"{folder}: {len(theirs)} objects for {len(hosted)} files")
    needed = symbols(theirs, "--undefined-only") - symbols(
        theirs, "--defined-only", "--extern-only"
    )
    supplied = needed & symbols(ours, "--defined-only", "--extern-only")
    print(f"{len(hosted)} hosted files:", *hosted, sep="\n  ")
    print(f"{len(supplied)} symbols that the host supplies:", *sorted(supplied), sep="\n  ")


if __name__ == "__main__":
    main()
