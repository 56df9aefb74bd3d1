# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Stock kernels in virtual machines.

``packages`` fetches kernels and headers, ``build`` makes modules and programs for them,
``initramfs`` packs a root, ``machine`` boots it and brings files out.
"""
