# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Kernels with a configuration and a command line of the user's."""

from collections import Counter

import pytest
from sources import kernel_sources

import torpor

#: One configuration for all tests, which is compiled once.
SETTINGS = "CONFIG_PREEMPT_VOLUNTARY=y,CONFIG_PREEMPT_DYNAMIC=y,CONFIG_NO_HZ_FULL=y"
ISOLATED = "isolcpus=nohz,domain,managed_irq,2-3 nohz_full=2-3 rcu_nocbs=2-3"
WORKLOAD = """
name = "isolated"
title = "One CPU computes, one sleeps"
source = "a test"
[[task]]
name = "spinner"
cpus = "2"
phase = [{ run_us = 50000 }]
[[task]]
name = "sleeper"
cpus = "3"
phase = [{ run_us = 20 }, { sleep_us = 700 }]
"""


@pytest.fixture(scope="module")
def kernel() -> str:
    return f"{kernel_sources('6.12')},{SETTINGS}"


@pytest.fixture
def run(kernel, tmp_path):
    (tmp_path / "isolated.toml").write_text(WORKLOAD)

    def run(**options):
        return torpor.simulate(
            tmp_path / "isolated.toml",
            platform="pixel6",
            governors="menu",
            duration="1s",
            seeds=1,
            **{"kernels": kernel, **options},
        )

    return run


def ticks(trace) -> Counter:
    """The ticks of each CPU in a recording."""
    lines = [line for line in trace.read_text().splitlines() if "tick_nohz_handler" in line]
    lines = [line for line in lines if "hrtimer_expire_entry" in line]
    return Counter(int(line.split("[")[1].split("]")[0]) for line in lines)


def test_isolated_busy_cpu_has_no_ticks(run, tmp_path):
    with_tick, without = tmp_path / "a.txt", tmp_path / "b.txt"
    run(trace=with_tick)
    run(trace=without, kernel_args=ISOLATED)
    assert ticks(with_tick)[2] > 200
    assert ticks(without)[2] < 10


@pytest.mark.parametrize("mode", ["none", "voluntary", "full"])
def test_preemption_model_is_chosen_at_start(run, mode):
    result = run(kernel_args=f"preempt={mode}")
    assert not result.failures
    assert result.to_dict()["options"]["kernel_args"] == f"preempt={mode}"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("nohz_ful=2", ["`nohz_ful`", "did you mean `nohz_full`"]),
        ("preempt=perhaps", ["`perhaps` is not a value for preempt"]),
        ("isolcpus=x2", ["is not a value for isolcpus"]),
        ("menu.x=1", ["it has no parameter menu.x", "none"]),
    ],
)
def test_wrong_argument_is_explained(run, arguments, parts):
    failures = str(run(kernel_args=arguments).failures)
    for part in parts:
        assert part in failures


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kernel_args": "cpuidle.governor=teo"}, "idle governor"),
        ({"kernel_args": "maxcpus=2"}, "online CPUs"),
        ({"kernels": "6.12,CONFIG_PREMPT=y"}, "did you mean CONFIG_PREEMPT?"),
        ({"kernels": "6.12,CONFIG_PREEMPT_RT=y"}, "rtmutex"),
        ({"kernels": "6.12,CONFIG_PREEMPT_LAZY=y"}, "6.13"),
        ({"kernels": "6.12,config=/nowhere"}, "/nowhere"),
        ({"kernels": "6.12,CONFIG_HZ=1000", "hz": 250}, "CONFIG_HZ=1000"),
        ({"kernels": "6.12,CONFIG_HZ=60"}, "expected 100, 250, 300 or 1000"),
    ],
)
def test_wrong_setting_is_explained(run, options, part):
    with pytest.raises(torpor.TorporError) as caught:
        run(**options)
    assert part in str(caught.value)


def test_result_has_its_kernels_configuration(run, kernel):
    (info,) = run().to_dict()["options"]["kernels"]
    assert info["kernel"] == kernel
    assert info["config"].get("CONFIG_NO_HZ_FULL", "y") == "y"
    assert info["options_without_effect"] == 0
