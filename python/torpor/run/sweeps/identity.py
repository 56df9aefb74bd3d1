# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Identity of a point: hashes of all content that its result depends on.

A point's name is 32 hexadecimal digits. If its governor is a file, the last twelve tell which
content the file had: six of the content's hash, then six of the hash of all digits before, by which
other names are known to have none. What ships has the content of its build.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from torpor import _engine
from torpor.results.files import open_regular
from torpor.run import recordings
from torpor.run.sweeps.axes import Point, split_numbers

#: Changes with the meaning of a row.
FORMAT = 1

#: Begins the name of a workload that is no file.
_BY_CONTENT = "sha256:"

_Progress = Callable[[str, int, int], None]


class Identities:
    """Names points by content. Everything is read once: files may be others for the next sweep."""

    def __init__(self, progress: _Progress | None = None, *, of_kernel: bool = False) -> None:
        """With ``of_kernel``, an unknown governor is one that the kernel alone has."""
        self._progress = progress
        self._governor = cache(_of_kernel if of_kernel else _governor)
        self._content = cache(content_of)
        self._source = cache(_source)
        self._platform = cache(lambda name: _digest(_engine.platform_toml(name).encode()))
        self._file = cache(file_hash)
        self._policy = cache(_policy)
        self._program = cache(_program)
        self._recorded_on = cache(lambda path: recordings.recorded_on([path]).get(path))
        self._kernel = cache(self._hosted)

    def key(self, point: Point) -> str:
        """Return the point's name: 32 hexadecimal digits.

        Raises :class:`torpor.TorporError` for a governor, platform or workload that is unknown.
        """
        options = json.loads(point.options)
        recorded_on, background = options.get("recorded_on"), options.get("background")
        if point.kind == "replay" and not recorded_on:
            recorded_on = self._recorded_on(point.source)
        identity = {
            "format": FORMAT,
            "engine": engine_id(),
            "kind": point.kind,
            "governor": self._governor(point.governor),
            "source": self._file(point.source)
            if point.kind == "replay"
            else self._source(point.source),
            "platform": self._platform(point.platform),
            "kernel": point.kernel
            and self._kernel(point.kernel, point.hz, point.platform, _has_file(point)),
            "kernel_args": point.kernel_args,
            "cpufreq": point.cpufreq and self._policy(point.cpufreq),
            "io_boost": point.io_boost and self._policy(point.io_boost),
            "hz": point.hz,
            "latency_limit": point.latency_limit,
            "seed": point.seed,
            "options": point.options,
            "recorded_on": recorded_on and self._platform(recorded_on),
            "background": background and self._source(background),
            "has_oracle": point.has_oracle,
        }
        if point.scheduler:
            identity["scheduler"] = self._program(point.scheduler)
        return name_of(identity, self._content(point.governor))

    def _hosted(self, kernel: str, hz: int | None, platform: str, is_linked: bool) -> str:
        hz = hz or platform_hz(platform)
        # Compiled here, where a signal can end it, because the threads that run points wait for it.
        return _engine.hosted_kernel_id(kernel, hz, is_linked, self._progress)


def name_of(identity: object, content: str | None) -> str:
    """Return the name of a point with this identity, whose governor's file had this content."""
    name = _digest(json.dumps(identity, sort_keys=True).encode())
    if content is None:
        return name
    name = name[:-12] + content
    return name + _digest(name.encode())[:6]


def content_of(spec: str) -> str | None:
    """Return six digits of the hash of a governor's files; None if it ships."""
    if is_shipped(spec):
        return None
    try:
        found = _engine.governor_source(spec)
    except _engine.TorporError:
        # One of several files, which can only shadow a machine.
        return None
    files = {name: hashlib.sha256(text).hexdigest() for name, text in found["files"].items()}
    return _digest(json.dumps([found["main"], sorted(files.items())]).encode())[:6]


def content_in(name: str) -> str | None:
    """Return the content that a point's name tells; None of a governor that ships, and of names
    that earlier versions gave."""
    return name[-12:-6] if _digest(name[:-6].encode())[:6] == name[-6:] else None


def is_shipped(spec: str) -> bool:
    """Return whether a governor is no file of the user's."""
    name = spec.partition(",")[0]
    return name == "oracle" or name in _shipped_governors()


@cache
def engine_id() -> str:
    """Return an identifier of this build of the engine, short enough for a table."""
    return file_hash(str(_engine.__file__))[:12]


def file_hash(path: str) -> str:
    """Return the hash of a file's bytes."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@cache
def platform_hz(name: str) -> int:
    """Return the tick rate that a machine says it has."""
    return int(_engine.platform_content(name)["hz"])


def _governor(spec: str) -> list[Any]:
    name, _, params = spec.partition(",")
    if name == "oracle":
        return ["oracle", params]
    found = _engine.governor_source(spec)
    files = {name: hashlib.sha256(text).hexdigest() for name, text in found["files"].items()}
    # The name counts, too: a hosted kernel's own governors have theirs.
    return [name, found["main"], sorted(files.items()), sorted(found["params"])]


def _of_kernel(spec: str) -> list[Any]:
    """Return the identity of a governor, which may be in the kernel's files alone."""
    try:
        return _governor(spec)
    except _engine.TorporError:
        if _is_file(spec):
            raise
        return [spec]


def source_of(workload: dict[str, Any]) -> str:
    """Return the name of a workload that is no file: its content."""
    return _BY_CONTENT + _digest(json.dumps(workload, sort_keys=True, default=str).encode())


def _source(name: str) -> str:
    if name.startswith(_BY_CONTENT):
        return name
    return _digest(_engine.workload_toml(name).encode())


def _has_file(point: Point) -> bool:
    """Return whether a policy of the point does not ship, and is linked to the kernel."""
    policies = filter(None, (point.cpufreq, point.io_boost, point.scheduler))
    is_file = any(os.path.isfile(split_numbers(policy)[0]) for policy in policies)
    return is_file or _is_file(point.governor)


def _is_file(governor: str) -> bool:
    """Return whether a governor is a file, a folder, a tree's or patched, and no plain name."""
    return re.search(r"[/@+]|\.c$", governor.partition(",")[0]) is not None


@cache
def _shipped_governors() -> frozenset[str]:
    return frozenset(entry["name"] for entry in _engine.governors())


def _policy(spec: str) -> list[str]:
    name, settings = split_numbers(spec)
    return [file_hash(name) if os.path.isfile(name) else name, settings]


def _program(spec: str) -> list[str]:
    """Return what identifies a scheduler: its program with the headers of its tree."""
    name, settings = split_numbers(spec)
    if not os.path.isfile(name):
        return [name, settings]
    parts = sorted(_engine.scheduler_files(name).items())
    return [_digest(b"".join(f"{path}\0{len(of)}\0".encode() + of for path, of in parts)), settings]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
