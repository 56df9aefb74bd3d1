# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors in the running kernel: modules built, loaded, compared, and taken out again.

``system`` is the machine and what changes it, ``support`` says which kernels are refused,
``modules`` names, ``build`` builds, ``governors`` loads and switches, ``journal`` keeps what was
before, ``status`` reports; ``ab`` compares governors under a command, with ``rapl`` and ``rows``.
"""
