# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study answer`: a question of the field, answered by a grid."""

from pathlib import Path
from typing import Annotated

import click

from torpor.plugin import (
    Cell,
    Post,
    Table,
    Verdict,
    argument,
    change_unit,
    counted,
    minus,
    number,
    obtain,
    option,
    options,
    print_note,
    print_post,
    progress,
    sweeping,
    table_text,
    values,
    word,
    write_stdout,
    write_whole,
)
from torpor_lab import questions

#: Cases in which an answer turns, of each metric.
_TURNS = 3


def answer(
    name: Annotated[
        str | None,
        argument("[QUESTION]", "A question that ships, or a .toml file; default: list them."),
    ] = None,
    store: sweeping.StorePath = Path("answers"),
    only: Annotated[
        list[str] | None,
        option("--only AXIS=PATTERN,...", "Only points that match: platform=pixel*."),
    ] = None,
    seeds: Annotated[int | None, option("N", "Runs per setting.", least=1)] = None,
    duration: Annotated[str | None, option("TIME", "Simulated time per run, such as 2s.")] = None,
    is_dry_run: Annotated[bool, option("--dry-run -n", "Count the points and stop.")] = False,
    threads: options.Threads = None,
    plot: Annotated[
        Path | None, option("FILE", "Draw the steps of a history: an .svg file.")
    ] = None,
    form: options.Form = "text",
) -> None:
    """Answer a question by running its grid, and say how certain that is.

    Changes are paired by all else. A machine's change is the mean over its workloads and
    recordings; intervals are over machines. Points that the store has are not run again.
    """
    if name is None:
        rows = [[word(each), word(questions.load(each)["question"])] for each in questions.names()]
        write_stdout(table_text(Table("questions", "", ["question", ""], rows, 2)))
        print_note("torpor study answer QUESTION answers one")
        return
    if plot is not None and plot.suffix != ".svg":
        raise click.BadParameter(f"--plot `{plot}`: expected a name that ends in .svg")
    # Refused here, it is a wrong option and not a wrong question.
    values.duration_ns(duration)
    question = questions.load(name)
    wanted = questions.points(question, only=sweeping.filters(only), seeds=seeds, duration=duration)
    if is_dry_run:
        write_stdout(counted(len(wanted), "point"))
        return
    obtain(sorted({point.kernel for point in wanted if point.kernel}))
    with sweeping.kept(store), progress.if_watched() as bar:
        found = questions.answer(
            question,
            store,
            wanted,
            threads=threads,
            progress=sweeping.shown_by(bar),
            compiling=bar,
        )
    if plot is not None:
        from torpor_lab import charts

        if not found["steps"]:
            raise click.BadParameter(f"--plot `{plot}`: `{name}` has no steps to draw")
        write_whole(plot, charts.steps(found))
        print_note(f"plot: {plot}")
    print_post(post(found), form, found)


def post(found: questions.Answer) -> Post:
    """Return an answer: its sentence, the means by class, where it turns, its limits."""
    facts = [
        "; ".join(f"power {kind}: {', '.join(of)}" for kind, of in found["power"].items()),
    ]
    notes = [
        f"changes are paired by machine, source and seed ({counted(found['seeds'], 'seed')} at "
        "most); ± is half the 95 % interval over machines, from three machines on, not corrected "
        "for the number of figures; (n): of so many machines",
        "`all` counts each machine alike, and of those that ship half are servers",
        *found["limits"],
    ]
    if found["failed"]:
        notes.insert(
            0, f"{counted(found['failed'], 'point')} failed: {_first_line(found['error'])}"
        )
    steps = {name for own in found["steps"].values() for name in own}
    tables = [_table(found, name) for name in _contrasts(found) if name not in steps]
    tables += [_history(found, name) for name in found["steps"]]
    if turns := _turns(found):
        tables.append(turns)
    return Post(found["question"], facts, tables, notes, verdict=sentence(found))


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _contrasts(found: questions.Answer) -> list[str]:
    return list(dict.fromkeys(mean["contrast"] for mean in found["means"]))


def _first(found: questions.Answer) -> str:
    """Return the contrast that is the answer: of a history's steps the one that changes most."""
    names = _contrasts(found)
    if names[0] not in {name for own in found["steps"].values() for name in own}:
        return names[0]
    own = [m for m in found["means"] if m["of"] == questions.ALL and m["contrast"] in names]
    own = [mean for mean in own if mean["metric"] == found["metrics"][0]]
    return max(own, key=lambda mean: abs(mean["mean"]))["contrast"] if own else names[0]


def sentence(found: questions.Answer) -> Verdict:
    """Return the first contrast's change of each metric over all machines, and where it is not
    chance."""
    name = _first(found)
    over = [m for m in found["means"] if m["contrast"] == name and m["of"] == questions.ALL]
    count = max(mean["machines"] for mean in over)
    turns = [
        t for t in found["turns"] if t["contrast"] == name and t["metric"] == over[0]["metric"]
    ]
    figure = "; ".join(_clause(mean) for mean in over)
    if all(mean["low"] is None for mean in over):
        figure += "; fewer than three machines give no interval"
    certainty = (
        f"{counted(count, 'machine')}; {_noun(over[0])} goes the other way in {len(turns)} of "
        f"{counted(over[0]['scenarios'], 'scenario')}"
    )
    return Verdict(f"{name}:", figure, certainty)


def _noun(mean: questions.Mean) -> str:
    return str(questions.metric_of(mean["metric"])["noun"])


def _clause(mean: questions.Mean) -> str:
    unit = change_unit(questions.metric_of(mean["metric"]))
    text = f"{_noun(mean)} {minus(format(mean['mean'], '+.2g'))} {unit}"
    low, high = mean["low"], mean["high"]
    if low is None or high is None:
        return text
    ends = minus(f"{low:+.2g} to {high:+.2g}")
    if low <= 0 <= high:
        return f"no difference in {_noun(mean)} beyond chance ({ends} {unit})"
    return f"{text} ({ends})"


def _table(found: questions.Answer, name: str) -> Table:
    own = [mean for mean in found["means"] if mean["contrast"] == name]
    cells = {(mean["of"], mean["metric"]): mean for mean in own}
    keys = [key for key in found["metrics"] if any(mean["metric"] == key for mean in own)]
    headings = ["machines of", "count"]
    headings += [f"{_title(key)} {change_unit(questions.metric_of(key))}" for key in keys]
    rows = []
    for of in dict.fromkeys(mean["of"] for mean in own):
        count = max(mean["machines"] for mean in own if mean["of"] == of)
        row = [word(of), number(count)]
        rows.append([*row, *(_cell(cells.get((of, key)), count) for key in keys)])
    return Table(name, name, headings, rows)


def _history(found: questions.Answer, name: str) -> Table:
    """Return a history's steps over all machines, without those that change nothing."""
    rows, keys = [], found["metrics"]
    for step in found["steps"][name]:
        own = [m for m in found["means"] if m["contrast"] == step and m["of"] == questions.ALL]
        cells = {mean["metric"]: mean for mean in own}
        if any(mean["mean"] or mean["low"] or mean["high"] for mean in own):
            count = max(mean["machines"] for mean in own)
            rows.append(
                [
                    word(step.removeprefix(f"{name} ")),
                    *(_cell(cells.get(key), count) for key in keys),
                ]
            )
    silent = len(found["steps"][name]) - len(rows)
    title = f"{name}, step by step, all machines"
    title += f"; {counted(silent, 'step')} without an effect left out" if silent else ""
    headings = [f"{_title(key)} {change_unit(questions.metric_of(key))}" for key in keys]
    return Table(name, title, ["step", *headings], rows)


def _title(key: str) -> str:
    return str(questions.metric_of(key)["title"])


def _cell(mean: questions.Mean | None, count: int) -> Cell:
    """Return a change with half its interval, and its machines where they are fewer."""
    if mean is None:
        return number(None)
    low, high = mean["low"], mean["high"]
    text = minus(f"{mean['mean']:+.1f}")
    if low is not None and high is not None:
        text += f" \N{PLUS-MINUS SIGN}{(high - low) / 2:.1f}"
    if mean["machines"] < count:
        text += f" ({mean['machines']})"
    return Cell(mean["mean"], text)


def _turns(found: questions.Answer) -> Table | None:
    """Return the cases in which the answer turns, that is, the first contrast."""
    name, rows = _first(found), []
    for key in found["metrics"]:
        own = [t for t in found["turns"] if t["contrast"] == name and t["metric"] == key]
        for turn in own[:_TURNS]:
            row = [word(_title(key)), word(turn["machine"]), word(Path(turn["source"]).stem)]
            rows.append([*row, number(turn["change"], 1, is_signed=True)])
    title = f"Where it turns: every seed the other way, the {_TURNS} largest of each metric"
    return (
        Table("turns", title, ["metric", "machine", "source", "change"], rows, 3) if rows else None
    )
