# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The contest: its corpus, its scores by hand, and the command."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from torpor.run.sweeps.axes import SweepError
from torpor.run.sweeps.run import Swept
from torpor_lab.contest import contest, read_corpus
from torpor_lab.contest.corpus import RELATIVE, RESTRICTED, SHIPPED, Scenario, Variant
from torpor_lab.contest.run import _limits, _prices_mw, contest_post, sentences, verdict
from torpor_lab.contest.score import Cell, are_apart, cells, standings

ROOT = Path(__file__).resolve().parents[2]
PIXEL6 = Variant("pixel6", "pixel6")
REPLAY = Scenario("rec", "open", "replay", "rec.dat", PIXEL6, "server", "machine")
RUN = Scenario("work", "open", "simulation", "work", PIXEL6, "server")
PRICES_MW = {"pixel6": 2.0}


def row(governor, energy, delay, limit=None, **metrics):
    """A point as a store has it: a replay of 1000 events in 1 s."""
    usual = {
        "idle_energy_uj": energy,
        "idle_residency_pct": 90.0,
        "delay_mean_us": delay,
        "delay_total_us": 1000.0 * delay,
        "delay_p99_us": 3 * delay,
        "throughput": None,
        "over_oracle_pct": 0.0,
        "relative_over_oracle_pct": 0.0,
    }
    place = {"governor": governor, "latency_limit": limit, "seed": None, "error": None}
    return place | usual | metrics


def ends(energy=300.0, deep=50.0):
    """The shallowest sleeping state, and the deepest."""
    return [row("deepest", energy, 0.0, "1us"), row("deepest", deep, 100.0)]


def cell(*mine, name="mine", scenario=REPLAY, fronts=None):
    """One entry's cell against teo at 100 uJ and 50 us, with the oracle at 30 uJ."""
    rows = [row("teo", 100.0, 50.0), row("oracle", 30.0, 60.0), *ends(), *mine]
    found = cells({scenario: rows}, fronts, PRICES_MW)
    return next(c for c in found if c.governor == name)


def test_energy_is_read_at_teos_delay():
    # teo has 50 us, WFI 0 and the deepest state 100: so half of the time with each.
    late = cell(row("mine", 75.0, 100.0))
    assert late.at_delay_pct == pytest.approx((75 + 300) / 2 - 100)
    early = cell(row("mine", 128.0, 0.0))
    assert early.at_delay_pct == pytest.approx((128 + 50) / 2 - 100)
    assert cell(row("mine", 90.0, 50.0)).at_delay_pct == pytest.approx(-10)
    assert cell(row("mine", 31.0, 1.0), name="teo").at_delay_pct == 0


def test_latency_limit_is_a_point_of_a_front():
    mine = [row("mine", 50.0, 100.0), row("mine", 90.0, 0.0, "100us")]
    assert cell(*mine).at_delay_pct == pytest.approx(-30)
    # teo's own limit counts for teo.
    both = [*mine, row("teo", 40.0, 50.0, "100us")]
    assert cell(*both).at_delay_pct == pytest.approx(75)


def test_values_of_a_parameter_are_one_front():
    mine = [row("mine,p=1", 50.0, 100.0), row("mine,p=2", 90.0, 0.0)]
    front = {"mine,p=1|2": ["mine,p=1", "mine,p=2"]}
    found = cell(*mine, name="mine,p=1|2", fronts=front)
    assert (found.at_delay_pct, found.energy_pct) == (pytest.approx(-30), None)


def test_dominating_takes_energy_and_the_price_of_delay():
    # teo: 100 uJ, and 50 ms at 2 mW, which is another 100.
    assert cell(row("mine", 90.0, 52.0)).dominance == 1
    assert cell(row("mine", 90.0, 56.0)).dominance == 0
    assert cell(row("mine", 100.0, 50.0)).dominance == 0
    assert cell(row("mine", 100.0, 51.0)).dominance == -1
    assert cell(row("mine", 110.0, 49.0)).dominance == -1
    assert cell(row("mine", 90.0, 52.0)).cost_pct == pytest.approx(-3)


def test_where_teo_is_next_to_the_oracle_nobody_dominates():
    rows = [row("teo", 80.5, 50.0), row("oracle", 80.0, 60.0), *ends(), row("mine", 90.0, 60.0)]
    found = next(c for c in cells({REPLAY: rows}, None, PRICES_MW) if c.governor == "mine")
    assert (found.has_gap, found.dominance) == (False, None)
    assert found.at_delay_pct > 0


def test_cpus_that_are_never_idle_have_no_energy():
    rows = [row("teo", 100.0, 50.0, idle_residency_pct=0.5), *ends(), row("mine", 9.0, 50.0)]
    found = next(c for c in cells({REPLAY: rows}) if c.governor == "mine")
    assert found.energy_pct is None and found.excluded == "the CPUs are never idle"


def test_results_beyond_the_bound_do_not_count():
    assert "oracle's bound" in cell(row("mine", 29.0, 50.0)).excluded
    assert cell(row("mine", 31.0, 50.0)).excluded is None
    whole = standings([cell(row("mine", 29.0, 50.0))])[0]
    assert (whole.score_pct, whole.excluded) == (None, 1)


def seeds(governor, energies, delays, limit=None, throughput=100.0):
    """Seeds of a closed loop."""
    known = {"latency_mean_us": 10.0, "wakeups": 1000, "task_latency_p99_us": 90.0}
    known |= {"idle_power_mw": 1.0, "over_oracle_mw": 2.0, "throughput": throughput}
    return [
        row(governor, 1e3, 0.0, limit, seed=n, power_mw=energy, task_latency_mean_us=delay) | known
        for n, (energy, delay) in enumerate(zip(energies, delays, strict=True))
    ]


TEO = seeds("teo", [10.0, 11.0, 10.5, 9.5], [30.0, 31.0, 29.0, 30.0])


def run(energies, delays, **metrics):
    """One entry's cell in closed loop."""
    mine = seeds("mine", energies, delays, **metrics)
    late = seeds("deepest", [8.0] * 4, [90.0] * 4)
    soon = seeds("deepest", [30.0] * 4, [1.0] * 4, "1us")
    found = cells({RUN: [*TEO, *mine, *late, *soon]}, None, PRICES_MW)
    return next(c for c in found if c.governor == "mine")


def test_chance_is_neither_a_win_nor_equal():
    teos = [30.0, 31.0, 29.0, 30.0]
    # Less by 0.5 mW under each seed.
    sure = run([9.5, 10.5, 10.0, 9.0], teos)
    assert sure.dominance == 1 and sure.at_delay_high_pct < 0
    # The same mean, by chance.
    wide = run([8.0, 12.5, 11.0, 7.5], teos)
    assert wide.energy_pct == pytest.approx(sure.energy_pct)
    assert wide.dominance is None
    assert wide.at_delay_low_pct < 0 < wide.at_delay_high_pct
    assert run([10.0, 11.0, 10.5, 9.5], teos).dominance == 0


def test_energy_bought_with_throughput_saves_nothing():
    teos = [30.0, 31.0, 29.0, 30.0]
    less = [9.5, 10.5, 10.0, 9.0]
    assert run(less, teos, throughput=99.6).at_delay_pct == pytest.approx(-4.878, abs=1e-3)
    paid = run(less, teos, throughput=99.4)
    assert (paid.at_delay_pct, paid.throughput_pct) == (0.0, pytest.approx(-0.6))


def test_unknown_power_makes_a_separate_class():
    unknown = Variant("milan-7543", "milan-7543")
    relative = Scenario("rec", "open", "replay", "rec.dat", unknown, "server", RELATIVE)
    rows = [
        row(name, None, delay, limit, relative_idle_power_pct=percent)
        for name, percent, delay, limit in (
            *(("teo", 40.0, 50.0, None), ("oracle", 30.0, 60.0, None), ("mine", 38.0, 50.0, None)),
            *(("deepest", 90.0, 1.0, "1us"), ("deepest", 35.0, 99.0, None)),
        )
    ]
    found = next(c for c in cells({relative: rows}, None, {}) if c.governor == "mine")
    assert (found.group, found.at_delay_pct) == (RELATIVE, pytest.approx(-5))
    assert found.dominance is None


def scored(governor, load, percent, error=None):
    """A cell with a score."""
    place = ("s", "pixel6", "open", "replay", "machine", load, True, error)
    return Cell(governor, *place, at_delay_pct=None if error else percent)


def test_each_class_of_load_counts_once():
    found = [scored("a", "timers", -50.0), *[scored("a", "server", 0.0)] * 9]
    found += [scored("b", "timers", -50.0), scored("b", "server", 0.0, "it fell")]
    first, second = standings(found)
    # The geometric mean of 0.5 and 1.
    assert (first.governor, first.score_pct) == ("a", pytest.approx(-29.29, abs=1e-2))
    assert (second.governor, second.score_pct, second.rank) == ("b", None, None)


def test_one_class_of_load_decides_nothing():
    def of(name, *percents):
        return [scored(name, load, x) for load, x in zip("abc", percents, strict=True)]

    steady, lucky, teo = of("x", -2.0, -2.0, -2.0), of("y", -9.0, 0.0, 0.0), of("teo", 0, 0, 0)
    assert are_apart(steady, teo) and not are_apart(lucky, teo)
    lucky_first = SimpleNamespace(standings=standings([*lucky, *teo]), entries=("y",))
    assert sentences(lucky_first) == [
        "y takes 3.1 % less energy than teo at its delay "
        "(rank 1 of 2; the corpus does not tell it from teo)."
    ]
    leader = SimpleNamespace(standings=standings([*steady, *teo]), entries=())
    assert verdict(leader).subject == "x" and verdict(leader).certainty == "rank 1 of 2"
    # The headline is on my entry, whoever leads.
    mine = SimpleNamespace(standings=standings([*steady, *lucky, *teo]), entries=("teo", "x"))
    assert verdict(mine).subject == "x"
    ranks = {one.governor: one.rank for one in lucky_first.standings}
    assert ranks == {"y": 1, "teo": 1}


def test_delay_price_uses_shallowest_sleeping_state():
    made = [replace(REPLAY, machine=Variant(name, name)) for name in ("i5-10600k", "rk3399")]
    found = _prices_mw([*made, replace(REPLAY, machine=Variant("milan-7543", "milan-7543"))])
    # C1, not POLL; WFI of 4 little CPUs with 4 mW each and of 2 big ones with 24.
    assert found == {"i5-10600k": 400.0, "rk3399": pytest.approx(4 * (4 * 4 + 2 * 24) / 6)}


def test_limits_leave_out_one_sleeping_state_after_another():
    corpus = read_corpus()
    (mt8196,) = [v for v in corpus.variant if v.name == "mt8196"]
    assert _limits(PIXEL6) == ["1us"]
    assert _limits(Variant("i5", "i5-10600k")) == ["1us", "120us"]
    assert _limits(Variant("i5", "i5-10600k", latency_limit="150us")) == ["1us"]
    assert _limits(Variant("rk", "rk3399", disabled_states=("2",))) == ["1us"]
    # `s2idle` is no state that is entered.
    assert _limits(mt8196) == ["1us", "349us"]


def test_the_shipped_corpus_has_both_halves():
    corpus = read_corpus()
    for half in ("open", "held-out"):
        found, _ = corpus.scenarios(half=half)
        assert {s.kind for s in found} >= {"simulation"}
        assert {s.machine.name for s in found if s.group not in (RELATIVE, RESTRICTED)} == set(
            corpus.machines
        )
    assert len({r.sha256 for r in corpus.recording}) == len(corpus.recording)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 2", "versoin = 2", "`versoin` is unknown: expected one of title, version"),
        ("seeds = 8", "", "`seeds` is missing"),
        (
            'origin = "machine"',
            'origin = "mars"',
            'is "mars": expected "guest" or "machine" or "simulated"',
        ),
        ('half = "open"', 'half = "secret"', 'expected "held-out" or "open"'),
        ('name = "periodic"', 'name = "pipe"', "the name `pipe` is used twice"),
        ('load = "server"', "load = 1", "`recording[0].load` is 1: expected a text"),
        ('latency_limit = "150us"', 'latency_limit = "1ms"', "expected whole us, as 150us"),
    ],
)
def test_wrong_manifest_names_place_and_fault(tmp_path, old, new, words):
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
    machines = (*corpus.machines, *corpus.relative_machines, *corpus.restricted_machines)
    assert [s.machine.name for s in found] == list(machines) and not missing
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


def test_a_point_that_the_store_lost_is_a_failure(tmp_path, monkeypatch):
    whole = Swept.rows

    def without_menu(self):
        return {name: row for name, row in whole(self).items() if row["governor"] != "menu"}

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(Swept, "rows", without_menu)
    found = contest([], tmp_path / "store", only=["web-server,pixel6"], has_rules=False)
    assert [cell.governor for cell in found.cells if "lost its point" in (cell.error or "")] == [
        "menu"
    ]
    assert [s.governor for s in found.standings if s.score_pct is None] == ["menu"]


def test_no_entry_is_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    shutil.copy(ROOT / "governors/cpuidle/ladder.c", tmp_path / "mine.c")
    entries = [f"{tmp_path}/*.c", "menu-3.?", "teo,util_shift=4|6"]
    found = contest(entries, tmp_path / "store", only=["web-server,pixel6"], has_rules=False)
    mine = f"{tmp_path}/mine.c"
    assert found.entries == (mine, "menu-3.7", "menu-3.8", "teo,util_shift=4|6")
    scored = {one.governor: one.score_pct for one in found.standings}
    assert set(found.entries) <= set(scored) and scored[mine] == scored["ladder"]
    assert "teo,util_shift=4" not in scored
    assert found.absent == ("haltpoll",)


def test_an_entry_that_fails_is_named_once(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (tmp_path / "torn.c").write_text("#include <linux/no_such_header.h>\n", encoding="utf-8")
    torn = f"{tmp_path}/torn.c"
    only = ["web-server,pixel6", "web-server,rk3399"]
    small = replace(read_corpus(), baselines=())
    found = contest([torn], tmp_path / "store", corpus=small, only=only, has_rules=False)
    (note,) = [note for note in contest_post(found).notes if note.startswith(torn)]
    assert "in web-server, pixel6 and 1 more scenario: " in note and "no_such_header.h" in note
    (torns,) = [one for one in found.standings if one.governor == torn]
    assert (torns.score_pct, torns.failed, found.has_finding) == (None, 2, True)


def test_a_pattern_without_a_scenario_is_an_error():
    with pytest.raises(SweepError, match="no scenario of the corpus matches `reqests`"):
        read_corpus().scenarios(only=["reqests"])


def test_contest_repeats_without_running(tmp_path, torpor):
    args = ("contest", "tide", "--only", "periodic,pixel6", "--duration", "200ms", "--seeds", "1")
    args = (*args, "--no-rules", "--format", "json", "-o", tmp_path / "store")
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
    plot, page = tmp_path / "front.svg", tmp_path / "contest.html"
    args = ("contest", "--only", "web-server,pixel6", "--format", "json", "-o", tmp_path / "store")
    args = (*args, "--baseline", "teo-6.12", "--report", page)
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
    # The page's verdict is of the least score, and its picture leaves nobody out.
    shown = page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    best = min((s for s in result["standings"] if s["score_pct"]), key=lambda s: s["score_pct"])
    assert f"<h1>{best['governor']} takes {-best['score_pct']:.1f} % less energy" in shown
    picture = shown[: shown.index("</svg>")]
    known = [s for s in result["standings"] if s["energy_pct"] is not None]
    assert known and all(f"{s['governor']}: delay" in picture for s in known)


def test_states_forbidden_by_pm_qos_do_not_matter(recording):
    """A state beyond the limit is as one that is disabled."""
    import torpor

    def metrics(**options):
        replay = torpor.replay(recording, platform="i5-10600k", governors=["tide"], **options)
        # Enabled states count for too shallow, beyond the limit or not.
        return {k: v for k, v in replay.runs[0]["metrics"].items() if k != "below_pct"}

    limited = metrics(latency_limit="150us")
    assert limited == metrics(disabled_states=["3"]) != metrics()


def test_moments_add_up_to_the_replay(tmp_path, monkeypatch):
    import torpor
    from torpor_lab.contest.explain import _spans, explain_post

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
