# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A patch series against its base: what it changes, for whom, and whether that is chance."""

from torpor.ask.trial.run import Standing, attempt
from torpor.ask.trial.series import TrialError

__all__ = ["Standing", "TrialError", "attempt"]
