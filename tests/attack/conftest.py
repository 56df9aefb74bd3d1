# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Lets ``attack`` be imported by its name, in this process and in those it starts."""

import os
import sys
from pathlib import Path

_TESTS = str(Path(__file__).resolve().parents[1])
sys.path.insert(0, _TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join([_TESTS, os.environ.get("PYTHONPATH", "")]).rstrip(":")
