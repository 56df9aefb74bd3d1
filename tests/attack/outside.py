# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks on the command line as a process: signals, full disks, damaged caches, races.

Each takes a random generator and an empty folder, and raises :class:`BrokenError` for a finding.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from attack.judge import BrokenError

ROOT = Path(__file__).resolve().parents[2]
_TORPOR = [sys.executable, "-m", "torpor"]
_GOVERNOR = ROOT / "governors" / "cpuidle" / "menu.c"
#: Time that a command may continue after a signal to end.
_END_SECONDS = 10.0


def _environment(folder: Path) -> dict[str, str]:
    home = folder / "home"
    scratch = folder / "tmp"
    for path in (home, scratch):
        path.mkdir(mode=0o700, exist_ok=True)
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(scratch),
    }


def _foreign(folder: Path, marker: int, name: str = "mine.c") -> Path:
    """A governor of the user's own, so that it is compiled; always state ``marker``."""
    path = folder / name
    text = (ROOT / "governors/cpuidle/shallowest.c").read_text()
    path.write_text(f"{text}\n/* {marker} */\n")
    return path


#: Commands that take a while, and which file or folder in the run's own each writes.
_COMMANDS = [
    ("replay {demo} -p pixel6 -g menu -g mine.c --report out.html", "out.html"),
    ("replay {demo} -p pixel6 -g mine.c --parquet tables", "tables"),
    ("simulate frames -p pixel6 -g mine.c --duration 2s --seeds 4 --report out.html", "out.html"),
    ("simulate frames -p pixel6 -g mine.c --duration 2s --seeds 4 --format json", ""),
    ("governor check mine.c --decisions 300000", ""),
    ("study run graviton-arm-poll --duration 1s --seeds 2", ""),
    ("study run all --format json -j1 --duration 1s --seeds 2", ""),
    ("sweep -w frames -p pixel6 -g menu -g mine.c --seeds 8 --duration 2s -o store", ""),
    ("contest ./mine.c -o store --no-rules --only requests* --seeds 2 --duration 1s", ""),
    (
        "governor tune teo --param util_shift=2..9 -w frames -p pixel6 --duration 1s --trials 4"
        " -o store",
        "",
    ),
    ("fidelity {guest}", ""),
    ("trace info {demo}", ""),
]
#: Commands that write the file whose name comes last.
_WRITERS = [
    "replay {demo} -p pixel6 -g menu --report out.html",
    "replay {demo} -p pixel6 -g menu --decisions all.parquet",
    "replay {demo} -p pixel6 -g menu --decisions all.arrow",
    "simulate frames -p pixel6 -g menu --duration 1s --seeds 1 --trace run.perfetto-trace",
    "platform import {dump} -o machine.toml",
]


def _words(command: str) -> list[str]:
    guest = ROOT / "tests/data/guest/amd64-6.12-menu-mix"
    places = {
        "{demo}": next(ROOT.glob("demo/*.perf.data")),
        "{guest}": guest / "trace.dat.gz",
        "{dump}": guest / "sysfs-before.txt",
    }
    return [str(places.get(word, word)) for word in command.split()]


def _start(command: list, folder: Path, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [*_TORPOR, *map(str, command)],
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=folder,
        **more,
    )


def _session(pid: int) -> list[str]:
    """Command lines of the processes that are left of a session."""
    left = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(stat[3]) == pid and stat[0] != "Z":
                left.append((entry / "cmdline").read_text().replace("\0", " "))
        except (OSError, IndexError):
            continue
    return left


def _whole(path: Path) -> None:
    """Every file below ``path`` is complete, or it is not there."""
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    for file in files:
        data = file.read_bytes()
        match file.suffix:
            case ".html" if not data.rstrip().endswith(b"</html>"):
                raise BrokenError(f"{file.name} is half written ({len(data)} bytes)")
            case ".parquet" if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
                raise BrokenError(f"{file.name} is half written ({len(data)} bytes)")
            case ".json":
                json.loads(data)


def _is_all(text: str, out: bytes) -> bool:
    """Whether a command that ended with 0 printed a whole result: it was done before the signal."""
    if "--format json" in text:
        found = json.loads(out)
        return not any(
            r.get("interrupted") for r in (found if isinstance(found, list) else [found])
        )
    return bool(out.strip()) or text.startswith(("sweep", "replay", "simulate"))


def signals(rng: random.Random, folder: Path) -> None:
    """A signal at any moment: nothing half written, no process and no scratch left behind."""
    text, output = rng.choice(_COMMANDS)
    command = _words(text)
    _foreign(folder, rng.randrange(10**9))
    number = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGKILL])
    process = _start(command, folder)
    time.sleep(rng.expovariate(1 / 0.8))
    is_over = process.poll() is not None
    process.send_signal(number)
    try:
        out, said = process.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise BrokenError(f"`{command[0]}` goes on after {number.name}") from None
    what = f"`{command[0]}` after {number.name}"
    # Until main() has set up its handlers, the signal is Python's own.
    if number == signal.SIGINT and b"KeyboardInterrupt" in said and b"cli/__init__.py" not in said:
        return
    if any(words in said for words in (b"Traceback (most recent", b"panicked at", b"No such ")):
        raise BrokenError(f"{what}: {said.decode(errors='replace')[-1500:]}")
    # The one rule: the signal's status, unless the command was over, and had delivered it all.
    allowed = {0, 1, 2} if is_over else {128 + number, -number}
    if process.returncode not in allowed and not (process.returncode == 0 and _is_all(text, out)):
        raise BrokenError(
            f"{what}: exit status {process.returncode}: {said.decode(errors='replace')}"
        )
    if output:
        _whole(folder / output)
    time.sleep(0.2)
    if left := _session(process.pid):
        # Nobody can end a child for a process that was killed; it ends by itself, soon.
        time.sleep(3.0)
        if left := _session(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            raise BrokenError(f"{what}: still running: {left}")
    scratch = sorted(p.name for p in (folder / "tmp").iterdir())
    if scratch and number != signal.SIGKILL:
        raise BrokenError(f"{what}: left in TMPDIR: {scratch}")


def disks(rng: random.Random, folder: Path) -> None:
    """A disk that is full part-way through a file: the old file stays, the error names it."""
    limit = rng.choice([0, 1, 1000, 4096, 20_000, 65_536])
    command = _words(rng.choice(_WRITERS))
    name = command[-1]
    out = folder / name
    old = b"the old file, whole </html>"
    out.write_bytes(old)

    def shrink() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = _start(command, folder, preexec_fn=shrink)
    text = "".join(part.decode(errors="replace") for part in process.communicate(timeout=120))
    if "Traceback (most recent" in text or "panicked at" in text:
        raise BrokenError(text[-1500:])
    now = out.read_bytes()
    if process.returncode == 0:
        if now == old:
            raise BrokenError(f"exit status 0, but {name} is the old one")
        return
    if now != old:
        raise BrokenError(f"a disk full after {limit} bytes: {name} is neither old nor whole")
    # If nothing can be written at all, the cache, a temporary folder, or an image in memory, which
    # has the same limit, may be named first.
    others = ("cache", "temporary directory", "into memory")
    if name not in text.replace("\n", "") and not any(other in text for other in others):
        raise BrokenError(f"the error does not name {name}: {text}")
    if beside := [p.name for p in folder.iterdir() if name in p.name and p != out]:
        raise BrokenError(f"left next to {name}: {beside}")


def _answer(governor: Path, folder: Path) -> subprocess.Popen:
    demo = next(ROOT.glob("demo/*.perf.data"))
    return _start(["replay", demo, "-p", "pixel6", "-g", governor, "--format", "csv"], folder)


def _table(process: subprocess.Popen, what: str) -> bytes:
    out, said = process.communicate(timeout=120)
    if process.returncode != 0 or not out:
        text = said.decode(errors="replace")[-1500:]
        raise BrokenError(f"{what}: exit status {process.returncode}: {text}")
    return out


def caches(rng: random.Random, folder: Path) -> None:
    """A damaged cache: rebuilt, never believed, never blamed on the governor."""
    mine = _foreign(folder, 1)
    sound = _table(_answer(mine, folder), "a sound cache")
    cache = folder / "home" / "cache"
    files = sorted(p for p in cache.rglob("*") if p.is_file())
    if not files:
        raise BrokenError("the cache is empty")
    for _ in range(8):
        victim = rng.choice(files)
        if not victim.exists():
            continue
        data = bytearray(victim.read_bytes())
        match rng.randrange(4):
            case 0:
                victim.unlink()
            case 1:
                victim.write_bytes(bytes(data[: rng.randrange(len(data) + 1)]))
            case _ if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                victim.write_bytes(bytes(data))
        if _table(_answer(mine, folder), f"{victim.name} damaged") != sound:
            raise BrokenError(f"{victim.name} damaged: another result")
    # Damage is repaired, so that it costs time only once.
    process = _answer(mine, folder)
    _, said = process.communicate(timeout=120)
    if b"damaged" in said:
        raise BrokenError(f"not mended: {said.decode(errors='replace')}")


def races(rng: random.Random, folder: Path) -> None:
    """Many starts at once on one empty cache, some with process numbers of their own."""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    can_part = (
        shutil.which("unshare") is not None
        and subprocess.run([*apart, "true"], capture_output=True, check=False).returncode == 0
    )
    states = rng.sample(["shallowest", "deepest", "menu", "teo", "ladder"], 3)
    places, alone = [], []
    for state in states:
        # The same name in folders of their own, so that only content tells them apart.
        place = folder / state
        place.mkdir()
        source = (ROOT / f"governors/cpuidle/{state}.c").read_text()
        (place / "mine.c").write_text(source)
        places.append(place / "mine.c")
        apart_home = folder / f"alone-{state}"
        apart_home.mkdir()
        alone.append(_table(_answer(place / "mine.c", apart_home), f"{state} alone"))
    running = []
    demo = next(ROOT.glob("demo/*.perf.data"))
    for index in range(9):
        source = places[index % 3]
        command = [*_TORPOR, "replay", demo, "-p", "pixel6", "-g", source, "--format", "csv"]
        prefix = apart if can_part and rng.random() < 0.7 else []
        running.append(
            subprocess.Popen(
                [*prefix, *map(str, command)],
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
            )
        )
    tables = [_table(process, f"start {index} of 9") for index, process in enumerate(running)]
    for index, table in enumerate(tables):
        if _numbers(table) != _numbers(alone[index % 3]):
            raise BrokenError(f"start {index} of 9 got another governor's result")


def _numbers(table: bytes) -> list[bytes]:
    """Return the decisions of a governor, without its name."""
    return [line.partition(b",")[2].partition(b",")[2] for line in table.splitlines()[1:]]


OUTSIDE: dict[str, Callable[[random.Random, Path], None]] = {
    "signals": signals,
    "disks": disks,
    "caches": caches,
    "races": races,
}
