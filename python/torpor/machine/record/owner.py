# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Names that show to which process an object in tracefs belongs."""

import os
import re
from pathlib import Path


def instance_name() -> str:
    return f"torpor-{os.getpid()}"


def probe_group() -> str:
    # An event's name is a C identifier.
    return f"torpor_{os.getpid()}"


def is_orphan(name: str, proc: Path = Path("/proc")) -> bool:
    """Whether the name is a recorder's that no longer runs."""
    found = re.fullmatch(r"torpor[-_](\d+)", name)
    return found is not None and not (proc / found[1]).exists()
