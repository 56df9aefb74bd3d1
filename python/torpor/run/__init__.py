# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs: replays, simulations, verification and sweeps of them."""
