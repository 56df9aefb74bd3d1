# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor simulate` and `torpor.simulate`, from outside."""

import json
from pathlib import Path

import pytest

import torpor as library
from torpor.machine.toml import toml

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--duration", "200ms", "--seeds", "3")
DEADLOCK = """
name = "stuck"
title = "t"
source = "s"
[[task]]
name = "a"
phase = [{ run_us = 50 }, { wait = "x" }, { wake = "y" }]
[[task]]
name = "b"
phase = [{ wait = "y" }, { wake = "x" }]
"""


def test_a_simulation_prints_metrics_with_margins_and_tasks(torpor):
    simulate = ("simulate", "frames", "-p", "pixel6", "-g", "menu", "-g", "teo", *QUICK)
    done = torpor(*simulate, "-v", check=0)
    assert "frames: simulation on pixel6, 3 seeds of 0.20 s" in done.stdout
    assert "8 CPUs" in done.stdout
    assert "±" in done.stdout
    assert "render: pass time, p99 µs" in done.stdout
    assert "* closed-loop simulation" in done.stdout
    assert done.stderr == ""


def test_equal_seeds_are_one_sample():
    options = {"platform": "pixel6", "governors": ["menu", "teo"], "duration": "100ms", "seeds": 2}
    for workload, sampling in (("periodic", "exact"), ("requests", "paired")):
        result = library.simulate(workload, **options).to_dict()
        compared = result["comparison"]
        assert (compared["sampling"], compared["samples"]) == (sampling, 2)
        said = any("equal for all seeds" in note for note in result["notes"])
        assert said == (sampling == "exact")
        cells = [row["cells"][1]["change"] for row in compared["rows"]]
        has_interval = any(change and change["low"] is not None for change in cells)
        assert has_interval == (sampling == "paired")


def test_time_of_long_ticks_is_not_lost(tmp_path):
    file = tmp_path / "w.toml"
    task = 'name = "a"\ncpus = "3"\nphase = [{ run_us = 20 }, { sleep_us = 2700 }]\n'
    file.write_text(f'name = "w"\ntitle = "t"\nsource = "s"\n[[task]]\n{task}')
    options = {"governors": "menu", "duration": "500ms", "seeds": 1, "hz": 250}
    result = library.simulate(file, platform="i5-10600k,tick_handling_us=150", **options)
    (run,) = result.to_dict()["runs"]
    # The ticks that end sleeps take three times what the sum of all times may be off.
    assert run["metrics"]["tick_wakeups"] * 150 > 3 * 6_000


def test_some_cpus_are_online(torpor):
    simulate = ("simulate", "requests", "-p", "i5-10600k", "-g", "menu", *QUICK)
    done = torpor(*simulate, "--cpus", "0-3", "-v", check=0)
    assert "4 of 12 CPUs" in done.stdout
    assert "* CPU 0-3 of 12 online" in " ".join(done.stdout.split())
    result = json.loads(torpor(*simulate, "--cpus", "0-3", "--format", "json", check=0).stdout)
    assert result["options"]["cpus"] == [0, 1, 2, 3]
    assert result["options"]["given"]["cpus"] == "0-3"
    assert {c for k in result["runs"][0]["clusters"] for c in k["cpus"]} == {0, 1, 2, 3}
    wrong = torpor(*simulate, "--cpus", "10-12", check=2).stderr
    assert "cpu12" in wrong and "`i5-10600k` has CPUs 0 to 11" in wrong


def test_io_rows_need_io(torpor, tmp_path):
    asked = ("simulate", "fio-randread", "-p", "i5-10600k", "-g", "menu", *QUICK)
    done = torpor(*asked, "-v", check=0)
    for words in ("IO 1/s", "p99 IO latency µs", "IO device busy %", "CPU time per IO µs"):
        assert words in done.stdout
    mixed = tmp_path / "mixed.toml"
    mixed.write_text(
        'name = "mixed"\ntitle = "t"\nsource = "s"\n'
        '[[fio]]\nname = "reader"\ndevice = "sd"\n'
        '[[task]]\nname = "other"\nphase = [{ run_us = 5 }, { sleep_us = 300 }]\n'
    )
    table = torpor("simulate", mixed, "-p", "pixel6", "-g", "menu", *QUICK, "-v", check=0).stdout
    assert "reader: mean IO latency µs" in table
    assert "other: IO" not in table
    frames = ("simulate", "frames", "-p", "pixel6", "-g", "menu", *QUICK)
    quiet = torpor(*frames, "-v", check=0).stdout
    assert "IO" not in quiet

    result = json.loads(
        torpor(
            "simulate", mixed, "-p", "pixel6", "-g", "menu", *QUICK, "--format", "json", check=0
        ).stdout
    )
    run = result["runs"][0]
    (device,) = run["devices"]
    assert device["name"] == "sd"
    assert device["requests"] >= run["tasks"][1]["ios"] > 0
    assert 0 < device["util_pct"] <= 100


def test_an_unknown_device_lists_the_valid_ones(torpor, tmp_path):
    file = tmp_path / "w.toml"
    file.write_text('name = "w"\ntitle = "t"\nsource = "s"\n[[fio]]\nname = "j"\ndevice = "emcc"\n')
    done = torpor("simulate", file, "-p", "pixel6", check=2)
    assert "fio[0].device" in done.stderr
    assert "emmc, nvme, sd, ufs" in done.stderr
    assert "did you mean `emmc`?" in done.stderr


def test_threads_and_repetition_change_no_byte(torpor):
    arguments = ("simulate", "requests", "-p", "pixel6", *QUICK, "--format", "json")
    one = torpor(*arguments, "-j", "1", check=0).stdout
    assert one == torpor(*arguments, "-j", "2", check=0).stdout
    result = json.loads(one)
    assert [run["governor"] for run in result["runs"]] == [
        "menu",
        "teo",
        "shallowest",
        "deepest",
    ]
    assert len(result["runs"][0]["seeds"]) == 3
    assert [strip["cpu"] for strip in result["strips"]][1:] == sorted(
        cpu
        for cluster in result["platform"]["clusters"]
        for cpu in cluster["cpus"]
        if cpu != result["strips"][0]["cpu"]
    )
    assert all(strip["rows"] for strip in result["strips"])


def test_last_event_may_be_past_the_end(torpor):
    arguments = ("-p", "pixel-watch-2", "-g", "teo", "-g", "oracle", "--duration", "500ms")
    torpor("simulate", "pipe", *arguments, "--seeds", "1", check=0)


def test_each_governor_has_its_own_oracle(torpor):
    arguments = ("simulate", "requests", "-p", "pixel6", "-g", "menu", "-g", "oracle", "-g", "teo")
    result = json.loads(torpor(*arguments, *QUICK, "--format", "json", check=0).stdout)
    runs = result["runs"]
    assert [run["governor"] for run in runs] == ["menu", "teo"]
    for run in runs:
        metrics = run["metrics"]
        lost = metrics["lost_too_deep_mw"] + metrics["lost_too_shallow_mw"]
        # The rest are ticks, and sleeps that they cut.
        assert 0 < lost <= 1.05 * metrics["over_oracle_mw"] < metrics["idle_power_mw"]
    assert any("each governor's own run" in note for note in result["notes"])


def test_linked_governors_run_as_the_kernels_own(tmp_path):
    """They start at one time, and a file's process takes no image of another thread's kernel."""
    mine = tmp_path / "mine.c"
    mine.write_text((ROOT / "governors/cpuidle/menu-6.12.c").read_text())
    for _ in range(5):
        result = library.simulate(
            "periodic",
            platform="pixel6",
            governors=["menu", "menu-6.12", str(mine)],
            duration="200ms",
            seeds=2,
            threads=2,
        )
        assert [run.get("error") for run in result.to_dict()["runs"]] == [None] * 3
        own, *linked = (run["metrics"] for run in result.to_dict()["runs"])
        assert linked == [own, own]


def test_another_seed_is_another_workload(torpor):
    arguments = ("simulate", "requests", "-p", "pixel6", "-g", "menu", *QUICK, "--format", "csv")
    assert torpor(*arguments).stdout != torpor(*arguments, "--seed", "9").stdout


@pytest.mark.parametrize("name", ["run.perfetto-trace", "run.txt"])
def test_run_is_written_as_a_recording_that_replays(torpor, tmp_path, name):
    torpor("simulate", "frames", "-p", "pixel6", "-g", "teo", *QUICK, "--trace", name, check=0)
    info = torpor("trace", "info", name, check=0).stdout
    assert "wakings" in info and "hrtimers" in info
    done = torpor("replay", name, "-p", "pixel6", "-g", "teo", "--format", "csv", check=0)
    assert "nan" not in done.stdout


def test_the_report_of_a_simulation_is_a_page(torpor, tmp_path):
    arguments = ("simulate", "frames", "-p", "pixel6", *QUICK, "--report", "report.html")
    torpor(*arguments, check=0)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "frames" in page and "deepest" in page


def test_stuck_workload_names_place_and_time(torpor, tmp_path):
    (tmp_path / "stuck.toml").write_text(DEADLOCK)
    fast = ("--cpufreq", "performance")
    done = torpor("simulate", "./stuck.toml", "-p", "pixel6", "-g", "menu", *fast, *QUICK, check=2)
    assert "task `a` (0) at phase[1], 0.000" in done.stdout
    assert "deadlock" in done.stdout


def test_every_governor_runs_under_every_cpufreq_governor(torpor):
    policies = ("--cpufreq", "powersave", "--cpufreq", "schedutil,rate_limit_us=500")
    governors = ("-g", "menu", "-g", "teo")
    done = torpor(
        "simulate", "frames", "-p", "pixel6", *governors, *policies, *QUICK, "--format", "json"
    )
    result = json.loads(done.stdout)
    runs = result["runs"]
    assert result["options"]["cpufreq"] == ["powersave", "schedutil,rate_limit_us=500"]
    assert [run["governor"] for run in runs] == [
        f"{governor} + {policy}"
        for policy in result["options"]["cpufreq"]
        for governor in ("menu", "teo")
    ]
    assert [domain["freq_khz"] for domain in runs[0]["perf_domains"]] == [300000, 400000, 500000]
    assert runs[0]["metrics"]["freq_transitions_per_s"] == 0
    assert runs[2]["metrics"]["freq_transitions_per_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("framse", "-p", "pixel6"), "did you mean `frames`?"),
        (("frames", "-p", "pixel7"), "did you mean `pixel9`?"),
        (("frames", "-p", "pixel6", "-g", "oracle"), "whose run the oracle can replay"),
        (("frames", "-p", "pixel6", "--duration", "1us"), "10 ms to 30 days"),
        (
            ("frames", "-p", "pixel6", "--cpufreq", "interactive"),
            "no cpufreq governor is called `interactive`",
        ),
        (
            ("frames", "-p", "pixel6", "--cpufreq", "schedutil@6.1"),
            "hint: `--cpufreq` schedutil with `--kernel` 6.1",
        ),
        (
            ("frames", "-p", "pixel6", "--cpufreq", "./none.c"),
            "frequency policy `./none.c`: read ./none.c",
        ),
        (("frames", "-p", "pixel6", "--trace", "no/such/run.txt"), "there is no folder"),
        (("no/such.toml", "-p", "pixel6"), "read workload `no/such.toml`"),
    ],
)
def test_wrong_argument_lists_the_valid_ones(torpor, arguments, words):
    done = torpor("simulate", *arguments, check=2)
    assert words in done.stderr and done.stdout == ""


def test_crashing_governor_leaves_the_others_running(torpor, crash):
    done = torpor("simulate", "frames", "-p", "pixel6", "-g", "menu", "-g", crash, *QUICK, check=1)
    assert "crash.c failed" in done.stdout
    assert "failed" in done.stdout and "passes 1/s" in done.stdout


def test_an_interrupt_after_the_last_seed_is_raised():
    """The strips come after the seeds: nothing of the result would show that it was interrupted."""

    def interrupt(_what, done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.simulate(
            "requests",
            platform="pixel6",
            governors=["menu"],
            duration="20s",
            seeds=1,
            strip=True,
            progress=interrupt,
        )


def test_the_library_tells_means_and_differences():
    result = library.simulate(
        "requests",
        platform="pixel6",
        governors=["shallowest", "deepest"],
        duration="300ms",
        seeds=3,
    )
    assert result.failures == {} and not result.interrupted
    mean, low, high = result.differences("deepest")["task_latency_mean_us"]
    assert 0 < low < mean < high
    with pytest.raises(KeyError, match="expected one of"):
        result.metrics("teo")
    assert "requests" in repr(result)
    assert "<table" in result._repr_html_()


def test_schedutil_boosts_by_default(torpor):
    asked = ("simulate", "fio-randread", "-p", "rk3399", "-g", "teo", *QUICK)
    runs = {}
    for boosts in ((), ("iowait",), ("none",), ("none", "per-task,levels=4")):
        options = [word for boost in boosts for word in ("--io-boost", boost)]
        result = json.loads(torpor(*asked, *options, "--format", "json", check=0).stdout)
        runs[boosts] = result["runs"]
        named = [run["io_boost"] for run in result["runs"]]
        assert named == list(boosts or ["iowait"])
    assert runs[()] == runs["iowait",]
    assert [run["governor"] for run in runs["none", "per-task,levels=4"]] == [
        "teo + none",
        "teo + per-task,levels=4",
    ]
    plain, *_ = runs["none",]
    assert plain["io_boost"] == "none"
    assert plain["metrics"]["iops"] < 0.95 * runs[()][0]["metrics"]["iops"]


def test_a_boost_under_another_policy_gets_a_note(torpor):
    asked = ("simulate", "fio-randread", "-p", "rk3399", "-g", "menu", *QUICK, "-v")
    done = torpor(*asked, "--io-boost", "per-task", "--cpufreq", "performance", check=0)
    assert "only if the cpufreq governor follows utilization" in done.stdout.replace("\n  ", " ")


def test_authors_own_command_lines_are_workloads(torpor, tmp_path):
    line = "--name=a --filename=/dev/nvme0n1 --rw=randread --direct=1 --group_reporting"
    rk3399 = ("-p", "rk3399", "-g", "menu", *QUICK, "-v")
    one = torpor("simulate", "--fio", line, *rk3399, check=0).stdout
    assert "IO 1/s" in one
    assert "without meaning here: group_reporting" in " ".join(one.split())
    job = tmp_path / "job.fio"
    job.write_text(
        "[global]\nfilename=nvme\ndirect=1\n[reads]\nrw=randread\n[writes]\nrw=randwrite\n"
    )
    both = torpor("simulate", job, *rk3399, check=0).stdout
    assert "reads: mean IO latency" in both and "writes.2: mean IO latency" in both
    pipe = "perf bench sched pipe -l 1000"
    i5 = ("-p", "i5-10600k", "-g", "menu", *QUICK, "-v")
    table = torpor("simulate", pipe, *i5, check=0).stdout
    assert "ping" in table
    assert 'wake = "to-pong"' in library.workload_toml(pipe)


def test_wrong_command_line_names_the_place(torpor):
    done = torpor("simulate", "perf bench sched pipe --lop 3", "-p", "pixel6", check=2)
    assert "unknown option" in done.stderr
    assert "^^^^^" in done.stderr
    assert "--fio" in torpor("simulate", "-p", "pixel6", check=2).stderr
    both = torpor("simulate", "frames", "--fio", "--name=a", "-p", "pixel6", check=2)
    assert "WORKLOAD" in both.stderr


def test_frames_have_a_duration_and_a_deadline(tmp_path):
    load = tmp_path / "chain.toml"
    load.write_text(
        'name = "chain"\ntitle = "t"\nsource = "s"\n'
        '[[flow]]\nname = "frame"\ndeadline_us = 2600\n'
        '[[task]]\nname = "ui"\n'
        'phase = [{ begin = "frame" }, { run_us = 1000 }, { wake = "go" }, { period_us = 10000 }]\n'
        '[[task]]\nname = "draw"\nphase = [{ wait = "go" }, { run_us = 1500 }, { end = "frame" }]\n'
    )
    result = library.simulate(
        load,
        platform="i5-10600k",
        governors=["shallowest", "deepest"],
        duration="200ms",
        seeds=2,
    ).to_dict()
    shallow, deep = result["runs"]
    (flow,) = shallow["flows"]
    assert flow["name"] == "frame" and flow["deadline_ns"] == 2_600_000
    # 200 ms hold 20 frames; so do the two seeds, each.
    assert flow["begun"] == 40
    assert shallow["metrics"]["flow_mean_us"] < deep["metrics"]["flow_mean_us"]


def slept_ns(section):
    """Return each governor's and CPU's time asleep, in its strip and as counted."""
    strip = {
        (row["governor"], own["cpu"]): sum(end - start for start, end, _ in row["segments"])
        for own in section["strips"]
        for row in own["rows"]
    }
    counted = {
        (run["governor"], cpu["cpu"]): sum(state["time_ns"] for state in cpu["states"])
        for run in section["runs"]
        for cpu in run["cpus"]
    }
    return strip, counted


def test_strips_have_every_sleep_of_every_cpu():
    given = {"platform": "pixel6", "governors": ["menu", "teo"]}
    simulation = library.simulate("frames", duration="300ms", seeds=1, strip=True, **given)
    strip, counted = slept_ns(simulation.to_dict())
    assert len(strip) == 16 and strip == counted
    guest = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix" / "trace.dat.gz"
    (section,) = library.replay(str(guest), decisions=False, **given).to_dict()["traces"]
    strip, counted = slept_ns(section)
    assert len(strip) >= 4 and strip == counted


def test_workload_may_be_a_value():
    content = toml(library.workload_toml("periodic"))
    given = {"platform": "pixel6", "governors": "menu", "duration": "200ms", "seeds": 1}
    by_name, by_value = (library.simulate(each, **given) for each in ("periodic", content))
    assert by_value.metrics("menu") == by_name.metrics("menu")
    content["task"][0]["count"] = "many"
    with pytest.raises(library.WorkloadError) as error:
        library.simulate(content, **given)
    message = str(error.value)
    assert 'task[0].count = "many"' in message and ":1:" not in message


def test_a_wrong_workload_value_is_shown():
    given = {"platform": "pixel6", "governors": "menu", "duration": "10ms", "seeds": 1}
    with pytest.raises(library.WorkloadError) as error:
        library.simulate({"name": "x", "task": [3]}, **given)
    message = str(error.value)
    # A value has no text, and so no line.
    assert "task[0] = 3" in message and "title: this key is missing" in message
    assert ":1:1" not in message


def test_a_workload_that_holds_itself_is_refused():
    content = {}
    content["task"] = [content]
    with pytest.raises(library.TorporError, match="nested more than"):
        library.simulate(content, platform="pixel6", governors="menu")


CHANGED = """
name = "changed"
title = "t"
source = "s"
[[cgroup]]
name = "web"
cpu_weight = 300
[[task]]
name = "a"
cgroup = "web"
phase = [{ run_us = 50 }, { sleep_us = 2000 }]
[[change]]
at = "100ms"
scaling_max_freq_khz = 1200000
"""


def test_text_and_page_have_groups_and_changes(torpor, tmp_path):
    load, page = tmp_path / "changed.toml", tmp_path / "page.html"
    load.write_text(CHANGED)
    options = ("simulate", str(load), "-p", "pixel6", "-g", "menu", *QUICK, "--report", str(page))
    text = torpor(*options, "-v", check=0).stdout
    for table in ("By control group", "Between changes"):
        assert table in text
        assert table in page.read_text()
    assert "forbidden" not in text


def test_a_job_starts_near_its_parent(tmp_path):
    path = tmp_path / "job.toml"

    def iops(parent):
        path.write_text(
            'name = "x"\ntitle = "x"\nsource = "x"\n[[fio]]\nname = "job"\ndevice = "ufs"\n'
            + parent
        )
        done = library.simulate(
            path,
            platform="pixel6",
            governors="teo",
            cpufreq="performance",
            duration="100ms",
            seeds=1,
        )
        return done.to_dict()["runs"][0]["metrics"]["iops"]

    assert iops("parent_cpu = 6\n") > 1.3 * iops("")
    with pytest.raises(library.TorporError, match="names cpu9"):
        iops("parent_cpu = 9\n")


def test_kernel_without_energy_model_does_not_place_by_energy():
    def power(machine, **more):
        done = library.simulate(
            "requests", platform=machine, governors="teo", duration="300ms", seeds=1, **more
        )
        return done.to_dict()["runs"][0]["metrics"]["power_mw"]

    off = {"writes": "kernel.sched_energy_aware=0"}
    without = "rk3399,energy_model=false"
    assert power(without) == power(without, **off)
    assert power("rk3399") != power("rk3399", **off)


SCHEDULERS = Path(__file__).parents[2] / "crates" / "torpor-sim" / "tests" / "sched"


def test_schedulers_are_columns_with_a_note_when_ejected(torpor):
    asked = ("simulate", "frames", "-p", "pixel6", "-g", "menu", "--duration", "2s", "--seeds", "1")
    program = f"{SCHEDULERS / 'stalls.bpf.c'},nth=50"
    done = torpor(*asked, "--sched", "eevdf", "--sched", program, "--format", "json", check=0)
    if "is not on this machine" in done.stderr:
        pytest.skip("the source of Linux 6.12 is not here")
    result = json.loads(done.stdout)
    assert [run["scheduler"] for run in result["runs"]] == ["eevdf", program]
    assert [run["governor"] for run in result["runs"]] == ["menu + eevdf", f"menu + {program}"]
    (note,) = [note for note in result["notes"] if "ejected the scheduler" in note]
    assert '"stalls" disabled (runnable task stall)' in note


def test_an_unknown_scheduler_is_refused(torpor):
    done = torpor("simulate", "frames", "-p", "pixel6", "-g", "menu", "--sched", "cfs", check=2)
    assert "eevdf, or a path with `.c`" in done.stderr
