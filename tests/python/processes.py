# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command line in processes of its own, which tests send signals to."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TORPOR = [sys.executable, "-m", "torpor"]


def ran(*command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return what it printed."""
    options = {"capture_output": True, "encoding": "utf-8", "timeout": 600} | options
    return subprocess.run(command, **options)


def start(*args: Any, ends_by: int = signal.SIGINT, **options: Any) -> subprocess.Popen[str]:
    """Start a command, with its streams piped.

    A test that runs in the background inherits that signals are ignored: ``ends_by`` is not.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [*TORPOR, *map(str, args)],
        preexec_fn=lambda: signal.signal(ends_by, signal.SIG_DFL),
        **(streams | options),
    )


def wait_for(condition: Callable[[], Any], limit_s: float = 60) -> None:
    """Wait until a condition holds; fail after a limit, which suits a very busy machine."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {limit_s} s in vain"
        time.sleep(0.02)


def wait_until_listening(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    """Wait until a command has a handler of a signal (Python itself has one of SIGINT)."""

    def is_listening() -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (number - 1) & 1)

    wait_for(is_listening)
