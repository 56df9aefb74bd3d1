# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Parts for packages that add to Torpor: commands, kinds of result, files with a schema.

Such a package has entry points, each the name of an object in it:

- ``torpor.commands``: a :class:`Command` or a :class:`Group`, by its words: ``contest``, or
  ``trace.spans`` for a command of a group that there is.
- ``torpor.kinds``: a :class:`Kind`, by its name.
- ``torpor.schemas``: a function that returns the JSON schema of a TOML file, by its kind.

``torpor-lab`` is one: it uses nothing of Torpor but the names of ``torpor`` and of this module.
"""

from torpor import exporting

__getattr__, __all__ = exporting(globals())


def __dir__() -> list[str]:
    return __all__
