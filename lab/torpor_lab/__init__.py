# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The laboratory: larger questions than one run answers, asked by Torpor's public interface.

Studies run published tables again, a contest runs governors against a frozen corpus, and idle
spans say what a governor with limited knowledge could do at best.
"""

from torpor.plugin import exporting

__getattr__, __all__ = exporting(globals())


def __dir__() -> list[str]:
    return __all__
