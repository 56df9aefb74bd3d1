# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Questions that take many runs: studies, contests, gates, tuning, patch series."""
