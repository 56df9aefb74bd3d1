# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`python -m torpor`."""

import sys

from torpor.cli import main

sys.exit(main())
