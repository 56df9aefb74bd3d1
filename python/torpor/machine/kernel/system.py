# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The machine that is changed, what it reports, and each change, printed before it is made."""

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torpor.machine.kernel.errors import KernelError, KilledError
from torpor.machine.record.machine import Machine, read

#: Lines of the kernel's log with which a refusal is explained.
_LOG_LINES_MAX = 3

#: Variables that an outer make leaves for inner ones; this make is not one of them.
_MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")


class System:
    """The running machine, or a folder that stands for it.

    All changes go through here. ``tell`` gets each as a shell command; with ``is_dry_run`` nothing
    else happens. ``unrestored`` has the changes that could not be undone.
    """

    def __init__(
        self, tell: Callable[[str], None], *, is_dry_run: bool = False, root: Path = Path("/")
    ) -> None:
        self.machine = Machine(root)
        self.tell = tell
        self.is_dry_run = is_dry_run
        self.unrestored: list[str] = []
        #: Governor that a dry run would have made current.
        self._pretended_governor: str | None = None

    # Return the contents of a file, None if it cannot be read.

    def read(self, path: str) -> str | None:
        return read(self.machine.path(path))

    @property
    def architecture(self) -> str:
        return os.uname().machine

    @property
    def is_root(self) -> bool:
        return os.geteuid() == 0

    @property
    def driver(self) -> str | None:
        """The idle driver, as :meth:`Machine.idle_driver`."""
        return self.machine.idle_driver()

    @property
    def governor(self) -> str | None:
        return self._pretended_governor or read(self._cpuidle / "current_governor")

    @property
    def governors(self) -> list[str]:
        """Return the governors that the kernel offers now."""
        return (read(self._cpuidle / "available_governors") or "").split()

    @property
    def has_cpuidle(self) -> bool:
        return (self._cpuidle / "available_governors").exists()

    def is_loaded(self, module: str) -> bool:
        return self._module(module).is_dir()

    def modules(self) -> list[str]:
        """Torpor's among the loaded modules."""
        return sorted(path.name for path in self.machine.path("/sys/module").glob("torpor_*"))

    def version(self, module: str) -> str | None:
        return read(self._module(module) / "version")

    def references(self, module: str) -> int | None:
        text = read(self._module(module) / "refcnt")
        return int(text) if text else None

    def holders(self, module: str) -> list[str]:
        return sorted(path.name for path in (self._module(module) / "holders").glob("*"))

    def parameters(self, module: str) -> dict[str, str]:
        files = sorted((self._module(module) / "parameters").glob("*"))
        return {file.name: read(file) or "" for file in files}

    # Make a governor current.

    def set_governor(self, name: str) -> None:
        """Make a governor that is offered the current one."""
        file = self._cpuidle / "current_governor"
        self.tell(f"echo {name} > {file}")
        if self.is_dry_run:
            self._pretended_governor = name
            return
        try:
            # At once and without truncating: sysfs takes each write for a value.
            handle = os.open(file, os.O_WRONLY)
            try:
                os.write(handle, name.encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise KernelError(f"write `{name}` to `{file}`: {error.strerror}") from error
        if self.governor != name:
            raise KernelError(f"the kernel accepted governor `{name}` but uses `{self.governor}`")

    def insmod(self, file: Path, parameters: Sequence[str] = ()) -> None:
        self._change(["insmod", str(file), *parameters])

    def rmmod(self, module: str) -> None:
        self._change(["rmmod", module])

    def make(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Run make; its messages are printed only if it fails."""
        self._change(["make", "-C", str(folder), *(f"{k}={v}" for k, v in variables.items())])

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a program of the machine's to its end."""
        environment = {k: v for k, v in os.environ.items() if k not in _MAKE_VARIABLES}
        environment["LC_ALL"] = "C"
        # Administration tools are not always in the path of sudo users.
        environment["PATH"] = f"{environment.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
        try:
            return subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise KernelError(f"`{command[0]}` cannot be run: {error.strerror}") from error

    def _change(self, command: Sequence[str]) -> None:
        self.tell(shlex.join(command))
        if self.is_dry_run:
            return
        done = self.run(command)
        if done.returncode == 0:
            return
        is_make = command[0] == "make"
        said = _errors(done.stderr or done.stdout) if is_make else done.stderr.strip()
        log = [] if is_make else self._log()
        hint = "the kernel's log: " + "; ".join(log) if log else None
        if done.returncode < 0:
            raise KilledError(f"`{shlex.join(command)}` was killed (signal {-done.returncode})")
        raise KernelError(f"`{shlex.join(command)}` failed: {said}", hint)

    def _log(self) -> list[str]:
        """The last that our modules have said."""
        try:
            lines = self.run(["dmesg"]).stdout.splitlines()
        except KernelError:
            return []
        ours = [line.partition("] ")[2] or line for line in lines if "torpor" in line]
        return ours[-_LOG_LINES_MAX:]

    @property
    def _cpuidle(self) -> Path:
        return self.machine.cpu_dir / "cpuidle"

    def _module(self, name: str) -> Path:
        return self.machine.path("/sys/module") / name


def _errors(text: str) -> str:
    """Return a compiler's errors; all of its output if no line is marked as an error."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [line for line in lines if "error:" in line or "ERROR:" in line]
    return "\n".join(found[:10] or lines[-10:])
