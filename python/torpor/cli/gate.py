# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor gate`: limits on what a candidate may cost."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

import click

from torpor.ask.gates import Verdict
from torpor.ask.gates import gate as hold
from torpor.cli import options
from torpor.cli.console import print_note, write_stdout
from torpor.cli.deliver import check, print_post, write_page
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, like, option
from torpor.machine.counters import diff
from torpor.results.comparison import correction_text
from torpor.results.files import write_whole
from torpor.results.table import Cell, Post, Table, minus, number, word
from torpor.results.text import distinct_names
from torpor.view.post import post_text

_SIDE = (
    "A saved result (--format json or --parquet), a sweep's store, or two dumps as BEFORE:AFTER."
)


def gate(
    base: Annotated[str, argument("BASE", _SIDE)],
    candidate: Annotated[str, argument("CANDIDATE", _SIDE)],
    limits: Annotated[Path, option("--limits -l FILE", "A TOML file with [[limit]].")],
    base_governor: Annotated[str | None, like(hold, "base_governor", "--base G")] = None,
    candidate_governor: Annotated[
        str | None, like(hold, "candidate_governor", "--candidate G")
    ] = None,
    is_strict: Annotated[bool, like(hold, "is_strict", "--strict")] = False,
    junit: Annotated[
        Path | None, option("FILE", "Also write JUnit XML, for GitLab and Jenkins.")
    ] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Fail if a candidate is worse than a base beyond limits. Exit status 1 if one is broken.

    Under GitHub Actions, broken limits become annotations, and the table goes to the job's summary.
    """
    check(folder=None, files=(junit,), page=report)
    verdicts = hold(
        _side(base),
        _side(candidate),
        limits,
        base_governor=base_governor,
        candidate_governor=candidate_governor,
        is_strict=is_strict,
    )
    post = _post(verdicts, base, candidate)
    if junit is not None:
        write_whole(junit, _junit(verdicts))
        print_note(f"junit: {junit}")
    write_page(post, report)
    print_post(post, form, verdicts)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _tell_github(verdicts, post_text(post, "markdown"))
    raise click.exceptions.Exit(EXIT_FINDING if any(v["is_broken"] for v in verdicts) else 0)


def _side(text: str) -> object:
    """A path, or the difference of two dumps."""
    before, colon, after = text.rpartition(":")
    if colon and not os.path.exists(text) and os.path.exists(before) and os.path.exists(after):
        return diff(before, after, labels=["kernel"])
    return text


def _post(verdicts: Sequence[Verdict], base: str, candidate: str) -> Post:
    def value(given: float | None, *, is_signed: bool = False) -> Cell:
        cell = number(given, is_signed=is_signed)
        if given is None:
            return cell
        text = f"{given:{'+' * is_signed}.4g}"
        return Cell(given, minus(text))

    short = distinct_names(v["scenario"] for v in verdicts)
    # A value that is the same in all rows is printed once, above them.
    keys = [key for key in ("scenario", "governor") if len({v[key] for v in verdicts}) > 1]
    rows = []
    for v in sorted(verdicts, key=lambda verdict: not verdict["is_broken"]):
        named = {"scenario": short[v["scenario"]], "governor": v["governor"]}
        cells = [word(named[key]) for key in keys]
        cells += [word(v["metric"]), word("BROKEN" if v["is_broken"] else "ok"), word(v["limit"])]
        cells += [value(v["base"]), value(v["candidate"])]
        cells += [value(v[key], is_signed=True) for key in ("change", "low", "high")]
        rows.append(cells)
    headings = [*keys, "metric", "verdict", "limit", "base", "candidate", "change", "low", "high"]
    broken = sum(v["is_broken"] for v in verdicts)
    title = f"{candidate} against {base}: {broken} of {len(verdicts)} limits broken"
    tests = sum(v["p"] is not None for v in verdicts)
    facts = [f"noise: changes at 5 %, {correction_text(tests)}"] if tests > 1 else []
    if verdicts:
        for key in [key for key in ("scenario", "governor") if key not in keys]:
            facts.append(f"{key}: {verdicts[0][key]}")
    return Post(title, facts, [Table("gate", "", headings, rows, len(keys) + 1)], [])


def _said(verdict: Verdict) -> str:
    text = f"{verdict['metric']} is {verdict['candidate']:.4g} {verdict['unit']}".rstrip()
    if verdict["base"] is not None and verdict["change"] is not None:
        text += minus(f", {verdict['change']:+.4g} from {verdict['base']:.4g}")
    if verdict["low"] is not None and verdict["high"] is not None:
        text += f" (95 %: {verdict['low']:+.4g} to {verdict['high']:+.4g})"
    return f"{text}; limit: {verdict['limit']}"


def _junit(verdicts: Sequence[Verdict]) -> bytes:
    broken = sum(v["is_broken"] for v in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(broken)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "torpor gate", **counts})
    for v in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": f"{v['scenario']} {v['governor']}",
                "name": f"{v['metric']} {v['limit']}",
            },
        )
        if v["is_broken"]:
            ElementTree.SubElement(case, "failure", {"message": _said(v)})
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))


def _tell_github(verdicts: Sequence[Verdict], summary: str) -> None:
    for v in verdicts:
        if v["is_broken"]:
            text = f"{v['scenario']}, {v['governor']}: {_said(v)}"
            # A workflow command ends with its line; these are its escapes.
            for plain, escaped in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
                text = text.replace(plain, escaped)
            write_stdout(f"::error title=torpor gate::{text}")
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary)
