# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Lets the tests import their neighbours, whatever pytest's import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
