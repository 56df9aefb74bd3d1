# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The same file decides the same: what a governor answered in a kernel, userspace answers again.

The module logs each call with all inputs; the userspace build is fed with the log.
"""

import subprocess
from pathlib import Path

import pytest

from apparatus import build
from machines import here

ROOT = Path(__file__).resolve().parents[2]

OURS = sorted(path.stem for path in (ROOT / "governors" / "cpuidle").glob("*.c"))


@pytest.fixture(scope="session")
def logs(guest, tmp_path_factory) -> list[Path]:
    """Each CPU's log of decisions."""
    folder = tmp_path_factory.mktemp("logs")
    paths = []
    for name, data in guest.files.items():
        if name.startswith("decisions/cpu"):
            paths.append(folder / Path(name).name)
            paths[-1].write_bytes(data)
    assert len(paths) == 2
    return sorted(paths)


def feed(governor: str, logged: str, log: Path) -> tuple[int, dict[str, int], str]:
    """Feed a governor with what was logged of one: exit status, counts, all that was said."""
    command = [here(build.feeder), here(build.image, governor), f"t-{logged}", log]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = done.stdout.splitlines()[-1].split()
    counts = {key: int(n) for key, n in zip(words[::2], words[1::2], strict=True)}
    return done.returncode, counts, done.stdout


def test_nothing_was_lost(guest):
    assert guest.text("decisions/lost").strip() == "0"


@pytest.mark.parametrize("governor", OURS)
def test_userspace_decides_as_the_kernel_did(logs, governor):
    for log in logs:
        status, counts, said = feed(governor, governor, log)
        print(governor, log.name, said.splitlines()[-1])
        assert (status, counts["differences"], counts["unsteady"]) == (0, 0, 0), said
        assert counts["decisions"] > 50, said


@pytest.mark.parametrize("governor", ["menu-3.8", "tide"])
def test_timers_of_a_governor_ring_in_both(guest, logs, governor):
    rows = guest.text(f"decisions/timers/t-{governor}").splitlines()
    assert rows[0] == "cpu idle busy"
    expired = [list(map(int, row.split()))[1:] for row in rows[1:]]
    print(governor, expired)
    fed = [feed(governor, governor, log)[1]["timers"] for log in logs]
    assert fed == [idle + busy for idle, busy in expired]
    # If there is work before a CPU gets to sleep, its timer stays set and finds a task running.
    assert sum(idle for idle, _ in expired) > 0


def test_governors_that_set_timers_have_counts_of_them(guest):
    folder = ROOT / "governors" / "cpuidle"
    setting = {name for name in OURS if "hrtimer_start" in (folder / f"{name}.c").read_text()}
    assert set(guest.text("counts_timers").split()) == {f"t-{name}" for name in setting}


@pytest.mark.parametrize("governor", ["menu", "teo", "tide"])
def test_latency_limit_changes_during_the_run(logs, governor):
    free, limited = (feed(governor, governor, log)[1] for log in logs)
    assert free["limited"] == 0
    assert 20 < limited["limited"] < limited["decisions"] / 2


def test_another_governor_does_not_decide_so(logs):
    for log in logs:
        status, counts, _ = feed("teo", "menu", log)
        assert status == 1
        # Agreement of the two depends on the guest's load: a busy host makes sleeps long, and on
        # those menu and teo choose the same state.
        assert counts["differences"] > 0
