# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors against a frozen corpus: replay and closed loop, on every machine of known power."""

from torpor_lab.contest.corpus import Corpus, read_corpus
from torpor_lab.contest.run import Contest, contest

__all__ = ["Contest", "Corpus", "contest", "read_corpus"]
