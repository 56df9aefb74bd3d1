# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Switches the idle governor away and back: it then starts from a state that is known."""

from torpor.machine.record.errors import RecordError, write
from torpor.machine.record.machine import Machine, read


class GovernorReset:
    """The requirements for a reset of the governor, checked before anything is recorded."""

    def __init__(self, machine: Machine) -> None:
        folder = machine.cpu_dir / "cpuidle"
        self._file = folder / "current_governor"
        current = read(self._file)
        if current is None:
            raise RecordError(
                f"the idle governor cannot be reset: `{self._file}` cannot be read",
                "older kernels require `cpuidle_sysfs_switch` on their command line",
            )
        if machine.idle_driver() is None:
            raise RecordError(
                "the idle governor cannot be reset: this machine has no cpuidle driver, so no "
                "governor runs",
                "leave out --reset-governor",
            )
        others = [g for g in (read(folder / "available_governors") or "").split() if g != current]
        if not others:
            raise RecordError(
                f"the idle governor cannot be reset: `{current}` is the only one, and resetting "
                f"requires a second one",
                "leave out --reset-governor; it settles within some hundred sleeps anyway",
            )
        self.name, self._other = current, others[0]

    def run(self) -> None:
        """Switch, and switch back whatever happens."""
        try:
            write(self._file, self._other)
        finally:
            try:
                write(self._file, self.name)
            except RecordError as error:
                raise RecordError(
                    f"the governor was switched to `{self._other}` and cannot be switched back: "
                    f"{error}",
                    f"as root: echo {self.name} > {self._file}",
                ) from error
