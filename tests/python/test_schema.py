# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every kind of result in its schema, as tables to post, and in sentences (`ab`: test_ab.py)."""

import csv
import inspect
import io
import json
import random
import re
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

import test_shadow
import test_trial
import torpor
import torpor_lab
from test_posting import Page, assert_is_mail
from torpor.ask.trial import Standing, attempt
from torpor.ask.trial.series import read_source
from torpor.results import schema as shapes
from torpor.results.kinds import posted
from torpor.view.report.page import render, render_posts
from valid import problems

BAD = Path(__file__).resolve().parents[2] / "crates" / "torpor-check" / "tests" / "bad"


def replay(recording):
    return torpor.replay(
        recording,
        platform="pixel6",
        governors=["menu", "teo", "oracle"],
        recorded_on="i5-10600k",
        latency_limit="1ms",
        cpu_map={0: 4},
        disabled_states=[(4, 1)],
    ).to_dict()


def failed_replay(recording, crash):
    result = torpor.replay(recording, platform="pixel6", governors=["menu", str(crash)])
    assert result.failures
    return result.to_dict()


def simulation():
    return torpor.simulate(
        "fio-randread",
        platform="rk3399",
        governors=["menu", "teo", "oracle"],
        cpufreq=["schedutil"],
        duration="20ms",
        seeds=2,
        strip=True,
    ).to_dict()


def simulation_of_flows():
    return torpor.simulate("frames", platform="pixel6", duration="100ms", seeds=1).to_dict()


def trace_stats(recording):
    return torpor.trace_stats(recording, platform="i5-10600k")


def latency(guest):
    return torpor.measure_latency(guest / "trace.dat")


def fidelity(guest):
    return torpor.fidelity(guest / "trace.dat", probes=False, disagreements=3)


def check():
    return torpor.check(str(BAD / "index.c"), decisions=20_000)


def diff(guest):
    dumps = [guest / "sysfs-before.txt", guest / "sysfs-after.txt"]
    return torpor.diff(*dumps, *dumps, labels=["a", "b"], is_paired=True)


def reproduction():
    return torpor_lab.reproduce("pixel6-teo", duration="100ms", seeds=1)


def beside(recording):
    replayed = torpor.replay(recording, platform="pixel6", governors=["menu", "teo"])
    return torpor.compare(replayed, torpor.trace_stats(recording), labels=["replayed", "recorded"])


def shadow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shadow")
    test_shadow.minutes(folder / "a", "a", {m: (100.0 + m, 90.0 - m % 2) for m in range(200)})
    return test_shadow.fleet([folder / "a"])


def trial(recording, tmp_path_factory):
    tree = test_trial.make_tree(tmp_path_factory.mktemp("trial"))
    standing = Standing(recordings=[str(recording)], platforms=["pixel6"], decisions=20_000)
    return attempt(read_source(f"{tree}:v6.1..topic"), None, standing)


KINDS = [
    *(replay, failed_replay, simulation, simulation_of_flows),
    *(fidelity, trace_stats, latency, check, diff, reproduction, beside, shadow, trial),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda made: made.__name__)
def result(request):
    needed = inspect.signature(request.param).parameters
    return request.param(*map(request.getfixturevalue, needed))


def test_result_matches_the_schema(result):
    assert problems(result) == []


def test_every_kind_is_posted_in_every_form(result):
    assert_is_mail(torpor.post(result))
    tables = posted(result).tables
    for table in tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
    drawn = [line for line in torpor.post(result, "markdown").splitlines() if line[:1] == "|"]
    assert len(drawn) == sum(2 + len(table.rows) for table in tables)
    read = list(csv.reader(io.StringIO(torpor.post(result, "csv"))))
    assert len(read) == 1 + sum(len(table.rows) for table in tables)
    assert {len(line) for line in read} == {len(read[0])}
    page = Page()
    page.feed(render_posts([posted(result)]))
    assert page.open == [] and page.rows == sum(len(table.rows) for table in tables)
    assert json.loads(torpor.post(result, "json")) == result


def test_each_sentence_has_its_figure(result):
    if result["kind"] == "check":
        with pytest.raises(torpor.TorporError, match="nothing to explain"):
            torpor.explain(result)
        return
    sentences = torpor.explain(result)
    assert 2 <= len(sentences) <= 7
    for sentence in sentences:
        # The first one may find no difference.
        assert re.search(r"\d|no difference", sentence), sentence
        assert sentence.endswith("."), sentence
    assert sum(sentence.startswith("This cannot show") for sentence in sentences) <= 1


def test_every_kind_is_tested():
    tested = {made.__name__ for made in KINDS}
    assert set(shapes.schema()["kinds"]) - tested == {"ab", "outcomes"}


def test_schema_finds_unknown_and_missing_keys(guest):
    result = diff(guest)
    result["groups"][0]["states"][0]["name"] = 1
    result["colour"] = "red"
    del result["intervals"]
    places = [problem.partition(":")[0] for problem in problems(result)]
    assert sorted(places) == ["$", "$", "$.groups[0].states[0].name"]


#: Values that a damaged or foreign writer may leave somewhere.
ODD = (None, 0, -1, 1e300, 1e-300, 2**62, "", "=x", [], {})


def places(value, path=()):
    """Yield the path of each part of a result; of a list's, the first three."""
    yield path
    if isinstance(value, dict):
        parts = value.items()
    else:
        parts = enumerate(value[:3]) if isinstance(value, list) else ()
    for step, part in parts:
        yield from places(part, (*path, step))


def damaged(result, path, draw):
    """Return a copy with one part replaced, doubled, emptied or left out."""
    copied = json.loads(json.dumps(result))
    *above, last = path
    parent = reduce(getitem, above, copied)
    old = parent[last]
    ways = [*ODD, *([old[:1], old + old, old[::-1]] if isinstance(old, list) else [])]
    way = draw.randrange(len(ways) + 1)
    if way == len(ways):
        del parent[last]
    else:
        parent[last] = ways[way]
    return copied


def test_damaged_results_are_refused_or_shown(result, tmp_path):
    draw = random.Random(1)
    found = list(places(json.loads(json.dumps(result))))[1:]
    file = tmp_path / "damaged.json"
    for _ in range(60 if len(found) < 5000 else 15):
        path = draw.choice(found)
        changed = damaged(result, path, draw)
        try:
            file.write_text(json.dumps(changed))
            read = torpor.load(file)
            read = read.to_dict() if hasattr(read, "to_dict") else read
            torpor.post(read, "csv")
            if read["kind"] != "check":
                torpor.explain(read)
            render(read)
        except torpor.TorporError:
            continue
        except Exception as error:
            pytest.fail(f"{path} is {reduce_or_gone(changed, path)!r:.80}: {error!r}")


def reduce_or_gone(value, path):
    try:
        return reduce(getitem, path, value)
    except (KeyError, IndexError):
        return "gone"
