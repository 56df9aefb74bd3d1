#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Prints a fix of governors/patches as a mail for `git am`, with what it ends.

    scripts/post_fix.py menu-arithmetic-7.2 ~/linux > fix.mbox

The diff is against the tree's own file. Below the cut line, which `git am` leaves out, stand the
shortest sequence of calls that breaks the governor without the fix, and what `torpor governor
check` says with it. Author and sign-off are git's user.name and user.email.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PATCHES = Path(__file__).resolve().parents[1] / "governors" / "patches"


def run(*command: str | Path, allowed: tuple[int, ...] = (0,), **how: str | Path) -> str:
    """Return what a command prints; exit with its message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    if done.returncode not in allowed:
        sys.exit(f"error: {' '.join(map(str, command))}: {done.stderr.strip() or done.stdout}")
    return done.stdout


def parts(text: str) -> tuple[dict[str, str], str, str]:
    """Split a fix into its header, its message after the subject, and its diff."""
    head, _, rest = text.partition("\n\n")
    message, _, diff = rest.partition("\n---\n")
    header = dict(line.split(": ", 1) for line in head.splitlines())
    return header, message, diff


def as_mail(header: dict[str, str], message: str, diff: str, tree: Path) -> str:
    """Return the fix as `git format-patch` writes it, with the lines around each change."""
    subject = header["Subject"].removeprefix("[PATCH] ")
    with tempfile.TemporaryDirectory() as folder:
        git = ("git", "-C", folder)
        run(*git, "init", "-q")
        for path in re.findall(r"^--- a/(.*)", diff, re.MULTILINE):
            if not (tree / path).is_file():
                sys.exit(f"error: {tree} has no {path}: name the root of a kernel's tree")
            to = Path(folder, path)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / path, to)
        run(*git, "add", ".")
        run(*git, "commit", "-q", "-m", "before")
        fix = Path(folder, ".git", "fix")
        fix.write_text(diff, encoding="utf-8")
        run(*git, "apply", "--unidiff-zero", fix)
        run(*git, "commit", "-q", "-a", "-s", "-m", f"{subject}\n\n{message}")
        return run(*git, "format-patch", "--stdout", "-1")


def breaches(governor: str, kinds: list[str]) -> tuple[str, str]:
    """Return the first line of a check, and its breaches of these kinds with their sequences."""
    said = run("torpor", "governor", "check", governor, allowed=(0, 1))
    first, _, rest = said.partition("\n")
    blocks = [block.strip("\n") for block in rest.split("\n\n")]
    return first, "\n\n".join(b for b in blocks if b.strip().split(":")[0] in kinds)


def main() -> None:
    """Print the mail."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("fix", choices=sorted(path.stem for path in PATCHES.glob("*.patch")))
    parser.add_argument("tree", type=Path, help="root of the kernel's tree")
    given = parser.parse_args()
    tree = given.tree.resolve()
    header, message, diff = parts((PATCHES / f"{given.fix}.patch").read_text(encoding="utf-8"))
    mail = as_mail(header, message, diff, tree)
    governor = given.fix.split("-")[0]
    kinds = header["Ends"].split()
    with tempfile.NamedTemporaryFile("w", suffix=".mbox", encoding="utf-8") as file:
        file.write(mail)
        file.flush()
        before, found = breaches(f"{governor}@{tree}", kinds)
        after, left = breaches(f"{governor}@{tree}+{file.name}", kinds)
    if not found or left:
        sys.exit(f"error: this tree's {governor} does not break what the fix ends: {before}")
    report = f"Found by `torpor governor check`:\n\n{before}\n\n{found}\n\n{after}\n"
    # A reader's paths are others.
    report = report.replace(str(tree), "TREE").replace(f"+{file.name}", " with this fix")
    head, _, rest = mail.partition("\n---\n")
    sys.stdout.write(f"{head}\n---\n{report}\n{rest}")


if __name__ == "__main__":
    main()
