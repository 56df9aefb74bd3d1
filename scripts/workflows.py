# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Lists the steps of .github/workflows, checks them, and runs what can be run here.

``workflows.py`` lists each step, and why it cannot be run here if that is so; with actionlint and
zizmor in PATH, those check the files. ``workflows.py JOB...`` runs the commands of jobs in a fresh
clone of HEAD in build/workflows, for the first value of each matrix.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
CLONE = ROOT / "build" / "workflows"
LINTERS = (["actionlint"], ["zizmor", "--quiet", "--offline", str(ROOT / ".github")])
#: Nightly fuzzing for half an hour shows no more of the workflow than a minute.
SHORTER = (("MINUTES=30", "MINUTES=1"),)


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job, as WORKFLOW.JOB."""
    for path in sorted(FOLDER.glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items():
            yield f"{path.stem}.{name}", job


def commands(job: dict[str, Any], step: dict[str, Any]) -> str:
    """The commands of a step, with the first value of each matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    first = {key: values[0] for key, values in matrix.items() if key != "include"}
    first.update(matrix.get("include", [{}])[0])
    text = re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda m: str(first[m[1]]), step["run"])
    for long, short in SHORTER:
        text = text.replace(long, short)
    return text.strip()


def why_not(step: dict[str, Any]) -> str:
    """Why a step cannot be run here, if so."""
    if "run" not in step:
        return f"an action of GitHub's: {step['uses'].partition('@')[0]}"
    if "sh.rustup.rs" in step["run"]:
        return "installs packages and rustup: scripts/stranger_clone.sh does the same in a chroot"
    if "sources.tar" in step["run"]:
        return "passes the kernel's source between jobs; $TORPOR_KERNEL_SOURCES names it here"
    return "" if "--global" not in step["run"] else "changes the user's own settings of git"


def main() -> int:
    """Check and list; or run the jobs that are named."""
    if not sys.argv[1:]:
        for name, job in jobs():
            if "uses" in job:
                print(f"{name}: the jobs of {job['uses']}")
                continue
            print(f"{name}, on {job.get('container', job['runs-on'])}")
            for step in job["steps"]:
                reason = why_not(step)
                shown = f"not here: {reason}" if reason else commands(job, step)
                print("   ", shown)
        found = [linter for linter in LINTERS if shutil.which(linter[0])]
        return max((subprocess.run(linter, cwd=ROOT).returncode for linter in found), default=0)
    known = dict(jobs())
    unknown = sorted(set(sys.argv[1:]) - set(known))
    if unknown:
        print(f"no such job: {', '.join(unknown)}; expected {', '.join(known)}", file=sys.stderr)
        return 2
    shutil.rmtree(CLONE, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, CLONE], check=True)
    environment = os.environ | {"CI": "true", "GITHUB_WORKSPACE": str(CLONE)}
    for name in sys.argv[1:]:
        for step in known[name].get("steps", []):
            if why_not(step):
                continue
            text = commands(known[name], step)
            begin = time.monotonic()
            # As GitHub runs it.
            done = subprocess.run(["bash", "-e", "-c", text], cwd=CLONE, env=environment)
            print(f"{name}: `{text}`: {time.monotonic() - begin:.0f} s, {done.returncode}")
            if done.returncode:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
