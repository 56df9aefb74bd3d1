# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of each kind of result."""
