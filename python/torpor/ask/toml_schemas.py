# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""JSON schemas of the TOML files that users write: platforms, workloads, studies."""

import hashlib
import json
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.machine.kernel_sources import cache_folder
from torpor.results.files import write_whole

#: Files that have a schema.
KINDS = ["platform", "workload", "study"]


def toml_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a TOML file: of a platform, a workload or a study.

    Raises :class:`torpor.TorporError` for another kind.

    >>> "cluster" in toml_schema("platform")["properties"]
    True
    """
    if kind not in KINDS:
        otherwise = "for results see torpor.schema()"
        raise _engine.TorporError(_engine.unknown_name("schema", kind, KINDS, otherwise))
    from torpor.ask.studies import files

    text = _engine.toml_schema(kind)
    return files.schema() if text is None else json.loads(text)


def toml_schema_path(kind: str) -> Path:
    """Write a schema to the user's cache and return its path, for editors.

    Editors complete and check a TOML file that begins with ``#:schema PATH``. The name contains a
    hash, so schemas of several versions do not overwrite one another.

    Raises :class:`torpor.TorporError` as :func:`toml_schema`, and OSError if the cache cannot be
    written.
    """
    text = json.dumps(toml_schema(kind), indent=1) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = cache_folder("schemas") / f"{kind}-{digest}.schema.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    return path


def with_schema(kind: str, text: str) -> str:
    """Return TOML text that names its schema in the first line.

    Text that names one already is returned as it is, and so is any text if the cache cannot be
    written.
    """
    if text.startswith("#:schema "):
        return text
    try:
        return f"#:schema {toml_schema_path(kind).as_uri()}\n{text}"
    except OSError:
        return text
