# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A kernel of our own that finds mistakes: lockdep, KASAN and UBSAN, of Debian's source."""

from pathlib import Path

from . import source
from .packages import HOST_ARCH, Kernel


def build() -> Kernel:
    """The kernel for x86-64, built if need be. Raises NotHereError as `source.build` does."""
    return source.build("sanitized", HOST_ARCH, (Path(__file__).with_name("sanitized.config"),))
