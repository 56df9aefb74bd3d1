# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Knowledge that a recording does not give: timers, causes, the recorded machine, chance."""

import json
import shutil
from pathlib import Path

import pytest

import torpor as library
from torpor.results.comparison import class_shares
from torpor.results.kinds import posted
from torpor.view.paint import terminal

GUEST = Path(__file__).parents[1] / "data" / "guest" / "arm64-6.12-menu-rates" / "trace.dat.gz"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def phone(tmp_path_factory):
    """A recording as phones make it: cpu_idle, switches and wakings, no timers, no interrupts.

    Two CPUs sleep by turns. On CPU 0, an interrupt wakes a task; on CPU 1, CPU 0 does.
    """
    lines = ["# tracer: nop"]

    def add(time_us: float, cpu: int, task: str, event: str) -> None:
        stamp = f"{100 + time_us / 1e6:.6f}"
        lines.append(f"  {task}  [{cpu:03}] d..2  {stamp}: {event}")

    def switch(time_us: float, cpu: int, before: str, after: str) -> None:
        (name, pid), (next_name, next_pid) = before.rsplit("-", 1), after.rsplit("-", 1)
        add(
            *(time_us, cpu, before if pid != "0" else "<idle>-0"),
            f"sched_switch: prev_comm={name} prev_pid={pid} prev_prio=120 prev_state=S ==> "
            f"next_comm={next_name} next_pid={next_pid} next_prio=120",
        )

    def waking(time_us: float, cpu: int, by: str, pid: int, target: int) -> None:
        event = f"sched_waking: comm=t{pid} pid={pid} prio=120 target_cpu={target:03}"
        add(time_us, cpu, by, event)

    for number in range(100):
        at = 4_000 * number
        for cpu in (0, 1):
            add(at + 10 + cpu, cpu, "<idle>-0", f"cpu_idle: state=1 cpu_id={cpu}")
        add(at + 3_000, 0, "<idle>-0", "cpu_idle: state=4294967295 cpu_id=0")
        waking(at + 3_001, 0, "<idle>-0", 40, 0)
        switch(at + 3_003, 0, "swapper/0-0", "t40-40")
        waking(at + 3_010, 0, "t40-40", 41, 1)
        add(at + 3_060, 1, "<idle>-0", "cpu_idle: state=4294967295 cpu_id=1")
        switch(at + 3_063, 1, "swapper/1-0", "t41-41")
        switch(at + 3_100, 0, "t40-40", "swapper/0-0")
        switch(at + 3_150, 1, "t41-41", "swapper/1-0")
    file = tmp_path_factory.mktemp("phone") / "phone.txt"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def test_a_guessed_timer_is_not_called_known(phone, torpor, tmp_path):
    page = tmp_path / "page.html"
    replay = ("replay", phone, "-p", "pixel6", "-g", "menu", "--report", page)
    made = torpor(*replay, "-v", check=0).stdout
    result = library.replay(phone, platform="pixel6", governors=["menu"]).to_dict()
    (trace,) = result["traces"]
    shares = class_shares(trace["inputs"]["sleep_length_sources"])
    assert shares["guessed"] > 0.4 and shares["recorded"] == 0
    explained = " ".join(library.explain(result))
    for said in (words(made), words(page.read_text("utf-8")), words(explained)):
        assert "guessed from what woke the CPU" in said
        assert "known for" not in said and "known from" not in said


def test_verification_classes_its_sources(torpor):
    found = json.loads(
        torpor("fidelity", GUEST, "-p", "pixel6", "--format", "json", check=0).stdout
    )
    rows = {row["source"]: row["sleep_class"] for row in found["governors"][0]["by_source"]}
    assert set(rows.values()) <= {"recorded", "guessed", "none"}
    assert rows.get("timers", "recorded") == "recorded"


def test_no_cause_without_its_event(phone):
    stats = library.trace_stats(phone)
    kinds = {row["kind"]: row["count"] for row in stats["wakeups"]}
    assert "poll" not in kinds and kinds["waking"] == 100


def test_the_recorded_machine_is_the_default(tmp_path):
    alone = tmp_path / "trace.dat.gz"
    shutil.copy(GUEST, alone)
    given = {"platform": "pixel6", "governors": ["menu-6.12"]}
    results = {
        "found": library.replay(GUEST, **given),
        "named": library.replay(alone, recorded_on="pixel6", **given),
        "unknown": library.replay(alone, **given),
        "loaded": library.load_trace(GUEST).replay(**given),
    }
    above = {name: made.runs[0]["metrics"]["above_pct"] for name, made in results.items()}
    assert above == {
        "found": pytest.approx(0.19, abs=0.01),
        "named": pytest.approx(0.19, abs=0.01),
        "loaded": pytest.approx(0.19, abs=0.01),
        "unknown": pytest.approx(2.08, abs=0.01),
    }
    machine = {
        name: m.to_dict()["traces"][0]["inputs"]["recorded_on"] for name, m in results.items()
    }
    assert machine == {
        "found": "sysfs-before",
        "named": "pixel6",
        "loaded": "sysfs-before",
        "unknown": None,
    }
    is_noted = "the recorded machine is not known"
    assert is_noted in " ".join(results["unknown"].to_dict()["notes"])
    assert is_noted not in " ".join(results["found"].to_dict()["notes"])


def test_one_recording_has_no_measure_of_chance(recording):
    made = library.replay(recording, platform="i5-10600k", governors=["menu", "teo"])
    compared = made.to_dict()["traces"][0]["comparison"]
    assert compared["sampling"] == "single"
    cells = [cell for row in compared["rows"] for cell in row["cells"]]
    changes = [cell["change"] for cell in cells if cell["change"]]
    assert not any(cell["is_best"] for cell in cells)
    assert {(c["is_better"], c["is_significant"], c["p"]) for c in changes} == {(None, None, None)}
    shown = terminal(posted(made.to_dict()), 120, escape="\x1b[")
    assert "\x1b[32m" not in shown and "\x1b[31m" not in shown
    same = library.replay(recording, platform="i5-10600k", governors=["menu", "menu-6.12"])
    for result in (made, same):
        *said, limits = library.explain(result)
        assert "than chance" not in " ".join(said) and "beyond chance" not in " ".join(said)
        assert "chance, of which one recording has no measure" in limits
