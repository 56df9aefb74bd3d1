# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The trace in a page, which its reader opens in Perfetto."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from pathlib import Path
from typing import TypedDict

#: Who shows traces, unless TORPOR_PERFETTO names another one, such as http://localhost:10000.
ADDRESS = "https://ui.perfetto.dev"
#: A page holds no larger trace, compressed: a browser opens it at once, and mail carries it.
EMBEDDED_BYTES = 4_000_000
#: Nobody has to wait for a trace of a recording that is larger, only for a page without it.
RECORDING_BYTES = 64_000_000


class Handover(TypedDict):
    """A trace for Perfetto: compressed, in base64, or too large, and so only its size."""

    title: str
    data: str | None
    size_bytes: int
    address: str


def handover(file: str | os.PathLike[str], title: str) -> Handover:
    """Return what a page holds of a trace in Perfetto's format.

    Raises OSError if the file cannot be read.
    """
    # The same trace gives the same bytes: without a time of now.
    packed = gzip.compress(Path(file).read_bytes(), 6, mtime=0)
    fits = len(packed) <= EMBEDDED_BYTES
    return {
        "title": title,
        "data": b64encode(packed).decode() if fits else None,
        "size_bytes": len(packed),
        "address": os.environ.get("TORPOR_PERFETTO") or ADDRESS,
    }
