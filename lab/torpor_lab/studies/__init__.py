# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Studies: published tables, run again here and put side by side.

A study is a TOML file with a published table, the workload that stands for what was measured, and
which cells that workload was calibrated on. :func:`reproduce` simulates it and judges the others.
"""

from torpor_lab.studies.files import StudyError, names
from torpor_lab.studies.fit import Fit, calibrate
from torpor_lab.studies.run import reproduce

__all__ = ["Fit", "StudyError", "calibrate", "names", "reproduce"]
