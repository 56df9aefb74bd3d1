# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The governors' files as modules of a stock kernel: built, loaded, used under load, unloaded."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OURS = sorted(f"t-{path.stem}" for path in (ROOT / "governors" / "cpuidle").glob("*.c"))
KERNELS_OWN = ["ladder", "menu"]


def counters(guest, name: str) -> dict[str, list[int]]:
    """The usage, above and below of each state, by its name."""
    rows = (line.split() for line in guest.text(name).splitlines())
    return {state: [int(n) for n in numbers] for state, *numbers in rows}


def usage(guest, place: str) -> dict[str, int]:
    """Return the usage of each state while a governor ran."""
    before, after = counters(guest, f"{place}/before"), counters(guest, f"{place}/after")
    return {state: after[state][0] - before[state][0] for state in after}


def test_the_script_ran_to_its_end(guest):
    assert guest.status == 0, guest.console[-2000:]


def test_the_kernel_found_nothing_to_complain_about(guest):
    assert guest.complaints == []


def test_every_governor_is_loaded_and_offered(guest):
    assert "refused" not in guest.files, guest.text("refused")
    assert sorted(guest.text("available").split()) == sorted(OURS + KERNELS_OWN)


def test_loading_a_governor_does_not_make_it_current(guest):
    assert guest.text("current_after_loading").strip() == "menu"


def test_a_governor_that_registers_nothing_is_unloaded(guest):
    assert guest.text("without_kvm").split() == ["torpor_core"]


def test_parameters_can_be_read(guest):
    lines = guest.text("parameters").splitlines()
    assert "torpor_t_teo/parameters/util_mode:off" in lines
    assert "torpor_t_menu_3_8/parameters/perfect_cstate_ms:30" in lines


@pytest.mark.parametrize("governor", OURS + KERNELS_OWN)
def test_a_governor_puts_cpus_to_sleep(guest, governor):
    used = usage(guest, f"governors/{governor}")
    assert sum(used.values()) > 100, used
    if governor in ("t-shallowest", "t-deepest"):
        return
    if governor == "t-haltpoll" and "POLL" not in used:
        return
    # Near and far timers require more than one state.
    assert sum(count > 0 for count in used.values()) > 1, used


def test_the_references_use_one_end_of_the_table(guest):
    deepest = usage(guest, "governors/t-deepest")
    shallowest = usage(guest, "governors/t-shallowest")
    assert max(deepest, key=deepest.get) == list(deepest)[-1]
    first = next(state for state in shallowest if state != "POLL")
    assert max(shallowest, key=shallowest.get) == first


def test_the_exit_latency_is_served_to_the_instruction(guest):
    words = guest.text("governors/t-deepest/workload").split()
    late_us = int(words[words.index("late_p50_ns") + 1]) / 1000
    latency_us = {"C6": 85, "c2": 230}[list(usage(guest, "governors/t-deepest"))[-1]]
    # 50 us are the timer's slack, and the kernel itself takes some.
    assert latency_us + 50 < late_us < latency_us + 85


@pytest.mark.parametrize("governor", OURS)
def test_a_governor_in_use_cannot_be_unloaded(guest, governor):
    assert "unloaded_in_use" not in guest.files
    name, _, users = guest.text(f"governors/{governor}/in_use").split()[:3]
    assert (name, users) == ("torpor_" + governor.replace("-", "_").replace(".", "_"), "2")


def test_the_current_governor_can_be_replaced_when_unused(guest):
    assert guest.text("current_after_unloading").strip() == "menu"


def test_everything_can_be_unloaded(guest):
    assert guest.text("left") == ""


@pytest.mark.parametrize("kernel", ["arm64"], indirect=True)
def test_arm64_driver_polls_and_falls_back_to_wfi(guest):
    assert guest.text("poll_driver").strip() == "torpor_poll_arm64"
    used = usage(guest, "poll")
    assert used["WFE"] > 10, used
    assert used["WFI"] > 100, used
    assert guest.text("poll_latencies").split() == ["0", "200"]
    assert guest.text("dmesg").count("polls up to 200 us, by the event stream") == 1
