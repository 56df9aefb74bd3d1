# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Claims of the documentation about the repository: links, ids, generated pages."""

import re

from pages import PAGES, ROOT

from torpor.cli.app import app

MARKER = re.compile(r"FIDELITY\(([a-z0-9-]+)\)")
#: Folders with marked departures: the code, not its description.
MARKED = ("crates", "kapi", "khost", "kernel", "governors", "python")


def marked() -> set[str]:
    """Return the ids of all ``FIDELITY(id)`` markers in the code."""
    return {
        found
        for folder in MARKED
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".rs", ".c", ".h", ".py") and path.is_file()
        for found in MARKER.findall(path.read_text(encoding="utf-8"))
    }


def described() -> set[str]:
    """Return the ids that docs/fidelity.md has a section for."""
    text = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    return set(re.findall(r"^### `([a-z0-9-]+)`", text, re.M))


def test_every_departure_in_the_code_is_described():
    missing = marked() - described()
    assert not missing, f"docs/fidelity.md lacks a section `### `id`` for {sorted(missing)}"


def test_every_described_departure_is_in_the_code():
    stale = described() - marked()
    assert not stale, f"no FIDELITY marker in the code for {sorted(stale)}"


def test_every_page_is_on_the_map():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / t).resolve() for t in re.findall(r"\]\(([^)#\s]+)\)", text)}
    here = {p for p in PAGES if (ROOT / "docs") in p.parents} - {ROOT / "docs" / "README.md"}
    assert not here - linked, sorted(str(p.relative_to(ROOT)) for p in here - linked)


def test_options_that_the_readme_names_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    options = set(re.findall(r"`(--[a-z-]+|-[A-Za-z])\b", text))
    commands = app.load_all()
    known = {o for name in ("replay", "simulate") for p in commands[name].params for o in p.opts}
    assert options and options <= known


#: Pages in which contributors look up paths.
MAPS = ("ARCHITECTURE.md", "CONTRIBUTING.md")


def test_paths_that_the_maps_name_exist():
    missing = []
    for name in MAPS:
        text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text("utf-8"), flags=re.M | re.S)
        for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text):
            # A new file is named by its folder.
            path = re.sub(r"(?:NAME|HEADER)\.\w+$", "", path)
            if not path.startswith(("build/", "./")) and not inside(path):
                missing.append(f"{name}: {path}")
    assert not missing, "\n".join(missing)


def inside(path: str) -> list:
    """Return the path that a table's first column or a sentence names by its end."""
    places = ("", "crates/", "crates/*/src/", "python/torpor/")
    return [found for place in places for found in ROOT.glob(f"{place}{path}")]


def test_missing_path_is_found():
    assert not inside("input/no_such.rs")
    assert inside("view/report/") and inside("perf_data/")
