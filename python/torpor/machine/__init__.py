# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The running machine: kernel, recordings of it, counters, power; and the catalog of what ships."""
