# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor show` and `torpor compare`: sentences and rows that the numbers bear out."""

import copy
import json
import re

import pytest

import torpor
from small_result import refill
from small_result import result as small_result
from torpor.results.sentences import state_text
from valid import problems


def test_only_differences_are_explained(recording):
    made = torpor.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    rows = made.to_dict()["traces"][0]["comparison"]["rows"]
    changes = [row["cells"][1]["change"] for row in rows]
    differ = [c for c in changes if c and c["text"]]
    known = [c for c in changes if c]
    headline, first = torpor.explain(made)[:2]
    assert re.fullmatch(r"teo takes .* % more idle power than menu and .*\.", headline)
    assert f"teo against menu: {len(differ)} of {len(known)} metrics differ" in first
    power = next(row for row in rows if row["key"] == "idle_power_mw")["cells"][1]
    assert f"total idle power {power['text']} mW ({power['change']['text']})" in first


def test_the_named_state_has_the_stated_change(recording):
    made = torpor.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    sentence = torpor.explain(made)[2]
    found = re.search(
        r"teo sleeps too (deep|shallow) ([\d,]+) times, menu ([\d,]+) times; "
        r"(?:(all|[\d,]+) of these ([\d,]+) (more|fewer) are in cores' (\w+)"
        r"|([\d,]+) (more|fewer) in cores' (\w+), ([\d,]+) (?:more|fewer) in the others)",
        sentence,
    )
    assert found, sentence
    after, before = (int(found[n].replace(",", "")) for n in (2, 3))
    key = {"deep": "above", "shallow": "below"}[found[1]]
    runs = made.to_dict()["traces"][0]["runs"]
    sums = [{s["name"]: s[key] for s in run["clusters"][0]["states"]} for run in runs]
    assert [sum(counts.values()) for counts in sums] == [before, after]
    part, more, name = found.group(4, 6, 7) if found[4] else found.group(8, 9, 10)
    sign = 1 if more == "more" else -1
    if found[4]:
        assert after - before == sign * int(found[5].replace(",", ""))
    part = abs(after - before) if part == "all" else int(part.replace(",", ""))
    assert sums[1][name] - sums[0][name] == sign * part


def test_chance_is_not_reported_as_change():
    made = torpor.simulate("periodic", platform="pixel6", governors=["menu"], seeds=2)
    alone = torpor.explain(made)
    assert not any("against" in sentence for sentence in alone)
    one = torpor.simulate("periodic", platform="pixel6", governors=["menu", "teo"], seeds=1)
    said = torpor.explain(one)
    assert "in one seed, which may be chance" in said[0]
    assert "1 run each, which cannot show" in said[1]
    noise = one.to_dict()
    for run, shift in zip(noise["runs"], (0, 1), strict=True):
        of = run["seeds"][0]
        run["seeds"] = []
        for seed in range(6):
            values = dict.fromkeys(of["metrics"])
            values["power_mw"] = 100.0 + (seed % 2 if shift else (seed + 1) % 2)
            run["seeds"].append({"seed": seed, "metrics": values})
    refill(noise)
    headline, counts = torpor.explain(noise)[:2]
    assert headline == "teo shows no difference from menu in power beyond chance (6 seeds)."
    assert "none of 1 metrics differs by more than chance (6 paired runs)" in counts


def test_a_governor_is_named_or_the_choice_is(recording):
    made = torpor.replay(recording, platform="pixel6")
    assert torpor.explain(made)[0].startswith("teo takes ")
    assert torpor.explain(made, governor="oracle")[0].startswith("oracle takes ")
    with pytest.raises(torpor.TorporError, match="no `cake` to compare with menu: expected teo,"):
        torpor.explain(made, governor="cake")
    with pytest.raises(torpor.TorporError, match=r"`check`: expected .*replay, .*simulation"):
        torpor.explain({"kind": "check"})


def test_machine_without_power_says_so():
    last = torpor.explain(small_result(has_power=False))[-1]
    assert "energy: pixel6 has 0 measured powers" in last
    assert "energy:" not in torpor.explain(small_result())[-1]


def test_results_of_any_kind_are_compared(recording):
    replayed = torpor.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    recorded = torpor.trace_stats(recording, platform="i5-10600k")
    simulated = torpor.simulate("periodic", platform="i5-10600k", governors=["menu"], seeds=2)
    beside = torpor.compare(replayed, recorded, simulated, labels=["r", "t", "s"])
    assert problems(beside) == []
    compared = beside["comparison"]
    assert compared["labels"] == ["r: menu", "r: teo", "t", "s"]
    rows = {row["key"]: row for row in compared["rows"]}
    above = [cell["value"] for cell in rows["above_pct"]["cells"]]
    states = recorded["states"]
    share = 100 * sum(s["above"] for s in states) / sum(s["usage"] for s in states)
    assert above[2] == pytest.approx(share)
    metrics = replayed.to_dict()["traces"][0]["runs"][0]["metrics"]
    assert above[0] == metrics["above_pct"]
    seconds = replayed.to_dict()["traces"][0]["trace"]["duration_ns"] / 1e9
    assert rows["sleeps_per_s"]["cells"][0]["value"] == pytest.approx(metrics["sleeps"] / seconds)
    # A count of ten seconds and one of one second are not compared as counts.
    assert "sleeps" not in rows
    notes = " ".join(beside["notes"])
    assert "the kind differs: replay, trace_stats, simulation" in notes
    assert "In one column alone, or a sum, so not compared: " in notes
    assert "energy" in notes.partition("not compared: ")[2]


def test_saved_results_are_explained_and_compared(torpor, recording, tmp_path):
    replay = ("replay", "-p", "i5-10600k", "-g", "menu", "-g", "teo", recording, "--format", "json")
    (tmp_path / "a.json").write_text(torpor(*replay, check=0).stdout)
    stats = ("trace", "stats", "-p", "i5-10600k", recording, "--format", "json")
    (tmp_path / "b.json").write_text(torpor(*stats, check=0).stdout)
    text = torpor("show", "a.json", check=0).stdout
    assert text.startswith("teo takes ")
    text = torpor("compare", "a.json", "b.json", check=0).stdout
    assert re.search(r"^too deep % +\d", text, re.M)
    found = json.loads(torpor("compare", "a.json", "b.json", "--format", "json", check=0).stdout)
    assert [source["label"] for source in found["sources"]] == ["a", "b"]
    (tmp_path / "c.json").write_text(json.dumps(found))
    assert torpor("show", "c.json", check=0).stdout
    missing = torpor("show", "none.json", check=2)
    assert "none.json" in missing.stderr


def test_incomparable_results_are_named(recording):
    stats = torpor.trace_stats(recording)
    with pytest.raises(torpor.TorporError, match="there is one column"):
        torpor.compare(stats)
    with pytest.raises(torpor.TorporError, match="kind `check` has no metrics to compare"):
        torpor.compare(stats, {"kind": "check"})
    with pytest.raises(torpor.TorporError, match="1 labels for 2 results"):
        torpor.compare(stats, stats, labels=["a"])
    bare = copy.deepcopy(dict(stats))
    bare["states"], bare["tick"]["wakeups"] = [], None
    with pytest.raises(torpor.TorporError, match="no metric is known in two columns"):
        torpor.compare(stats, bare)


def test_another_file_is_named_with_its_command(torpor, recording, tmp_path):
    told = torpor("show", recording, check=2).stderr
    assert "perf.data" in told and "torpor replay" in told and "codec" not in told
    (tmp_path / "log").write_text("Core CPU Busy% Bzy_MHz\n0 0 1.00 800\n")
    assert "turbostat" in torpor("show", "log", check=2).stderr


def test_a_state_keeps_a_name_of_two_words():
    assert state_text(("cores", 2, "CORE PC6")) == "cores' CORE PC6"
    assert state_text(("little", 0, "0 WFI")) == "little's WFI"
    assert state_text(("", 1, "1")) == "state 1"
