# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The trace in a page, which its reader opens in Perfetto."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from typing import TypedDict

from torpor.results.files import read_bytes
from torpor.results.kinds import KINDS

#: Site that shows traces; TORPOR_PERFETTO names another one, such as http://localhost:10000.
ADDRESS = "https://ui.perfetto.dev"
#: Largest compressed trace in a page: a browser still opens it at once, and mail takes it.
EMBEDDED_BYTES = 4_000_000
#: A page of a larger recording has no trace: converting it takes too long.
RECORDING_BYTES = 64_000_000


class Handover(TypedDict):
    """A trace for Perfetto, compressed, in base64; or why there is none."""

    title: str
    data: str | None
    why_not: str
    address: str


def without(kind: str, why: str | None = None) -> Handover:
    """Return why the page of a result of this kind has no trace."""
    why = why or f"This page has no trace for Perfetto: {KINDS[kind].no_trace}"
    return {"title": "", "data": None, "why_not": why, "address": ""}


def handover(file: str | os.PathLike[str], title: str) -> Handover:
    """Return what a page holds of a trace in Perfetto's format.

    Raises OSError if the file cannot be read.
    """
    # The same trace gives the same bytes: without a time of now. Half the time of the default level
    # for 4 % more bytes.
    packed = gzip.compress(read_bytes(file), 4, mtime=0)
    fits = len(packed) <= EMBEDDED_BYTES
    return {
        "title": title,
        "data": b64encode(packed).decode() if fits else None,
        "why_not": "This page has no trace for Perfetto: compressed it has "
        f"{len(packed) / 1e6:.1f} MB, and a page holds at most {EMBEDDED_BYTES / 1e6:.0f} MB. "
        "Write it with `--trace FILE`, a recording with `torpor trace convert`.",
        "address": os.environ.get("TORPOR_PERFETTO") or ADDRESS,
    }
