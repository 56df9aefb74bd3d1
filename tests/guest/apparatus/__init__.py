# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Stock kernels in virtual machines.

``packages`` fetches kernels and headers, ``build`` makes modules and programs for them,
``initramfs`` packs a root, ``machine`` boots it and brings files out. README.md lists the rest.
"""

import sys
from pathlib import Path

# The package `ioboost`, which is a user's program as well.
sys.path.append(str(Path(__file__).resolve().parents[3] / "kernel"))
