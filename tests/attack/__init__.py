# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks on Torpor: damaged inputs, hostile governors, signals, full disks, damaged caches, races.

``make attack`` runs them for an hour, ``make test`` the first. docs/reliability.md says what
must hold. Each case has a name, ``SEED/FAMILY/INDEX``, that repeats it:
``python -m attack --case 1/recordings/41``.
"""
