# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recordings that were parsed before come from the cache, and change nothing."""

import json
import os
import resource
from pathlib import Path

import pytest

from processes import TORPOR, ran

REPLAY = ("replay", "-p", "pixel6", "-g", "menu", "-g", "oracle", "--format", "json")
#: Just over the length from which a recording is cached.
_SLEEPS = 30_000


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """A long text of two CPUs that sleep."""
    idle = "          <idle>-0       [{cpu:03d}] d..2. {at}: cpu_idle: state={state} cpu_id={cpu}\n"
    lines = ["# tracer: nop\n"]
    for sleep in range(_SLEEPS):
        for later_us, state in ((0, 1), (300 + sleep % 700, 4294967295)):
            us = 1_000_000 + 2_000 * sleep + later_us
            at = f"{us // 1_000_000}.{us % 1_000_000:06d}"
            lines.append(idle.format(cpu=sleep % 2, at=at, state=state))
    path = tmp_path_factory.mktemp("text") / "trace.txt"
    path.write_text("".join(lines))
    assert path.stat().st_size > 4 << 20
    return path


@pytest.fixture
def cache(tmp_path) -> Path:
    """An empty cache."""
    return tmp_path / "cache"


def test_second_replay_has_the_result_of_the_first(torpor, text, cache):
    def replay(home):
        return torpor(*REPLAY, text, env={"XDG_CACHE_HOME": str(home)}, check=0).stdout

    first = replay(cache)
    (kept,) = (cache / "torpor/recordings").iterdir()
    assert kept.stat().st_size < text.stat().st_size / 10
    assert replay(cache) == first
    # A file cannot be a folder.
    assert replay(text) == first
    assert json.loads(first)["traces"][0]["trace"]["sha256"]
    kept.write_bytes(kept.read_bytes()[:-1])
    assert replay(cache) == first


def test_a_full_disk_is_no_error(text, cache):
    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))

    command = (*TORPOR, "trace", "info", str(text))
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    full = ran(*command, env=env, preexec_fn=fill)
    assert not full.returncode and not full.stderr
    for folder in ("recordings", "scratch"):
        assert not any((cache / "torpor" / folder).iterdir())
    assert ran(*command, env=env).stdout == full.stdout


def test_every_command_reads_the_same_from_the_cache(torpor, text, cache, tmp_path):
    for args in (("trace", "info"), ("trace", "stats")):
        runs = [torpor(*args, text, env={"XDG_CACHE_HOME": str(cache)}, check=0) for _ in range(2)]
        assert runs[0].stdout == runs[1].stdout
    (kept,) = (cache / "torpor/recordings").iterdir()
    before = kept.read_bytes()
    torpor("trace", "convert", text, "a.pftrace", env={"XDG_CACHE_HOME": str(cache)}, check=0)
    torpor("trace", "convert", text, "b.pftrace", env={"XDG_CACHE_HOME": str(text)}, check=0)
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()
    assert kept.read_bytes() == before


def test_doctor_empties_the_cache_of_recordings(torpor, text, cache):
    env = {"XDG_CACHE_HOME": str(cache)}
    assert torpor("doctor", "--clean", env=env, check=0).stdout.startswith("deleted 0 cached")
    torpor("trace", "info", text, env=env, check=0)
    (cache / "torpor/series").mkdir()
    (kept,) = (cache / "torpor/recordings").iterdir()
    size_bytes = kept.stat().st_size
    done = torpor("doctor", "--clean", "--format", "json", env=env, check=0)
    assert json.loads(done.stdout)["deleted"] == {"recordings": 1, "bytes": size_bytes}
    assert not any((cache / "torpor/recordings").iterdir())
    assert (cache / "torpor/series").is_dir(), "only recordings go"
