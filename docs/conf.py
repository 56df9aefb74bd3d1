# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The documentation as a site: ``make docs``.

Pages stay plain Markdown that reads well where the repository is browsed. What a site needs beyond
it is added here: the sidebar, from the tables of docs/README.md, and signatures from the code.
"""

import inspect
import re
from pathlib import Path
from typing import Any

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
    "python/torpor/ask/studies/README.md",
    "tests/data/guest/README.md",
    "tests/data/ioboost/README.md",
    "tests/guest/apparatus/README.md",
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


def sidebar() -> str:
    """The chapters of docs/README.md, each with the pages that it links to."""
    text = (ROOT / f"{CONTENTS}.md").read_text(encoding="utf-8")
    parts = []
    for chapter in text.split("\n## ")[1:]:
        title, _, body = chapter.partition("\n")
        linked = re.findall(r"\]\((?!\.\./)([\w/.-]+)\.md\)", body)
        pages = "\n".join(f"docs/{name}" for name in dict.fromkeys(linked))
        caption = title.partition(",")[0]
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n")
    project = "\n".join(sorted({p.stem for p in ROOT.glob("*.md")} - {"README"}))
    others = "\n".join(p.removesuffix(".md") for p in include_patterns[1:] if "*" not in p)
    parts.append(
        f"```{{toctree}}\n:hidden:\n:caption: Project\n\n{CONTENTS}\n{project}\n{others}\n```\n"
    )
    return "\n".join(parts)


def library() -> str:
    """The library's page with directives that read the code."""
    parts = ["# Library\n", "```{eval-rst}", ".. currentmodule:: torpor\n"]
    for name in torpor.__all__:
        value = getattr(torpor, name)
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
        source[0] += "\n" + sidebar()
    elif page == LIBRARY:
        source[0] = library()
    # A diagram stays text: what would draw it is fetched from elsewhere.
    source[0] = source[0].replace("```mermaid\n", "```text\n")


def finish(app: Any, failure: Exception | None) -> None:
    """Make the first page what a browser opens."""
    if failure is None:
        page = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={root_doc}.html">'
        Path(app.outdir, "index.html").write_text(f"<!doctype html>{page}\n", encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("source-read", read)
    app.connect("build-finished", finish)
