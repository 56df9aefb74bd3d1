# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Links of all Markdown: those to files lead to one, those to a heading to one of that name."""

import os
import re
from pathlib import Path

import pytest

from processes import ran

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.S | re.M)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(
    r"\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.M
)
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.M)
_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


def tracked(*arguments):
    listed = ran("git", "ls-files", "--exclude-standard", *arguments, cwd=ROOT)
    if listed.returncode != 0:
        pytest.skip("not run, because this is no git checkout")
    return [line for line in listed.stdout.splitlines() if os.path.lexists(ROOT / line)]


def pages():
    """Every page by every path that leads to it: a linked folder shows its pages, too."""
    found = {ROOT / name for name in tracked("--cached", "--others", "*.md")}
    folders = [ROOT / name for name in tracked("--cached") if (ROOT / name).is_symlink()]
    for folder in folders:
        behind = folder.resolve()
        found |= {folder / p.relative_to(behind) for p in found if p.is_relative_to(behind)}
    return sorted(found)


def text_of(page):
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """As GitHub names them: words in lower case joined by hyphens, the second alike with -1."""
    text = text_of(page)
    found = set(_ANCHOR.findall(text))
    counts = {}
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = counts.get(name, 0)
        counts[name] = number + 1
        found.add(f"{name}-{number}" if number else name)
    return found


def wrong(page):
    for found in _LINK.finditer(_CODE.sub("", text_of(page))):
        link = found[1] or found[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        # As a browser does it: by the address, whatever a linked folder leads to.
        start = ROOT if path.startswith("/") else page.parent
        target = Path(os.path.normpath(start / path.lstrip("/"))) if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: `{link}` leads nowhere"
        elif not target.is_relative_to(ROOT):
            yield f"{page.relative_to(ROOT)}: `{link}` leads out of the project"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{page.relative_to(ROOT)}: `{link}` names no heading of that page"


def test_every_link_leads_somewhere():
    findings = [finding for page in pages() for finding in wrong(page)]
    assert not findings, "\n" + "\n".join(findings)


def test_a_dead_link_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# A heading\n")
    made = tmp_path / "made.md"
    made.write_text(
        "[a](nowhere.md) [b](there.md#a-heading) [c](there.md#another) [d](/there.md)\n"
        "[e](../out.md) `[f](code.md)`\n\n[g]: gone.md\n"
    )
    links = [finding.split("`")[1] for finding in wrong(made)]
    assert links == ["nowhere.md", "there.md#another", "../out.md", "gone.md"]
