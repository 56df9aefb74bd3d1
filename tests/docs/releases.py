# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every kernel's own governors on the recording that ships, as the table of the guide to trees.

``python tests/docs/releases.py`` fetches what Debian carries and rewrites the table's rows;
``test_releases.py`` compares them where the sources are at hand.
"""

import re
import subprocess
import sys
from pathlib import Path

import torpor

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "kernel-trees.md"
RECORDING = ROOT / "demo" / "web-server.perf.data"
PLATFORM = "i5-10600k"
#: Releases that Debian's archives carry as `linux-source-RELEASE`.
RELEASES = ("5.10", "6.1", "6.12", "7.2", "7.3")
GOVERNORS = ("ladder", "menu", "teo", "haltpoll")
HEAD = f"| Linux | {' | '.join(f'`{name}`' for name in GOVERNORS)} |\n"


def sources(release: str) -> Path | None:
    """Return the unpacked source of a release, fetching it if need be; None if it is not here."""
    done = subprocess.run(
        [ROOT / "tests" / "kernel_sources.sh", release],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode == 77:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Path(done.stdout.strip())


def stable(tree: Path) -> str:
    """Return which stable release a tree is, by its Makefile."""
    text = (tree / "Makefile").read_text(encoding="utf-8")
    keys = ("VERSION", "PATCHLEVEL", "SUBLEVEL")
    parts = (re.search(rf"^{key} = (\d+)$", text, re.M) for key in keys)
    return ".".join(found.group(1) for found in parts if found)


def row(release: str, tree: Path) -> str:
    """Return a release's row: three figures of each governor, or why it has none."""
    cells = [stable(tree)]
    for name in GOVERNORS:
        try:
            result = torpor.replay(
                RECORDING, platform=PLATFORM, governors=[f"{name}@{tree}"], strip=False
            )
        except torpor.GovernorError:
            cells.append("does not compile")
        else:
            metrics = {} if result.failures else result.runs[0]["metrics"]
            keys = ("above_pct", "below_pct", "idle_power_mw")
            cells.append(", ".join(f"{metrics[key]:.1f}" for key in keys if metrics) or "fails")
    return f"| {' | '.join(cells)} |"


def written(release: str) -> str | None:
    """Return the row of a release as the page has it, or None if it has none."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith(f"| {release}.")), None)


def main() -> None:
    """Rewrite the row of each release that can be had."""
    text = PAGE.read_text(encoding="utf-8")
    for release in RELEASES:
        tree = sources(release)
        if tree is None:
            print(f"{release}: not to be had here", file=sys.stderr)
            continue
        fresh = row(release, tree)
        print(fresh)
        old = written(release)
        if old:
            text = text.replace(old, fresh)
        else:
            place = text.index("\n\n", text.index(HEAD)) + 1
            text = f"{text[:place]}{fresh}\n{text[place:]}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
