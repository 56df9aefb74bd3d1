# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Output of the command line: escaped, with a status that no reader changes."""

import _thread
import csv
import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest

from processes import TORPOR, ran, start, wait_until_listening
from torpor import platform_toml, snapshot
from torpor.results.text import printable

#: Clears the screen, and is a control sequence of its own in C1; turns the line round.
EVIL = "a\x1b[2Jb\x9b31mc\u202ed\x7f"


def run(*args, stdout="PIPE", stderr="PIPE", shell=""):
    """The command line with a shell's redirections, which subprocess cannot express."""
    quoted = " ".join(f"'{a}'" for a in args)
    command = f"{sys.executable} -m torpor {quoted} {shell}"
    return ran("bash", "-c", command)


def is_clean(text):
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_escapes_are_of_json_and_toml():
    assert printable(EVIL) == r"a\u001b[2Jb\u009b31mc\u202ed\u007f"
    assert printable("tab\tand\nnewline, µs −1 日本") == "tab\tand\nnewline, µs −1 日本"


def test_file_names_cannot_control_the_terminal(torpor):
    done = torpor("trace", "info", EVIL, check=2)
    assert is_clean(done.stderr)
    assert r"\u001b[2J" in done.stderr


def test_a_name_that_is_no_text_is_escaped(tmp_path):
    name = os.fsencode(tmp_path) + b"/a\xff.toml"
    command = [*TORPOR, "platform", "import", name]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def titled(folder, title):
    """Write a platform of this title."""
    text = platform_toml("pixel6")
    mine = re.sub(r"^title = .*$", lambda _: f'title = "{title}"', text, count=1, flags=re.M)
    (folder / "mine.toml").write_text(mine, encoding="utf-8")


@pytest.mark.parametrize("option", [[], ["--format", "csv"], ["--format", "json"]])
def test_a_platform_cannot_speak_to_the_terminal(torpor, recording, tmp_path, option):
    titled(tmp_path, r"\u001b[2Jcleared\u009b31m")
    done = torpor("replay", "-p", "./mine.toml", "-g", "menu", recording, *option, check=0)
    assert is_clean(done.stdout)


def on_a_terminal(*args, cwd):
    """Run the command line on a terminal of its own; return what that got."""
    master, slave = pty.openpty()
    command = [*TORPOR, *map(str, args)]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=slave, stderr=subprocess.PIPE, cwd=cwd, env=env)
    os.close(slave)
    got = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        got += chunk
    process.wait(60)
    os.close(master)
    return got.decode()


def test_on_a_terminal_only_our_own_colours_pass(recording, tmp_path):
    titled(tmp_path, r"\u001b[8mhidden")
    args = ("replay", "-p", "./mine.toml", "-g", "menu", "-g", "teo", recording, "-v")
    shown = on_a_terminal(*args, cwd=tmp_path)
    # Colours of the table, and nothing but colours.
    assert "\x1b[1m" in shown
    assert r"\u001b[8mhidden" in shown
    assert "\x1b[8m" not in shown
    rest = re.sub(r"\x1b\[[\d;]*m|\r\n", "", shown)
    assert is_clean(rest), rest


def test_a_compilers_message_cannot_speak_to_the_terminal(torpor, recording, tmp_path):
    (tmp_path / "evil.c").write_text('#error "\x1b[2Jcleared"\n')
    done = torpor("replay", "-p", "pixel6", "-g", "./evil.c", recording, check=2)
    assert is_clean(done.stderr)
    assert "cleared" in done.stderr and "evil.c" in done.stderr


# A closed or full stream is no finding (1): either it changes nothing, or nothing is done.
STREAMS = [
    ("platform list >&-", 2, "standard output"),
    ("platform list >/dev/full", 2, "standard output"),
    ("platform list 2>&- >/dev/null", 0, ""),
    ("platform list 2>/dev/full >/dev/null", 0, ""),
    ("platform list --format json <&- >/dev/null", 0, ""),
    ("platform list | head -c 1; exit ${PIPESTATUS[0]}", 0, ""),
    ("--help | head -c 1; exit ${PIPESTATUS[0]}", 0, ""),
    ("platform show nosuch 2>&-", 2, ""),
    ("nosuch 2>&-", 2, ""),
]


@pytest.mark.parametrize(("shell", "status", "said"), STREAMS)
def test_a_closed_or_full_stream_is_no_finding(shell, status, said):
    done = run(shell=shell)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_exit_status_survives_a_closed_pipe(recording, tmp_path):
    content = bytearray(recording.read_bytes())
    content[400_000:400_200] = bytes(200)
    torn = tmp_path / "torn.perf.data"
    torn.write_bytes(content)
    shell = "| head -c 1 >/dev/null; exit ${PIPESTATUS[0]}"
    assert run("trace", "info", torn, shell=shell).returncode == 1


def test_closed_stdout_is_not_reused(tmp_path, torpor):
    """With descriptor 1 free, the first file that is opened would get it, and our output, too."""
    out = tmp_path / "periodic.perfetto-trace"
    args = ("simulate", "periodic", "-p", "pixel6", "-g", "menu", "--duration", "100ms")
    done = run(*args, "--seeds", "1", "--trace", out, shell=">&-")
    assert done.returncode == 2
    assert b"passes" not in out.read_bytes()
    assert torpor("trace", "info", out).returncode == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_sigterm_and_sighup_act_as_ctrl_c(recording, number, status):
    process = start("replay", "-p", "pixel6", *[recording] * 2000, ends_by=number)
    wait_until_listening(process)
    process.send_signal(number)
    # All recordings take minutes.
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (status, "")


SIGNALS = pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)


@pytest.mark.parametrize("command", [("diff", "PIPE", "x"), ("replay", "PIPE", "-p", "pixel6")])
@SIGNALS
def test_reading_a_silent_pipe_can_be_interrupted(command, number, status, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start(*(pipe if word == "PIPE" else word for word in command), ends_by=number)
    # Returns once the command has opened the other end.
    writer = os.open(pipe, os.O_WRONLY)
    process.send_signal(number)
    process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == status


def test_signal_just_before_a_read_is_not_lost(tmp_path):
    """`interrupt_main` sets Python's flag and, like such a signal, interrupts no system call."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    interrupt = threading.Timer(0.1, _thread.interrupt_main)
    # Ends the read if nothing else does.
    close = threading.Timer(20, lambda: os.close(writer))
    interrupt.start()
    close.start()
    with pytest.raises(KeyboardInterrupt):
        snapshot(pipe)
    close.cancel()
    os.close(writer)


def ended(number, *arguments, **options):
    """Return the exit status of Python, which does not inherit that a signal is ignored, and its
    stderr."""
    done = ran(
        sys.executable,
        *arguments,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
        **options,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("caught_by", ["nobody", "a library"])
@SIGNALS
def test_a_signal_decides_the_exit_status(number, status, caught_by, tmp_path):
    """Python makes a dataclass by `exec`, after which `python -m` would end itself by SIGINT."""
    code = f"""
import contextlib, os, sys
import torpor.cli
def run():
    catches = {{
        "nobody": contextlib.nullcontext(),
        "a library": contextlib.suppress(KeyboardInterrupt),
    }}
    with catches["{caught_by}"]:
        exec("os.kill(os.getpid(), {int(number)})")
    return 0
torpor.cli._run = run
sys.exit(torpor.cli.main())
"""
    (tmp_path / "interrupted.py").write_text(code)
    assert ended(number, "-m", "interrupted", cwd=tmp_path) == (status, "")


@SIGNALS
@pytest.mark.parametrize("place", ["finalizer", "printing"])
def test_unraisable_signal_is_not_lost(number, status, place):
    """Exceptions of a finalizer go no further, nor do those raised while they are shown."""
    code = f"""
import io, os, sys, time
import torpor.cli
class Stderr(io.StringIO):
    def write(self, text):
        os.kill(os.getpid(), {int(number)})
class Late:
    def __del__(self):
        if {place == "printing"}:
            sys.stderr = Stderr()
            raise ValueError
        os.kill(os.getpid(), {int(number)})
def run():
    Late()
    sys.stderr = sys.__stderr__
    time.sleep(30)
torpor.cli._run = run
sys.exit(torpor.cli.main())
"""
    assert ended(number, "-c", code) == (status, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_end_changes_nothing(number):
    """Python takes a moment to leave, in which nobody catches what a handler raises."""
    code = f"""
import os, sys
from torpor.cli import main
sys.argv = ["torpor", "--version"]
status = main()
os.kill(os.getpid(), {int(number)})
sys.exit(status)
"""
    assert ended(number, "-c", code) == (0, "")


ONCE = [
    ["replay", "x", "-p", "pixel6", "--platform", "rk3399"],
    ["replay", "x", "-p", "pixel6", "--hz", "100", "--hz=250"],
    ["simulate", "periodic", "-p", "pixel6", "--seeds", "1", "--seeds", "2"],
    ["platform", "import", "-o", "a", "--output", "b"],
    ["stat", "-n", "1", "-n", "2"],
]


@pytest.mark.parametrize("arguments", ONCE, ids=lambda a: a[0])
def test_a_single_option_is_refused_twice(torpor, arguments):
    done = torpor(*arguments, check=2)
    assert "is given twice: expected once" in done.stderr


def test_command_after_dashes_keeps_its_options(torpor, tmp_path):
    done = torpor("stat", "--root", tmp_path, "--", "echo", "-n", "1", "-n", "2")
    assert "given twice" not in done.stderr


def test_a_spreadsheet_runs_no_name(torpor, recording, tmp_path):
    evil = tmp_path / "=cmd|'calc'!A1.perf.data"
    evil.write_bytes(recording.read_bytes())
    done = torpor("replay", "-p", "pixel6", "-g", "menu", evil.name, "--format", "csv", check=0)
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert row["trace"] == f"'{evil.name}"
    # Numbers stay numbers, a negative one too.
    assert float(row["above_pct"]) > 0
    assert not any(value.startswith("'") for key, value in row.items() if key != "trace")
