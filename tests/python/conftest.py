# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fixtures: the installed package, the demo recording, guests' recordings."""

import functools
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from processes import TORPOR, ran

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def recording() -> Path:
    """The recording that ships with the project."""
    found = sorted(ROOT.glob("demo/*.perf.data"))
    assert found, "demo/ holds no *.perf.data"
    return found[0]


@pytest.fixture(scope="session")
def guest(tmp_path_factory) -> Path:
    """A guest's recording with probes, unpacked, with the dumps of its sysfs next to it."""
    packed = ROOT / "tests/data/guest/amd64-6.12-menu-mix"
    folder = tmp_path_factory.mktemp("guest")
    for dump in packed.glob("sysfs-*.txt"):
        shutil.copy(dump, folder)
    (folder / "trace.dat").write_bytes(gzip.decompress((packed / "trace.dat.gz").read_bytes()))
    return folder


@pytest.fixture(scope="session")
def crash(tmp_path_factory) -> Path:
    """A governor whose choice reads from no address."""
    text = (ROOT / "governors/cpuidle/shallowest.c").read_text(encoding="utf-8")
    made = re.sub(r"(bool \*stop_tick\)\n\{\n)", r"\1\treturn *(volatile int *)8;\n", text)
    assert made != text
    path = tmp_path_factory.mktemp("crash") / "crash.c"
    path.write_text(made, encoding="utf-8")
    return path


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A machine made of files, for actions that a test must not try on the real one."""
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
    from click.testing import CliRunner

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
def torpor(tmp_path, monkeypatch):
    """Run the command line in this process, in an empty folder."""
    from torpor import cli

    def run(*args, env=None, cwd=tmp_path, check=None):
        forget_caches()
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("default")
            patch.chdir(cwd)
            for name, value in environment(env).items():
                patch.setenv(name, value)
            for name in os.environ.keys() - environment(env).keys():
                patch.delenv(name)
            patch.setattr(sys, "argv", ["torpor", *map(str, args)])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            status = cli._run()
        texts = (stream.buffer.getvalue().decode() for stream in (out, err))
        return checked(subprocess.CompletedProcess(args, status, *texts), check)

    return run


@pytest.fixture
def torpor_process(tmp_path):
    """Run the command line as a user does: in a process of its own, in an empty folder."""

    def run(*args, env=None, cwd=tmp_path, check=None):
        done = ran(*TORPOR, *map(str, args), cwd=cwd, env=environment(env))
        assert "Traceback" not in done.stderr, done.stderr
        return checked(done, check)

    return run


def environment(more):
    """Return this process's environment without a terminal's variables, and with more."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    return kept | (more or {})


def checked(done, status):
    """Return a finished command, after a check of its exit status."""
    message = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert status is None or done.returncode == status, message
    return done


def forget_caches():
    """Empty the caches that a new process does not have."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torpor":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
