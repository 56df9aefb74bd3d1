# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Views of results: tables as text, pages, pictures, notebooks, a site."""
