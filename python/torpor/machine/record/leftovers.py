# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Removes what recorders left behind that were killed outright."""

import contextlib
import os
import re
from pathlib import Path

from torpor.machine.record import owner, probes, tracefs
from torpor.machine.record.errors import RecordError
from torpor.machine.record.machine import read


def remove(mount: Path) -> None:
    """Remove instances and probes whose recorder is gone; leave what cannot be removed."""
    # Instances first: a probe stays busy as long as an instance has it enabled.
    instances = mount / "instances"
    if os.access(instances, os.R_OK | os.W_OK):
        for instance in [path for path in instances.iterdir() if owner.is_orphan(path.name)]:
            with contextlib.suppress(OSError):
                tracefs.remove_instance(instance)
    file = probes.definitions_file(mount)
    if file is None:
        return
    for line in (read(file) or "").splitlines():
        found = re.match(r"\w+:((\w+)/\w+) ", line)
        if found and owner.is_orphan(found[2]):
            with contextlib.suppress(RecordError):
                probes.remove(file, found[1])
