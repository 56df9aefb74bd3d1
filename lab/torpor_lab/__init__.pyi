# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Public names and their modules: as in torpor's __init__.pyi.
# ruff: noqa: I001
# fmt: off
from torpor_lab.contest import Contest as Contest, Corpus as Corpus
from torpor_lab.contest.corpus import read_corpus as read_corpus
from torpor_lab.idle_spans import Bound as Bound, Spans as Spans, bound as bound, spans as spans
from torpor_lab.record import Reproduction as Reproduction
from torpor_lab.studies import Fit as Fit, StudyError as StudyError, calibrate as calibrate
from torpor_lab.studies import reproduce as reproduce
from torpor_lab.studies.io_boost import io_boost_study as io_boost_study
