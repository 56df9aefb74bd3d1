# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The documentation as a site: ``make docs``.

Pages stay plain Markdown that reads well where the repository is browsed. What a site needs beyond
it is added here: the sidebar, from the tables of docs/README.md, and signatures from the code.
"""

import inspect
import re
import typing
from pathlib import Path
from typing import Any, NamedTuple

import torpor

ROOT = Path(__file__).resolve().parents[1]
CONTENTS = "docs/README"
LIBRARY = "docs/reference/library"

project = "Torpor"
author = "The Torpor authors"
project_copyright = f"2026 {author}"
version = release = torpor.__version__
root_doc = "README"
include_patterns = [
    "*.md",
    "demo/README.md",
    "docs/*.md",
    "docs/**/*.md",
    "fuzz/README.md",
    "kapi/README.md",
    "kernel/README.md",
    "platforms/README.md",
    "lab/torpor_lab/studies/README.md",
    "tests/data/guest/README.md",
    "tests/data/ioboost/README.md",
    "tests/guest/apparatus/README.md",
    "workloads/README.md",
]
exclude_patterns = ["build", "target"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.githubpages",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
# A page may begin at any level below its title, as GitHub shows it. Sessions are no shell scripts.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
autodoc_typehints = "signature"
# `$ ` is the reader's prompt, not part of the command.
copybutton_prompt_text = r"^\$ |^> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"Torpor {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
# The same input gives the same site.
html_last_updated_fmt = None
linkcheck_anchors = False


#: Chapters of docs/README.md whose first page is their entry, with the others below it.
ENTRIES = ("A phone", "Servers", "A governor of my own", "Published results")


class Link(NamedTuple):
    """A page, and its name in the sidebar."""

    name: str
    page: str

    def entry(self) -> str:
        """Return it as a table of contents has it."""
        return f"{self.name[0].upper()}{self.name[1:]} </{self.page}>"


def chapters() -> dict[str, list[list[Link]]]:
    """Return the chapters of docs/README.md, each as rows of the pages that a row links to."""
    text = (ROOT / f"{CONTENTS}.md").read_text(encoding="utf-8")
    found = {}
    for chapter in text.split("\n## ")[1:]:
        title, _, body = chapter.partition("\n")
        rows = [
            re.findall(r"\[([^\]]+)\]\((?!\.\./)([\w/.-]+)\.md\)", line)
            for line in body.splitlines()
            if line.startswith("| [")
        ]
        named = [[Link(name, f"docs/{page}") for name, page in row] for row in rows]
        found[title.partition(",")[0]] = named
    return found


def tree(caption: str, entries: list[str]) -> str:
    """Return a table of contents that only the sidebar shows."""
    lines = [":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries]
    return "\n```{toctree}\n" + "\n".join(lines) + "\n```\n"


def children() -> dict[str, list[Link]]:
    """Return the pages below each page: of an entry its chapter's, else those of its row."""
    found = {}
    for title, rows in chapters().items():
        if title in ENTRIES:
            first, *rest = [link for row in rows for link in row]
            found[first.page] = rest
        else:
            found |= {row[0].page: row[1:] for row in rows if len(row) > 1}
    return found


def sidebar() -> str:
    """Return the entries, and below them concepts, reference, and the project's own pages."""
    known = chapters()
    entries = [Link(title, known[title][0][0].page).entry() for title in ENTRIES]
    parts = [tree("Start here", ["docs/install", *entries])]
    for title, rows in known.items():
        if title not in ENTRIES:
            parts.append(tree(title, [row[0].entry() for row in rows]))
    project = sorted({p.stem for p in ROOT.glob("*.md")} - {"README"})
    others = [p.removesuffix(".md") for p in include_patterns[1:] if "*" not in p]
    parts.append(tree("Project", [CONTENTS, *project, *others]))
    return "\n".join(parts)


def pictures(text: str) -> str:
    """Return a page whose pictures follow the site's scheme, which a reader may choose."""
    shown = (
        "```{{image}} {}\n:class: only-dark\n:alt: {}\n```\n\n"
        "```{{image}} {}\n:class: only-light\n:alt: {}\n```"
    )

    def both(found: re.Match[str]) -> str:
        dark, alt, light = found.groups()
        return shown.format(dark, alt, light, alt)

    return re.sub(
        r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*'
        r"</picture>",
        both,
        text,
    )


def unwrap(value: Any) -> None:
    """Take what only the command line reads out of a class's types."""
    for holder in (value, value.__init__):
        if getattr(holder, "__annotations__", None):
            holder.__annotations__ = typing.get_type_hints(holder)


def library() -> str:
    """The library's page with directives that read the code."""
    parts = ["# Library\n", "```{eval-rst}", ".. currentmodule:: torpor\n"]
    for name in torpor.__all__:
        value = getattr(torpor, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            unwrap(value)
        if inspect.isclass(value) and issubclass(value, Exception):
            parts.append(f".. autoexception:: {name}\n")
        elif inspect.isclass(value):
            parts.append(f".. autoclass:: {name}\n   :members:\n")
        elif callable(value):
            parts.append(f".. autofunction:: {name}\n")
        else:
            parts.append(f".. data:: {name}\n   :value: {value!r}\n")
    return "\n".join([*parts, "```", ""])


def read(_app: Any, page: str, source: list[str]) -> None:
    """Add to a page what only the site has."""
    if page == root_doc:
        source[0] = pictures(source[0]) + "\n" + sidebar()
    elif page == LIBRARY:
        source[0] = library()
    if below := children().get(page):
        source[0] += tree("", [link.entry() for link in below])


def finish(app: Any, failure: Exception | None) -> None:
    """Make the first page what a browser opens."""
    if failure is None:
        page = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={root_doc}.html">'
        Path(app.outdir, "index.html").write_text(f"<!doctype html>{page}\n", encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("source-read", read)
    app.connect("build-finished", finish)
