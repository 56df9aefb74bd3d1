# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor gate`: a candidate passes, fails, or cannot be judged."""

from xml.etree import ElementTree

import pytest

import torpor


def simulated(*powers, governor="teo", metric="idle_power_mw"):
    """A simulation's result with these values by seed, as far as a gate reads it."""
    seeds = [{"seed": n, "metrics": {metric: value}} for n, value in enumerate(powers, 1)]
    run = {"governor": governor, "error": None, "metrics": {}, "seeds": seeds}
    names = {"platform": {"name": "m"}, "workload": {"name": "w"}}
    return {"kind": "simulation", **names, "runs": [run]}


def verdict(base, candidate, strict=False, **limit):
    limit = torpor.Limit(**({"metric": "idle_power_mw"} | limit))
    (found,) = torpor.gate(base, candidate, [limit], is_strict=strict)
    return found


def test_a_change_beyond_limit_and_noise_fails():
    base, worse = simulated(1.0, 2.0, 3.0), simulated(1.1, 2.2, 3.3)
    # 10 % worse on average: 0.2 of 2.0, between 0.0 and 0.4 by Student's t of 3 pairs.
    found = verdict(base, worse, worse_than_pct=5)
    assert found["change"] == pytest.approx(0.2)
    assert found["low"] < 0 < found["high"]
    assert not found["is_broken"], "three seeds cannot tell it from noise"
    assert verdict(base, worse, strict=True, worse_than_pct=5)["is_broken"]
    steady = simulated(1.2, 2.2, 3.2)
    assert verdict(base, steady, worse_than_pct=5)["is_broken"]
    assert not verdict(base, steady, worse_than_pct=11)["is_broken"]
    assert verdict(base, steady, worse_than=0.1)["is_broken"]
    assert not verdict(base, steady, worse_than=0.3)["is_broken"]


def test_better_is_never_broken():
    assert not verdict(simulated(2.0, 3.0), simulated(1.0, 2.0), worse_than=0)["is_broken"]


def test_improvement_is_not_a_violation():
    few, many = (simulated(n, n + 1.0, metric="throughput") for n in (10.0, 20.0))
    assert not verdict(few, many, metric="throughput", worse_than_pct=1)["is_broken"]
    assert verdict(many, few, metric="throughput", worse_than_pct=1)["is_broken"]


def test_bounds_on_the_value_need_no_base():
    candidate = simulated(4.0, 6.0)
    assert verdict(simulated(), candidate, most=4.9)["is_broken"]
    assert not verdict(simulated(), candidate, most=5.0)["is_broken"]
    assert verdict(simulated(), candidate, least=5.1)["is_broken"]


def test_unpaired_seeds_are_left_out():
    found = verdict(simulated(1.0), simulated(1.0, 100.0), worse_than_pct=1)
    assert (found["change"], found["is_broken"]) == (0.0, False)


def test_governors_match_by_name_or_singly():
    both = simulated(1.0)
    both["runs"] += simulated(2.0, governor="menu")["runs"]
    limits = [torpor.Limit("idle_power_mw", worse_than=0)]
    assert [v["governor"] for v in torpor.gate(both, both, limits)] == ["teo", "menu"]
    found = torpor.gate(both, both, limits, base_governor="teo", candidate_governor="menu")
    assert [(v["governor"], v["is_broken"]) for v in found] == [("menu", True)]
    with pytest.raises(torpor.GateError, match="the base: no governor is called `tea`"):
        torpor.gate(both, both, limits, base_governor="tea")


def test_a_limit_that_meets_nothing_is_an_error():
    with pytest.raises(torpor.GateError, match="meets nothing that both sides have"):
        verdict(simulated(1.0), simulated(1.0), scenario="other*", worse_than=0)
    with pytest.raises(torpor.GateError, match="meets nothing"):
        verdict(simulated(1.0), simulated(1.0, metric="throughput"), worse_than=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`limit` is missing"),
        ("[", "read limits"),
        ("[[limit]]\nmetric='idle_power_mw'", "one of `worse_than`, `max` and `min`"),
        ("[[limit]]\nmetric='idle_power_mw'\nmax=1\nmin=1", "one of `worse_than`"),
        ("[[limit]]\nmax=1", r"`limit\[0\].metric` is missing"),
        ("[[limit]]\nmetric='idle_powr_mw'\nmax=1", "idle_power_mw"),
        ("[[limit]]\nmetric='idle_power_mw'\nmax='x'", 'max` is "x": expected a number'),
        ("[[limit]]\nmetric='idle_power_mw'\nmax='2 %'", "expected a number"),
        ("[[limit]]\nmetric='idle_power_mw'\nmax=true", "expected a number"),
        (
            "[[limit]]\nmetric='idle_power_mw'\nmaximum=1",
            "maximum` is unknown: expected one of metric",
        ),
        ("[[limit]]\nmetric='wakeups'\nworse_than=1", "neither better nor worse"),
    ],
)
def test_wrong_limits_file_names_the_place(tmp_path, text, message):
    file = tmp_path / "limits.toml"
    file.write_text(text)
    with pytest.raises(torpor.GateError, match=message):
        torpor.read_limits(file)


@pytest.fixture
def limits(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("[[limit]]\nmetric = 'idle_power_mw'\nworse_than = '2 %'\n")
    return file


@pytest.fixture
def saved(torpor, recording, tmp_path):
    """Return files with the results of two governors."""
    files = {name: tmp_path / f"{name}.json" for name in ("menu", "shallowest")}
    for name, file in files.items():
        done = torpor("replay", recording, "-p", "pixel6", "-g", name, "--format", "json", check=0)
        file.write_text(done.stdout)
    return files


def test_the_command_judges_saved_results_and_stores(torpor, recording, saved, tmp_path, limits):
    ok = torpor("gate", saved["shallowest"], saved["menu"], "-l", limits, check=0)
    assert "0 of 1 limits broken" in " ".join(ok.stdout.split())
    junit = tmp_path / "report.xml"
    args = ["gate", saved["menu"], saved["shallowest"], "-l", limits, "--junit", junit]
    bad = torpor(*args, check=1)
    assert "BROKEN" in bad.stdout
    root = ElementTree.parse(junit).getroot()
    assert (root.get("tests"), root.get("failures")) == ("1", "1")
    assert "limit: at most 2 % worse" in root.find(".//failure").get("message")
    store = tmp_path / "store"
    run = ["sweep", "-o", store, "-t", recording, "-p", "pixel6", "-g", "menu", "-g", "shallowest"]
    torpor(*run, check=0)
    names = ["--base", "menu", "--candidate", "shallowest"]
    torpor("gate", store, store, *names, "-l", limits, check=1)
    torpor("gate", store, store, *names[::-1], "-l", limits, check=2)
    torpor("gate", store, store, "-l", limits, check=0)


def test_github_gets_annotations_and_a_summary(torpor, saved, tmp_path, limits):
    summary = tmp_path / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = torpor("gate", saved["menu"], saved["shallowest"], "-l", limits, env=env, check=1)
    assert "::error title=torpor gate::" in done.stdout
    # A per cent sign is escaped in an annotation.
    assert "at most 2 %25 worse" in done.stdout
    assert "| BROKEN |" in summary.read_text()


def test_dumps_have_their_own_limits(torpor, tmp_path):
    from pathlib import Path

    folder = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
    pair = f"{folder / 'sysfs-before.txt'}:{folder / 'sysfs-after.txt'}"
    file = tmp_path / "limits.toml"
    for most, status in ((100, 0), (0.01, 1)):
        file.write_text(f"[[limit]]\nmetric = 'above_pct'\nmax = {most}\n")
        torpor("gate", pair, pair, "-l", file, check=status)
