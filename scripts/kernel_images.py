#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Builds images of the default kernel into images/, from where a build takes them.

    scripts/kernel_images.py [--hz 250]... [--arch x86_64]... [--source TREE] [--archive]

Without --hz, all tick rates. --archive also writes the corresponding source, which a release needs
as the images are under the GPL, into build/dist. The same source and compiler give the same bytes.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "torpor" / "machine"))

import kernel_sources  # noqa: E402

IMAGES = ROOT / "images"
DIST = ROOT / "build" / "dist"
RATES = (100, 250, 300, 1000)
#: In a kernel's tree; the corresponding source has it.
LICENSE = "COPYING"
ARCHES = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}


def default_kernel() -> str:
    """Return the release that Torpor hosts unless another is named."""
    text = (ROOT / "crates/torpor-sim/src/kernel/kernels.rs").read_text(encoding="utf-8")
    found = re.search(r'DEFAULT_KERNEL: &str = "([\d.]+)"', text)
    assert found, "kernels.rs names the default kernel"
    return found[1]


def compiler(arch: str) -> str:
    """Return the compiler for a machine: the host's own is `gcc`."""
    return "gcc" if arch == platform.machine() else ARCHES[arch]


def program() -> str:
    """Build the program that compiles images, and return its path.

    Once for all images: each new one is a change to what cargo builds the program from.
    """
    # As scripts/install.sh, so that both build the same.
    os.environ.setdefault("CARGO_PROFILE_RELEASE_LTO", "off")
    command = ["cargo", "build", "--release", "-q", "-p", "torpor-sim", "--example", "image"]
    command += ["--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0:
        for each in said:
            sys.stderr.write((each.get("message") or {}).get("rendered") or "")
        sys.exit("the program that compiles images does not build; the error is above")
    return next(each["executable"] for each in said if each.get("executable"))


def build(image_of: str, tree: Path, arch: str, hz: int, folder: Path) -> tuple[dict, dict]:
    """Build an image; return its entry in the manifest, and what it is made of."""
    half = folder / f"half-{arch}-{hz}.so"
    command = [image_of, str(tree), str(hz), compiler(arch), str(half)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"no image for {arch} at {hz} Hz; the error is above")
    made_of = json.loads(done.stdout)
    image = half.rename(folder / f"linux-{made_of['release']}-{arch}-{hz}.so")
    version = subprocess.run(
        [compiler(arch), "--version"], capture_output=True, text=True, check=True
    )
    entry = {
        "file": image.name,
        "arch": arch,
        "hz": hz,
        "sha256": hashlib.sha256(image.read_bytes()).hexdigest(),
        "compiler": version.stdout.splitlines()[0],
    }
    return entry, made_of


def origin(tree: Path) -> dict | None:
    """Return the package that a tree is from, if it was fetched."""
    try:
        origin = json.loads((tree / kernel_sources.ORIGIN).read_text(encoding="utf-8"))
    except OSError:
        return None
    return {key: origin[key] for key in ("package", "version", "sha256")}


def archive(tree: Path, release: str, files: list[str], place: Path) -> None:
    """Write the tree's files that images are made of, with its license."""
    top = f"linux-{release}-hosted"
    with tarfile.open(place, "w:xz") as tar:
        for file in sorted({*map(os.path.normpath, files), LICENSE}):
            text = (tree / file).read_bytes()
            entry = tarfile.TarInfo(f"{top}/{file}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))


def main() -> None:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description="Builds images of the default kernel.")
    parser.add_argument("--hz", type=int, action="append", choices=RATES)
    parser.add_argument("--arch", action="append", choices=ARCHES)
    parser.add_argument("--source", type=Path, help="a tree; default: found, or fetched")
    parser.add_argument("--output", type=Path, default=IMAGES)
    parser.add_argument("--archive", action="store_true")
    given = parser.parse_args()
    release = default_kernel()
    try:
        also = (LICENSE,) if given.archive else ()
        tree = given.source or kernel_sources.fetch(release, also=also, say=print)
    except kernel_sources.UnavailableError as error:
        sys.exit(f"the source of Linux {release} cannot be fetched: {error}")
    if given.archive and not (tree / LICENSE).is_file():
        sys.exit(f"{tree} has no {LICENSE}, and no archive is complete without it")

    given.output.mkdir(parents=True, exist_ok=True)
    for old in (*given.output.glob("*.so"), *given.output.glob("*.json")):
        old.unlink()
    image_of = program()
    entries, made_of, inputs = [], {}, set()
    for arch in given.arch or [platform.machine()]:
        for hz in given.hz or RATES:
            entry, made_of = build(image_of, tree.resolve(), arch, hz, given.output)
            entries.append(entry)
            inputs |= set(made_of.pop("inputs"))
            print(f"{entry['sha256']}  {entry['file']}")
    manifest = {
        "license": "GPL-2.0-only",
        "source": origin(tree),
        **made_of,
        "images": entries,
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (given.output / "manifest.json").write_text(text, encoding="utf-8")
    if given.archive:
        DIST.mkdir(parents=True, exist_ok=True)
        place = DIST / f"linux-{made_of['release']}-hosted.tar.xz"
        archive(tree, made_of["release"], sorted(inputs), place)
        print(f"the corresponding source: {place}")


if __name__ == "__main__":
    main()
