# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors in the shadow of the running one: the cost of each on this machine, now.

:mod:`feed` has the bytes, :mod:`live` the engine's session and what it found, :mod:`cost` what that
takes of the machine, :mod:`rollup` the minutes as a store's points, :mod:`metrics` the same for
Prometheus.
"""
