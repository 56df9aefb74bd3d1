# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a point's result depends on, as hashes of content."""

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from torpor import _engine, journals
from torpor.sweeps.axes import Point

#: Changes with the meaning of a row.
FORMAT = 1

_Progress = Callable[[str, int, int], None]


class Identities:
    """Names points by content. Everything is read once."""

    def __init__(self, progress: _Progress | None = None) -> None:
        self._progress = progress
        self._governor = cache(_governor)
        self._source = cache(_file_or(_engine.workload_toml))
        self._platform = cache(_file_or(_engine.platform_toml))
        self._boost = cache(_boost)
        self._kernel = cache(self._hosted)

    def key(self, point: Point) -> str:
        """Return the point's name: 32 hexadecimal digits.

        Raises :class:`torpor.TorporError` for a governor, platform or workload that is unknown.
        """
        identity = {
            "format": FORMAT,
            "engine": engine_id(),
            "kind": point.kind,
            "governor": self._governor(point.governor),
            "source": file_hash(point.source)
            if point.kind == "replay"
            else self._source(point.source),
            "platform": self._platform(point.platform),
            "kernel": point.kernel and self._kernel(point.kernel, point.hz, point.platform),
            "cpufreq": point.cpufreq,
            "io_boost": point.io_boost and self._boost(point.io_boost),
            "hz": point.hz,
            "latency_limit": point.latency_limit,
            "seed": point.seed,
            "options": point.options,
            "has_oracle": point.has_oracle,
        }
        return _digest(json.dumps(identity, sort_keys=True).encode())

    def _hosted(self, kernel: str, hz: int | None, platform: str) -> str:
        hz = hz or platform_hz(platform)
        return _engine.hosted_kernel_id(kernel, hz, self._progress)


@cache
def engine_id() -> str:
    """Return what tells this build of the engine from others, short enough for a table."""
    return journals.engine_id()[:12]


@cache
def file_hash(path: str) -> str:
    """Return the hash of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@cache
def platform_hz(name: str) -> int:
    """Return the tick rate that a machine says it has."""
    from torpor.studies.files import toml

    text = Path(name).read_text(encoding="utf-8") if os.path.isfile(name) else None
    found = toml(text if text is not None else _engine.platform_toml(name))
    return int(found.get("hz", 250))


def _governor(spec: str) -> list[Any]:
    name, _, params = spec.partition(",")
    if name == "oracle":
        return ["oracle", params]
    found = _engine.governor_source(spec)
    files = {name: hashlib.sha256(text).hexdigest() for name, text in found["files"].items()}
    # The name counts, too: a hosted kernel's own governors go by theirs.
    return [name, found["main"], sorted(files.items()), sorted(found["params"])]


def _boost(spec: str) -> list[str]:
    name, _, params = spec.partition(",")
    return [file_hash(name) if os.path.isfile(name) else name, params]


def _file_or(shipped: Callable[[str], str]) -> Callable[[str], str]:
    def content(name: str) -> str:
        path = Path(name)
        if path.is_file():
            return file_hash(name)
        if path.is_dir():
            # A dump of sysfs: every file's place and content.
            files = sorted(p for p in path.rglob("*") if p.is_file())
            told = [[str(p.relative_to(path)), file_hash(str(p))] for p in files]
            return _digest(json.dumps(told).encode())
        return _digest(shipped(name).encode())

    return content


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
