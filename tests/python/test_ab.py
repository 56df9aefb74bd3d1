# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor ab`: on a machine made of files, whose counters a script moves."""

import json
import os
import re
import signal
import threading
import time

import pytest

import torpor
from fake_kernel import changes
from test_posting import assert_is_mail
from torpor.machine.kernel import ab, journal
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.rapl import Meter
from torpor.machine.record import idleness
from torpor.results.kinds.ab import compare, values
from valid import problems

RANGE_UJ = 1_000_000

#: Command of the load: counts by the governor, and prints a figure that drifts from run to run.
LOAD = """
cd {root}/sys
governor=$(cat devices/system/cpu/cpuidle/current_governor)
case $governor in
menu) above=10 joules=2;;
*) above=4 joules=1;;
esac
add() {{ echo $(($(cat $1) + $2)) >$1; }}
state=devices/system/cpu/cpu0/cpuidle/state2
add $state/usage 100
add $state/above $above
add $state/below 1
add $state/time 2000
energy=class/powercap/intel-rapl:0/energy_uj
echo $((($(cat $energy) + joules * 100000) % {range})) >$energy
add {root}/runs 1
echo "run of x86: $(($(cat {root}/runs) * 10 + above)).5 ms, 3 errors"
"""


@pytest.fixture
def load(kernel):
    """The command."""
    for cpu_state in kernel.machine.cpu_dir.glob("cpu0/cpuidle/state*"):
        for name in ("time", "above", "below", "rejected"):
            (cpu_state / name).write_text("0\n")
    zone = "sys/class/powercap/intel-rapl:0"
    kernel.put(f"{zone}/name", "package-0\n")
    kernel.put(f"{zone}/max_energy_range_uj", f"{RANGE_UJ}\n")
    kernel.put(f"{zone}/energy_uj", "900000\n")
    kernel.put("sys/class/powercap/intel-rapl:0:0/name", "core\n")
    kernel.put("runs", "0\n")
    script = kernel.put("load.sh", LOAD.format(root=kernel.machine.root, range=RANGE_UJ))
    return ["sh", str(script)]


METRIC = r"([0-9.]+) ms"


def test_a_comparison_restores_the_machine(kernel, load, run_on_kernel):
    page = kernel.machine.root / "ab.html"
    words = ("ab", "-g", "menu", "-g", "t-teo", "--rounds", 4, "--metric", METRIC)
    text = run_on_kernel(*words, "--report", page, "--", *load)
    drawn = page.read_text()
    assert "Wrong depth, by the state entered" in drawn
    # Of all sleeps, too deep.
    assert re.search(r"<th[^>]*>all</th><td[^>]*>10\.0", drawn)
    assert "torpor ab -g menu -g t-teo --rounds 4 --metric " in drawn
    printed = run_on_kernel(
        "ab", "-g", "menu", "-g", "teo,util_shift=5", "--format", "json", "--", *load
    )
    # Between the lines that tell of each run, and of what is undone.
    found = json.loads(printed[printed.index("{\n") : printed.rindex("\n}") + 2])
    assert problems(found) == []
    assert (kernel.governor, kernel.governors, kernel.modules()) == ("menu", ["menu", "teo"], [])

    table = {line.split("  ")[0]: line for line in text.splitlines() if "  " in line}
    # 10 and 4 of 100 sleeps, in every round alike; 0.2 J and 0.1 J.
    assert re.search(r"10\.00\s+4\.00\s+−6\.00 ±0\.00 pp", table["too deep %"])
    assert re.search(r"1\.00\s+1\.00$", table["too shallow %"])
    assert re.search(r"0\.200\s+0\.100\s+−50\.00 ±0\.00 %", table["package energy J"])
    said = " ".join(text.split())
    assert "shows no difference from menu in figure beyond chance, but " in said
    assert "lowers too deep sleeps by 6.00 ±0.00 pp" in said
    assert said.count("too shallow") == 1
    full = run_on_kernel(*words, "-v", "--", *load)
    assert "menu is the kernel's own, t-teo is t-teo" in full

    assert len(found["runs"]) == 20 and found["finished_rounds"] == 10
    assert found["governors"][1]["parameters"] == ["util_shift=5"]
    assert_is_mail(torpor.post(found))
    differs = {
        row["key"]
        for row in found["comparison"]["rows"]
        if (row["cells"][1]["change"] or {}).get("is_significant")
    }
    # Power may differ as well: it depends on the wall time of this machine.
    assert {"above_pct", "package_j"} <= differs <= {"above_pct", "package_j", "package_w"}
    sentences = torpor.explain(found)
    # Power stands for energy where both differ.
    lowered = "power by " if "package_w" in differs else "energy by 50"
    assert re.match("teo,util_shift=5 shows no difference from menu in figure ", sentences[0])
    assert f"lowers package {lowered}" in sentences[0]
    assert sentences[1].startswith(f"teo,util_shift=5 against menu: {len(differs)} of 9 ")
    assert len(sentences) == 4
    keys = {row["key"] for row in found["comparison"]["rows"]}
    assert keys >= {"figure", "wall_s", "package_w", "above_pct"}
    assert [run["figure"] for run in found["runs"]] == [3] * 20


def test_every_second_round_runs_backwards(kernel, load):
    plan = ab.Plan(["menu", "teo"], load, rounds=4, metric=re.compile(METRIC), warm_up=0)
    made = ab.compare(plan, kernel, Builder(kernel))
    assert [run["governor"] for run in made.runs] == ["menu", "teo", "teo", "menu"] * 2
    # Each run is 10 slower than the one before; teo's 6 less are all that is left.
    figure = compare(made.runs, ["menu", "teo"])["rows"][0]
    assert figure["cells"][1]["change"]["difference"] == -6


def test_seed_fixes_the_order_of_rounds(kernel, load):
    def order(seed):
        plan = ab.Plan(["menu", "teo", "t-teo"], load, rounds=6, seed=seed, warm_up=0)
        return [run["governor"] for run in ab.compare(plan, kernel, Builder(kernel)).runs]

    first = order(1)
    assert first == order(1) != order(2)
    assert len({tuple(first[i : i + 3]) for i in range(0, 18, 3)}) > 1
    assert all(len(set(first[i : i + 3])) == 3 for i in range(0, 18, 3))


def test_dry_run_prints_the_steps(kernel, load, run_on_kernel):
    kernel.is_superuser = False
    run_on_kernel("ab", "-n", "-g", "menu", "-g", "t-teo", "--rounds", 2, "--", *load)
    rounds = [line for line in kernel.messages if line.startswith("# round")]
    assert [line.rpartition(" under ")[2] for line in rounds] == ["menu, t-teo", "t-teo, menu"]
    assert changes(kernel.messages)[:2] == ["insmod torpor_core.ko", "insmod torpor_t_teo.ko"]
    assert kernel.modules() == [] and (kernel.machine.root / "runs").read_text() == "0\n"


def test_a_signal_keeps_the_rounds_that_are_finished(kernel, load, tmp_path):
    slow = [
        "sh",
        "-c",
        f"{' '.join(load)}; test $(cat {kernel.machine.root}/runs) -lt 5 || sleep 60",
    ]
    raw = tmp_path / "raw.jsonl"
    plan = ab.Plan(["menu", "t-teo"], slow, warm_up=0, output=raw)
    runs_file = kernel.machine.root / "runs"

    def interrupt_the_fifth():
        while runs_file.read_text().strip() != "5":
            done.wait(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    done = threading.Event()
    thread = threading.Thread(target=interrupt_the_fifth)
    thread.start()
    made = ab.compare(plan, kernel, Builder(kernel))
    thread.join()
    assert made.stopped_by == signal.SIGTERM
    assert [run["round"] for run in made.runs] == [1, 1, 2, 2]
    lines = [json.loads(line) for line in raw.read_text().splitlines()]
    assert lines[0]["kernel"] == "6.12.1-fake" and lines[1:] == made.runs
    assert kernel.governor == "menu" and kernel.modules() == []


def killed_in_the_middle(kernel, load):
    """Leave what `ab` leaves when it is killed while its second governor is measured."""
    killer = f"{' '.join(load)}; test $(cat {kernel.machine.root}/runs) -lt 2 || kill -9 $PPID"
    pid = os.fork()
    if not pid:
        try:
            ab.compare(
                ab.Plan(["menu", "t-teo"], ["sh", "-c", killer], warm_up=0), kernel, Builder(kernel)
            )
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    # The kernel's state outlives any process.
    kernel.offers["torpor_t_teo"] = "t-teo"


def test_a_killed_comparison_blocks_changes_until_restore(kernel, load, run_on_kernel):
    killed_in_the_middle(kernel, load)
    assert kernel.governor == "t-teo" and kernel.modules() == ["torpor_core", "torpor_t_teo"]
    command = ["ab", "-g", "menu", "-g", "ladder", "--", *load]
    for refused in (command, ["kernel", "use", "teo", "--", "true"]):
        error = run_on_kernel(*refused, status=2)
        assert re.search(
            r"`torpor ab` \(process \d+\) ended without restoring the previous state", error
        )
        assert "`menu` before; loaded since: torpor_core, torpor_t_teo" in error
        assert "torpor kernel restore" in error
    kernel.messages.clear()
    run_on_kernel("kernel", "restore", "-n")
    kernel.pretend_nothing()
    assert kernel.governor == "t-teo"
    run_on_kernel("kernel", "restore")
    undone = ["echo menu > current_governor", "rmmod torpor_t_teo", "rmmod torpor_core"]
    assert changes(kernel.messages) == undone * 2
    assert (kernel.governor, kernel.governors, kernel.modules()) == ("menu", ["menu", "teo"], [])
    assert "nothing to restore" in run_on_kernel("kernel", "restore")


def test_next_comparison_offers_to_restore(kernel, load, run_on_kernel, monkeypatch):
    killed_in_the_middle(kernel, load)
    monkeypatch.setattr("torpor.cli.ab._can_ask", lambda: True)
    command = ["ab", "-g", "menu", "-g", "teo", "--rounds", "2", "--", *load]
    assert "kernel restore" in run_on_kernel(*command, answers="n\n", status=2)
    assert kernel.governor == "t-teo"
    assert "was killed: governor `menu` before" in run_on_kernel(*command, answers="y\n")
    assert (kernel.governor, kernel.modules()) == ("menu", [])


def test_failed_restore_can_be_repeated(kernel, load, run_on_kernel):
    killed_in_the_middle(kernel, load)
    kernel.stuck = {"torpor_t_teo"}
    error = run_on_kernel("kernel", "restore", status=2)
    assert "not restored: torpor_t_teo, torpor_core" in error
    assert kernel.governor == "menu"
    kernel.stuck = set()
    kernel.unrestored.clear()
    run_on_kernel("kernel", "restore")
    assert kernel.modules() == []


def test_a_journal_that_cannot_be_read_is_named(kernel, load, run_on_kernel):
    file = kernel.put("run/torpor/journal.json", "{")
    error = run_on_kernel("kernel", "restore", status=2)
    assert f"`{file}` cannot be read" in error and "remove it" in error


def test_a_comparison_keeps_what_unload_restores(kernel, load):
    plan = ab.Plan(["teo", "menu"], load, rounds=1)
    ab.compare(plan, kernel, Builder(kernel))
    assert not list((kernel.machine.root / "run/torpor").glob("[gj]*"))
    assert kernel.governor == "menu"


def test_of_two_comparisons_the_second_is_refused(kernel, load):
    with journal.locked(kernel, "torpor ab"), pytest.raises(KernelError, match="being changed by"):
        ab.compare(ab.Plan(["teo", "menu"], load, rounds=1), kernel, Builder(kernel))


@pytest.mark.parametrize(
    "governors, script, reason",
    [
        (["menu", "t-teo"], "echo broken; exit 4", "status 4 under menu:\nbroken"),
        (["menu", "t-teo"], "echo fine", r"the metric .* finds nothing, in:\nfine"),
        (["menu", "t-teo"], "echo . ms", "`.`, which is not a number"),
        (["t-teo", "t-teo"], "true", "the same governor twice"),
        (["t-teo", "teo"], "echo teo >$governor; echo 1 ms", "`teo` is current, but `t-teo` was"),
        (["menu"], "true", "at least two"),
    ],
)
def test_an_impossible_comparison_restores_the_machine(kernel, load, governors, script, reason):
    file = kernel.machine.cpu_dir / "cpuidle/current_governor"
    plan = ab.Plan(governors, ["sh", "-c", f"governor={file}; {script}"], metric=re.compile(METRIC))
    with pytest.raises(KernelError, match=reason):
        ab.compare(plan, kernel, Builder(kernel))
    assert kernel.governor == "menu" and kernel.modules() == []


def test_a_machine_without_an_idle_driver_is_refused(kernel, load, run_on_kernel):
    kernel.put("sys/devices/system/cpu/cpuidle/current_driver", "none\n")
    error = run_on_kernel("ab", "-g", "menu", "-g", "teo", "--", *load, status=2)
    assert "no idle driver" in error and "torpor_idle" in error


def test_a_metric_has_one_group(run_on_kernel):
    for pattern in ("[0-9]+", "([0-9]+) (ms)", "("):
        text = run_on_kernel(
            "ab", "-g", "a", "-g", "b", "--metric", pattern, "--", "true", status=2
        )
        assert "expected one" in text or "no regular expression" in text


def test_energy_survives_a_counter_wrap(kernel, load):
    meter = Meter(kernel.machine)
    file = kernel.machine.path("sys/class/powercap/intel-rapl:0/energy_uj")
    for now_uj in (950_000, 20_000, 30_000):
        file.write_text(f"{now_uj}\n")
        meter.update()
    assert meter.energy_uj == {"package": 130_000}
    file.unlink()
    meter.update()
    assert meter.energy_uj == {}
    assert Meter(kernel.machine).unreadable == ["intel-rapl:0"]


def test_unknown_value_makes_no_row():
    states = [{"name": "C1", "usage": 4, "time_us": 50, "above": None, "below": 1, "rejected": 0}]
    run = {
        "governor": "a",
        "duration_ns": 10**8,
        "figure": None,
        "energy_uj": {},
        "counters": {"elapsed_ns": 10**5, "groups": [{"cpus": [0], "states": states}]},
    }
    found = values(run)
    assert found["above_pct"] is None and found["below_pct"] == 25 and found["deepest_pct"] == 50
    found = compare([run | {"round": 1}, run | {"governor": "b", "round": 1}], ["a", "b"])
    keys = [row["key"] for row in found["rows"]]
    assert "above_pct" not in keys and "figure" not in keys and "below_pct" in keys


def test_a_machine_that_never_idles_is_named(kernel, load, run_on_kernel):
    kernel.put("proc/stat", "cpu  90 0 9 5 1 0\ncpu0 90 0 9 5 1 0\n")
    began_s = time.monotonic()
    told = run_on_kernel("ab", "-g", "menu", "-g", "teo", "--rounds", 1, "--", *load)
    assert "no CPU was idle" in told and "hint: " in told
    assert time.monotonic() - began_s < 20
    assert idleness.why_never_idle(kernel.machine, 0.1) is not None
    kernel.put("sys/devices/system/cpu/cpuidle/current_driver", "none\n")
    assert idleness.why_never_idle(kernel.machine) == idleness.NO_DRIVER


def test_an_idle_machine_is_not_kept_waiting(kernel, monkeypatch):
    ticks = iter(range(9))
    monkeypatch.setattr(idleness, "_idle_ticks", lambda _machine: [str(next(ticks))])
    began_s = time.monotonic()
    assert idleness.why_never_idle(kernel.machine) is None
    assert time.monotonic() - began_s < 0.9


def test_builtin_governors_need_no_modules(kernel, load):
    kernel.machine.path("/proc/modules").unlink()
    plan = ab.Plan(["menu", "teo"], load, rounds=1, metric=re.compile(METRIC))
    assert len(ab.compare(plan, kernel, Builder(kernel)).runs) == 2
    plan = ab.Plan(["menu", "t-teo"], load, rounds=1, metric=re.compile(METRIC))
    with pytest.raises(KernelError, match="CONFIG_MODULES"):
        ab.compare(plan, kernel, Builder(kernel))
