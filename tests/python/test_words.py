# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The words of kernel documentation: what users read is checked for words that puzzle them."""

import ast
import re
from collections.abc import Iterator

import pytest

from test_style import ROOT, listed

#: (pattern, what to use instead).
WORDS = [
    (r"(?<!\{)\btold\b", "reported, given, shown, passed or seen"),
    (r"\bslips?\b", "error"),
    (r"\bhangs? on\b|\bhinges? on\b", "depends on"),
    (r"\brang\b|\btimers? rings?\b", "expired, expires"),
    (r"\bbeside\b", "next to, besides, with, in addition to or apart from"),
    (r"(?<!left )\bbehind\b", "after, below, of or follows"),
    (r"\bat hand\b", "available or installed"),
    (r"(?<!time )\bgo(?:es)? by\b", "uses, follows or depends on"),
    (r"\bhas but\b", "has only"),
    (r"\bit takes\b(?! (?:\d|up to|part|effect|as long|longer))", "requires"),
    (r"(?<![`{])\bours\b", "Torpor's"),
    (r"\bof ours\b|\bour own\b", "Torpor's"),
    (r"\bled to\b", "resulted in, or caused"),
    (r"\bstands?\b(?!-| (?:for|in for|alone|out)\b)", "is, is shown, is listed or remains"),
    (r"\broom\b", "space"),
    (r"\bin silence\b", "silently"),
    (r"\bwithout a word\b", "without a message"),
    (r"\bmended\b", "fixed"),
]
#: Text that may use a word: where (a file's name, or its end), and the words of the line.
ALLOWED = [
    # "To leave behind" is what everybody says.
    ("", r"\blea(?:ves?|ving)\b.*\bbehind\b"),
    # Virtual time has no other word for it.
    ("sched/fair.rs", r"\bbehind\b"),
    # A kind of result, in a list of them.
    (".py", r"'ab beside check "),
]
#: Generated from code that is checked itself, or from the kernel's interface to it.
GENERATED = "docs/reference/"


def findings(text: str, name: str, number: int) -> Iterator[str]:
    """Return the findings of a line, each with the place and the replacement."""
    if any(name.endswith(where) and re.search(line, text) for where, line in ALLOWED):
        return
    for pattern, instead in WORDS:
        if found := re.search(pattern, text, re.I):
            yield f"{name}:{number}: `{found.group()}`: use {instead}"


def prose(text: str) -> list[str]:
    """A page's lines; those in fences and the code in others are blanked."""
    text = re.sub(r"^```.*?^```$", lambda m: "\n" * m.group().count("\n"), text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", "``", text).splitlines()


def python_texts(text: str) -> list[tuple[int, str]]:
    """String literals that are text: with a blank in them."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [
        (node.lineno + offset, line)
        for node in nodes
        if isinstance(node.value, str) and " " in node.value.strip()
        for offset, line in enumerate(re.sub(r"``[^`]*``", "``", node.value).splitlines())
    ]


def rust_texts(text: str) -> list[tuple[int, str]]:
    """The same of Rust: comments and tests are the developers' own."""
    text = text.partition("#[cfg(test)]")[0]
    literal = re.compile(r"""'(?:\\.|[^\\'])'|//[^\n]*|"((?:[^"\\]|\\.)*)\"""", re.S)
    return [
        (text.count("\n", 0, match.start()) + 1 + offset, line)
        for match in literal.finditer(text)
        if match[1] and " " in match[1].strip()
        for offset, line in enumerate(match[1].splitlines())
    ]


def comments(text: str, suffix: str) -> list[tuple[int, str]]:
    """A file's comments, line by line, the code in them blanked; all of a TOML file is text."""
    pattern = {
        ".rs": r"(?:^|\s)//.*",
        ".js": r"(?:^|\s)//.*",
        ".c": r"/\*.*|^\s*\*(?:\s.*|$)|(?:^|\s)//.*",
        ".h": r"/\*.*|^\s*\*(?:\s.*|$)|(?:^|\s)//.*",
        ".py": r"(?:^|\s)#.*",
        ".sh": r"(?:^|\s)#.*",
        ".toml": r".*",
    }[suffix]
    return [
        # "It takes" is not looked for: in code, "it" is often what the sentence is about.
        (number, re.sub(r"``.*?``|`[^`]*`|@\w+|[Ii]t takes", "``", found.group()))
        for number, line in enumerate(text.splitlines(), 1)
        if (found := re.search(pattern, line))
    ]


def read_by_users(suffix: str) -> list[tuple[str, str]]:
    names = [path.relative_to(ROOT).as_posix() for path in listed() if path.suffix == suffix]
    inside = {".md": ("",), ".py": ("python/torpor/",), ".rs": ("crates/",)}[suffix]
    return [
        (name, (ROOT / name).read_text(encoding="utf-8"))
        for name in names
        if name.startswith(inside)
        and not name.startswith((GENERATED, "LICENSES/"))
        and (suffix != ".rs" or "/src/" in name)
    ]


def test_pages_use_the_words_of_kernel_documentation():
    found = [
        finding
        for name, text in read_by_users(".md")
        for number, line in enumerate(prose(text), 1)
        for finding in findings(line, name, number)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("suffix", "texts"), [(".py", python_texts), (".rs", rust_texts)])
def test_messages_use_the_words_of_kernel_documentation(suffix, texts):
    found = [
        finding
        for name, text in read_by_users(suffix)
        for number, line in texts(text)
        for finding in findings(line, name, number)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("suffix", [".rs", ".js", ".c", ".h", ".py", ".sh", ".toml"])
def test_comments_use_the_words_of_kernel_documentation(suffix):
    found = [
        finding
        for path in listed()
        if path.suffix == suffix and path.name not in ("test_words.py", "uPlot.iife.min.js")
        for number, line in comments(path.read_text(encoding="utf-8"), suffix)
        for finding in findings(line, path.relative_to(ROOT).as_posix(), number)
    ]
    assert not found, "\n" + "\n".join(found)


def test_a_banned_word_would_be_found():
    def words(lines):
        return [finding.split("`")[1] for n, line in lines for finding in findings(line, "a.md", n)]

    page = "The timer rang.\n```\nit stands\n```\n`behind` is told.\nNo file is left behind."
    assert words(enumerate(prose(page), 1)) == ["rang", "told"]
    assert words(python_texts('"""Hangs on it."""\nkind = "beside"')) == ["Hangs on"]
    assert words(rust_texts('// behind\nlet a = "is at hand, \\\n  and has but";')) == [
        "at hand",
        "has but",
    ]
    assert words(comments("/* It stands. */\n\t*told = 1;\n * `told`", ".c")) == ["stands"]
    assert words(comments("let a = 1; // a slip\n//! left behind", ".rs")) == ["slip"]
    assert words(comments('name = "told"', ".toml")) == ["told"]
