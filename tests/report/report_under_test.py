# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report under test: the installed one, or the source tree's where the engine is not built."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path


def _load() -> types.ModuleType:
    try:
        return importlib.import_module("torpor.report")
    except ImportError:
        pass
    # `torpor` needs its compiled engine, the report does not: import it below an empty package,
    # and take that away again so that no other test meets it.
    package = types.ModuleType("torpor")
    package.__path__ = [str(Path(__file__).parents[2] / "python" / "torpor")]
    sys.modules["torpor"] = package
    module = importlib.import_module("torpor.report")
    for name in [n for n in sys.modules if n == "torpor" or n.startswith("torpor.")]:
        del sys.modules[name]
    return module


report = _load()
