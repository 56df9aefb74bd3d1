# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A worker process that is replaced when a case ends it, and the time that a case may take."""

import contextlib
import json
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

#: A case of these sizes takes well under a second on a busy machine.
CASE_SECONDS = 20.0
#: Time limit of a running case after Ctrl-C.
INTERRUPT_SECONDS = 5.0
#: Peak memory of a worker, all its cases together.
RSS_MB = 1500


class Worker:
    """One ``attack.worker``, started when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen | None = None

    def run(self, case: dict) -> dict:
        """Run a case; the answer has ``outcome``, ``detail`` and ``seconds``."""
        if self._process is None:
            self._start()
        process = self._process
        # A worker that a governor has damaged may not answer; its silence is the finding.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
        answer = self._answer(CASE_SECONDS)
        if answer is None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            late = self._answer(INTERRUPT_SECONDS)
            outcome = "deaf" if late is None and process.poll() is None else "endless"
            self.close()
            return {"outcome": outcome, "detail": "", "seconds": CASE_SECONDS}
        if answer is None:
            process.wait()
            self._said.seek(0)
            said = self._said.read()[-2000:].decode(errors="replace")
            detail = f"exit status {process.returncode}; its last words:\n{said}"
            self.close()
            return {"outcome": "died", "detail": detail, "seconds": 0.0}
        if answer.get("rss_mb", 0) > RSS_MB:
            self.close()
            answer = {**answer, "outcome": "memory", "detail": f"{answer['rss_mb']} MB at the peak"}
        return answer

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.worker", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )
        if self._answer(120.0) is None:
            self._said.seek(0)
            raise RuntimeError(f"the worker does not start: {self._said.read().decode()}")

    def _answer(self, seconds: float) -> dict | None:
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()
        self._process = None
