# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The contest: its corpus, its scores by hand, and the command."""

import json
import shutil
from pathlib import Path

import pytest

from torpor.ask.contest import contest, read_corpus
from torpor.ask.contest.corpus import RELATIVE, SHIPPED, Scenario
from torpor.ask.contest.score import Cell, cells, standings
from torpor.run.sweeps.axes import SweepError

ROOT = Path(__file__).resolve().parents[2]
REPLAY = Scenario("rec", "open", "replay", "rec.dat", "pixel6", 1)
RUN = Scenario("work", "open", "simulation", "work", "pixel6", 1)


def row(governor, scenario=REPLAY, **metrics):
    """A point as a store has it."""
    usual = {
        "idle_energy_uj": 100.0,
        "idle_residency_pct": 90.0,
        "delay_mean_us": 50.0,
        "delay_p99_us": 160.0,
        "power_mw": None,
        "idle_power_mw": None,
        "over_oracle_mw": None,
        "over_oracle_pct": None,
        "relative_over_oracle_pct": None,
        "task_latency_mean_us": None,
        "task_latency_p99_us": None,
        "throughput": None,
    }
    return (
        {"governor": governor, "source": scenario.source, "platform": scenario.platform}
        | {"error": None}
        | usual
        | metrics
    )


def cell(**mine):
    """One entry's cell against teo at 100 µJ and 50 µs, with the oracle at 80 µJ."""
    rows = [row("teo"), row("oracle", idle_energy_uj=80.0), row("mine", **mine)]
    return next(c for c in cells(rows, [REPLAY]) if c.governor == "mine")


def test_half_of_the_gap_closed_is_a_score_of_a_half():
    found = cell(idle_energy_uj=90.0, delay_mean_us=49.0)
    assert found.gap_ratio == pytest.approx(0.5)
    assert found.score == pytest.approx(0.5)
    assert (found.energy_pct, found.delay_pct) == (pytest.approx(-10), pytest.approx(-2))
    assert found.dominance == 1


def test_energy_that_was_bought_with_delay_does_not_count():
    # 2 % more than teo's 50 us is allowed, 3 % is not; what is lost counts all the same.
    assert cell(idle_energy_uj=90.0, delay_mean_us=51.0).score == pytest.approx(0.5)
    late = cell(idle_energy_uj=90.0, delay_mean_us=51.5)
    assert (late.score, late.dominance) == (1.0, 0)
    assert cell(idle_energy_uj=110.0, delay_mean_us=60.0).score == pytest.approx(1.5)
    assert cell(idle_energy_uj=110.0, delay_mean_us=60.0).dominance == -1


def test_where_teo_is_next_to_the_oracle_nothing_is_scored():
    rows = [row("teo"), row("oracle", idle_energy_uj=99.5), row("mine", idle_energy_uj=120.0)]
    found = next(c for c in cells(rows, [REPLAY]) if c.governor == "mine")
    assert found.score is None
    assert found.energy_pct == pytest.approx(20)


def test_a_closed_loop_counts_power_above_teos_oracle():
    # teo: 10 mW, of which 2 are lost; the entry takes 9: half of what is lost.
    known = {"task_latency_mean_us": 30.0, "over_oracle_mw": 2.0, "throughput": 100.0}
    rows = [
        row("teo", RUN, **(known | {"power_mw": 10.0})),
        row("mine", RUN, **(known | {"power_mw": 9.0, "throughput": 99.0})),
    ]
    found = next(c for c in cells(rows, [RUN]) if c.governor == "mine")
    assert found.gap_ratio == pytest.approx(0.5)
    assert found.throughput_pct == pytest.approx(-1)


def seeds(governor, energies, delays):
    """Seeds of a closed loop."""
    return [
        row(
            governor,
            RUN,
            **{"seed": seed, "power_mw": energy, "task_latency_mean_us": delay},
            **{"over_oracle_mw": 2.0, "throughput": 100.0, "task_latency_p99_us": 90.0},
        )
        for seed, (energy, delay) in enumerate(zip(energies, delays, strict=True))
    ]


def test_chance_is_no_difference():
    base = seeds("teo", [10.0, 11.0, 10.5, 9.5], [30.0, 31.0, 29.0, 30.0])
    # Less by 0.5 under each seed, at delays that vary as much as their difference.
    mine = seeds("mine", [9.5, 10.5, 10.0, 9.0], [33.0, 29.0, 30.0, 31.0])
    found = next(c for c in cells([*base, *mine], [RUN]) if c.governor == "mine")
    assert found.gap_ratio == pytest.approx(0.75)
    assert (found.score, found.dominance) == (pytest.approx(0.75), 1)
    assert found.delay_pct == pytest.approx(2.5)
    # Energies that vary, too, have the mean and no score of their own.
    mine = seeds("mine", [9.0, 12.0, 8.5, 9.5], [30.0, 31.0, 29.0, 30.0])
    found = next(c for c in cells([*base, *mine], [RUN]) if c.governor == "mine")
    assert (found.gap_ratio, found.dominance) == (1.0, 0)
    assert found.energy_pct == pytest.approx(-4.878, abs=1e-3)


def test_a_machine_of_unknown_power_is_a_class_of_its_own():
    relative = Scenario("rec", "open", "replay", "rec.dat", "milan-7543", 1, RELATIVE)
    percent = {"teo": 40.0, "oracle": 30.0, "mine": 35.0}
    rows = [
        row(name, relative, idle_energy_uj=None, relative_idle_power_pct=value, delay_mean_us=50.0)
        for name, value in percent.items()
    ]
    found = next(c for c in cells(rows, [relative]) if c.governor == "mine")
    assert (found.group, found.score) == (RELATIVE, pytest.approx(0.5))


def test_standings_are_weighted_geometric_means():
    def made(governor, score, weight, error=None):
        fixed = ("s", "pixel6", "open", "replay", "machine", weight, error)
        return Cell(governor, *fixed, score, score, -10.0, 0.0, 50.0, 0.0)

    # 0.25 once and 1 three times: 0.25 ** (1/4).
    both = [made("a", 0.25, 1), made("a", 1.0, 3), made("b", 0.5, 1), made("b", None, 1, "it fell")]
    first, second = standings(both)
    assert (first.governor, first.score) == ("a", pytest.approx(0.7071, abs=1e-4))
    assert (second.governor, second.score) == ("b", None)


def test_the_shipped_corpus_has_both_halves():
    corpus = read_corpus()
    for half in ("open", "held-out"):
        found, _ = corpus.scenarios(half=half)
        assert {s.kind for s in found} >= {"simulation"}
        assert {s.platform for s in found if not s.is_relative} == set(corpus.machines)
    assert len({r.sha256 for r in corpus.recording}) == len(corpus.recording)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "versoin = 1", "unknown key `versoin`"),
        ("seeds = 6", "", "`seeds` is missing"),
        ('origin = "machine"', 'origin = "mars"', "expected machine, guest or simulated"),
        ('half = "open"', 'half = "secret"', "expected open or held-out"),
        ('name = "periodic"', 'name = "pipe"', "the name `pipe` is used twice"),
        ("weight = 1", 'weight = "1"', "`weight` is '1': expected a number"),
        ("weight = 1", "weight = -1", "expected 0 or more"),
    ],
)
def test_a_wrong_manifest_says_where_and_what(tmp_path, old, new, words):
    path = tmp_path / "corpus.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SweepError) as raised:
        read_corpus(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_recording_is_known_by_its_content(tmp_path, recording, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = read_corpus()
    found, missing = corpus.scenarios(only=["web-server"])
    assert (found, [r.name for r in missing]) == ([], ["web-server"])
    (tmp_path / "mine").mkdir()
    shutil.copy(recording, tmp_path / "mine" / "another-name.data")
    found, missing = corpus.scenarios([tmp_path / "mine"], only=["web-server"])
    assert len(found) == len(corpus.machines) + len(corpus.relative_machines) and not missing
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "web-server.perf.data").write_bytes(b"something else")
    with pytest.raises(SweepError, match="is not the corpus's recording web-server"):
        corpus.scenarios(only=["web-server"])


def test_a_recording_that_has_moved_counts_as_before(tmp_path, recording):
    def of(folder):
        (tmp_path / folder).mkdir()
        shutil.copy(recording, tmp_path / folder / f"{folder}.data")
        return contest(
            [],
            tmp_path / "store",
            data=[tmp_path / folder],
            only=["web-server,pixel6"],
            has_rules=False,
        ).standings

    before = of("first")
    assert before and of("second") == before


def test_a_pattern_without_a_scenario_is_an_error():
    with pytest.raises(SweepError, match="no scenario of the corpus matches `reqests`"):
        read_corpus().scenarios(only=["reqests"])


def test_a_contest_runs_once_and_says_the_same_again(tmp_path, torpor):
    args = ("contest", "tide", "--only", "periodic,pixel6", "--duration", "200ms", "--seeds", "1")
    args = (*args, "--no-rules", "--json", "-o", tmp_path / "store")
    first = torpor(*args, check=0).stdout
    shards = {p: p.stat().st_mtime_ns for p in (tmp_path / "store").rglob("*.parquet")}
    assert torpor(*args, check=0).stdout == first
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "store").rglob("*.parquet")} == shards
    result = json.loads(first)
    governors = {s["governor"] for s in result["standings"]}
    assert {"tide", "teo", "menu", "ladder", "teo-6.12", "menu-3.8"} <= governors
    # Bare metal.
    assert "haltpoll" not in governors
    assert "oracle" not in governors
    assert result["front"] == []
    assert next(s for s in result["standings"] if s["governor"] == "teo")["energy_pct"] == 0


def test_an_entry_that_breaks_a_rule_is_a_finding(tmp_path, torpor):
    entry = tmp_path / "greedy.c"
    text = (ROOT / "governors/cpuidle/shallowest.c").read_text(encoding="utf-8")
    hoard = "\nstatic DEFINE_PER_CPU(char, hoard[8192]);\n\nstatic int shallowest_select("
    assert "\nstatic int shallowest_select(" in text
    text = text.replace("\nstatic int shallowest_select(", hoard, 1)
    text = text.replace(
        "#include <linux/module.h>", "#include <linux/module.h>\n#include <linux/percpu.h>"
    )
    entry.write_text(text, encoding="utf-8")
    done = torpor(
        *("contest", entry, "--only", "periodic,pixel6", "--duration", "200ms", "--seeds", "1"),
        *("-o", tmp_path / "store"),
        check=1,
    )
    assert "8192 bytes per CPU" in " ".join(done.stdout.split())


def test_the_oracle_cannot_enter(tmp_path):
    with pytest.raises(SweepError, match="cannot enter"):
        contest(["oracle"], tmp_path / "store")


def test_the_oracles_front_goes_from_energy_to_delay(tmp_path, torpor):
    plot = tmp_path / "front.svg"
    args = ("contest", "--only", "web-server,pixel6", "--json", "-o", tmp_path / "store")
    args = (*args, "--baseline", "teo-6.12")
    result = json.loads(torpor(*args, "--plot", plot, cwd=ROOT).stdout)
    at = {one["governor"]: (one["energy_pct"], one["delay_pct"]) for one in result["front"]}
    prices = ("", ",price=1mW", ",price=10mW", ",price=100mW", ",price=1W")
    front = [at[f"oracle{price}"] for price in prices]
    assert front == sorted(front)
    assert [delay for _, delay in front] == sorted((d for _, d in front), reverse=True)
    assert front[0][0] < at["teo"][0] == 0 and front[-1][1] < at["teo"][1] == 0
    assert "teo-6.12" in {s["governor"] for s in result["standings"]} and "teo-6.12" in at
    assert not any(s["governor"].startswith("oracle") for s in result["standings"])
    drawn = plot.read_text(encoding="utf-8")
    assert drawn.count("<circle") >= len(at) and "<polyline" in drawn


def test_what_pm_qos_forbids_decides_nothing(recording):
    """A state beyond the limit is as one that is disabled."""
    import torpor

    def metrics(**options):
        replay = torpor.replay(recording, platform="i5-10600k", governors=["tide"], **options)
        # What is too shallow is counted by the states that are enabled, beyond the limit or not.
        return {k: v for k, v in replay.runs[0]["metrics"].items() if k != "below_pct"}

    limited = metrics(latency_limit="150us")
    assert limited == metrics(disabled_states=["3"]) != metrics()


def test_moments_add_up_to_what_a_replay_says(tmp_path, monkeypatch):
    import torpor
    from torpor.ask.contest.explain import _spans, explain_post

    monkeypatch.chdir(ROOT)
    found = contest(["tide"], tmp_path / "store", only=["web-server,pixel6"], has_rules=False)
    post = explain_post(found, "tide", "teo")
    (better,) = [table for table in post.tables if table.name == "less of tide"]
    assert [cell.text for cell in better.rows[0][:2]] == ["web-server", "pixel6"]
    (moments,) = [table for table in post.tables if table.name == "moments of web-server"]
    assert len(moments.rows) == 3
    assert all(row[-1].value < 0 for row in moments.rows)
    result = torpor.replay(
        "demo/web-server.perf.data", platform="pixel6", governors=["teo"], strip=False
    )
    energy = sum(sum(span["energy"]) for span in _spans(result, "teo").values())
    cpus_mw = sum(cluster["cpu_idle_power_mw"] for cluster in result.runs[0]["clusters"])
    replayed_ns = result.to_dict()["traces"][0]["inputs"]["replayed_ns"]
    assert energy == pytest.approx(cpus_mw * replayed_ns / 1e6, rel=1e-9)
    with pytest.raises(SweepError, match="`nobody` did not take part"):
        explain_post(found, "tide", "nobody")
