#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes LICENSE-THIRD-PARTY.txt: what the extension links that is not ours, with its licenses.

`third_party.py` writes the file and the license expression in pyproject.toml; `--check` compares,
and exits with 1 where they differ.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT / "LICENSE-THIRD-PARTY.txt"
PROJECT = ROOT / "pyproject.toml"
#: The first of the licenses that a crate offers is taken.
PREFERRED = ["MIT", "Zlib", "BSD-2-Clause", "BSD-3-Clause", "bzip2-1.0.6", "Apache-2.0"]
#: Torpor's: the extension and the Python package; policies, kernel modules and images of kernels.
OURS = ["(MIT OR GPL-2.0-only)", "GPL-2.0-only"]
#: C libraries that crates carry, with what of them is compiled: license, file with the text.
VENDORED = {
    "liblzma-sys": [("0BSD", "xz/COPYING.0BSD")],
    "zstd-sys": [("BSD-3-Clause", "zstd/LICENSE")],
}
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]


def linked(target: str) -> dict[str, dict]:
    """Return the packages that the extension links on a target, by name and version."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [i for i, package in packages.items() if package["name"] == "torpor-py"]
    seen: set[str] = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for dependency in nodes[current]["deps"]:
            package = packages[dependency["pkg"]]
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and not any("proc-macro" in t["kind"] for t in package["targets"]):
                waiting.append(dependency["pkg"])
    found = (packages[i] for i in seen)
    return {f"{p['name']} {p['version']}": p for p in found if p["source"]}


def taken(expression: str) -> list[str]:
    """Return the licenses to follow: of each choice one, of `AND` all.

    >>> taken("MIT/Apache-2.0"), taken("Apache-2.0 AND MIT")
    (['MIT'], ['Apache-2.0', 'MIT'])
    """
    chosen = []
    for part in expression.replace("/", " OR ").split(" AND "):
        offered = part.strip("() ").split(" OR ")
        found = [name for name in PREFERRED if name in offered]
        if not found:
            sys.exit(f"no license in `{expression}` is among {', '.join(PREFERRED)}")
        chosen.append(found[0])
    return chosen


def texts(package: dict) -> list[tuple[str, Path | None]]:
    """Return each license of a package with its text, where the package has one."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file())
    files += sorted(folder.glob("LICENSES/*.txt"))
    found: list[tuple[str, Path | None]] = []
    for name in taken(package["license"]):
        kind = {"Apache-2.0": "APACHE", "BSD-2-Clause": "BSD"}.get(name, name.upper())
        own = rf"LICEN[CS]E-{re.escape(kind)}(\.\w+)?"
        matches = [
            f
            for pattern in (own, rf"{name}\.txt", r"(LICEN[CS]E|COPYING)(\.txt|\.md)?")
            for f in files
            if re.fullmatch(pattern, f.name)
        ]
        found.append((name, matches[0] if matches else None))
    found += [("Apache-2.0", f) for f in files if f.name.startswith("NOTICE")]
    found += [(name, folder / file) for name, file in VENDORED.get(package["name"], [])]
    return found


def collected() -> tuple[str, str]:
    """Return the license expression and the text of the file."""
    packages: dict[str, dict] = {}
    for target in TARGETS:
        packages |= linked(target)
    licenses: set[str] = set()
    users: dict[str, list[str]] = {}
    without = []
    for name, package in sorted(packages.items()):
        for license_name, path in texts(package):
            licenses.add(license_name)
            if path is None:
                without.append((name, license_name))
                continue
            lines = path.read_text(encoding="utf-8").strip("\n").splitlines()
            text = "\n".join(line.rstrip() for line in lines)
            users.setdefault(text, []).append(f"{name} ({license_name})")
    for name, license_name in without:
        if license_name != "Apache-2.0":
            sys.exit(f"{name} carries no text of {license_name}")
        apache = next(text for text in users if "Apache License" in text.splitlines()[0])
        users[apache].append(f"{name} ({license_name})")
    parts = [
        "Torpor's extension module links the Rust crates below and the C libraries that they\n"
        "carry. It also links Rust's standard library, under MIT OR Apache-2.0.\n"
        "scripts/third_party.py wrote this file."
    ]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        names = list(dict.fromkeys(names))
        parts.append(f"{'=' * 80}\n" + "\n".join(names) + f"\n{'-' * 80}\n{text}")
    return " AND ".join([*OURS, *sorted(licenses)]), "\n\n".join(parts) + "\n"


def main() -> None:
    expression, text = collected()
    project = PROJECT.read_text(encoding="utf-8")
    wanted = re.sub(r'^license = ".*"$', f'license = "{expression}"', project, flags=re.M)
    if sys.argv[1:] != ["--check"]:
        TEXT.write_text(text, encoding="utf-8")
        PROJECT.write_text(wanted, encoding="utf-8")
    elif not TEXT.exists() or TEXT.read_text(encoding="utf-8") != text or project != wanted:
        sys.exit("the licenses of what is linked have changed; run scripts/third_party.py")


if __name__ == "__main__":
    main()
