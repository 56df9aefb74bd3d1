# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fixtures: the installed package, the demo recording, guests' recordings."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def recording() -> Path:
    """The recording that ships with the project."""
    found = sorted(ROOT.glob("demo/*.perf.data"))
    assert found, "demo/ holds no *.perf.data"
    return found[0]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A machine made of files, for what a test may not do to the one it runs on."""
    from fake_machine import FakeMachine

    return FakeMachine(tmp_path / "machine", monkeypatch)


@pytest.fixture
def kernel(fake, monkeypatch):
    """A kernel on that machine, which loads and unloads modules."""
    from fake_kernel import FakeKernel
    from torpor.machine.kernel import build

    # The tools are those of a machine that has them.
    monkeypatch.setattr(build.shutil, "which", lambda tool: f"/usr/bin/{tool}")
    return FakeKernel(fake.root)


@pytest.fixture
def run_on_kernel(kernel, monkeypatch):
    """Run the command line on that kernel; return what it printed, or its error."""
    from typer.testing import CliRunner

    from torpor import TorporError
    from torpor.cli.app import app

    def run(*args, status=0, answers=None):
        def make_system(*, is_dry_run=False):
            kernel.is_dry_run = is_dry_run
            return kernel

        monkeypatch.setattr("torpor.cli.kernel.make_system", make_system)
        done = CliRunner().invoke(app, [str(arg) for arg in args], input=answers)
        if isinstance(done.exception, TorporError):
            assert status == 2
            return str(done.exception)
        assert done.exit_code == status, (done.output, done.exception)
        return done.output

    return run


@pytest.fixture
def torpor(tmp_path):
    """Run the command line as a user does: a process of its own, in an empty folder."""

    def run(*args, env=None, cwd=tmp_path, check=None):
        import os

        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        environment.update(env or {})
        done = subprocess.run(
            [sys.executable, "-m", "torpor", *map(str, args)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            env=environment,
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check is not None:
            assert done.returncode == check, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
