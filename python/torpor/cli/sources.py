# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fetches kernel sources for commands that simulate, without what handles a running kernel."""

import sys
from collections.abc import Sequence
from pathlib import Path

from torpor import _engine
from torpor.cli import progress
from torpor.cli.console import fail, print_note
from torpor.machine import kernel_sources


def fetched(kernel: str) -> Path:
    """Return the folder with a kernel's source, fetched if this machine lacks it."""
    try:
        with progress.if_watched() as bar:
            return kernel_sources.fetch(kernel, say=print_note, watch=bar)
    except kernel_sources.UnavailableError as error:
        fail(str(error))


def obtain(kernels: Sequence[str]) -> None:
    """On a terminal, fetch the sources of kernels to simulate that this machine lacks.

    Without names, that of the default kernel.
    """
    if not sys.stderr.isatty():
        return
    for kernel in kernels or [_engine.default_kernel()]:
        if kernel_sources.is_release(kernel) and not _engine.has_hosted_kernel(kernel, 250):
            fetched(kernel)
