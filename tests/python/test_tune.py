# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor tune` finds the settings that it should, the same ones each time."""

from pathlib import Path

import pytest

import torpor
from torpor.ask import tuning

pytest.importorskip("optuna")

#: Sleeps in the state of this index, up to the deepest: power and latency follow.
FIXED = """// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cpuidle.h>
#include <linux/module.h>

static int depth = 0;
module_param(depth, int, 0644);
static int nothing = 0;
module_param(nothing, int, 0644);

static int fixed_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return depth < drv->state_count ? depth : drv->state_count - 1;
}

static struct cpuidle_governor fixed_governor = {
	.name = "fixed", .rating = 1, .select = fixed_select,
};

static int __init fixed_init(void)
{
	return cpuidle_register_governor(&fixed_governor);
}
postcore_initcall(fixed_init);
MODULE_LICENSE("GPL");
"""


@pytest.fixture
def fixed(tmp_path):
    file = tmp_path / "fixed.c"
    file.write_text(FIXED)
    return file


@pytest.fixture
def train(recording):
    return torpor.Axes(trace=[str(recording)], platform=["i5-10600k"])


def test_ranges_and_values_are_read():
    assert tuning.read_param("a=log:8..4096") == tuning.Param("a", 8, 4096, is_log=True)
    assert not tuning.read_param("a=0.5..2").is_whole
    for text, message in (
        ("a", "expected NAME="),
        ("a=", "expected NAME="),
        ("=1..2", "expected NAME="),
        ("a=5", "expected a range"),
        ("a=x|", "expected a range"),
        ("a=5..5", "expected A < B"),
        ("a=log:0..5", "expected 0 < A < B"),
    ):
        with pytest.raises(torpor.SweepError, match=message):
            tuning.read_param(text)


def test_front_has_unbeaten_settings(fixed, train, tmp_path):
    params = [tuning.read_param("depth=0..3"), tuning.read_param("nothing=0..100")]
    found = tuning.tune(str(fixed), params, train, tmp_path / "s", trials=12, references=("menu",))
    tried = {trial.setting.split(",")[1] for trial in found.trials}
    assert tried == {"depth=0", "depth=1", "depth=2", "depth=3"}
    # Deeper is later and, but for overhead, cheaper; a parameter without effect makes no more.
    depths = [trial.setting.split(",")[1] for trial in found.front]
    assert len(depths) == len(set(depths))
    powers = [trial.train[0] for trial in found.front]
    delays = [trial.train[1] for trial in found.front]
    assert powers == sorted(powers) and delays == sorted(delays, reverse=True)
    assert found.references[0].train == (0.0, 0.0)
    assert found.references[1].setting == "menu"


def test_same_call_repeats_without_running(fixed, train, tmp_path):
    params = [tuning.read_param("depth=0..3"), tuning.read_param("nothing=0..5")]

    def run(trials):
        return tuning.tune(str(fixed), params, train, tmp_path / "s", trials=trials)

    first = run(4)
    points = len(torpor.open_store(tmp_path / "s").rows())
    assert run(4) == first
    assert len(torpor.open_store(tmp_path / "s").rows()) == points
    names = [trial.setting for trial in run(8).trials]
    assert names[: len(first.trials)] == [trial.setting for trial in first.trials]


def test_a_calibration_finds_the_number_that_was_measured(recording, train, tmp_path):
    edited = "i5-10600k,package_floor_power_mw=900"
    measured = torpor.replay(recording, platform=edited, governors=["menu"])
    target = measured.runs[0]["metrics"]["idle_power_mw"]
    found = torpor.tune(
        "menu",
        ["platform.package_floor_power_mw=600|900|1400|2000"],
        train,
        tmp_path / "s",
        objectives=[f"idle_power_mw={target}@platform=i5-10600k"],
        trials=16,
    )
    assert [(trial.setting, trial.train) for trial in found.front] == [
        ("menu,platform.package_floor_power_mw=900", (0.0,))
    ]
    with pytest.raises(torpor.SweepError, match="no point matches the objective"):
        torpor.tune(
            "menu", ["platform.hz=100|250"], train, tmp_path / "s", trials=2,
            objectives=["idle_power_mw@platform=pixel6"],
        )  # fmt: skip


def test_objectives_are_read():
    found = tuning.read_objective("above_pct=2.5@platform=p*,hz=250")
    assert (found.target, found.where) == (2.5, (("platform", "p*"), ("hz", "250")))
    assert found.heading.endswith("off pp")
    for text, message in (
        ("x y", "expected METRIC, METRIC=TARGET"),
        ("throughput=0", "a target other than 0"),
        ("throughput@plat=x", "AXIS one of kind, source"),
        ("wakeups", "neither better nor worse"),
    ):
        with pytest.raises(torpor.SweepError, match=message):
            tuning.read_objective(text)
    assert tuning.read_objective("wakeups=5").target == 5


def test_gain_lost_on_held_out_data_is_noted():
    trial = tuning.Trial("g,x=1", (-5.0, 1.0), (2.0, 1.0))
    base = tuning.Trial("g", (0.0, 0.0), (0.0, 0.0))
    keys = ("idle_power_mw", "latency_mean_us")
    post = tuning.tuned_post(
        tuning.Tuned("g", tuple(map(tuning.read_objective, keys)), [trial], [trial], [base])
    )
    assert post.notes == [
        "g,x=1: the gain in total idle power does not hold: "
        "\N{MINUS SIGN}5.00 in training, +2.00 held out"
    ]
    assert post.tables[0].headings.count("held out") == 2


def tuned(*trials):
    """Return a search whose defaults have 0 in all."""
    objectives = map(tuning.read_objective, ("idle_power_mw", "latency_mean_us"))
    base = tuning.Trial("g", (0.0, 0.0), (0.0, 0.0))
    return tuning.Tuned("g", tuple(objectives), list(trials), list(trials), [base])


def test_a_verdict_rests_on_held_out_scenarios():
    fitted = tuning.Trial("g,x=1", (-5.0, 0.0), (2.0, 1.0))
    lasting = tuning.Trial("g,x=2", (-3.0, -1.0), (-2.0, -1.0))
    trade = tuning.Trial("g,x=3", (-9.0, 4.0), (-9.0, 4.0))
    (first, *rest) = tuning.tuned_sentences(tuned(fitted, lasting, trade))
    assert first.startswith("g,x=2 beats g, also on held-out scenarios: total idle power −3.00 %")
    assert rest[0].startswith("Best in total idle power: g,x=3 (")
    assert "but not on held-out" in tuning.tuned_sentences(tuned(fitted, trade))[0]
    none = tuning.tuned_sentences(tuned(trade))
    assert none[0] == "None of 1 setting beats g in total idle power and mean wake-up latency."


def test_search_plot_includes_held_out_scenarios():
    found = tuned(tuning.Trial("g,x=1", (-5.0, 1.0), (2.0, 1.0)))
    hints = [point.hint for point in tuning.tuned_post(found).picture.points]
    assert "g,x=1: total idle power % −5, mean wake-up latency % +1" in hints
    assert "g,x=1 held out: total idle power % +2, mean wake-up latency % +1" in hints


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"objectives": ["idle_powr_mw"]}, "idle_power_mw"),
        ({"objectives": ["wakeups"]}, "neither better nor worse"),
    ],
)
def test_objectives_are_checked_first(train, tmp_path, given, message):
    params = [tuning.read_param("util_shift=1..8")]
    with pytest.raises(torpor.SweepError, match=message):
        tuning.tune("teo", params, train, tmp_path / "s", **given)
    assert not (tmp_path / "s").exists()


def test_a_parameter_that_the_governor_lacks_is_named(train, tmp_path):
    with pytest.raises(torpor.GovernorError, match="no_such"):
        tuning.tune("teo", [tuning.read_param("no_such=1..8")], train, tmp_path / "s", trials=2)


def test_command_shows_the_front_and_held_out_scenarios(torpor, fixed, recording, tmp_path):
    done = torpor(
        *(
            "governor",
            "tune",
            Path(fixed).name,
            "--param",
            "depth=0..3",
            "-t",
            recording,
            "-p",
            "i5-10600k",
        ),
        *("--holdout-workload", "periodic", "--duration", "500ms", "--seeds", "1"),
        *("--trials", "8", "-o", tmp_path / "s", "--format", "markdown"),
        cwd=fixed.parent,
        check=0,
    )
    assert "| setting | total idle power % | held out |" in done.stdout
    assert "| fixed.c | +0.00 | +0.00 |" in done.stdout
    assert (
        torpor(
            "governor", "tune", "teo", "--param", "x", "-t", recording, "-p", "pixel6"
        ).returncode
        == 2
    )
