# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The trace in a page, which its reader opens in Perfetto."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from pathlib import Path
from typing import TypedDict

#: Site that shows traces; TORPOR_PERFETTO names another one, such as http://localhost:10000.
ADDRESS = "https://ui.perfetto.dev"
#: A page holds no larger trace, compressed: a browser opens it at once, and mail carries it.
EMBEDDED_BYTES = 4_000_000
#: Nobody has to wait for a trace of a recording that is larger, only for a page without it.
RECORDING_BYTES = 64_000_000


_SAVED = (
    "This page has no trace for Perfetto, because it was made from a result alone. `torpor {} "
    "--report` makes one that has it"
)
_CONVERT = "`torpor trace convert RECORDING FILE.perfetto-trace` writes it."
_COUNTED = (
    "This page has no trace for Perfetto: counters have no timeline. `torpor record -- COMMAND` "
    "records what the machine does, and `torpor trace stats RECORDING --report` hands it over."
)
#: Why a page of a kind has no trace where nobody said why, and how to get one.
_WITHOUT = {
    "replay": f"{_SAVED.format('replay')}; `--trace FILE` writes it.",
    "simulation": f"{_SAVED.format('simulate')}; `--trace FILE.perfetto-trace` writes it.",
    "fidelity": f"{_SAVED.format('fidelity')}; {_CONVERT}",
    "outcomes": f"{_SAVED.format('fidelity')}; {_CONVERT}",
    "trace_stats": f"{_SAVED.format('trace stats')}; {_CONVERT}",
    "latency": f"{_SAVED.format('platform measure')}; {_CONVERT}",
    "diff": _COUNTED,
    "ab": _COUNTED,
    "check": "This page has no trace for Perfetto: the calls were random, and no machine ran.",
    "reproduction": "This page has no trace for Perfetto: the simulations of a study are many, and "
    "none is kept. `torpor simulate WORKLOAD -p PLATFORM --trace FILE.perfetto-trace` writes one.",
    "beside": "This page has no trace for Perfetto: its results have pages of their own, with "
    "their traces.",
}


class Handover(TypedDict):
    """A trace for Perfetto, compressed, in base64; or why there is none."""

    title: str
    data: str | None
    why_not: str
    address: str


def without(kind: str, why: str | None = None) -> Handover:
    """Return what a page of a result of a kind says that has no trace."""
    return {"title": "", "data": None, "why_not": why or _WITHOUT[kind], "address": ""}


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
        "why_not": "This page has no trace for Perfetto: compressed it has "
        f"{len(packed) / 1e6:.1f} MB, and a page holds at most {EMBEDDED_BYTES / 1e6:.0f} MB. "
        "Write it with `--trace FILE`, a recording with `torpor trace convert`.",
        "address": os.environ.get("TORPOR_PERFETTO") or ADDRESS,
    }
