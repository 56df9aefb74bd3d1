# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Outputs appear whole or not at all, and what goes wrong names the file."""

import os
import resource

import pytest

import torpor as library
from processes import TORPOR, ran
from torpor.results.files import write_whole

#: Less than any of the outputs is long: as a full disk, it accepts the beginning of each.
ROOM_BYTES = 64

SIMULATE = ("simulate", "periodic", "-p", "pixel6", "-g", "menu", "--duration", "50ms")
#: Its recording is longer than a kernel's image, which is a file in memory.
LONGER = ("simulate", "frames", "-p", "pixel6", "-g", "menu", "--duration", "5s", "--seeds", "1")
ROOM_OF_LONGER_BYTES = 1_000_000
REPLAY = ("replay", "-p", "pixel6", "-g", "menu")

#: Command, the option that names the output, and the output.
OUTPUTS = [
    ((*REPLAY, "@"), "--report", "r.html"),
    ((*REPLAY, "@"), "--decisions", "d.parquet"),
    ((*REPLAY, "@"), "--decisions", "d.arrow"),
    ((*SIMULATE, "--seeds", "1"), "--report", "r.html"),
    (LONGER, "--trace", "t.perfetto-trace"),
    (LONGER, "--trace", "t.txt"),
    (("workload", "extract", "@"), "-o", "w.toml"),
    (("snapshot", "cpu"), "-o", "s.json"),
    (("platform", "import", "cpu"), "-o", "p.toml"),
]


@pytest.fixture
def sysfs(tmp_path):
    folder = tmp_path / "cpu" / "cpu0" / "cpuidle" / "state0"
    folder.mkdir(parents=True)
    for key, value in {"name": "C1", "latency": 2, "residency": 2, "usage": 1}.items():
        (folder / key).write_text(f"{value}\n")


def on_a_full_disk(*args, cwd):
    room = ROOM_OF_LONGER_BYTES if args[: len(LONGER)] == LONGER else ROOM_BYTES

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    command = [*TORPOR, *map(str, args)]
    return ran(*command, cwd=cwd, preexec_fn=fill)


@pytest.mark.parametrize(("command", "option", "name"), OUTPUTS, ids=lambda v: str(v)[:30])
def test_a_full_disk_leaves_the_old_file(recording, sysfs, tmp_path, command, option, name):
    (tmp_path / name).write_text("the old one")
    args = [recording if arg == "@" else arg for arg in command]
    args += ["--force"] * (option == "--report")
    done = on_a_full_disk(*args, option, name, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert (tmp_path / name).read_text() == "the old one"
    assert f"`{name}`" in done.stderr and "File too large" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    left = {path.name for path in tmp_path.iterdir()} - {"cpu", "cache"}
    assert left == {name}


def test_an_output_takes_its_place_in_one_step(tmp_path):
    """Readers of the old file read the old one on; the new one has another inode."""
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    with open(path) as old:
        write_whole(path, "new")
        assert old.read() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_readonly_file_is_not_replaced(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("not run, because root may write everything")
    path = tmp_path / "kept"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError) as raised:
        write_whole(path, "new")
    assert raised.value.filename == str(path)


def test_special_file_is_written_in_place(tmp_path):
    read, write = os.pipe()
    write_whole(f"/dev/fd/{write}", "through a pipe")
    assert os.read(read, 100) == b"through a pipe"
    os.close(read)
    os.close(write)
    with pytest.raises(IsADirectoryError) as raised:
        write_whole(tmp_path, "")
    assert raised.value.filename == str(tmp_path)


def test_an_error_of_a_table_names_the_file(recording, tmp_path):
    result = library.replay(recording, platform="pixel6", governors="menu")
    with pytest.raises(FileNotFoundError) as raised:
        result.write_table("summary", tmp_path / "no" / "such.parquet")
    assert raised.value.filename == str(tmp_path / "no" / "such.parquet")


@pytest.mark.parametrize(
    "command",
    [
        ("gate", "@", "@", "-l", "fifo"),
        ("sweep", "fifo"),
        ("simulate", "periodic", "-p", "pixel6", "--kernel", "fifo"),
        ("simulate", "periodic", "-p", "pixel6", "--kernel", "tree"),
        ("show", "fifo"),
        ("study", "run", "fifo.toml"),
        ("contest", "--corpus", "fifo"),
        ("diff", "fifo", "fifo"),
        ("fidelity", "fifo"),
        ("replay", "fifo"),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_a_fifo_for_a_file_is_refused(recording, tmp_path, command):
    """Whoever waits for its writer meets no signal."""
    result = library.replay(recording, platform="pixel6", governors="menu")
    (tmp_path / "result.json").write_text(result.to_json())
    (tmp_path / "tree" / "kernel").mkdir(parents=True)
    for name in ("fifo", "fifo.toml", "tree/Makefile"):
        os.mkfifo(tmp_path / name)
    words = ["result.json" if word == "@" else word for word in command]
    done = ran(*TORPOR, *words, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
